//! Pods, and which claims they use.

use alloc::{sync::Arc, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_model::{Consumer, ObjectKey, Pod, ResourceClaim};

use crate::{
    Fleet,
    few::Few,
    pod_entry::{PodEntry, Via, claim_names},
    vocabulary::hash_texts,
};

/// The API group of pod groups.
const SCHEDULING_GROUP: &str = "scheduling.k8s.io";

/// From this many reservations on, they are put in order before pods are looked up among them.
const RESERVATIONS_SCANNED_MAX: usize = 8;

impl Fleet {
    /// Takes in a pod; its number.
    pub(crate) fn apply_pod(&mut self, pod: Arc<Pod>) -> u32 {
        let hash = hash_of(&pod.key);
        let Some(known) = self.pod_ix_hashed(hash, &pod.key) else { return self.add_pod(hash, pod) };
        let Some(entry) = invariant!(self.pods.get_mut(known), "the number of a pod leads to it") else {
            return known;
        };
        if entry.pod.uid != pod.uid {
            self.pod_gone(&pod.key);
            return self.add_pod(hash, pod);
        }
        if entry.pod == pod {
            return known;
        }
        let old = core::mem::replace(&mut entry.pod, pod.clone());
        self.note_pod(known);
        if old.claims != pod.claims || old.extended_claim != pod.extended_claim || old.group != pod.group {
            let (names, claims) = self.file_names(known, &pod);
            let entry = self.pods.get_mut(known);
            let before = entry.map(|entry| core::mem::replace(&mut entry.names, names)).unwrap_or_default();
            self.forget_names(known, &before);
            self.set_claims_of(known, claims);
        }
        known
    }

    fn add_pod(&mut self, hash: u64, pod: Arc<Pod>) -> u32 {
        let (names, claims) = self.file_names(self.pods.next(), &pod);
        for &claim in claims.iter() {
            self.used_by(claim, self.pods.next());
        }
        let ix = self.pods.insert(PodEntry { pod, claims, names, noted: false });
        self.pod_keys.insert_unique(hash, (hash, ix), |(hash, _)| *hash);
        self.note_pod(ix);
        ix
    }

    pub(crate) fn pod_gone(&mut self, key: &ObjectKey) {
        let hash = hash_of(key);
        let Some(ix) = self.pod_ix_hashed(hash, key) else { return };
        if let Ok(found) = self.pod_keys.find_entry(hash, |(_, other)| *other == ix) {
            found.remove();
        }
        self.note_pod(ix);
        let names = self.pods.get_mut(ix).map(|entry| core::mem::take(&mut entry.names)).unwrap_or_default();
        self.forget_names(ix, &names);
        self.set_claims_of(ix, Few::default());
        self.pods.retire(ix);
    }

    pub(crate) fn pod_ix_of(&self, key: &ObjectKey) -> Option<u32> {
        self.pod_ix_hashed(hash_of(key), key)
    }

    fn pod_ix_hashed(&self, hash: u64, key: &ObjectKey) -> Option<u32> {
        let is_it = |ix: u32| self.pods.get(ix).is_some_and(|entry| entry.pod.key == *key);
        self.pod_keys.find(hash, |(other, ix)| *other == hash && is_it(*ix)).map(|(_, ix)| *ix)
    }

    /// Files a pod under the names in its spec: the names, and the claims behind them that it uses. Names that it had
    /// before stay filed until they are forgotten.
    fn file_names(&mut self, ix: u32, pod: &Pod) -> (Few<u32>, Few<u32>) {
        let (mut names, mut claims) = (Few::default(), Few::default());
        for (name, via) in claim_names(pod) {
            let at = self.claim_names.number(&pod.key.namespace, name);
            names.push(at);
            let Some(name) = invariant!(self.claim_names.get_mut(at), "a name that has a number is there")
            else {
                continue;
            };
            name.users.insert(ix);
            if let Some(claim) = name.claim
                && let Some(known) = self.claims.get(claim)
                && uses(pod, &known.claim, &Reservations::Few(&known.claim.reserved_for), via)
            {
                claims.push(claim);
            }
        }
        claims.sort();
        (names, claims)
    }

    /// Strikes a pod from the names that it has no more.
    fn forget_names(&mut self, ix: u32, before: &[u32]) {
        for &at in before {
            if self.pods.get(ix).is_some_and(|entry| entry.names.contains(&at)) {
                continue;
            }
            if let Some(name) = self.claim_names.get_mut(at) {
                name.users.remove(ix);
            }
            self.claim_names.forget_if_unused(at);
        }
    }

    /// Says which claims a pod uses now.
    fn set_claims_of(&mut self, ix: u32, claims: Few<u32>) {
        let Some(entry) = invariant!(self.pods.get_mut(ix), "the number of a pod leads to it") else {
            return;
        };
        if *entry.claims == *claims {
            return;
        }
        let old = core::mem::take(&mut entry.claims);
        for &claim in old.iter().filter(|claim| !claims.has(claim)) {
            self.note_claim(claim);
            if let Some(entry) = self.claims.get_mut(claim) {
                entry.pods.remove(ix);
            }
        }
        for &claim in claims.iter().filter(|claim| !old.has(claim)) {
            self.used_by(claim, ix);
        }
        if let Some(entry) = self.pods.get_mut(ix) {
            entry.claims = claims;
        }
    }

    fn used_by(&mut self, claim: u32, pod: u32) {
        self.note_claim(claim);
        if let Some(entry) = self.claims.get_mut(claim) {
            entry.pods.insert(pod);
        }
    }

    /// Finds out anew which pods use a claim.
    pub(crate) fn relate_claim(&mut self, ix: u32) {
        let Some(entry) = invariant!(self.claims.get(ix), "the number of a claim leads to it") else {
            return;
        };
        let users = self.claim_names.get(entry.name).map_or(&[][..], |name| &name.users);
        if users.is_empty() && entry.pods.is_empty() {
            return;
        }
        let reservations = Reservations::of(&entry.claim);
        let uses = |pod: &&u32| {
            self.pods.get(**pod).is_some_and(|user| {
                let mut ways = user.named().filter(|(name, _)| *name == entry.name);
                ways.any(|(_, via)| uses(&user.pod, &entry.claim, &reservations, via))
            })
        };
        let pods = users.iter().filter(uses).copied().collect();
        self.set_pods_of(ix, pods);
    }

    pub(crate) fn unrelate_claim(&mut self, ix: u32) {
        self.set_pods_of(ix, Few::default());
    }

    fn set_pods_of(&mut self, ix: u32, pods: Few<u32>) {
        let Some(entry) = invariant!(self.claims.get_mut(ix), "the number of a claim leads to it") else {
            return;
        };
        if *entry.pods == *pods {
            return;
        }
        let old = core::mem::take(&mut entry.pods);
        for &pod in old.iter().filter(|pod| !pods.has(pod)) {
            self.note_pod(pod);
            if let Some(entry) = self.pods.get_mut(pod) {
                entry.claims.remove(ix);
            }
        }
        for &pod in pods.iter().filter(|pod| !old.has(pod)) {
            self.note_pod(pod);
            if let Some(entry) = self.pods.get_mut(pod) {
                entry.claims.insert(ix);
            }
        }
        if let Some(entry) = self.claims.get_mut(ix) {
            entry.pods = pods;
        }
    }
}

/// Whether a pod that names a claim uses it: it may have it so, and the claim is allocated and reserved for it.
fn uses(pod: &Pod, claim: &ResourceClaim, reservations: &Reservations<'_>, via: Via) -> bool {
    claim.allocation.is_some() && reservations.cover(pod) && may_have(pod, claim, via)
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
enum Reservations<'a> {
    Few(&'a [Consumer]),
    /// Both in order.
    Many {
        uids: Vec<&'a str>,
        groups: Vec<&'a str>,
    },
}

impl<'a> Reservations<'a> {
    fn of(claim: &'a ResourceClaim) -> Self {
        let users = &claim.reserved_for;
        if users.len() <= RESERVATIONS_SCANNED_MAX {
            return Self::Few(users);
        }
        Self::Many {
            uids: sorted(users.iter().map(|consumer| &*consumer.uid)),
            groups: sorted(users.iter().filter(is_group).map(|consumer| &*consumer.name)),
        }
    }

    fn cover(&self, pod: &Pod) -> bool {
        match self {
            Self::Few(users) => {
                users.iter().any(|user| user.uid == pod.uid)
                    || pod
                        .group
                        .as_ref()
                        .is_some_and(|group| users.iter().filter(is_group).any(|user| user.name == *group))
            }
            Self::Many { uids, groups } => {
                uids.binary_search(&&*pod.uid).is_ok()
                    || pod.group.as_ref().is_some_and(|group| groups.binary_search(&&**group).is_ok())
            }
        }
    }
}

fn sorted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names
}

fn is_group(consumer: &&Consumer) -> bool {
    consumer.api_group == *SCHEDULING_GROUP && consumer.resource == *"podgroups"
}

fn hash_of(key: &ObjectKey) -> u64 {
    hash_texts([&key.namespace, &key.name])
}
