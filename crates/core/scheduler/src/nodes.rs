//! The nodes, and what the pods on them take up. Pods that are being bound count as if they were there.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use hashbrown::HashMap;
use lazaret_invariant::invariant;
use lazaret_model::{Slab, Text};
use rustc_hash::FxBuildHasher;

use crate::{Amounts, HostPort, Node, Pod, ScoredAmounts, anti_affinity::AntiAffinityTerms};

/// A node, or a name that a pod says it is on.
#[derive(Debug, Default)]
pub(crate) struct NodeState {
    pub(crate) name: Text,
    /// `None`: no such node is known, but pods are on it.
    pub(crate) node: Option<Arc<Node>>,
    pub(crate) pods: Vec<(u32, Arc<Pod>)>,
    pub(crate) used: Amounts,
    pub(crate) weighed: ScoredAmounts,
    pub(crate) ports: Vec<HostPort>,
    /// Pods that are nominated for this node: others were evicted for them.
    pub(crate) nominated: Vec<(u32, Arc<Pod>)>,
    /// Devices of its own that no claim of the fleet has to itself, at most.
    pub(crate) devices_free: usize,
}

impl NodeState {
    fn add_up(&mut self, pod: &Pod) {
        let spec = &pod.spec;
        self.used.add(&spec.requests);
        if let Some(extra) = &pod.extra {
            self.used.add(extra);
        }
        self.weighed.cpu_milli = self.weighed.cpu_milli.saturating_add(spec.weighed.cpu_milli);
        self.weighed.memory = self.weighed.memory.saturating_add(spec.weighed.memory);
        self.ports.extend(spec.ports.iter().cloned());
    }

    fn add_up_all(&mut self) {
        self.used = Amounts::default();
        self.weighed = ScoredAmounts::default();
        self.ports.clear();
        let pods = core::mem::take(&mut self.pods);
        pods.iter().for_each(|(_, pod)| self.add_up(pod));
        self.pods = pods;
    }

    /// The same node without some of its pods, whose numbers are in ascending order.
    pub(crate) fn without(&self, pods: &[u32]) -> Self {
        let stays = |(ix, _): &&(u32, Arc<Pod>)| pods.binary_search(ix).is_err();
        let mut rest = Self {
            name: self.name.clone(),
            node: self.node.clone(),
            pods: self.pods.iter().filter(stays).cloned().collect(),
            nominated: self.nominated.clone(),
            devices_free: usize::MAX,
            ..Self::default()
        };
        rest.add_up_all();
        rest
    }

    fn is_forgettable(&self) -> bool {
        self.node.is_none() && self.pods.is_empty() && self.nominated.is_empty()
    }
}

/// All nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    slots: Slab<NodeState>,
    by_name: HashMap<Text, u32, FxBuildHasher>,
    /// Nodes that exist, by name.
    order: Vec<u32>,
    /// Pods that keep others away.
    anti_affinity_terms: AntiAffinityTerms,
    /// How many pods of which priority are on nodes.
    priorities: BTreeMap<i32, usize>,
    /// How often `order` has changed.
    revision: u64,
}

impl Nodes {
    pub(crate) fn get(&self, ix: u32) -> Option<&NodeState> {
        self.slots.get(ix)
    }

    pub(crate) fn get_mut(&mut self, ix: u32) -> Option<&mut NodeState> {
        self.slots.get_mut(ix)
    }

    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// Those of these nodes that exist.
    pub(crate) fn existing(&self, names: &[&Text]) -> Vec<u32> {
        let exists = |ix: &u32| self.get(*ix).is_some_and(|state| state.node.is_some());
        names.iter().filter_map(|name| self.find(name)).filter(exists).collect()
    }

    /// Nodes that exist, by name.
    pub(crate) fn order(&self) -> &[u32] {
        &self.order
    }

    /// How often nodes came or went.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Nodes that exist, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &NodeState)> {
        self.order.iter().filter_map(|&ix| Some((ix, self.slots.get(ix)?)))
    }

    /// The lowest priority of all pods on nodes.
    pub(crate) fn lowest_priority(&self) -> Option<i32> {
        self.priorities.first_key_value().map(|(priority, _)| *priority)
    }

    /// How many pods are on nodes.
    pub(crate) fn pod_count(&self) -> usize {
        self.priorities.values().sum()
    }

    /// Pods that keep others away.
    pub(crate) fn anti_affinity_terms(&self) -> &AntiAffinityTerms {
        &self.anti_affinity_terms
    }

    /// Sets a node; returns its old state.
    pub(crate) fn set(&mut self, node: &Arc<Node>) -> Option<Arc<Node>> {
        let ix = self.find_or_new(&node.facts.name);
        let old = self.slots.get_mut(ix)?.node.replace(node.clone());
        if old.is_none() {
            let at = self.order.partition_point(|&other| self.name_of(other) < Some(&node.facts.name));
            self.order.insert(at, ix);
            self.revision += 1;
        }
        old
    }

    /// The node is gone; pods may still claim to be on it.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let Some(ix) = self.find(name) else { return false };
        let known = self.slots.get_mut(ix).is_some_and(|state| state.node.take().is_some());
        self.order.retain(|other| *other != ix);
        self.revision += 1;
        self.forget_if_empty(ix);
        known
    }

    /// A pod is on a node, or will be.
    pub(crate) fn place(&mut self, name: &Text, pod_ix: u32, pod: &Arc<Pod>) -> u32 {
        let ix = self.find_or_new(name);
        if let Some(state) = self.slots.get_mut(ix) {
            state.pods.push((pod_ix, pod.clone()));
            state.add_up(pod);
        }
        self.anti_affinity_terms.add(&pod.spec.anti_affinity, ix);
        *self.priorities.entry(pod.spec.priority).or_insert(0) += 1;
        ix
    }

    /// A pod is not on a node any more.
    pub(crate) fn remove_pod_from_node(&mut self, ix: u32, pod_ix: u32) {
        let Some(state) = invariant!(self.slots.get_mut(ix), "the number of a node leads to it") else {
            return;
        };
        let Some(at) = invariant!(
            state.pods.iter().position(|(other, _)| *other == pod_ix),
            "a placed pod is on its node"
        ) else {
            return;
        };
        let (_, pod) = state.pods.remove(at);
        // Sums saturate, so they cannot be taken back.
        state.add_up_all();
        self.anti_affinity_terms.remove(&pod.spec.anti_affinity, ix);
        if let Some(count) = self.priorities.get_mut(&pod.spec.priority) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&pod.spec.priority);
            }
        }
        self.forget_if_empty(ix);
    }

    /// A pod on a node is not as it was.
    pub(crate) fn replace(&mut self, ix: u32, pod_ix: u32, pod: &Arc<Pod>) {
        let Some(state) = invariant!(self.slots.get_mut(ix), "the number of a node leads to it") else {
            return;
        };
        // A pod's priority and what it keeps away never change.
        let Some((_, known)) = invariant!(
            state.pods.iter_mut().find(|(other, _)| *other == pod_ix),
            "a placed pod is on its node"
        ) else {
            return;
        };
        let same = known.spec.requests == pod.spec.requests
            && known.spec.weighed == pod.spec.weighed
            && known.extra == pod.extra;
        *known = pod.clone();
        if !same {
            state.add_up_all();
        }
    }

    /// Room is kept on a node for a pod.
    pub(crate) fn nominate(&mut self, name: &Text, pod_ix: u32, pod: &Arc<Pod>) -> u32 {
        let ix = self.find_or_new(name);
        if let Some(state) = self.slots.get_mut(ix) {
            state.nominated.push((pod_ix, pod.clone()));
        }
        ix
    }

    /// No room is kept any more.
    pub(crate) fn withdraw(&mut self, ix: u32, pod_ix: u32) {
        if let Some(state) = self.slots.get_mut(ix) {
            state.nominated.retain(|(other, _)| *other != pod_ix);
        }
        self.forget_if_empty(ix);
    }

    fn find_or_new(&mut self, name: &Text) -> u32 {
        if let Some(ix) = self.find(name) {
            return ix;
        }
        let ix = self.slots.insert(NodeState {
            name: name.clone(),
            devices_free: usize::MAX,
            ..NodeState::default()
        });
        self.by_name.insert(name.clone(), ix);
        ix
    }

    fn name_of(&self, ix: u32) -> Option<&Text> {
        self.slots.get(ix).map(|state| &state.name)
    }

    fn forget_if_empty(&mut self, ix: u32) {
        if self.slots.get(ix).is_some_and(NodeState::is_forgettable)
            && let Some(state) = self.slots.remove(ix)
        {
            self.by_name.remove(&state.name);
        }
    }
}
