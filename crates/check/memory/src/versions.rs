//! Every version of every key since the oldest revision that may be named, and the events between.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use lazaret_storage::{
    Action, Committed, Event, Expect, Item, Key, Op, Range, RangeOptions, ReadError, TxnError,
};

/// A version of a key: since which revision it holds which item.
type Version = (u64, Option<Arc<Item>>);

#[derive(Debug)]
pub(crate) struct Versions {
    /// Ascending by revision.
    by_key: BTreeMap<Key, Vec<Version>>,
    /// Every event after `oldest`, ascending.
    events: VecDeque<Arc<Event>>,
    revision: u64,
    oldest: u64,
}

impl Versions {
    /// The first revision is 1: an empty list has a revision too, and zero means none.
    pub(crate) fn new() -> Versions {
        Versions { by_key: BTreeMap::new(), events: VecDeque::new(), revision: 1, oldest: 1 }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn oldest(&self) -> u64 {
        self.oldest
    }

    pub(crate) fn events(&self) -> &VecDeque<Arc<Event>> {
        &self.events
    }

    /// The items at a revision, ascending by key.
    fn items_at(&self, revision: u64) -> impl Iterator<Item = &Arc<Item>> {
        self.by_key.values().filter_map(move |versions| {
            let version = versions.iter().rev().find(|(since, _)| *since <= revision)?;
            version.1.as_ref()
        })
    }

    /// The items now, ascending by key.
    pub(crate) fn items(&self) -> impl Iterator<Item = &Arc<Item>> {
        self.items_at(self.revision)
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Arc<Item>> {
        self.by_key.get(key)?.last()?.1.as_ref()
    }

    pub(crate) fn range(&self, prefix: &[u8], options: &RangeOptions) -> Result<Range, ReadError> {
        let (asked, oldest) = (options.at.unwrap_or(self.revision), self.oldest);
        if asked < oldest {
            return Err(ReadError::Compacted { asked, oldest });
        }
        if asked > self.revision {
            return Err(ReadError::Future { asked, current: self.revision });
        }
        let is_after = |key: &Key| options.after.as_ref().is_none_or(|after| key > after);
        let matching =
            self.items_at(asked).filter(|item| item.key.starts_with(prefix) && is_after(&item.key));
        let mut items: Vec<_> = matching.cloned().collect();
        let page = items.len().min(options.limit.unwrap_or(usize::MAX));
        let remaining = items.split_off(page).len();
        Ok(Range { items, revision: asked, remaining })
    }

    /// Applies a transaction whole or not at all.
    pub(crate) fn apply(&mut self, ops: &[Op]) -> Result<Committed, TxnError> {
        for (nth, op) in ops.iter().enumerate() {
            let current = self.get(&op.key);
            let holds = match op.expect {
                Expect::Any => true,
                Expect::Absent => current.is_none(),
                Expect::Present => current.is_some(),
                Expect::Revision(revision) => current.is_some_and(|item| item.modified == revision),
            };
            if !holds {
                return Err(TxnError::Conflict { op: nth, key: op.key.clone(), current: current.cloned() });
            }
        }
        let events = ops.iter().map(|op| self.act(op)).collect();
        Ok(Committed { revision: self.revision, events })
    }

    fn act(&mut self, op: &Op) -> Option<Arc<Event>> {
        let revision = self.revision + 1;
        let old = self.get(&op.key).cloned();
        let new = match &op.action {
            Action::Put(value) => Some(Arc::new(Item {
                key: op.key.clone(),
                value: value.at(revision),
                created: old.as_ref().map_or(revision, |item| item.created),
                modified: revision,
            })),
            Action::Delete if old.is_some() => None,
            Action::Delete | Action::Check => return None,
        };
        self.revision = revision;
        self.by_key.entry(op.key.clone()).or_default().push((revision, new.clone()));
        let event = Arc::new(Event { revision, key: op.key.clone(), new, old });
        self.events.push_back(Arc::clone(&event));
        Some(event)
    }

    /// Forgets the oldest event. Reads and watches may name its revision and later ones.
    pub(crate) fn forget(&mut self) -> Option<Arc<Event>> {
        let event = self.events.pop_front()?;
        self.oldest = event.revision;
        if let Some(versions) = self.by_key.get_mut(&event.key) {
            versions.retain(|(since, _)| *since >= event.revision);
            if let [(_, None)] = versions[..] {
                self.by_key.remove(&event.key);
            }
        }
        Some(event)
    }

    /// Forgets the oldest event if it is not newer than a revision.
    pub(crate) fn forget_until(&mut self, revision: u64) -> Option<Arc<Event>> {
        let is_due = self.events.front().is_some_and(|event| event.revision <= revision);
        if is_due { self.forget() } else { None }
    }
}
