//! Which pod is next.
//!
//! A waiting pod is in one of four places: it is *active* (see [`Turns`] for which of these is next), *backing
//! off* until an instant, *parked* until something happens that can help it or until it has waited long enough, or
//! *gated* until it is changed itself. There is one entry for each pod that is not placed, so the queue is as
//! large as the cluster has such pods and no larger.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use hashbrown::HashMap;
use lazaret_invariant::invariant;
use lazaret_model::{Text, Timestamp};
use rustc_hash::FxBuildHasher;

use crate::{
    causes::{Cause, Causes},
    turns::{Candidate, Turns},
};

/// How long pods wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueDelays {
    pub(crate) backoff_ms: i64,
    pub(crate) backoff_ms_max: i64,
    pub(crate) flush_ms: i64,
    /// The units of work of a pod's turn.
    pub(crate) turn_units: u64,
}

/// Where a pod waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Active {
        since: Timestamp,
    },
    /// `hasty`: it may go before its time if no other pod is ready.
    BackingOff {
        until: Timestamp,
        hasty: bool,
    },
    Parked {
        flush_at: Timestamp,
    },
    Gated,
    /// Nowhere: it is being tried or bound.
    Out,
}

#[derive(Debug)]
struct Waiting {
    namespace: Text,
    priority: i32,
    /// It goes on with an attempt that was begun.
    goes_on: bool,
    place: Place,
    attempts: u32,
    /// How often it was put back without an attempt being counted.
    postponed: u32,
    tried: Timestamp,
    causes: Causes,
}

impl Waiting {
    fn candidate(&self, pod: u32, since: Timestamp) -> Candidate {
        Candidate { priority: self.priority, goes_on: self.goes_on, since, pod }
    }
}

/// The waiting pods.
#[derive(Debug)]
pub(crate) struct Queue {
    pauses: QueueDelays,
    waiting: HashMap<u32, Waiting, FxBuildHasher>,
    active: Turns,
    /// The pods of each namespace that wait.
    namespaces: BTreeMap<Text, BTreeSet<u32>>,
    backing_off: BTreeSet<(Timestamp, u32)>,
    hasty: BTreeSet<(Timestamp, u32)>,
    parked: BTreeSet<(Timestamp, u32)>,
    by_cause: [BTreeSet<u32>; Cause::ALL.len()],
    gated: usize,
}

impl Queue {
    pub(crate) fn new(pauses: QueueDelays) -> Self {
        Self {
            pauses,
            waiting: HashMap::default(),
            active: Turns::new(pauses.turn_units),
            namespaces: BTreeMap::new(),
            backing_off: BTreeSet::new(),
            hasty: BTreeSet::new(),
            parked: BTreeSet::new(),
            by_cause: Default::default(),
            gated: 0,
        }
    }

    /// A pod that was not here before, or comes with a clean slate.
    pub(crate) fn enter(&mut self, now: Timestamp, pod: u32, namespace: &Text, priority: i32, gated: bool) {
        self.leave(pod);
        self.namespaces.entry(namespace.clone()).or_default().insert(pod);
        let place = if gated { Place::Gated } else { Place::Active { since: now } };
        let tried = Timestamp::from_millis(i64::MIN);
        let waiting = Waiting {
            namespace: namespace.clone(),
            priority,
            goes_on: false,
            place,
            attempts: 0,
            postponed: 0,
            tried,
            causes: Causes::NONE,
        };
        self.put(pod, waiting);
    }

    /// A pod does not wait any more.
    pub(crate) fn leave(&mut self, pod: u32) {
        if let Some(waiting) = self.waiting.remove(&pod) {
            self.unfile(pod, &waiting);
            if let Some(pods) = self.namespaces.get_mut(&waiting.namespace) {
                pods.remove(&pod);
                if pods.is_empty() {
                    self.namespaces.remove(&waiting.namespace);
                    self.active.forget(&waiting.namespace);
                }
            }
        }
    }

    /// A decision about a pod cost so much.
    pub(crate) fn charge(&mut self, namespace: &Text, units: u64) {
        match self.namespaces.get(namespace) {
            Some(pods) => self.active.charge(namespace, units, pods),
            // None of its pods waits any more.
            None => self.active.charge_nobody(units),
        }
    }

    /// Its turn is over, its attempt is not: it goes on when it is its turn again.
    pub(crate) fn go_on_later(&mut self, pod: u32) {
        let Some(waiting) = self.waiting.get_mut(&pod) else { return };
        (waiting.goes_on, waiting.attempts) = (true, waiting.attempts.saturating_sub(1));
        let since = waiting.tried;
        self.move_to(pod, Place::Active { since }, Causes::NONE);
    }

    /// The next pod to be tried. It stays known, but waits nowhere, until it is put back or removed.
    pub(crate) fn next(&mut self, now: Timestamp) -> Option<u32> {
        self.advance(now);
        let pod = match self.active.first() {
            Some(pod) => pod,
            None => self.hasty.first()?.1,
        };
        let mut waiting = self.waiting.remove(&pod)?;
        self.unfile(pod, &waiting);
        waiting.attempts = waiting.attempts.saturating_add(1);
        if !core::mem::take(&mut waiting.goes_on) {
            waiting.tried = now;
        }
        waiting.place = Place::Out;
        self.put(pod, waiting);
        Some(pod)
    }

    /// Takes out a pod that waits, out of turn; `false`: it does not, or is gated.
    pub(crate) fn take(&mut self, now: Timestamp, pod: u32) -> bool {
        let Some(waiting) = self.waiting.get_mut(&pod) else { return false };
        if matches!(waiting.place, Place::Gated | Place::Out) {
            return false;
        }
        waiting.attempts = waiting.attempts.saturating_add(1);
        waiting.tried = now;
        self.move_to(pod, Place::Out, Causes::NONE);
        true
    }

    /// It fits nowhere: it waits for one of the causes to go away.
    pub(crate) fn park(&mut self, now: Timestamp, pod: u32, causes: Causes) {
        let flush_at = now.plus_millis(self.pauses.flush_ms);
        self.move_to(pod, Place::Parked { flush_at }, causes);
    }

    /// It waits for an object that is being created: this was no attempt, and it waits for `patience_ms` at most.
    pub(crate) fn postpone(&mut self, now: Timestamp, pod: u32, causes: Causes, patience_ms: i64) {
        if let Some(waiting) = self.waiting.get_mut(&pod) {
            waiting.tried = Timestamp::from_millis(i64::MIN);
            waiting.attempts = waiting.attempts.saturating_sub(1);
            waiting.postponed = waiting.postponed.saturating_add(1);
        }
        self.move_to(pod, Place::Parked { flush_at: now.plus_millis(patience_ms) }, causes);
    }

    /// Something went wrong with it that no event will tell of: it waits for a while.
    pub(crate) fn back_off(&mut self, now: Timestamp, pod: u32) {
        let Some(waiting) = self.waiting.get(&pod) else { return };
        let until = now.plus_millis(self.pause(waiting.attempts));
        self.move_to(pod, Place::BackingOff { until, hasty: false }, Causes::NONE);
    }

    /// It cannot be tried before it is changed.
    pub(crate) fn gate(&mut self, pod: u32) {
        self.move_to(pod, Place::Gated, Causes::NONE);
    }

    /// Something happened that can help this pod, if it waits for anything.
    pub(crate) fn wake(&mut self, now: Timestamp, pod: u32) {
        let Some(waiting) = self.waiting.get(&pod) else { return };
        match waiting.place {
            Place::Active { .. } | Place::BackingOff { .. } | Place::Out => {}
            Place::Parked { .. } | Place::Gated => {
                let until = waiting.tried.plus_millis(self.pause(waiting.attempts));
                let place = if waiting.attempts == 0 || until <= now {
                    Place::Active { since: now }
                } else {
                    Place::BackingOff { until, hasty: true }
                };
                self.move_to(pod, place, Causes::NONE);
            }
        }
    }

    /// The event that this pod waits for did not come about: it is tried again after its backoff, however short the queue is.
    pub(crate) fn retry(&mut self, now: Timestamp, pod: u32) {
        let parked = |waiting: &&Waiting| matches!(waiting.place, Place::Parked { .. });
        if let Some(waiting) = self.waiting.get(&pod).filter(parked) {
            let until = now.plus_millis(self.pause(waiting.attempts));
            self.move_to(pod, Place::BackingOff { until, hasty: false }, Causes::NONE);
        }
    }

    /// Something happened that can help all pods that failed for this cause.
    pub(crate) fn wake_all(&mut self, now: Timestamp, cause: Cause) {
        for pod in core::mem::take(&mut self.by_cause[cause as usize]) {
            self.wake(now, pod);
        }
    }

    /// Everyone is tried again, as if for the first time.
    pub(crate) fn restart(&mut self, now: Timestamp) {
        let mut pods: Vec<u32> = Vec::with_capacity(self.waiting.len());
        pods.extend(self.backing_off.iter().chain(&self.parked).map(|(_, pod)| *pod));
        for pod in pods {
            if let Some(waiting) = self.waiting.get_mut(&pod) {
                (waiting.attempts, waiting.postponed) = (0, 0);
            }
            self.move_to(pod, Place::Active { since: now }, Causes::NONE);
        }
    }

    /// Moves on those whose time has come.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        while let Some(&(at, pod)) = self.backing_off.first()
            && at <= now
        {
            self.move_to(pod, Place::Active { since: now }, Causes::NONE);
        }
        while let Some(&(at, pod)) = self.parked.first()
            && at <= now
        {
            self.move_to(pod, Place::Active { since: now }, Causes::NONE);
        }
    }

    /// Whether some pod can be tried now.
    pub(crate) fn is_ready(&self) -> bool {
        self.active.len() > 0 || !self.hasty.is_empty()
    }

    /// When the next pause ends.
    pub(crate) fn next_backoff(&self) -> Option<Timestamp> {
        self.backing_off.first().map(|(at, _)| *at)
    }

    /// When the next pod has waited long enough.
    pub(crate) fn next_flush(&self) -> Option<Timestamp> {
        self.parked.first().map(|(at, _)| *at)
    }

    /// How many pods are active, backing off, parked, gated.
    pub(crate) fn lengths(&self) -> [usize; 4] {
        [self.active.len(), self.backing_off.len(), self.parked.len(), self.gated]
    }

    /// How often a pod was tried.
    pub(crate) fn attempts(&self, pod: u32) -> u32 {
        self.waiting.get(&pod).map_or(0, |waiting| waiting.attempts)
    }

    /// How often a pod was put back because of an object that is being created.
    pub(crate) fn postponed(&self, pod: u32) -> u32 {
        self.waiting.get(&pod).map_or(0, |waiting| waiting.postponed)
    }

    /// Where a pod waits, and what for.
    pub(crate) fn place(&self, pod: u32) -> Option<(Place, Causes)> {
        self.waiting.get(&pod).map(|waiting| (waiting.place, waiting.causes))
    }

    fn pause(&self, attempts: u32) -> i64 {
        let doublings = attempts.saturating_sub(1).min(32);
        self.pauses.backoff_ms.saturating_mul(1 << doublings).min(self.pauses.backoff_ms_max)
    }

    fn move_to(&mut self, pod: u32, place: Place, causes: Causes) {
        let Some(mut waiting) =
            invariant!(self.waiting.remove(&pod), "a pod that moves in the queue is in it")
        else {
            return;
        };
        self.unfile(pod, &waiting);
        waiting.goes_on &= matches!(place, Place::Active { .. });
        (waiting.place, waiting.causes) = (place, causes);
        self.put(pod, waiting);
    }

    fn put(&mut self, pod: u32, waiting: Waiting) {
        match waiting.place {
            Place::Active { since } => {
                self.active.insert(&waiting.namespace, &waiting.candidate(pod, since));
            }
            Place::BackingOff { until, hasty } => {
                self.backing_off.insert((until, pod));
                if hasty {
                    self.hasty.insert((until, pod));
                }
            }
            Place::Parked { flush_at } => {
                self.parked.insert((flush_at, pod));
                for cause in waiting.causes.iter() {
                    self.by_cause[cause as usize].insert(pod);
                }
            }
            Place::Gated => self.gated += 1,
            Place::Out => {}
        }
        self.waiting.insert(pod, waiting);
    }

    fn unfile(&mut self, pod: u32, waiting: &Waiting) {
        match waiting.place {
            Place::Active { since } => {
                self.active.remove(&waiting.namespace, &waiting.candidate(pod, since));
            }
            Place::BackingOff { until, .. } => {
                self.backing_off.remove(&(until, pod));
                self.hasty.remove(&(until, pod));
            }
            Place::Parked { flush_at } => {
                self.parked.remove(&(flush_at, pod));
                for cause in waiting.causes.iter() {
                    self.by_cause[cause as usize].remove(&pod);
                }
            }
            Place::Gated => self.gated -= 1,
            Place::Out => {}
        }
    }
}
