//! A list as text, rendered piece by piece as the client takes it: what waits for a slow client are references to objects that the
//! store holds anyway, never their text.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use lazaret_json::Value;
use lazaret_kinds::Served;
use lazaret_storage::Item;

use super::page::Page;
use crate::{body::Chunks, call::Call, kind_ref::KindRef, negotiate::Form, object, table};

/// A piece is sent when it is this long.
const PIECE_BYTES: usize = 64 << 10;

/// The rest of a list.
pub(super) struct ListText {
    kind: KindRef,
    served: Served,
    form: Form,
    clock: table::Clock,
    /// The text before the first object.
    head: String,
    items: std::vec::IntoIter<Arc<Item>>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Beginning,
    Middle,
    Ended,
}

impl ListText {
    pub(super) fn new(call: &Call<'_>, page: Page, meta: &Value) -> Self {
        let head = match call.form {
            Form::Json | Form::AggregatedDiscovery => format!(
                r#"{{"kind":{},"apiVersion":{},"metadata":{meta},"items":["#,
                object::quoted(&call.kind.list_kind),
                object::quoted(&call.kind.api_version(&call.served.version)),
            ),
            Form::Table => format!(
                r#"{{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{meta},"columnDefinitions":{},"rows":["#,
                table::column_definitions(&call.kind)
            ),
            Form::Metadata => format!(
                r#"{{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{meta},"items":["#
            ),
        };
        Self {
            kind: call.kind.clone(),
            served: call.served.clone(),
            form: call.form,
            clock: table::Clock::new(call),
            head,
            items: page.items.into_iter(),
            phase: Phase::Beginning,
        }
    }

    /// Whether all of it is no longer than a piece, as far as the stored text says.
    pub(super) fn is_short(&self) -> bool {
        self.items.as_slice().iter().map(|item| item.value.len()).sum::<usize>() < PIECE_BYTES
    }

    /// All that is left, at once.
    pub(super) fn whole(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        self.write(usize::MAX, &mut text);
        text
    }

    /// Adds to `text` until it is this long, or the list ends.
    fn write(&mut self, bytes: usize, text: &mut Vec<u8>) {
        let mut separator = self.phase == Phase::Middle;
        if self.phase == Phase::Beginning {
            text.extend_from_slice(self.head.as_bytes());
            self.phase = Phase::Middle;
        }
        while text.len() < bytes {
            let Some(item) = self.items.next() else {
                text.extend_from_slice(b"]}");
                self.phase = Phase::Ended;
                return;
            };
            if separator {
                text.push(b',');
            }
            separator = true;
            self.write_item(&item, text);
        }
    }

    fn write_item(&self, item: &Item, text: &mut Vec<u8>) {
        match self.form {
            Form::Json | Form::AggregatedDiscovery => {
                text.extend_from_slice(&object::in_version(&self.kind, &self.served, &item.value));
            }
            Form::Table => {
                let row = self.clock.row(&self.kind, &object::decode_whole(&item.value));
                text.extend_from_slice(row.to_string().as_bytes());
            }
            Form::Metadata => {
                let metadata = table::metadata_of(&object::decode_whole(&item.value));
                text.extend_from_slice(metadata.to_string().as_bytes());
            }
        }
    }
}

impl Chunks for ListText {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.phase == Phase::Ended {
            return Poll::Ready(None);
        }
        let mut text = Vec::with_capacity(PIECE_BYTES + self.next_bytes());
        self.write(PIECE_BYTES, &mut text);
        Poll::Ready(Some(text.into()))
    }

    fn retained_bytes(&self) -> usize {
        size_of_val(self.items.as_slice())
    }

    fn next_bytes(&self) -> usize {
        self.items.as_slice().first().map_or(0, |item| item.value.len())
    }
}
