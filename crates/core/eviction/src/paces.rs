//! Paces: which pods wait for which taint's permit, and when the next permit comes.
//!
//! A pace exists as long as a taint with a rate makes some pod leave, and a little longer: until its limiter is full
//! again, for only then does forgetting it change nothing.

use alloc::{collections::BTreeSet, vec::Vec};

use hashbrown::HashMap;
use lazaret_invariant::invariant;
use lazaret_model::{Slab, Timestamp};
use rustc_hash::FxBuildHasher;

use crate::{limiter::Limiter, reason::PaceKey};

/// Paces without waiting pods are kept until full, at most this many: beyond that the one that will be full first is dropped early.
const IDLE_MAX: usize = 65_536;

#[derive(Debug)]
struct Pace {
    key: PaceKey,
    limiter: Limiter,
    /// Rates of the causes that share it, each with how many causes have it. The highest counts.
    rates: Vec<(u32, u32)>,
    /// Pods that are due, the longest overdue first.
    ready: BTreeSet<(Timestamp, u32)>,
    /// Its entry among the wake-ups.
    wake: Option<Timestamp>,
    /// Its entry among the idle.
    idle: Option<Timestamp>,
    /// Evictions in flight that it granted: they may be refunded.
    in_flight: u32,
}

/// All paces.
#[derive(Debug, Default)]
pub(crate) struct Paces {
    slab: Slab<Pace>,
    by_key: HashMap<PaceKey, u32, FxBuildHasher>,
    wakes: BTreeSet<(Timestamp, u32)>,
    idle: BTreeSet<(Timestamp, u32)>,
    /// Pods that are due for a cause without a pace, the longest overdue first.
    unpaced: BTreeSet<(Timestamp, u32)>,
}

impl Paces {
    /// One more cause with this rate. `fresh` makes the limiter if there is none yet.
    pub(crate) fn attach(
        &mut self,
        key: PaceKey,
        rate: u32,
        now: Timestamp,
        fresh: impl FnOnce() -> Limiter,
    ) -> u32 {
        let at = match self.by_key.get(&key) {
            Some(at) => *at,
            None => {
                let pace = Pace {
                    key: key.clone(),
                    limiter: fresh(),
                    rates: Vec::new(),
                    ready: BTreeSet::new(),
                    wake: None,
                    idle: None,
                    in_flight: 0,
                };
                let at = self.slab.insert(pace);
                self.by_key.insert(key, at);
                at
            }
        };
        if let Some(pace) = self.slab.get_mut(at) {
            match pace.rates.binary_search_by_key(&rate, |(rate, _)| *rate) {
                Ok(found) => pace.rates[found].1 += 1,
                Err(place) => pace.rates.insert(place, (rate, 1)),
            }
        }
        self.settle(at, now);
        at
    }

    /// One cause with this rate less.
    pub(crate) fn detach(&mut self, at: u32, rate: u32, now: Timestamp) {
        if let Some(pace) = self.slab.get_mut(at)
            && let Ok(found) = pace.rates.binary_search_by_key(&rate, |(rate, _)| *rate)
        {
            pace.rates[found].1 -= 1;
            if pace.rates[found].1 == 0 {
                pace.rates.remove(found);
            }
        }
        self.settle(at, now);
    }

    /// A pod is due and waits for a permit of this pace, if there is one to wait for.
    pub(crate) fn enter(&mut self, at: Option<u32>, deadline: Timestamp, pod: u32, now: Timestamp) {
        let Some(at) = at else {
            self.unpaced.insert((deadline, pod));
            return;
        };
        if let Some(pace) = self.slab.get_mut(at) {
            let first = pace.ready.is_empty();
            pace.ready.insert((deadline, pod));
            if first {
                self.retime(at, now);
            }
        }
    }

    /// A pod waits no more.
    pub(crate) fn leave(&mut self, at: Option<u32>, deadline: Timestamp, pod: u32, now: Timestamp) {
        let Some(at) = at else {
            self.unpaced.remove(&(deadline, pod));
            return;
        };
        if let Some(pace) = self.slab.get_mut(at)
            && pace.ready.remove(&(deadline, pod))
            && pace.ready.is_empty()
        {
            self.retime(at, now);
        }
    }

    /// No pod waits any more.
    pub(crate) fn dismiss(&mut self) {
        self.unpaced.clear();
        self.wakes.clear();
        self.slab.for_each_mut(|pace| {
            pace.ready.clear();
            pace.wake = None;
        });
    }

    /// A pace that has a permit now, if one is needed, and the pod that gets it. The permit is not taken yet.
    pub(crate) fn next_permitted(&mut self, now: Timestamp) -> Option<(Option<u32>, u32)> {
        if let Some(&(_, pod)) = self.unpaced.first() {
            return Some((None, pod));
        }
        while let Some(&(wake, at)) = self.wakes.first() {
            if wake > now {
                return None;
            }
            match self.slab.get(at) {
                Some(pace) if pace.limiter.permits(now) => {
                    let (_, pod) = *pace.ready.first()?;
                    return Some((Some(at), pod));
                }
                // Not yet, whatever was thought before: the wake-up moves into the future, so this loop ends.
                Some(_) => self.retime(at, now),
                None => {
                    self.wakes.remove(&(wake, at));
                }
            }
        }
        None
    }

    /// Whether this pace permits now that this many pods leave at once.
    pub(crate) fn permits_together(&self, at: u32, pods: usize, now: Timestamp) -> bool {
        self.slab.get(at).is_none_or(|pace| pace.limiter.permits_together(pods, now))
    }

    /// When it does.
    pub(crate) fn next_permit(&self, at: u32, pods: usize, now: Timestamp) -> Timestamp {
        self.slab.get(at).map_or(now, |pace| pace.limiter.next_permit_together(pods, now))
    }

    /// One pod leaves for the sake of this pace's taint, whoever granted it.
    pub(crate) fn take(&mut self, at: u32, now: Timestamp) {
        if let Some(pace) = self.slab.get_mut(at) {
            pace.limiter.take(now);
            self.retime(at, now);
        }
    }

    /// One pod of a group leaves. A missing permit is owed.
    pub(crate) fn owe(&mut self, at: u32, now: Timestamp) {
        if let Some(pace) = self.slab.get_mut(at) {
            pace.limiter.take_together(1, now);
            self.retime(at, now);
        }
    }

    /// An eviction that this pace granted is in flight.
    pub(crate) fn hold(&mut self, at: u32) {
        if let Some(pace) = self.slab.get_mut(at) {
            pace.in_flight += 1;
        }
    }

    /// It is in flight no more; `refund` if it certainly did not happen.
    pub(crate) fn release(&mut self, at: u32, refund: bool, now: Timestamp) {
        if let Some(pace) = self.slab.get_mut(at) {
            pace.in_flight = pace.in_flight.saturating_sub(1);
            if refund {
                pace.limiter.refund(now);
            }
            self.settle(at, now);
        }
    }

    /// Whose pace it is.
    pub(crate) fn key(&self, at: u32) -> Option<&PaceKey> {
        self.slab.get(at).map(|pace| &pace.key)
    }

    /// The next instant at which a pod may go; `now` if one needs no permit.
    pub(crate) fn next_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let paced = self.wakes.first().map(|(at, _)| *at);
        if self.unpaced.is_empty() { paced } else { Some(paced.map_or(now, |at| at.min(now))) }
    }

    /// A new leadership: nobody knows what the predecessor granted, so every bucket starts empty.
    pub(crate) fn start_empty(&mut self, burst: u32, now: Timestamp) {
        for at in self.slab.numbers() {
            if let Some(pace) = self.slab.get_mut(at) {
                pace.limiter = Limiter::empty_since(pace.limiter.per_second(), burst, now, now);
            }
            self.settle(at, now);
        }
    }

    /// The clock went back: wake-ups that were set by the old one would come too late.
    pub(crate) fn retime_all(&mut self, now: Timestamp) {
        for at in self.slab.numbers() {
            if let Some(pace) = self.slab.get_mut(at) {
                pace.limiter.settle(now);
            }
            self.settle(at, now);
        }
    }

    /// Whether some are idle.
    pub(crate) fn are_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Forgets idle paces that are full again.
    pub(crate) fn sweep(&mut self, now: Timestamp) {
        while let Some(&(full, at)) = self.idle.first() {
            if full > now && self.idle.len() <= IDLE_MAX {
                return;
            }
            self.idle.remove(&(full, at));
            if let Some(pace) = self.slab.remove(at) {
                self.by_key.remove(&pace.key);
            }
        }
    }

    /// How many paces there are.
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// The rate is the highest of the causes'; with no cause left it stays what it was until the pace is forgotten.
    fn settle(&mut self, at: u32, now: Timestamp) {
        let Some(pace) = invariant!(self.slab.get_mut(at), "the number of a pace leads to it") else {
            return;
        };
        if let Some(&(rate, _)) = pace.rates.last()
            && rate != pace.limiter.per_second()
        {
            pace.limiter.set_rate(rate, now);
        }
        let idle = (pace.rates.is_empty() && pace.in_flight == 0).then(|| {
            // At a rate of zero it would never be full; an hour is long after anybody felt the last burst.
            pace.limiter.full_at(now).min(now.plus_secs(3_600))
        });
        if idle != pace.idle {
            if let Some(old) = pace.idle.take() {
                self.idle.remove(&(old, at));
            }
            if let Some(new) = idle {
                pace.idle = Some(new);
                self.idle.insert((new, at));
            }
        }
        self.retime(at, now);
    }

    fn retime(&mut self, at: u32, now: Timestamp) {
        let Some(pace) = invariant!(self.slab.get_mut(at), "the number of a pace leads to it") else {
            return;
        };
        let wake = if pace.ready.is_empty() { Timestamp::NEVER } else { pace.limiter.next_permit(now) };
        let wake = (wake != Timestamp::NEVER).then_some(wake);
        if wake == pace.wake {
            return;
        }
        if let Some(old) = pace.wake.take() {
            self.wakes.remove(&(old, at));
        }
        if let Some(new) = wake {
            pace.wake = Some(new);
            self.wakes.insert((new, at));
        }
    }
}
