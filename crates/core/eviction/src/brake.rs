// DEVIATION(eviction-brake): Kubernetes has none.
//! The brake on loops: a pod that is evicted, made anew by its owner and put back onto the same device while the taint lasts is evicted
//! again, but each time later.
//!
//! Our scheduler does not put it back. Another one may, and so may a clock that is behind.

use alloc::collections::VecDeque;

use hashbrown::HashMap;
use lazaret_model::{DeviceId, Timestamp, Uid};
use rustc_hash::FxBuildHasher;

use crate::{options::Options, reason::Reason};

/// Evictions that are remembered, each for one owner, device and taint: an hour at ten a second, and no more memory than a few megabytes.
const REMEMBERED_MAX: usize = 36_000;

/// An owner's pods, the device that one of them was evicted from, and the taint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    owner: Uid,
    device: DeviceId,
    /// The hash of the taint and of who carries it: another taint, or the same set again later, is another matter.
    cause: u64,
}

#[derive(Clone, Copy, Debug)]
struct Past {
    times: u32,
    last: Timestamp,
}

/// The evictions of pods that have an owner.
#[derive(Debug, Default)]
pub(crate) struct Brake {
    past: HashMap<Key, Past, FxBuildHasher>,
    /// The same keys with when they were last used, the oldest first. One that was used since has a later entry.
    order: VecDeque<(Timestamp, Key)>,
}

/// A pod that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// No eviction before this instant.
    pub(crate) until: Timestamp,
    /// How often pods of the same owner were evicted from the same device for the same taint.
    pub(crate) times: u32,
}

impl Brake {
    /// A pod of this owner was evicted for this reason.
    pub(crate) fn note(&mut self, now: Timestamp, options: &Options, owner: &Uid, reason: &Reason) {
        let key = key(owner, reason);
        let past = self.past.entry(key.clone()).or_insert(Past { times: 0, last: now });
        // After a long while without it is no loop any more.
        if past.last.plus_millis(forgotten_after_ms(options)) < now {
            past.times = 0;
        }
        *past = Past { times: past.times.saturating_add(1), last: now };
        self.order.push_back((now, key));
        self.forget(now, options);
    }

    /// Whether a pod of this owner that has this reason to leave is held.
    pub(crate) fn hold(&self, options: &Options, owner: &Uid, reason: &Reason) -> Option<Hold> {
        if self.past.is_empty() {
            return None;
        }
        let past = self.past.get(&key(owner, reason))?;
        let until = past.last.plus_millis(options.brake_ms(past.times));
        Some(Hold { until, times: past.times })
    }

    /// How many owners, devices and taints are remembered.
    pub(crate) fn len(&self) -> usize {
        self.past.len()
    }

    fn forget(&mut self, now: Timestamp, options: &Options) {
        while let Some((when, key)) = self.order.front() {
            let over =
                when.plus_millis(forgotten_after_ms(options)) < now || self.order.len() > REMEMBERED_MAX;
            if !over {
                return;
            }
            if self.past.get(key).is_some_and(|past| past.last == *when) {
                self.past.remove(key);
            }
            self.order.pop_front();
        }
    }
}

/// Twice the longest pause: within it the next eviction of a loop has come.
fn forgotten_after_ms(options: &Options) -> i64 {
    options.brake_ms_max.saturating_mul(2)
}

fn key(owner: &Uid, reason: &Reason) -> Key {
    Key { owner: owner.clone(), device: reason.device().clone(), cause: reason.cause_hash() }
}
