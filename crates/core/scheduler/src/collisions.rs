//! Devices that another claim has as well.
//!
//! A write of the last leader that was held up on its way may allocate a claim after this one has given the devices to another: the version of the claim does
//! not tell. A server that looks at the devices refuses it. Where none does, the claim whose pod is not on its way to a node gives them back.

use alloc::{format, string::String, sync::Arc, vec::Vec};

use lazaret_holdings::{Standing, collide, gives_way};
use lazaret_model::{Allocation, Consumer, DeviceId, ObjectKey, ResourceClaim, Uid};

use crate::{
    Claim, EventKind, Pod,
    claim_writes::Entry,
    state::Scheduler,
    why::{ClaimProblem, Verdict},
};

/// The most pods of the other claim that get an event.
const TOLD_MAX: usize = 16;

impl Scheduler {
    /// Whether a pod may go by what a claim was allocated: not if another claim has a device of it and this one gives way.
    pub(crate) fn check_given_once(&self, ix: u32, claim: &Claim, pod: &Pod) -> Result<(), ClaimProblem> {
        let Some(allocation) = self.allocation_of(claim) else { return Ok(()) };
        let own = (ix, self.claim_cache.user(pod, claim));
        let yields = |other: &ResourceClaim| {
            gives_way(self.standing(&claim.claim, Some(own)), self.standing(other, None))
        };
        let twice = self
            .seen_collision(&claim.claim.uid, &allocation, yields)
            .or_else(|| self.decided_collision(ix, &claim.claim.uid, &allocation));
        match twice {
            None => Ok(()),
            Some((device, holder)) => {
                Err(ClaimProblem::GivenTwice { claim: claim.claim.key.clone(), device, holder })
            }
        }
    }

    /// Why a pod whose claims are reserved for it is not bound with them.
    pub(crate) fn given_twice(&self, ix: u32) -> Option<String> {
        let pod = &self.pods.get(ix)?.pod;
        let claims = self.flights.get(&ix)?.claims.iter().filter_map(|key| self.claim_cache.get(key));
        claims
            .filter_map(|claim| self.check_given_once(ix, claim, pod).err())
            .map(|why| format!("{why}"))
            .next()
    }

    /// Tells the pods of both claims that one gives a device back.
    pub(crate) fn tell_given_twice(&mut self, pod: &Pod, verdict: &Verdict) {
        let Verdict::Claims(ClaimProblem::GivenTwice { claim, device, holder }) = verdict else { return };
        let users = self.claim_cache.users(holder).iter().take(TOLD_MAX);
        let others: Vec<Arc<Pod>> =
            users.filter_map(|user| self.pods.get(*user)).map(|entry| entry.pod.clone()).collect();
        let message = format!(
            "Device {device} is allocated to ResourceClaims {holder} and {claim}: {claim} gives it back"
        );
        self.post_event(pod, EventKind::DeviceAllocatedTwice, &message);
        for other in others {
            self.post_event(&other, EventKind::DeviceAllocatedTwice, &message);
        }
    }

    /// The claim that was seen to have a device that was decided for this one, before that is written.
    pub(crate) fn taken_meanwhile(&self, entry: &Entry) -> Option<ObjectKey> {
        let decided = entry.allocation.as_ref().filter(|_| !entry.written)?;
        self.seen_collision(&entry.uid, decided, |_| true).map(|(_, holder)| holder)
    }

    /// A device of an allocation that another claim was seen to have as well, and that claim.
    fn seen_collision(
        &self,
        uid: &Uid,
        allocation: &Allocation,
        counts: impl Fn(&ResourceClaim) -> bool,
    ) -> Option<(DeviceId, ObjectKey)> {
        allocation.results.iter().filter(|result| !result.admin_access).find_map(|result| {
            let holders = self.fleet.holders(&result.device).filter_map(|holder| self.fleet.claim(holder));
            // Devices that no claim holds any more are waited for where they are prepared.
            let mut others = holders.filter(|other| other.uid != *uid && !other.key.namespace.contains('/'));
            let other = others.find(|other| {
                let mut given = other.allocation.iter().flat_map(|given| &given.results);
                given.any(|theirs| collide(result, theirs)) && counts(other)
            })?;
            Some((result.device.clone(), other.key.clone()))
        })
    }

    /// The same with a claim that was not seen to have it, and whose pod is on its way to a node.
    fn decided_collision(
        &self,
        ix: u32,
        uid: &Uid,
        allocation: &Allocation,
    ) -> Option<(DeviceId, ObjectKey)> {
        let others =
            self.claim_writes.iter().filter(|(_, entry)| entry.uid != *uid && entry.is_for_others(ix));
        let mut given = others.flat_map(|(key, entry)| {
            entry.allocation.iter().flat_map(|given| &given.results).map(move |theirs| (key, theirs))
        });
        given.find_map(|(key, theirs)| {
            let own = allocation.results.iter().find(|result| collide(result, theirs))?;
            Some((own.device.clone(), key.clone()))
        })
    }

    /// How firmly a claim has its devices, whatever `but` does.
    fn standing<'a>(&self, claim: &'a ResourceClaim, but: Option<(u32, &Uid)>) -> Standing<'a> {
        let mut users = claim.reserved_for.iter().filter(|user| but.is_none_or(|(_, own)| user.uid != *own));
        let mut pods =
            self.claim_cache.users(&claim.key).iter().filter(|pod| but.is_none_or(|(ix, _)| **pod != ix));
        let is_placed = |pod: &u32| self.pods.get(*pod).is_some_and(|entry| entry.on.is_some());
        Standing {
            is_used: users.any(|user| self.may_run(claim, user)) || pods.any(is_placed),
            allocated: claim.allocation.as_ref().and_then(|given| given.timestamp),
            uid: &claim.uid,
        }
    }

    /// Whether a user of a claim may be on a node. A group is by its pods, which name the claim.
    fn may_run(&self, claim: &ResourceClaim, user: &Consumer) -> bool {
        if *user.resource != *"pods" || !user.api_group.is_empty() {
            return *user.resource != *"podgroups";
        }
        let key = ObjectKey { namespace: claim.key.namespace.clone(), name: user.name.clone() };
        let known = self.pod_keys.get(&key).and_then(|ix| self.pods.get(*ix));
        let pod = known.map(|entry| (&entry.pod, entry.on)).filter(|(pod, _)| pod.uid == user.uid);
        pod.is_none_or(|(pod, on)| on.is_some() || pod.is_placed())
    }
}
