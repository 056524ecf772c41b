//! Watches: what changes from a revision on, without gap and without repeat.

mod frames;
mod stream;

use std::time::Duration;

use lazaret_store::RangeOptions;
use tokio::time::Instant;

use self::{
    frames::Frames,
    stream::{Stream, Times},
};
use super::{list, options};
use crate::{ApiError, Body, object, respond::Answer, selector::Selector, server::Call};

/// A watch without a limit of its own ends after this; clients begin again where they were.
const DEFAULT_SECONDS: u64 = 2_700;
/// No watch lasts longer, whatever it asks for.
const SECONDS_MAX: u64 = 24 * 3_600;

pub(super) async fn watch(call: &Call<'_>) -> Result<Answer, ApiError> {
    let mut selector =
        Selector::parse(&call.kind, call.query.get("labelSelector"), call.query.get("fieldSelector"))?;
    if !call.target.name.is_empty() {
        selector = selector.with_name(&call.target.name);
    }
    let revision = options::revision(&call.query)?;
    let initial = initial_events(call, revision)?;
    let seconds = call
        .query
        .number("timeoutSeconds")?
        .and_then(|seconds| u64::try_from(seconds).ok())
        .filter(|seconds| *seconds > 0);
    let deadline = Instant::now() + Duration::from_secs(seconds.unwrap_or(DEFAULT_SECONDS).min(SECONDS_MAX));
    if initial == Initial::All
        && let Some(revision) = revision
    {
        list::reach(call, revision).await?;
    }
    let prefix = object::key(&call.kind, &call.target.namespace, "");
    let bookmarks = call.query.flag("allowWatchBookmarks")?;
    let (backlog, from) = match initial {
        Initial::All => {
            let range = call.store().range(&prefix, &RangeOptions::default()).map_err(ApiError::internal)?;
            (range.items, range.revision)
        }
        Initial::None => {
            (Vec::new(), revision.filter(|revision| *revision > 0).unwrap_or_else(|| call.store().revision()))
        }
    };
    let end_marker = initial == Initial::All && bookmarks && call.query.flag("sendInitialEvents")?;
    let watch = call.store().watch(prefix, from);
    let times = Times::new(deadline, bookmarks, call.server.ending());
    let stream =
        Stream::new(Frames::new(call, selector), watch, from, times).beginning_with(backlog, end_marker);
    Ok(Answer::stream(Body::Stream(Box::new(stream))))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Initial {
    /// Begin with what is there.
    All,
    /// Begin after the revision.
    None,
}

fn initial_events(call: &Call<'_>, revision: Option<u64>) -> Result<Initial, ApiError> {
    let asked = call.query.has("sendInitialEvents");
    let matching = call.query.get("resourceVersionMatch");
    if call.query.get("continue").is_some() {
        return Err(ApiError::invalid_options("continue", "continue is forbidden for watch"));
    }
    match (asked, matching) {
        (true, Some("NotOlderThan")) if call.query.flag("sendInitialEvents")? => Ok(Initial::All),
        (true, Some("NotOlderThan")) => Ok(Initial::None),
        (true, _) => Err(ApiError::invalid_options(
            "resourceVersionMatch",
            "sendInitialEvents requires resourceVersionMatch=NotOlderThan",
        )),
        (false, Some(_)) => Err(ApiError::invalid_options(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        )),
        (false, None) if revision.is_none_or(|revision| revision == 0) => Ok(Initial::All),
        (false, None) => Ok(Initial::None),
    }
}
