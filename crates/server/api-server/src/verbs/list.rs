//! Lists: all of a collection, or a page of it.

mod page;
mod stream;

use std::{sync::Arc, time::Duration};

use lazaret_json::{Map, Value};
use lazaret_storage::{Item, RangeOptions, ReadError};

use self::{page::Page, stream::ListText};
use super::options::{Freshness, freshness};
use crate::{
    ApiError, Body, call::Call, continuation::Continuation, object, respond::Answer, selector::Selector,
};

/// How long a list waits for a revision that has not come yet.
const AHEAD_WAIT: Duration = Duration::from_secs(3);
/// After looking at this number of bytes of objects a list yields: they may have to be parsed, which takes some 0.2 ms.
const TURN_BYTES: usize = 32 << 10;

pub(super) async fn list(call: &Call<'_>) -> Result<Answer, ApiError> {
    let page = read(call).await?;
    let meta = list_meta(&page);
    let mut text = ListText::new(call, page, &meta);
    // A list that fits into one piece has a length from the beginning, which spares both ends the framing.
    Ok(if text.is_short() {
        Answer::json(200, text.whole())
    } else {
        Answer::stream(Body::Stream(Box::new(text)))
    })
}

/// Reads the page that a call asks for.
pub(super) async fn read(call: &Call<'_>) -> Result<Page, ApiError> {
    let selector =
        Selector::parse(&call.kind, call.query.get("labelSelector"), call.query.get("fieldSelector"))?;
    let limit = usize::try_from(call.query.number("limit")?.unwrap_or(0)).ok().filter(|limit| *limit > 0);
    let freshness = freshness(&call.query)?;
    let token = call.query.get("continue").map(Continuation::decode).transpose()?;
    let prefix = object::key(&call.kind, &call.target.namespace, "");
    let at = match (&token, freshness) {
        (Some(token), _) => token.revision,
        (None, Freshness::Newest) => None,
        (None, Freshness::Exactly(revision)) => {
            reach(call, revision).await?;
            Some(revision)
        }
        (None, Freshness::NotOlderThan(revision)) => {
            reach(call, revision).await?;
            None
        }
    };
    if let Some(token) = &token
        && !token.after.starts_with(&prefix)
    {
        return Err(ApiError::bad_request("invalid continue token: it belongs to another list"));
    }
    let after = token.map(|token| token.after);
    scan(call, &selector, &prefix, at, after, limit).await
}

/// Waits a little for a revision that has not come yet.
pub(super) async fn reach(call: &Call<'_>, revision: u64) -> Result<(), ApiError> {
    let store = call.store();
    if store.revision() < revision && tokio::time::timeout(AHEAD_WAIT, store.reached(revision)).await.is_err()
    {
        return Err(ApiError::revision_ahead(revision, store.revision()));
    }
    Ok(())
}

async fn scan(
    call: &Call<'_>,
    selector: &Selector,
    prefix: &str,
    at: Option<u64>,
    after: Option<String>,
    limit: Option<usize>,
) -> Result<Page, ApiError> {
    let mut options = RangeOptions { at, limit: None, after: after.map(Into::into) };
    if selector.is_everything() {
        options.limit = limit;
        let range =
            call.store().range(prefix.as_bytes(), &options).map_err(|error| expired(&options, error))?;
        let next =
            range.items.last().filter(|_| range.remaining > 0).map(|last| follow(range.revision, last));
        let remaining = next.is_some().then_some(range.remaining);
        return Ok(Page { items: range.items, revision: range.revision, next, remaining });
    }
    // Selected objects are known only after looking: read on until the page is full.
    let range = call.store().range(prefix.as_bytes(), &options).map_err(|error| expired(&options, error))?;
    let mut items = Vec::new();
    let mut next = None;
    let mut looked_at_bytes = 0;
    for item in range.items {
        looked_at_bytes += item.value.len();
        if looked_at_bytes >= TURN_BYTES {
            looked_at_bytes = 0;
            tokio::task::yield_now().await;
        }
        if !selector.matches(&call.kind, &call.server.object_cache().get(&item)) {
            continue;
        }
        if limit.is_some_and(|limit| items.len() == limit) {
            next = items.last().map(|last: &Arc<Item>| follow(range.revision, last));
            break;
        }
        items.push(item);
    }
    Ok(Page { items, revision: range.revision, next, remaining: None })
}

fn follow(revision: u64, last: &Item) -> Continuation {
    Continuation { revision: Some(revision), after: String::from_utf8_lossy(&last.key).into_owned() }
}

fn expired(options: &RangeOptions, error: ReadError) -> ApiError {
    match error {
        ReadError::Compacted { .. } => ApiError::expired(format!(
            "The provided continue parameter is too old to display a consistent list result. The revision {} is no longer kept.",
            options.at.unwrap_or_default()
        )),
        other => ApiError::internal(other),
    }
}

fn list_meta(page: &Page) -> Value {
    let mut meta = Map::new();
    meta.insert("resourceVersion", page.revision.to_string().into());
    if let Some(next) = &page.next {
        meta.insert("continue", next.encode().into());
    }
    if let Some(remaining) = page.remaining {
        meta.insert("remainingItemCount", remaining.into());
    }
    Value::Object(meta)
}
