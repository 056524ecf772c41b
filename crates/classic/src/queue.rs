//! What has to be looked at: now, in the order it came up, or at a later time.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use lazaret_model::Timestamp;

/// When a machine wants to be called again, if nothing happens before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// Not before this instant.
    pub at: Timestamp,
    /// What will be done then.
    pub why: WakeReason,
}

/// What a wake-up is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WakeReason {
    /// Something that failed is tried again.
    Retry,
    /// What was written should have been seen in the meantime.
    Recheck,
    /// The driver examines nodes again.
    Refresh,
    /// A pod that holds devices and waits for others gives them up.
    Patience,
    /// The turn of a pod ends or begins.
    Turn,
}

/// Each item is queued at most once and has at most one timer, so there are never more than objects.
#[derive(Debug)]
pub(crate) struct Queue<I> {
    order: VecDeque<I>,
    members: BTreeSet<I>,
    timers: BTreeSet<(Timestamp, WakeReason, I)>,
    timer_of: BTreeMap<I, (Timestamp, WakeReason)>,
}

impl<I> Default for Queue<I> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            members: BTreeSet::new(),
            timers: BTreeSet::new(),
            timer_of: BTreeMap::new(),
        }
    }
}

impl<I: Ord + Clone> Queue<I> {
    pub(crate) fn push(&mut self, item: I) {
        if self.members.insert(item.clone()) {
            self.order.push_back(item);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<I> {
        let item = self.order.pop_front()?;
        self.members.remove(&item);
        Some(item)
    }

    /// Look at it at this time, or earlier if an earlier time was set before.
    pub(crate) fn later(&mut self, at: Timestamp, why: WakeReason, item: I) {
        if let Some((before, reason)) = self.timer_of.get(&item).copied() {
            if before <= at {
                return;
            }
            self.timers.remove(&(before, reason, item.clone()));
        }
        self.timer_of.insert(item.clone(), (at, why));
        self.timers.insert((at, why, item));
    }

    /// Queues everything whose time has come.
    pub(crate) fn wake(&mut self, now: Timestamp) {
        while self.timers.first().is_some_and(|(at, ..)| *at <= now) {
            if let Some((.., item)) = self.timers.pop_first() {
                self.timer_of.remove(&item);
                self.push(item);
            }
        }
    }

    pub(crate) fn next_wake(&self) -> Option<Wake> {
        self.timers.first().map(|(at, why, _)| Wake { at: *at, why: *why })
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
