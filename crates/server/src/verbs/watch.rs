//! Watches: what changes from a revision on, without gap and without repeat.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use lazaret_kinds::Served;
use lazaret_store::{Event, Item, RangeOptions, Watch, WatchError};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{list, options};
use crate::{
    ApiError, Body, kind_ref::KindRef, metrics::OpenWatch, negotiate::Form, object, request::Verb,
    respond::Answer, selector::Selector, server::Call, table,
};

/// Chunks that wait for a slow client before it is dropped.
const BACKLOG_CHUNKS: usize = 128;
/// A client that takes nothing for so long is dropped.
const STALL: Duration = Duration::from_secs(30);
/// A watch without a limit of its own ends after this; clients begin again where they were.
const DEFAULT_SECONDS: u64 = 2_700;
/// No watch lasts longer, whatever it asks for.
const SECONDS_MAX: u64 = 24 * 3_600;
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A last bookmark comes so long before the end, so that the client can begin again from there.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Events that are sent in one chunk at most.
const EVENTS_PER_CHUNK: usize = 64;

/// What a watch sends, and to whom.
struct Stream {
    kind: KindRef,
    served: Served,
    selector: Selector,
    form: Form,
    bookmarks: bool,
    table_begun: bool,
    columns: Value,
    open: OpenWatch,
    out: mpsc::Sender<Bytes>,
}

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
    let (out, chunks) = mpsc::channel(BACKLOG_CHUNKS);
    let prefix = object::key(&call.kind, &call.target.namespace, "");
    let mut stream = Stream {
        kind: call.kind.clone(),
        served: call.served.clone(),
        selector,
        form: call.form,
        bookmarks: call.query.flag("allowWatchBookmarks")?,
        table_begun: false,
        columns: table::column_definitions(&call.kind),
        open: call.server.metrics().begin_watch(&call.subject(Verb::Watch)),
        out,
    };
    let (backlog, from) = match initial {
        Initial::All => {
            let range = call.store().range(&prefix, &RangeOptions::default()).map_err(ApiError::internal)?;
            (range.items, range.revision)
        }
        Initial::None => {
            (Vec::new(), revision.filter(|revision| *revision > 0).unwrap_or_else(|| call.store().revision()))
        }
    };
    let end_marker = initial == Initial::All && stream.bookmarks && call.query.flag("sendInitialEvents")?;
    let started = call.store().watch(prefix, from);
    let context_call = table::Clock::new(call);
    let ending = call.server.ending();
    spawn(async move {
        let watch = match started {
            Ok(watch) => watch,
            Err(error) => return stream.fail(&too_old(&error, from)).await,
        };
        if stream.begin(&backlog, from, end_marker, &context_call).await.is_some() {
            drop(backlog);
            stream.follow(watch, deadline, ending, &context_call).await;
        }
    });
    Ok(Answer::stream(Body::Stream(chunks)))
}

/// Tasks of watches end with their client or their deadline; nobody waits for them.
#[allow(clippy::disallowed_methods, reason = "the one place where this crate starts tasks")]
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
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

/// Waits until watches are to end, or the server is gone.
async fn ended(ending: &mut tokio::sync::watch::Receiver<bool>) {
    let _ = ending.wait_for(|ending| *ending).await;
}

fn too_old(error: &WatchError, from: u64) -> ApiError {
    match error {
        WatchError::Compacted { oldest, .. } => {
            ApiError::expired(format!("too old resource version: {from} ({oldest})"))
        }
        other => ApiError::internal(other),
    }
}

impl Stream {
    /// Sends what is there. `None` when the client is gone.
    async fn begin(
        &mut self,
        items: &[Arc<Item>],
        revision: u64,
        end_marker: bool,
        clock: &table::Clock,
    ) -> Option<()> {
        for chunk in items.chunks(EVENTS_PER_CHUNK) {
            let mut text = Vec::new();
            for item in chunk {
                if self.selector.is_everything()
                    || self.selector.matches(&self.kind, &object::decode(&item.value))
                {
                    self.frame("ADDED", &item.value, &mut text, clock);
                }
            }
            self.send(text).await?;
        }
        if end_marker {
            self.bookmark(revision, true).await?;
        }
        Some(())
    }

    async fn follow(
        &mut self,
        mut watch: Watch,
        deadline: Instant,
        mut ending: tokio::sync::watch::Receiver<bool>,
        clock: &table::Clock,
    ) {
        let mut bookmark_at = (Instant::now() + BOOKMARK_EVERY).min(deadline - BOOKMARK_BEFORE_END);
        loop {
            let event = tokio::select! {
                event = watch.next() => event,
                () = sleep_until(deadline) => return,
                () = sleep_until(bookmark_at), if self.bookmarks => {
                    let revision = watch.progress();
                    if self.bookmark(revision, false).await.is_none() {
                        return;
                    }
                    let next = Instant::now() + BOOKMARK_EVERY;
                    bookmark_at = if bookmark_at + BOOKMARK_BEFORE_END >= deadline { deadline + BOOKMARK_EVERY } else { next.min(deadline - BOOKMARK_BEFORE_END) };
                    continue;
                }
                () = self.out.closed() => return,
                () = ended(&mut ending) => return,
            };
            let mut text = Vec::new();
            let event = match event {
                Ok(event) => event,
                Err(error) => return self.fail(&too_old(&error, watch.progress())).await,
            };
            self.event(&event, &mut text, clock);
            // What has piled up meanwhile goes in one piece. A failure shows again at the next look.
            for _ in 1..EVENTS_PER_CHUNK {
                let Ok(Some(next)) = watch.try_next() else { break };
                self.event(&next, &mut text, clock);
            }
            if self.send(text).await.is_none() {
                return;
            }
        }
    }

    /// One change, as this watch sees it through its selector.
    fn event(&mut self, event: &Event, text: &mut Vec<u8>, clock: &table::Clock) {
        let seen = |item: &Option<Arc<Item>>| {
            item.as_ref().is_some_and(|item| {
                self.selector.is_everything()
                    || self.selector.matches(&self.kind, &object::decode(&item.value))
            })
        };
        match (seen(&event.old), seen(&event.new), &event.old, &event.new) {
            (false, true, _, Some(new)) => self.frame("ADDED", &new.value, text, clock),
            (true, true, _, Some(new)) => self.frame("MODIFIED", &new.value, text, clock),
            (true, false, Some(old), _) => {
                self.frame("DELETED", &object::restamped(&old.value, event.revision), text, clock)
            }
            _ => {}
        }
    }

    fn frame(&mut self, name: &str, stored: &Bytes, text: &mut Vec<u8>, clock: &table::Clock) {
        self.open.event();
        text.extend_from_slice(format!(r#"{{"type":"{name}","object":"#).as_bytes());
        match self.form {
            Form::Json | Form::AggregatedDiscovery => {
                let object = object::in_version(&self.kind, &self.served, stored);
                text.extend_from_slice(&object::typed(&self.kind, &self.served.version, &object));
            }
            Form::Table => {
                let columns = if self.table_begun { Value::Null } else { self.columns.clone() };
                self.table_begun = true;
                text.extend_from_slice(
                    clock
                        .table_row(&self.kind, &object::decode_whole(stored), columns)
                        .to_string()
                        .as_bytes(),
                );
            }
            Form::Metadata => text
                .extend_from_slice(table::metadata_of(&object::decode_whole(stored)).to_string().as_bytes()),
        }
        text.extend_from_slice(b"}\n");
    }

    async fn bookmark(&mut self, revision: u64, end_of_initial: bool) -> Option<()> {
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if end_of_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.form {
            Form::Json | Form::AggregatedDiscovery => {
                json!({"kind": self.kind.kind, "apiVersion": self.kind.api_version(&self.served.version), "metadata": metadata})
            }
            Form::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            Form::Table => {
                let row = json!({"cells": [], "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}});
                json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": revision.to_string()}, "columnDefinitions": null, "rows": [row]})
            }
        };
        self.send(format!("{}\n", json!({"type": "BOOKMARK", "object": object})).into_bytes()).await
    }

    async fn fail(&mut self, error: &ApiError) {
        let event = json!({"type": "ERROR", "object": error.to_status()});
        // The stream ends either way.
        let _ = self.send(format!("{event}\n").into_bytes()).await;
    }

    /// `None` when the client is gone or takes nothing.
    async fn send(&mut self, text: Vec<u8>) -> Option<()> {
        if text.is_empty() {
            return Some(());
        }
        self.out.send_timeout(text.into(), STALL).await.ok()
    }
}
