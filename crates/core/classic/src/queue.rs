//! Work that is due now, in the order in which it came up, or at a later time.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use lazaret_machine::Wake;
use lazaret_model::Timestamp;

/// The reason of a wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WakeReason {
    /// Something that failed is tried again.
    Retry,
    /// A write that was done should have been seen in the meantime.
    Recheck,
    /// The driver examines nodes again, and tries claims again that are allocated immediately.
    Refresh,
    /// A pod that holds devices and waits for others gives them up.
    Patience,
}

impl From<WakeReason> for &'static str {
    fn from(why: WakeReason) -> Self {
        match why {
            WakeReason::Retry => "retry",
            WakeReason::Recheck => "recheck a write",
            WakeReason::Refresh => "examine nodes again",
            WakeReason::Patience => "give up devices",
        }
    }
}

/// Each item is queued at most once and has at most one timer, so there are never more than objects.
#[derive(Debug)]
pub(crate) struct Queue<I> {
    order: VecDeque<I>,
    members: BTreeSet<I>,
    timers: BTreeSet<(Timestamp, WakeReason, I)>,
    timer_of: BTreeMap<I, (Timestamp, WakeReason)>,
    counts: QueueCounts,
}

/// Counts of a queue since its machine began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Items that were queued.
    pub adds: u64,
    /// Items that were put off until another attempt.
    pub retries: u64,
    /// Items that are queued now.
    pub depth: usize,
}

impl<I> Default for Queue<I> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            members: BTreeSet::new(),
            timers: BTreeSet::new(),
            timer_of: BTreeMap::new(),
            counts: QueueCounts::default(),
        }
    }
}

impl<I: Ord + Clone> Queue<I> {
    pub(crate) fn push(&mut self, item: I) {
        if self.members.insert(item.clone()) {
            self.counts.adds += 1;
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
        self.counts.retries += u64::from(why == WakeReason::Retry);
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

    pub(crate) fn next_wake(&self) -> Option<Wake<WakeReason>> {
        self.timers.first().map(|(at, why, _)| Wake::new(*at, *why))
    }

    /// Forgets all items, and keeps the counts.
    pub(crate) fn clear(&mut self) {
        *self = Self { counts: self.counts, ..Self::default() };
    }

    /// The counts, and how many items are queued.
    pub(crate) fn counts(&self) -> QueueCounts {
        QueueCounts { depth: self.order.len(), ..self.counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_queued_once_and_keeps_its_earliest_timer() {
        let mut queue = Queue::default();
        for item in [2, 1, 2] {
            queue.push(item);
        }
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some(2), Some(1), None]);
        queue.later(Timestamp::from_secs(2), WakeReason::Retry, 7);
        queue.later(Timestamp::from_secs(1), WakeReason::Recheck, 7);
        queue.later(Timestamp::from_secs(3), WakeReason::Retry, 7);
        assert_eq!(queue.next_wake(), Some(Wake::new(Timestamp::from_secs(1), WakeReason::Recheck)));
        queue.wake(Timestamp::from_secs(1));
        assert_eq!(queue.counts(), QueueCounts { adds: 3, retries: 1, depth: 1 });
        assert_eq!((queue.pop(), queue.pop(), queue.next_wake()), (Some(7), None, None));
        queue.later(Timestamp::from_secs(4), WakeReason::Retry, 7);
        queue.clear();
        assert_eq!(queue.counts(), QueueCounts { adds: 3, retries: 2, depth: 0 });
    }
}
