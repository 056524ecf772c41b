//! The objects as they were last heard of, with the ways to find them.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use lazaret_model::{ObjectKey, Text, Uid};

use crate::{
    objects::{Node, Pod, ReplicaSet},
    policy::{Policy, Problem, Spec},
};

/// A policy and what follows from its spec.
#[derive(Debug)]
pub(crate) struct KnownPolicy {
    pub(crate) policy: Arc<Policy>,
    pub(crate) problems: Vec<Problem>,
}

impl KnownPolicy {
    pub(crate) fn new(policy: Arc<Policy>) -> Self {
        let problems = match &policy.spec {
            Ok(spec) => spec.problems(),
            Err(problems) => problems.clone(),
        };
        Self { policy, problems }
    }

    /// Its spec, if it is in effect: valid, enabled and not being deleted.
    pub(crate) fn active(&self) -> Option<&Arc<Spec>> {
        let spec = self.policy.spec.as_ref().ok()?;
        (spec.enabled && !self.policy.deleting && self.problems.is_empty()).then_some(spec)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) policies: BTreeMap<ObjectKey, KnownPolicy>,
    pub(crate) pods: BTreeMap<ObjectKey, Arc<Pod>>,
    pub(crate) nodes: BTreeMap<Text, Arc<Node>>,
    pub(crate) replica_sets: BTreeMap<Uid, Arc<ReplicaSet>>,
    replica_set_uids: BTreeMap<ObjectKey, Uid>,
    on_node: BTreeMap<Text, BTreeSet<ObjectKey>>,
    of_owner: BTreeMap<Uid, BTreeSet<ObjectKey>>,
    /// How many of an owner's pods serve.
    serving: BTreeMap<Uid, usize>,
}

impl Tables {
    /// The policies of a namespace that are to be followed, by name.
    pub(crate) fn active_in<'a>(
        &'a self,
        namespace: &'a Text,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Arc<Spec>)> {
        within(&self.policies, namespace).filter_map(|(key, known)| Some((key, known.active()?)))
    }

    pub(crate) fn active(&self, policy: &ObjectKey) -> Option<&Arc<Spec>> {
        self.policies.get(policy)?.active()
    }

    pub(crate) fn pods_in<'a>(&'a self, namespace: &'a Text) -> impl Iterator<Item = &'a ObjectKey> {
        within(&self.pods, namespace).map(|(key, _)| key)
    }

    pub(crate) fn pods_on<'a>(&'a self, node: &str) -> impl Iterator<Item = &'a ObjectKey> {
        self.on_node.get(node).into_iter().flatten()
    }

    pub(crate) fn pods_of<'a>(&'a self, owner: &Uid) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.of_owner.get(owner).into_iter().flatten().filter_map(|key| self.pods.get(key))
    }

    /// How many pods of an owner serve.
    pub(crate) fn serving_of(&self, owner: &Uid) -> usize {
        self.serving.get(owner).copied().unwrap_or(0)
    }

    /// This incarnation of a pod.
    pub(crate) fn pod(&self, key: &ObjectKey, uid: &Uid) -> Option<&Arc<Pod>> {
        self.pods.get(key).filter(|pod| pod.uid == *uid)
    }

    pub(crate) fn set_pod(&mut self, pod: Arc<Pod>) {
        self.remove_pod(&pod.key);
        if let Some(node) = &pod.node {
            self.on_node.entry(node.clone()).or_default().insert(pod.key.clone());
        }
        if let Some(owner) = &pod.owner {
            self.of_owner.entry(owner.uid.clone()).or_default().insert(pod.key.clone());
            if pod.serves() {
                *self.serving.entry(owner.uid.clone()).or_default() += 1;
            }
        }
        self.pods.insert(pod.key.clone(), pod);
    }

    pub(crate) fn remove_pod(&mut self, key: &ObjectKey) {
        let Some(pod) = self.pods.remove(key) else { return };
        if let Some(node) = &pod.node {
            take(&mut self.on_node, node, key);
        }
        if let Some(owner) = &pod.owner {
            take(&mut self.of_owner, &owner.uid, key);
            if pod.serves()
                && let Some(serving) = self.serving.get_mut(&owner.uid)
            {
                *serving -= 1;
                if *serving == 0 {
                    self.serving.remove(&owner.uid);
                }
            }
        }
    }

    pub(crate) fn set_replica_set(&mut self, set: Arc<ReplicaSet>) {
        self.remove_replica_set(&set.key);
        self.replica_set_uids.insert(set.key.clone(), set.uid.clone());
        self.replica_sets.insert(set.uid.clone(), set);
    }

    pub(crate) fn remove_replica_set(&mut self, key: &ObjectKey) {
        if let Some(uid) = self.replica_set_uids.remove(key) {
            self.replica_sets.remove(&uid);
        }
    }

    /// Whether it is known in which fault domain a node is. The label of one that is gone went with it.
    pub(crate) fn knows_domain(&self, spec: &Spec, node: &Text) -> bool {
        spec.fault_domain_key.is_none() || self.nodes.contains_key(node)
    }

    /// The fault domain of a node: what its label says, or the node alone.
    pub(crate) fn domain(&self, spec: &Spec, node: &Text) -> Text {
        let label = spec.fault_domain_key.as_ref().and_then(|key| self.nodes.get(node)?.labels.get(key));
        label.unwrap_or(node).clone()
    }
}

/// The entries of a namespace. Keys sort by namespace first.
fn within<'a, T>(
    map: &'a BTreeMap<ObjectKey, T>,
    namespace: &'a Text,
) -> impl Iterator<Item = (&'a ObjectKey, &'a T)> {
    map.range(ObjectKey::new(namespace.clone(), "")..).take_while(move |(key, _)| key.namespace == *namespace)
}

fn take<K: Ord>(index: &mut BTreeMap<K, BTreeSet<ObjectKey>>, key: &K, pod: &ObjectKey) {
    if let Some(pods) = index.get_mut(key) {
        pods.remove(pod);
        if pods.is_empty() {
            index.remove(key);
        }
    }
}
