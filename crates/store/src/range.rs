//! Reads of many keys, now or at a past revision.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::index::{Index, Position};
use crate::item::{Event, Item, Key};

/// Which part of a prefix to read, and when.
#[derive(Debug, Clone, Default)]
pub struct RangeOptions {
    /// The revision to read at; `None` reads the newest.
    pub at: Option<u64>,
    /// At most so many items; `None` reads all.
    pub limit: Option<usize>,
    /// Only keys greater than this one: the last key of the page before.
    pub after: Option<Key>,
}

/// A page of items, ascending by key.
#[derive(Debug, Clone)]
pub struct Range {
    /// The items.
    pub items: Vec<Arc<Item>>,
    /// The revision they were read at: where the next page must be read, and where a watch continues.
    pub revision: u64,
    /// How many more items of the prefix follow the last one.
    pub remaining: usize,
}

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

    /// The same as it was before some events: their old items in place of whatever is there now.
    pub(crate) fn page_before(&self, undo: &Undo, limit: usize) -> (Vec<Arc<Item>>, usize) {
        let changed_now = undo.keys().filter(|key| self.index.get(key).is_some()).count();
        let changed_then = undo.values().flatten().count();
        let count = self.count() - changed_now + changed_then;

        let mut items = Vec::with_capacity(count.min(limit));
        let mut now = self.index.iter(self.from, self.to).peekable();
        let mut then = undo.iter().peekable();
        while items.len() < limit {
            let order = match (now.peek(), then.peek()) {
                (Some(item), Some((key, _))) => item.key.cmp(key),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            if order.is_le() {
                let item = now.next();
                if order.is_lt() {
                    items.extend(item.cloned());
                    continue;
                }
            }
            items.extend(then.next().and_then(|(_, old)| old.clone()));
        }
        let remaining = count - items.len();
        (items, remaining)
    }
}

/// What each changed key held before the changes.
pub(crate) type Undo = BTreeMap<Key, Option<Arc<Item>>>;

/// Collects what undoes `events` (given newest first) for the keys of a stretch.
pub(crate) fn undo<'e>(
    newest_first: impl Iterator<Item = &'e Arc<Event>>,
    prefix: &[u8],
    after: Option<&Key>,
) -> Undo {
    newest_first
        .filter(|event| event.key.starts_with(prefix) && after.is_none_or(|after| event.key > *after))
        .map(|event| (event.key.clone(), event.old.clone()))
        .collect()
}
