//! The text of a watch's events: one object a line, in the form and version that were asked for.

use std::sync::Arc;

use bytes::Bytes;
use lazaret_json::{Value, json};
use lazaret_kinds::Served;
use lazaret_storage::{Event, Item};

use crate::{
    ApiError, Server,
    call::Call,
    kind_ref::KindRef,
    metrics::OpenWatch,
    negotiate::Form,
    object,
    recent_events::{FrameKey, RecentEvent},
    request::Verb,
    selector::Selector,
    table,
};

/// The form in which a watch shows events.
pub(super) struct Frames {
    server: Server,
    kind: KindRef,
    served: Served,
    api_version: Arc<str>,
    selector: Selector,
    form: Form,
    table_begun: bool,
    columns: Value,
    clock: table::Clock,
    open: OpenWatch,
}

impl Frames {
    pub(super) fn new(call: &Call<'_>, selector: Selector) -> Self {
        Self {
            server: call.server.clone(),
            kind: call.kind.clone(),
            api_version: call.kind.api_version(&call.served.version).into(),
            served: call.served.clone(),
            selector,
            form: call.form,
            table_begun: false,
            columns: table::column_definitions(&call.kind),
            clock: table::Clock::new(call),
            open: call.server.metrics().begin_watch(&call.user.name, &call.subject(Verb::Watch)),
        }
    }

    /// Objects that were there, until the text is this long or as much was looked at.
    pub(super) fn initial(&mut self, items: impl Iterator<Item = Arc<Item>>, bytes: usize) -> Bytes {
        let mut text = Vec::new();
        let mut looked_at_bytes = 0;
        for item in items {
            if self.selector.is_everything()
                || self.selector.matches(&self.kind, &object::decode(&item.value))
            {
                self.open.event();
                self.write("ADDED", &item.value, &mut text);
            }
            looked_at_bytes += item.value.len();
            if text.len().max(looked_at_bytes) >= bytes {
                break;
            }
        }
        text.into()
    }

    /// One change, as this watch sees it through its selector; empty when it does not.
    pub(super) fn event(&mut self, event: &Arc<Event>) -> Bytes {
        let seen = self.server.recent_events().get(event);
        let Some((name, stored)) = self.change(event, &seen) else { return Bytes::new() };
        self.open.event();
        if !matches!(self.form, Form::Json) {
            let mut text = Vec::new();
            self.write(name, &stored, &mut text);
            return text.into();
        }
        let key = FrameKey { name, api_version: self.api_version.clone() };
        seen.frame(&key, || {
            let mut text = Vec::with_capacity(stored.len() + 128);
            self.write(name, &stored, &mut text);
            text.into()
        })
    }

    fn change(&self, event: &Event, seen: &RecentEvent) -> Option<(&'static str, Bytes)> {
        let shows =
            |object: Option<&Value>| object.is_some_and(|object| self.selector.matches(&self.kind, object));
        let (before, after) = if self.selector.is_everything() {
            (event.old.is_some(), event.new.is_some())
        } else {
            (shows(seen.old()), shows(seen.new_object()))
        };
        match (before, after, &event.old, &event.new) {
            (false, true, _, Some(new)) => Some(("ADDED", new.value.clone())),
            (true, true, _, Some(new)) => Some(("MODIFIED", new.value.clone())),
            (true, false, Some(old), _) => Some(("DELETED", object::restamped(&old.value, event.revision))),
            _ => None,
        }
    }

    fn write(&mut self, name: &str, stored: &Bytes, text: &mut Vec<u8>) {
        text.extend_from_slice(br#"{"type":""#);
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(br#"","object":"#);
        match self.form {
            Form::Json | Form::AggregatedDiscovery => {
                let object = object::in_version(&self.kind, &self.served, stored);
                text.extend_from_slice(&object::typed(&self.kind, &self.served.version, &object));
            }
            Form::Table => {
                let columns = if self.table_begun { Value::Null } else { self.columns.clone() };
                self.table_begun = true;
                let row = self.clock.table_row(&self.kind, &object::decode_whole(stored), columns);
                text.extend_from_slice(row.to_string().as_bytes());
            }
            Form::Metadata => {
                text.extend_from_slice(
                    table::metadata_of(&object::decode_whole(stored)).to_string().as_bytes(),
                );
            }
        }
        text.extend_from_slice(b"}\n");
    }

    /// The progress of the watch; with a mark when all existing objects are sent.
    pub(super) fn bookmark(&self, revision: u64, end_of_initial: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if end_of_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.form {
            Form::Json | Form::AggregatedDiscovery => {
                json!({"kind": self.kind.kind, "apiVersion": *self.api_version, "metadata": metadata})
            }
            Form::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            Form::Table => {
                let row = json!({"cells": [], "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}});
                json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": revision.to_string()}, "columnDefinitions": null, "rows": [row]})
            }
        };
        line(&json!({"type": "BOOKMARK", "object": object}))
    }

    /// Why there will be no more.
    pub(super) fn failure(&self, error: &ApiError) -> Bytes {
        line(&json!({"type": "ERROR", "object": error.to_status()}))
    }
}

fn line(event: &Value) -> Bytes {
    format!("{event}\n").into()
}
