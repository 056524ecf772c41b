//! The next version of the store, before it is durable: a private copy of the index on which a group of
//! transactions is tried, one after the other.

use std::sync::Arc;

use bytes::Bytes;

use crate::error::TxnError;
use crate::index::Index;
use crate::item::{Event, Item, Key};
use crate::txn::{Action, Committed, Expect, Op};

/// Later transactions of a group see what earlier ones did; nobody else does until the group is published.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) index: Index,
    pub(crate) revision: u64,
    pub(crate) events: Vec<Arc<Event>>,
}

impl Draft {
    pub(crate) fn new(index: Index, revision: u64) -> Draft {
        Draft { index, revision, events: Vec::new() }
    }

    /// Applies a transaction whole or not at all.
    pub(crate) fn apply(&mut self, ops: &[Op]) -> Result<Committed, TxnError> {
        for (nth, op) in ops.iter().enumerate() {
            let current = self.index.get(&op.key);
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
                Action::Put(value) => Some(self.put(&op.key, value.at(self.revision + 1))),
                Action::Delete => self.delete(&op.key),
                Action::Check => None,
            })
            .collect();
        Ok(Committed { revision: self.revision, events })
    }

    /// Sets a value at the next revision.
    pub(crate) fn put(&mut self, key: &Key, value: Bytes) -> Arc<Event> {
        self.revision += 1;
        let modified = self.revision;
        let (key, created) = match self.index.get(key) {
            Some(item) => (item.key.clone(), item.created),
            None => (key.clone(), modified),
        };
        let new = Arc::new(Item { key: key.clone(), value, created, modified });
        let old = self.index.insert(Arc::clone(&new));
        self.record(Event { revision: modified, key, new: Some(new), old })
    }

    /// Removes a key at the next revision, if it is there.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Option<Arc<Event>> {
        let old = self.index.remove(key)?;
        self.revision += 1;
        Some(self.record(Event { revision: self.revision, key: old.key.clone(), new: None, old: Some(old) }))
    }

    fn record(&mut self, event: Event) -> Arc<Event> {
        let event = Arc::new(event);
        self.events.push(Arc::clone(&event));
        event
    }
}
