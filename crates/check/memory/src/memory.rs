//! The handle to the store, and its implementation of [`Storage`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use lazaret_storage::{
    Committed, Event, Item, Key, Op, Pending, Range, RangeOptions, ReadError, SnapshotError, Snapshotted,
    Stats, Storage, Totals, TxnError, TxnLimits, Watch, WatchError, validate,
};
use tokio::sync::watch as latest;

use crate::versions::Versions;
use crate::watch::{Cursor, Position};

/// Past events kept by default for watches and reads of the past, as many as `store` keeps.
const HISTORY_EVENTS_MAX: usize = 100_000;

/// A store in memory. Clones are handles to the same store; when the last is dropped, its watches end.
#[derive(Debug, Clone)]
pub struct Memory {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    progress: latest::Sender<u64>,
}

#[derive(Debug)]
pub(crate) struct State {
    versions: Versions,
    watches: BTreeMap<u64, Position>,
    closed: bool,
    next_watch: u64,
    history_events_max: usize,
    txns: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Memory::with_history(HISTORY_EVENTS_MAX)
    }
}

impl From<Memory> for Arc<dyn Storage> {
    fn from(memory: Memory) -> Self {
        Arc::new(memory)
    }
}

impl Memory {
    /// A store that keeps this number of past events.
    #[must_use]
    pub fn with_history(history_events_max: usize) -> Memory {
        let versions = Versions::new();
        let progress = latest::Sender::new(versions.revision());
        let state = State {
            versions,
            watches: BTreeMap::new(),
            closed: false,
            next_watch: 0,
            history_events_max,
            txns: 0,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), progress });
        Memory { handle: Arc::new(Handle { shared }) }
    }

    /// Forgets all events up to a revision. Returns the oldest revision that may be named.
    ///
    /// # Errors
    /// [`ReadError::Future`] for a revision that is still to come.
    pub fn compact(&self, revision: u64) -> Result<u64, ReadError> {
        let mut state = self.state();
        let current = state.versions.revision();
        if revision > current {
            return Err(ReadError::Future { asked: revision, current });
        }
        while let Some(event) = state.versions.forget_until(revision) {
            state.mark_lost(&event);
        }
        Ok(state.versions.oldest())
    }

    /// Refuses transactions and new watches from now on, and ends all watches.
    pub fn close(&self) {
        self.handle.shared.close();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.handle.shared.lock()
    }

    fn commit(&self, ops: &[Op]) -> Result<Committed, TxnError> {
        validate(ops, TxnLimits::default())?;
        let mut state = self.state();
        if state.closed {
            return Err(TxnError::Closed);
        }
        let committed = state.versions.apply(ops)?;
        state.txns += 1;
        while state.versions.events().len() > state.history_events_max {
            let forgotten = state.versions.forget();
            forgotten.iter().for_each(|event| state.mark_lost(event));
        }
        let wakers = state.take_wakers();
        drop(state);
        self.handle.shared.progress.send_replace(committed.revision);
        wakers.into_iter().for_each(Waker::wake);
        Ok(committed)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Shared {
    /// A panic of another thread leaves the state whole: every change under the lock is a few moves.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let wakers = state.take_wakers();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// The state that a watch reads: its position, all events, and whether the store is closed.
    pub(crate) fn of_watch(&mut self, id: u64) -> (&mut Position, &Versions, bool) {
        let position = self.watches.get_mut(&id).expect("a watch has a position until it is dropped");
        (position, &self.versions, self.closed)
    }

    pub(crate) fn leave(&mut self, id: u64) {
        self.watches.remove(&id);
    }

    fn mark_lost(&mut self, event: &Event) {
        self.watches.values_mut().for_each(|watch| watch.lost |= watch.awaits(event));
    }

    /// The wakers of all waiting watches, to be called without the lock.
    fn take_wakers(&mut self) -> Vec<Waker> {
        self.watches.values_mut().filter_map(|watch| watch.waker.take()).collect()
    }
}

/// Whether a key is in a directory: it has at most one further slash.
fn is_in(directory: &[u8], key: &[u8]) -> bool {
    let further = key.strip_prefix(directory).map(|rest| rest.iter().filter(|byte| **byte == b'/').count());
    directory.ends_with(b"/") && further.is_some_and(|slashes| slashes <= 1)
}

impl Storage for Memory {
    fn revision(&self) -> u64 {
        self.state().versions.revision()
    }

    fn get(&self, key: &[u8]) -> Option<Arc<Item>> {
        self.state().versions.get(key).cloned()
    }

    fn range(&self, prefix: &[u8], options: &RangeOptions) -> Result<Range, ReadError> {
        self.state().versions.range(prefix, options)
    }

    fn count(&self, prefix: &[u8]) -> usize {
        self.state().versions.items().filter(|item| item.key.starts_with(prefix)).count()
    }

    fn count_in(&self, directory: &[u8]) -> usize {
        self.state().versions.items().filter(|item| is_in(directory, &item.key)).count()
    }

    fn totals(&self) -> Totals {
        let state = self.state();
        let bytes = state.versions.items().map(|item| item.weight()).sum();
        Totals { items: state.versions.items().count(), bytes }
    }

    fn watch(&self, prefix: Key, from: u64) -> Result<Watch, WatchError> {
        let mut state = self.state();
        if state.closed {
            return Err(WatchError::Closed);
        }
        let oldest = state.versions.oldest();
        if from < oldest {
            return Err(WatchError::Compacted { asked: from, oldest });
        }
        state.next_watch += 1;
        let id = state.next_watch;
        state.watches.insert(id, Position::new(prefix, from));
        Ok(Watch::new(Cursor::new(Arc::clone(&self.handle.shared), id)))
    }

    fn reached(&self, revision: u64) -> Pending<'_, u64> {
        Box::pin(async move {
            let mut progress = self.handle.shared.progress.subscribe();
            let reached = progress.wait_for(|current| *current >= revision).await.map(|current| *current);
            // The sender lives as long as this handle.
            reached.unwrap_or_else(|_| self.revision())
        })
    }

    fn txn(&self, ops: Vec<Op>) -> Pending<'_, Result<Committed, TxnError>> {
        Box::pin(async move { self.commit(&ops) })
    }

    fn snapshot(&self) -> Pending<'_, Result<Snapshotted, SnapshotError>> {
        Box::pin(async { Err(SnapshotError::Ephemeral) })
    }

    fn stats(&self) -> Stats {
        let totals = self.totals();
        let state = self.state();
        let events = state.versions.events();
        Stats {
            revision: state.versions.revision(),
            oldest: state.versions.oldest(),
            items: totals.items,
            items_bytes: totals.bytes,
            history_events: events.len(),
            history_bytes: events.iter().map(|event| event.weight()).sum(),
            watches: state.watches.len(),
            txns: state.txns,
            ..Stats::default()
        }
    }
}
