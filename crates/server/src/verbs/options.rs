//! The options of lists and watches, and which of them go together.

use crate::{ApiError, query::Query, server::Call};

/// How a list's revision is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// The newest, or whatever is there: the same thing here, for reads never wait.
    Newest,
    /// Not older than this.
    NotOlderThan(u64),
    /// Just this one.
    Exactly(u64),
}

/// `resourceVersion` as a number; absent and `0` ask for nothing in particular.
pub(super) fn revision(query: &Query) -> Result<Option<u64>, ApiError> {
    match query.get("resourceVersion") {
        None => Ok(None),
        Some(text) => {
            let wrong = || {
                ApiError::bad_request(format!("invalid resource version {text:?}: it must be a whole number"))
            };
            let revision: u64 = text.parse().map_err(|_| wrong())?;
            Ok(Some(revision))
        }
    }
}

/// What a list asks for.
pub(super) fn freshness(query: &Query) -> Result<Freshness, ApiError> {
    let revision = revision(query)?;
    let limited = query.number("limit")?.is_some_and(|limit| limit > 0);
    if query.has("sendInitialEvents") {
        return Err(ApiError::invalid_options(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        ));
    }
    match (query.get("resourceVersionMatch"), query.get("continue"), revision) {
        (Some(_), Some(_), _) => Err(ApiError::invalid_options(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden when continue is provided",
        )),
        (Some(_), None, None) => Err(ApiError::invalid_options(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        )),
        (Some("Exact"), None, Some(0)) => Err(ApiError::invalid_options(
            "resourceVersionMatch",
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        )),
        (Some("Exact"), None, Some(revision)) => Ok(Freshness::Exactly(revision)),
        (Some("NotOlderThan") | None, None, Some(0)) | (None, _, None) => Ok(Freshness::Newest),
        (None, None, Some(revision)) if limited => Ok(Freshness::Exactly(revision)),
        (Some("NotOlderThan") | None, None, Some(revision)) => Ok(Freshness::NotOlderThan(revision)),
        (Some(other), None, Some(_)) => Err(ApiError::invalid_options(
            "resourceVersionMatch",
            &format!("Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\""),
        )),
        (None, Some(_), Some(0)) => Ok(Freshness::Newest),
        (None, Some(_), Some(_)) => {
            Err(ApiError::bad_request("specifying resource version is not allowed when using continue"))
        }
    }
}

/// A get at a revision that has not come yet is refused: nobody knows when it will.
pub(super) fn no_future_revision(call: &Call<'_>) -> Result<(), ApiError> {
    let current = call.store().revision();
    match revision(&call.query)? {
        Some(wanted) if wanted > current => Err(ApiError::revision_ahead(wanted, current)),
        Some(_) | None => Ok(()),
    }
}
