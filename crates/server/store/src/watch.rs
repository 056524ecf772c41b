//! Watches: every event of a prefix after a revision, in order, once.
//!
//! Watches of the same prefix form a group. A group holds the part of the history that concerns its prefix, shared
//! by all its watches; a watch is a cursor into it. So publishing costs one push per group and one wake per
//! waiting watch, a slow watch costs nothing but its cursor, and a watch that fell behind the history finds out
//! from the group that events it needed are gone.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use lazaret_storage::{Event, Key, WatchError, WatchSource};

use crate::history::History;
use crate::shared::{Shared, lock};
use crate::sync::{AtomicU64, Mutex};

/// Events a watch takes from its group at once, to take the group's lock less often.
const PULL_EVENTS_MAX: usize = 64;

/// A watch: its place in the events of its group.
///
/// Nothing is buffered for a slow reader beyond the store's history.
pub(crate) struct Cursor {
    shared: Arc<Shared>,
    group: Arc<Group>,
    /// This watch's name among the wakers of its group.
    id: u64,
    buffer: VecDeque<Arc<Event>>,
    /// Everything up to here was delivered.
    delivered: u64,
    /// Everything up to here was delivered or is in the buffer.
    pulled: u64,
    ended: Option<WatchError>,
}

impl WatchSource for Cursor {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Arc<Event>, WatchError>> {
        if self.buffer.is_empty() && self.ended.is_none() {
            match self.pull(context.waker()) {
                Pulled::Events => {}
                Pulled::Nothing => return Poll::Pending,
                Pulled::End(end) => self.ended = Some(end),
            }
        }
        if let Some(event) = self.buffer.pop_front() {
            debug_assert!(event.revision > self.delivered);
            self.delivered = event.revision;
            return Poll::Ready(Ok(event));
        }
        Poll::Ready(Err(self.ended.unwrap_or(WatchError::Closed)))
    }

    fn progress(&mut self) -> u64 {
        if self.buffer.is_empty() && self.ended.is_none() {
            let group = lock(&self.group.inner);
            let published = self.shared.revision();
            if self.pulled >= group.lost && group.after(self.pulled, published).next().is_none() {
                self.pulled = self.pulled.max(published);
                self.delivered = self.pulled;
            }
        }
        self.delivered
    }
}

impl Cursor {
    pub(crate) fn new(shared: Arc<Shared>, group: Arc<Group>, from: u64) -> Cursor {
        let id = group.next_id.fetch_add(1, Ordering::Relaxed);
        Cursor { shared, group, id, buffer: VecDeque::new(), delivered: from, pulled: from, ended: None }
    }

    fn pull(&mut self, waker: &Waker) -> Pulled {
        let mut group = lock(&self.group.inner);
        if self.pulled < group.lost {
            // The publisher raises the shared figure after it took events from groups.
            let oldest = self.shared.oldest().max(group.lost);
            drop(group);
            self.shared.counters.watches_dropped.fetch_add(1, Ordering::Relaxed);
            return Pulled::End(WatchError::Compacted { asked: self.pulled, oldest });
        }
        // Closed first, then published: nothing is published after the close.
        let closed = self.shared.is_closed();
        // Events are pushed to groups before their revision is published, and the publisher wakes the group
        // after that: an event not yet published is left for the wake that follows.
        let published = self.shared.revision();
        self.buffer.extend(group.after(self.pulled, published).take(PULL_EVENTS_MAX).cloned());
        if let Some(last) = self.buffer.back() {
            self.pulled = last.revision;
            return Pulled::Events;
        }
        if closed {
            return Pulled::End(WatchError::Closed);
        }
        // Nothing up to `published` concerns this watch, so it cannot fall behind while it is idle.
        self.pulled = self.pulled.max(published);
        self.delivered = self.pulled;
        group.wakers.insert(self.id, waker.clone());
        Pulled::Nothing
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        lock(&self.group.inner).wakers.remove(&self.id);
        self.shared.leave(&self.group);
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("prefix", self.group.prefix())
            .field("delivered", &self.delivered)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

enum Pulled {
    Events,
    Nothing,
    End(WatchError),
}

/// The watches of one prefix.
#[derive(Debug)]
pub(crate) struct Group {
    prefix: Key,
    next_id: AtomicU64,
    inner: Mutex<GroupInner>,
}

#[derive(Debug)]
struct GroupInner {
    /// The history's events of this prefix after `since`.
    events: VecDeque<Arc<Event>>,
    since: u64,
    /// The newest event of this prefix that was here and is forgotten.
    lost: u64,
    wakers: BTreeMap<u64, Waker>,
    /// Whether the publisher has noted to wake this group.
    touched: bool,
}

impl GroupInner {
    fn after(&self, revision: u64, until: u64) -> impl Iterator<Item = &Arc<Event>> {
        let from = self.events.partition_point(|event| event.revision <= revision);
        self.events.range(from..).take_while(move |event| event.revision <= until)
    }
}

impl Group {
    pub(crate) fn prefix(&self) -> &Key {
        &self.prefix
    }

    /// Wakes all waiting watches.
    pub(crate) fn wake(&self) {
        let wakers = {
            let mut inner = lock(&self.inner);
            inner.touched = false;
            std::mem::take(&mut inner.wakers)
        };
        wakers.into_values().for_each(Waker::wake);
    }
}

/// All groups by prefix, with the number of watches in each.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    by_prefix: BTreeMap<Key, (Arc<Group>, usize)>,
    watches: usize,
}

impl Groups {
    pub(crate) fn len(&self) -> usize {
        self.by_prefix.len()
    }

    pub(crate) fn watches(&self) -> usize {
        self.watches
    }

    pub(crate) fn all(&self) -> Vec<Arc<Group>> {
        self.by_prefix.values().map(|(group, _)| Arc::clone(group)).collect()
    }

    /// Adds a watch to the group of its prefix, which then reaches back to `from` at least.
    pub(crate) fn join(&mut self, prefix: &Key, from: u64, history: &History) -> Arc<Group> {
        self.watches += 1;
        let (group, watches) = self.by_prefix.entry(prefix.clone()).or_insert_with(|| {
            let inner = GroupInner {
                events: VecDeque::new(),
                since: u64::MAX,
                lost: 0,
                wakers: BTreeMap::new(),
                touched: false,
            };
            let group =
                Group { prefix: prefix.clone(), next_id: AtomicU64::new(0), inner: Mutex::new(inner) };
            (Arc::new(group), 0)
        });
        *watches += 1;
        let mut inner = lock(&group.inner);
        if from < inner.since {
            inner.events =
                history.after(from).filter(|event| event.key.starts_with(prefix)).cloned().collect();
            inner.since = from;
        }
        drop(inner);
        Arc::clone(group)
    }

    pub(crate) fn leave(&mut self, group: &Group) {
        self.watches -= 1;
        if let Some((_, watches)) = self.by_prefix.get_mut(group.prefix()) {
            *watches -= 1;
            if *watches == 0 {
                self.by_prefix.remove(group.prefix());
            }
        }
    }

    /// Hands a new event to the groups it concerns, and notes those that were not noted yet.
    pub(crate) fn push(&self, event: &Arc<Event>, touched: &mut Vec<Arc<Group>>) {
        self.concerned(&event.key, |group| {
            let mut inner = lock(&group.inner);
            inner.events.push_back(Arc::clone(event));
            if !std::mem::replace(&mut inner.touched, true) {
                touched.push(Arc::clone(group));
            }
        });
    }

    /// Takes an event that left the history from the groups it concerns.
    pub(crate) fn forget(&self, event: &Event) {
        self.concerned(&event.key, |group| {
            let mut inner = lock(&group.inner);
            if inner.events.front().is_some_and(|front| front.revision <= event.revision) {
                inner.events.pop_front();
                inner.lost = event.revision;
            }
        });
    }

    /// Visits the groups whose prefix `key` starts with, longest first. From the greatest prefix not greater than
    /// the key, each step goes either to the next smaller prefix after a match, or down to what the two have in
    /// common: prefixes beside the key's own path are skipped.
    pub(crate) fn concerned(&self, key: &[u8], mut visit: impl FnMut(&Arc<Group>)) {
        let mut bound = Included(key);
        while let Some((prefix, (group, _))) = self.by_prefix.range::<[u8], _>((Unbounded, bound)).next_back()
        {
            let common = prefix.iter().zip(key).take_while(|(a, b)| a == b).count();
            if common == prefix.len() {
                visit(group);
                bound = Excluded(&key[..common]);
            } else {
                bound = Included(&key[..common]);
            }
        }
    }
}
