//! One pod: a node and devices for it, or why not.

use alloc::{collections::BTreeSet, string::ToString, sync::Arc, vec::Vec};

use lazaret_allocator::{Found, NodeSearch};
use lazaret_model::{Allocation, NodeSelector, ResourceClaim, Text};

use crate::{
    Claim, Pod, claims,
    desk::Entry,
    effect::{EffectKind, EventKind, SetPodCondition},
    filter::Filter,
    flight::{Flight, Phase},
    machine::Scheduler,
    neighbours::{Neighbours, Surroundings},
    nodes::NodeState,
    outbox::Purpose,
    ready::{Readiness, readiness},
    score,
    search::{self, Search},
    share::ShareIds,
    why::{ClaimProblem, Refusal, Verdict, Why},
};

/// At least so many nodes are compared, if there are so many.
const SAMPLE_MIN: usize = 100;
/// At least so many in a hundred, unless told otherwise.
const SAMPLE_PERCENT_MIN: usize = 5;
/// A claim that is expected to be made any moment is waited for so long before anything is said about it.
const CLAIM_PATIENCE_MS: i64 = 3_000;

/// Where a pod goes and what it gets.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) node: Text,
    /// Its claims, each with the devices it is to get if it has none.
    pub(crate) claims: Vec<(Arc<Claim>, Option<Allocation>)>,
}

/// A pod's claims, as far as they concern where it can go.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    pub(crate) claims: Vec<Arc<Claim>>,
    /// What claims have already, by claim.
    pub(crate) allocations: Vec<Option<Arc<Allocation>>>,
}

impl Needs {
    /// The claims that have nothing yet.
    fn open(&self) -> Vec<Arc<ResourceClaim>> {
        let claims = self.claims.iter().zip(&self.allocations);
        claims.filter(|(_, given)| given.is_none()).map(|(claim, _)| claim.claim.clone()).collect()
    }

    /// Where the others can be used.
    fn usable(&self) -> Vec<&NodeSelector> {
        self.allocations.iter().flatten().filter_map(|given| given.node_selector.as_ref()).collect()
    }
}

impl Scheduler {
    /// Decides on a pod that the queue gave out.
    pub(crate) fn decide(&mut self, ix: u32) {
        let Some(pod) = self.pods.get(ix).map(|entry| entry.pod.clone()) else {
            return self.queue.leave(ix);
        };
        self.decisions += 1;
        match self.find_place(ix, &pod) {
            Ok(placement) => self.take_off(ix, &pod, placement),
            Err(verdict) => self.give_up(ix, verdict),
        }
    }

    fn find_place(&mut self, ix: u32, pod: &Pod) -> Result<Placement, Verdict> {
        let needs = self.needs(pod).map_err(Verdict::Claims)?;
        let open = needs.open();
        let snapshot = if open.is_empty() { self.counted.clone() } else { self.count_devices() };
        let needs_device = search::needs_device_of_node(&open, &snapshot);
        let around = Surroundings { nodes: &self.nodes, namespaces: &self.namespaces, without: &[] };
        let neighbours = Neighbours::of(pod, around);
        let usable = needs.usable();
        let filter =
            Filter { pod, pod_ix: ix, delegated: &self.delegated, neighbours: &neighbours, usable: &usable };
        let mut search = Search::new(&self.nodes, self.start, self.quota(), needs_device, &filter);
        let chosen = loop {
            let batch = search.next_batch(&filter);
            if batch.is_empty() {
                break None;
            }
            let states: Vec<&NodeState> = batch.iter().filter_map(|&node| self.nodes.get(node)).collect();
            let ranked = rank(pod, around, &states, self.options.packing, !open.is_empty());
            if open.is_empty() {
                break ranked.first().map(|&at| (batch[at], Vec::new()));
            }
            let facts: Vec<_> = ranked
                .iter()
                .filter_map(|&at| states[at].node.as_ref().map(|node| node.facts.clone()))
                .collect();
            let options = lazaret_allocator::Options {
                prefer_healthy: self.options.prefer_healthy,
                ..lazaret_allocator::Options::default()
            };
            let request = NodeSearch {
                snapshot: &snapshot,
                nodes: &facts,
                claims: &open,
                in_flight: &self.overlay,
                options: &options,
            };
            let mut ids = ShareIds::new(&pod.uid, self.now, self.decisions);
            match self.allocator.find_node(&request, &mut || ids.next()) {
                Found::Node { index, allocations } => break Some((batch[ranked[index]], allocations)),
                Found::Nowhere(groups) => search.without_devices(groups),
                Found::Failed(error) => return Err(Verdict::Failed(error.to_string())),
            }
        };
        let (visited, nowhere) = (search.visited(), search.nowhere);
        let count = self.nodes.order().len().max(1);
        self.start = (self.start + visited) % count;
        let Some((node, allocations)) = chosen else { return Err(Verdict::Nowhere(nowhere)) };
        let node = self.nodes.get(node).map(|state| state.name.clone()).unwrap_or_default();
        Ok(Placement { node, claims: pair(needs, allocations) })
    }

    /// The pod's claims, if they let it be placed anywhere.
    fn needs(&mut self, pod: &Pod) -> Result<Needs, ClaimProblem> {
        if pod.claims.is_empty() {
            return Ok(Needs::default());
        }
        let claims = claims::resolve(&self.book, pod)?;
        let mut allocations = Vec::with_capacity(claims.len());
        for claim in &claims {
            let key = &claim.claim.key;
            let entry = self.desk.get(key).filter(|entry| entry.uid == claim.claim.uid);
            if entry.is_some_and(Entry::frees) {
                return Err(ClaimProblem::BeingFreed(key.clone()));
            }
            claims::check_room(claim, pod, entry.map_or(0, Entry::coming))?;
            let given = self.allocation_of(claim);
            match &given {
                Some(allocation) => {
                    claims::check_taints(&self.fleet, key, allocation)?;
                    let ready = readiness(claim, allocation, self.now, self.options.binding_timeout_s);
                    if let Readiness::Failed(message) = ready {
                        return Err(ClaimProblem::NotReady { claim: key.clone(), message: message.into() });
                    }
                }
                None => claims::check_classes(claim, &self.fleet.snapshot())?,
            }
            allocations.push(given);
        }
        Ok(Needs { claims, allocations })
    }

    /// Of how many nodes that would do the best is taken.
    fn quota(&self) -> usize {
        let nodes = self.nodes.order().len();
        let percent = match self.options.sample_percent {
            0 => 50usize.saturating_sub(nodes / 125).max(SAMPLE_PERCENT_MIN),
            percent => percent as usize,
        };
        (nodes * percent / 100).max(SAMPLE_MIN).min(nodes)
    }

    /// Everything counts as done from now on; the writes follow.
    pub(crate) fn take_off(&mut self, ix: u32, pod: &Arc<Pod>, placement: Placement) {
        let on = self.nodes.place(&placement.node, ix, pod);
        self.set_on(ix, Some(on));
        self.set_nominated(ix, None);
        let keys: Vec<_> = placement.claims.iter().map(|(claim, _)| claim.claim.key.clone()).collect();
        let mut reserving = BTreeSet::new();
        for (claim, allocation) in placement.claims {
            if self.want_claim(ix, pod, &claim, allocation) {
                reserving.insert(claim.claim.key.clone());
            }
        }
        let flight = Flight { claims: keys, reserving: reserving.clone(), phase: Phase::Reserving, tries: 0 };
        self.flights.insert(ix, flight);
        reserving.iter().for_each(|key| self.write_claim(key));
        self.proceed(ix);
    }

    fn give_up(&mut self, ix: u32, verdict: Verdict) {
        self.free_what_hinders(ix, &verdict);
        let expected = matches!(verdict, Verdict::Claims(ClaimProblem::NotMade { .. }));
        let why = Arc::new(Why::of(verdict));
        match why.verdict {
            // Hardly is a pod there, its claims follow: nothing worth telling, unless it lasts.
            Verdict::Claims(_) if expected && self.queue.attempts(ix) <= 1 => {
                if let Some(entry) = self.pods.get_mut(ix) {
                    entry.why = Some(why.clone());
                }
                return self.queue.postpone(self.now, ix, why.causes(), CLAIM_PATIENCE_MS);
            }
            Verdict::Failed(_) => self.queue.back_off(self.now, ix),
            Verdict::Claims(_) | Verdict::Nowhere(_) | Verdict::Gated(_) => {
                self.queue.park(self.now, ix, why.causes());
            }
        }
        self.report(ix, why, None);
    }

    /// A claim of the pod that nobody else uses may hold devices with which the pod can go nowhere: they are given
    /// back, one claim at a time, and the pod is tried again when that is seen.
    fn free_what_hinders(&mut self, ix: u32, verdict: &Verdict) {
        let Some(pod) = self.pods.get(ix).map(|entry| entry.pod.clone()) else { return };
        let Ok(claims) = claims::resolve(&self.book, &pod) else { return };
        let hinders = |claim: &Claim| match verdict {
            Verdict::Claims(problem) => problem.would_do_with_others() == Some(&claim.claim.key),
            Verdict::Nowhere(nowhere) => {
                let bound =
                    claim.claim.allocation.as_ref().is_some_and(|given| given.node_selector.is_some());
                bound && nowhere.refusals.contains_key(&Refusal::ClaimElsewhere)
            }
            Verdict::Gated(_) | Verdict::Failed(_) => false,
        };
        let hindering: Vec<&Arc<Claim>> = claims
            .iter()
            .filter(|claim| claim.claim.allocation.is_some() && claims::is_free_but_for(claim, &pod))
            .filter(|claim| hinders(claim))
            .collect();
        if !hindering.is_empty() {
            let turn = self.queue.attempts(ix) as usize % hindering.len();
            self.give_back(hindering[turn]);
        }
    }

    /// Remembers why a pod was not placed, and says so where people look, unless it says so already.
    pub(crate) fn report(&mut self, ix: u32, why: Arc<Why>, nominated: Option<Text>) {
        let Some(entry) = self.pods.get_mut(ix) else { return };
        let (pod, message, reason) = (entry.pod.clone(), why.message(), why.reason());
        let told =
            entry.why.replace(why).is_some_and(|old| old.message() == message && old.reason() == reason);
        let written = pod.unscheduled.as_ref().is_some_and(|c| c.message == *message && c.reason == *reason);
        if nominated.is_none() && (told || written) {
            return;
        }
        self.tell(&pod, EventKind::FailedScheduling, &message);
        let condition = SetPodCondition {
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            reason,
            message: message.into(),
            at: self.now,
            nominated,
        };
        self.outbox.push(EffectKind::SetPodCondition(condition), Purpose::Condition(ix));
    }
}

/// Gives each open claim its allocation, in order.
fn pair(needs: Needs, allocations: Vec<Allocation>) -> Vec<(Arc<Claim>, Option<Allocation>)> {
    let mut allocations = allocations.into_iter();
    let claims = needs.claims.into_iter().zip(needs.allocations);
    claims.map(|(claim, given)| (claim, if given.is_some() { None } else { allocations.next() })).collect()
}

/// The places of nodes, best first; among equals the first. All of them, or the best alone.
fn rank(
    pod: &Pod,
    around: Surroundings<'_>,
    states: &[&NodeState],
    packing: crate::Packing,
    all: bool,
) -> Vec<usize> {
    let scores = score::scores(pod, around, states, packing);
    if all {
        let mut order: Vec<usize> = (0..states.len()).collect();
        order.sort_by_key(|&at| core::cmp::Reverse(scores[at]));
        return order;
    }
    (0..states.len()).max_by_key(|&at| (scores[at], core::cmp::Reverse(at))).into_iter().collect()
}
