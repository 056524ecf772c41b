//! Going through the nodes for a pod.

use alloc::{collections::BTreeSet, sync::Arc, vec::Vec};

use lazaret_allocator::NodeGroup;
use lazaret_fleet::Snapshot;
use lazaret_invariant::invariant;
use lazaret_model::{ClaimSpec, RequestKind, ResourceClaim, Text};

use crate::{
    filter::{Filter, Tally},
    node_rules,
    nodes::Nodes,
    why::{NoFittingNode, Refusal, Verdict},
};

/// Why a node without a free device is passed over.
const NO_FREE_DEVICE: &str = "no device of the node is free";

/// Why a node is passed over about which no turn can decide.
const OVER_BUDGET: &str = "the search was ended by its budget";

/// The number of nodes compared at least, if there are as many.
const SAMPLE_MIN: usize = 100;
/// The percentage of nodes compared at least, unless set otherwise, up to `SAMPLE_MAX` nodes.
const SAMPLE_PERCENT_MIN: usize = 5;
// DEVIATION(sample-limit): Kubernetes compares a twentieth of the nodes, however many that is.
const SAMPLE_MAX: usize = 500;
/// The number of nodes compared, out of `nodes`; `percent`: as set, or 0.
pub(crate) fn sample(nodes: usize, percent: usize) -> usize {
    let many = match percent {
        0 => {
            let percent = 50usize.saturating_sub(nodes / 125).max(SAMPLE_PERCENT_MIN);
            (nodes * percent / 100).min(SAMPLE_MAX)
        }
        percent => nodes * percent / 100,
    };
    many.max(SAMPLE_MIN).min(nodes)
}

/// A search that goes on later.
#[derive(Debug, Default)]
pub(crate) struct SavedSearch {
    start: usize,
    at: usize,
    /// Nodes that were passed already, and must be tried yet.
    left: Vec<u32>,
    nowhere: NoFittingNode,
}

impl SavedSearch {
    /// How many nodes were tried.
    pub(crate) fn tried(&self) -> usize {
        self.at.saturating_sub(self.left.len())
    }

    /// Where it began.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// The next node cannot be decided about within the budget.
    pub(crate) fn pass_over(&mut self) {
        if !self.left.is_empty() {
            self.left.remove(0);
            let group = NodeGroup {
                nodes: 1,
                example: Text::default(),
                reason: OVER_BUDGET.into(),
                exhausted: true,
                invalid_pools: false,
            };
            add_groups(&mut self.nowhere, [group].into());
        }
    }
}

/// Goes through the nodes, beginning where the last search ended.
pub(crate) struct Search<'a> {
    nodes: &'a Nodes,
    candidates: Candidates<'a>,
    at: usize,
    quota: usize,
    pub(crate) nowhere: NoFittingNode,
    /// Nodes without a free device of their own do not come into question.
    needs_device: bool,
    /// Nodes that no claim of the pod can be used on are neither looked at nor counted yet.
    passed_over: bool,
    /// Tried before all others.
    first: Option<u32>,
    /// The last batch was that one alone.
    on_trial: bool,
    start: usize,
    /// Nodes that come before the next ones.
    left: Vec<u32>,
}

/// Which nodes come into question at all.
enum Candidates<'a> {
    /// All, from this place on.
    All { order: &'a [u32], start: usize },
    /// Only these.
    Named(Vec<u32>),
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        nodes: &'a Nodes,
        start: usize,
        quota: usize,
        needs_device: bool,
        filter: &Filter<'_>,
    ) -> Self {
        let order = nodes.order();
        let mut nowhere = NoFittingNode { nodes: order.len(), ..NoFittingNode::default() };
        let affinity = filter.pod.spec.node_affinity.iter().map(|selector| (selector, false));
        let usable = filter.usable.selectors.iter().map(|selector| (*selector, true));
        let named = affinity.chain(usable).find_map(|(selector, of_claim)| {
            let names = node_rules::named_nodes(selector)?;
            Some((nodes.existing(&names), of_claim))
        });
        let (candidates, passed_over) = match named {
            None => (Candidates::All { order, start: start.min(order.len()) }, false),
            Some((named, of_claim)) => {
                let others = order.len() - named.len();
                if others > 0 && !of_claim {
                    nowhere.refusals.insert(Refusal::NotNamed, others);
                }
                (Candidates::Named(named), others > 0 && of_claim)
            }
        };
        Self {
            nodes,
            candidates,
            at: 0,
            quota,
            nowhere,
            needs_device,
            passed_over,
            first: None,
            on_trial: false,
            start,
            left: Vec::new(),
        }
    }

    /// Goes on where it stopped.
    pub(crate) fn resume(&mut self, saved: SavedSearch) {
        (self.at, self.left, self.nowhere) = (saved.at, saved.left, saved.nowhere);
    }

    /// The state to resume the search from, and the verdict until then. Of the last batch, `refused` lack the devices, and `left` were not tried.
    pub(crate) fn stop(
        &mut self,
        refused: Vec<NodeGroup>,
        left: Vec<u32>,
        again_ms: i64,
    ) -> (SavedSearch, Verdict) {
        self.without_devices(refused);
        let nodes = match &self.candidates {
            Candidates::All { order, .. } => order.len(),
            Candidates::Named(named) => named.len(),
        };
        let nowhere = core::mem::take(&mut self.nowhere);
        let saved = SavedSearch { start: self.start, at: self.at, left, nowhere };
        let verdict = Verdict::Unfinished { tried: saved.tried(), nodes, again_ms };
        (saved, verdict)
    }

    /// Only this node comes into question.
    pub(crate) fn restrict(&mut self, node: u32) {
        (self.candidates, self.passed_over) = (Candidates::Named([node].into()), false);
    }

    /// Room was made on this node: it is tried alone, before all others.
    pub(crate) fn try_first(&mut self, node: Option<u32>) {
        self.first = node;
    }

    /// The next suitable nodes, devices aside.
    pub(crate) fn next_batch(&mut self, filter: &Filter<'_>) -> Vec<u32> {
        self.on_trial = false;
        if let Some(first) = self.first.take()
            && self.nodes.get(first).is_some_and(|state| filter.admits(state, &mut Tally::new()))
        {
            self.on_trial = true;
            return [first].into();
        }
        let left = core::mem::take(&mut self.left);
        if !left.is_empty() {
            let admits = |node: &u32| {
                self.nodes.get(*node).is_some_and(|state| filter.admits(state, &mut self.nowhere.refusals))
            };
            let batch: Vec<u32> = left.into_iter().filter(admits).collect();
            if !batch.is_empty() {
                return batch;
            }
        }
        let (mut batch, mut full) = (Vec::new(), None);
        while batch.len() < self.quota {
            let Some(node) = self.candidates.get(self.at) else { break };
            self.at += 1;
            let Some(state) = invariant!(self.nodes.get(node), "the number of a node leads to it") else {
                continue;
            };
            if !filter.admits(state, &mut self.nowhere.refusals) {
                continue;
            }
            if self.needs_device && state.devices_free == 0 {
                full.get_or_insert((0, &state.name)).0 += 1;
                continue;
            }
            batch.push(node);
        }
        if let Some((nodes, example)) = full {
            let (reason, example) = (NO_FREE_DEVICE.into(), example.clone());
            self.without_devices(
                [NodeGroup { nodes, example, reason, exhausted: false, invalid_pools: false }].into(),
            );
        }
        batch
    }

    /// The last batch did not have the devices.
    pub(crate) fn without_devices(&mut self, groups: Vec<NodeGroup>) {
        // The node will be looked at again among the others.
        if self.on_trial {
            return;
        }
        add_groups(&mut self.nowhere, groups);
    }

    /// Why no node does. Of a node that an allocated claim excludes the first reason counts, as if each node had been looked at.
    pub(crate) fn nowhere(self, filter: &Filter<'_>) -> NoFittingNode {
        let Self { nodes, candidates, passed_over, mut nowhere, .. } = self;
        nowhere.claim_elsewhere = passed_over || nowhere.refusals.contains_key(&Refusal::ClaimElsewhere);
        if let (true, Candidates::Named(named)) = (passed_over, candidates) {
            let named: BTreeSet<u32> = named.into_iter().collect();
            let others = nodes.order().iter().filter(|node| !named.contains(node));
            for state in others.filter_map(|node| nodes.get(*node)) {
                filter.admits(state, &mut nowhere.refusals);
            }
        }
        nowhere
    }

    pub(crate) fn visited(&self) -> usize {
        match self.candidates {
            Candidates::All { .. } => self.at,
            Candidates::Named(_) => 0,
        }
    }
}

fn add_groups(nowhere: &mut NoFittingNode, groups: Vec<NodeGroup>) {
    for group in groups {
        let refusal = if group.invalid_pools { Refusal::InvalidPools } else { Refusal::Devices };
        *nowhere.refusals.entry(refusal).or_insert(0) += group.nodes;
        match nowhere.devices.iter_mut().find(|known| known.reason == group.reason) {
            Some(known) => known.nodes += group.nodes,
            None => nowhere.devices.push(group),
        }
    }
    nowhere.devices.sort_by_key(|group| core::cmp::Reverse(group.nodes));
}

impl Candidates<'_> {
    fn get(&self, at: usize) -> Option<u32> {
        match self {
            Self::All { order, start } => (at < order.len()).then(|| order[(start + at) % order.len()]),
            Self::Named(named) => named.get(at).copied(),
        }
    }
}

/// Whether some request wants a device to itself or a share of one, and all devices are of nodes: then a node without a
/// free one does not do.
pub(crate) fn needs_device_of_node(claims: &[Arc<ResourceClaim>], snapshot: &Snapshot) -> bool {
    let takes = |spec: &ClaimSpec| {
        spec.requests.iter().any(|request| match &request.kind {
            RequestKind::Exactly(exactly) => exactly.admin_access != Some(true),
            RequestKind::FirstAvailable(_) => true,
            RequestKind::Unknown => false,
        })
    };
    claims.iter().any(|claim| takes(&claim.spec)) && snapshot.shared_pools().next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_in_a_hundred_are_compared_the_more_nodes_there_are_and_never_more_than_five_hundred() {
        for (nodes, compared) in [(50, 50), (300, 144), (5_000, 500), (20_000, 500), (100_000, 500)] {
            assert_eq!(sample(nodes, 0), compared, "{nodes}");
        }
        assert_eq!(sample(100_000, 50), 50_000, "as told");
    }
}
