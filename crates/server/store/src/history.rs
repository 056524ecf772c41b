//! The bounded ring of past events: what watches read, and what undoes the present into a past revision.

use std::collections::VecDeque;
use std::sync::Arc;

use lazaret_storage::{Event, ReadError};

/// Invariant: holds every event with a revision in `(oldest, newest]`, in order, and no other.
/// DEVIATION(store-history).
#[derive(Debug)]
pub(crate) struct History {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    oldest: u64,
    events_max: usize,
    bytes_max: usize,
}

impl History {
    pub(crate) fn new(oldest: u64, events_max: usize, bytes_max: usize) -> History {
        History { events: VecDeque::new(), bytes: 0, oldest, events_max, bytes_max }
    }

    /// The oldest revision that a read or a watch may name.
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the state at revision `at` can still be rebuilt from the one at `current`.
    pub(crate) fn check_readable(&self, at: u64, current: u64) -> Result<(), ReadError> {
        if at < self.oldest {
            Err(ReadError::Compacted { asked: at, oldest: self.oldest })
        } else if at > current {
            Err(ReadError::Future { asked: at, current })
        } else {
            Ok(())
        }
    }

    pub(crate) fn push(&mut self, event: Arc<Event>) {
        self.bytes += event.weight();
        self.events.push_back(event);
    }

    /// Takes out one event that exceeds the limits, oldest first.
    pub(crate) fn pop_excess(&mut self) -> Option<Arc<Event>> {
        (self.events.len() > self.events_max || self.bytes > self.bytes_max).then(|| self.pop()).flatten()
    }

    /// Takes out one event that is not newer than `revision`, oldest first.
    pub(crate) fn pop_until(&mut self, revision: u64) -> Option<Arc<Event>> {
        let due = self.events.front().is_some_and(|event| event.revision <= revision);
        due.then(|| self.pop()).flatten()
    }

    /// Forgets revisions up to `revision`, whose events were taken out.
    pub(crate) fn raise_oldest(&mut self, revision: u64) {
        debug_assert!(self.events.front().is_none_or(|event| event.revision > revision));
        self.oldest = self.oldest.max(revision);
    }

    /// Events after `revision`, in order.
    pub(crate) fn after(&self, revision: u64) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        let from = self.events.partition_point(|event| event.revision <= revision);
        self.events.range(from..)
    }

    fn pop(&mut self) -> Option<Arc<Event>> {
        let event = self.events.pop_front()?;
        self.bytes -= event.weight();
        self.oldest = event.revision;
        Some(event)
    }
}
