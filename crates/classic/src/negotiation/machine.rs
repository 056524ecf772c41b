//! The machine: its state, what it takes note of, and what can be asked of it.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};

use lazaret_model::{ObjectKey, Outcome, Text, Timestamp, Uid};

use super::{
    effect::{
        NegotiationCounters, NegotiationEffect, NegotiationEffectKind, NegotiationInput, NegotiationOptions,
        Waiting,
    },
    slot::{ClaimSlot, Placing, PodSlot, Turn},
};
use crate::{
    flights::Flights,
    objects::{Change, Objects},
    queue::{Queue, Wake},
    retry::Setback,
};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    Turn,
    Pod(ObjectKey),
}

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
    pub(super) turn: Option<Turn>,
    /// Each pod at most once.
    pub(super) turn_queue: VecDeque<(ObjectKey, Uid)>,
    /// For how many claims each node is selected, and no driver has answered yet.
    pub(super) selecting: BTreeMap<Text, u32>,
    /// Nodes that a driver refused for a claim of a class, and until when that counts.
    pub(super) refused: BTreeMap<(Text, Text), Timestamp>,
    /// Pods that wait for the end of a turn.
    pub(super) paused: BTreeSet<ObjectKey>,
    pub(super) queue: Queue<Item>,
    pub(super) flights: Flights<Flight, NegotiationEffectKind>,
    pub(super) counters: NegotiationCounters,
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
            turn: None,
            turn_queue: VecDeque::new(),
            selecting: BTreeMap::new(),
            refused: BTreeMap::new(),
            paused: BTreeSet::new(),
            queue: Queue::default(),
            flights: Flights::default(),
            counters: NegotiationCounters::default(),
        }
    }

    /// Takes note of `input` and decides what is to be done at `now`. Total: any input in any state.
    pub fn handle(&mut self, now: Timestamp, input: NegotiationInput) {
        let was_active = self.is_active();
        match input {
            NegotiationInput::News(news) => {
                for change in self.objects.apply(news) {
                    self.note(now, change);
                }
            }
            NegotiationInput::Candidates { pod, uid, nodes } => {
                if let Some(slot) = self.pods.get_mut(&pod).filter(|slot| slot.uid == uid)
                    && (slot.candidates != nodes || !slot.candidates_told)
                {
                    slot.candidates = nodes;
                    slot.candidates_told = true;
                    self.queue.push(Item::Pod(pod));
                }
            }
            NegotiationInput::Acknowledged { effect, outcome } => {
                if let Some(flight) = self.flights.land(effect) {
                    self.acknowledge(now, flight, outcome);
                }
            }
            NegotiationInput::Tick => {}
            NegotiationInput::BecameLeader => self.leads = true,
            NegotiationInput::LostLeadership => self.leads = false,
        }
        if was_active != self.is_active() {
            self.start_over();
        }
        if self.is_active() {
            self.queue.wake(now);
            while self.flights.len() < self.options.in_flight_max {
                match self.queue.pop() {
                    Some(Item::Pod(key)) => self.look_at_pod(now, &key),
                    Some(Item::Turn) => self.look_at_turn(now),
                    None => return,
                }
            }
        }
    }

    /// The next effect to be done, the oldest first. None is given twice.
    pub fn poll_effect(&mut self) -> Option<NegotiationEffect> {
        self.flights.take().map(|(id, kind)| NegotiationEffect { id, kind })
    }

    /// When to call again if nothing happens before. `None`: there is nothing to wait for.
    #[must_use]
    pub fn next_wake(&self) -> Option<Wake> {
        if self.is_active() { self.queue.next_wake() } else { None }
    }

    /// What has been done.
    #[must_use]
    pub fn counters(&self) -> NegotiationCounters {
        self.counters
    }

    /// What a pod waits for; `None`: it has a node, or is not known.
    #[must_use]
    pub fn waiting(&self, pod: &ObjectKey) -> Option<&Waiting> {
        self.pods.get(pod).map(|slot| &slot.waiting)
    }

    fn is_active(&self) -> bool {
        self.leads && self.objects.synced
    }

    /// Forgets all work in flight, and looks at everything. What was in flight may still happen; nothing that happens twice does harm.
    fn start_over(&mut self) {
        self.flights.abandon();
        self.queue.clear();
        self.claims.clear();
        self.turn = None;
        self.turn_queue.clear();
        self.paused.clear();
        self.selecting.clear();
        self.refused.clear();
        for slot in self.pods.values_mut() {
            let placing = core::mem::take(&mut slot.placing);
            *slot = PodSlot {
                uid: slot.uid.clone(),
                candidates: slot.candidates.take(),
                candidates_told: slot.candidates_told,
                ..PodSlot::default()
            };
            // A binding that was in flight may still arrive.
            if let Placing::InFlight(node) | Placing::Uncertain(node) = placing {
                slot.placing = Placing::Uncertain(node);
            }
        }
        let pods: Vec<ObjectKey> = self.pods.keys().cloned().collect();
        pods.into_iter().for_each(|pod| self.queue.push(Item::Pod(pod)));
    }

    fn note(&mut self, now: Timestamp, change: Change) {
        match change {
            Change::Pod(key) => self.note_pod(now, key),
            Change::Claim(key) => {
                let uid = self.objects.claims.get(&key).map(|claim| &claim.uid);
                if self.claims.get(&key).is_some_and(|slot| Some(&slot.uid) != uid) {
                    self.claims.remove(&key);
                }
                self.touch_users_of(&key);
            }
            // Labels of a node, or which driver a class has, may matter to any pod. Both change rarely.
            Change::Class(_) | Change::Node(_) => {
                let pods: Vec<ObjectKey> = self.pods.keys().cloned().collect();
                pods.into_iter().for_each(|pod| self.queue.push(Item::Pod(pod)));
            }
        }
    }

    fn note_pod(&mut self, now: Timestamp, key: ObjectKey) {
        let pod = self.objects.pods.get(&key).filter(|pod| pod.is_unplaced() && !pod.claims.is_empty());
        let uid = pod.map(|pod| pod.uid.clone());
        if self.pods.get(&key).is_some_and(|slot| Some(&slot.uid) != uid.as_ref()) {
            let slot = self.pods.remove(&key);
            self.paused.remove(&key);
            if let Some(slot) = slot {
                self.end_turn_of(now, &key, &slot.uid);
                // Others may have waited for it.
                for (claim, node) in &slot.asked {
                    self.answered(node);
                    self.touch_users_of(claim);
                }
            }
        }
        if let Some(uid) = uid {
            self.pods.entry(key.clone()).or_insert_with(|| PodSlot { uid, ..PodSlot::default() });
            self.queue.push(Item::Pod(key));
        }
    }

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
                self.queue.push(Item::Pod(pod));
            }
        }
    }

    fn acknowledge(&mut self, now: Timestamp, flight: Flight, outcome: Outcome) {
        match flight {
            Flight::Change { claim, uid, version } => {
                self.counters.written += u64::from(outcome == Outcome::Done);
                if let Some(slot) = self.claims.get_mut(&claim).filter(|slot| slot.uid == uid) {
                    slot.writer.landed(now, &version, outcome, &self.options.retry);
                }
                match outcome {
                    Outcome::Done | Outcome::Unknown => {}
                    // If it was to select a node, no driver has heard of it.
                    Outcome::Gone | Outcome::Conflict | Outcome::RetryLater => self.forget_asked(&claim),
                }
                self.touch_users_of(&claim);
            }
            Flight::Place { pod, uid, node } => {
                self.counters.placed += u64::from(outcome == Outcome::Done);
                if let Some(slot) = self.pods.get_mut(&pod).filter(|slot| slot.uid == uid) {
                    match outcome {
                        // The pod will be seen with its node, or is bound once more.
                        Outcome::Done => {
                            slot.placing = Placing::Uncertain(node);
                            slot.setback = Setback::default();
                            slot.setback.until = now.plus_millis(self.options.retry.recheck_ms);
                        }
                        Outcome::Unknown => {
                            slot.placing = Placing::Uncertain(node);
                            slot.setback.fail(now, &self.options.retry);
                        }
                        Outcome::Gone | Outcome::Conflict | Outcome::RetryLater => {
                            slot.placing = Placing::Failed;
                            slot.setback.fail(now, &self.options.retry);
                        }
                    }
                }
                self.queue.push(Item::Pod(pod));
            }
        }
    }
}
