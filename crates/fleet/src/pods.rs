//! Pods, and which claims they use.

use alloc::{collections::BTreeSet, sync::Arc, vec::Vec};

use lazaret_model::{ClaimSource, ObjectKey, Pod, ResourceClaim, Text};

use crate::Fleet;

/// The API group of pod groups.
const SCHEDULING_GROUP: &str = "scheduling.k8s.io";

/// A pod, as a small number. Stable while the pod (by UID) exists; not given to another before
/// [`Fleet::take_changes`] has reported it gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodIx(pub u32);

#[derive(Clone, Debug)]
pub(crate) struct PodEntry {
    pub(crate) pod: Arc<Pod>,
    /// Claims that it uses, ascending.
    pub(crate) claims: Vec<u32>,
    pub(crate) noted: bool,
}

/// How a pod comes to name a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// By the claim's name.
    Name,
    /// From a template: the claim must belong to the pod or its group.
    Template,
    /// For extended resources: the claim must belong to the pod.
    Extended,
}

impl Fleet {
    pub(crate) fn apply_pod(&mut self, pod: Arc<Pod>) {
        let Some(&known) = self.pod_keys.get(&pod.key) else { return self.add_pod(pod) };
        let Some(entry) = self.pods.get_mut(known) else { return };
        if entry.pod.uid != pod.uid {
            let key = pod.key.clone();
            self.pod_gone(&key);
            return self.add_pod(pod);
        }
        if entry.pod == pod {
            return;
        }
        let old = core::mem::replace(&mut entry.pod, pod.clone());
        self.note_pod(known);
        if old.claims != pod.claims || old.extended_claim != pod.extended_claim || old.group != pod.group {
            self.forget_names(known, &old);
            self.file_names(known, &pod);
            self.relate_pod(known);
        }
    }

    fn add_pod(&mut self, pod: Arc<Pod>) {
        let ix = self.pods.insert(PodEntry { pod: pod.clone(), claims: Vec::new(), noted: false });
        self.pod_keys.insert(pod.key.clone(), ix);
        self.note_pod(ix);
        self.file_names(ix, &pod);
        self.relate_pod(ix);
    }

    pub(crate) fn pod_gone(&mut self, key: &ObjectKey) {
        let Some(ix) = self.pod_keys.remove(key) else { return };
        self.note_pod(ix);
        let Some(pod) = self.pods.get(ix).map(|entry| entry.pod.clone()) else { return };
        self.forget_names(ix, &pod);
        self.set_claims_of(ix, Vec::new());
        self.pods.retire(ix);
    }

    fn file_names(&mut self, ix: u32, pod: &Pod) {
        for (name, _) in claim_names(pod) {
            let key = ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() };
            let users = self.claim_users.entry(key).or_default();
            if let Err(at) = users.binary_search(&ix) {
                users.insert(at, ix);
            }
        }
    }

    fn forget_names(&mut self, ix: u32, pod: &Pod) {
        for (name, _) in claim_names(pod) {
            let key = ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() };
            if let Some(users) = self.claim_users.get_mut(&key) {
                users.retain(|user| *user != ix);
                if users.is_empty() {
                    self.claim_users.remove(&key);
                }
            }
        }
    }

    /// Finds out anew which claims a pod uses.
    fn relate_pod(&mut self, ix: u32) {
        let Some(entry) = self.pods.get(ix) else { return };
        let pod = entry.pod.clone();
        let mut claims = Vec::new();
        for (name, _) in claim_names(&pod) {
            let key = ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() };
            let Some(&claim) = self.claim_keys.get(&key) else { continue };
            if self.claims.get(claim).is_some_and(|entry| uses(&pod, &entry.claim)) {
                claims.push(claim);
            }
        }
        claims.sort_unstable();
        claims.dedup();
        self.set_claims_of(ix, claims);
    }

    fn set_claims_of(&mut self, ix: u32, claims: Vec<u32>) {
        let Some(entry) = self.pods.get_mut(ix) else { return };
        let old = core::mem::replace(&mut entry.claims, claims.clone());
        for &claim in old.iter().filter(|claim| claims.binary_search(claim).is_err()) {
            self.note_claim(claim);
            if let Some(entry) = self.claims.get_mut(claim) {
                entry.pods.retain(|pod| *pod != ix);
            }
        }
        for &claim in claims.iter().filter(|claim| old.binary_search(claim).is_err()) {
            self.note_claim(claim);
            if let Some(entry) = self.claims.get_mut(claim)
                && let Err(at) = entry.pods.binary_search(&ix)
            {
                entry.pods.insert(at, ix);
            }
        }
    }

    /// Finds out anew which pods use a claim.
    pub(crate) fn relate_claim(&mut self, ix: u32) {
        let Some(entry) = self.claims.get(ix) else { return };
        let claim = entry.claim.clone();
        let reservations = Reservations::of(&claim);
        let users = self.claim_users.get(&claim.key).map_or(&[][..], |users| users);
        let uses = |pod: &&u32| {
            self.pods.get(**pod).is_some_and(|entry| uses_reserved(&entry.pod, &claim, &reservations))
        };
        let pods = users.iter().filter(uses).copied().collect();
        self.set_pods_of(ix, pods);
    }

    pub(crate) fn unrelate_claim(&mut self, ix: u32) {
        self.set_pods_of(ix, Vec::new());
    }

    fn set_pods_of(&mut self, ix: u32, pods: Vec<u32>) {
        let Some(entry) = self.claims.get_mut(ix) else { return };
        let old = core::mem::replace(&mut entry.pods, pods.clone());
        for &pod in old.iter().filter(|pod| pods.binary_search(pod).is_err()) {
            self.note_pod(pod);
            if let Some(entry) = self.pods.get_mut(pod) {
                entry.claims.retain(|claim| *claim != ix);
            }
        }
        for &pod in pods.iter().filter(|pod| old.binary_search(pod).is_err()) {
            self.note_pod(pod);
            if let Some(entry) = self.pods.get_mut(pod)
                && let Err(at) = entry.claims.binary_search(&ix)
            {
                entry.claims.insert(at, ix);
            }
        }
    }
}

/// The claims that a pod names, with how it comes to them.
pub(crate) fn claim_names(pod: &Pod) -> impl Iterator<Item = (&Text, Via)> {
    let listed = pod.claims.iter().filter_map(|entry| match &entry.source {
        ClaimSource::Claim(name) => Some((name, Via::Name)),
        ClaimSource::Template { resolved: Some(Some(name)), .. } => Some((name, Via::Template)),
        ClaimSource::Template { resolved: None | Some(None), .. } | ClaimSource::Unknown => None,
    });
    listed.chain(pod.extended_claim.as_ref().map(|name| (name, Via::Extended)))
}

/// Whether a pod uses a claim: it names it, may have it, and the claim is allocated and reserved for it.
pub(crate) fn uses(pod: &Pod, claim: &ResourceClaim) -> bool {
    uses_reserved(pod, claim, &Reservations::of(claim))
}

fn uses_reserved(pod: &Pod, claim: &ResourceClaim, reservations: &Reservations<'_>) -> bool {
    let named = |(name, via): (&Text, Via)| *name == claim.key.name && may_have(pod, claim, via);
    claim.allocation.is_some()
        && pod.key.namespace == claim.key.namespace
        && reservations.cover(pod)
        && claim_names(pod).any(named)
}

fn may_have(pod: &Pod, claim: &ResourceClaim, via: Via) -> bool {
    let owner = claim.owner.as_ref();
    let by_pod = || owner.is_some_and(|owner| owner.uid == pod.uid);
    let by_group = || {
        owner.zip(pod.group.as_ref()).is_some_and(|(owner, group)| {
            owner.group == *SCHEDULING_GROUP && owner.kind == *"PodGroup" && owner.name == *group
        })
    };
    match via {
        Via::Name => true,
        Via::Template => by_pod() || by_group(),
        Via::Extended => by_pod(),
    }
}

/// Whom a claim is reserved for: pods by UID, groups by name.
struct Reservations<'a> {
    uids: BTreeSet<&'a str>,
    groups: BTreeSet<&'a str>,
}

impl<'a> Reservations<'a> {
    fn of(claim: &'a ResourceClaim) -> Self {
        let is_group =
            |c: &&lazaret_model::Consumer| c.api_group == *SCHEDULING_GROUP && c.resource == *"podgroups";
        Self {
            uids: claim.reserved_for.iter().map(|consumer| &*consumer.uid).collect(),
            groups: claim.reserved_for.iter().filter(is_group).map(|consumer| &*consumer.name).collect(),
        }
    }

    fn cover(&self, pod: &Pod) -> bool {
        self.uids.contains(&*pod.uid)
            || pod.group.as_ref().is_some_and(|group| self.groups.contains(&**group))
    }
}
