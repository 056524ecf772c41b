//! A cluster in memory: objects with versions and preconditions, and whoever else acts on them.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_model::{ObjectKey, Owner, Text, Timestamp, Uid};
use lazaret_replacement::{
    EffectKind, Mark, Match, Node, NodeTaint, Note, Outcome, Plan, Pod, Policy, ReplicaSet, Selector, Spec,
    Status, Strategy, TaintOption,
};

pub(crate) fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(secs)
}

/// A bare spec: select `app=web`, no taints.
pub(crate) fn spec() -> Spec {
    Spec {
        selector: Selector { all: vec![("app".into(), Match::In(vec!["web".into()]))] },
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
    /// Seconds until a pod is Ready, and until it is gone.
    pub(crate) ready_secs: i64,
    pub(crate) gone_secs: i64,
    /// Disruptions that a budget would still permit; `None`: any number.
    pub(crate) budget: Option<u32>,
    pub(crate) notes: Vec<Note>,
    /// What changed: `None` for what is gone.
    pub(crate) log: Vec<Changed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    Policy(ObjectKey),
    Pod(ObjectKey),
    Node(Text),
    Set(ObjectKey),
}

impl Api {
    pub(crate) fn uid(&mut self) -> Uid {
        self.uids += 1;
        format!("uid-{}", self.uids).into()
    }

    fn next_version(&mut self) -> Text {
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

    pub(crate) fn add_set(&mut self, name: &str, kind: Kind, replicas: u32) {
        let uid = self.uid();
        self.sets.push(Set { name: name.into(), uid, kind, replicas });
        self.log.push(Changed::Set(key(name)));
    }

    pub(crate) fn replica_set(&self, key: &ObjectKey) -> Option<ReplicaSet> {
        let set = self.sets.iter().find(|set| set.name == key.name && set.kind == Kind::ReplicaSet)?;
        let selector = Selector {
            all: vec![
                ("app".into(), Match::In(vec!["web".into()])),
                ("pod-template-hash".into(), Match::In(vec![set.name.clone()])),
            ],
        };
        Some(ReplicaSet { key: key.clone(), uid: set.uid.clone(), replicas: set.replicas, selector })
    }

    pub(crate) fn add_bare(&mut self, now: Timestamp, name: &str, pinned: bool) {
        let labels = Arc::new(BTreeMap::from([(Text::from("app"), Text::from("web"))]));
        let pod = Pod { key: key(name), labels, pinned, ..Pod::default() };
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

    fn remove(&mut self, key: &ObjectKey) {
        self.pods.remove(key);
        self.log.push(Changed::Pod(key.clone()));
    }

    pub(crate) fn owned(&self, uid: &Uid) -> impl Iterator<Item = &Pod> {
        self.pods
            .values()
            .map(|live| &live.pod)
            .filter(move |pod| pod.owner.as_ref().is_some_and(|owner| owner.uid == *uid))
    }

    /// Everybody but the machine: sets, scheduler, kubelets.
    pub(crate) fn act(&mut self, now: Timestamp) {
        for at in 0..self.sets.len() {
            self.fill(now, at);
        }
        self.schedule(now);
        let due: Vec<Live> =
            self.pods.values().filter(|live| live.turns.is_some_and(|at| at <= now)).cloned().collect();
        for mut live in due {
            if live.pod.deleting {
                self.remove(&live.pod.key.clone());
            } else {
                (live.turns, live.pod.ready) = (None, true);
                self.put(live);
            }
        }
    }

    fn fill(&mut self, now: Timestamp, at: usize) {
        let Set { name, uid, kind, replicas } = &self.sets[at];
        let (name, uid, kind, replicas) = (name.clone(), uid.clone(), *kind, *replicas as usize);
        let owner = Owner {
            group: "apps".into(),
            kind: format!("{kind:?}").into(),
            name: name.clone(),
            uid: uid.clone(),
        };
        let labels =
            BTreeMap::from([("app".into(), "web".into()), ("pod-template-hash".into(), name.clone())]);
        let template = Pod { labels: Arc::new(labels), owner: Some(owner), ..Pod::default() };
        match kind {
            Kind::ReplicaSet => {
                let alive = self.owned(&uid).filter(|pod| !pod.deleting).count();
                for _ in alive..replicas {
                    let suffix = self.uids + 1;
                    let pod = Pod { key: key(&format!("{name}-{suffix}")), ..template.clone() };
                    self.create(now, pod);
                }
            }
            Kind::StatefulSet => {
                for ordinal in 0..replicas {
                    let pod = Pod { key: key(&format!("{name}-{ordinal}")), ..template.clone() };
                    if !self.pods.contains_key(&pod.key) {
                        self.create(now, pod);
                    }
                }
            }
        }
    }

    fn schedule(&mut self, now: Timestamp) {
        let waiting: Vec<Live> = self
            .pods
            .values()
            .filter(|live| live.pod.node.is_none() && !live.pod.gated && !live.pod.deleting)
            .cloned()
            .collect();
        for mut live in waiting {
            let count =
                |node: &Text| self.pods.values().filter(|l| l.pod.node.as_ref() == Some(node)).count();
            let free = self.nodes.values().filter(|node| node.taints.is_empty());
            let Some(node) = free.min_by_key(|node| (count(&node.name), node.name.clone())) else { return };
            live.pod.node = Some(node.name.clone());
            live.turns = Some(now.plus_secs(self.ready_secs));
            self.put(live);
        }
    }

    pub(crate) fn delete(&mut self, now: Timestamp, key: &ObjectKey, uid: &Uid) -> Outcome {
        let Some(mut live) = self.pods.get(key).filter(|live| live.pod.uid == *uid).cloned() else {
            return Outcome::Gone;
        };
        if !live.pod.deleting {
            (live.pod.deleting, live.pod.ready) = (true, false);
            live.turns = Some(now.plus_secs(self.gone_secs));
            self.put(live);
        }
        Outcome::Done(None)
    }

    /// Does what the machine asks for, with every precondition.
    pub(crate) fn perform(&mut self, now: Timestamp, effect: &EffectKind) -> Outcome {
        match effect {
            EffectKind::SetStatus { policy, uid, version, status } => {
                let Some(mut found) = self.policies.get(policy).cloned() else { return Outcome::Gone };
                if found.uid != *uid || found.version != *version {
                    return Outcome::Conflict;
                }
                found.version = self.next_version();
                found.status = status.clone();
                self.log.push(Changed::Policy(policy.clone()));
                let version = found.version.clone();
                self.policies.insert(policy.clone(), found);
                Outcome::Done(Some(version))
            }
            EffectKind::Release { version, owner, label, record } => {
                let Some(mut live) = self.pods.get(&record.pod).cloned() else { return Outcome::Gone };
                if live.pod.uid != record.uid {
                    return Outcome::Gone;
                }
                let owned = live.pod.owner.as_ref().is_some_and(|there| there.uid == *owner);
                if live.pod.version != *version || !owned {
                    return Outcome::Conflict;
                }
                live.pod.owner = None;
                Arc::make_mut(&mut live.pod.labels).remove(label);
                live.pod.mark = Some(Mark::Released((**record).clone()));
                self.put(live);
                Outcome::Done(None)
            }
            EffectKind::Copy { name, gated, record } => {
                let key = ObjectKey::new(record.pod.namespace.clone(), name.clone());
                if let Some(there) = self.pods.get(&key) {
                    let ours = matches!(&there.pod.mark, Some(Mark::Copy(mark)) if mark.uid == record.uid);
                    return if ours { Outcome::Done(None) } else { Outcome::Conflict };
                }
                let Some(old) = self.pods.get(&record.pod).filter(|live| live.pod.uid == record.uid) else {
                    return Outcome::Gone;
                };
                let mark = Some(Mark::Copy((**record).clone()));
                let (labels, pinned) = (old.pod.labels.clone(), old.pod.pinned);
                self.create(now, Pod { key, labels, pinned, gated: *gated, mark, ..Pod::default() });
                Outcome::Done(None)
            }
            EffectKind::Ungate { pod, uid } => {
                let Some(mut live) = self.pods.get(pod).filter(|live| live.pod.uid == *uid).cloned() else {
                    return Outcome::Gone;
                };
                live.pod.gated = false;
                self.put(live);
                Outcome::Done(None)
            }
            // A pod that leaves already needs no budget, as in Kubernetes.
            EffectKind::Evict { pod, uid } if self.pods.get(pod).is_some_and(|live| live.pod.deleting) => {
                self.delete(now, pod, uid)
            }
            EffectKind::Evict { pod, uid } => match &mut self.budget {
                Some(0) => Outcome::Held("the budget permits none".into()),
                budget => {
                    if let Some(left) = budget {
                        *left -= 1;
                    }
                    self.delete(now, pod, uid)
                }
            },
            EffectKind::Delete { pod, uid } => self.delete(now, pod, uid),
            EffectKind::Event(note) => {
                self.notes.push(note.clone());
                Outcome::Done(None)
            }
        }
    }
}

/// The pod that an effect first disturbs, if it does.
pub(crate) fn disturbs(effect: &EffectKind) -> Option<(ObjectKey, Uid)> {
    match effect {
        EffectKind::Release { record, .. } => Some((record.pod.clone(), record.uid.clone())),
        EffectKind::Copy { record, .. } => {
            assert!(matches!(record.plan, Plan::Copy { .. } | Plan::Rebuild { .. }));
            Some((record.pod.clone(), record.uid.clone()))
        }
        EffectKind::Evict { pod, uid } => Some((pod.clone(), uid.clone())),
        EffectKind::SetStatus { .. }
        | EffectKind::Ungate { .. }
        | EffectKind::Delete { .. }
        | EffectKind::Event(_) => None,
    }
}
