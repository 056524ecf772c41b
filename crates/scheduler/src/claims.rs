//! The claims as the API server has them, who names them, and what a pod's claims mean for placing it.

use alloc::{format, string::ToString, sync::Arc, vec::Vec};

use hashbrown::HashMap;
use lazaret_fleet::{Fleet, Origin, Snapshot};
use lazaret_model::{
    Allocation, ClaimSource, ClaimSpec, Consumer, DeviceResult, ObjectKey, RequestKind, Text, Toleration,
    Uid, tolerates,
};
use rustc_hash::FxBuildHasher;

use crate::{CONSUMERS_MAX, Claim, Pod, why::ClaimProblem};

/// The claims as last heard of.
#[derive(Debug, Default)]
pub(crate) struct Book {
    claims: HashMap<ObjectKey, Arc<Claim>, FxBuildHasher>,
    /// Pods that name a claim, whether it exists or not.
    users: HashMap<ObjectKey, Vec<u32>, FxBuildHasher>,
    /// By the UID of the pod, the claim that was made for its extended resources.
    made_for: HashMap<Uid, ObjectKey, FxBuildHasher>,
}

impl Book {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Arc<Claim>> {
        self.claims.get(key)
    }

    /// Takes in a claim; gives back what it was.
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

    pub(crate) fn file(&mut self, ix: u32, pod: &Pod) {
        for key in claim_keys(pod) {
            let users = self.users.entry(key).or_default();
            if let Err(at) = users.binary_search(&ix) {
                users.insert(at, ix);
            }
        }
    }

    pub(crate) fn unfile(&mut self, ix: u32, pod: &Pod) {
        for key in claim_keys(pod) {
            if let Some(users) = self.users.get_mut(&key) {
                users.retain(|user| *user != ix);
                if users.is_empty() {
                    self.users.remove(&key);
                }
            }
        }
    }
}

fn made_for(claim: &Claim) -> Option<&Uid> {
    claim.claim.owner.as_ref().filter(|_| claim.claim.extended_resource).map(|owner| &owner.uid)
}

/// The claims that a pod names, as far as their names are known.
pub(crate) fn claim_keys(pod: &Pod) -> impl Iterator<Item = ObjectKey> {
    let named = pod.claims.iter().filter_map(|entry| match &entry.source {
        ClaimSource::Claim(name) => Some(name),
        ClaimSource::Template { resolved: Some(Some(name)), .. } => Some(name),
        ClaimSource::Template { resolved: None | Some(None), .. } | ClaimSource::Unknown => None,
    });
    let named = named.chain(&pod.extended_claim);
    named.map(|name| ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() })
}

/// The claims of a pod, by entry. Entries that need no claim are left out.
pub(crate) fn resolve(book: &Book, pod: &Pod) -> Result<Vec<Arc<Claim>>, ClaimProblem> {
    let mut claims: Vec<Arc<Claim>> = Vec::with_capacity(pod.claims.len());
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
        let Some(claim) = book.get(&key) else { return Err(ClaimProblem::Missing(key)) };
        if claim.claim.deleting {
            return Err(ClaimProblem::Deleting(key));
        }
        let owned = claim.claim.owner.as_ref().is_some_and(|owner| owner.uid == pod.uid);
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

/// Whether a claim is reserved for a pod already.
pub(crate) fn is_reserved_for(claim: &Claim, pod: &Pod) -> bool {
    claim.claim.reserved_for.iter().any(|consumer| consumer.uid == pod.uid)
}

/// Whether nobody but this pod uses a claim.
pub(crate) fn is_free_but_for(claim: &Claim, pod: &Pod) -> bool {
    claim.claim.reserved_for.iter().all(|consumer| consumer.uid == pod.uid)
}

/// A pod as the user of a claim.
pub(crate) fn consumer(pod: &Pod) -> Consumer {
    Consumer {
        api_group: Text::default(),
        resource: "pods".into(),
        name: pod.key.name.clone(),
        uid: pod.uid.clone(),
    }
}

/// Refuses a claim that has so many users already.
pub(crate) fn check_room(claim: &Claim, pod: &Pod, coming: usize) -> Result<(), ClaimProblem> {
    let users = claim.claim.reserved_for.len() + coming;
    if users >= CONSUMERS_MAX && !is_reserved_for(claim, pod) {
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
/// Refuses an allocation with a device that has an untolerated taint which makes pods leave.
pub(crate) fn check_taints(
    fleet: &Fleet,
    claim: &ObjectKey,
    allocation: &Allocation,
) -> Result<(), ClaimProblem> {
    match allocation.results.iter().find_map(|result| evicting_taint(fleet, result)) {
        Some((result, taint, by)) => {
            Err(ClaimProblem::Tainted { claim: claim.clone(), device: result.device.clone(), taint, by })
        }
        None => Ok(()),
    }
}

fn evicting_taint<'a>(fleet: &Fleet, result: &'a DeviceResult) -> Option<(&'a DeviceResult, Text, Text)> {
    let borne = |taint: &lazaret_model::Taint| {
        result.tolerations.iter().any(|toleration: &Toleration| tolerates(toleration, taint))
    };
    let mut taints = fleet.effective_taints(&result.device);
    let bad = taints.find(|known| known.taint.effect.evicts() && !borne(known.taint))?;
    let by = match bad.origin {
        Origin::Device { slice, .. } | Origin::TaintSlice { slice, .. } => format!("slice {slice}"),
        Origin::Patch { name, .. } => format!("patch {name}"),
        Origin::Rule { name, .. } => format!("rule {name}"),
    };
    Some((result, bad.taint.to_string().into(), by.into()))
}
