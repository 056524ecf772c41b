//! The log of a container: which part of it is asked for, and who reads it.

mod line;
mod read;
mod tail;

use std::sync::Arc;

use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc;

use crate::{
    NotFound, Pods, clock,
    request::{Parameters, Place},
    respond::{self, Body},
};

/// Pieces of a log that wait for a client that is slow; each is up to 64 KiB.
const PIECES_MAX: usize = 2;

/// Which streams of a container are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LogStreams {
    #[default]
    All,
    Stdout,
    Stderr,
}

/// Which part of a log is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) follow: bool,
    pub(crate) previous: bool,
    pub(crate) timestamps: bool,
    pub(crate) since: Option<Timestamp>,
    pub(crate) tail_lines: Option<u64>,
    pub(crate) limit_bytes: Option<u64>,
    pub(crate) shown: LogStreams,
}

impl Selection {
    /// # Errors
    /// An invalid parameter, in kubelet's words.
    pub(crate) fn of(parameters: &Parameters, now: Timestamp) -> Result<Self, (StatusCode, &'static str)> {
        let undecodable = (StatusCode::BAD_REQUEST, r#"{"message": "Unable to decode query."}"#);
        let invalid = (StatusCode::UNPROCESSABLE_ENTITY, r#"{"message": "Invalid request."}"#);
        let number = |name: &str| match parameters.get(name) {
            None => Ok(None),
            Some(text) => text.parse::<i64>().map(Some).map_err(|_| undecodable),
        };
        let at_least = |name: &str, least: i64| match number(name)? {
            Some(value) if value < least => Err(invalid),
            value => Ok(value.and_then(|value| u64::try_from(value).ok())),
        };
        let seconds = at_least("sinceSeconds", 1)?;
        let time = match parameters.get("sinceTime") {
            Some(text) => Some(text.parse::<Timestamp>().map_err(|_| undecodable)?),
            None => None,
        };
        let since = match (seconds, time) {
            (Some(_), Some(_)) => return Err(invalid),
            (Some(seconds), None) => {
                let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
                Some(now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN))
            }
            (None, time) => time,
        };
        let shown = match parameters.get("stream") {
            None | Some("All") => LogStreams::All,
            Some("Stdout") => LogStreams::Stdout,
            Some("Stderr") => LogStreams::Stderr,
            Some(_) => return Err(invalid),
        };
        let tail_lines = match parameters.get("tail") {
            Some("all") => None,
            Some(_) => at_least("tail", 0)?,
            None => at_least("tailLines", 0)?,
        };
        // The last lines of one stream cannot be found without reading all of both: Kubernetes refuses that as well.
        if tail_lines.is_some() && shown != LogStreams::All {
            return Err(invalid);
        }
        Ok(Self {
            follow: parameters.flag("follow"),
            previous: parameters.flag("previous"),
            timestamps: parameters.flag("timestamps"),
            since,
            tail_lines,
            limit_bytes: at_least("limitBytes", 1)?,
            shown,
        })
    }
}

/// The log of a container, as it is read.
pub(crate) fn answer(pods: &Arc<dyn Pods>, place: &Place, parameters: &Parameters) -> Response<Body> {
    let selection = match Selection::of(parameters, clock::now()) {
        Ok(selection) => selection,
        Err((code, why)) => return respond::text(code, why),
    };
    let found = pods.find(&place.namespace, &place.pod, Some(&place.container), selection.previous);
    let found = match found {
        Ok(found) => found,
        Err(why) => return respond::text(code_of(&why), why.to_string()),
    };
    let (pieces, body) = mpsc::channel(PIECES_MAX);
    let follow = {
        let (pods, place, previous) = (Arc::clone(pods), place.clone(), selection.previous);
        let id = found.container.clone();
        move || {
            let now = pods.find(&place.namespace, &place.pod, Some(&place.container), previous);
            now.is_ok_and(|now| now.container == id && now.is_running)
        }
    };
    spawn(read::copy(found.log, selection, follow, pieces));
    let mut response = Response::new(Body::Pieces(body));
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Kubelet says 404 of a pod or container that it does not know, and 400 of one that has no log yet.
fn code_of(why: &NotFound) -> StatusCode {
    match why {
        NotFound::Unknown(_) => StatusCode::NOT_FOUND,
        NotFound::NotStarted(_) => StatusCode::BAD_REQUEST,
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the task ends when the log does, or when nobody takes it any more"
)]
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_checked_as_kubelet_does() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let read =
            |query: &str| Selection::of(&Parameters::parse(query), now).map_err(|(code, _)| code.as_u16());
        let default = Selection::default();
        let since = |text: &str| Some(text.parse().unwrap());
        for (query, expected) in [
            ("", Ok(default.clone())),
            (
                "follow=true&timestamps=true",
                Ok(Selection { follow: true, timestamps: true, ..default.clone() }),
            ),
            ("previous=true", Ok(Selection { previous: true, ..default.clone() })),
            ("sinceSeconds=60", Ok(Selection { since: since("2026-01-01T00:00:00Z"), ..default.clone() })),
            (
                "sinceTime=2025-12-31T23%3A00%3A00Z",
                Ok(Selection { since: since("2025-12-31T23:00:00Z"), ..default.clone() }),
            ),
            (
                "sinceSeconds=9223372036854775807",
                Ok(Selection { since: Some(Timestamp::MIN), ..default.clone() }),
            ),
            ("tailLines=0", Ok(Selection { tail_lines: Some(0), ..default.clone() })),
            ("tail=3", Ok(Selection { tail_lines: Some(3), ..default.clone() })),
            ("tail=all", Ok(default.clone())),
            ("limitBytes=7", Ok(Selection { limit_bytes: Some(7), ..default.clone() })),
            ("stream=Stderr", Ok(Selection { shown: LogStreams::Stderr, ..default.clone() })),
            ("sinceSeconds=x", Err(400)),
            ("sinceTime=yesterday", Err(400)),
            ("sinceSeconds=0", Err(422)),
            ("sinceSeconds=1&sinceTime=2025-12-31T23:00:00Z", Err(422)),
            ("tailLines=-1", Err(422)),
            ("limitBytes=0", Err(422)),
            ("stream=Both", Err(422)),
            ("stream=Stdout&tailLines=2", Err(422)),
        ] {
            assert_eq!(read(query), expected, "{query}");
        }
    }
}
