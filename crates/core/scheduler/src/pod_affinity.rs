//! Which pods are near which nodes: affinity, anti-affinity, even spreading.
//!
//! Everything is counted once for each attempt, by the values of the labels that say what "near" means; each node is
//! then a few lookups. Pods without such rules, in a cluster without pods that keep others away, cost nothing.

use alloc::{collections::BTreeMap, vec::Vec};

use hashbrown::{HashMap, HashSet};
use lazaret_model::Text;
use rustc_hash::FxBuildHasher;

use crate::{
    LabelSelector, Labels, Node, Pod, PodTerm, Spread,
    anti_affinity::Term,
    node_rules,
    nodes::{NodeState, Nodes},
    why::Refusal,
};

/// By value of a label: how many pods are there, or how much they weigh.
type Counts = HashMap<Text, i64, FxBuildHasher>;

/// Where pods are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodLocations<'a> {
    pub(crate) nodes: &'a Nodes,
    pub(crate) namespaces: &'a BTreeMap<Text, alloc::sync::Arc<Labels>>,
    /// Pods that are left out of account, ascending.
    pub(crate) without: &'a [u32],
}

/// The effect of a pod's affinity terms, and of those of others, on each node.
#[derive(Debug, Default)]
pub(crate) struct AffinityCounts {
    /// For each term, where pods are that satisfy all of them.
    affinity: Vec<(Text, Counts)>,
    /// Only the pod itself satisfies the terms: it may be the first.
    is_first: bool,
    /// For each term, where pods are that it keeps away from.
    anti_affinity: Vec<(Text, Counts)>,
    /// By label: where pods are that keep away from it.
    kept_away_from: BTreeMap<Text, Counts>,
    spread: Vec<SpreadCounts>,
}

/// How pods are spread over the values of a label.
#[derive(Debug)]
struct SpreadCounts {
    topology: Text,
    counts: Counts,
    /// The amount by which a value may exceed the least.
    skew_max: i64,
    least: i64,
    /// Whether the pod itself counts.
    own: i64,
}

impl AffinityCounts {
    pub(crate) fn of(pod: &Pod, around: PodLocations<'_>) -> Self {
        let spec = &pod.spec;
        let mut found = Self { kept_away_from: kept_away_from(pod, around), ..Self::default() };
        if !spec.affinity.is_empty() {
            let all = |other: &Pod| spec.affinity.iter().all(|term| around.selects(term, other));
            let meant = around.addresses(all);
            let is_meant = |other: &Pod| meant.contains(&core::ptr::from_ref(other).addr());
            found.affinity = spec
                .affinity
                .iter()
                .map(|term| (term.topology.clone(), around.count(&term.topology, is_meant)))
                .collect();
            found.is_first = found.affinity.iter().all(|(_, counts)| counts.is_empty()) && all(pod);
        }
        let anti_affinity_terms = spec.anti_affinity.iter().map(|term| {
            (term.topology.clone(), around.count(&term.topology, |other| around.selects(term, other)))
        });
        found.anti_affinity = anti_affinity_terms.collect();
        if spec.spread.iter().any(|spread| spread.required) {
            found.spread = spread_counts(pod, around, true);
        }
        found
    }

    /// Why the node does not do.
    pub(crate) fn refusal(&self, node: &Node) -> Option<Refusal> {
        let labels = &node.facts.labels;
        for spread in &self.spread {
            let Some(value) = labels.get(&spread.topology) else { return Some(Refusal::SpreadLabel) };
            let there = spread.counts.get(value).copied().unwrap_or(0);
            if there + spread.own - spread.least > spread.skew_max {
                return Some(Refusal::Spread);
            }
        }
        let has =
            |counts: &Counts, key: &Text| labels.get(key).is_some_and(|value| counts.contains_key(value));
        let near = |(key, counts): &(Text, Counts)| {
            if self.is_first { labels.contains_key(key) } else { has(counts, key) }
        };
        if !self.affinity.iter().all(near) {
            return Some(Refusal::Affinity);
        }
        if self.anti_affinity.iter().any(|(key, counts)| has(counts, key)) {
            return Some(Refusal::AntiAffinity);
        }
        let kept_away = self.kept_away_from.iter().any(|(key, counts)| has(counts, key));
        kept_away.then_some(Refusal::ExistingAntiAffinity)
    }
}

/// The score of each node by the pod's preferred pod affinity. `None`: it has none.
pub(crate) fn preferences(pod: &Pod, around: PodLocations<'_>, nodes: &[&NodeState]) -> Option<Vec<i64>> {
    if pod.spec.preferred_pods.is_empty() {
        return None;
    }
    let terms: Vec<(&Text, i64, Counts)> = pod
        .spec
        .preferred_pods
        .iter()
        .map(|(weight, term)| {
            let counts = around.count(&term.topology, |other| around.selects(term, other));
            (&term.topology, *weight, counts)
        })
        .collect();
    let mark = |state: &&NodeState| {
        let labels = state.node.as_ref().map(|node| &node.facts.labels);
        let of = |(key, weight, counts): &(&Text, i64, Counts)| {
            labels
                .and_then(|labels| counts.get(labels.get(*key)?))
                .map_or(0, |count| count.saturating_mul(*weight))
        };
        terms.iter().map(of).sum()
    };
    Some(nodes.iter().map(mark).collect())
}

/// How many of its like are near each of the nodes, where that had better be even. `None`: it does not care.
pub(crate) fn spread_scores(pod: &Pod, around: PodLocations<'_>, nodes: &[&NodeState]) -> Option<Vec<i64>> {
    if pod.spec.spread.iter().all(|spread| spread.required) {
        return None;
    }
    let spread = spread_counts(pod, around, false);
    let mark = |state: &&NodeState| {
        let labels = state.node.as_ref().map(|node| &node.facts.labels);
        let of = |spread: &SpreadCounts| {
            labels.and_then(|labels| spread.counts.get(labels.get(&spread.topology)?)).copied().unwrap_or(0)
        };
        spread.iter().map(of).sum()
    };
    Some(nodes.iter().map(mark).collect())
}

impl<'a> PodLocations<'a> {
    /// Whether a term means a pod.
    fn selects(&self, term: &PodTerm, pod: &Pod) -> bool {
        let namespace = &pod.key.namespace;
        let by_labels = |selector: &LabelSelector| {
            selector.is_empty()
                || self.namespaces.get(namespace).is_some_and(|labels| selector.matches(labels))
        };
        (term.namespaces.contains(namespace) || term.namespace_selector.as_ref().is_some_and(by_labels))
            && term.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }

    /// How many pods of a node that have this term are left out of account.
    fn leaves(&self, term: &PodTerm, state: &NodeState) -> usize {
        if self.without.is_empty() {
            return 0;
        }
        let left_out = state.pods.iter().filter(|(ix, _)| self.without.binary_search(ix).is_ok());
        left_out.filter(|(_, pod)| pod.spec.anti_affinity.contains(term)).count()
    }

    fn pods(&self, state: &'a NodeState) -> impl Iterator<Item = &'a Pod> {
        let without = self.without;
        let counted = state.pods.iter().filter(move |(ix, _)| without.binary_search(ix).is_err());
        counted.map(|(_, pod)| &**pod)
    }

    /// Such pods on nodes that exist, by their addresses.
    fn addresses(&self, means: impl Fn(&Pod) -> bool) -> HashSet<usize, FxBuildHasher> {
        let pods = self.nodes.iter().flat_map(|(_, state)| self.pods(state));
        pods.filter(|pod| means(pod)).map(|pod| core::ptr::from_ref(pod).addr()).collect()
    }

    /// By value of a label of nodes, how many such pods are there. Values without any are left out.
    fn count(&self, topology: &Text, means: impl Fn(&Pod) -> bool) -> Counts {
        let mut counts = Counts::default();
        for (_, state) in self.nodes.iter() {
            let here = self.pods(state).filter(|pod| means(pod)).count();
            let label = || state.node.as_ref().and_then(|node| node.facts.labels.get(topology));
            if here > 0
                && let Some(value) = label()
            {
                *counts.entry(value.clone()).or_insert(0) += i64::try_from(here).unwrap_or(i64::MAX);
            }
        }
        counts
    }
}

/// By label: the values at which a pod is that keeps away from this one.
fn kept_away_from(pod: &Pod, around: PodLocations<'_>) -> BTreeMap<Text, Counts> {
    let mut found: BTreeMap<Text, Counts> = BTreeMap::new();
    for Term { term, nodes } in
        around.nodes.anti_affinity_terms().terms().filter(|term| around.selects(&term.term, pod))
    {
        for (&node, &pods) in nodes {
            let Some(state) = around.nodes.get(node).filter(|state| around.leaves(term, state) < pods) else {
                continue;
            };
            if let Some(value) = state.node.as_ref().and_then(|node| node.facts.labels.get(&term.topology)) {
                found.entry(term.topology.clone()).or_default().insert(value.clone(), 1);
            }
        }
    }
    found
}

fn spread_counts(pod: &Pod, around: PodLocations<'_>, required: bool) -> Vec<SpreadCounts> {
    let rules: Vec<&Spread> = pod.spec.spread.iter().filter(|spread| spread.required == required).collect();
    let mut found: Vec<SpreadCounts> = rules
        .iter()
        .map(|rule| SpreadCounts {
            topology: rule.topology.clone(),
            counts: Counts::default(),
            skew_max: rule.skew_max,
            least: 0,
            own: i64::from(selects(rule, pod)),
        })
        .collect();
    for (_, state) in around.nodes.iter() {
        // The node is gone, pods on it are not.
        let Some(node) = &state.node else { continue };
        let labels = &node.facts.labels;
        // A node that lacks one of the labels is none that pods are spread over.
        if required && !rules.iter().all(|rule| labels.contains_key(&rule.topology)) {
            continue;
        }
        for (rule, counts) in rules.iter().zip(&mut found) {
            let Some(value) = labels.get(&rule.topology).filter(|_| counts_node(rule, pod, node)) else {
                continue;
            };
            let is_counted = |other: &&Pod| {
                other.key.namespace == pod.key.namespace && !other.deleting && selects(rule, other)
            };
            let here = around.pods(state).filter(is_counted).count();
            *counts.counts.entry(value.clone()).or_insert(0) += i64::try_from(here).unwrap_or(i64::MAX);
        }
    }
    for (rule, counts) in rules.iter().zip(&mut found) {
        let domains = i64::try_from(counts.counts.len()).unwrap_or(i64::MAX);
        #[expect(clippy::disallowed_methods, reason = "the least of them is the same in any order")]
        let least = counts.counts.values().copied().min().unwrap_or(0);
        counts.least = if domains < rule.domains_min { 0 } else { least };
    }
    found
}

fn selects(rule: &Spread, pod: &Pod) -> bool {
    rule.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
}

/// Whether a node is one that pods are spread over.
fn counts_node(rule: &Spread, pod: &Pod, node: &Node) -> bool {
    (!rule.honors_affinity || node_rules::matches_affinity(pod, node))
        && (!rule.honors_taints || node_rules::untolerated(&node.taints, &pod.spec.tolerations).is_none())
}
