//! The published state: the newest durable one, its history and its watchers.
//!
//! One thread publishes; any number read. Readers take a reference to the state under a lock that is only ever
//! held for a pointer's copy. Lock order: hub, then state,
//! then past or a group of watchers. No lock is held across I/O.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use lazaret_storage::{
    Event, Item, Key, Range, RangeOptions, ReadError, Stats, StorageError, Totals, Watch, WatchError,
};
use tokio::sync::watch as latest;

use crate::counters::Counters;
use crate::draft::Changes;
use crate::history::History;
use crate::index::Index;
use crate::notice::Notice;
use crate::options::Options;
use crate::range::{Span, undo};
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, RwLock};
use crate::usage::Directories;
use crate::watch::{Cursor, Group, Groups};

/// One published version.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) index: Index,
    pub(crate) revision: u64,
}

/// Past versions kept for lists that are read page by page. Each costs at most a copy of the index's pointers: what
/// its items weigh is in the history anyway, or in the present.
const PAST_MAX: usize = 8;

/// A past version, right for the keys of a prefix.
#[derive(Debug)]
struct PastState {
    prefix: Key,
    state: State,
}

/// History and watchers, which must change together.
#[derive(Debug)]
struct Hub {
    history: History,
    groups: Groups,
}

#[derive(Debug)]
pub(crate) struct Shared {
    state: RwLock<State>,
    hub: Mutex<Hub>,
    /// The newest revision watchers may hand out. Stored after the state, so that a watcher that sees an event also
    /// reads a state that includes it.
    published: AtomicU64,
    /// The history's oldest revision, readable without the hub.
    oldest: AtomicU64,
    past: Mutex<VecDeque<PastState>>,
    directories: Directories,
    progress: latest::Sender<u64>,
    /// Whether there is a failure, readable without its lock.
    failed: AtomicBool,
    failure: Mutex<Option<Arc<StorageError>>>,
    closed: AtomicBool,
    pub(crate) counters: Arc<Counters>,
}

impl Shared {
    /// Publishes a first state, with the history that led to it.
    pub(crate) fn new(state: State, history: History, counters: Arc<Counters>) -> Shared {
        Shared {
            published: AtomicU64::new(state.revision),
            oldest: AtomicU64::new(history.oldest()),
            progress: latest::Sender::new(state.revision),
            directories: Directories::of(&state.index),
            state: RwLock::new(state),
            hub: Mutex::new(Hub { history, groups: Groups::default() }),
            past: Mutex::new(VecDeque::new()),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            closed: AtomicBool::new(false),
            counters,
        }
    }

    pub(crate) fn empty_history(options: &Options, oldest: u64) -> History {
        History::new(oldest, options.history_events_max, options.history_bytes_max)
    }

    // === reading ===

    pub(crate) fn state(&self) -> State {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn revision(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    pub(crate) fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::Acquire)
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Arc<Item>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).index.get(key).cloned()
    }

    pub(crate) fn totals(&self) -> Totals {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        Totals { items: state.index.len(), bytes: state.index.bytes() }
    }

    pub(crate) fn count_in(&self, directory: &[u8]) -> usize {
        self.directories.count(directory)
    }

    pub(crate) fn count(&self, prefix: &[u8]) -> usize {
        Span::new(&self.state().index, prefix, None).count()
    }

    pub(crate) fn range(&self, prefix: &[u8], options: &RangeOptions) -> Result<Range, ReadError> {
        let limit = options.limit.unwrap_or(usize::MAX);
        let state = match options.at {
            None => self.state(),
            Some(at) => self.state_at(prefix, at)?,
        };
        let (items, remaining) = Span::new(&state.index, prefix, options.after.as_ref()).page(limit);
        let revision = state.revision;
        if options.at.is_none() && remaining > 0 {
            // The next page will ask for this very state.
            self.keep_past(PastState { prefix: Key::from(""), state });
        }
        Ok(Range { items, revision, remaining })
    }

    /// The state at a revision, right for the keys of a prefix.
    fn state_at(&self, prefix: &[u8], at: u64) -> Result<State, ReadError> {
        let (mut state, newest_first) = {
            let hub = lock(&self.hub);
            let state = self.state();
            hub.history.check_readable(at, state.revision)?;
            if at == state.revision {
                return Ok(state);
            }
            if let Some(past) = self.find_past(prefix, at) {
                return Ok(past);
            }
            let concerned = hub.history.after(at).rev().filter(|event| event.key.starts_with(prefix));
            (state, concerned.cloned().collect::<Vec<_>>())
        };
        undo(&mut state.index, &newest_first);
        state.revision = at;
        self.keep_past(PastState { prefix: Key::from(prefix), state: state.clone() });
        Ok(state)
    }

    fn find_past(&self, prefix: &[u8], at: u64) -> Option<State> {
        let past = lock(&self.past);
        let found = past.iter().find(|past| past.state.revision == at && prefix.starts_with(&past.prefix));
        found.map(|past| past.state.clone())
    }

    fn keep_past(&self, kept: PastState) {
        let oldest = self.oldest();
        let mut past = lock(&self.past);
        let same =
            |past: &PastState| past.state.revision == kept.state.revision && past.prefix == kept.prefix;
        if past.iter().any(same) {
            return;
        }
        // States that the history has forgotten must not be kept alive here.
        past.retain(|past| past.state.revision >= oldest);
        if past.len() == PAST_MAX {
            past.pop_front();
        }
        past.push_back(kept);
    }

    pub(crate) fn subscribe_progress(&self) -> latest::Receiver<u64> {
        self.progress.subscribe()
    }

    // === watching ===

    pub(crate) fn watch(self: &Arc<Self>, prefix: Key, from: u64) -> Result<Watch, WatchError> {
        if self.is_closed() {
            return Err(WatchError::Closed);
        }
        let mut hub = lock(&self.hub);
        let Hub { history, groups } = &mut *hub;
        if from < history.oldest() {
            return Err(WatchError::Compacted { asked: from, oldest: history.oldest() });
        }
        let group = groups.join(&prefix, from, history);
        Ok(Watch::new(Cursor::new(Arc::clone(self), group, from)))
    }

    pub(crate) fn leave(&self, group: &Group) {
        lock(&self.hub).groups.leave(group);
    }

    // === publishing (one thread only) ===

    /// Makes durable changes visible, all of them at once. Returns the watchers to wake once the writers are
    /// answered.
    pub(crate) fn publish(&self, changes: &Changes, compact: Option<u64>) -> Vec<Arc<Group>> {
        let mut hub = lock(&self.hub);
        let Hub { history, groups } = &mut *hub;
        let mut touched = Vec::new();
        for event in &changes.events {
            history.push(Arc::clone(event));
            groups.push(event, &mut touched);
            self.directories.note(event);
        }
        let mut forgotten: Vec<Arc<Event>> = Vec::new();
        while let Some(event) = history.pop_excess().or_else(|| history.pop_until(compact.unwrap_or(0))) {
            groups.forget(&event);
            forgotten.push(event);
        }
        history.raise_oldest(compact.unwrap_or(0));
        let oldest = history.oldest();
        self.oldest.store(oldest, Ordering::Release);
        {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            changes.apply_to(&mut state.index);
            state.revision = changes.revision;
        }
        self.published.store(changes.revision, Ordering::Release);
        drop(hub);
        self.progress.send_if_modified(|seen| std::mem::replace(seen, changes.revision) != changes.revision);
        // States without readers are freed outside the hub.
        lock(&self.past).retain(|past| past.state.revision >= oldest);
        drop(forgotten);
        touched
    }

    /// Refuses writes from now on, until `recovered`.
    pub(crate) fn fail(&self, cause: Arc<StorageError>) {
        *lock(&self.failure) = Some(Arc::clone(&cause));
        self.failed.store(true, Ordering::Release);
        self.counters.failures.fetch_add(1, Ordering::Relaxed);
        self.counters.observer.notify(&Notice::BecameReadOnly(cause));
    }

    /// Takes writes again.
    pub(crate) fn recovered(&self) {
        self.failed.store(false, Ordering::Release);
        *lock(&self.failure) = None;
        self.counters.heals.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failure(&self) -> Option<Arc<StorageError>> {
        if self.failed.load(Ordering::Acquire) { lock(&self.failure).clone() } else { None }
    }

    /// Ends all watches once they have delivered what is published.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let groups = lock(&self.hub).groups.all();
        groups.iter().for_each(|group| group.wake());
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn stats(&self, queued: usize) -> Stats {
        let hub = lock(&self.hub);
        let state = self.state();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            revision: state.revision,
            oldest: hub.history.oldest(),
            items: state.index.len(),
            items_bytes: state.index.bytes(),
            history_events: hub.history.len(),
            history_bytes: hub.history.bytes(),
            watches: hub.groups.watches(),
            watched_prefixes: hub.groups.len(),
            watches_dropped: count(&self.counters.watches_dropped),
            queued,
            groups: count(&self.counters.groups),
            txns: count(&self.counters.txns),
            log_bytes: count(&self.counters.log_bytes),
            snapshots: count(&self.counters.snapshots),
            snapshots_failed: count(&self.counters.snapshots_failed),
            read_only: self.failure().map(|cause| cause.to_string()),
            failures: count(&self.counters.failures),
            heals: count(&self.counters.heals),
            syncs_failed: count(&self.counters.syncs_failed),
            last_sync: Duration::from_micros(count(&self.counters.last_sync_micros)),
            disk_busy: self.counters.disk_busy_for(),
            tail_bytes_cut: count(&self.counters.tail_bytes_cut),
        }
    }
}

/// A panic of another thread leaves our plain data whole: every change under these locks is a few moves.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
