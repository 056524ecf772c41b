//! The writes of schedulers, as the server carries them out.

use std::sync::Arc;

use lazaret_machine::{Outcome, Reply, Written};
use lazaret_model::{Allocation, ObjectKey, ResourceClaim, Text, Uid};
use lazaret_scheduler::{
    Bind, CreateExtendedClaim, DeleteExtendedClaim, ReleaseClaim, ReserveClaim, SetPodCondition, Unscheduled,
};

use crate::{
    actors::claims::request_of,
    api::{ClaimNotes, Refused},
    coverage::Mark,
    mutant::Mutant,
    palette,
    world::World,
};

impl World {
    pub(super) fn reserve_claim(&mut self, reserve: &ReserveClaim, in_part: bool) -> Reply {
        let mut version = reserve.version;
        let found = match self.claim_to_write(&reserve.claim, &reserve.uid, version) {
            Ok(found) => found,
            Err(outcome) => return outcome.into(),
        };
        if reserve.add_finalizer {
            let notes = ClaimNotes { is_protected: true, ..self.api.notes_of(&found) };
            version = self.api.put_claim(ResourceClaim::clone(&found), notes);
            if in_part {
                return Outcome::Unknown.into();
            }
        }
        let mut claim = ResourceClaim::clone(&found);
        if let Some(allocation) = &reserve.allocation {
            if claim.allocation.is_some() || claim.deleting {
                return Outcome::Refused.into();
            }
            if !self.may_give(&claim.key, allocation) {
                return Outcome::Conflict.into();
            }
            claim.allocation = Some(match self.mutant {
                Some(Mutant::NoBrake) => Arc::new(tolerating_as_asked(&claim, allocation)),
                Some(_) | None => Arc::clone(allocation),
            });
            if allocation.results.iter().any(|result| result.share_id.is_some()) {
                self.coverage.hit(Mark::Shared);
            }
        }
        if claim.allocation.is_none() {
            // Only a claim that is allocated can be reserved.
            return Outcome::Refused.into();
        }
        let is_reserved = self.mutant != Some(Mutant::UnwrittenReservation);
        for user in reserve.reserve_for.iter().filter(|_| is_reserved) {
            if !claim.reserved_for.contains(user) {
                claim.reserved_for.push(user.clone());
            }
        }
        let uid = claim.uid.clone();
        match self.api.allocate(version, claim) {
            Ok(version) => written(&reserve.claim.name, &uid, version),
            Err(Refused::NotFound) => Outcome::Gone.into(),
            Err(Refused::Conflict | Refused::Exists) => Outcome::Conflict.into(),
        }
    }

    fn claim_to_write(
        &mut self,
        key: &ObjectKey,
        uid: &Uid,
        version: u64,
    ) -> Result<Arc<ResourceClaim>, Outcome> {
        let stored = self.api.claims.get(key).filter(|stored| stored.object.uid == *uid);
        let Some(stored) = stored else { return Err(Outcome::Gone) };
        if stored.version != version {
            self.coverage.hit(Mark::Conflict);
            return Err(Outcome::Conflict);
        }
        Ok(Arc::clone(stored.object))
    }

    pub(super) fn release_claim(&mut self, release: &ReleaseClaim) -> Reply {
        let found = match self.claim_to_write(&release.claim, &release.uid, release.version) {
            Ok(found) => found,
            Err(outcome) => return outcome.into(),
        };
        self.check_released(&found, release);
        self.note_timeout(&found, release);
        let mut claim = ResourceClaim::clone(&found);
        claim.reserved_for.retain(|user| Some(&user.uid) != release.consumer.as_ref());
        if release.deallocate {
            self.coverage.hit(Mark::GivenBack);
            // A pod of a group that was removed by force may still have them. The claim controller asks its node then, and the scheduler keeps them from
            // others until it has answered.
            if found.reserved_for.iter().all(|user| user.resource == "pods") {
                self.check_given_back(&claim);
            }
            claim.allocation = None;
            claim.reserved_for.clear();
        }
        let version = self.api.claims.put(&mut self.api.versions, claim);
        written(&release.claim.name, &release.uid, version)
    }

    /// The finalizer goes first, by a write of its own.
    pub(super) fn delete_extended_claim(&mut self, delete: &DeleteExtendedClaim, in_part: bool) -> Outcome {
        let stored = self.api.claims.get(&delete.claim).map(|stored| Arc::clone(stored.object));
        let Some(claim) = stored.filter(|claim| claim.uid == delete.uid) else { return Outcome::Gone };
        self.check_given_back(&claim);
        // The last finalizer of a claim that is being deleted ends it.
        if in_part && !claim.deleting {
            let notes = ClaimNotes { is_protected: false, ..self.api.notes_of(&claim) };
            self.api.put_claim(ResourceClaim::clone(&claim), notes);
            return Outcome::Unknown;
        }
        self.api.claims.remove(&mut self.api.versions, &delete.claim);
        if in_part { Outcome::Unknown } else { Outcome::Done }
    }

    pub(super) fn create_extended_claim(&mut self, create: &CreateExtendedClaim) -> Reply {
        let uid = self.api.new_uid();
        let name = palette::text(format_args!("{}{uid}", create.generate_name));
        let claim = ResourceClaim {
            key: ObjectKey { namespace: create.pod.namespace.clone(), name: name.clone() },
            uid: uid.clone(),
            owner: Some(create.owner.clone()),
            extended_resource: true,
            spec: Arc::clone(&create.spec),
            ..ResourceClaim::default()
        };
        let notes = ClaimNotes { is_protected: true, ..ClaimNotes::default() };
        let version = self.api.put_claim(claim, notes);
        self.coverage.hit(Mark::ExtendedMade);
        written(&name, &uid, version)
    }

    pub(super) fn bind(&mut self, bind: &Bind) -> Outcome {
        let stored = self.api.pods.get(&bind.pod).filter(|stored| stored.object.uid == bind.uid);
        let Some(pod) = stored.map(|stored| stored.object) else { return Outcome::Gone };
        if pod.node.is_some() || pod.deleting_since.is_some() {
            return Outcome::Conflict;
        }
        self.api.edit_pod(&bind.pod, &bind.uid, |pod| pod.node = Some(bind.node.clone()));
        self.placing.waiting.remove(&bind.uid);
        self.coverage.hit(Mark::Scheduled);
        if self.api.nodes.get(&bind.node).is_none() {
            self.coverage.hit(Mark::BoundToNothing);
        }
        self.check_bound(bind);
        self.check_fits(bind);
        Outcome::Done
    }

    /// The condition of a pod that waits is for people. No core of these worlds reads it, so the pod is not written.
    pub(super) fn say_why(&mut self, set: &SetPodCondition) -> Outcome {
        if self.api.pods.get(&set.pod).is_none_or(|stored| stored.object.uid != set.uid) {
            return Outcome::Gone;
        }
        self.coverage.hit(Mark::Unschedulable);
        self.nominate(set);
        let said = Unscheduled { reason: set.reason.into(), message: set.message.clone() };
        self.placing.waiting.insert(set.uid.clone(), said);
        Outcome::Done
    }
}

fn written(name: &Text, uid: &Uid, version: u64) -> Reply {
    let written = Written { name: name.clone(), uid: uid.clone(), version: version.to_string().into() };
    Reply { outcome: Outcome::Done, why: None, written: Some(written) }
}

/// An allocation of a mutant, with the tolerations that the claim has.
fn tolerating_as_asked(claim: &ResourceClaim, allocation: &Allocation) -> Allocation {
    let mut allocation = allocation.clone();
    let asked = request_of(claim).map_or(&[][..], |request| &request.tolerations);
    allocation.results.iter_mut().for_each(|result| result.tolerations = asked.to_vec());
    allocation
}
