//! Whether a pod may go to a node, devices aside.

use alloc::{collections::BTreeMap, vec::Vec};

use lazaret_allocator::OPTIONAL_NODE_OPERATIONS;
use lazaret_model::{Allocation, Effect, NodeSelector, Taint};

use crate::{
    Amounts, Node, Pod,
    extended::ClassesByResource,
    node_rules::{matches_affinity, tolerates_any, untolerated},
    nodes::NodeState,
    pod_affinity::AffinityCounts,
    why::Refusal,
};

/// The taint that goes with a cordoned node.
const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";
/// How many nodes were refused for what.
pub(crate) type Tally = BTreeMap<Refusal, usize>;

/// A pod, and what was found out about it before nodes are looked at.
#[derive(Debug)]
pub(crate) struct Filter<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) pod_ix: u32,
    pub(crate) delegated: &'a ClassesByResource,
    pub(crate) pod_affinity: &'a AffinityCounts,
    pub(crate) usable: &'a Usable<'a>,
    /// The amounts that its allocated claims take of its node beside its requests.
    pub(crate) extra: Option<&'a Amounts>,
}

/// Where the claims that a pod has already can be used.
#[derive(Debug, Default)]
pub(crate) struct Usable<'a> {
    /// On nodes that all of these match.
    pub(crate) selectors: Vec<&'a NodeSelector>,
    /// Only on nodes that can do without preparing some of the devices.
    pub(crate) skips_node_operations: bool,
}

impl<'a> Usable<'a> {
    pub(crate) fn of(allocations: impl Iterator<Item = &'a Allocation>) -> Self {
        let mut usable = Self::default();
        for given in allocations {
            usable.selectors.extend(&given.node_selector);
            usable.skips_node_operations |= skips_node_operations(given);
        }
        usable
    }

    fn admit(&self, node: &Node) -> bool {
        let matches = |selector: &&NodeSelector| selector.matches(&node.facts).unwrap_or(false);
        let declared = || node.facts.declared_features.iter().any(|name| **name == *OPTIONAL_NODE_OPERATIONS);
        self.selectors.iter().all(matches) && (!self.skips_node_operations || declared())
    }
}

/// Whether some device of an allocation is not prepared by the node.
pub(crate) fn skips_node_operations(allocation: &Allocation) -> bool {
    allocation.results.iter().any(|result| !result.skip_node_operations.is_empty())
}

impl Filter<'_> {
    /// Whether the pod may go there. If not, the reasons are counted.
    pub(crate) fn admits(&self, state: &NodeState, tally: &mut Tally) -> bool {
        // The node is gone, pods on it are not.
        let Some(node) = &state.node else { return false };
        let refused = self
            .refused_by_node(node)
            .or_else(|| self.has_port_clash(state).then_some(Refusal::Ports))
            .or_else(|| self.refused_for_room(node, state, tally))
            .or_else(|| self.pod_affinity.refusal(node))
            .or_else(|| self.refused_for_claims(node));
        match refused {
            None => true,
            Some(refusal) => {
                count(tally, refusal);
                false
            }
        }
    }

    /// Reasons that lie in the node alone.
    pub(crate) fn refused_by_node(&self, node: &Node) -> Option<Refusal> {
        let spec = &self.pod.spec;
        if node.unschedulable && !tolerates_any(&spec.tolerations, &unschedulable()) {
            return Some(Refusal::Unschedulable);
        }
        if untolerated(&node.taints, &spec.tolerations).is_some() {
            return Some(Refusal::Tainted);
        }
        (!matches_affinity(self.pod, node)).then_some(Refusal::NodeAffinity)
    }

    fn has_port_clash(&self, state: &NodeState) -> bool {
        let wanted = &self.pod.spec.ports;
        !wanted.is_empty()
            && (wanted.iter().any(|port| state.ports.iter().any(|taken| taken.clashes_with(port)))
                || self
                    .nominated_before(state)
                    .flat_map(|pod| &pod.spec.ports)
                    .any(|taken| wanted.iter().any(|port| taken.clashes_with(port))))
    }

    /// Pods for which room is kept on the node, and before which this one has no precedence.
    fn nominated_before<'b>(&self, state: &'b NodeState) -> impl Iterator<Item = &'b Pod> {
        let (priority, own) = (self.pod.spec.priority, self.pod_ix);
        let nominated = state.nominated.iter().filter(move |(ix, _)| *ix != own);
        nominated.map(|(_, pod)| &**pod).filter(move |pod| pod.spec.priority >= priority)
    }

    /// All but the last reason are counted here.
    fn refused_for_room(&self, node: &Node, state: &NodeState, tally: &mut Tally) -> Option<Refusal> {
        let mut short = Vec::new();
        let with_favoured;
        let (used, pods) = if state.nominated.is_empty() {
            (&state.used, state.pods.len())
        } else {
            let mut sum = state.used.clone();
            self.nominated_before(state).for_each(|pod| sum.add(&pod.spec.requests));
            with_favoured = sum;
            (&with_favoured, state.pods.len() + self.nominated_before(state).count())
        };
        if i64::try_from(pods).unwrap_or(i64::MAX) >= node.pods_max {
            short.push(Refusal::TooManyPods);
        }
        let with_extra;
        let wanted = match self.extra {
            None => &self.pod.spec.requests,
            Some(extra) => {
                with_extra = sum(&self.pod.spec.requests, extra);
                &with_extra
            }
        };
        shortages(wanted, used, &node.allocatable, self.delegated, &mut short);
        let last = short.pop();
        short.into_iter().for_each(|refusal| count(tally, refusal));
        last
    }

    fn refused_for_claims(&self, node: &Node) -> Option<Refusal> {
        (!self.usable.admit(node)).then_some(Refusal::ClaimElsewhere)
    }
}

fn sum(one: &Amounts, other: &Amounts) -> Amounts {
    let mut sum = one.clone();
    sum.add(other);
    sum
}

/// The resources that a node lacks for a pod whose claims take `extra` beside its requests.
pub(crate) fn lacks(
    state: &NodeState,
    pod: &Pod,
    extra: &Amounts,
    delegated: &ClassesByResource,
) -> Vec<Refusal> {
    let mut short = Vec::new();
    if let Some(node) = &state.node {
        let wanted = sum(&pod.spec.requests, extra);
        shortages(&wanted, &state.used, &node.allocatable, delegated, &mut short);
    }
    short
}

pub(crate) fn count(tally: &mut Tally, refusal: Refusal) {
    *tally.entry(refusal).or_insert(0) += 1;
}

fn shortages(
    wanted: &Amounts,
    used: &Amounts,
    allocatable: &Amounts,
    delegated: &ClassesByResource,
    short: &mut Vec<Refusal>,
) {
    let mut check = |name: &str, wanted: i64, used: i64, there: i64| {
        if wanted > 0 && wanted > there.saturating_sub(used) {
            short.push(Refusal::Insufficient(name.into()));
        }
    };
    check("cpu", wanted.cpu_milli, used.cpu_milli, allocatable.cpu_milli);
    check("memory", wanted.memory, used.memory, allocatable.memory);
    check(
        "ephemeral-storage",
        wanted.ephemeral_storage,
        used.ephemeral_storage,
        allocatable.ephemeral_storage,
    );
    for (name, amount) in &wanted.others {
        let there = allocatable.other(name);
        if there > 0 || !delegated.contains_key(name) {
            check(name, *amount, used.other(name), there);
        }
    }
}

fn unschedulable() -> Taint {
    Taint { key: UNSCHEDULABLE_TAINT.into(), effect: Effect::NoSchedule, ..Taint::default() }
}
