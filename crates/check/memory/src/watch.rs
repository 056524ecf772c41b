//! Watches of the store.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use lazaret_storage::{Event, Key, WatchError, WatchSource};

use crate::memory::Shared;

/// How far a watch is.
#[derive(Debug)]
pub(crate) struct Position {
    prefix: Key,
    /// Everything up to here was delivered.
    delivered: u64,
    /// An event that it has not delivered is forgotten.
    pub(crate) lost: bool,
    pub(crate) waker: Option<Waker>,
}

impl Position {
    pub(crate) fn new(prefix: Key, from: u64) -> Position {
        Position { prefix, delivered: from, lost: false, waker: None }
    }

    /// Whether an event is still to be delivered.
    pub(crate) fn awaits(&self, event: &Event) -> bool {
        event.revision > self.delivered && event.key.starts_with(&self.prefix)
    }
}

#[derive(Debug)]
pub(crate) struct Cursor {
    shared: Arc<Shared>,
    id: u64,
}

impl Cursor {
    pub(crate) fn new(shared: Arc<Shared>, id: u64) -> Cursor {
        Cursor { shared, id }
    }
}

impl WatchSource for Cursor {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Arc<Event>, WatchError>> {
        let mut state = self.shared.lock();
        let (position, versions, closed) = state.of_watch(self.id);
        if position.lost {
            let (asked, oldest) = (position.delivered, versions.oldest());
            return Poll::Ready(Err(WatchError::Compacted { asked, oldest }));
        }
        if let Some(event) = versions.events().iter().find(|event| position.awaits(event)) {
            position.delivered = event.revision;
            return Poll::Ready(Ok(Arc::clone(event)));
        }
        position.delivered = position.delivered.max(versions.revision());
        if closed {
            return Poll::Ready(Err(WatchError::Closed));
        }
        position.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn progress(&mut self) -> u64 {
        let mut state = self.shared.lock();
        let (position, versions, _) = state.of_watch(self.id);
        if !position.lost && !versions.events().iter().any(|event| position.awaits(event)) {
            position.delivered = position.delivered.max(versions.revision());
        }
        position.delivered
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.shared.lock().leave(self.id);
    }
}
