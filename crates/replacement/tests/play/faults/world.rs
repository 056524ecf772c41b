//! A cluster with two processes that want to lead, and everything that can go wrong between them and it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lazaret_fleet::{Fleet, Input as Told};
use lazaret_machine::Machine as _;
use lazaret_model::{ObjectKey, Text, Timestamp, Uid};
use lazaret_replacement::{Effect, EffectId, EffectKind, Input, Options, Outcome, Pod, Replacement, Reply};

use super::{dice::Dice, fate::set_policies, mutants::Mutant};
use crate::{
    api::{Api, Changed, Kind, at, key},
    holdings::told,
    runner::input,
};

/// News are at most this late, a write arrives at most this late, and a missed piece of news is made up for by then.
pub(super) const LATE_MS_MAX: i64 = 8_000;
pub(super) const NODES: usize = 8;
pub(super) const KINDS: usize = 6;

/// One process.
pub(super) struct Process {
    machine: Replacement,
    fleet: Fleet,
    pub(super) leads: bool,
    /// News on their way, by kind: a watch keeps the order of its own kind.
    news: [VecDeque<(Timestamp, News)>; KINDS],
    /// Kinds whose watch has lost the thread, until the next list.
    pub(super) lost: [Option<Timestamp>; KINDS],
    pub(super) answers: Vec<(Timestamp, EffectId, Reply)>,
}

/// A piece of news, for the fleet and for the machine.
type News = (Option<Told>, Option<Input>);

/// A tainted place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A node.
    Node(Text),
    /// The device of a node.
    Device(Text),
}

impl Place {
    pub(super) fn node(&self) -> &Text {
        match self {
            Self::Node(node) | Self::Device(node) => node,
        }
    }
}

/// When a taint was there.
pub(super) struct Stay {
    pub(super) place: Place,
    pub(super) key: Text,
    pub(super) dated: bool,
    pub(super) from: Timestamp,
    pub(super) to: Option<Timestamp>,
}

/// A pod that was disturbed and is not yet made up for.
pub(super) struct Disturbed {
    pub(super) pod: Pod,
    pub(super) policies: BTreeSet<ObjectKey>,
}

pub(super) struct World {
    pub(super) dice: Dice,
    mutant: Mutant,
    pub(super) api: Api,
    pub(super) now: Timestamp,
    pub(super) processes: Vec<Process>,
    /// Writes on their way: when, from which process, in which of its lives, the effect.
    pub(super) writes: Vec<(Timestamp, usize, u64, EffectId, EffectKind)>,
    pub(super) lives: Vec<u64>,
    pub(super) stays: Vec<Stay>,
    pub(super) disturbed: BTreeMap<Uid, Disturbed>,
    /// Pods whose replacement was recorded.
    pub(super) recorded: BTreeSet<Uid>,
    /// When each policy's breaker last let new ones through.
    pub(super) passable: BTreeMap<ObjectKey, Timestamp>,
    heard: usize,
    pub(super) calm: bool,
    traced: bool,
    pub(super) replaced: usize,
}

fn which(change: &Changed) -> usize {
    match change {
        Changed::Policy(_) => 0,
        Changed::Pod(_) => 1,
        Changed::Node(_) => 2,
        Changed::Set(_) => 3,
        Changed::Slice(_) => 4,
        Changed::Claim(_) => 5,
    }
}

impl World {
    pub(super) fn new(seed: u64, mutant: Mutant) -> Self {
        let mut dice = Dice::new(seed);
        let mut api = Api { ready_secs: 3, gone_secs: 2, ..Api::default() };
        for node in 0..NODES {
            api.add_node(&format!("n{node}"), &format!("z{}", node % 3));
            api.taint_device(&format!("n{node}"), "", None);
        }
        api.add_set("web", Kind::ReplicaSet, 3, false);
        api.add_set("gpu", Kind::ReplicaSet, 2, true);
        api.add_set("db", Kind::StatefulSet, 2, false);
        api.add_bare(at(0), "lone", false, dice.often(50));
        api.add_bare(at(0), "pinned", true, false);
        for second in 0..10 {
            api.act(at(second));
        }
        set_policies(&mut dice, &mut api);
        let mut world = Self {
            dice,
            mutant,
            api,
            now: at(10),
            processes: Vec::new(),
            writes: Vec::new(),
            lives: vec![0, 0],
            stays: Vec::new(),
            disturbed: BTreeMap::new(),
            recorded: BTreeSet::new(),
            passable: BTreeMap::new(),
            heard: 0,
            calm: false,
            traced: std::env::var_os("LAZARET_TRACE").is_some(),
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
    pub(super) fn process(&mut self) -> Process {
        let mut process = Process {
            machine: Replacement::new(Options::default()),
            fleet: Fleet::new(),
            leads: false,
            news: std::array::from_fn(|_| VecDeque::new()),
            lost: [None; KINDS],
            answers: Vec::new(),
        };
        for change in all(&self.api) {
            process.hear(self.news(&change));
        }
        process
    }

    /// The news of a change that a process receives.
    fn news(&self, change: &Changed) -> News {
        let input = input(&self.api, change);
        (told(&self.api, change), input.map(|input| self.mutant.disguise(&self.stays, input)))
    }

    pub(super) fn lead(&mut self, at: usize, leads: bool) {
        if leads && self.mutant == Mutant::Forgetful {
            for change in all(&self.api) {
                let (_, input) = self.news(&change);
                self.processes[at].hear((None, input.map(Mutant::forget)));
            }
        }
        let clock = self.mutant.clock(self.now);
        let Process { machine, fleet, leads: was, .. } = &mut self.processes[at];
        *was = leads;
        machine.lead(clock, fleet, leads);
    }

    pub(super) fn step(&mut self) {
        let ahead = if self.dice.often(2) && !self.calm { 30_000 } else { 250 + self.dice.late(500) };
        self.now = self.now.plus_millis(ahead);
        self.administer();
        self.upset();
        self.api.act(self.now);
        self.watch_breakers();
        self.arrive();
        self.tell();
        for at in 0..2 {
            self.run(at);
        }
        self.settle();
    }

    /// Reads everything again.
    pub(super) fn catch_up(&mut self, at: usize) {
        for kind in 0..KINDS {
            self.processes[at].news[kind].clear();
            self.processes[at].lost[kind] = None;
            self.relist(at, kind);
        }
    }

    fn relist(&mut self, at: usize, kind: usize) {
        // A list reports deleted objects as well.
        let changes: BTreeSet<Changed> = all(&self.api)
            .into_iter()
            .chain(self.api.log.iter().cloned())
            .filter(|change| which(change) == kind)
            .collect();
        for change in changes {
            let news = self.news(&change);
            self.processes[at].hear(news);
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
                0..4 => Outcome::RetryLater.into(),
                4..7 => Outcome::Unknown.into(),
                7..9 => Outcome::Conflict.into(),
                fault => {
                    let before = self.before(&kind);
                    let outcome = self.mutant.perform(&mut self.api, self.now, &kind);
                    self.trace(|| format!("{from}: {}: {outcome:?}", brief(&kind)));
                    if outcome.outcome == Outcome::Done {
                        self.check(&kind, before);
                    }
                    if fault < 12 { Outcome::Unknown.into() } else { outcome }
                }
            };
            if self.lives[from] == life {
                let at = self.now.plus_millis(self.dice.late(1_000));
                self.processes[from].answers.push((at, id, outcome));
            }
        }
    }

    /// Prints the events, if asked for: `LAZARET_TRACE`, with `--nocapture`.
    #[allow(clippy::print_stdout, reason = "somebody wants to read it")]
    pub(super) fn trace(&self, what: impl FnOnce() -> String) {
        if self.traced {
            println!("{:?} {}", self.now, what());
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
                let news = self.news(&change);
                if self.dice.often(5) {
                    self.processes[at].news[kind].push_back((arrives, news.clone()));
                }
                self.processes[at].news[kind].push_back((arrives, news));
            }
        }
    }

    fn run(&mut self, at: usize) {
        for kind in 0..KINDS {
            while self.processes[at].news[kind].front().is_some_and(|news| news.0 <= self.now) {
                if let Some((_, news)) = self.processes[at].news[kind].pop_front() {
                    self.processes[at].hear(news);
                }
            }
            if self.processes[at].lost[kind].is_some_and(|until| until <= self.now) {
                self.processes[at].lost[kind] = None;
                self.processes[at].news[kind].clear();
                self.relist(at, kind);
            }
        }
        let clock = self.mutant.clock(self.now);
        let process = &mut self.processes[at];
        let (due, later) =
            core::mem::take(&mut process.answers).into_iter().partition(|answer| answer.0 <= self.now);
        process.answers = later;
        for (_, id, outcome) in due {
            process.machine.acknowledge(clock, id, outcome);
        }
        process.machine.think(clock, &process.fleet);
        while let Some(Effect { id, kind }) = self.processes[at].machine.poll_effect() {
            assert!(self.processes[at].leads, "who does not lead does nothing");
            if let EffectKind::Event(note) = kind {
                self.api.notes.push(note);
                continue;
            }
            self.check_records(&kind);
            let late = if self.calm { 10 } else { LATE_MS_MAX / 4 };
            let arrives = self.now.plus_millis(self.dice.late(late));
            self.writes.push((arrives, at, self.lives[at], id, kind));
        }
    }
}

impl Process {
    fn hear(&mut self, (told, input): News) {
        if let Some(told) = told {
            self.fleet.apply(told);
            let changes = self.fleet.take_changes();
            self.machine.tell_devices(&self.fleet, &changes);
        }
        if let Some(input) = input {
            self.machine.tell(input);
        }
    }
}

/// An effect in a few words.
fn brief(effect: &EffectKind) -> String {
    match effect {
        EffectKind::SetStatus { policy, status, .. } => {
            let pods = status.replacements.iter().map(|entry| &*entry.record.pod.name);
            format!("{policy} under way {:?}", pods.collect::<Vec<_>>())
        }
        EffectKind::Release { record, .. } => format!("release {}", record.pod),
        EffectKind::Copy { record, .. } => format!("copy {}", record.pod),
        EffectKind::Ungate { pod, .. } => format!("ungate {pod}"),
        EffectKind::Evict { pod, .. } => format!("evict {pod}"),
        EffectKind::Delete { pod, .. } => format!("delete {pod}"),
        EffectKind::Event(note) => format!("tell of {}", note.key),
    }
}

/// Everything there is.
fn all(api: &Api) -> Vec<Changed> {
    let policies = api.policies.keys().map(|key| Changed::Policy(key.clone()));
    let pods = api.pods.keys().map(|key| Changed::Pod(key.clone()));
    let nodes = api.nodes.keys().map(|name| Changed::Node(name.clone()));
    let sets = api.sets.iter().map(|set| Changed::Set(key(&set.name)));
    let slices = api.devices.keys().map(|node| Changed::Slice(node.clone()));
    let claims = api.pods.keys().map(|key| Changed::Claim(key.clone()));
    policies.chain(pods).chain(nodes).chain(sets).chain(slices).chain(claims).collect()
}
