//! Seeded runs in which news come late, twice or only with the next list, answers are lost, writes conflict, processes
//! die and leadership changes. Whatever happens: nobody is replaced early, nobody whose taint went, never more than the
//! limit at once, and at rest all is done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lazaret_fleet::Fleet;
use lazaret_model::{ObjectKey, Text, Timestamp, Uid};
use lazaret_replacement::{
    Effect, EffectId, EffectKind, Input, Mark, Options, Outcome, Pod, Replacement, Share, Spec, Strategy,
};

use crate::{
    api::{Api, Changed, Kind, at, disturbs, key, option, spec},
    runner::input,
};

/// News are at most this late, a write arrives at most this late, and a missed piece of news is made up for by then.
const LATE_MS_MAX: i64 = 8_000;
const NODES: usize = 8;
const CHAOS_SECS: i64 = 400;
const REST_SECS: i64 = 3_000;

/// A generator that is the same everywhere: xorshift64*.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % below
    }

    fn often(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }

    fn late(&mut self, ms_max: i64) -> i64 {
        i64::try_from(self.roll(u64::try_from(ms_max).unwrap())).unwrap()
    }
}

/// One process.
struct Process {
    machine: Replacement,
    leads: bool,
    /// News under way, by kind: a watch keeps the order of its own kind.
    news: [VecDeque<(Timestamp, Input)>; 4],
    /// Kinds whose watch has lost the thread, until the next list.
    lost: [Option<Timestamp>; 4],
    answers: Vec<(Timestamp, EffectId, Outcome)>,
}

/// When taints were there: node, key, from, to.
struct Stay {
    node: Text,
    key: Text,
    dated: bool,
    from: Timestamp,
    to: Option<Timestamp>,
}

/// A pod that was disturbed and is not yet made up for.
struct Disturbed {
    pod: Pod,
    policies: BTreeSet<ObjectKey>,
}

struct World {
    dice: Dice,
    api: Api,
    fleet: Fleet,
    now: Timestamp,
    processes: Vec<Process>,
    /// Writes on their way: when, from whom, what.
    writes: Vec<(Timestamp, usize, u64, EffectId, EffectKind)>,
    lives: Vec<u64>,
    stays: Vec<Stay>,
    disturbed: BTreeMap<Uid, Disturbed>,
    heard: usize,
    calm: bool,
    replaced: usize,
}

fn which(change: &Changed) -> usize {
    match change {
        Changed::Policy(_) => 0,
        Changed::Pod(_) => 1,
        Changed::Node(_) => 2,
        Changed::Set(_) => 3,
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut api = Api { ready_secs: 3, gone_secs: 2, ..Api::default() };
        for node in 0..NODES {
            api.add_node(&format!("n{node}"), &format!("z{}", node % 3));
        }
        api.add_set("web", Kind::ReplicaSet, 5);
        api.add_set("db", Kind::StatefulSet, 2);
        api.add_bare(at(0), "lone", false);
        api.add_bare(at(0), "pinned", true);
        for second in 0..10 {
            api.act(at(second));
        }
        let mut base = spec();
        base.node_options = vec![option("a", 20), option("b", 40), option("*", 30)];
        base.max_concurrent = 1 + u32::try_from(dice.roll(2)).unwrap();
        base.strategy = if dice.often(25) { Strategy::Recreate } else { Strategy::ReplaceFirst };
        base.fault_domain_key = dice.often(40).then(|| "zone".into());
        base.max_domains_tainted = dice.often(50).then_some(Share::Count(3));
        base.ready_secs = 60;
        api.set_policy("p", base.clone());
        if dice.often(50) {
            let other = Spec {
                node_options: vec![option("a", 35)],
                max_concurrent: 1,
                fault_domain_key: None,
                ..base
            };
            api.set_policy("q", other);
        }
        let mut world = Self {
            dice,
            api,
            fleet: Fleet::new(),
            now: at(10),
            processes: Vec::new(),
            writes: Vec::new(),
            lives: vec![0, 0],
            stays: Vec::new(),
            disturbed: BTreeMap::new(),
            heard: 0,
            calm: false,
            replaced: 0,
        };
        world.heard = world.api.log.len();
        for at in 0..2 {
            let process = world.process();
            world.processes.push(process);
            world.lead(at, at == 0);
        }
        world
    }

    /// A process that has read everything.
    fn process(&mut self) -> Process {
        let mut machine = Replacement::new(Options::default());
        for change in all(&self.api) {
            machine.tell(input(&self.api, &change));
        }
        let (news, lost) = (std::array::from_fn(|_| VecDeque::new()), [None; 4]);
        Process { machine, leads: false, news, lost, answers: Vec::new() }
    }

    fn lead(&mut self, at: usize, leads: bool) {
        let Self { processes, fleet, now, .. } = self;
        processes[at].leads = leads;
        processes[at].machine.lead(*now, fleet, leads);
    }

    fn step(&mut self) {
        let ahead = if self.dice.often(2) && !self.calm { 30_000 } else { 250 + self.dice.late(500) };
        self.now = self.now.plus_millis(ahead);
        self.administer();
        self.upset();
        self.api.act(self.now);
        self.arrive();
        self.tell();
        for at in 0..2 {
            self.run(at);
        }
        self.settle();
    }

    /// Taints come and go.
    fn administer(&mut self) {
        if self.calm {
            return;
        }
        if self.dice.often(6) {
            let node: Text = format!("n{}", self.dice.roll(NODES as u64)).into();
            let key: Text = ["a", "b", "c"][usize::try_from(self.dice.roll(3)).unwrap()].into();
            let there =
                self.stays.iter_mut().find(|stay| stay.node == node && stay.key == key && stay.to.is_none());
            if let Some(stay) = there {
                stay.to = Some(self.now);
                self.api.untaint(&node, &key);
            } else if self.stays.iter().filter(|stay| stay.to.is_none()).count() < NODES / 2 {
                let dated = self.dice.often(50);
                self.api.taint(&node, &key, dated.then_some(self.now));
                self.stays.push(Stay { node, key, dated, from: self.now, to: None });
            }
        }
        if self.dice.often(1) {
            self.api.budget = if self.api.budget.is_some() { None } else { Some(1) };
        }
    }

    /// Processes die, leadership changes, watches lose the thread.
    fn upset(&mut self) {
        if self.calm {
            return;
        }
        let at = usize::try_from(self.dice.roll(2)).unwrap();
        if self.dice.often(2) {
            self.lives[at] += 1;
            let leads = self.processes[at].leads;
            self.processes[at] = self.process();
            self.lead(at, leads);
        }
        if self.dice.often(2) {
            // A lease: what the old leader sent has arrived or is refused before the new one begins.
            let from = usize::from(self.processes[1].leads);
            self.lead(from, false);
            self.writes.clear();
            self.lives[from] += 1;
            self.processes[from].answers.clear();
            self.catch_up(1 - from);
            self.lead(1 - from, true);
        }
        if self.dice.often(3) {
            let kind = usize::try_from(self.dice.roll(4)).unwrap();
            let until = self.now.plus_millis(self.dice.late(LATE_MS_MAX / 2));
            self.processes[at].lost[kind].get_or_insert(until);
        }
    }

    /// Reads everything again.
    fn catch_up(&mut self, at: usize) {
        for kind in 0..4 {
            self.processes[at].news[kind].clear();
            self.processes[at].lost[kind] = None;
            self.relist(at, kind);
        }
    }

    fn relist(&mut self, at: usize, kind: usize) {
        let Self { processes, api, .. } = self;
        // What is gone is told as well, as a list tells it.
        let changes =
            all(api).into_iter().chain(api.log.iter().cloned()).filter(|change| which(change) == kind);
        let mut told: Vec<Changed> = Vec::new();
        for change in changes {
            if !told.contains(&change) {
                processes[at].machine.tell(input(api, &change));
                told.push(change);
            }
        }
    }

    /// Writes reach the API, or do not.
    fn arrive(&mut self) {
        let (due, later): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.writes).into_iter().partition(|write| write.0 <= self.now);
        self.writes = later;
        for (_, from, life, id, kind) in due {
            let fault = if self.calm { 100 } else { self.dice.roll(100) };
            let outcome = match fault {
                0..4 => Outcome::RetryLater,
                4..7 => Outcome::Unknown,
                7..9 => Outcome::Conflict,
                fault => {
                    let before = self.before(&kind);
                    let outcome = self.api.perform(self.now, &kind);
                    if matches!(outcome, Outcome::Done(_)) {
                        self.check(&kind, before);
                    }
                    if fault < 12 { Outcome::Unknown } else { outcome }
                }
            };
            if self.lives[from] == life {
                let at = self.now.plus_millis(self.dice.late(1_000));
                self.processes[from].answers.push((at, id, outcome));
            }
        }
    }

    /// News go out to every process.
    fn tell(&mut self) {
        let changes: Vec<Changed> = self.api.log[self.heard..].to_vec();
        self.heard = self.api.log.len();
        for change in changes {
            for at in 0..2 {
                let kind = which(&change);
                if self.processes[at].lost[kind].is_some() {
                    continue;
                }
                let late = if self.calm { 1 } else { LATE_MS_MAX / 4 };
                let last = self.processes[at].news[kind].back().map_or(self.now, |news| news.0);
                let arrives = last.max(self.now.plus_millis(self.dice.late(late)));
                let news = input(&self.api, &change);
                if self.dice.often(5) {
                    self.processes[at].news[kind].push_back((arrives, news.clone()));
                }
                self.processes[at].news[kind].push_back((arrives, news));
            }
        }
    }

    fn run(&mut self, at: usize) {
        for kind in 0..4 {
            while self.processes[at].news[kind].front().is_some_and(|news| news.0 <= self.now) {
                if let Some((_, news)) = self.processes[at].news[kind].pop_front() {
                    self.processes[at].machine.tell(news);
                }
            }
            if self.processes[at].lost[kind].is_some_and(|until| until <= self.now) {
                self.processes[at].lost[kind] = None;
                self.processes[at].news[kind].clear();
                self.relist(at, kind);
            }
        }
        let Self { processes, fleet, now, dice, writes, lives, api, calm, .. } = self;
        let process = &mut processes[at];
        let (due, later) =
            core::mem::take(&mut process.answers).into_iter().partition(|answer| answer.0 <= *now);
        process.answers = later;
        for (_, id, outcome) in due {
            process.machine.acknowledge(*now, id, outcome);
        }
        process.machine.think(*now, fleet);
        while let Some(Effect { id, kind }) = process.machine.poll_effect() {
            assert!(process.leads, "who does not lead does nothing");
            if let EffectKind::Event(note) = kind {
                api.notes.push(note);
                continue;
            }
            let arrives = now.plus_millis(dice.late(if *calm { 10 } else { LATE_MS_MAX / 4 }));
            writes.push((arrives, at, lives[at], id, kind));
        }
    }

    /// The pod that is about to be disturbed or deleted, if it was not before.
    fn before(&self, effect: &EffectKind) -> Option<Pod> {
        if let EffectKind::Delete { pod, uid } = effect {
            let live = self.api.pods.get(pod).filter(|live| live.pod.uid == *uid && !live.pod.deleting)?;
            return Some(live.pod.clone());
        }
        let (key, uid) = disturbs(effect)?;
        let live = self.api.pods.get(&key).filter(|live| live.pod.uid == uid && !live.pod.deleting)?;
        (!self.disturbed.contains_key(&uid)).then(|| live.pod.clone())
    }

    /// A pod was disturbed: was it time, was there a reason, was there a slot?
    fn check(&mut self, effect: &EffectKind, pod: Option<Pod>) {
        let Some(pod) = pod else { return };
        if let EffectKind::Delete { .. } = effect {
            return self.check_delete(&pod);
        }
        let node = pod.node.clone().unwrap();
        let specs: Vec<(ObjectKey, Spec)> = self
            .api
            .policies
            .values()
            .map(|policy| (policy.key.clone(), (**policy.spec.as_ref().unwrap()).clone()))
            .collect();
        let ripe =
            specs.iter().any(|(_, spec)| self.stays.iter().any(|stay| self.is_ripe(spec, stay, &node, &pod)));
        assert!(ripe, "{:?}: {} replaced early or for a taint that went", self.now, pod.key);
        self.replaced += 1;
        let policies: BTreeSet<ObjectKey> = specs.iter().map(|(key, _)| key.clone()).collect();
        self.disturbed.insert(pod.uid.clone(), Disturbed { pod, policies });
        self.settle();
        for (policy, spec) in &specs {
            let mut counts: BTreeMap<Text, u32> = BTreeMap::new();
            for disturbed in self.disturbed.values().filter(|disturbed| disturbed.policies.contains(policy)) {
                let node = disturbed.pod.node.as_ref().unwrap();
                let zone = spec.fault_domain_key.as_ref().map(|key| self.api.nodes[node].labels[key].clone());
                *counts.entry(zone.unwrap_or_default()).or_default() += 1;
            }
            for (zone, count) in counts {
                let limit = spec.max_concurrent;
                assert!(
                    count <= limit,
                    "{:?}: {count} under way in {zone:?}, {policy} permits {limit}",
                    self.now
                );
            }
        }
    }

    fn is_ripe(&self, spec: &Spec, stay: &Stay, node: &Text, pod: &Pod) -> bool {
        if stay.node != *node {
            return false;
        }
        let exact = spec.node_options.iter().find(|option| option.key == stay.key);
        let Some(option) = exact.or_else(|| spec.node_options.iter().find(|option| option.key == "*")) else {
            return false;
        };
        // An undated taint that went and came back between two lists looks as if it had stayed.
        let mut from = stay.from;
        for earlier in self
            .stays
            .iter()
            .rev()
            .filter(|s| !s.dated && !stay.dated && s.node == stay.node && s.key == stay.key)
        {
            if earlier.to.is_some_and(|to| to <= from && from.millis_since(to) <= LATE_MS_MAX) {
                from = earlier.from;
            }
        }
        let since = from.max(pod.created);
        let fresh = stay.to.is_none_or(|to| self.now.millis_since(to) <= LATE_MS_MAX + 31_000);
        fresh && since.plus_secs(option.secs + spec.replacement_secs) <= self.now
    }

    /// A pod whose place is taken goes: is its place taken?
    fn check_delete(&self, old: &Pod) {
        let Some(Mark::Released(record)) = &old.mark else { return };
        let lazaret_replacement::Plan::Release { owner, .. } = &record.plan else { return };
        let serving = self.api.owned(&owner.uid).filter(|pod| pod.ready && !pod.deleting).count();
        let missing = self
            .disturbed
            .values()
            .filter(|other| {
                other.pod.uid != old.uid && other.pod.owner.as_ref().is_some_and(|o| o.uid == owner.uid)
            })
            .count();
        let wanted = self.api.sets.iter().find(|set| set.uid == owner.uid).unwrap().replicas as usize;
        assert!(
            serving + missing >= wanted,
            "{:?}: {} deleted, {serving} of {wanted} serve",
            self.now,
            old.key
        );
    }

    /// Forgets who was made up for.
    fn settle(&mut self) {
        let api = &self.api;
        self.disturbed.retain(|uid, disturbed| {
            let pod = &disturbed.pod;
            let old = api.pods.get(&pod.key).filter(|live| live.pod.uid == *uid);
            let leaving = old.is_none_or(|live| live.pod.deleting);
            let done = match &pod.owner {
                // The machine deletes it only when its place is taken; a restart may evict instead.
                Some(owner) if owner.kind == "ReplicaSet" => {
                    let set = api.sets.iter().find(|set| set.uid == owner.uid).unwrap();
                    api.owned(&owner.uid).filter(|pod| pod.ready && !pod.deleting).count()
                        >= set.replicas as usize
                        || old.is_some_and(|live| live.pod.mark.is_some())
                        || old.is_none()
                }
                Some(_) => api.pods.get(&pod.key).is_some_and(|live| live.pod.uid != *uid && live.pod.ready),
                None => api.pods.values().any(|live| {
                    live.pod.ready && matches!(&live.pod.mark, Some(Mark::Copy(record)) if record.uid == *uid)
                }),
            };
            !(leaving && done)
        });
    }

    /// Whether there is nothing left to do.
    fn check_rest(&self) {
        for live in self.api.pods.values() {
            let pod = &live.pod;
            assert!(
                !matches!(pod.mark, Some(Mark::Released(_))),
                "{} was released and never deleted",
                pod.key
            );
            assert!(!pod.gated, "{} was never let start", pod.key);
            let node = pod.node.as_ref().unwrap_or_else(|| panic!("{} was never scheduled", pod.key));
            assert!(self.api.nodes[node].taints.is_empty(), "{} sits on tainted {node}", pod.key);
        }
        for policy in self.api.policies.values() {
            assert!(policy.status.replacements.is_empty(), "{} says that something is under way", policy.key);
            assert!(policy.status.pods.is_empty(), "{} says that pods are tainted", policy.key);
        }
        assert_eq!(self.disturbed.len(), 0);
    }
}

fn all(api: &Api) -> Vec<Changed> {
    let policies = api.policies.keys().map(|key| Changed::Policy(key.clone()));
    let pods = api.pods.keys().map(|key| Changed::Pod(key.clone()));
    let nodes = api.nodes.keys().map(|name| Changed::Node(name.clone()));
    let sets = api.sets.iter().map(|set| Changed::Set(key(&set.name)));
    policies.chain(pods).chain(nodes).chain(sets).collect()
}

/// One run; how many pods were replaced in it.
fn run(seed: u64) -> usize {
    let mut world = World::new(seed);
    while world.now < at(CHAOS_SECS) {
        world.step();
    }
    world.calm = true;
    world.api.budget = None;
    // The breaker must be able to close: at most two nodes stay tainted.
    let open: Vec<(Text, Text)> = world
        .stays
        .iter()
        .filter(|stay| stay.to.is_none())
        .map(|stay| (stay.node.clone(), stay.key.clone()))
        .collect();
    let keep: BTreeSet<Text> = open.iter().map(|(node, _)| node.clone()).take(2).collect();
    for (node, key) in open.iter().filter(|(node, _)| !keep.contains(node)) {
        world.api.untaint(node, key);
        let stay =
            world.stays.iter_mut().find(|stay| stay.node == *node && stay.key == *key && stay.to.is_none());
        stay.unwrap().to = Some(world.now);
    }
    while world.now < at(CHAOS_SECS + REST_SECS) {
        world.step();
        if world.now > at(CHAOS_SECS + 300) {
            world.now = world.now.plus_secs(2);
        }
    }
    world.check_rest();
    world.replaced
}

fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("LAZARET_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let first = std::env::var("LAZARET_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    first..first + count
}

#[test]
fn whatever_goes_wrong_the_four_promises_hold() {
    let mut replaced = 0;
    for seed in seeds() {
        let result = std::panic::catch_unwind(|| run(seed));
        replaced += result.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            panic!("seed {seed}: {text}")
        });
    }
    assert!(replaced as u64 >= seeds().count() as u64, "only {replaced} pods were replaced in all runs");
}
