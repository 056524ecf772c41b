//! Pods that are being bound: from the decision until the watch shows them on their node.

use alloc::{
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use lazaret_invariant::invariant;
use lazaret_model::{NodeAllocatableStatus, ObjectKey, Owner, Text, Timestamp, Uid};

use crate::{
    Pod,
    claim_writes::{CERTAIN_MS, NEWS_MS_MAX},
    effect::{
        Bind, CreateExtendedClaim, DeleteExtendedClaim, EffectId, EffectKind, Event, EventKind, Outcome,
        Reply, SetExtendedClaim, SetNodeAllocatable,
    },
    flight::{ExtendedClaim, Phase},
    outbox::Purpose,
    ready::{Readiness, readiness},
    state::{Scheduler, TimerKey},
    why::{PendingReason, Verdict},
};

/// Events that wait to be taken; more are dropped. As many may wait to be posted.
const EVENTS_WAITING_MAX: usize = 16_384;
/// A failed binding is tried this number of times: then the pod is decided on anew.
const BIND_TRIES_MAX: u32 = 5;

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
            Phase::Pausing { .. } => match flight.obsolete.take() {
                Some(why) => self.roll_back_when_certain(ix, why),
                None => self.bind(ix),
            },
            Phase::Making | Phase::Naming | Phase::Stating | Phase::Binding | Phase::Bound => {}
        }
    }

    fn bind_when_ready(&mut self, ix: u32) {
        if let Some(why) = self.given_twice(ix) {
            return self.roll_back(ix, &why);
        }
        let Some(flight) = invariant!(self.flights.get(&ix), "a flight that is stepped is there") else {
            return;
        };
        match self.readiness_of(&flight.claims) {
            Readiness::Ready if flight.extended.is_some() => self.name_claim(ix),
            Readiness::Ready => self.state_and_bind(ix),
            Readiness::Failed(why) => self.roll_back(ix, &why),
            Readiness::Waiting { until } => {
                let is_reported = matches!(flight.phase, Phase::Preparing { .. });
                self.set_timer(until, TimerKey::Pod(ix));
                self.set_phase(ix, Phase::Preparing { until }, None);
                if let Some(pod) = self.pods.get(ix).map(|entry| entry.pod.clone()).filter(|_| !is_reported) {
                    let message = "Waiting for the devices of its claims to be made ready";
                    self.post_event(&pod, EventKind::BindingConditionsPending, message);
                }
            }
        }
    }

    /// How far the devices of a pod's claims are.
    pub(crate) fn readiness_of(&self, keys: &[ObjectKey]) -> Readiness {
        let mut waiting: Vec<Timestamp> = Vec::new();
        for key in keys {
            let Some(claim) = self.claim_cache.get(key) else {
                return Readiness::Failed(format!("resourceclaim {:?} is gone", key.name.as_str()));
            };
            let Some(allocation) = self.allocation_of(claim) else {
                return Readiness::Failed(format!("resourceclaim {:?} was given back", key.name.as_str()));
            };
            match readiness(claim, &allocation, self.now, self.options.binding_timeout_s) {
                Readiness::Ready => {}
                Readiness::Waiting { until } => waiting.push(until),
                Readiness::Failed(why) => {
                    return Readiness::Failed(format!(
                        "resourceclaim {:?}: {why}",
                        claim.claim.key.name.as_str()
                    ));
                }
            }
        }
        match waiting.into_iter().min() {
            None => Readiness::Ready,
            Some(until) => Readiness::Waiting { until },
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
        let consumer = self.claim_cache.consumer(&pod, &key);
        self.overlay.remove(&extended.planned_claim_uid);
        self.overlay.insert(&uid, &extended.allocation);
        let entry = self.claim_writes.open(&key, &uid);
        entry.allocation = Some(extended.allocation.clone());
        entry.wanted.insert(ix, consumer);
        extended.made = Some((key.clone(), uid));
        flight.claims.push(key.clone());
        flight.reserving.insert(key.clone());
        self.set_phase(ix, Phase::Reserving, None);
        // It may be deleted by another client before it is seen.
        self.set_timer(self.now.plus_millis(CERTAIN_MS), TimerKey::Claim(key.clone()));
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

    pub(crate) fn step_done(&mut self, ix: u32, reply: &Reply) {
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
            (Phase::Naming, Outcome::Unknown) => self.name_again(ix),
            (Phase::Naming | Phase::Stating, _) => self.roll_back(ix, "its status could not be written"),
            (Phase::Binding, outcome) => self.bind_done(ix, outcome),
            (Phase::Reserving | Phase::Preparing { .. } | Phase::Pausing { .. } | Phase::Bound, _) => {}
        }
    }

    /// The status of a pod may name its claim, now or later: another claim is not named before that is known.
    fn name_again(&mut self, ix: u32) {
        self.set_uncertain(ix);
        let Some(flight) = invariant!(self.flights.get_mut(&ix), "a flight that is stepped is there") else {
            return;
        };
        flight.tries += 1;
        if flight.tries > BIND_TRIES_MAX {
            return self.roll_back_when_certain(ix, "its status could not be written".to_string());
        }
        self.name_claim(ix);
    }

    fn bind_done(&mut self, ix: u32, outcome: Outcome) {
        // The pod is gone, or was given up.
        let Some(flight) = self.flights.get_mut(&ix) else { return };
        match outcome {
            Outcome::Done => {
                flight.phase = Phase::Bound;
                self.set_bound(ix);
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
                let (tries, obsolete) = (flight.tries, flight.obsolete.take());
                if matches!(outcome, Outcome::Conflict | Outcome::Unknown) {
                    self.set_uncertain(ix);
                }
                let failed = (tries > BIND_TRIES_MAX).then(|| "the pod could not be bound".to_string());
                if let Some(why) = obsolete.or(failed) {
                    return self.roll_back_when_certain(ix, why);
                }
                let until = self.now.plus_millis(NEWS_MS_MAX);
                self.set_phase(ix, Phase::Pausing { until }, None);
                self.set_timer(until, TimerKey::Pod(ix));
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
        self.post_event(&pod, EventKind::Scheduled, &message);
    }

    pub(crate) fn post_event(&mut self, pod: &Pod, kind: EventKind, message: &str) {
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
        self.remove_pod_from_node(ix);
        self.queue.back_off(self.now, ix);
        let why = PendingReason::of(Verdict::Failed(message.to_string()));
        let message = why.message().into();
        self.report(ix, Arc::new(why), &message, None);
    }

    /// The same once it is known that the pod is not bound: until then it keeps its room.
    pub(crate) fn roll_back_when_certain(&mut self, ix: u32, why: String) {
        let until = self.pods.get(ix).map(|entry| entry.uncertain_until).filter(|until| self.now < *until);
        let Some(until) = until else { return self.roll_back(ix, &why) };
        self.set_phase(ix, Phase::Pausing { until }, None);
        self.set_timer(until, TimerKey::Pod(ix));
        if let Some(flight) = self.flights.get_mut(&ix) {
            flight.obsolete = Some(why);
        }
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
            self.free(&extended.planned_claim_uid);
            // A pod that may be bound may run with it: the claim stays until that is known.
            if let Some((key, uid)) = extended.made.filter(|_| !unknown) {
                flight.claims.retain(|other| *other != key);
                self.delete_claim(ix, key, uid);
            }
        }
        if flight.stated && !unknown {
            self.set_node_allocatable(ix, Arc::new([]), Purpose::Aside);
        }
        for key in flight.claims {
            self.drop_reservation(ix, &pod, &key);
        }
    }

    /// Has a claim deleted that was made for extended resources and is of no use.
    pub(crate) fn delete_claim(&mut self, owner: u32, claim: ObjectKey, uid: Uid) {
        self.unwant_all(&claim);
        let delete = DeleteExtendedClaim { claim, uid };
        self.outbox.launch(Purpose::Delete(owner), EffectKind::DeleteExtendedClaim(delete));
    }
}
