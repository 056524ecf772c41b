//! The machine: its state, what it takes note of, and what can be asked of it.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use lazaret_model::{ObjectKey, Outcome, Remembered, Text, Timestamp, Uid};

use super::effect::{ClaimCounters, ClaimEffect, ClaimEffectKind, ClaimInput};
use crate::{
    flights::Flights,
    objects::{Change, Objects},
    queue::{Queue, Wake},
    retry::{RetryOptions, Setback},
    write::Writer,
};

/// Effects in flight at a time. An API server answers a write in some milliseconds: 64 are thousands a second.
pub(super) const IN_FLIGHT_MAX: usize = 64;
/// Effects that wait to be taken before events are dropped, for events are best effort.
pub(super) const WAITING_MAX: usize = 1_024;
/// Pods known to be gone: an hour of deletions at ten a second. Others are asked for when a claim names them.
const GONE_MAX: usize = 36_000;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    /// First: to give up a reservation is more urgent than to make a claim.
    Claim(ObjectKey),
    Pod(ObjectKey),
}

#[derive(Debug)]
pub(super) enum Flight {
    Create { pod: ObjectKey, claim: ObjectKey, uid: Uid },
    Change { claim: ObjectKey, uid: Uid, version: Text, removed: u64 },
    Confirm { uid: Uid, claim: ObjectKey },
}

/// The claims that are made for one incarnation of a pod, by name.
#[derive(Debug, Default)]
pub(super) struct PodMaking {
    pub(super) uid: Uid,
    pub(super) claims: BTreeMap<Text, Making>,
}

/// The making of one claim.
#[derive(Debug, Default)]
pub(super) struct Making {
    pub(super) in_flight: bool,
    pub(super) setback: Setback,
    /// The foreign claim that people were told of.
    pub(super) foreign: Option<Uid>,
}

#[derive(Debug)]
pub(super) struct Writing {
    pub(super) uid: Uid,
    pub(super) writer: Writer,
}

/// What is known of a pod that is not in the cache.
#[derive(Debug, Default)]
pub(super) struct Asking {
    pub(super) in_flight: bool,
    pub(super) setback: Setback,
}

/// Makes the claims of pods with templates, and removes reservations of pods that are gone.
#[derive(Debug)]
pub struct ClaimController {
    pub(super) retry: RetryOptions,
    leads: bool,
    pub(super) objects: Objects,
    pub(super) makings: BTreeMap<ObjectKey, PodMaking>,
    pub(super) writings: BTreeMap<ObjectKey, Writing>,
    /// For each claim the pods that it is reserved for, and for each pod those claims.
    reserved: BTreeMap<ObjectKey, Vec<(ObjectKey, Uid)>>,
    reserved_for: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    pub(super) asking: BTreeMap<Uid, Asking>,
    pub(super) gone: Remembered,
    pub(super) queue: Queue<Item>,
    pub(super) flights: Flights<Flight, ClaimEffectKind>,
    pub(super) counters: ClaimCounters,
}

impl ClaimController {
    /// A machine that knows nothing yet and does not lead.
    #[must_use]
    pub fn new(retry: RetryOptions) -> Self {
        Self {
            retry,
            leads: false,
            objects: Objects::default(),
            makings: BTreeMap::new(),
            writings: BTreeMap::new(),
            reserved: BTreeMap::new(),
            reserved_for: BTreeMap::new(),
            asking: BTreeMap::new(),
            gone: Remembered::new(GONE_MAX),
            queue: Queue::default(),
            flights: Flights::default(),
            counters: ClaimCounters::default(),
        }
    }

    /// Takes note of `input` and decides what is to be done at `now`. Total: any input in any state.
    pub fn handle(&mut self, now: Timestamp, input: ClaimInput) {
        let was_active = self.is_active();
        match input {
            ClaimInput::News(news) => {
                for change in self.objects.apply(news) {
                    self.note(change);
                }
            }
            ClaimInput::Acknowledged { effect, outcome } => {
                if let Some(flight) = self.flights.land(effect) {
                    self.acknowledge(now, flight, outcome);
                }
            }
            ClaimInput::Tick => {}
            ClaimInput::BecameLeader => self.leads = true,
            ClaimInput::LostLeadership => self.leads = false,
        }
        if was_active != self.is_active() {
            self.start_over();
        }
        if self.is_active() {
            self.queue.wake(now);
            while self.flights.len() < IN_FLIGHT_MAX {
                match self.queue.pop() {
                    Some(Item::Claim(key)) => self.look_at_claim(now, &key),
                    Some(Item::Pod(key)) => self.look_at_pod(now, &key),
                    None => return,
                }
            }
        }
    }

    /// The next effect to be done, the oldest first. None is given twice.
    pub fn poll_effect(&mut self) -> Option<ClaimEffect> {
        self.flights.take().map(|(id, kind)| ClaimEffect { id, kind })
    }

    /// When to call again if nothing happens before. `None`: there is nothing to wait for.
    #[must_use]
    pub fn next_wake(&self) -> Option<Wake> {
        if self.is_active() { self.queue.next_wake() } else { None }
    }

    /// What has been done.
    #[must_use]
    pub fn counters(&self) -> ClaimCounters {
        self.counters
    }

    fn is_active(&self) -> bool {
        self.leads && self.objects.synced
    }

    /// Forgets all work in flight, and looks at everything. What was in flight may still happen; nothing that happens twice does harm.
    fn start_over(&mut self) {
        self.flights.abandon();
        self.queue.clear();
        self.makings.clear();
        self.writings.clear();
        self.asking.clear();
        let claims = self.objects.claims.keys().cloned().map(Item::Claim);
        let items: Vec<Item> = claims.chain(self.objects.pods.keys().cloned().map(Item::Pod)).collect();
        items.into_iter().for_each(|item| self.queue.push(item));
    }

    fn note(&mut self, change: Change) {
        match change {
            Change::Pod(key) => {
                let claims: Vec<ObjectKey> =
                    self.reserved_for.get(&key).into_iter().flatten().cloned().collect();
                claims.into_iter().for_each(|claim| self.queue.push(Item::Claim(claim)));
                let uid = self.objects.pods.get(&key).map(|pod| &pod.uid);
                if self.makings.get(&key).is_some_and(|making| Some(&making.uid) != uid) {
                    self.makings.remove(&key);
                }
                self.queue.push(Item::Pod(key));
            }
            Change::Claim(key) => {
                let uid = self.objects.claims.get(&key).map(|claim| &claim.uid);
                if self.writings.get(&key).is_some_and(|writing| Some(&writing.uid) != uid) {
                    self.writings.remove(&key);
                }
                self.index_reservations(&key);
                for pod in self.objects.users_of(&key) {
                    self.queue.push(Item::Pod(pod));
                }
                self.queue.push(Item::Claim(key));
            }
            Change::Class(_) | Change::Node(_) => {}
        }
    }

    fn index_reservations(&mut self, key: &ObjectKey) {
        let claim = self.objects.claims.get(key);
        let users = claim.into_iter().flat_map(|claim| &claim.status.reserved_for);
        let pods: Vec<(ObjectKey, Uid)> = users
            .filter(|user| user.is_pod())
            .map(|user| {
                (ObjectKey { namespace: key.namespace.clone(), name: user.name.clone() }, user.uid.clone())
            })
            .collect();
        for (pod, uid) in self.reserved.remove(key).unwrap_or_default() {
            if let Some(claims) = self.reserved_for.get_mut(&pod) {
                claims.remove(key);
                if claims.is_empty() {
                    self.reserved_for.remove(&pod);
                }
            }
            if !pods.iter().any(|(_, still)| *still == uid) {
                self.asking.remove(&uid);
            }
        }
        for (pod, _) in &pods {
            self.reserved_for.entry(pod.clone()).or_default().insert(key.clone());
        }
        if !pods.is_empty() {
            self.reserved.insert(key.clone(), pods);
        }
    }

    fn acknowledge(&mut self, now: Timestamp, flight: Flight, outcome: Outcome) {
        match flight {
            Flight::Create { pod, claim, uid } => self.made(now, pod, &claim, &uid, outcome),
            Flight::Change { claim, uid, version, removed } => {
                if outcome == Outcome::Done {
                    self.counters.reservations_removed += removed;
                }
                if let Some(writing) = self.writings.get_mut(&claim).filter(|writing| writing.uid == uid) {
                    writing.writer.landed(now, &version, outcome, &self.retry);
                }
                self.queue.push(Item::Claim(claim));
            }
            Flight::Confirm { uid, claim } => {
                self.confirmed(now, uid, outcome);
                self.queue.push(Item::Claim(claim));
            }
        }
    }
}
