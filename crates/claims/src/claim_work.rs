//! Who may still use a claim, and what follows when nobody does.

use alloc::vec::Vec;

use lazaret_model::{ClaimSource, Consumer, ObjectKey, Pod, Text, Timestamp, Uid};

use crate::{
    Claims,
    effect::{ChangeClaim, ClaimStep, ConfirmPod, EffectKind, FINALIZER, WakeReason},
    flights::Flight,
    input::SeenClaim,
    queue::Item,
    standing::{Inquiry, Standing, is_pod, wants_claims},
};

/// The API's limit on `reservedFor`.
pub(crate) const RESERVED_MAX: usize = 256;

/// What a look at a claim found besides its steps.
#[derive(Default)]
struct Findings {
    /// Pods of which nothing is known.
    unknown: Vec<(ObjectKey, Uid)>,
    /// When a confirmation runs out.
    recheck: Option<Timestamp>,
}

impl Claims {
    pub(crate) fn look_at_claim(&mut self, now: Timestamp, key: &ObjectKey) {
        let Some(slot) = self.tables.claims.get(key) else { return };
        if slot.in_flight {
            return;
        }
        if let Some(at) = slot.setback.hold(now) {
            self.later(at, WakeReason::Retry, Item::Claim(key.clone()));
            return;
        }
        let seen = slot.seen.clone();
        let mut findings = Findings::default();
        let steps = self.steps(now, &seen, &mut findings);
        if let Some(at) = findings.recheck {
            self.later(at, WakeReason::Recheck, Item::Claim(key.clone()));
        }
        for (pod, uid) in findings.unknown {
            self.confirm(now, key, pod, uid);
        }
        let Some(slot) = self.tables.claims.get_mut(key) else { return };
        if steps.is_empty() {
            slot.plan = None;
            return;
        }
        if let Some((plan, until)) = &slot.plan
            && *until > now
            && plan.ends_with(&steps)
        {
            let at = *until;
            self.later(at, WakeReason::Recheck, Item::Claim(key.clone()));
            return;
        }
        slot.in_flight = true;
        slot.plan = Some((steps.clone(), now.plus_millis(self.options.recheck_ms)));
        self.change(&seen, steps);
    }

    /// What is to be done to a claim that is as it was seen. Nothing while it is reserved for somebody of whom nothing
    /// is known.
    fn steps(&self, now: Timestamp, seen: &SeenClaim, findings: &mut Findings) -> Vec<ClaimStep> {
        let claim = &seen.claim;
        let mut users = self.remaining(now, seen, findings);
        if !findings.unknown.is_empty() {
            return Vec::new();
        }
        let dropped = users.len() < claim.reserved_for.len();
        let kept = users.len();
        self.add_bound_pods(seen, &mut users);
        let unused = users.is_empty();
        let mut steps = Vec::new();
        // A claim that was allocated and is not reserved yet stays allocated: only who stops using it frees it, or
        // who deletes it.
        let release = unused && seen.is_protected() && (dropped || claim.deleting);
        let deallocate = release && claim.allocation.is_some();
        if dropped || users.len() > kept || deallocate {
            steps.push(ClaimStep::SetStatus { reserved_for: users, deallocate });
        }
        if release {
            let others = seen.finalizers.iter().filter(|name| **name != FINALIZER);
            steps.push(ClaimStep::SetFinalizers(others.cloned().collect()));
        }
        if unused && !claim.deleting && self.is_owner_done(now, seen, findings) {
            steps.push(ClaimStep::Delete);
        }
        steps
    }

    /// Those in `reservedFor` who may still need the claim. What is not a pod is left alone.
    fn remaining(&self, now: Timestamp, seen: &SeenClaim, findings: &mut Findings) -> Vec<Consumer> {
        let mut keep = |consumer: &&Consumer| {
            !is_pod(consumer) || self.is_needed(now, sibling(seen, &consumer.name), &consumer.uid, findings)
        };
        seen.claim.reserved_for.iter().filter(|consumer| keep(consumer)).cloned().collect()
    }

    fn is_needed(&self, now: Timestamp, pod: ObjectKey, uid: &Uid, findings: &mut Findings) -> bool {
        match self.standing(&pod, uid, now) {
            Standing::Needed => true,
            Standing::NeededUntil(at) => {
                findings.recheck = Some(findings.recheck.map_or(at, |earlier| earlier.min(at)));
                true
            }
            Standing::Done | Standing::Gone => false,
            Standing::Unknown => {
                findings.unknown.push((pod, uid.clone()));
                true
            }
        }
    }

    /// Whether the claim was made for a pod that needs it no more.
    fn is_owner_done(&self, now: Timestamp, seen: &SeenClaim, findings: &mut Findings) -> bool {
        seen.owning_pod().is_some_and(|(name, uid)| !self.is_needed(now, sibling(seen, name), uid, findings))
    }

    /// Pods that got a node without asking the scheduler have nobody else to reserve the claim for them.
    fn add_bound_pods(&self, seen: &SeenClaim, users: &mut Vec<Consumer>) {
        if seen.claim.allocation.is_none() || seen.claim.deleting {
            return;
        }
        for key in self.tables.pods_of_claim.of(&seen.claim.key) {
            if users.len() >= RESERVED_MAX {
                return;
            }
            let Some(pod) = self.tables.pods.get(&key).map(|slot| &slot.pod) else { continue };
            if pod.node.is_some()
                && wants_claims(pod)
                && uses(pod, seen)
                && users.iter().all(|user| user.uid != pod.uid)
            {
                users.push(Consumer {
                    resource: "pods".into(),
                    name: key.name,
                    uid: pod.uid.clone(),
                    ..Consumer::default()
                });
            }
        }
    }

    fn change(&mut self, seen: &SeenClaim, steps: Vec<ClaimStep>) {
        let (mut reserves, mut deallocates, mut deletes) = (false, false, false);
        for step in &steps {
            match step {
                ClaimStep::SetStatus { reserved_for, deallocate } => {
                    reserves = *reserved_for != seen.claim.reserved_for;
                    deallocates = *deallocate;
                }
                ClaimStep::SetFinalizers(_) => {}
                ClaimStep::Delete => deletes = true,
            }
        }
        let (claim, uid) = (seen.claim.key.clone(), seen.claim.uid.clone());
        let version = seen.version.clone();
        let flight = Flight::Claim {
            claim: claim.clone(),
            uid: uid.clone(),
            version: version.clone(),
            deallocates,
            reserves,
            deletes,
        };
        let change = ChangeClaim { claim, uid, version, steps };
        self.flights.launch(flight, EffectKind::ChangeClaim(change));
    }

    /// Asks whether a pod lives. The answer makes its claims be looked at again.
    fn confirm(&mut self, now: Timestamp, claim: &ObjectKey, pod: ObjectKey, uid: Uid) {
        if self.flights.len() >= self.options.in_flight_max {
            // One claim after the other, or so many answers could be wanted at once that the first are forgotten.
            self.queue.push_front(Item::Claim(claim.clone()));
            return;
        }
        match self.hearsay.inquire(&uid, now) {
            Inquiry::Ask => {
                self.counters.confirmed += 1;
                let flight = Flight::Confirm { pod: pod.clone(), uid: uid.clone() };
                self.flights.launch(flight, EffectKind::ConfirmPod(ConfirmPod { pod, uid }));
            }
            Inquiry::Wait => {}
            Inquiry::AskAt(at) => self.later(at, WakeReason::Retry, Item::Claim(claim.clone())),
        }
    }
}

/// Whether an entry of the pod stands for this claim. One made from a template has to be the pod's own.
fn uses(pod: &Pod, seen: &SeenClaim) -> bool {
    pod.claims.iter().any(|entry| match &entry.source {
        ClaimSource::Claim(name) => *name == seen.claim.key.name,
        ClaimSource::Template { resolved: Some(Some(name)), .. } => {
            *name == seen.claim.key.name && seen.is_owned_by(&pod.uid)
        }
        ClaimSource::Template { resolved: None | Some(None), .. } | ClaimSource::Unknown => false,
    })
}

fn sibling(seen: &SeenClaim, name: &Text) -> ObjectKey {
    ObjectKey { namespace: seen.claim.key.namespace.clone(), name: name.clone() }
}
