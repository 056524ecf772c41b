//! The claims that kubelets have prepared, and the invariant that a device is prepared for one claim at a time.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_model::{DeviceId, ObjectKey, Pod, ResourceClaim, Text, Uid};

use crate::{
    api::claim_name,
    coverage::Mark,
    mutant::Mutant,
    world::{Step, World},
};

/// A kubelet whose pod was removed by force unprepares its devices within this time.
const UNPREPARE_MS_MAX: u32 = 8_000;

/// Devices that are given out as a whole, each with the claim that it is prepared for and the pods that use it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prepared {
    by_device: BTreeMap<DeviceId, (Uid, BTreeSet<Uid>)>,
}

impl Prepared {
    /// Whether a kubelet has prepared devices for a claim.
    pub(crate) fn has(&self, node: &Text, claim: &Uid) -> bool {
        self.by_device.iter().any(|(id, (holder, _))| holder == claim && id.pool == *node)
    }

    /// Whether devices of a claim are prepared for it.
    pub(crate) fn is_for(&self, claim: &ResourceClaim) -> bool {
        whole(claim).any(|device| self.by_device.get(device).is_some_and(|(holder, _)| *holder == claim.uid))
    }
}

impl World {
    /// Kubelets have prepared what pods run with from the start.
    pub(crate) fn prepare_everything(&mut self) {
        let running = self.api.pods.iter().map(|stored| stored.object);
        let running = running.filter(|pod| pod.node.is_some() && !pod.phase.is_finished());
        let keys: Vec<ObjectKey> = running.map(|pod| pod.key.clone()).collect();
        keys.iter().for_each(|key| self.prepare(key));
    }

    /// A kubelet prepares the devices of a pod that starts.
    pub(crate) fn prepare(&mut self, key: &ObjectKey) {
        let Some(pod) = self.api.pods.get(key).map(|stored| stored.object.clone()) else { return };
        for claim in self.claims_named_by(&pod) {
            for device in whole(&claim) {
                let fresh = || (claim.uid.clone(), BTreeSet::new());
                let (holder, pods) = self.prepared.by_device.entry(device.clone()).or_insert_with(fresh);
                if *holder == claim.uid {
                    pods.insert(pod.uid.clone());
                    continue;
                }
                let detail = format!("{device} is prepared for {holder}, and for {} by {key}", claim.key);
                self.violate("a device is prepared for one claim at a time", detail);
                return;
            }
        }
    }

    fn claims_named_by(&self, pod: &Pod) -> Vec<std::sync::Arc<ResourceClaim>> {
        let named =
            pod.claims.iter().filter_map(|entry| claim_name(&entry.source)).chain(&pod.extended_claim);
        let keys = named.map(|name| ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() });
        keys.filter_map(|key| self.api.claims.get(&key).map(|stored| stored.object.clone())).collect()
    }

    /// Nothing is prepared for a pod any more. Its kubelet looks whether it was asked about that.
    pub(crate) fn unprepare(&mut self, pod: &Uid) {
        let mut nodes = BTreeSet::new();
        self.prepared.by_device.retain(|device, (_, pods)| {
            if pods.remove(pod) && pods.is_empty() {
                nodes.insert(device.pool.clone());
            }
            !pods.is_empty()
        });
        nodes.iter().for_each(|node| self.plan_report(node));
    }

    /// A person removed the allocation of a claim and answers for it. Its kubelet looks whether it was asked about that.
    pub(crate) fn forget_prepared(&mut self, claim: &Uid) {
        let mut nodes = BTreeSet::new();
        self.prepared.by_device.retain(|device, (holder, _)| {
            if holder == claim {
                nodes.insert(device.pool.clone());
            }
            holder != claim
        });
        nodes.iter().for_each(|node| self.plan_report(node));
    }

    /// Whether a kubelet has prepared devices for a claim. A mutant answers before it has looked.
    pub(super) fn has_prepared(&self, node: &Text, claim: &Uid) -> bool {
        self.mutant != Some(Mutant::Hasty) && self.prepared.has(node, claim)
    }

    /// The claim controller takes devices back: nobody uses them any more.
    pub(crate) fn check_given_back(&mut self, claim: &ResourceClaim) {
        if self.prepared.is_for(claim) {
            let detail = format!("{} is given back, and its devices are prepared", claim.key);
            self.violate("devices are unprepared before they are given back", detail);
        }
    }

    /// Whether a kubelet has to wait before it prepares the claims of a pod.
    pub(super) fn must_wait(&self, pod: &Pod) -> bool {
        let Some(node) = &pod.node else { return false };
        self.claims_named_by(pod).iter().any(|claim| self.is_awaited(node, &claim.uid))
    }

    /// A user removes a pod without waiting for its kubelet, which finds out later.
    pub(crate) fn remove_by_force(&mut self, pod: &Pod) {
        self.coverage.hit(Mark::Forced);
        self.api.remove_pod(self.now, &pod.key);
        self.push_soon(UNPREPARE_MS_MAX, Step::Unprepare(pod.uid.clone()));
    }
}

fn whole(claim: &ResourceClaim) -> impl Iterator<Item = &DeviceId> {
    let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
    results.filter(|result| result.share_id.is_none()).map(|result| &result.device)
}
