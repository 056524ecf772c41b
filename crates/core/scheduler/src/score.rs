//! Scores of suitable nodes.

use alloc::{vec, vec::Vec};

use lazaret_model::NodeSelector;

use crate::{
    Node, Packing, Pod, node_rules,
    nodes::NodeState,
    pod_affinity::{self, PodLocations},
};

/// The highest score of one rule.
const SCORE_MAX: i64 = 100;
/// Weights as in Kubernetes.
const WEIGHT_TAINTS: i64 = 3;
const WEIGHT_NODE_AFFINITY: i64 = 2;
const WEIGHT_NEIGHBOURS: i64 = 2;
const WEIGHT_SPREAD: i64 = 2;

/// Up to this number of pods, nodes of the same score are distinguished by it.
const EQUALS: i64 = 1_024;

/// For each of the nodes how good it is for the pod; more is better.
pub(crate) fn scores(
    pod: &Pod,
    around: PodLocations<'_>,
    nodes: &[&NodeState],
    packing: Packing,
) -> Vec<i64> {
    let mut totals: Vec<i64> = nodes.iter().map(|state| room(pod, state, packing)).collect();
    let tainted = nodes.iter().any(|state| state.node.as_ref().is_some_and(|node| !node.taints.is_empty()));
    if tainted {
        let count_prefer_no_schedule =
            |node: &Node| as_score(node_rules::count_prefer_no_schedule(&node.taints, &pod.spec.tolerations));
        add(&mut totals, &each(nodes, count_prefer_no_schedule), WEIGHT_TAINTS, true);
    }
    if !pod.spec.preferred_nodes.is_empty() {
        add(&mut totals, &each(nodes, |node| preference(pod, node)), WEIGHT_NODE_AFFINITY, false);
    }
    if let Some(mut marks) = pod_affinity::preferences(pod, around, nodes) {
        // Some may be negative: the worst is nothing.
        let least = marks.iter().copied().min().unwrap_or(0);
        marks.iter_mut().for_each(|mark| *mark -= least);
        add(&mut totals, &marks, WEIGHT_NEIGHBOURS, false);
    }
    if let Some(marks) = pod_affinity::spread_scores(pod, around, nodes) {
        add(&mut totals, &marks, WEIGHT_SPREAD, true);
    }
    for (total, state) in totals.iter_mut().zip(nodes) {
        *total = *total * EQUALS + tie_break(state, packing);
    }
    totals
}

/// Pods that ask for little next to large nodes make no difference in percents; their number does. Kubernetes draws lots.
fn tie_break(state: &NodeState, packing: Packing) -> i64 {
    let pods = as_score(state.pods.len()).min(EQUALS - 1);
    match packing {
        Packing::Spread => EQUALS - 1 - pods,
        Packing::Pack => pods,
    }
}

fn each(nodes: &[&NodeState], mut of: impl FnMut(&Node) -> i64) -> Vec<i64> {
    nodes.iter().map(|state| state.node.as_ref().map_or(0, |node| of(node))).collect()
}

fn as_score(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Adds marks brought to a scale of [`SCORE_MAX`]; `reverse`: the fewer the better.
pub(crate) fn add(totals: &mut [i64], marks: &[i64], weight: i64, reverse: bool) {
    let most = marks.iter().copied().max().unwrap_or(0);
    for (total, mark) in totals.iter_mut().zip(marks) {
        let scaled = if most == 0 { 0 } else { mark.saturating_mul(SCORE_MAX) / most };
        *total += weight * if reverse { SCORE_MAX - scaled } else { scaled };
    }
}

/// How much is left free, or with [`Packing::Pack`] in use, and how evenly of processor and memory.
fn room(pod: &Pod, state: &NodeState, packing: Packing) -> i64 {
    // The node is gone, pods on it are not.
    let Some(node) = &state.node else { return 0 };
    let (wanted, used) = (&pod.spec.weighed, &state.weighed);
    let there = &node.allocatable;
    let cpu = (used.cpu_milli.saturating_add(wanted.cpu_milli), there.cpu_milli);
    let memory = (used.memory.saturating_add(wanted.memory), there.memory);
    let share = |(used, there): (i64, i64)| -> i64 {
        if there <= 0 {
            return 0;
        }
        let used = used.clamp(0, there);
        let left = match packing {
            Packing::Spread => there - used,
            Packing::Pack => used,
        };
        // Memory in bytes times a hundred stays below 2^63 up to 80 petabytes.
        left.saturating_mul(SCORE_MAX) / there
    };
    let balance = |(used, there): (i64, i64)| -> i64 {
        if there <= 0 { 0 } else { used.clamp(0, there).saturating_mul(SCORE_MAX) / there }
    };
    let uneven = (balance(cpu) - balance(memory)).abs() / 2;
    i64::midpoint(share(cpu), share(memory)) + SCORE_MAX - uneven
}

fn preference(pod: &Pod, node: &Node) -> i64 {
    let preferred = pod.spec.preferred_nodes.iter().filter(|(_, term)| {
        // A term without requirements is no preference.
        let selector = NodeSelector { terms: vec![term.clone()] };
        selector.matches(&node.facts).unwrap_or(false)
    });
    preferred.map(|(weight, _)| *weight).sum()
}
