//! The claims as the API server has them, who names them, and what a pod's claims mean for placing it.

use alloc::{format, string::ToString, sync::Arc, vec::Vec};

use hashbrown::HashMap;
use lazaret_allocator::TimedTolerations;
use lazaret_fleet::{Fleet, Origin, Snapshot};
use lazaret_model::{
    Allocation, ClaimSource, ClaimSpec, Consumer, DeviceResult, ObjectKey, PodClaim, PodGroup, RequestKind,
    Taint, Text, Timestamp, Uid,
};
use rustc_hash::FxBuildHasher;

use crate::{CONSUMERS_MAX, Claim, Pod, why::ClaimProblem};

/// The claims as last seen.
#[derive(Debug, Default)]
pub(crate) struct ClaimCache {
    claims: HashMap<ObjectKey, Arc<Claim>, FxBuildHasher>,
    /// Pods that name a claim, whether it exists or not.
    users: HashMap<ObjectKey, Vec<u32>, FxBuildHasher>,
    /// By the UID of the pod, the claim that was made for its extended resources.
    made_for: HashMap<Uid, ObjectKey, FxBuildHasher>,
    /// Groups of pods.
    groups: HashMap<ObjectKey, Arc<PodGroup>, FxBuildHasher>,
    /// Pods that name a group, whether it exists or not.
    members: HashMap<ObjectKey, Vec<u32>, FxBuildHasher>,
}

impl ClaimCache {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Arc<Claim>> {
        self.claims.get(key)
    }

    /// Sets a claim; returns its old state.
    pub(crate) fn set(&mut self, claim: &Arc<Claim>) -> Option<Arc<Claim>> {
        let old = self.claims.insert(claim.claim.key.clone(), claim.clone());
        if let Some(pod) = old.as_ref().and_then(|old| made_for(old)) {
            self.made_for.remove(pod);
        }
        if let Some(pod) = made_for(claim) {
            self.made_for.insert(pod.clone(), claim.claim.key.clone());
        }
        old
    }

    /// The claim that was made for the extended resources of the pod of this UID.
    pub(crate) fn made_for(&self, pod: &Uid) -> Option<&ObjectKey> {
        self.made_for.get(pod)
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<Arc<Claim>> {
        let old = self.claims.remove(key);
        if let Some(pod) = old.as_ref().and_then(|old| made_for(old)) {
            self.made_for.remove(pod);
        }
        old
    }

    /// The pods that name a claim.
    pub(crate) fn users(&self, key: &ObjectKey) -> &[u32] {
        self.users.get(key).map_or(&[], |users| users)
    }

    pub(crate) fn index_pod(&mut self, ix: u32, pod: &Pod) {
        claim_keys(pod).for_each(|key| add(&mut self.users, key, ix));
        group_key(pod).into_iter().for_each(|key| add(&mut self.members, key, ix));
    }

    pub(crate) fn unindex_pod(&mut self, ix: u32, pod: &Pod) {
        claim_keys(pod).for_each(|key| remove_from_index(&mut self.users, &key, ix));
        group_key(pod).into_iter().for_each(|key| remove_from_index(&mut self.members, &key, ix));
    }

    /// Takes in a group; whether it is news.
    pub(crate) fn set_group(&mut self, group: Arc<PodGroup>) -> bool {
        let old = self.groups.insert(group.key.clone(), group.clone());
        old.is_none_or(|old| old != group)
    }

    pub(crate) fn remove_group(&mut self, key: &ObjectKey) {
        self.groups.remove(key);
    }

    /// The pods that name a group.
    pub(crate) fn members(&self, key: &ObjectKey) -> &[u32] {
        self.members.get(key).map_or(&[], |members| members)
    }

    /// The group of a pod; `None` if it has none.
    pub(crate) fn group(&self, pod: &Pod) -> Result<Option<&PodGroup>, ClaimProblem> {
        let Some(key) = group_key(pod) else { return Ok(None) };
        match self.groups.get(&key) {
            Some(group) => Ok(Some(group)),
            None => Err(ClaimProblem::NoGroup(key)),
        }
    }

    /// The consumer as which a pod uses a claim: itself, or its group where that has the claim for all of its pods.
    pub(crate) fn consumer(&self, pod: &Pod, claim: &ObjectKey) -> Consumer {
        match self.sharing(pod, claim) {
            Some(group) => group.consumer(),
            None => Consumer {
                api_group: Text::default(),
                resource: "pods".into(),
                name: pod.key.name.clone(),
                uid: pod.uid.clone(),
            },
        }
    }

    /// The group that has a claim of the pod for all of its pods.
    pub(crate) fn sharing(&self, pod: &Pod, claim: &ObjectKey) -> Option<&PodGroup> {
        let group = self.groups.get(&group_key(pod)?)?;
        let mut entries = pod.claims.iter().filter(|entry| entry.claim() == Some(&claim.name));
        entries.any(|entry| group.shared(entry).is_some()).then_some(group)
    }

    /// Whether a claim is reserved for a pod already.
    pub(crate) fn is_reserved_for(&self, claim: &Claim, pod: &Pod) -> bool {
        let uid = self.user(pod, claim);
        claim.claim.reserved_for.iter().any(|consumer| consumer.uid == *uid)
    }

    /// Whether no other consumer than this pod, or its group, uses a claim.
    pub(crate) fn is_used_only_by(&self, claim: &Claim, pod: &Pod) -> bool {
        let uid = self.user(pod, claim);
        claim.claim.reserved_for.iter().all(|consumer| consumer.uid == *uid)
    }

    /// The UID of the consumer as which a pod uses a claim.
    pub(crate) fn user<'a>(&'a self, pod: &'a Pod, claim: &Claim) -> &'a Uid {
        self.sharing(pod, &claim.claim.key).map_or(&pod.uid, |group| &group.uid)
    }
}

fn add(index: &mut HashMap<ObjectKey, Vec<u32>, FxBuildHasher>, key: ObjectKey, ix: u32) {
    let pods = index.entry(key).or_default();
    if let Err(at) = pods.binary_search(&ix) {
        pods.insert(at, ix);
    }
}

fn remove_from_index(index: &mut HashMap<ObjectKey, Vec<u32>, FxBuildHasher>, key: &ObjectKey, ix: u32) {
    if let Some(pods) = index.get_mut(key) {
        if let Ok(at) = pods.binary_search(&ix) {
            pods.remove(at);
        }
        if pods.is_empty() {
            index.remove(key);
        }
    }
}

/// The group that a pod names.
pub(crate) fn group_key(pod: &Pod) -> Option<ObjectKey> {
    let name = pod.group.as_ref()?;
    Some(ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() })
}

fn made_for(claim: &Claim) -> Option<&Uid> {
    claim.claim.owner.as_ref().filter(|_| claim.claim.extended_resource).map(|owner| &owner.uid)
}

/// The gang that is complete with this pod: the others waited for it.
pub(crate) fn gang_to_wake(claim_cache: &ClaimCache, pod: &Pod) -> Option<ObjectKey> {
    let group = claim_cache.group(pod).ok()??;
    let wanted = group.gang? as usize;
    (claim_cache.members(&group.key).len() == wanted).then(|| group.key.clone())
}

/// The claims that a pod names, as far as their names are known.
pub(crate) fn claim_keys(pod: &Pod) -> impl Iterator<Item = ObjectKey> {
    let named = pod.claims.iter().filter_map(PodClaim::claim).chain(&pod.extended_claim);
    named.map(|name| ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() })
}

/// The claims of a pod, by entry. Entries that need no claim are left out.
pub(crate) fn resolve(claim_cache: &ClaimCache, pod: &Pod) -> Result<Vec<Arc<Claim>>, ClaimProblem> {
    let mut claims: Vec<Arc<Claim>> = Vec::with_capacity(pod.claims.len());
    let group = claim_cache.group(pod)?;
    for entry in &pod.claims {
        let (name, from_template) = match &entry.source {
            ClaimSource::Claim(name) => (name, false),
            ClaimSource::Template { resolved: Some(Some(name)), .. } => (name, true),
            ClaimSource::Template { resolved: Some(None), .. } => continue,
            ClaimSource::Template { resolved: None, .. } => {
                return Err(ClaimProblem::NotMade { entry: entry.name.clone() });
            }
            ClaimSource::Unknown => return Err(ClaimProblem::UnknownSource { entry: entry.name.clone() }),
        };
        let key = ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() };
        let Some(claim) = claim_cache.get(&key) else { return Err(ClaimProblem::Missing(key)) };
        if claim.claim.deleting {
            return Err(ClaimProblem::Deleting(key));
        }
        let sharing = group.filter(|group| group.shared(entry).is_some());
        let maker = sharing.map_or(&pod.uid, |group| &group.uid);
        let owned = claim.claim.owner.as_ref().is_some_and(|owner| owner.uid == *maker);
        if from_template && !owned {
            return Err(ClaimProblem::NotOwned(key));
        }
        // Two entries may name the same claim.
        if claims.iter().all(|known| known.claim.key != key) {
            claims.push(claim.clone());
        }
    }
    Ok(claims)
}

/// Refuses a claim with [`CONSUMERS_MAX`] consumers already. All pods of a group that has it are one.
pub(crate) fn check_room(
    claim_cache: &ClaimCache,
    claim: &Claim,
    pod: &Pod,
    coming: usize,
) -> Result<(), ClaimProblem> {
    let coming = if claim_cache.sharing(pod, &claim.claim.key).is_some() { 0 } else { coming };
    let users = claim.claim.reserved_for.len() + coming;
    if users >= CONSUMERS_MAX && !claim_cache.is_reserved_for(claim, pod) {
        return Err(ClaimProblem::Full(claim.claim.key.clone()));
    }
    Ok(())
}

/// Refuses a claim that asks for a class which does not exist.
pub(crate) fn check_classes(claim: &Claim, snapshot: &Snapshot) -> Result<(), ClaimProblem> {
    match classes(&claim.claim.spec).find(|class| snapshot.class(class).is_none()) {
        Some(class) => Err(ClaimProblem::NoClass { claim: claim.claim.key.clone(), class: class.clone() }),
        None => Ok(()),
    }
}

fn classes(spec: &ClaimSpec) -> impl Iterator<Item = &Text> {
    spec.requests
        .iter()
        .flat_map(|request| match &request.kind {
            RequestKind::Exactly(exactly) => core::slice::from_ref(exactly).iter(),
            RequestKind::FirstAvailable(alternatives) => alternatives.iter(),
            RequestKind::Unknown => [].iter(),
        })
        .map(|request| &request.class)
}

// DEVIATION(reserve-tainted): a pod that Kubernetes would let use such a claim would be evicted at once.
/// Refuses an allocation with a device whose `NoExecute` taint is not tolerated, or not any more.
pub(crate) fn check_taints(
    fleet: &Fleet,
    claim: &ObjectKey,
    allocation: &Allocation,
    now: Timestamp,
) -> Result<(), ClaimProblem> {
    match allocation.results.iter().find_map(|result| evicting_taint(fleet, result, now)) {
        Some((result, taint, by)) => {
            Err(ClaimProblem::Tainted { claim: claim.clone(), device: result.device.clone(), taint, by })
        }
        None => Ok(()),
    }
}

fn evicting_taint<'a>(
    fleet: &Fleet,
    result: &'a DeviceResult,
    now: Timestamp,
) -> Option<(&'a DeviceResult, Text, Text)> {
    // A pod that is bound when the toleration is over is evicted as soon as it is seen.
    let timed = TimedTolerations::LastUntilOver(now);
    let permitted = |taint: &Taint| timed.permit(taint, &result.tolerations);
    let mut taints = fleet.effective_taints(&result.device);
    let bad = taints.find(|known| known.taint.effect.evicts() && !permitted(known.taint))?;
    let by = match bad.origin {
        Origin::Device { slice, .. } | Origin::TaintSlice { slice, .. } => format!("slice {slice}"),
        Origin::Patch { name, .. } => format!("patch {name}"),
        Origin::Rule { name, .. } => format!("rule {name}"),
    };
    Some((result, bad.taint.to_string().into(), by.into()))
}
