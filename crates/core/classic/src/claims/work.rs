//! One look at a pod or a claim.

use alloc::{collections::BTreeSet, format, sync::Arc, vec::Vec};

use lazaret_machine::{Backoff, Outcome, Retry};
use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use super::{
    effect::{ClaimEffectKind, CreateClaim, DeleteClaim, FOREIGN_CLAIM_REASON, PodEvent},
    machine::{
        ClaimController, ClaimCreation, EVENTS_MAX, Flight, IN_FLIGHT_MAX, Item, PodClaimCreations, Writing,
    },
    nodes::Answered,
};
use crate::{
    change::ChangeClaim,
    model::{Pod, PodClaimSource, Reference, ResourceClaim, Template, claim_name},
    queue::WakeReason,
    write::{RECHECK_MS, RETRY, Ready, Writer},
};

/// After a claim was made, or a pod was found: it will be seen, or is looked for again.
const RECHECK: Backoff = Backoff::new(RECHECK_MS, RECHECK_MS);

impl ClaimController {
    /// Makes the claims that it has no claim for yet. Never changes one.
    pub(super) fn look_at_pod(&mut self, now: Timestamp, key: &ObjectKey) {
        // It was deleted.
        let Some(pod) = self.objects.pods.get(key).cloned() else { return };
        if pod.deleting || pod.ended {
            return;
        }
        for entry in &pod.claims {
            if let Some(PodClaimSource::Template(template)) = &entry.source {
                let name = claim_name(&pod.key.name, &entry.name);
                let claim = ObjectKey { namespace: pod.key.namespace.clone(), name };
                self.look_at_entry(now, &pod, &entry.name, claim, template);
            }
        }
    }

    fn look_at_entry(
        &mut self,
        now: Timestamp,
        pod: &Pod,
        entry: &Text,
        claim: ObjectKey,
        template: &Arc<Template>,
    ) {
        let existing = self.objects.claims.get(&claim).cloned();
        let new = || PodClaimCreations { uid: pod.uid.clone(), ..PodClaimCreations::default() };
        let making = self.creations.entry(pod.key.clone()).or_insert_with(new);
        let making: &mut ClaimCreation = making.claims.entry(claim.name.clone()).or_default();
        if let Some(existing) = existing {
            making.retry = Retry::default();
            if !existing.is_owned_by(&pod.uid) && making.foreign.as_ref() != Some(&existing.uid) {
                making.foreign = Some(existing.uid.clone());
                self.post_foreign_event(pod, entry, &claim.name);
            }
        } else if making.in_flight {
        } else if let Some(until) = making.retry.until().filter(|until| now < *until) {
            self.queue.later(until, WakeReason::Retry, Item::Pod(pod.key.clone()));
        } else if self.flights.len() >= IN_FLIGHT_MAX {
            self.queue.push(Item::Pod(pod.key.clone()));
        } else {
            making.in_flight = true;
            let flight = Flight::Create { pod: pod.key.clone(), claim: claim.clone(), uid: pod.uid.clone() };
            let create = CreateClaim { claim, owner: Reference::pod(pod), template: template.clone().into() };
            self.flights.launch(flight, ClaimEffectKind::Create(create));
        }
    }

    fn post_foreign_event(&mut self, pod: &Pod, entry: &Text, claim: &Text) {
        let message = format!(
            "PodResourceClaim {entry}: ResourceClaim {claim:?} exists and does not belong to this pod; delete it, or add an owner reference to the pod"
        );
        let event = PodEvent {
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            reason: FOREIGN_CLAIM_REASON,
            message: message.into(),
        };
        self.flights.announce(ClaimEffectKind::Event(event), EVENTS_MAX);
    }

    pub(super) fn made(
        &mut self,
        now: Timestamp,
        pod: ObjectKey,
        claim: &ObjectKey,
        uid: &Uid,
        outcome: Outcome,
    ) {
        match outcome {
            Outcome::Done => self.counters.created += 1,
            Outcome::Gone
            | Outcome::Conflict
            | Outcome::Refused
            | Outcome::Held
            | Outcome::RetryLater
            | Outcome::Unknown => {
                self.counters.create_failed += 1;
            }
        }
        let making = self.creations.get_mut(&pod).filter(|making| making.uid == *uid);
        if let Some(making) = making.and_then(|making| making.claims.get_mut(&claim.name)) {
            making.in_flight = false;
            match outcome {
                // It will be seen, or is looked after.
                Outcome::Done => making.retry.fail(now, RECHECK),
                Outcome::Gone
                | Outcome::Conflict
                | Outcome::Refused
                | Outcome::Held
                | Outcome::RetryLater
                | Outcome::Unknown => {
                    making.retry.fail(now, RETRY);
                }
            }
        }
        self.queue.push(Item::Pod(pod));
    }

    /// Removes users that are pods which are gone or have ended; asks for those of which nothing is known. Other users are not its business. Then
    /// deletes the claim if it was made for a pod that has ended: its devices are for others.
    pub(super) fn look_at_claim(&mut self, now: Timestamp, key: &ObjectKey) {
        let mut awaited = BTreeSet::new();
        let Some(claim) = self.objects.claims.get(key).cloned() else {
            return self.await_nodes(key, &Uid::default(), &awaited);
        };
        let mut stay = Vec::with_capacity(claim.status.reserved_for.len());
        for user in &claim.status.reserved_for {
            let is_gone = user.is_pod() && self.is_gone(now, &claim, user);
            let nodes = match is_gone {
                true => self.nodes.to_await(&claim, user, |other| self.gone.contains(other)),
                false => Vec::new(),
            };
            if !is_gone || nodes.iter().any(|(_, answered)| *answered == Answered::NotYet) {
                stay.push(user.clone());
            }
            awaited.extend(nodes.into_iter().map(|(node, _)| node));
        }
        self.await_nodes(key, &claim.uid, &awaited);
        let is_left_behind = stay.is_empty() && self.is_left_behind(&claim);
        if stay.len() == claim.status.reserved_for.len() && !is_left_behind {
            return;
        }
        let new = || Writing { uid: claim.uid.clone(), writer: Writer::default() };
        let writing = self.writings.entry(key.clone()).or_insert_with(new);
        match writing.writer.ready(now, &claim.version) {
            Ready::InFlight => {}
            Ready::At(at, why) => self.queue.later(at, why, Item::Claim(key.clone())),
            Ready::Now => {
                writing.writer.sent();
                let removed = claim.status.reserved_for.len() - stay.len();
                let flight = Flight::Change {
                    claim: key.clone(),
                    uid: claim.uid.clone(),
                    version: claim.version.clone(),
                    removed: u64::try_from(removed).unwrap_or(0),
                };
                let effect = if removed > 0 {
                    ClaimEffectKind::Change(ChangeClaim::status(&claim, |status| status.reserved_for = stay))
                } else {
                    ClaimEffectKind::Delete(DeleteClaim { claim: key.clone(), uid: claim.uid.clone() })
                };
                self.flights.launch(flight, effect);
            }
        }
    }

    fn await_nodes(&mut self, claim: &ObjectKey, uid: &Uid, nodes: &BTreeSet<Text>) {
        for node in self.nodes.wait(claim, uid, nodes) {
            self.queue.push(Item::Node(node));
        }
    }

    /// Asks a node about the claims that wait for it.
    pub(super) fn look_at_node(&mut self, now: Timestamp, name: &Text) {
        // The node is gone, or has been asked already.
        let Some((ask, writer)) = self.nodes.question(now, name) else { return };
        match writer.ready(now, &ask.version) {
            Ready::InFlight => {}
            Ready::At(at, why) => self.queue.later(at, why, Item::Node(name.clone())),
            Ready::Now => {
                writer.sent();
                let flight = Flight::Ask { node: name.clone(), version: ask.version.clone() };
                self.flights.launch(flight, ClaimEffectKind::AskNode(ask));
            }
        }
    }

    /// Whether a claim was made for a pod that has ended, and is not being deleted yet.
    fn is_left_behind(&self, claim: &ResourceClaim) -> bool {
        let ended = |pod: &ObjectKey| {
            let pod = self.objects.pods.get(pod).filter(|pod| pod.ended);
            pod.is_some_and(|pod| claim.is_owned_by(&pod.uid))
        };
        !claim.deleting && self.objects.users_of(&claim.key).iter().any(ended)
    }

    /// Whether it is known that there is no such pod, or that it has ended. The API server is asked about pods that are merely not known.
    fn is_gone(&mut self, now: Timestamp, claim: &ResourceClaim, user: &Reference) -> bool {
        let pod = ObjectKey { namespace: claim.key.namespace.clone(), name: user.name.clone() };
        if let Some(pod) = self.objects.pods.get(&pod).filter(|pod| pod.uid == user.uid) {
            return pod.ended;
        }
        if self.gone.contains(&user.uid) {
            return true;
        }
        let confirmation = self.confirmations.entry(user.uid.clone()).or_default();
        if confirmation.in_flight {
            return false;
        }
        if let Some(until) = confirmation.retry.until().filter(|until| now < *until) {
            self.queue.later(until, WakeReason::Retry, Item::Claim(claim.key.clone()));
        } else if self.flights.len() >= IN_FLIGHT_MAX {
            self.queue.push(Item::Claim(claim.key.clone()));
        } else {
            confirmation.in_flight = true;
            self.counters.confirmed += 1;
            let flight = Flight::Confirm { pod: pod.clone(), uid: user.uid.clone() };
            self.flights.launch(flight, ClaimEffectKind::ConfirmPod(pod, user.uid.clone()));
        }
        false
    }

    pub(super) fn confirmed(&mut self, now: Timestamp, uid: Uid, outcome: Outcome) {
        if outcome == Outcome::Gone {
            self.confirmations.remove(&uid);
            self.gone.insert(uid);
        } else if let Some(confirmation) = self.confirmations.get_mut(&uid) {
            confirmation.in_flight = false;
            match outcome {
                Outcome::Done => confirmation.retry.fail(now, RECHECK),
                Outcome::Gone
                | Outcome::Conflict
                | Outcome::Refused
                | Outcome::Held
                | Outcome::RetryLater
                | Outcome::Unknown => {
                    confirmation.retry.fail(now, RETRY);
                }
            }
        }
    }
}
