//! The invariants: after every step that no device is allocated twice, and at rest that no pod is pending that could be placed. No code of the
//! scheduler is used to find that out.

use std::collections::BTreeMap;

use lazaret_model::{AllocationMode, ClaimSource, DeviceId, ObjectKey, RequestKind, ResourceClaim};
use lazaret_scheduler::Pod;

use super::{
    World,
    cluster::{DEVICES, DRIVER, NODES, node_name},
};

impl World {
    /// No device belongs to two claims.
    pub(super) fn check_devices(&mut self) {
        let mut holders: BTreeMap<&DeviceId, &ObjectKey> = BTreeMap::new();
        let mut twice = None;
        for claim in self.claims.values() {
            for result in claim.claim.allocation.iter().flat_map(|given| &given.results) {
                if let Some(other) = holders.insert(&result.device, &claim.claim.key) {
                    twice = Some(format!("{} is {other}'s and {}'s", result.device, claim.claim.key));
                }
            }
        }
        if let Some(detail) = twice {
            self.violate("no device is given twice", detail);
        }
    }

    /// A pod that is bound has all its claims, on its node.
    pub(super) fn check_bound(&mut self, key: &ObjectKey) {
        let Some(pod) = self.pods.get(key) else { return };
        let lacking = claims_of(pod).find(|name| {
            let claim = self.claims.get(&ObjectKey::new("ns", *name)).map(|claim| &claim.claim);
            !claim.is_some_and(|claim| {
                let reserved = claim.reserved_for.iter().any(|user| user.uid == pod.uid);
                let here = |given: &lazaret_model::Allocation| {
                    given.results.iter().all(|result| Some(&result.device.pool) == pod.node.as_ref())
                };
                reserved && claim.allocation.as_deref().is_some_and(here)
            })
        });
        if let Some(detail) = lacking.map(|name| format!("{key} has not got {name}")) {
            self.violate("who is bound has its claims", detail);
        }
    }

    /// Nothing is planned any more.
    pub(super) fn check_at_rest(&mut self) {
        let sizes = self.scheduler.sizes();
        if sizes.in_flight + sizes.claims_in_flight + sizes.active + sizes.backing_off > 0 {
            self.say(format_args!("{:?}", self.scheduler));
            self.violate("nothing is left in flight", format!("{sizes:?}"));
        }
        let waiting: Vec<Pod> = self.pods.values().filter(|pod| pod.node.is_none()).cloned().collect();
        for pod in waiting {
            if let Some(node) = (0..NODES).find(|node| self.could_go(&pod, *node)) {
                let message = pod.unscheduled.as_ref().map_or("", |told| told.message.as_str());
                let detail = format!("{} could go to {}: {message}", pod.key, node_name(node));
                self.violate("no pod waits that could be placed", detail);
            }
        }
    }

    /// Whether a pod that waits would fit on a node as it is.
    fn could_go(&self, pod: &Pod, node: usize) -> bool {
        let name = node_name(node);
        let on_node = |other: &&Pod| other.node.as_ref().is_some_and(|on| *on == *name);
        let used: i64 = self.pods.values().filter(on_node).map(|other| other.spec.requests.cpu_milli).sum();
        let room = self.nodes[node].allocatable.cpu_milli - used;
        if self.nodes[node].unschedulable || pod.spec.requests.cpu_milli > room {
            return false;
        }
        let mut wanted = 0;
        for claim in claims_of(pod) {
            let Some(claim) = self.claims.get(&ObjectKey::new("ns", claim)) else { return false };
            match &claim.claim.allocation {
                // Devices that nobody uses can be given back.
                Some(_) if claim.claim.reserved_for.is_empty() => wanted += count(&claim.claim),
                Some(given) => {
                    if given.results.iter().any(|result| *result.device.pool != *name) {
                        return false;
                    }
                }
                None => wanted += count(&claim.claim),
            }
        }
        self.free_devices(node) >= wanted
    }

    fn free_devices(&self, node: usize) -> usize {
        let is_free = |device: &usize| {
            let id = DeviceId::new(DRIVER, node_name(node), format!("gpu-{device}"));
            let held = self.claims.values().filter_map(|claim| claim.claim.allocation.as_ref());
            !self.tainted.contains(&(node, *device))
                && !held.flat_map(|given| &given.results).any(|result| result.device == id)
        };
        (0..DEVICES).filter(is_free).count()
    }
}

fn claims_of(pod: &Pod) -> impl Iterator<Item = &str> {
    pod.claims.iter().filter_map(|entry| match &entry.source {
        ClaimSource::Claim(name) => Some(name.as_str()),
        ClaimSource::Template { .. } | ClaimSource::Unknown => None,
    })
}

fn count(claim: &ResourceClaim) -> usize {
    let of = |request: &lazaret_model::Request| {
        let RequestKind::Exactly(request) = &request.kind else { return 0 };
        let AllocationMode::Exact(count) = request.mode else { return 0 };
        usize::try_from(count).unwrap_or(0)
    };
    claim.spec.requests.iter().map(of).sum()
}
