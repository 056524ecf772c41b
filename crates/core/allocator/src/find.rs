//! Many nodes, some claims: where can they be had?

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use lazaret_fleet::Snapshot;
use lazaret_model::{Allocation, Node, ResourceClaim, Text};

use crate::{
    Allocator, Answer, Options, Overlay, Request,
    error::{AllocateError, ErrorKind, ErrorScope},
    failed_nodes::FailedNodes,
    plan::Plan,
};

/// The claims to allocate, and the nodes to try.
#[derive(Clone, Copy, Debug)]
pub struct NodeSearch<'a> {
    /// The fleet.
    pub snapshot: &'a Arc<Snapshot>,
    /// The nodes, in the order in which they are tried.
    pub nodes: &'a [Arc<Node>],
    /// The claims of one pod that have nothing yet.
    pub claims: &'a [Arc<ResourceClaim>],
    /// Allocations that are decided but not yet in the snapshot.
    pub in_flight: &'a Overlay,
    /// How to search each node.
    pub options: &'a Options,
}

/// The outcome of a search over nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// This node has room.
    Node {
        /// Its place among the nodes.
        index: usize,
        /// One allocation for each claim, in order.
        allocations: Vec<Allocation>,
    },
    /// No node has room: the reasons, each with how many nodes it holds for, most first.
    Nowhere(Vec<NodeGroup>),
    /// It could not be found out.
    Failed(AllocateError),
    /// The units that were allowed are spent. The first of the nodes were refused, for these reasons; the others are to be tried when
    /// there are units again.
    Unfinished {
        /// How many.
        tried: usize,
        /// The reasons.
        refused: Vec<NodeGroup>,
    },
}

/// Nodes that were refused for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGroup {
    /// How many.
    pub nodes: usize,
    /// One of them.
    pub example: Text,
    /// Why.
    pub reason: String,
    /// On these nodes the budget ended the search.
    pub exhausted: bool,
    /// These nodes have pools that are invalid.
    pub invalid_pools: bool,
}

impl Allocator {
    /// The first of the nodes on which all claims can be had. Nodes of the snapshot itself (the very same `Arc`s)
    /// are passed over at little cost when they are full.
    pub fn find_node(&mut self, search: &NodeSearch<'_>, share_id: &mut dyn FnMut() -> Text) -> Found {
        self.expressions.observe(search.snapshot);
        self.full_nodes.observe(search.snapshot);
        let NodeSearch { snapshot, nodes, claims, in_flight, options } = *search;
        let plan = match Plan::new(snapshot, claims, &self.features, &mut self.expressions) {
            Ok(plan) => plan,
            Err(error) if error.is_out_of_work() => {
                return Found::Unfinished { tried: 0, refused: Vec::new() };
            }
            Err(error) => return Found::Failed(error),
        };
        let needs_free = plan.needs_a_free_device() && snapshot.shared_pools().next().is_none();
        let (mut refused, mut failed_nodes) = (Refused::default(), FailedNodes::default());
        let (mut full, mut later) = (None, Vec::new());
        let (mut index, mut place) = (0, 0);
        loop {
            if needs_free {
                let count = self.full_nodes.count_full(&nodes[index..], &mut place);
                if count > 0 {
                    full.get_or_insert((0, index)).0 += count;
                }
                index += count;
            }
            // All nodes were tried.
            let Some(node) = nodes.get(index) else { break };
            let request = Request { snapshot, node, claims, in_flight, options };
            let answer = match self.view(&request) {
                // Allocations in flight fill the node: the reason of its refusal matters only if all other nodes are refused.
                Ok(view) if needs_free && view.is_full() => {
                    later.push(index);
                    index += 1;
                    continue;
                }
                Ok(view) => self.attempt(&plan, &request, view, Some(&mut failed_nodes), share_id),
                Err(error) => Err(error),
            };
            if answer.as_ref().is_err_and(AllocateError::is_out_of_work) {
                later.into_iter().for_each(|node| refused.note(RefusalReason::of(FULL), 1, node));
                full.into_iter()
                    .for_each(|(count, first)| refused.note(RefusalReason::of(FULL), count, first));
                return Found::Unfinished { tried: index, refused: refused.groups(nodes) };
            }
            if let Some(found) = refused.unless(index, answer) {
                return found;
            }
            index += 1;
        }
        for index in later {
            let request = Request { snapshot, node: &nodes[index], claims, in_flight, options };
            let view = self.view(&request);
            let answer =
                view.and_then(|v| self.attempt(&plan, &request, v, Some(&mut failed_nodes), share_id));
            if answer.as_ref().is_err_and(AllocateError::is_out_of_work) {
                refused.note(RefusalReason::of(FULL), 1, index);
            } else if let Some(found) = refused.unless(index, answer) {
                return found;
            }
        }
        full.into_iter().for_each(|(count, first)| refused.note(RefusalReason::of(FULL), count, first));
        Found::Nowhere(refused.groups(nodes))
    }
}

/// Why a node without a free device is passed over.
const FULL: &str = "every device of the node is in use";

/// Why nodes are refused.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
struct RefusalReason {
    reason: String,
    exhausted: bool,
    invalid_pools: bool,
}

/// Refusals by reason: of how many nodes, and the first of them.
#[derive(Default)]
struct Refused(BTreeMap<RefusalReason, (usize, usize)>);

impl RefusalReason {
    fn of(reason: &str) -> Self {
        Self { reason: reason.to_string(), ..Self::default() }
    }
}

impl Refused {
    fn note(&mut self, refusal: RefusalReason, count: usize, node: usize) {
        let (nodes, first) = self.0.entry(refusal).or_insert((0, node));
        *nodes += count;
        *first = node.min(*first);
    }

    /// Notes the refusal, unless the answer ends the search over nodes.
    fn unless(&mut self, node: usize, answer: Result<Answer, AllocateError>) -> Option<Found> {
        let refusal = match answer {
            Ok(Answer::Allocated(allocations)) => return Some(Found::Node { index: node, allocations }),
            Ok(Answer::DoesNotFit(why)) => {
                RefusalReason { reason: why.to_string(), ..RefusalReason::default() }
            }
            Ok(Answer::BudgetExhausted(why)) => {
                RefusalReason { reason: why.to_string(), exhausted: true, ..RefusalReason::default() }
            }
            Err(error) | Ok(Answer::Failed(error)) => match error.reach {
                ErrorScope::Fatal => return Some(Found::Failed(error)),
                ErrorScope::Node => RefusalReason {
                    reason: error.to_string(),
                    invalid_pools: matches!(*error.kind, ErrorKind::InvalidPools(_)),
                    ..RefusalReason::default()
                },
            },
        };
        self.note(refusal, 1, node);
        None
    }

    fn groups(self, nodes: &[Arc<Node>]) -> Vec<NodeGroup> {
        let group = |(refusal, (count, first)): (RefusalReason, (usize, usize))| NodeGroup {
            nodes: count,
            example: nodes[first].name.clone(),
            reason: refusal.reason,
            exhausted: refusal.exhausted,
            invalid_pools: refusal.invalid_pools,
        };
        let mut groups: Vec<NodeGroup> = self.0.into_iter().map(group).collect();
        groups.sort_by_key(|group| core::cmp::Reverse(group.nodes));
        groups
    }
}
