//! Invariants at every step, and at rest.

use std::collections::BTreeMap;

use lazaret_classic::{
    AllocationMode, ClaimSpec, ClaimUse, Phase, Pod, PodClaimSource, ResourceClaim, USERS_UNLIMITED,
};
use lazaret_model::{ObjectKey, Text, Uid};

use super::world::World;

impl World {
    fn claim_of(&self, uid: &Uid) -> Option<&ResourceClaim> {
        self.server.claims.values().find(|claim| claim.uid == *uid)
    }

    fn holder(&self, uid: &Uid) -> Option<&Text> {
        self.vendors.iter().find_map(|vendor| vendor.held.get(uid))
    }

    pub(crate) fn check(&mut self) {
        if self.violation.is_some() {
            return;
        }
        if let Some(what) = self.broken() {
            self.fail(what);
        }
    }

    fn broken(&self) -> Option<String> {
        if let Some(what) = &self.server.refused {
            return Some(format!("a write was refused: {what}"));
        }
        for claim in self.server.claims.values() {
            let (name, status) = (&claim.key.name, &claim.status);
            let users = i64::try_from(status.reserved_for.len()).unwrap();
            if status.user_limit != USERS_UNLIMITED && users > status.user_limit {
                return Some(format!("{name} is reserved above its limit"));
            }
            let held = self.holder(&claim.uid).is_some();
            if users > 0 && (status.phase != Phase::Allocated || !held) {
                return Some(format!("{name} is reserved, and nothing is held for it"));
            }
            if status.phase == Phase::Allocated && !held && !claim.deleting {
                return Some(format!("{name} is allocated, and nothing is held for it"));
            }
        }
        for vendor in &self.vendors {
            for uid in vendor.held.keys() {
                let finalizer: Text = format!("{}/deletion-protection", vendor.name).into();
                if !self.claim_of(uid).is_some_and(|claim| claim.finalizers.contains(&finalizer)) {
                    return Some(format!("devices are held for {uid}, which has no finalizer"));
                }
            }
        }
        for pod in self.server.pods.values().filter(|pod| pod.node.is_some()) {
            let claims = self.server.claims_of(pod);
            if claims.len() != pod.claim_keys().len()
                || claims.iter().any(|one| !one.is_reserved_for(&pod.uid))
            {
                return Some(format!("{} runs without a claim", pod.key.name));
            }
        }
        None
    }

    /// A pod is about to be bound.
    pub(crate) fn check_binding(&mut self, pod: &Pod) {
        let Some(node) = pod.node.as_ref().and_then(|node| self.server.nodes.get(node)) else { return };
        let mut wrong = None;
        for entry in &pod.claims {
            let claim = entry.claim_name(pod).map(|name| super::world::key(&name));
            let Some(claim) = claim.and_then(|key| self.server.claims.get(&key)) else {
                wrong = Some("a claim is missing");
                continue;
            };
            if claim.status.phase != Phase::Allocated || !claim.is_reserved_for(&pod.uid) {
                wrong = Some("a claim is not allocated and reserved");
            } else if entry.may_use(pod, claim) == ClaimUse::Foreign {
                wrong = Some("a claim belongs to somebody else");
            } else if !claim.is_available_on(node) {
                wrong = Some("a claim is not available there");
            }
        }
        if let Some(wrong) = wrong {
            self.fail(format!("{} is bound, and {wrong}", pod.key.name));
        }
    }

    /// Devices are about to be deallocated.
    pub(crate) fn check_deallocation(&mut self, uid: &Uid) {
        let reserved = self.claim_of(uid).is_some_and(|claim| !claim.status.reserved_for.is_empty());
        if reserved {
            self.fail(format!("{uid} is deallocated while it is reserved"));
        }
        if let Some((node, _)) = self.prepared.iter().find(|(_, prepared)| prepared == uid).cloned() {
            self.fail(format!("{uid} is deallocated while it is prepared on {node}"));
        }
    }

    /// A pod that could run and waits, or a claim that could be allocated immediately and is not. `None`: the world is at rest.
    pub(crate) fn unrest(&self) -> Option<String> {
        let waiting: Vec<&Pod> = self.server.pods.values().filter(|pod| pod.is_unplaced()).collect();
        for pod in &waiting {
            if self.server.claims_of(pod).iter().any(|claim| claim.is_reserved_for(&pod.uid)) {
                return Some(format!("{} waits with a reservation", pod.key.name));
            }
        }
        let gone = |uid: &Uid| !self.server.pods.values().any(|pod| pod.uid == *uid);
        for claim in self.server.claims.values() {
            if claim.status.reserved_for.iter().any(|user| user.is_pod() && gone(&user.uid)) {
                return Some(format!("{} is reserved for a pod that is gone", claim.key.name));
            }
            let immediate = claim.spec.mode == AllocationMode::Immediate;
            if immediate && claim.status.phase == Phase::Pending && !claim.deleting {
                let free = |node: &Text| self.free(&waiting, &claim.spec, node) > 0;
                if self.nodes.iter().any(free) {
                    return Some(format!("{} could be allocated immediately", claim.key.name));
                }
            }
        }
        let runnable = waiting.iter().find(|pod| self.can_run(&waiting, pod))?;
        Some(format!("{} could run", runnable.key.name))
    }

    /// Devices for a claim on a node that are free, or that pods which wait will give up.
    fn free(&self, waiting: &[&Pod], spec: &ClaimSpec, node: &Text) -> usize {
        let Some(class) = self.server.classes.get(&spec.class_name) else { return 0 };
        let Some(vendor) = self.vendors.iter().find(|vendor| vendor.name == class.driver_name) else {
            return 0;
        };
        let is_given_up = |uid: &Uid| {
            self.claim_of(uid).is_some_and(|claim| {
                claim.spec.mode == AllocationMode::Delayed
                    && claim.status.reserved_for.is_empty()
                    && waiting.iter().any(|pod| pod.claim_keys().contains(&claim.key))
            })
        };
        let used =
            vendor.held.iter().filter(|(uid, held)| (vendor.fabric || *held == node) && !is_given_up(uid));
        vendor.devices.saturating_sub(used.count())
    }

    fn can_run(&self, waiting: &[&Pod], pod: &Pod) -> bool {
        let mut claims: BTreeMap<ObjectKey, (Option<&ResourceClaim>, ClaimSpec)> = BTreeMap::new();
        for entry in &pod.claims {
            let Some(name) = entry.claim_name(pod) else { return false };
            let key = super::world::key(&name);
            let claim = self.server.claims.get(&key);
            let spec = match (&entry.source, claim) {
                (_, Some(claim)) => {
                    if entry.may_use(pod, claim) == ClaimUse::Foreign || claim.deleting {
                        return false;
                    }
                    (*claim.spec).clone()
                }
                (Some(PodClaimSource::Template(template)), None) => (*template.spec).clone(),
                _ => return false,
            };
            claims.insert(key, (claim, spec));
        }
        let nodes = self.permitted.get(&pod.uid).cloned().flatten().unwrap_or_default();
        nodes.iter().any(|node| self.can_run_on(waiting, &claims, node))
    }

    fn can_run_on(
        &self,
        waiting: &[&Pod],
        claims: &BTreeMap<ObjectKey, (Option<&ResourceClaim>, ClaimSpec)>,
        name: &Text,
    ) -> bool {
        let Some(node) = self.server.nodes.get(name) else { return false };
        let mut needs: BTreeMap<Text, (usize, usize)> = BTreeMap::new();
        for (claim, spec) in claims.values() {
            let immediate = spec.mode == AllocationMode::Immediate;
            let allocated = claim.filter(|claim| claim.status.phase == Phase::Allocated);
            match allocated {
                Some(claim) if !claim.has_room() => return false,
                Some(claim) if immediate || !claim.status.reserved_for.is_empty() => {
                    if !claim.is_available_on(node) {
                        return false;
                    }
                }
                None if immediate => return false,
                Some(_) | None => {
                    let Some(class) = self.server.classes.get(&spec.class_name) else { return false };
                    let free = self.free(waiting, spec, name);
                    let need = needs.entry(class.driver_name.clone()).or_insert((0, free));
                    need.0 += 1;
                }
            }
        }
        needs.values().all(|(need, free)| need <= free)
    }
}
