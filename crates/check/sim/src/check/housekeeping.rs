//! The claim controller: no entry gets a second claim, nothing is taken from a pod that may run, nothing is given back that is prepared, and at rest
//! nothing is left to do.

use lazaret_claims::{ClaimStep, Claims, CreateClaim, EffectKind, Input};
use lazaret_machine::{Outcome, Turn};
use lazaret_model::{Awaited, ClaimSource, Consumer, NodeReport, ObjectKey, Pod, ResourceClaim, Uid};

use crate::{actors::part::Part, world::World};

/// Questions that a controller asks before it has nothing left to do, at most.
const QUESTIONS_MAX: usize = 10_000;

/// Whether a pod may still use its claims.
fn is_needed(pod: &Pod) -> bool {
    !pod.phase.is_finished() && (pod.deleting_since.is_none() || pod.node.is_some())
}

impl World {
    /// A claim is going to be made for an entry of a pod: there is no other.
    pub(crate) fn check_only_claim(&mut self, create: &CreateClaim) {
        let other = self.made_for(&create.holder.uid, &create.entry).first().map(ObjectKey::to_string);
        if let Some(other) = other {
            let detail = format!("{} of {} has {other}", create.entry, create.holder.key);
            self.violate("an entry of a pod gets one claim", detail);
        }
    }

    /// The claims that were made for an entry of a pod.
    fn made_for(&self, pod: &Uid, entry: &str) -> Vec<ObjectKey> {
        let claims = self.api.claims.iter().map(|stored| stored.object);
        let of_pod = claims.filter(|claim| claim.owner.as_ref().is_some_and(|owner| owner.uid == *pod));
        let found =
            of_pod.filter(|claim| self.api.notes_of(claim).entry.is_some_and(|made_for| made_for == entry));
        found.map(|claim| claim.key.clone()).collect()
    }

    /// Whether a user of a claim may still use it.
    fn is_user_needed(&self, claim: &ResourceClaim, user: &Consumer) -> bool {
        let key = ObjectKey { namespace: claim.key.namespace.clone(), name: user.name.clone() };
        let pod = self.api.pods.get(&key).map(|stored| stored.object).filter(|pod| pod.uid == user.uid);
        // Groups live for ever.
        user.resource != "pods" || pod.is_some_and(|pod| is_needed(pod))
    }

    /// The claim controller writes to a claim that is as it expects.
    pub(crate) fn check_claim_step(&mut self, claim: &ResourceClaim, step: &ClaimStep) {
        let key = &claim.key;
        let mut complaints = Vec::new();
        match step {
            ClaimStep::SetStatus { reserved_for, deallocate } => {
                let dropped = claim.reserved_for.iter().filter(|user| !reserved_for.contains(user));
                if let Some(user) = dropped.into_iter().find(|user| self.is_user_needed(claim, user)) {
                    let detail = format!("{key} is taken from {}", user.name);
                    complaints.push(("nothing is taken from a pod that may run", detail));
                }
                let is_grown = reserved_for.iter().any(|user| !claim.reserved_for.contains(user));
                if is_grown && (claim.deleting || claim.allocation.is_none()) {
                    complaints.push(("only what can be used is reserved", key.to_string()));
                }
                let is_released = reserved_for.is_empty() && !claim.reserved_for.is_empty();
                // The scheduler takes the finalizer from a claim that it deletes. If the deletion fails then, the claim goes as a whole later.
                let is_protected = self.api.notes_of(claim).is_protected;
                if is_released && claim.allocation.is_some() && !deallocate && is_protected {
                    complaints.push(("no claim keeps what nobody uses", key.to_string()));
                }
                if *deallocate && !reserved_for.is_empty() {
                    complaints.push(("nothing is given back that is in use", key.to_string()));
                }
                if *deallocate {
                    self.check_given_back(claim);
                }
            }
            ClaimStep::SetFinalizers(left) => {
                let user = claim.reserved_for.iter().find(|user| self.is_user_needed(claim, user));
                if let Some(user) = user {
                    let detail = format!("{key} goes, and {} may run", user.name);
                    complaints.push(("nothing is taken from a pod that may run", detail));
                }
                if claim.allocation.is_some() && !claim.deleting && left.is_empty() {
                    complaints.push(("what is allocated keeps its finalizer", key.to_string()));
                }
                if claim.deleting {
                    self.check_given_back(claim);
                }
            }
            ClaimStep::Delete => {
                if self.owner_of(claim).is_some_and(is_needed) {
                    complaints
                        .push(("nothing is taken from a pod that may run", format!("{key} is deleted")));
                }
            }
            ClaimStep::SetAwaiting(_) => {}
        }
        for (invariant, detail) in complaints {
            self.violate(invariant, detail);
        }
    }

    /// The pod that a claim was made for, if it is there.
    fn owner_of(&self, claim: &ResourceClaim) -> Option<&Pod> {
        let owner = claim.owner.as_ref()?;
        let key = ObjectKey { namespace: claim.key.namespace.clone(), name: owner.name.clone() };
        let pod = self.api.pods.get(&key).map(|stored| &**stored.object);
        pod.filter(|pod| pod.uid == owner.uid)
    }

    /// Every pod has its claims, no claim is left that no pod uses, no node is asked, and a controller that starts now agrees.
    pub(crate) fn check_claims_at_rest(&mut self) {
        let mut complaints = Vec::new();
        for pod in self.api.pods.iter().map(|stored| stored.object) {
            if !is_needed(pod) || pod.deleting_since.is_some() {
                continue;
            }
            let of_group = |name: &str| pod.group.is_some() && name == "shared";
            for entry in pod.claims.iter().filter(|entry| !of_group(&entry.name)) {
                let ClaimSource::Template { resolved, .. } = &entry.source else { continue };
                let made = self.made_for(&pod.uid, &entry.name);
                let said = resolved.as_ref().and_then(Option::as_ref);
                if made.len() != 1 || said != made.first().map(|key| &key.name) {
                    let detail = format!("{} of {}: {made:?}, and it says {said:?}", entry.name, pod.key);
                    complaints.push(("every pod has its claims", detail));
                }
            }
        }
        for claim in self.api.claims.iter().map(|stored| stored.object) {
            // The user that vanished from a shared claim is kept as long as the devices are prepared for the others.
            let is_idle = |user: &&Consumer| {
                !self.is_user_needed(claim, user) && !self.is_prepared_anywhere(&claim.uid)
            };
            if let Some(user) = claim.reserved_for.iter().find(is_idle) {
                let detail = format!("{} is reserved for {}", claim.key, user.name);
                complaints.push(("no claim is left that no pod uses", detail));
            }
            let is_pods = claim.owner.as_ref().is_some_and(|owner| owner.kind == "Pod");
            if is_pods && !self.owner_of(claim).is_some_and(is_needed) {
                let detail = format!("{} was made for a pod that is done", claim.key);
                complaints.push(("no claim is left that no pod uses", detail));
            }
            if claim.deleting && claim.reserved_for.is_empty() {
                complaints.push(("no claim is left that no pod uses", format!("{} does not go", claim.key)));
            }
        }
        for report in self.reports.by_node.values() {
            // A lost pod is waited for on each node where it may have been, until the last of them has answered.
            let is_waited_for = |other: &NodeReport, uid: &Uid| {
                other.awaiting.iter().any(|one| one.uid == *uid) && self.has_prepared(&other.name, uid)
            };
            let others = self.reports.by_node.values();
            let is_over = |one: &&Awaited| !others.clone().any(|other| is_waited_for(other, &one.uid));
            if let Some(one) = report.awaiting.iter().find(is_over) {
                let detail = format!("{} is asked about {}", report.name, one.claim);
                complaints.push(("no node is asked for ever", detail));
            }
        }
        for (invariant, detail) in complaints {
            self.violate(invariant, detail);
        }
        self.check_fresh_claims();
    }

    /// A claim controller that starts now reads, and writes nothing.
    fn check_fresh_claims(&mut self) {
        let now = crate::api::wall(self.now);
        let mut core = Claims::begin();
        self.tell_all_claims(&mut core, now);
        core.handle(now, Input::Synced);
        core.handle(now, Turn::BecameLeader.into());
        for _ in 0..QUESTIONS_MAX {
            let Some(effect) = core.poll_effect() else { return };
            let outcome = match &effect.kind {
                EffectKind::Confirm(_) | EffectKind::ConfirmNode(_) => {
                    Claims::perform(self, &effect.kind, false).outcome
                }
                // It asks nodes only about claims that it knows to be lost, and asks anew.
                EffectKind::AskNode(_) => Outcome::RetryLater,
                EffectKind::Event(_) | EffectKind::ClaimEvent(_) => continue,
                EffectKind::CreateClaim(_) | EffectKind::SetClaimNames(_) | EffectKind::ChangeClaim(_) => {
                    return self.violate("a fresh claim controller agrees", format!("{:?}", effect.kind));
                }
            };
            core.handle(now, Input::Acknowledged { effect: effect.id, outcome, why: None });
        }
    }
}
