//! Seeded worlds: pods and claims come and go in every way there is, news are late, writes fail, controllers start anew. At no time is a
//! device given to a claim while a node has it prepared for another, and in the end nothing is left waiting.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use lazaret_claims::{
    AskNode, ChangeClaim, ClaimStep, Claims, EffectKind, Input, Options, Outcome, SeenClaim,
};
use lazaret_model::{DeviceId, NodeReport, ObjectKey, Pod, PodPhase, ResourceClaim, Text, Timestamp, Uid};

use super::{allocation_on, claim_on, pod_on};

const SEEDS: u64 = 2_000;
const STEPS: usize = 250;
const NODES: u64 = 2;
const DEVICES: u64 = 2;

/// A fault on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// The controller gets the news that every pod had ended.
    AllEnded,
    /// The controller never gets nodes, and no answer about them.
    NoNodes,
    /// A node answers before it has unprepared.
    HastyAnswer,
}

struct Dice(u64);

impl Dice {
    /// An index below `count`.
    fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap()
    }

    fn millis(&mut self, most: u64) -> i64 {
        i64::try_from(self.below(most)).unwrap()
    }

    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }
}

#[derive(Default)]
struct Node {
    /// `None`: deleted.
    report: Option<NodeReport>,
    /// The claims that are really prepared there.
    prepared: BTreeMap<DeviceId, Uid>,
    /// Claims that no pod uses any more, and when they are unprepared.
    unused: BTreeMap<Uid, i64>,
}

struct World {
    dice: Dice,
    now: i64,
    version: u64,
    machine: Claims,
    mutant: Option<Mutant>,
    pods: BTreeMap<ObjectKey, Pod>,
    claims: BTreeMap<ObjectKey, SeenClaim>,
    nodes: BTreeMap<Text, Node>,
    /// The news that the watches of pods, claims and nodes have not delivered.
    news: [VecDeque<Input>; 3],
    wrong: Option<String>,
}

fn device(node: &Text, number: u64) -> DeviceId {
    DeviceId { driver: "gpu.example.com".into(), pool: node.clone(), device: format!("gpu-{number}").into() }
}

impl World {
    fn new(seed: u64, mutant: Option<Mutant>) -> Self {
        let mut world = Self {
            dice: Dice(seed),
            now: 1_000_000,
            version: 0,
            machine: Claims::new(Options::default()),
            mutant,
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            nodes: BTreeMap::new(),
            news: Default::default(),
            wrong: None,
        };
        (0..NODES).for_each(|number| world.register(&format!("node-{number}").into()));
        world.start_controller();
        world
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    fn next_version(&mut self) -> Text {
        self.version += 1;
        self.version.to_string().into()
    }

    fn register(&mut self, name: &Text) {
        let version = self.next_version();
        let uid = format!("node {version}").into();
        let report = NodeReport { name: name.clone(), uid, version, reports: true, ..NodeReport::default() };
        self.nodes.entry(name.clone()).or_default().report = Some(report);
        self.tell_node(name);
    }

    /// A controller without state gets all objects.
    fn start_controller(&mut self) {
        self.machine = Claims::new(Options::default());
        self.news = Default::default();
        let now = self.now();
        self.machine.handle(now, Input::PodsListed(self.pods.values().cloned().map(Arc::new).collect()));
        self.machine.handle(now, Input::ClaimsListed(self.claims.values().cloned().collect()));
        let names: Vec<Text> = self.nodes.keys().cloned().collect();
        names.iter().for_each(|name| self.tell_node(name));
        while let Some(input) = self.news[2].pop_front() {
            self.machine.handle(now, input);
        }
        self.machine.handle(now, Input::Synced);
        self.machine.handle(now, Input::BecameLeader);
    }

    fn tell_node(&mut self, name: &Text) {
        if self.mutant != Some(Mutant::NoNodes) {
            let report = self.nodes[name].report.clone();
            let gone = || Input::NodeGone(name.clone());
            self.news[2].push_back(report.map_or_else(gone, |report| Input::Node(Arc::new(report))));
        }
    }

    fn change_node(&mut self, name: &Text, change: impl FnOnce(&mut NodeReport)) {
        let version = self.next_version();
        let Some(report) = self.nodes.get_mut(name).and_then(|node| node.report.as_mut()) else { return };
        report.version = version;
        change(report);
        self.tell_node(name);
    }

    fn put_claim(&mut self, mut seen: SeenClaim) {
        seen.version = self.next_version();
        self.news[1].push_back(Input::Claim(seen.clone()));
        self.claims.insert(seen.claim.key.clone(), seen);
    }

    fn put_pod(&mut self, pod: Pod) {
        self.news[0].push_back(Input::Pod(Arc::new(pod.clone())));
        self.pods.insert(pod.key.clone(), pod);
    }
}

// === Events ===
impl World {
    fn step(&mut self) {
        self.now += self.dice.millis(400);
        match self.dice.below(20) {
            0..=5 => self.start_pod(),
            6 | 7 => self.end_pod(),
            8..=10 => self.lose_pod(),
            11 => self.remove_claim(),
            12 => self.lose_node(),
            13 => self.start_controller(),
            14 => self.list_pods_again(),
            15 => self.remove_allocation(),
            _ => {}
        }
        self.nodes_work();
        self.controller_works(true);
    }

    /// The scheduler gives a device to a new claim if no claim has it and no node is asked about it; the node prepares it.
    fn start_pod(&mut self) {
        let name: Text = format!("node-{}", self.dice.below(NODES)).into();
        let device = device(&name, self.dice.below(DEVICES));
        let given =
            |claim: &ResourceClaim| claim.allocation.iter().any(|a| a.held_devices().any(|id| *id == device));
        let asked = |node: &Node| {
            let entries = node.report.iter().flat_map(|report| &report.awaiting);
            entries.flat_map(|one| &one.devices).any(|id| *id == device)
        };
        let in_service = self.nodes[&name].report.as_ref().is_some_and(|report| !report.out_of_service);
        if !in_service
            || self.claims.values().any(|seen| given(&seen.claim))
            || self.nodes.values().any(asked)
        {
            return;
        }
        let name_of_pod = format!("p{}", self.version);
        let claim = claim_on(&name_of_pod, &[&name_of_pod], allocation_on(&name, &device));
        let uid = claim.claim.uid.clone();
        let prepared = &mut self.nodes.get_mut(&name).unwrap().prepared;
        if let Some(other) = prepared.insert(device.clone(), uid.clone()) {
            self.wrong.get_or_insert(format!("{device} is prepared for {other} and for {uid}"));
        }
        self.put_claim(claim);
        let pod = pod_on(&name_of_pod, &name);
        self.put_pod(Pod { node: None, phase: PodPhase::Pending, ..pod.clone() });
        self.put_pod(pod);
    }

    /// A watch that broke off: what happened to pods since is seen by what is there now.
    fn list_pods_again(&mut self) {
        self.news[0].clear();
        self.news[0].push_back(Input::PodsListed(self.pods.values().cloned().map(Arc::new).collect()));
    }

    fn any_pod(&mut self) -> Option<Pod> {
        let count = self.pods.len();
        (count > 0).then(|| self.pods.values().nth(self.dice.index(count)).unwrap().clone())
    }

    /// In order: unprepared, a terminal phase, gone.
    fn end_pod(&mut self) {
        let Some(mut pod) = self.any_pod() else { return };
        let claim: Uid = format!("uid of {}", pod.key.name).into();
        self.nodes.get_mut(pod.node.as_ref().unwrap()).unwrap().prepared.retain(|_, holder| *holder != claim);
        pod.phase = PodPhase::Succeeded;
        self.put_pod(pod.clone());
        self.remove_pod(&pod);
    }

    /// By force: its node finds out later.
    fn lose_pod(&mut self) {
        let Some(pod) = self.any_pod() else { return };
        let at = self.now + self.dice.millis(20_000);
        let claim: Uid = format!("uid of {}", pod.key.name).into();
        self.nodes.get_mut(pod.node.as_ref().unwrap()).unwrap().unused.insert(claim, at);
        if self.mutant == Some(Mutant::AllEnded) {
            self.put_pod(Pod { phase: PodPhase::Failed, ..pod.clone() });
        }
        self.remove_pod(&pod);
    }

    fn remove_pod(&mut self, pod: &Pod) {
        self.pods.remove(&pod.key);
        self.news[0].push_back(Input::PodGone {
            key: pod.key.clone(),
            uid: pod.uid.clone(),
            last_told: true,
        });
    }

    /// By hand, its finalizer first. Until the controller has asked the node, the scheduler keeps the device by itself.
    fn remove_claim(&mut self) {
        let Some(key) = self.any_claim() else { return };
        self.claims.remove(&key);
        self.news[1].push_back(Input::ClaimGone(key));
        self.settle();
    }

    /// By hand, with the reservations, in one write; the claim stays.
    fn remove_allocation(&mut self) {
        let Some(key) = self.any_claim() else { return };
        let mut seen = self.claims[&key].clone();
        let (allocation, reserved_for) = Default::default();
        seen.claim =
            Arc::new(ResourceClaim { allocation, reserved_for, ..ResourceClaim::clone(&seen.claim) });
        self.put_claim(seen);
        self.settle();
    }

    fn any_claim(&mut self) -> Option<ObjectKey> {
        let count = self.claims.len();
        (count > 0).then(|| self.claims.keys().nth(self.dice.index(count)).unwrap().clone())
    }

    /// A node is deleted and comes back, or is off for a while: nothing is prepared on it then.
    fn lose_node(&mut self) {
        let name: Text = format!("node-{}", self.dice.below(NODES)).into();
        let node = self.nodes.get_mut(&name).unwrap();
        node.unused.clear();
        node.prepared.clear();
        let lost: Vec<Pod> =
            self.pods.values().filter(|pod| pod.node.as_ref() == Some(&name)).cloned().collect();
        lost.iter().for_each(|pod| self.remove_pod(pod));
        if self.dice.below(2) == 0 {
            self.nodes.get_mut(&name).unwrap().report = None;
            self.tell_node(&name);
            self.settle();
            self.register(&name);
        } else {
            self.change_node(&name, |report| report.out_of_service = true);
            self.settle();
            self.change_node(&name, |report| report.out_of_service = false);
        }
    }

    fn nodes_work(&mut self) {
        let (now, hasty) = (self.now, self.mutant == Some(Mutant::HastyAnswer));
        let names: Vec<Text> = self.nodes.keys().cloned().collect();
        for name in names {
            let Node { report, prepared, unused } = self.nodes.get_mut(&name).unwrap();
            unused.retain(|claim, at| {
                if *at <= now {
                    prepared.retain(|_, holder| holder != claim);
                }
                *at > now
            });
            let Some(report) = report else { continue };
            let is_prepared = |uid: &Uid| !hasty && prepared.values().any(|holder| holder == uid);
            let asked = report.awaiting.iter().map(|one| one.uid.clone());
            let unprepared: BTreeSet<Uid> = asked.filter(|uid| !is_prepared(uid)).collect();
            if unprepared != report.unprepared {
                self.change_node(&name, |report| report.unprepared = unprepared);
            }
        }
    }
}

// === The controller ===
impl World {
    /// Some news, and some of what it wants done; not all writes succeed.
    fn controller_works(&mut self, faults: bool) {
        for watch in 0..3 {
            let count = if faults { self.dice.below(4) } else { u64::MAX };
            for _ in 0..count {
                let Some(input) = self.news[watch].pop_front() else { break };
                self.machine.handle(Timestamp::from_millis(self.now), input);
            }
        }
        self.machine.handle(self.now(), Input::Tick);
        while let Some(effect) = self.machine.poll_effect() {
            let fate = if faults { self.dice.below(10) } else { 9 };
            let outcome = match fate {
                0 => Outcome::RetryLater,
                1 => {
                    self.carry_out(&effect.kind);
                    Outcome::Unknown
                }
                _ => self.carry_out(&effect.kind),
            };
            self.machine.handle(self.now(), Input::Acknowledged { effect: effect.id, outcome, why: None });
            if faults && self.dice.below(3) == 0 {
                return;
            }
        }
    }

    /// Until the controller has nothing left to do, and nothing to try again soon.
    fn settle(&mut self) {
        for _ in 0..200 {
            self.now += 1_000;
            self.nodes_work();
            self.controller_works(false);
            let idle = self.news.iter().all(VecDeque::is_empty) && self.machine.in_flight() == 0;
            let due = self.machine.next_wake().is_some_and(|wake| wake.at <= self.now().plus_millis(60_000));
            if idle && !due {
                return;
            }
        }
    }

    fn carry_out(&mut self, effect: &EffectKind) -> Outcome {
        match effect {
            EffectKind::ChangeClaim(change) => self.change(change),
            EffectKind::AskNode(ask) => self.ask(ask),
            EffectKind::Confirm(holder) => {
                let lives = self.pods.get(&holder.key).is_some_and(|pod| pod.uid == holder.uid);
                if lives { Outcome::Done } else { Outcome::Gone }
            }
            EffectKind::ConfirmNode(name) => {
                let is_there = self
                    .nodes
                    .get(name)
                    .and_then(|node| node.report.as_ref())
                    .is_some_and(|report| !report.out_of_service);
                let reports = is_there && self.mutant != Some(Mutant::NoNodes);
                if reports { Outcome::Done } else { Outcome::Gone }
            }
            EffectKind::ClaimEvent(_) | EffectKind::Event(_) => Outcome::Done,
            EffectKind::CreateClaim(_) | EffectKind::SetClaimNames(_) => panic!("{effect:?}"),
        }
    }

    fn ask(&mut self, ask: &AskNode) -> Outcome {
        let report = self.nodes.get(&ask.node).and_then(|node| node.report.as_ref());
        let Some(report) = report.filter(|report| report.uid == ask.uid) else { return Outcome::Gone };
        if report.version != ask.version {
            return Outcome::Conflict;
        }
        self.change_node(&ask.node, |report| report.awaiting.clone_from(&ask.awaiting));
        Outcome::Done
    }

    fn change(&mut self, change: &ChangeClaim) -> Outcome {
        let Some(seen) = self.claims.get(&change.claim).filter(|seen| seen.claim.uid == change.uid) else {
            return Outcome::Gone;
        };
        if seen.version != change.version {
            return Outcome::Conflict;
        }
        let mut seen = seen.clone();
        let mut claim = ResourceClaim::clone(&seen.claim);
        for step in &change.steps {
            match step {
                ClaimStep::SetStatus { reserved_for, deallocate } => {
                    claim.reserved_for.clone_from(reserved_for);
                    if *deallocate {
                        claim.allocation = None;
                    }
                }
                ClaimStep::SetAwaiting(nodes) => seen.awaiting.clone_from(nodes),
                ClaimStep::SetFinalizers(left) => seen.finalizers.clone_from(left),
                ClaimStep::Delete => claim.deleting = true,
            }
        }
        seen.claim = Arc::new(claim);
        self.put_claim(seen);
        Outcome::Done
    }
}

fn play(seed: u64, mutant: Option<Mutant>) -> Option<String> {
    let mut world = World::new(seed, mutant);
    for _ in 0..STEPS {
        world.step();
        if world.wrong.is_some() {
            return world.wrong;
        }
    }
    world.now += 60_000;
    world.settle();
    let pods: BTreeSet<&Uid> = world.pods.values().map(|pod| &pod.uid).collect();
    let stuck = |seen: &&SeenClaim| {
        seen.claim.allocation.is_some()
            && !seen.claim.reserved_for.iter().any(|user| pods.contains(&user.uid))
    };
    let left = world.claims.values().find(stuck).map(|seen| format!("{} is still allocated", seen.claim.key));
    let asked = world.nodes.values().filter_map(|node| node.report.as_ref()).find_map(|report| {
        let running = |uid: &Uid| pods.iter().any(|pod| pod == &uid);
        let one = report.awaiting.iter().find(|one| !running(&one.uid))?;
        Some(format!("{} is still asked about {}", report.name, one.claim))
    });
    world.wrong.or(left).or(asked)
}

#[test]
fn no_device_is_prepared_for_two_claims_and_nothing_waits_for_ever() {
    for seed in 0..SEEDS {
        assert_eq!(play(seed, None), None, "seed {seed}");
    }
}

#[test]
fn every_mutant_is_caught() {
    for mutant in [Mutant::AllEnded, Mutant::NoNodes, Mutant::HastyAnswer] {
        let caught = (0..SEEDS).find_map(|seed| play(seed, Some(mutant)));
        let why = caught.unwrap_or_else(|| panic!("{mutant:?} survived {SEEDS} seeds"));
        assert!(why.contains("is prepared for"), "{mutant:?}: {why}");
    }
}
