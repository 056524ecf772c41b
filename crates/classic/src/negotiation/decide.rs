//! What a pod needs next. Reads, changes nothing.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use lazaret_model::{ObjectKey, Text, Timestamp};

use super::{
    effect::Waiting,
    machine::Negotiator,
    slot::{Placing, PodSlot},
};
use crate::model::{AllocationMode, ClaimUse, Phase, Pod, ResourceClaim};

/// What a pod needs next.
pub(super) enum Verdict {
    Wait(Waiting),
    /// Ask the drivers of these claims to allocate them for a node; these nodes are possible.
    Select {
        node: Text,
        nodes: Arc<[Text]>,
        claims: Vec<Arc<ResourceClaim>>,
    },
    Reserve(Vec<Arc<ResourceClaim>>),
    Unreserve(Vec<Arc<ResourceClaim>>),
    Place(Text),
}

impl Negotiator {
    /// The claims of a pod, or what is wrong with one of them.
    pub(super) fn claims_of(&self, pod: &Pod) -> Result<Vec<Arc<ResourceClaim>>, Waiting> {
        let mut claims: Vec<Arc<ResourceClaim>> = Vec::with_capacity(pod.claims.len());
        for entry in &pod.claims {
            let Some(name) = entry.claim_name(pod) else { continue };
            let key = ObjectKey { namespace: pod.key.namespace.clone(), name };
            let Some(claim) = self.objects.claims.get(&key) else { return Err(Waiting::Missing(key)) };
            if entry.may_use(pod, claim) == ClaimUse::Foreign {
                return Err(Waiting::Foreign(key));
            }
            if claim.deleting {
                return Err(Waiting::Deleting(key));
            }
            if !claims.iter().any(|known| known.key == key) {
                claims.push(claim.clone());
            }
        }
        Ok(claims)
    }

    pub(super) fn decide(
        &self,
        now: Timestamp,
        pod: &Pod,
        slot: &PodSlot,
        claims: &[Arc<ResourceClaim>],
    ) -> Verdict {
        let reserved: Vec<Arc<ResourceClaim>> =
            claims.iter().filter(|claim| claim.is_reserved_for(&pod.uid)).cloned().collect();
        // A pod reserves all of its claims or none.
        let is_allocated = |claim: &Arc<ResourceClaim>| claim.status.phase == Phase::Allocated;
        let is_full = |claim: &&Arc<ResourceClaim>| {
            let allocated = claim.status.phase == Phase::Allocated;
            allocated && !claim.is_reserved_for(&pod.uid) && !claim.has_room()
        };
        let full = claims.iter().find(is_full);
        let hopeless = slot.placing == Placing::Failed || full.is_some() || !claims.iter().all(is_allocated);
        if hopeless && !reserved.is_empty() {
            return Verdict::Unreserve(reserved);
        }
        if let Some(claim) = claims.iter().find(|claim| claim.status.phase == Phase::Reallocate) {
            return Verdict::Wait(Waiting::Deallocation(claim.key.clone()));
        }
        if let Some(full) = full {
            return Verdict::Wait(Waiting::Full(full.key.clone()));
        }
        let is_pending = |claim: &&Arc<ResourceClaim>| claim.status.phase == Phase::Pending;
        let immediate = |claim: &&Arc<ResourceClaim>| claim.spec.mode == AllocationMode::Immediate;
        if let Some(claim) = claims.iter().filter(is_pending).find(immediate) {
            return Verdict::Wait(Waiting::Immediate(claim.key.clone()));
        }
        let (nodes, causes) = self.filter(slot.candidates.as_deref().unwrap_or_default(), claims);
        if nodes.is_empty() && !reserved.is_empty() && slot.candidates_told {
            return Verdict::Unreserve(reserved);
        }
        if slot.candidates.is_none() {
            return Verdict::Wait(Waiting::Candidates);
        }
        if nodes.is_empty() {
            return Verdict::Wait(Waiting::NoNode(causes));
        }
        let pending: Vec<_> = claims.iter().filter(is_pending).cloned().collect();
        if !pending.is_empty() {
            return self.select(now, pod, slot, &nodes, pending);
        }
        let missing: Vec<_> =
            claims.iter().filter(|claim| !claim.is_reserved_for(&pod.uid)).cloned().collect();
        if now < slot.setback.until {
            return Verdict::Wait(Waiting::Backoff);
        }
        if missing.is_empty() { Verdict::Place(nodes[0].clone()) } else { Verdict::Reserve(missing) }
    }

    /// The candidates that suit all claims, and the claims that refused one.
    fn filter(&self, candidates: &[Text], claims: &[Arc<ResourceClaim>]) -> (Vec<Text>, Vec<ObjectKey>) {
        let unsuitable: Vec<BTreeSet<&Text>> =
            claims.iter().map(|claim| claim.status.driver.unsuitable_nodes.iter().collect()).collect();
        let mut causes = BTreeSet::new();
        let mut nodes = Vec::with_capacity(candidates.len());
        for name in candidates {
            let Some(node) = self.objects.nodes.get(name) else { continue };
            let mut suits = true;
            for (claim, unsuitable) in claims.iter().zip(&unsuitable) {
                let refused = claim.status.phase == Phase::Pending && unsuitable.contains(name);
                if refused || !claim.is_available_on(node) {
                    causes.insert(&claim.key);
                    suits = false;
                }
            }
            if suits {
                nodes.push(name.clone());
            }
        }
        (nodes, causes.into_iter().cloned().collect())
    }

    fn select(
        &self,
        now: Timestamp,
        pod: &Pod,
        slot: &PodSlot,
        nodes: &[Text],
        pending: Vec<Arc<ResourceClaim>>,
    ) -> Verdict {
        for claim in &pending {
            if self.negotiator_of(&claim.key).is_some_and(|(other, _)| *other != pod.key) {
                return Verdict::Wait(Waiting::OtherPod(claim.key.clone()));
            }
        }
        let selected = |claim: &Arc<ResourceClaim>| claim.status.scheduler.selected_node.clone();
        let current = pending.iter().find_map(selected).filter(|node| nodes.contains(node));
        let node = match current {
            Some(node) if pending.iter().all(|claim| selected(claim).as_ref() == Some(&node)) => {
                return Verdict::Wait(Waiting::Drivers(
                    pending.iter().map(|claim| claim.key.clone()).collect(),
                ));
            }
            Some(node) => Some(node),
            None => nodes.iter().min_by_key(|node| self.reluctance(now, slot, &pending, node)).cloned(),
        };
        let Some(node) = node else { return Verdict::Wait(Waiting::NoNode(Vec::new())) };
        if let Some(other) = self.turn_of_other(pod) {
            return Verdict::Wait(Waiting::Turn(other));
        }
        if now < slot.setback.until {
            return Verdict::Wait(Waiting::Backoff);
        }
        let mut claims = pending;
        claims.retain(|claim| selected(claim).as_ref() != Some(&node));
        Verdict::Select { nodes: self.potential(nodes, &node, slot), node, claims }
    }

    /// The candidates are in order of preference; what speaks against one: refusals for this pod, a refusal of late for another pod that
    /// needs the same class, selections that no driver has answered yet.
    fn reluctance(
        &self,
        now: Timestamp,
        slot: &PodSlot,
        pending: &[Arc<ResourceClaim>],
        node: &Text,
    ) -> (u32, bool, u32) {
        let refused = |claim: &Arc<ResourceClaim>| {
            let key = (claim.spec.class_name.clone(), node.clone());
            self.refused.get(&key).is_some_and(|until| now < *until)
        };
        let refused = !self.refused.is_empty() && pending.iter().any(refused);
        let count = |counts: &BTreeMap<Text, u32>| counts.get(node).copied().unwrap_or(0);
        (count(&slot.refusals), refused, count(&self.selecting))
    }

    /// The nodes that drivers are asked about: if there are too many, the selected one and those that were refused least.
    fn potential(&self, nodes: &[Text], selected: &Text, slot: &PodSlot) -> Arc<[Text]> {
        let most = self.options.potential_nodes_max.max(1);
        if nodes.len() <= most {
            return nodes.into();
        }
        let mut nodes: Vec<&Text> = nodes.iter().collect();
        nodes.sort_by_key(|node| (*node != selected, slot.refusals.get(*node).copied().unwrap_or(0)));
        nodes.into_iter().take(most).cloned().collect()
    }

    /// The pod that negotiates about a claim, if it still waits for a node.
    pub(super) fn negotiator_of(&self, claim: &ObjectKey) -> Option<&(ObjectKey, lazaret_model::Uid)> {
        let negotiator = self.claims.get(claim)?.negotiator.as_ref()?;
        self.pods.get(&negotiator.0).filter(|slot| slot.uid == negotiator.1)?;
        Some(negotiator)
    }
}
