//! The state of the claim controller, and its inputs.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use lazaret_machine::{Effect, Flights, Machine, Outcome, Recent, Retry, Turn, Wake};
use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use super::{
    effect::{ClaimCounters, ClaimEffectKind, ClaimInput},
    nodes::Nodes,
};
use crate::{
    news::News,
    objects::{Change, Objects},
    queue::{Queue, WakeReason},
    write::Writer,
};

/// Effects in flight at a time. An API server answers a write in some milliseconds: 64 are thousands a second.
pub(super) const IN_FLIGHT_MAX: usize = 64;
/// Events that wait to be taken; more are dropped, for events are best effort.
pub(super) const EVENTS_MAX: usize = 1_024;
/// Pods known to be gone: an hour of deletions at ten a second. Others are asked for when a claim names them.
const GONE_MAX: usize = 36_000;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    /// First: to give up a reservation is more urgent than to make a claim.
    Claim(ObjectKey),
    Pod(ObjectKey),
    Node(Text),
}

#[derive(Debug)]
pub(super) enum Flight {
    Create { pod: ObjectKey, claim: ObjectKey, uid: Uid },
    Change { claim: ObjectKey, uid: Uid, version: Text, removed: u64 },
    Confirm { pod: ObjectKey, uid: Uid },
    Ask { node: Text, version: Text },
}

/// The claims that are made for one incarnation of a pod, by name.
#[derive(Debug, Default)]
pub(super) struct PodClaimCreations {
    pub(super) uid: Uid,
    pub(super) claims: BTreeMap<Text, ClaimCreation>,
}

/// The making of one claim.
#[derive(Debug, Default)]
pub(super) struct ClaimCreation {
    pub(super) in_flight: bool,
    pub(super) retry: Retry,
    /// The foreign claim that people were told of.
    pub(super) foreign: Option<Uid>,
}

#[derive(Debug)]
pub(super) struct Writing {
    pub(super) uid: Uid,
    pub(super) writer: Writer,
}

/// The question about a pod that is not in the cache.
#[derive(Debug, Default)]
pub(super) struct PodConfirmation {
    pub(super) in_flight: bool,
    pub(super) retry: Retry,
}

/// Makes the claims of pods with templates, removes reservations of pods that are gone or have ended, and deletes claims that were made for pods
/// that have ended.
#[derive(Debug)]
pub struct ClaimController {
    leads: bool,
    pub(super) objects: Objects,
    pub(super) creations: BTreeMap<ObjectKey, PodClaimCreations>,
    pub(super) writings: BTreeMap<ObjectKey, Writing>,
    /// For each claim the pods that it is reserved for, and for each pod those claims.
    reserved: BTreeMap<ObjectKey, Vec<(ObjectKey, Uid)>>,
    reserved_for: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    pub(super) confirmations: BTreeMap<Uid, PodConfirmation>,
    pub(super) gone: Recent<Uid>,
    pub(super) nodes: Nodes,
    pub(super) queue: Queue<Item>,
    pub(super) flights: Flights<ClaimEffectKind, Flight>,
    pub(super) counters: ClaimCounters,
}

impl Default for ClaimController {
    fn default() -> Self {
        Self {
            leads: false,
            objects: Objects::default(),
            creations: BTreeMap::new(),
            writings: BTreeMap::new(),
            reserved: BTreeMap::new(),
            reserved_for: BTreeMap::new(),
            confirmations: BTreeMap::new(),
            gone: Recent::new(GONE_MAX),
            nodes: Nodes::default(),
            queue: Queue::default(),
            flights: Flights::default(),
            counters: ClaimCounters::default(),
        }
    }
}

impl Machine for ClaimController {
    type View = ();
    type Input<'a> = ClaimInput;
    type Kind = ClaimEffectKind;
    type Why = WakeReason;

    fn handle(&mut self, now: Timestamp, (): &(), input: ClaimInput) {
        let led = self.leads;
        match input {
            ClaimInput::News(News::Report(report)) => {
                let node = report.name.clone();
                self.nodes.seen(report);
                self.touch_node(node);
            }
            ClaimInput::News(News::ReportGone(node)) => {
                self.nodes.gone(&node);
                self.touch_node(node);
            }
            ClaimInput::News(news) => {
                if let News::PodGone(pod, uid) = &news
                    && !self.reserved_for.contains_key(pod)
                {
                    self.nodes.forget(uid);
                }
                if let Some(change) = self.objects.apply(news) {
                    self.note(change);
                }
            }
            ClaimInput::Turn(Turn::Acknowledged(effect, reply)) => {
                if let Some(flight) = self.flights.land(effect) {
                    self.acknowledge(now, flight, reply.outcome);
                }
            }
            ClaimInput::Turn(Turn::Tick) => {}
            ClaimInput::Turn(Turn::BecameLeader) => self.leads = true,
            ClaimInput::Turn(Turn::LostLeadership) => self.leads = false,
        }
        if led != self.leads {
            self.start_over();
        }
        if self.leads {
            self.queue.wake(now);
            while self.flights.len() < IN_FLIGHT_MAX {
                match self.queue.pop() {
                    Some(Item::Claim(key)) => self.look_at_claim(now, &key),
                    Some(Item::Pod(key)) => self.look_at_pod(now, &key),
                    Some(Item::Node(name)) => self.look_at_node(now, &name),
                    None => return,
                }
            }
        }
    }

    fn poll_effect(&mut self) -> Option<Effect<ClaimEffectKind>> {
        self.flights.take()
    }

    fn next_wake(&self) -> Option<Wake<WakeReason>> {
        if self.leads { self.queue.next_wake() } else { None }
    }
}

impl ClaimController {
    /// Counters since the machine began.
    #[must_use]
    pub fn counters(&self) -> ClaimCounters {
        ClaimCounters { queue: self.queue.counts(), ..self.counters }
    }

    /// Forgets all work in flight, and looks at everything. Effects in flight may still happen; none does harm if it happens twice.
    fn start_over(&mut self) {
        self.flights.abandon();
        self.queue.clear();
        self.creations.clear();
        self.writings.clear();
        self.confirmations.clear();
        let claims = self.objects.claims.keys().cloned().map(Item::Claim);
        let items: Vec<Item> = claims.chain(self.objects.pods.keys().cloned().map(Item::Pod)).collect();
        items.into_iter().for_each(|item| self.queue.push(item));
        self.nodes.start_over().into_iter().for_each(|node| self.queue.push(Item::Node(node)));
    }

    /// A node has said something: the claims that wait for it, and what it is asked.
    fn touch_node(&mut self, node: Text) {
        self.nodes.waiting_for(&node).into_iter().for_each(|claim| self.queue.push(Item::Claim(claim)));
        self.queue.push(Item::Node(node));
    }

    fn note(&mut self, change: Change) {
        match change {
            Change::Pod(key) => {
                self.touch_reserved_for(&key);
                if let Some(pod) = self.objects.pods.get(&key) {
                    self.nodes.pod_seen(pod);
                    if pod.ended {
                        pod.claim_keys().into_iter().for_each(|claim| self.queue.push(Item::Claim(claim)));
                    }
                }
                let uid = self.objects.pods.get(&key).map(|pod| &pod.uid);
                if self.creations.get(&key).is_some_and(|making| Some(&making.uid) != uid) {
                    self.creations.remove(&key);
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

    /// All claims that are reserved for a pod of this name.
    fn touch_reserved_for(&mut self, pod: &ObjectKey) {
        for claim in self.reserved_for.get(pod).into_iter().flatten() {
            self.queue.push(Item::Claim(claim.clone()));
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
            if !pods.iter().any(|(_, still)| *still == uid) && !self.reserved_for.contains_key(&pod) {
                self.confirmations.remove(&uid);
                if self.objects.pods.get(&pod).is_none_or(|known| known.uid != uid) {
                    self.nodes.forget(&uid);
                }
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
                    writing.writer.landed(now, &version, outcome);
                }
                self.queue.push(Item::Claim(claim));
            }
            Flight::Ask { node, version } => {
                if let Some(writer) = self.nodes.writer(&node) {
                    writer.landed(now, &version, outcome);
                }
                self.queue.push(Item::Node(node));
            }
            Flight::Confirm { pod, uid } => {
                self.confirmed(now, uid, outcome);
                self.touch_reserved_for(&pod);
            }
        }
    }
}
