//! Pods that are being bound: from the decision until the watch shows them on their node.

use alloc::{collections::BTreeSet, format, string::ToString, sync::Arc, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_model::{Allocation, ClaimSpec, ObjectKey, Owner, Text, Timestamp, Uid};

use crate::{
    Pod,
    claim_writes::NEWS_MS_MAX,
    effect::{
        Bind, CreateExtendedClaim, DeleteExtendedClaim, EffectId, EffectKind, Event, EventKind, Mapping,
        Outcome, Reply, SetExtendedClaim, SetNodeAllocatable,
    },
    machine::{Alarm, Scheduler},
    outbox::Purpose,
    ready::Readiness,
    shares::NodeAllocatableStatus,
    why::{Verdict, Why},
};

/// Events that wait to be taken; more are dropped. As many may wait to be posted.
const EVENTS_WAITING_MAX: usize = 16_384;
/// A binding that failed is tried again, but only so often: then the pod is decided on anew.
const BIND_TRIES_MAX: u32 = 5;

/// A pod that is being bound.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// Its claims, but for one that is being made.
    pub(crate) claims: Vec<ObjectKey>,
    /// Those of them that are not known to be reserved for it.
    pub(crate) reserving: BTreeSet<ObjectKey>,
    /// The claim that is made for it.
    pub(crate) extended: Option<ExtendedClaim>,
    /// What its claims take of the node, if its status is to say so.
    pub(crate) taken: Option<Arc<[NodeAllocatableStatus]>>,
    /// Its status may say so already.
    pub(crate) stated: bool,
    pub(crate) phase: Phase,
    /// What it waits for to be acknowledged.
    pub(crate) awaits: Option<EffectId>,
    pub(crate) tries: u32,
}

/// A claim that is made for a pod's extended resources.
#[derive(Clone, Debug)]
pub(crate) struct ExtendedClaim {
    /// Under which its devices are held as long as there is no claim.
    pub(crate) stand_in: Uid,
    pub(crate) spec: Arc<ClaimSpec>,
    pub(crate) mappings: Arc<[Mapping]>,
    pub(crate) allocation: Arc<Allocation>,
    /// Once it is made.
    pub(crate) made: Option<(ObjectKey, Uid)>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The claim for its extended resources is being made.
    Making,
    /// Its claims are being written.
    #[default]
    Reserving,
    /// Its devices are being made ready.
    Preparing { until: Timestamp },
    /// Its status is to name the claim that was made.
    Naming,
    /// Its status is to say what its claims take of the node.
    Stating,
    /// The binding was given out.
    Binding,
    /// The binding will be given out again.
    Pausing { until: Timestamp },
    /// It is bound, and not seen to be.
    Bound,
}

impl Scheduler {
    // === Steps ===

    /// A claim is reserved for a pod.
    pub(crate) fn claim_ready(&mut self, ix: u32, key: &ObjectKey) {
        if let Some(flight) = self.flights.get_mut(&ix) {
            flight.reserving.remove(key);
            self.proceed(ix);
        }
    }

    /// Takes the next step with a pod, if it can be taken.
    pub(crate) fn proceed(&mut self, ix: u32) {
        let Some(flight) = self.flights.get_mut(&ix) else { return };
        match flight.phase {
            Phase::Reserving if !flight.reserving.is_empty() => {}
            Phase::Pausing { until } if self.now < until => {}
            Phase::Reserving | Phase::Preparing { .. } => self.bind_when_ready(ix),
            Phase::Pausing { .. } => self.bind(ix),
            Phase::Making | Phase::Naming | Phase::Stating | Phase::Binding | Phase::Bound => {}
        }
    }

    fn bind_when_ready(&mut self, ix: u32) {
        let Some(flight) = invariant!(self.flights.get(&ix), "a flight that is stepped is there") else {
            return;
        };
        match self.readiness_of(&flight.claims) {
            Readiness::Ready if flight.extended.is_some() => self.name_claim(ix),
            Readiness::Ready => self.state_and_bind(ix),
            Readiness::Failed(why) => self.roll_back(ix, &why),
            Readiness::Waiting { until } => {
                let told = matches!(flight.phase, Phase::Preparing { .. });
                self.set_alarm(until, Alarm::Pod(ix));
                self.set_phase(ix, Phase::Preparing { until }, None);
                if let Some(pod) = self.pods.get(ix).map(|entry| entry.pod.clone()).filter(|_| !told) {
                    let message = "Waiting for the devices of its claims to be made ready";
                    self.tell(&pod, EventKind::BindingConditionsPending, message);
                }
            }
        }
    }

    /// Has the claim for extended resources made.
    pub(crate) fn make_claim(&mut self, ix: u32, pod: &Pod, extended: &ExtendedClaim) {
        let create = CreateExtendedClaim {
            pod: pod.key.clone(),
            owner: Owner {
                group: Text::default(),
                kind: "Pod".into(),
                name: pod.key.name.clone(),
                uid: pod.uid.clone(),
            },
            generate_name: format!("{}-extended-resources-", pod.key.name).into(),
            spec: extended.spec.clone(),
        };
        let effect = self.outbox.launch(Purpose::Pod(ix), EffectKind::CreateExtendedClaim(create));
        self.set_phase(ix, Phase::Making, Some(effect));
    }

    /// The claim for extended resources is made: from now on it is a claim like any other.
    fn claim_made(&mut self, ix: u32, name: Text, uid: Uid) {
        let Some(pod) =
            invariant!(self.pods.get(ix).map(|entry| entry.pod.clone()), "the number of a pod leads to it")
        else {
            return;
        };
        let Some(flight) = invariant!(self.flights.get_mut(&ix), "a flight that is stepped is there") else {
            return;
        };
        let Some(extended) = invariant!(flight.extended.as_mut(), "a claim that was made is an extended one")
        else {
            return;
        };
        let key = ObjectKey { namespace: pod.key.namespace.clone(), name };
        let consumer = self.book.consumer(&pod, &key);
        self.overlay.remove(&extended.stand_in);
        self.overlay.insert(&uid, &extended.allocation);
        let entry = self.claim_writes.open(&key, &uid);
        entry.allocation = Some(extended.allocation.clone());
        entry.wanted.insert(ix, consumer);
        extended.made = Some((key.clone(), uid));
        flight.claims.push(key.clone());
        flight.reserving.insert(key.clone());
        self.set_phase(ix, Phase::Reserving, None);
        self.write_claim(&key);
    }

    fn name_claim(&mut self, ix: u32) {
        let Some(pod) =
            invariant!(self.pods.get(ix).map(|entry| entry.pod.clone()), "the number of a pod leads to it")
        else {
            return;
        };
        let extended = self.flights.get(&ix).and_then(|flight| flight.extended.as_ref());
        let Some((extended, (key, _))) =
            extended.and_then(|extended| Some((extended, extended.made.as_ref()?)))
        else {
            return;
        };
        let set = SetExtendedClaim {
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            claim: key.name.clone(),
            mappings: extended.mappings.clone(),
        };
        let effect = self.outbox.launch(Purpose::Pod(ix), EffectKind::SetExtendedClaim(set));
        self.set_phase(ix, Phase::Naming, Some(effect));
    }

    /// Binds a pod as soon as its status says what its claims take of the node.
    fn state_and_bind(&mut self, ix: u32) {
        let Some(flight) = invariant!(self.flights.get_mut(&ix), "a flight that is stepped is there") else {
            return;
        };
        let Some(statuses) = flight.taken.clone().filter(|_| !flight.stated) else { return self.bind(ix) };
        flight.stated = true;
        if let Some(effect) = self.set_node_allocatable(ix, statuses, Purpose::Pod(ix)) {
            self.set_phase(ix, Phase::Stating, Some(effect));
        }
    }

    fn set_node_allocatable(
        &mut self,
        ix: u32,
        statuses: Arc<[NodeAllocatableStatus]>,
        purpose: Purpose,
    ) -> Option<EffectId> {
        let pod = &self.pods.get(ix)?.pod;
        let set = SetNodeAllocatable { pod: pod.key.clone(), uid: pod.uid.clone(), statuses };
        Some(self.outbox.launch(purpose, EffectKind::SetNodeAllocatable(set)))
    }

    fn bind(&mut self, ix: u32) {
        let Some(entry) = invariant!(self.pods.get(ix), "the number of a pod leads to it") else { return };
        let Some(node) =
            invariant!(entry.on.and_then(|on| self.nodes.get(on)), "a pod that is bound has a node")
        else {
            return;
        };
        let (pod, uid) = (entry.pod.key.clone(), entry.pod.uid.clone());
        let effect = Bind { pod, uid, node: node.name.clone() };
        let effect = self.outbox.launch(Purpose::Pod(ix), EffectKind::Bind(effect));
        self.set_phase(ix, Phase::Binding, Some(effect));
    }

    fn set_phase(&mut self, ix: u32, phase: Phase, awaits: Option<EffectId>) {
        if let Some(flight) = self.flights.get_mut(&ix) {
            (flight.phase, flight.awaits) = (phase, awaits);
        }
    }

    // === Replies ===

    /// What became of an effect.
    pub(crate) fn acknowledged(&mut self, effect: EffectId, reply: &Reply) {
        match self.outbox.land(effect) {
            Some(Purpose::Claim(key)) => {
                let current = self.claim_writes.get(&key).and_then(|entry| entry.write.as_ref());
                if current.is_some_and(|write| write.effect == effect) {
                    self.claim_written(&key, reply);
                }
            }
            Some(Purpose::Pod(ix)) => {
                if self.flights.get(&ix).is_some_and(|flight| flight.awaits == Some(effect)) {
                    self.step_done(ix, reply);
                }
            }
            Some(Purpose::Evict(victim)) => {
                if reply.outcome != Outcome::Done {
                    self.eviction_failed(victim);
                }
            }
            Some(Purpose::Delete(owner)) => {
                if reply.outcome != Outcome::Done {
                    self.queue.retry(self.now, owner);
                }
            }
            Some(Purpose::Say(ix)) => self.said(ix, effect, reply.outcome),
            Some(Purpose::Classic(id)) => self.negotiated(id, reply.outcome),
            Some(Purpose::Aside) | None => {}
        }
    }

    fn step_done(&mut self, ix: u32, reply: &Reply) {
        // The pod is gone, or was given up.
        let Some(flight) = self.flights.get_mut(&ix) else { return };
        flight.awaits = None;
        match (flight.phase, reply.outcome) {
            (Phase::Making, Outcome::Done) => match &reply.written {
                Some(made) => self.claim_made(ix, made.name.clone(), made.uid.clone()),
                None => self.roll_back(ix, "the claim for its extended resources was made, nobody knows how"),
            },
            (Phase::Making, _) => {
                self.roll_back(ix, "the claim for its extended resources could not be made")
            }
            (Phase::Naming, Outcome::Done) => self.state_and_bind(ix),
            (Phase::Stating, Outcome::Done) => self.bind(ix),
            (Phase::Naming | Phase::Stating, _) => self.roll_back(ix, "its status could not be written"),
            (Phase::Binding, outcome) => self.bind_done(ix, outcome),
            (Phase::Reserving | Phase::Preparing { .. } | Phase::Pausing { .. } | Phase::Bound, _) => {}
        }
    }

    fn bind_done(&mut self, ix: u32, outcome: Outcome) {
        // The pod is gone, or was given up.
        let Some(flight) = self.flights.get_mut(&ix) else { return };
        match outcome {
            Outcome::Done => {
                flight.phase = Phase::Bound;
                self.classic_placed(ix, Outcome::Done);
                self.announce(ix);
            }
            Outcome::Gone
            | Outcome::Conflict
            | Outcome::Refused
            | Outcome::Held
            | Outcome::RetryLater
            | Outcome::Unknown => {
                // If it is gone or bound, the watch will tell before the next try.
                flight.tries += 1;
                let tries = flight.tries;
                if matches!(outcome, Outcome::Conflict | Outcome::Unknown) {
                    self.set_uncertain(ix);
                }
                if tries > BIND_TRIES_MAX {
                    return self.roll_back(ix, "the pod could not be bound");
                }
                let until = self.now.plus_millis(NEWS_MS_MAX);
                self.set_phase(ix, Phase::Pausing { until }, None);
                self.set_alarm(until, Alarm::Pod(ix));
            }
        }
    }

    fn announce(&mut self, ix: u32) {
        let Some(entry) = invariant!(self.pods.get_mut(ix), "the number of a pod leads to it") else {
            return;
        };
        entry.why = None;
        let Some(node) =
            invariant!(entry.on.and_then(|on| self.nodes.get(on)), "a pod that is bound has a node")
        else {
            return;
        };
        let message = format!("Successfully assigned {} to {}", entry.pod.key, node.name);
        let pod = entry.pod.clone();
        self.tell(&pod, EventKind::Scheduled, &message);
    }

    pub(crate) fn tell(&mut self, pod: &Pod, kind: EventKind, message: &str) {
        let (key, uid) = (pod.key.clone(), pod.uid.clone());
        let event = Event { pod: key, uid, kind, message: message.into() };
        self.outbox.announce(EffectKind::Event(event), EVENTS_WAITING_MAX);
    }

    // === Endings ===

    /// The decision on a pod could not be carried out: everything is taken back, and it is tried again later.
    pub(crate) fn roll_back(&mut self, ix: u32, message: &str) {
        if !self.flights.contains_key(&ix) {
            return;
        }
        self.abandon(ix);
        self.displace(ix);
        self.queue.back_off(self.now, ix);
        let why = Why::of(Verdict::Failed(message.to_string()));
        let message = why.message().into();
        self.report(ix, Arc::new(why), &message, None);
    }

    /// A pod is not bound after all: its claims are not for it.
    pub(crate) fn abandon(&mut self, ix: u32) {
        let Some(mut flight) = self.flights.remove(&ix) else { return };
        let unknown = self.may_be_bound(ix);
        self.classic_placed(ix, if unknown { Outcome::Unknown } else { Outcome::Conflict });
        let Some(pod) =
            invariant!(self.pods.get(ix).map(|entry| entry.pod.clone()), "the number of a pod leads to it")
        else {
            return;
        };
        if let Some(extended) = flight.extended.take() {
            self.free(&extended.stand_in);
            if let Some((key, uid)) = extended.made {
                flight.claims.retain(|other| *other != key);
                self.delete_claim(ix, key, uid);
            }
        }
        if flight.stated && !self.may_be_bound(ix) {
            self.set_node_allocatable(ix, Arc::new([]), Purpose::Aside);
        }
        for key in flight.claims {
            self.unwant_claim(ix, &pod, &key);
        }
    }

    /// Has a claim deleted that was made for extended resources and is of no use.
    pub(crate) fn delete_claim(&mut self, owner: u32, claim: ObjectKey, uid: Uid) {
        self.claim_writes.close(&claim);
        self.free(&uid);
        let delete = DeleteExtendedClaim { claim, uid };
        self.outbox.launch(Purpose::Delete(owner), EffectKind::DeleteExtendedClaim(delete));
    }

    /// Starts to write.
    pub(crate) fn start_leading(&mut self) {
        if !self.leads {
            self.leads = true;
            self.classic_leads(true);
            self.queue.restart(self.now);
        }
    }

    /// Forgets what was given out: it may or may not be done, the watch will tell. What is known to be done stays.
    pub(crate) fn stop_leading(&mut self) {
        if !self.leads {
            return;
        }
        self.leads = false;
        self.classic_leads(false);
        let withdrawn = self.outbox.withdraw_waiting();
        self.evicting.clear();
        self.pods.for_each_mut(|entry| entry.saying = None);
        let unfinished: Vec<u32> = self
            .flights
            .iter()
            .filter(|(_, flight)| flight.phase != Phase::Bound)
            .map(|(ix, _)| *ix)
            .collect();
        for ix in unfinished {
            let Some(flight) = invariant!(self.flights.remove(&ix), "a flight that was found is there")
            else {
                continue;
            };
            if flight.awaits.is_some_and(|effect| !withdrawn.contains(&effect))
                && flight.phase == Phase::Binding
            {
                self.set_uncertain(ix);
            }
            if let Some(extended) = flight.extended {
                self.free(&extended.stand_in);
            }
            self.displace(ix);
            self.queue.back_off(self.now, ix);
        }
        for key in self.claim_writes.keys() {
            let Some(entry) =
                invariant!(self.claim_writes.get_mut(&key), "a claim that is written has an entry")
            else {
                continue;
            };
            entry.write.take_if(|write| withdrawn.contains(&write.effect));
            if let Some(write) = &mut entry.write {
                write.pods.clear();
            }
            (entry.tries, entry.deallocate) = (0, false);
            entry.wanted.clear();
            entry.unwanted.clear();
            match self.book.get(&key).cloned() {
                Some(claim) => self.close_if_seen(&key, &claim),
                None if entry.write.is_none() => {
                    let uid = entry.uid.clone();
                    self.free(&uid);
                    self.claim_writes.close(&key);
                }
                None => {}
            }
        }
    }
}
