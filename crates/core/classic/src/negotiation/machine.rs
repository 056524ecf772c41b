//! The state of the negotiator, and its inputs.

use alloc::{collections::BTreeMap, vec::Vec};

use lazaret_machine::{Backoff, Effect, Flights, Machine, Outcome, Retry, Turn, Wake};
use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use super::{
    effect::{NegotiationCounters, NegotiationEffectKind, NegotiationInput, NegotiationOptions, Waiting},
    slot::{BindingPhase, ClaimSlot, PodSlot},
};
use crate::{
    objects::{Change, Objects},
    queue::{Queue, WakeReason},
    write::{RECHECK_MS, RETRY},
};

/// After a binding that was done: the pod will be seen with its node, or is bound once more.
const RECHECK: Backoff = Backoff::new(RECHECK_MS, RECHECK_MS);

#[derive(Debug)]
pub(super) enum Flight {
    Change { claim: ObjectKey, uid: Uid, version: Text },
    Place { pod: ObjectKey, uid: Uid, node: Text },
}

/// Negotiates with drivers about nodes for the pods of one scheduler.
#[derive(Debug)]
pub struct Negotiator {
    pub(super) options: NegotiationOptions,
    leads: bool,
    pub(super) objects: Objects,
    pub(super) pods: BTreeMap<ObjectKey, PodSlot>,
    pub(super) claims: BTreeMap<ObjectKey, ClaimSlot>,
    /// For how many claims each node is selected, and no driver has answered yet.
    pub(super) selecting: BTreeMap<Text, u32>,
    pub(super) queue: Queue<ObjectKey>,
    pub(super) flights: Flights<NegotiationEffectKind, Flight>,
    pub(super) counters: NegotiationCounters,
}

impl Machine for Negotiator {
    type View = ();
    type Input<'a> = NegotiationInput;
    type Kind = NegotiationEffectKind;
    type Why = WakeReason;

    fn handle(&mut self, now: Timestamp, (): &(), input: NegotiationInput) {
        let led = self.leads;
        match input {
            NegotiationInput::News(news) => {
                if let Some(change) = self.objects.apply(news) {
                    self.note(change);
                }
            }
            NegotiationInput::Candidates { pod, uid, nodes } => {
                if let Some(slot) = self.pods.get_mut(&pod).filter(|slot| slot.uid == uid)
                    && (slot.candidates != nodes || !slot.candidates_told)
                {
                    slot.candidates = nodes;
                    slot.candidates_told = true;
                    self.queue.push(pod);
                }
            }
            NegotiationInput::Turn(Turn::Acknowledged(effect, reply)) => {
                if let Some(flight) = self.flights.land(effect) {
                    self.acknowledge(now, flight, reply.outcome);
                }
            }
            NegotiationInput::Turn(Turn::Tick) => {}
            NegotiationInput::Turn(Turn::BecameLeader) => self.leads = true,
            NegotiationInput::Turn(Turn::LostLeadership) => self.leads = false,
        }
        if led != self.leads {
            self.start_over();
        }
        if self.leads {
            self.queue.wake(now);
            while self.flights.len() < self.options.in_flight_max {
                match self.queue.pop() {
                    Some(key) => self.look_at_pod(now, &key),
                    None => return,
                }
            }
        }
    }

    fn poll_effect(&mut self) -> Option<Effect<NegotiationEffectKind>> {
        self.flights.take()
    }

    fn next_wake(&self) -> Option<Wake<WakeReason>> {
        if self.leads { self.queue.next_wake() } else { None }
    }
}

impl Negotiator {
    /// A machine that knows nothing yet and does not lead.
    #[must_use]
    pub fn new(options: NegotiationOptions) -> Self {
        Self {
            options,
            leads: false,
            objects: Objects::default(),
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            selecting: BTreeMap::new(),
            queue: Queue::default(),
            flights: Flights::default(),
            counters: NegotiationCounters::default(),
        }
    }

    /// Counters since the machine began.
    #[must_use]
    pub fn counters(&self) -> NegotiationCounters {
        self.counters
    }

    /// The reason why a pod waits; `None`: it has a node, or is not known.
    #[must_use]
    pub fn waiting(&self, pod: &ObjectKey) -> Option<&Waiting> {
        self.pods.get(pod).map(|slot| &slot.waiting)
    }

    /// Forgets all work in flight, and looks at everything. Effects in flight may still happen; none does harm if it happens twice.
    fn start_over(&mut self) {
        self.flights.abandon();
        self.queue.clear();
        self.claims.clear();
        self.selecting.clear();
        for slot in self.pods.values_mut() {
            let placing = core::mem::take(&mut slot.placing);
            *slot = PodSlot {
                uid: slot.uid.clone(),
                claims: core::mem::take(&mut slot.claims),
                candidates: slot.candidates.take(),
                candidates_told: slot.candidates_told,
                ..PodSlot::default()
            };
            // A binding that was in flight may have been done.
            if let BindingPhase::InFlight(node) | BindingPhase::Uncertain(node) = placing {
                slot.placing = BindingPhase::Uncertain(node);
            }
        }
        self.touch_all();
    }

    fn note(&mut self, change: Change) {
        match change {
            Change::Pod(key) => self.note_pod(key),
            Change::Claim(key) => {
                let uid = self.objects.claims.get(&key).map(|claim| &claim.uid);
                if self.claims.get(&key).is_some_and(|slot| Some(&slot.uid) != uid) {
                    self.claims.remove(&key);
                }
                self.touch_users_of(&key);
            }
            // Labels of a node may matter to any pod; they change rarely.
            Change::Node(_) => self.touch_all(),
            Change::Class(_) => {}
        }
    }

    fn note_pod(&mut self, key: ObjectKey) {
        let pod = self.objects.pods.get(&key).filter(|pod| pod.is_unplaced() && !pod.claims.is_empty());
        let pod = pod.cloned();
        let uid = pod.as_ref().map(|pod| &pod.uid);
        if self.pods.get(&key).is_some_and(|slot| Some(&slot.uid) != uid)
            && let Some(slot) = self.pods.remove(&key)
        {
            slot.asked.values().for_each(|node| self.answered(node));
            // Others may have waited for it.
            slot.claims.iter().for_each(|claim| self.touch_users_of(claim));
        }
        if let Some(pod) = pod {
            self.pods.entry(key.clone()).or_insert_with(|| PodSlot {
                uid: pod.uid.clone(),
                claims: pod.claim_keys(),
                ..PodSlot::default()
            });
            self.queue.push(key);
        }
    }

    /// If the write was to select a node, no driver has heard of it.
    fn forget_asked(&mut self, claim: &ObjectKey) {
        for pod in self.objects.users_of(claim) {
            let node = self.pods.get_mut(&pod).and_then(|slot| slot.asked.remove(claim));
            node.iter().for_each(|node| self.answered(node));
        }
    }

    /// A node that was selected for a claim is so no more.
    pub(super) fn answered(&mut self, node: &Text) {
        if let Some(count) = self.selecting.get_mut(node) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.selecting.remove(node);
            }
        }
    }

    pub(super) fn touch_users_of(&mut self, claim: &ObjectKey) {
        for pod in self.objects.users_of(claim) {
            if self.pods.contains_key(&pod) {
                self.queue.push(pod);
            }
        }
    }

    fn touch_all(&mut self) {
        let pods: Vec<ObjectKey> = self.pods.keys().cloned().collect();
        pods.into_iter().for_each(|pod| self.queue.push(pod));
    }

    fn acknowledge(&mut self, now: Timestamp, flight: Flight, outcome: Outcome) {
        match flight {
            Flight::Change { claim, uid, version } => {
                self.counters.written += u64::from(outcome == Outcome::Done);
                if let Some(slot) = self.claims.get_mut(&claim).filter(|slot| slot.uid == uid) {
                    slot.writer.landed(now, &version, outcome);
                }
                match outcome {
                    Outcome::Done | Outcome::Unknown => {}
                    Outcome::Gone
                    | Outcome::Conflict
                    | Outcome::Refused
                    | Outcome::Held
                    | Outcome::RetryLater => self.forget_asked(&claim),
                }
                self.touch_users_of(&claim);
            }
            Flight::Place { pod, uid, node } => {
                self.counters.placed += u64::from(outcome == Outcome::Done);
                if let Some(slot) = self.pods.get_mut(&pod).filter(|slot| slot.uid == uid) {
                    match outcome {
                        Outcome::Done => {
                            slot.placing = BindingPhase::Uncertain(node);
                            slot.retry = Retry::default();
                            slot.retry.fail(now, RECHECK);
                        }
                        Outcome::Unknown | Outcome::Held | Outcome::RetryLater => {
                            slot.placing = BindingPhase::Uncertain(node);
                            slot.retry.fail(now, RETRY);
                        }
                        Outcome::Gone => slot.placing = BindingPhase::Gone,
                        Outcome::Conflict | Outcome::Refused => {
                            slot.placing = BindingPhase::Failed;
                            slot.retry.fail(now, RETRY);
                        }
                    }
                }
                self.queue.push(pod);
            }
        }
    }
}
