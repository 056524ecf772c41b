//! Watches: what changes from a revision on, without gap and without repeat.

mod frames;
mod stream;

use std::time::Duration;

use lazaret_storage::RangeOptions;
use tokio::time::Instant;

use self::{
    frames::Frames,
    stream::{Stream, Times},
};
use super::{list, options, options::Initial};
use crate::{ApiError, Body, call::Call, object, respond::Answer, selector::Selector};

/// A watch without a limit of its own ends after this; clients begin again where they were.
const DEFAULT_SECONDS: u64 = 2_700;
/// No watch lasts longer, whatever it asks for.
const SECONDS_MAX: u64 = 24 * 3_600;

pub(super) async fn watch(call: &Call<'_>) -> Result<Answer, ApiError> {
    let mut selector =
        Selector::parse(&call.kind, call.query.get("labelSelector"), call.query.get("fieldSelector"))?;
    if !call.target.name.is_empty() {
        selector = selector.with_name(&call.target.name)?;
    }
    let revision = options::revision(&call.query)?;
    let initial = options::initial(&call.query, revision);
    let seconds = call
        .query
        .number("timeoutSeconds")?
        .and_then(|seconds| u64::try_from(seconds).ok())
        .filter(|seconds| *seconds > 0);
    let deadline = Instant::now() + Duration::from_secs(seconds.unwrap_or(DEFAULT_SECONDS).min(SECONDS_MAX));
    // Once a watch is accepted, errors are sent in the stream.
    let reached = match revision.filter(|_| initial == Initial::All) {
        Some(revision) => list::reach(call, revision).await,
        None => Ok(()),
    };
    let prefix = object::key(&call.kind, &call.target.namespace, "");
    let bookmarks = call.query.flag("allowWatchBookmarks");
    let (backlog, from) = match initial {
        Initial::All => {
            let range = call
                .store()
                .range(prefix.as_bytes(), &RangeOptions::default())
                .map_err(ApiError::internal)?;
            (range.items, range.revision)
        }
        Initial::None => {
            (Vec::new(), revision.filter(|revision| *revision > 0).unwrap_or_else(|| call.store().revision()))
        }
    };
    let end_marker = initial == Initial::All && bookmarks && call.query.flag("sendInitialEvents");
    let watch = match reached {
        Ok(()) => call.store().watch(prefix.into(), from).map_err(|error| stream::too_old(&error, from)),
        Err(error) => Err(error),
    };
    let times = Times::new(deadline, bookmarks, call.server.ending());
    let stream =
        Stream::new(Frames::new(call, selector), watch, from, times).beginning_with(backlog, end_marker);
    Ok(Answer::stream(Body::Stream(Box::new(stream))))
}
