//! The queue of items to look at: now, in the order in which they came up, or at a later time.

use alloc::collections::{BTreeSet, VecDeque};

use hashbrown::HashSet;
use lazaret_model::{ObjectKey, Text, Timestamp};
use rustc_hash::FxBuildHasher;

use crate::{
    effect::{Wake, WakeReason},
    holder::HolderKind,
};

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Item {
    /// A claim. First: to give back a device is more urgent than to ask for one.
    Claim(ObjectKey),
    /// A pod, or a group of pods.
    Holder(HolderKind, ObjectKey),
    /// A node that is asked about claims.
    Node(Text),
}

/// Each item is here at most once, so there are never more than pods, groups and claims. Timers may be more by those that were
/// set again before they ran out; each look at an item sets at most one.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    order: VecDeque<Item>,
    members: HashSet<Item, FxBuildHasher>,
    timers: BTreeSet<(Timestamp, WakeReason, Item)>,
}

impl Queue {
    pub(crate) fn push(&mut self, item: Item) {
        if self.members.insert(item.clone()) {
            self.order.push_back(item);
        }
    }

    /// Before all others: it has begun, and is to be finished first.
    pub(crate) fn push_front(&mut self, item: Item) {
        if self.members.insert(item.clone()) {
            self.order.push_front(item);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Item> {
        let item = self.order.pop_front()?;
        self.members.remove(&item);
        Some(item)
    }

    /// Look at it at this time.
    pub(crate) fn later(&mut self, at: Timestamp, why: WakeReason, item: Item) {
        self.timers.insert((at, why, item));
    }

    /// Queues everything whose time has come.
    pub(crate) fn wake(&mut self, now: Timestamp) {
        while self.timers.first().is_some_and(|(at, ..)| *at <= now) {
            if let Some((.., item)) = self.timers.pop_first() {
                self.push(item);
            }
        }
    }

    pub(crate) fn next_wake(&self) -> Option<Wake> {
        self.timers.first().map(|(at, why, _)| Wake { at: *at, why: *why })
    }

    pub(crate) fn clear(&mut self) {
        self.order.clear();
        self.members.clear();
        self.timers.clear();
    }

    pub(crate) fn timers(&self) -> usize {
        self.timers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str) -> Item {
        Item::Claim(ObjectKey::new("default", name))
    }

    #[test]
    fn first_come_first_served_and_only_once() {
        let mut queue = Queue::default();
        for name in ["z", "a", "z"] {
            queue.push(claim(name));
        }
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some(claim("z")), Some(claim("a")), None]);
    }

    #[test]
    fn timers_queue_what_is_due() {
        let mut queue = Queue::default();
        queue.later(Timestamp::from_secs(2), WakeReason::Retry, claim("b"));
        queue.later(Timestamp::from_secs(1), WakeReason::Recheck, claim("a"));
        assert_eq!(queue.next_wake().map(|wake| wake.at), Some(Timestamp::from_secs(1)));
        queue.wake(Timestamp::from_secs(1));
        assert_eq!(queue.pop(), Some(claim("a")));
        assert_eq!(queue.pop(), None);
        assert_eq!(queue.next_wake().map(|wake| wake.why), Some(WakeReason::Retry));
    }
}
