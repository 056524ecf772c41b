//! The next version of the store, before it is durable: changes over the present state, on which a group of
//! transactions is tried, one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use lazaret_storage::{Action, Committed, Event, Expect, Item, Key, Op, TxnError};

use crate::index::Index;

/// Later transactions of a group see the changes of earlier ones; other readers do not before the group is published.
#[derive(Debug)]
pub(crate) struct Draft {
    base: Index,
    changed: BTreeMap<Key, Option<Arc<Item>>>,
    changes: Changes,
}

/// The result of a draft.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The revision after them.
    pub(crate) revision: u64,
    /// One for each revision, ascending.
    pub(crate) events: Vec<Arc<Event>>,
}

impl Draft {
    pub(crate) fn new(base: Index, revision: u64) -> Draft {
        Draft { base, changed: BTreeMap::new(), changes: Changes { revision, events: Vec::new() } }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.changes.revision
    }

    /// The state the draft was made over, unchanged, and the changes.
    pub(crate) fn finish(self) -> (Index, Changes) {
        (self.base, self.changes)
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
        let events = ops
            .iter()
            .map(|op| match &op.action {
                Action::Put(value) => Some(self.put(&op.key, value.at(self.revision() + 1))),
                Action::Delete => self.delete(&op.key),
                Action::Check => None,
            })
            .collect();
        Ok(Committed { revision: self.revision(), events })
    }

    /// Sets a value at the next revision.
    pub(crate) fn put(&mut self, key: &Key, value: Bytes) -> Arc<Event> {
        let revision = self.revision() + 1;
        let old = self.get(key).cloned();
        let (key, created) = match &old {
            Some(item) => (item.key.clone(), item.created),
            None => (key.clone(), revision),
        };
        let new = Arc::new(Item { key: key.clone(), value, created, modified: revision });
        self.record(Event { revision, key, new: Some(new), old })
    }

    /// Removes a key at the next revision, if it is there.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Option<Arc<Event>> {
        let old = self.get(key).cloned()?;
        let revision = self.revision() + 1;
        Some(self.record(Event { revision, key: old.key.clone(), new: None, old: Some(old) }))
    }

    fn get(&self, key: &[u8]) -> Option<&Arc<Item>> {
        match self.changed.get(key) {
            Some(changed) => changed.as_ref(),
            None => self.base.get(key),
        }
    }

    fn record(&mut self, event: Event) -> Arc<Event> {
        let event = Arc::new(event);
        self.changed.insert(event.key.clone(), event.new.clone());
        self.changes.revision = event.revision;
        self.changes.events.push(Arc::clone(&event));
        event
    }
}

impl Changes {
    /// Makes the changes in an index.
    pub(crate) fn apply_to(&self, index: &mut Index) {
        for event in &self.events {
            index.set(&event.key, event.new.clone());
        }
    }
}
