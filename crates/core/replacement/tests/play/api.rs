//! A cluster in memory: objects with versions and preconditions, and the other controllers that act on them.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_machine::LabelSelector;
use lazaret_model::{ObjectKey, Text, Timestamp, Uid};
use lazaret_replacement::{
    Node, NodeTaint, Note, Pod, Policy, ReplicaSet, Spec, Status, Strategy, TaintOption,
};

pub(crate) fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(secs)
}

fn selecting(labels: &[(&str, &str)]) -> LabelSelector {
    let mut selector = LabelSelector::default();
    labels.iter().for_each(|(key, value)| selector.require(*key, *value));
    selector
}

/// A spec that replaces pods ten seconds after the taint `a` came.
pub(crate) fn quick() -> Spec {
    Spec { node_options: vec![option("a", 10)], replacement_secs: 10, ..spec() }
}

/// A bare spec: select `app=web`, no taints.
pub(crate) fn spec() -> Spec {
    Spec {
        selector: selecting(&[("app", "web")]),
        enabled: true,
        max_concurrent: 1,
        node_options: Vec::new(),
        device_options: Vec::new(),
        replacement_secs: 10,
        failure_secs: 100,
        node_failures: false,
        fault_domain_key: None,
        max_domains_tainted: None,
        strategy: Strategy::ReplaceFirst,
        ready_secs: 600,
    }
}

pub(crate) fn option(key: &str, secs: i64) -> TaintOption {
    TaintOption { key: key.into(), value: None, effect: None, secs }
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

/// The label of pods that hold a device.
pub(crate) const HOLDS: &str = "holds";

/// Whether a pod holds the device of its node.
pub(crate) fn holds(pod: &Pod) -> bool {
    pod.labels.contains_key(HOLDS)
}

/// How pods come to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    ReplicaSet,
    StatefulSet,
}

#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) name: Text,
    pub(crate) uid: Uid,
    pub(crate) kind: Kind,
    pub(crate) replicas: u32,
    /// Each of its pods holds the device of its node.
    pub(crate) holds: bool,
}

/// A pod with what only the cluster knows of it.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) pod: Pod,
    /// When it becomes Ready once bound; when it is gone once deleted.
    pub(crate) turns: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub(crate) struct Api {
    pub(crate) version: u64,
    pub(crate) uids: u64,
    pub(crate) policies: BTreeMap<ObjectKey, Policy>,
    pub(crate) pods: BTreeMap<ObjectKey, Live>,
    pub(crate) nodes: BTreeMap<Text, Node>,
    pub(crate) sets: Vec<Set>,
    /// The taints of the one device of each node that has one: key, and when it was set.
    pub(crate) devices: BTreeMap<Text, Vec<(Text, Option<Timestamp>)>>,
    /// These taints evict pods.
    pub(crate) devices_evict: bool,
    /// Seconds until a pod is Ready, and until it is gone.
    pub(crate) ready_secs: i64,
    pub(crate) gone_secs: i64,
    /// Disruptions that a budget would still permit; `None`: any number.
    pub(crate) budget: Option<u32>,
    pub(crate) notes: Vec<Note>,
    /// Keys of changed objects, in order. A deleted object is one, too.
    pub(crate) log: Vec<Changed>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Changed {
    Policy(ObjectKey),
    Pod(ObjectKey),
    Node(Text),
    Set(ObjectKey),
    /// The slice of a node.
    Slice(Text),
    /// The claim of a pod.
    Claim(ObjectKey),
}

impl Api {
    pub(crate) fn uid(&mut self) -> Uid {
        self.uids += 1;
        format!("uid-{}", self.uids).into()
    }

    pub(crate) fn next_version(&mut self) -> Text {
        self.version += 1;
        self.version.to_string().into()
    }

    pub(crate) fn add_node(&mut self, name: &str, zone: &str) {
        let labels = Arc::new(BTreeMap::from([(Text::from("zone"), Text::from(zone))]));
        self.set_node(Node { name: name.into(), labels, ..Node::default() });
    }

    pub(crate) fn set_node(&mut self, node: Node) {
        self.log.push(Changed::Node(node.name.clone()));
        self.nodes.insert(node.name.clone(), node);
    }

    pub(crate) fn taint(&mut self, node: &str, taint: &str, time_added: Option<Timestamp>) {
        let mut changed = self.nodes[node].clone();
        changed.taints.retain(|there| there.key != *taint);
        changed.taints.push(NodeTaint {
            key: taint.into(),
            value: "".into(),
            effect: "NoSchedule".into(),
            time_added,
        });
        self.set_node(changed);
    }

    pub(crate) fn untaint(&mut self, node: &str, taint: &str) {
        let mut changed = self.nodes[node].clone();
        changed.taints.retain(|there| there.key != *taint);
        self.set_node(changed);
    }

    /// Sets or takes off a taint of a node's device.
    pub(crate) fn taint_device(&mut self, node: &str, taint: &str, time_added: Option<Option<Timestamp>>) {
        let taints = self.devices.entry(node.into()).or_default();
        taints.retain(|(key, _)| *key != *taint);
        taints.extend(time_added.map(|added| (taint.into(), added)));
        self.log.push(Changed::Slice(node.into()));
    }

    pub(crate) fn set_policy(&mut self, name: &str, spec: Spec) {
        let key = key(name);
        let before = self.policies.get(&key).cloned();
        let uid = before.as_ref().map_or_else(|| self.uid(), |policy| policy.uid.clone());
        let generation = before.as_ref().map_or(1, |policy| policy.generation + 1);
        let version = self.next_version();
        let status = before.map_or_else(|| Arc::new(Status::default()), |policy| policy.status);
        let policy = Policy {
            key: key.clone(),
            uid,
            version,
            generation,
            deleting: false,
            spec: Ok(Arc::new(spec)),
            status,
        };
        self.policies.insert(key.clone(), policy);
        self.log.push(Changed::Policy(key));
    }

    pub(crate) fn remove_policy(&mut self, name: &str) {
        self.policies.remove(&key(name));
        self.log.push(Changed::Policy(key(name)));
    }

    pub(crate) fn add_set(&mut self, name: &str, kind: Kind, replicas: u32, holds: bool) {
        let uid = self.uid();
        self.sets.push(Set { name: name.into(), uid, kind, replicas, holds });
        self.log.push(Changed::Set(key(name)));
    }

    pub(crate) fn replica_set(&self, key: &ObjectKey) -> Option<ReplicaSet> {
        let set = self.sets.iter().find(|set| set.name == key.name && set.kind == Kind::ReplicaSet)?;
        let selector = selecting(&[("app", "web"), ("pod-template-hash", &set.name)]);
        Some(ReplicaSet { key: key.clone(), uid: set.uid.clone(), replicas: set.replicas, selector })
    }

    pub(crate) fn add_bare(&mut self, now: Timestamp, name: &str, pinned: bool, holds: bool) {
        let mut labels = BTreeMap::from([(Text::from("app"), Text::from("web"))]);
        labels.extend(holds.then(|| (Text::from(HOLDS), Text::default())));
        let pod = Pod { key: key(name), labels: Arc::new(labels), pinned, ..Pod::default() };
        self.create(now, pod);
    }

    pub(crate) fn create(&mut self, now: Timestamp, mut pod: Pod) {
        pod.uid = self.uid();
        pod.created = now.truncated_to_secs();
        self.put(Live { pod, turns: None });
    }

    pub(crate) fn put(&mut self, mut live: Live) {
        live.pod.version = self.next_version();
        let key = live.pod.key.clone();
        self.log.push(Changed::Pod(key.clone()));
        self.pods.insert(key, live);
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        if let Some(gone) = self.pods.remove(key)
            && holds(&gone.pod)
        {
            self.log.push(Changed::Claim(key.clone()));
        }
        self.log.push(Changed::Pod(key.clone()));
    }

    pub(crate) fn owned(&self, uid: &Uid) -> impl Iterator<Item = &Pod> {
        self.pods
            .values()
            .map(|live| &live.pod)
            .filter(move |pod| pod.owner.as_ref().is_some_and(|owner| owner.uid == *uid))
    }
}
