//! The claims that kubelets have prepared, and the invariants about them: a device is prepared for one claim at a time, and unprepared before it is
//! given back.

use std::{collections::BTreeSet, sync::Arc};

use lazaret_model::{DeviceId, ObjectKey, Pod, ResourceClaim, Text, Uid};

use crate::{api::claim_name, coverage::Mark, palette, world::World};

/// Claims that a person answers for: of these nothing is demanded.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnsweredFor {
    /// A person removed the claim or its allocation.
    claims: BTreeSet<Uid>,
    /// They were prepared on a Node that was deleted.
    nodes: BTreeSet<Uid>,
}

impl AnsweredFor {
    fn contains(&self, claim: &Uid) -> bool {
        self.claims.contains(claim) || self.nodes.contains(claim)
    }

    /// Whether a claim was prepared on a Node that was deleted.
    pub(crate) fn of_nodes(&self, claim: &Uid) -> bool {
        self.nodes.contains(claim)
    }
}

impl World {
    /// Whether a kubelet has prepared a claim.
    pub(crate) fn has_prepared(&self, node: &Text, claim: &Uid) -> bool {
        let core = &self.kubelets.core;
        core.number(node).is_some_and(|node| core.has_prepared(node, claim))
    }

    /// Whether devices of a claim are prepared for it.
    pub(crate) fn is_prepared(&self, claim: &ResourceClaim) -> bool {
        whole(claim).any(|device| self.has_prepared(&device.pool, &claim.uid))
    }

    /// Whether any node has prepared a claim: one that was allocated anew after its allocation was removed by hand may be prepared where it was.
    pub(crate) fn is_prepared_anywhere(&self, claim: &Uid) -> bool {
        let core = &self.kubelets.core;
        (0..self.config.nodes as usize).any(|node| core.has_prepared(node, claim))
    }

    fn claims_named_by(&self, pod: &Pod) -> Vec<Arc<ResourceClaim>> {
        let named =
            pod.claims.iter().filter_map(|entry| claim_name(&entry.source)).chain(&pod.extended_claim);
        let keys = named.map(|name| ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() });
        keys.filter_map(|key| self.api.claims.get(&key).map(|stored| stored.object.clone())).collect()
    }

    /// A kubelet hears of a pod that is to start: no device that it was given is prepared for another claim. It would not prepare it, but nobody should
    /// have asked.
    pub(super) fn check_devices_are_free(&mut self, pod: &Pod) {
        let is_new = pod.phase == lazaret_model::PodPhase::Pending && pod.deleting_since.is_none();
        if let Some(node) =
            pod.node.as_ref().filter(|_| is_new).and_then(|node| self.kubelets.core.number(node))
        {
            self.check_prepared_once(node, pod);
        }
    }

    /// The devices of a pod are prepared for its claims, or for none.
    pub(super) fn check_prepared_once(&mut self, node: usize, pod: &Pod) {
        let is_heard = pod.node.as_ref().is_some_and(|name| self.node_reports(name));
        for claim in self.claims_named_by(pod) {
            let others = self.kubelets.core.prepared_on(node).filter(|_| is_heard);
            let others =
                others.filter(|(holder, _)| **holder != claim.uid && !self.answered_for.contains(holder));
            let twice = others.into_iter().find_map(|(holder, devices)| {
                let device = whole(&claim).find(|device| devices.contains(device))?;
                Some(format!(
                    "{device} is prepared for {holder}, and is given to {} of {}",
                    claim.key, pod.key
                ))
            });
            if let Some(detail) = twice {
                self.violate("a device is prepared for one claim at a time", detail);
            }
        }
    }

    /// A person removed the allocation of a claim and answers for it.
    pub(crate) fn answer_for(&mut self, claim: Uid) {
        self.answered_for.claims.insert(claim);
    }

    /// A Node was deleted, or is there and says nothing: whoever is to blame for that answers for what is prepared on it.
    pub(super) fn answer_for_all_on(&mut self, name: &Text) {
        let Some(node) = self.kubelets.core.number(name) else { return };
        let prepared = self.kubelets.core.prepared_on(node).map(|(claim, _)| claim.clone());
        self.answered_for.nodes.extend(prepared);
    }

    /// Whether a person answers for what is prepared for a claim: its allocation was removed by hand, or the Node was deleted.
    fn is_answered_for(&self, claim: &ResourceClaim) -> bool {
        self.answered_for.contains(&claim.uid) || !whole(claim).all(|one| self.node_reports(&one.pool))
    }

    /// The claim controller takes devices back: no pod uses them any more.
    pub(crate) fn check_given_back(&mut self, claim: &ResourceClaim) {
        if self.is_prepared(claim) && !self.is_answered_for(claim) {
            let detail = format!("{} is given back, and its devices are prepared", claim.key);
            self.violate("devices are unprepared before they are given back", detail);
        }
    }

    /// Whether a person took a claim of this pod from others, which have it prepared: their node is waited for if one of them was lost.
    fn was_taken_from_others(&self, pod: &Pod) -> bool {
        self.claims_named_by(pod)
            .iter()
            .any(|claim| self.answered_for.contains(&claim.uid) && self.is_prepared_anywhere(&claim.uid))
    }

    /// A user removes a pod without waiting for its kubelet, which finds out later.
    pub(crate) fn remove_by_force(&mut self, pod: &Pod) {
        self.coverage.hit(Mark::Forced);
        self.api.remove_pod(self.now, &pod.key);
    }

    /// Every node renews its lease, every deleted pod is gone, and every pod runs that has what it claims.
    pub(crate) fn check_kubelets_at_rest(&mut self) {
        let mut complaints = Vec::new();
        for node in (0..self.config.nodes).filter(|node| !self.kubelets.off.contains(&palette::node(*node))) {
            let node = node as usize;
            let renewed = self.kubelets.renewed.get(&node).copied().unwrap_or(0);
            // A process that has just started renews all leases within an interval.
            if self.now - renewed.max(self.kubelets.started_at) > LEASE_MS {
                complaints.push(("nodes renew their leases", format!("node {node} renewed at {renewed}")));
            }
        }
        for pod in self.api.pods.iter().map(|stored| stored.object) {
            let Some(node) = &pod.node else { continue };
            if pod.deleting_since.is_some() {
                complaints.push(("a deleted pod goes", pod.key.to_string()));
            }
            let is_due = pod.phase == lazaret_model::PodPhase::Pending && self.has_its_claims(pod);
            if is_due && !self.was_taken_from_others(pod) {
                complaints.push(("a pod that has its claims runs", format!("{} on {node}", pod.key)));
            }
        }
        for (invariant, detail) in complaints {
            self.violate(invariant, detail);
        }
    }

    /// Whether the claims of a pod are allocated and reserved for it, and their devices prepared for none other.
    fn has_its_claims(&self, pod: &Pod) -> bool {
        let claims = self.claims_named_by(pod);
        let of_others = |claim: &ResourceClaim| {
            whole(claim).any(|device| {
                let node = self.kubelets.core.number(&device.pool);
                let mut prepared = node.into_iter().flat_map(|node| self.kubelets.core.prepared_on(node));
                prepared.any(|(holder, devices)| *holder != claim.uid && devices.contains(device))
            })
        };
        claims.len() == pod.claims.len() + usize::from(pod.extended_claim.is_some())
            && claims.iter().all(|claim| {
                let is_user = |uid: &Uid| *uid == pod.uid || pod.group.is_some();
                claim.reserved_for.iter().any(|user| is_user(&user.uid))
                    && claim.allocation.is_some()
                    && !of_others(claim)
            })
    }
}

/// A node that has not renewed its lease for this time counts as lost.
const LEASE_MS: u64 = 40_000;

fn whole(claim: &ResourceClaim) -> impl Iterator<Item = &DeviceId> {
    let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
    results.filter(|result| result.share_id.is_none()).map(|result| &result.device)
}
