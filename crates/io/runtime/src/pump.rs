//! Follows one resource for ever: all there is, then what changes, and all of it again when the thread is lost.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::BodyExt;
use serde::Deserialize;
use tokio::time::Instant;
use tracing::{debug, error, warn};

use crate::{
    CallError, Client, Metrics, Object,
    call::told,
    collection::{Event, LIST_OBJECTS_MAX, TOO_MANY, get},
    lines::{LINE_BYTES_MAX, Line, Lines},
    topic::{Hurry, Topic},
};

/// Up to this number, objects are listed again rather than waited for: about a megabyte, a few tens of milliseconds for a server.
const FEW_OBJECTS_MAX: usize = 1_000;
/// The server ends a watch after this time; a watch that is silent for longer, plus a margin, is lost.
const WATCH_SECONDS: u64 = 300;
/// Of a watch that was opened in a hurry. Servers say how far they are two seconds before a watch ends.
const HURRIED_SECONDS: u64 = 3;
const SILENCE_MAX: Duration = Duration::from_secs(WATCH_SECONDS + 30);
/// For this long after the first list, objects are kept for listeners that join: the parts of a process start within a few seconds.
const KEPT: Duration = Duration::from_secs(10);
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Runs until its task is dropped.
pub(crate) async fn follow(client: Client, metrics: Metrics, topic: Arc<Topic>) {
    let mut pump =
        Pump { client, metrics, topic, version: None, streams: true, hurried: false, kept_until: None };
    let mut pause = PAUSE_MIN;
    loop {
        let before = pump.version.clone();
        match pump.turn().await {
            Ok(()) => pause = PAUSE_MIN,
            Err(error) => {
                if matches!(error, CallError::Expired(_)) {
                    pump.version = None;
                }
                if before != pump.version {
                    pause = PAUSE_MIN;
                }
                let mut known = false;
                let is_barred = matches!(error, CallError::Forbidden(_) | CallError::NotFound(_));
                if is_barred {
                    known = !pump.topic.bar(&error);
                    pump.metrics.unreadable(&pump.topic.resource, true);
                    // News from before are outdated once it can be read again.
                    pump.version = None;
                }
                let resource = pump.topic.resource.plural;
                if is_barred && !known && pump.topic.is_needed() {
                    warn!(resource, %error, "this must be read before anything is done; trying again");
                } else if !known && pause >= Duration::from_secs(1) {
                    warn!(resource, %error, "watch failed; trying again");
                } else {
                    debug!(resource, %error, "watch ended");
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}

struct Pump {
    client: Client,
    metrics: Metrics,
    topic: Arc<Topic>,
    /// The newest version heard of; `None` asks for all there is.
    version: Option<String>,
    /// Whether the server can stream a list.
    streams: bool,
    /// Whether the next watch is to say soon how far the server is.
    hurried: bool,
    /// Objects are kept until then; `None` before the first list, and afterwards.
    kept_until: Option<Instant>,
}

#[derive(Deserialize)]
struct Mark {
    metadata: MarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarkMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Failure {
    #[serde(default)]
    code: u16,
}

impl Pump {
    /// One watch, from where the last one ended; with a list before it if there was none.
    async fn turn(&mut self) -> Result<(), CallError> {
        if self.version.is_none() {
            self.metrics.listed(&self.topic.resource);
            if !self.streams {
                self.list().await?;
            }
        }
        let query = match &self.version {
            Some(version) => format!("resourceVersion={version}"),
            None => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        };
        let path = self.topic.resource.path("", "", "");
        let hurried = core::mem::take(&mut self.hurried) && self.version.is_some();
        let seconds = if hurried { HURRIED_SECONDS } else { WATCH_SECONDS };
        let uri = format!("{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&{query}");
        match self.watch(&uri).await {
            Err(CallError::Invalid(why)) if self.streams && self.version.is_none() => {
                debug!(resource = self.topic.resource.plural, why, "no streaming lists here; listing");
                self.streams = false;
                Ok(())
            }
            ended => ended,
        }
    }

    async fn list(&mut self) -> Result<(), CallError> {
        let (path, mut objects, mut unread) = (self.topic.resource.path("", "", ""), Vec::new(), None);
        let each = |json: &str| match read(&self.topic, json.as_bytes()) {
            Ok(object) => objects.push(object),
            Err(error) => unread = Some(error),
        };
        let version = self.client.list(&path, "", each).await?;
        if let Some(error) = unread {
            return Err(error);
        }
        self.metrics.unreadable(&self.topic.resource, false);
        self.listed(objects, version.parse().unwrap_or(0));
        self.version = Some(version);
        Ok(())
    }

    fn listed(&mut self, objects: Vec<Arc<Object>>, revision: u64) {
        if self.kept_until.is_none() && self.topic.keeps() {
            self.kept_until = Some(Instant::now() + KEPT);
        }
        self.topic.list(objects, revision);
    }

    async fn watch(&mut self, uri: &str) -> Result<(), CallError> {
        let mut body = tokio::select! {
            body = self.client.open(get(uri)?) => body?,
            () = self.topic.hurried.notified(), if self.version.is_some() => {
                self.hurry();
                return Ok(());
            }
        };
        let mut initial = self.version.is_none().then(Vec::new);
        let mut lines = Lines::default();
        loop {
            let frame = tokio::select! {
                frame = tokio::time::timeout(SILENCE_MAX, body.frame()) => frame,
                () = passed(self.kept_until) => {
                    self.kept_until = None;
                    self.topic.stop_keeping();
                    continue;
                }
                // Not while the first objects arrive: listing is the fastest way already.
                () = self.topic.hurried.notified(), if initial.is_none() => {
                    self.hurry();
                    return Ok(());
                }
            };
            let piece: Bytes = match frame {
                Err(_) => return Err(CallError::Unavailable("the watch fell silent".into())),
                Ok(None) => return Ok(()),
                Ok(Some(Err(error))) => return Err(CallError::Unavailable(told(&*error))),
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            };
            lines.add(&piece, |line| match line {
                Line::Whole(line) => self.event(line, &mut initial),
                Line::TooLong(bytes, begin) => {
                    self.pass_over(bytes, begin);
                    Ok(())
                }
            })?;
        }
    }

    /// An event that is too large is left out, like an object that cannot be read: the same event would come again with every watch and list.
    fn pass_over(&self, bytes: usize, begin: &[u8]) {
        let resource = self.topic.resource.plural;
        let begin = String::from_utf8_lossy(&begin[..begin.len().min(200)]).into_owned();
        error!(resource, bytes, most = LINE_BYTES_MAX, begin, "a watch event is too large and is left out");
        self.metrics.event_too_large(&self.topic.resource);
    }

    /// The watch is given up for another.
    fn hurry(&mut self) {
        match self.topic.take_hurry() {
            Some(Hurry::Soonest) if self.topic.len() > FEW_OBJECTS_MAX => self.hurried = true,
            Some(Hurry::Watch) => self.hurried = true,
            Some(Hurry::Soonest | Hurry::List) => self.version = None,
            None => {}
        }
        if self.topic.is_awaited() {
            self.version = None;
        }
    }

    fn event(&mut self, line: &[u8], initial: &mut Option<Vec<Arc<Object>>>) -> Result<(), CallError> {
        if line.is_empty() {
            return Ok(());
        }
        let event =
            Event::read(line).map_err(|error| CallError::Unavailable(format!("a damaged event: {error}")))?;
        match event.kind {
            "BOOKMARK" => {
                let Ok(mark) = serde_json::from_slice::<Mark>(event.object) else { return Ok(()) };
                let ends = mark
                    .metadata
                    .annotations
                    .get("k8s.io/initial-events-end")
                    .is_some_and(|end| end == "true");
                if ends && let Some(objects) = initial.take() {
                    self.metrics.unreadable(&self.topic.resource, false);
                    self.listed(objects, mark.metadata.resource_version.parse().unwrap_or(0));
                }
                if initial.is_none() {
                    self.topic.mark(mark.metadata.resource_version.parse().unwrap_or(0));
                    self.version = Some(mark.metadata.resource_version);
                }
            }
            "ERROR" => {
                // Not every server that begins to stream a list can: one whose etcd does not tell how far it is says so here.
                self.streams &= initial.is_none();
                let code = serde_json::from_slice::<Failure>(event.object).map_or(0, |failure| failure.code);
                return Err(CallError::of(code, event.object));
            }
            kind => {
                let object = match read(&self.topic, event.object) {
                    Ok(object) => object,
                    // A list with an object that has no name is not whole. A later event is passed over: what was said before stays.
                    Err(error) if initial.is_some() => return Err(error),
                    Err(error) => {
                        error!(resource = self.topic.resource.plural, %error, "an event is passed over");
                        return Ok(());
                    }
                };
                match (initial.as_mut(), kind) {
                    (Some(objects), _) if objects.len() >= LIST_OBJECTS_MAX => {
                        return Err(CallError::Unavailable(TOO_MANY.to_owned()));
                    }
                    (Some(objects), _) => objects.push(object),
                    (None, kind) => {
                        self.version = Some(object.resource_version.as_str().to_owned());
                        if kind == "DELETED" { self.topic.gone(object) } else { self.topic.set(object) }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Waits until then; for ever if there is no such time.
async fn passed(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// The revision that a list is as of; nought where the server does not number them.
pub(crate) fn revision_of_list(list: &[u8]) -> Result<u64, CallError> {
    let mark: Mark =
        serde_json::from_slice(list).map_err(|error| CallError::Unavailable(error.to_string()))?;
    Ok(mark.metadata.resource_version.parse().unwrap_or(0))
}

fn read(topic: &Topic, text: &[u8]) -> Result<Arc<Object>, CallError> {
    match Object::new(&topic.resource, text) {
        Ok(object) => Ok(Arc::new(object.kept_in(&topic.cache))),
        Err(error) => Err(CallError::Unavailable(format!(
            "the metadata of an object of {} cannot be read: {error}",
            topic.resource.plural
        ))),
    }
}
