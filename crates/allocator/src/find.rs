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
    alike::Alike,
    error::{AllocateError, Reach},
    plan::Plan,
};

/// What to look for, and on which nodes.
#[derive(Clone, Copy, Debug)]
pub struct NodeSearch<'a> {
    /// The fleet.
    pub snapshot: &'a Arc<Snapshot>,
    /// The nodes, in the order in which they are tried.
    pub nodes: &'a [Arc<Node>],
    /// The claims of one pod that have nothing yet.
    pub claims: &'a [Arc<ResourceClaim>],
    /// What was decided but is not in the snapshot.
    pub in_flight: &'a Overlay,
    /// How to search each node.
    pub options: &'a Options,
}

/// What came of it.
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
}

impl Allocator {
    /// The first of the nodes on which all claims can be had. Nodes of the snapshot itself (the very same `Arc`s)
    /// are passed over at little cost when they are full.
    pub fn find_node(&mut self, search: &NodeSearch<'_>, share_id: &mut dyn FnMut() -> Text) -> Found {
        self.expressions.observe(search.snapshot);
        self.roster.observe(search.snapshot);
        let NodeSearch { snapshot, nodes, claims, in_flight, options } = *search;
        let plan = match Plan::new(snapshot, claims, &self.features, &mut self.expressions) {
            Ok(plan) => plan,
            Err(error) => return Found::Failed(error),
        };
        let needs_free = plan.needs_a_free_device() && snapshot.shared_pools().next().is_none();
        let (mut refused, mut alike, mut full) = (Refused::default(), Alike::default(), None);
        for (index, node) in nodes.iter().enumerate() {
            if needs_free && self.roster.is_full(node) {
                full.get_or_insert((0, node)).0 += 1;
                continue;
            }
            let request = Request { snapshot, node, claims, in_flight, options };
            match self.attempt(&plan, &request, &mut Some(&mut alike), share_id) {
                Ok(Answer::Allocated(allocations)) => return Found::Node { index, allocations },
                Ok(Answer::DoesNotFit(why)) => refused.add(&node.name, why.to_string(), false),
                Ok(Answer::BudgetExhausted(why)) => refused.add(&node.name, why.to_string(), true),
                Err(error) | Ok(Answer::Failed(error)) => match error.reach {
                    Reach::Fatal => return Found::Failed(error),
                    Reach::Node => refused.add(&node.name, error.to_string(), false),
                },
            }
        }
        if let Some((count, node)) = full {
            refused.0.insert((FULL.to_string(), false), (count, node.name.clone()));
        }
        Found::Nowhere(refused.groups())
    }
}

/// Why a node without a free device is passed over.
const FULL: &str = "every device of the node is in use";

/// Refusals by reason.
#[derive(Default)]
struct Refused(BTreeMap<(String, bool), (usize, Text)>);

impl Refused {
    fn add(&mut self, node: &Text, reason: String, exhausted: bool) {
        self.0.entry((reason, exhausted)).or_insert_with(|| (0, node.clone())).0 += 1;
    }

    fn groups(self) -> Vec<NodeGroup> {
        let group = |((reason, exhausted), (nodes, example))| NodeGroup { nodes, example, reason, exhausted };
        let mut groups: Vec<NodeGroup> = self.0.into_iter().map(group).collect();
        groups.sort_by_key(|group| core::cmp::Reverse(group.nodes));
        groups
    }
}
