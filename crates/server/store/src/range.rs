//! Reads of many keys, now or at a past revision.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazaret_storage::{Event, Item, Key};

use crate::index::{Index, Position};

/// A stretch of one version of the index.
pub(crate) struct Span<'a> {
    index: &'a Index,
    from: Position,
    to: Position,
}

impl<'a> Span<'a> {
    pub(crate) fn new(index: &'a Index, prefix: &[u8], after: Option<&Key>) -> Span<'a> {
        let from = match after {
            Some(key) if **key >= *prefix => index.seek_after(key),
            Some(_) | None => index.seek(prefix),
        };
        Span { index, from, to: index.seek_prefix_end(prefix) }
    }

    pub(crate) fn count(&self) -> usize {
        self.index.count(self.from, self.to)
    }

    /// The first `limit` items, and how many follow them.
    pub(crate) fn page(&self, limit: usize) -> (Vec<Arc<Item>>, usize) {
        let count = self.count();
        let mut items = Vec::with_capacity(count.min(limit));
        items.extend(self.index.iter(self.from, self.to).take(limit).cloned());
        let remaining = count - items.len();
        (items, remaining)
    }
}

/// Undoes events of a prefix, given newest first: the index as it was before them, as far as that prefix goes.
pub(crate) fn undo(index: &mut Index, newest_first: &[Arc<Event>]) {
    // The oldest change of a key tells what it held before all of them.
    let before: BTreeMap<&Key, &Option<Arc<Item>>> =
        newest_first.iter().map(|event| (&event.key, &event.old)).collect();
    for (key, old) in before {
        index.set(key, old.clone());
    }
}
