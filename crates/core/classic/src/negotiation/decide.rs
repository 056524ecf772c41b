//! The next thing that a pod needs. Reads, changes nothing.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use super::{
    effect::Waiting,
    machine::Negotiator,
    slot::{BindingPhase, PodSlot},
};
use crate::model::{AllocationMode, ClaimUse, Phase, Pod, ResourceClaim};

type Claims = Vec<Arc<ResourceClaim>>;
/// Claims, each with the nodes that its driver is asked about.
pub(super) type Questions = Vec<(Arc<ResourceClaim>, Arc<[Text]>)>;

/// The next thing that a pod needs.
pub(super) enum Verdict {
    Wait(Waiting),
    /// Ask the drivers of these claims about these nodes, and wait.
    Ask(Questions, Waiting),
    /// Ask the drivers of these claims to allocate them for a node; these nodes are possible.
    Select(Text, Questions),
    Reserve(Claims),
    Unreserve(Claims),
    Place(Text),
}

/// Candidates of a pod, as far as its claims matter.
struct Filtered {
    /// Nodes that suit every claim.
    suit: Vec<Text>,
    /// Nodes that suit every allocated claim. Drivers are asked about these: an answer about fewer nodes would say nothing about
    /// those that did not suit before, and they would be taken for possible again.
    possible: Vec<Text>,
    /// The claims that some candidate does not suit.
    causes: Vec<ObjectKey>,
}

impl Negotiator {
    /// The claims of a pod, or what is wrong with one of them.
    pub(super) fn claims_of(&self, pod: &Pod) -> Result<Claims, Waiting> {
        let mut claims: Claims = Vec::with_capacity(pod.claims.len());
        for entry in &pod.claims {
            // A source that is none, or two: the API server refuses such pods.
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
        let is_reserved = |claim: &&Arc<ResourceClaim>| claim.is_reserved_for(&pod.uid);
        let is_allocated = |claim: &Arc<ResourceClaim>| claim.status.phase == Phase::Allocated;
        let is_pending = |claim: &&Arc<ResourceClaim>| claim.status.phase == Phase::Pending;
        let reserved: Claims = claims.iter().filter(is_reserved).cloned().collect();
        let full =
            claims.iter().find(|claim| is_allocated(claim) && !is_reserved(claim) && !claim.has_room());
        // A pod reserves all of its claims or none.
        let hopeless = slot.placing == BindingPhase::Failed
            || full.is_some()
            || !claims.iter().all(is_allocated)
            || claims.iter().any(|claim| self.is_unreserving(pod, claim));
        if hopeless && !reserved.is_empty() {
            return Verdict::Unreserve(reserved);
        }
        if let Some(claim) = claims.iter().find(|claim| claim.status.phase == Phase::Reallocate) {
            return Verdict::Wait(Waiting::Deallocation(claim.key.clone()));
        }
        if let Some(full) = full {
            return Verdict::Wait(Waiting::Full(full.key.clone()));
        }
        let immediate = |claim: &&Arc<ResourceClaim>| claim.spec.mode == AllocationMode::Immediate;
        if let Some(claim) = claims.iter().filter(is_pending).find(immediate) {
            return Verdict::Wait(Waiting::Immediate(claim.key.clone()));
        }
        let Some(candidates) = &slot.candidates else {
            return if reserved.is_empty() {
                Verdict::Wait(Waiting::Candidates)
            } else {
                Verdict::Unreserve(reserved)
            };
        };
        let filtered = self.filter(candidates, claims);
        let pending: Claims = claims.iter().filter(is_pending).cloned().collect();
        if filtered.suit.is_empty() {
            if !reserved.is_empty() {
                return Verdict::Unreserve(reserved);
            }
            return self.ask(slot, &filtered, pending);
        }
        if !pending.is_empty() {
            return self.select(now, pod, slot, &filtered, pending);
        }
        if slot.retry.until().is_some_and(|until| now < until) {
            return Verdict::Wait(Waiting::Backoff);
        }
        let missing: Claims = claims.iter().filter(|claim| !is_reserved(claim)).cloned().collect();
        if missing.is_empty() { Verdict::Place(filtered.suit[0].clone()) } else { Verdict::Reserve(missing) }
    }

    /// Whether a removal of the pod's reservation may still arrive.
    fn is_unreserving(&self, pod: &Pod, claim: &ResourceClaim) -> bool {
        let unreserving = self.claims.get(&claim.key).and_then(|slot| slot.unreserving.as_ref());
        unreserving.is_some_and(|(uid, version)| *uid == pod.uid && *version == claim.version)
    }

    fn filter(&self, candidates: &[Text], claims: &[Arc<ResourceClaim>]) -> Filtered {
        let unsuitable: Vec<BTreeSet<&Text>> =
            claims.iter().map(|claim| claim.status.driver.unsuitable_nodes.iter().collect()).collect();
        let mut causes = BTreeSet::new();
        let mut suit = Vec::with_capacity(candidates.len());
        let mut possible = Vec::with_capacity(candidates.len());
        for name in candidates {
            // Candidates may be older than the nodes.
            let Some(node) = self.objects.nodes.get(name) else { continue };
            let (mut suits, mut is_possible) = (true, true);
            for (claim, unsuitable) in claims.iter().zip(&unsuitable) {
                let pending = claim.status.phase == Phase::Pending;
                if (pending && unsuitable.contains(name)) || !claim.is_available_on(node) {
                    causes.insert(&claim.key);
                    suits = false;
                    is_possible &= pending;
                }
            }
            if suits {
                suit.push(name.clone());
            }
            if is_possible {
                possible.push(name.clone());
            }
        }
        Filtered { suit, possible, causes: causes.into_iter().cloned().collect() }
    }

    /// No node suits. Drivers that were not asked about all possible nodes are asked now.
    fn ask(&self, slot: &PodSlot, filtered: &Filtered, pending: Claims) -> Verdict {
        let waiting = Waiting::NoNode(filtered.causes.clone());
        let mut questions = Vec::new();
        for claim in pending {
            let known = &claim.status.scheduler.potential_nodes;
            let nodes = self.potential(&filtered.possible, known, None);
            let is_mine = self.negotiator_of(&claim.key).is_none_or(|(_, uid)| *uid == slot.uid);
            let selected = claim.status.scheduler.selected_node.is_some();
            let known: BTreeSet<&Text> = known.iter().collect();
            if is_mine && !selected && !nodes.iter().all(|node| known.contains(node)) {
                questions.push((claim, nodes));
            }
        }
        if questions.is_empty() { Verdict::Wait(waiting) } else { Verdict::Ask(questions, waiting) }
    }

    fn select(
        &self,
        now: Timestamp,
        pod: &Pod,
        slot: &PodSlot,
        filtered: &Filtered,
        pending: Claims,
    ) -> Verdict {
        for claim in &pending {
            if self.negotiator_of(&claim.key).is_some_and(|(other, _)| *other != pod.key) {
                return Verdict::Wait(Waiting::OtherPod(claim.key.clone()));
            }
        }
        let nodes = &filtered.suit;
        let selected = |claim: &Arc<ResourceClaim>| claim.status.scheduler.selected_node.clone();
        let current = pending.iter().find_map(selected).filter(|node| nodes.contains(node));
        if let Some(node) = &current
            && pending.iter().all(|claim| selected(claim).as_ref() == Some(node))
        {
            let claims = pending.iter().map(|claim| claim.key.clone());
            return Verdict::Wait(Waiting::Drivers(claims.collect()));
        }
        if slot.waits_until(now).is_some() {
            return Verdict::Wait(Waiting::Backoff);
        }
        let node = match current {
            Some(node) => node,
            // In order of preference, but for those that were refused or are selected already for others.
            None => {
                let count =
                    |counts: &BTreeMap<Text, u32>, node: &Text| counts.get(node).copied().unwrap_or(0);
                let reluctance = |node: &&Text| (count(&slot.refusals, node), count(&self.selecting, node));
                let Some(node) = nodes.iter().min_by_key(reluctance) else {
                    return Verdict::Wait(Waiting::NoNode(Vec::new()));
                };
                node.clone()
            }
        };
        let mut claims = pending;
        claims.retain(|claim| selected(claim).as_ref() != Some(&node));
        let question = |claim: Arc<ResourceClaim>| {
            let known = &claim.status.scheduler.potential_nodes;
            let nodes = self.potential(&filtered.possible, known, Some(&node));
            (claim, nodes)
        };
        let questions = claims.into_iter().map(question).collect();
        Verdict::Select(node, questions)
    }

    /// The nodes that a driver is asked about: the selected one, those that it was asked about before and that still exist, for other pods
    /// may need them, then all that are possible, up to the limit.
    fn potential(&self, possible: &[Text], known: &[Text], selected: Option<&Text>) -> Arc<[Text]> {
        let known = known.iter().filter(|node| self.objects.nodes.contains_key(*node));
        let mut seen = BTreeSet::new();
        let nodes = selected.into_iter().chain(known).chain(possible).filter(|node| seen.insert(*node));
        nodes.take(self.options.potential_nodes_max.max(1)).cloned().collect()
    }

    /// The pod that negotiates about a claim, if it still waits for a node.
    pub(super) fn negotiator_of(&self, claim: &ObjectKey) -> Option<&(ObjectKey, Uid)> {
        let negotiator = self.claims.get(claim)?.negotiator.as_ref()?;
        self.pods.get(&negotiator.0).filter(|slot| slot.uid == negotiator.1)?;
        Some(negotiator)
    }
}
