//! Runs one machine against the cluster, with nothing going wrong.

use std::sync::Arc;

use lazaret_fleet::Fleet;
use lazaret_machine::Machine as _;
use lazaret_model::Timestamp;
use lazaret_replacement::{Effect, EffectKind, Input, Options, Pod, PodStatus, Replacement, Status};

use crate::{
    api::{Api, Changed, Kind, at, key},
    holdings::told,
};

pub(crate) struct Play {
    pub(crate) api: Api,
    pub(crate) fleet: Fleet,
    pub(crate) machine: Replacement,
    pub(crate) now: Timestamp,
    /// Every effect but events and statuses, as it was done.
    pub(crate) done: Vec<String>,
    pub(crate) heard: usize,
}

impl Play {
    pub(crate) fn new() -> Self {
        let api = Api { ready_secs: 2, gone_secs: 1, ..Api::default() };
        let mut machine = Replacement::new(Options { trusts_user_names: true, ..Options::default() });
        let fleet = Fleet::new();
        machine.lead(at(0), &fleet, true);
        Self { api, fleet, machine, now: at(0), done: Vec::new(), heard: 0 }
    }

    /// `pods` of one replica set on `nodes` nodes called `n0`, `n1`, …, all Ready; two zones.
    pub(crate) fn with(nodes: usize, pods: u32) -> Self {
        let mut play = Self::new();
        for node in 0..nodes {
            play.api.add_node(&format!("n{node}"), if node % 2 == 0 { "even" } else { "odd" });
        }
        play.api.add_set("web", Kind::ReplicaSet, pods, false);
        play.until(5);
        play
    }

    /// `pods` of one stateful set on nodes of one zone, all Ready.
    pub(crate) fn stateful(nodes: usize, pods: u32) -> Self {
        let mut play = Self::in_one_zone(nodes);
        play.api.add_set("db", Kind::StatefulSet, pods, false);
        play.until(5);
        play
    }

    /// A pod `lone` that nobody owns, on one of two nodes.
    pub(crate) fn bare(pinned: bool) -> Self {
        let mut play = Self::in_one_zone(2);
        play.api.add_bare(play.now, "lone", pinned, false);
        play.until(5);
        play
    }

    pub(crate) fn in_one_zone(nodes: usize) -> Self {
        let mut play = Self::new();
        for node in 0..nodes {
            play.api.add_node(&format!("n{node}"), "z");
        }
        play
    }

    /// A new process: it knows what the API has, nothing else.
    pub(crate) fn restart(&mut self) {
        self.machine = Replacement::new(Options::default());
        self.heard = self.api.log.len();
        let changes: Vec<Changed> = self
            .api
            .policies
            .keys()
            .map(|key| Changed::Policy(key.clone()))
            .chain(self.api.pods.keys().map(|key| Changed::Pod(key.clone())))
            .chain(self.api.nodes.keys().map(|name| Changed::Node(name.clone())))
            .chain(self.api.sets.iter().map(|set| Changed::Set(key(&set.name))))
            .chain(self.api.devices.keys().map(|node| Changed::Slice(node.clone())))
            .chain(self.api.pods.keys().map(|key| Changed::Claim(key.clone())))
            .collect();
        self.fleet = Fleet::new();
        for change in changes {
            self.hear(&change);
        }
        self.machine.lead(self.now, &self.fleet, true);
    }

    /// Lets time pass second by second.
    pub(crate) fn until(&mut self, secs: i64) {
        while self.now < at(secs) {
            self.now = self.now.plus_secs(1);
            self.api.act(self.now);
            self.settle();
        }
    }

    /// Tells the machine all news and does all that it wants, until it wants nothing.
    pub(crate) fn settle(&mut self) {
        loop {
            self.think();
            let mut idle = true;
            while let Some(effect) = self.machine.poll_effect() {
                idle = false;
                self.perform(&effect);
            }
            if idle && self.heard == self.api.log.len() {
                return;
            }
        }
    }

    /// Tells the machine all news and lets it decide; nothing is done.
    pub(crate) fn think(&mut self) {
        while let Some(change) = self.api.log.get(self.heard).cloned() {
            self.hear(&change);
            self.heard += 1;
        }
        self.machine.think(self.now, &self.fleet);
    }

    /// Does what an effect says, and answers.
    pub(crate) fn perform(&mut self, effect: &Effect) {
        let reply = self.api.perform(self.now, &effect.kind);
        match &effect.kind {
            EffectKind::Release { record, .. } => self.log("release", &record.pod.name),
            EffectKind::Copy { name, .. } => self.log("copy to", name),
            EffectKind::Ungate { pod, .. } => self.log("ungate", &pod.name),
            EffectKind::Evict { pod, .. } => self.log("evict", &pod.name),
            EffectKind::Delete { pod, .. } => self.log("delete", &pod.name),
            EffectKind::SetStatus { .. } | EffectKind::Event(_) => {}
        }
        self.machine.acknowledge(self.now, effect.id, reply);
    }

    /// All effects that are wanted now, but events.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        let effects = core::iter::from_fn(|| self.machine.poll_effect());
        effects.filter(|effect| !matches!(effect.kind, EffectKind::Event(_))).collect()
    }

    fn hear(&mut self, change: &Changed) {
        if let Some(told) = told(&self.api, change) {
            self.fleet.apply(told);
            let changes = self.fleet.take_changes();
            self.machine.tell_devices(&self.fleet, &changes);
        }
        if let Some(input) = input(&self.api, change) {
            self.machine.tell(input);
        }
    }

    fn log(&mut self, what: &str, name: &str) {
        self.done.push(format!("{} {what} {name}", self.now.as_secs()));
    }

    pub(crate) fn status(&self, policy: &str) -> Arc<Status> {
        self.api.policies[&key(policy)].status.clone()
    }

    /// `pod key condition` of each line of a status.
    pub(crate) fn lines(&self, policy: &str) -> Vec<String> {
        let line = |pod: &PodStatus| format!("{} {} {}", pod.node, pod.cause.key, pod.condition);
        self.status(policy).pods.iter().map(line).collect()
    }

    pub(crate) fn condition(&self, policy: &str, kind: &str) -> String {
        let status = self.status(policy);
        let found = status.conditions.iter().find(|condition| condition.kind == *kind).unwrap();
        format!("{:?} {}: {}", found.status, found.reason, found.message)
    }

    pub(crate) fn on(&self, node: &str) -> Vec<Pod> {
        self.api
            .pods
            .values()
            .map(|live| &live.pod)
            .filter(|pod| pod.node.as_deref() == Some(node))
            .cloned()
            .collect()
    }

    pub(crate) fn events(&self, reason: &str) -> usize {
        self.api.notes.iter().filter(|note| note.reason == reason).count()
    }
}

/// The machine's own input for a change.
pub(crate) fn input(api: &Api, change: &Changed) -> Option<Input> {
    Some(match change {
        Changed::Policy(key) => match api.policies.get(key) {
            Some(policy) => Input::Policy(Arc::new(policy.clone())),
            None => Input::PolicyGone(key.clone()),
        },
        Changed::Pod(key) => match api.pods.get(key) {
            Some(live) => Input::Pod(Arc::new(live.pod.clone())),
            None => Input::PodGone(key.clone()),
        },
        Changed::Node(name) => match api.nodes.get(name) {
            Some(node) => Input::Node(Arc::new(node.clone())),
            None => Input::NodeGone(name.clone()),
        },
        Changed::Set(key) => match api.replica_set(key) {
            Some(set) => Input::ReplicaSet(Arc::new(set)),
            None => Input::ReplicaSetGone(key.clone()),
        },
        Changed::Slice(_) | Changed::Claim(_) => return None,
    })
}
