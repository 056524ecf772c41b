//! One look at a pod: what is decided becomes effects.

use alloc::{sync::Arc, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_machine::Backoff;
use lazaret_model::{ObjectKey, Text, Timestamp};

use super::{
    decide::{Questions, Verdict},
    effect::{NegotiationEffectKind, Place, Waiting},
    machine::{Flight, Negotiator},
    slot::{BindingPhase, ClaimSlot},
};
use crate::{
    change::ChangeClaim,
    model::{ClaimStatus, Phase, Pod, Reference, ResourceClaim, SchedulerScheduling},
    queue::WakeReason,
    write::{Ready, Writer},
};

/// Pauses after refusals. A driver that is asked about nodes meanwhile says which do not suit.
const REFUSED: Backoff = Backoff::new(5, 5_000);

impl Negotiator {
    pub(super) fn look_at_pod(&mut self, now: Timestamp, key: &ObjectKey) {
        // It was deleted.
        let Some(pod) = self.objects.pods.get(key).cloned() else { return };
        // It has a node, or no claims.
        let Some(slot) = self.pods.get(key) else { return };
        match &slot.placing {
            BindingPhase::InFlight(_) | BindingPhase::Gone => return,
            BindingPhase::Uncertain(node) => {
                if let Some(at) = slot.retry.until().filter(|until| now < *until) {
                    return self.queue.later(at, WakeReason::Retry, key.clone());
                }
                let node = node.clone();
                return self.place(&pod, node);
            }
            BindingPhase::No | BindingPhase::Failed => {}
        }
        if !slot.candidates_told {
            return self.set_waiting(key, Waiting::Candidates);
        }
        let claims = match self.claims_of(&pod) {
            Ok(claims) => claims,
            Err(waiting) => {
                self.unreserve_all(now, &pod);
                return self.wait(now, &pod, waiting);
            }
        };
        for claim in &claims {
            match self.claim_slot(claim).writer.ready(now, &claim.version) {
                Ready::Now => {}
                Ready::InFlight => return self.set_waiting(key, Waiting::Write(claim.key.clone())),
                Ready::At(at, why) => {
                    self.queue.later(at, why, key.clone());
                    return self.set_waiting(key, Waiting::Write(claim.key.clone()));
                }
            }
        }
        self.note_answers(now, &pod, &claims);
        let Some(slot) = invariant!(self.pods.get(key), "a pod that is looked at has a slot") else { return };
        match self.decide(now, &pod, slot, &claims) {
            Verdict::Wait(waiting) => self.wait(now, &pod, waiting),
            Verdict::Ask(questions, waiting) => {
                for (claim, nodes) in &questions {
                    self.change(claim, |status| status.scheduler.potential_nodes = nodes.clone());
                }
                self.wait(now, &pod, waiting);
            }
            Verdict::Select(node, questions) => self.select_node(&pod, &node, &questions),
            Verdict::Reserve(claims) => {
                for claim in &claims {
                    self.change(claim, |status| status.reserved_for.push(Reference::pod(&pod)));
                }
            }
            Verdict::Unreserve(claims) => claims.iter().for_each(|claim| self.unreserve(&pod, claim)),
            Verdict::Place(node) => self.place(&pod, node),
        }
    }

    /// One of its claims cannot be used any more, so it reserves none: a claim that is being deleted waits for that.
    fn unreserve_all(&mut self, now: Timestamp, pod: &Pod) {
        for key in pod.claim_keys() {
            let claim = self.objects.claims.get(&key).filter(|claim| claim.is_reserved_for(&pod.uid));
            // It does not exist, or is not reserved for the pod.
            let Some(claim) = claim.cloned() else { continue };
            match self.claim_slot(&claim).writer.ready(now, &claim.version) {
                Ready::Now => self.unreserve(pod, &claim),
                Ready::InFlight => {}
                Ready::At(at, why) => self.queue.later(at, why, pod.key.clone()),
            }
        }
    }

    fn unreserve(&mut self, pod: &Pod, claim: &ResourceClaim) {
        self.claim_slot(claim).unreserving = Some((pod.uid.clone(), claim.version.clone()));
        self.change(claim, |status| status.reserved_for.retain(|user| user.uid != pod.uid));
    }

    /// Notes which drivers allocated, and which gave up the selected node.
    fn note_answers(&mut self, now: Timestamp, pod: &Pod, claims: &[Arc<ResourceClaim>]) {
        let Some(slot) = invariant!(self.pods.get_mut(&pod.key), "a pod that is looked at has a slot") else {
            return;
        };
        if slot.placing == BindingPhase::Failed && !claims.iter().any(|claim| claim.is_reserved_for(&pod.uid))
        {
            slot.placing = BindingPhase::No;
        }
        let mut answered = Vec::new();
        for claim in claims {
            let pending = claim.status.phase == Phase::Pending;
            if !(pending && claim.status.scheduler.selected_node.is_some())
                && let Some(node) = slot.asked.remove(&claim.key)
            {
                answered.push((claim, node, pending));
            }
        }
        let mut refused = Vec::new();
        for (claim, node, was_refused) in answered {
            self.answered(&node);
            if was_refused {
                refused.push((claim.key.clone(), node));
            }
        }
        if refused.is_empty() {
            return;
        }
        let Some(slot) = invariant!(self.pods.get_mut(&pod.key), "a pod that is looked at has a slot") else {
            return;
        };
        slot.retry.fail(now, REFUSED);
        self.counters.refused += 1;
        for (claim, node) in refused {
            if let Some(slot) = self.pods.get_mut(&pod.key) {
                let count = slot.refusals.entry(node).or_default();
                *count = count.saturating_add(1);
            }
            // Another pod may have nodes for which it can be allocated.
            self.yield_claim(pod, &claim);
        }
    }

    fn yield_claim(&mut self, pod: &Pod, claim: &ObjectKey) {
        if let Some(slot) = self.claims.get_mut(claim)
            && slot.negotiator.as_ref().is_some_and(|(_, uid)| *uid == pod.uid)
        {
            slot.negotiator = None;
            for other in self.objects.users_of(claim) {
                if other != pod.key && self.pods.contains_key(&other) {
                    self.queue.push(other);
                }
            }
        }
    }

    fn set_waiting(&mut self, key: &ObjectKey, waiting: Waiting) {
        if let Some(slot) = self.pods.get_mut(key) {
            slot.waiting = waiting;
        }
    }

    fn wait(&mut self, now: Timestamp, pod: &Pod, waiting: Waiting) {
        let Some(slot) = invariant!(self.pods.get_mut(&pod.key), "a pod that is looked at has a slot") else {
            return;
        };
        slot.waiting = waiting.clone();
        if waiting == Waiting::Backoff
            && let Some(until) = slot.waits_until(now)
        {
            self.queue.later(until, WakeReason::Retry, pod.key.clone());
        }
        if !is_progressing(&waiting) {
            for claim in pod.claim_keys() {
                let is_pending = |claim: &Arc<ResourceClaim>| claim.status.phase == Phase::Pending;
                if self.objects.claims.get(&claim).is_some_and(is_pending) {
                    self.yield_claim(pod, &claim);
                }
            }
        }
        self.hold(now, pod, &waiting);
    }

    fn select_node(&mut self, pod: &Pod, node: &Text, questions: &Questions) {
        self.counters.rounds += 1;
        for (claim, nodes) in questions {
            self.claim_slot(claim).negotiator = Some((pod.key.clone(), pod.uid.clone()));
            self.change(claim, |status| {
                status.scheduler =
                    SchedulerScheduling { selected_node: Some(node.clone()), potential_nodes: nodes.clone() };
            });
        }
        let Some(slot) = invariant!(self.pods.get_mut(&pod.key), "a pod that is looked at has a slot") else {
            return;
        };
        let keys = || questions.iter().map(|(claim, _)| claim.key.clone());
        let before: Vec<Text> = keys().filter_map(|claim| slot.asked.insert(claim, node.clone())).collect();
        slot.waiting = Waiting::Drivers(keys().collect());
        *self.selecting.entry(node.clone()).or_default() +=
            u32::try_from(questions.len()).unwrap_or(u32::MAX);
        before.iter().for_each(|node| self.answered(node));
    }

    fn place(&mut self, pod: &Pod, node: Text) {
        let Some(slot) = invariant!(self.pods.get_mut(&pod.key), "a pod that is looked at has a slot") else {
            return;
        };
        slot.waiting = Waiting::Binding;
        slot.placing = BindingPhase::InFlight(node.clone());
        let flight = Flight::Place { pod: pod.key.clone(), uid: pod.uid.clone(), node: node.clone() };
        let place = Place { pod: pod.key.clone(), uid: pod.uid.clone(), node };
        self.flights.launch(flight, NegotiationEffectKind::Place(place));
    }

    /// Writes the status of a claim whose writer is ready.
    pub(super) fn change(&mut self, claim: &ResourceClaim, change: impl FnOnce(&mut ClaimStatus)) {
        self.claim_slot(claim).writer.sent();
        let flight = Flight::Change {
            claim: claim.key.clone(),
            uid: claim.uid.clone(),
            version: claim.version.clone(),
        };
        self.flights.launch(flight, NegotiationEffectKind::Change(ChangeClaim::status(claim, change)));
    }

    pub(super) fn claim_slot(&mut self, claim: &ResourceClaim) -> &mut ClaimSlot {
        self.claims.entry(claim.key.clone()).or_insert_with(|| ClaimSlot {
            uid: claim.uid.clone(),
            writer: Writer::default(),
            negotiator: None,
            unreserving: None,
        })
    }
}

/// Whether the pod goes on with the claims about which it negotiates as soon as a driver or the API server has answered.
fn is_progressing(waiting: &Waiting) -> bool {
    match waiting {
        Waiting::Drivers(_) | Waiting::Deallocation(_) | Waiting::Write(_) | Waiting::Binding => true,
        Waiting::New
        | Waiting::Missing(_)
        | Waiting::Foreign(_)
        | Waiting::Deleting(_)
        | Waiting::Immediate(_)
        | Waiting::Candidates
        | Waiting::NoNode(_)
        | Waiting::OtherPod(_)
        | Waiting::Backoff
        | Waiting::Full(_) => false,
    }
}
