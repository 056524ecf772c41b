//! Everybody but the machine: sets, scheduler, kubelets.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_model::{Owner, Text, Timestamp};
use lazaret_replacement::Pod;

use crate::api::{Api, Changed, HOLDS, Kind, Live, Set, holds, key};

impl Api {
    /// Lets everybody do what is to be done at `now`.
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
        let Set { name, uid, kind, replicas, holds } = &self.sets[at];
        let (name, uid, kind, replicas) = (name.clone(), uid.clone(), *kind, *replicas as usize);
        let owner = Owner {
            group: "apps".into(),
            kind: format!("{kind:?}").into(),
            name: name.clone(),
            uid: uid.clone(),
        };
        let mut labels =
            BTreeMap::from([("app".into(), "web".into()), ("pod-template-hash".into(), name.clone())]);
        labels.extend(holds.then(|| (HOLDS.into(), Text::default())));
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
            let sound = |node: &Text| self.devices.get(node).is_some_and(Vec::is_empty);
            let free = self
                .nodes
                .values()
                .filter(|node| node.taints.is_empty() && (!holds(&live.pod) || sound(&node.name)));
            let Some(node) = free.min_by_key(|node| (count(&node.name), node.name.clone())) else { continue };
            live.pod.node = Some(node.name.clone());
            live.turns = Some(now.plus_secs(self.ready_secs));
            if holds(&live.pod) {
                self.log.push(Changed::Claim(live.pod.key.clone()));
            }
            self.put(live);
        }
    }
}
