//! Pods come and go, plugins restart, answers are lost and the process crashes anywhere. Safety is checked at
//! every step; liveness in the end, when everything works again.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_node::{
    Action, Answer, Call, ClaimKind, ClaimView, ClassicCall, Input, Life, Millis, Node, Outcome, PluginInfo,
    SeenNode, SeenPod, SocketId, checkpoint,
};

use crate::script::{claim, info, pod, well, well_classic};

const DRIVERS: [&str; 3] = ["d.example.com", "e.example.com", CLASSIC];
/// Its claims are classic ones.
const CLASSIC: &str = "f.example.com";
const DEVICES: [&str; 2] = ["gpu-0", "gpu-1"];
const STEPS: usize = 300;

/// The fault of the world that the node lives in; the invariants must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// Nothing.
    None,
    /// Checkpoints are acknowledged and not written.
    LoseCheckpoint,
    /// The node does not learn which devices claims have.
    HideDevices,
    /// A restart begins with nothing.
    ForgetAtRestart,
    /// A lost answer to Unprepare is taken for a success.
    BelieveUnprepared,
    /// The node does not hear which claims are waited for, and they are reported all the same.
    ReportEverything,
    /// A pod that is gone is not noticed.
    MissPods,
    /// The answer of a plugin is not kept.
    ForgetDevices,
    /// Of what a plugin answered, nothing reaches the disk: each crash comes before that.
    LoseAnswers,
}

/// Numbers that look random and are the same for a seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(sides).unwrap()).unwrap()
    }
}

struct World {
    mutant: Mutant,
    dice: Dice,
    now: Millis,
    node: Node,
    file: Option<Vec<u8>>,
    asked: Vec<(u64, Action)>,
    /// Claims that each plugin has prepared, by UID: which device.
    prepared: BTreeMap<&'static str, BTreeMap<String, String>>,
    sockets: BTreeMap<&'static str, u64>,
    pods: BTreeMap<String, SeenPod>,
    claims: BTreeMap<String, ClaimView>,
    awaiting: BTreeSet<String>,
    answered: BTreeSet<String>,
    offered: BTreeSet<String>,
    /// Pods that the node was not told of, or not of their newest state.
    untold: Vec<String>,
    is_listed: bool,
    made: usize,
    wrong: Vec<String>,
}

impl World {
    fn new(seed: u64, mutant: Mutant) -> Self {
        let mut world = Self {
            mutant,
            dice: Dice::of(seed),
            now: 0,
            node: Node::start(0, None).unwrap(),
            file: None,
            asked: Vec::new(),
            prepared: DRIVERS.iter().map(|driver| (*driver, BTreeMap::new())).collect(),
            sockets: BTreeMap::from([(DRIVERS[0], 1), (DRIVERS[1], 2), (DRIVERS[2], 3)]),
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            awaiting: BTreeSet::new(),
            answered: BTreeSet::new(),
            offered: BTreeSet::new(),
            untold: Vec::new(),
            is_listed: false,
            made: 0,
            wrong: Vec::new(),
        };
        world.collect();
        world.scan();
        world
    }

    fn collect(&mut self) {
        while let Some((id, action)) = self.node.poll() {
            match &action {
                Action::OfferDevices { pod, .. } => drop(self.offered.insert(pod.uid.clone())),
                Action::WithdrawDevices { pod_uid } => drop(self.offered.remove(pod_uid)),
                Action::Connect { kind, driver, endpoint, .. } => {
                    let (kind, driver, endpoint) = (*kind, driver.clone(), endpoint.clone());
                    let connected = Input::Connected { kind, driver, endpoint, is_connected: true };
                    self.node.handle(self.now, connected);
                }
                Action::Disconnect { .. }
                | Action::Freed { .. }
                | Action::Warn { .. }
                | Action::Began { .. }
                | Action::Ended { .. } => {}
                Action::ReadClaims { .. }
                | Action::Checkpoint { .. }
                | Action::Call { .. }
                | Action::CallClassic { .. }
                | Action::AskPlugin { .. }
                | Action::NotifyPlugin { .. }
                | Action::Wipe { .. }
                | Action::Report(_)
                | Action::ShowStatus { .. }
                | Action::DeletePod(_) => self.asked.push((id, action)),
            }
        }
    }

    fn hear(&mut self, input: Input) {
        self.node.handle(self.now, input);
        self.collect();
    }

    fn scan(&mut self) {
        let socket = |(driver, inode): (&&'static str, &u64)| {
            (format!("/{driver}-reg"), SocketId { device: 1, inode: *inode, changed_ns: 0 })
        };
        let sockets = self.sockets.iter().map(socket).collect();
        self.hear(Input::Sockets(sockets));
    }

    /// A device that no claim in the API has: what a scheduler gives to the next one.
    fn free_device(&mut self) -> Option<(&'static str, &'static str)> {
        let (driver, device) = (DRIVERS[self.dice.roll(DRIVERS.len())], DEVICES[self.dice.roll(2)]);
        let is_taken = self
            .claims
            .values()
            .any(|claim| claim.devices.iter().any(|held| held.driver == driver && held.device == device));
        (!is_taken).then_some((driver, device))
    }

    fn create_pod(&mut self) {
        let name = format!("p{}", self.made);
        let shared = self.claims.keys().next().cloned().filter(|_| self.dice.roll(3) == 0);
        let mut uses = Vec::new();
        if let Some(shared) = shared {
            self.claims.get_mut(&shared).unwrap().reserved_for.insert(name.clone());
            uses.push(shared);
        }
        for _ in 0..=self.dice.roll(2) {
            if let Some((driver, device)) = self.free_device() {
                let own = format!("c{}-{}", self.made, uses.len());
                let mut view = claim(&own, driver, device, &[&name]);
                if driver == CLASSIC {
                    view.id.kind = ClaimKind::Classic;
                    view.devices.clear();
                }
                self.claims.insert(own.clone(), view);
                uses.push(own);
            }
        }
        self.made += 1;
        let uses: Vec<&str> = uses.iter().map(String::as_str).collect();
        let mut made = pod(&name, &uses, Life::Wanted);
        let kind = |claim: &str| self.claims[claim].id.kind;
        for claim in &mut made.view.claims {
            claim.kind = kind(claim.name.as_deref().unwrap());
        }
        for (_, used) in &mut made.containers[0].claims {
            used.kind = kind(&used.claim);
        }
        self.pods.insert(name.clone(), made);
        self.untold.push(name);
    }

    fn some_pod(&mut self) -> Option<String> {
        let count = self.pods.len();
        (count > 0).then(|| self.pods.keys().nth(self.dice.roll(count)).unwrap().clone())
    }

    /// The pod's object goes, and so do the claims that no other pod uses.
    fn remove_pod(&mut self, name: &str, asks_the_node: bool) {
        self.pods.remove(name);
        self.untold.push(name.to_owned());
        let mut freed = Vec::new();
        for (claim, view) in &mut self.claims {
            if view.reserved_for.remove(name) && view.reserved_for.is_empty() {
                freed.push(claim.clone());
            }
        }
        for claim in freed {
            if asks_the_node {
                self.awaiting.insert(self.claims[&claim].id.uid.clone());
            } else {
                self.claims.remove(&claim);
            }
        }
        self.tell_node();
    }

    fn tell_node(&mut self) {
        let mut awaiting = self.awaiting.clone();
        if self.mutant == Mutant::ReportEverything {
            self.answered.append(&mut awaiting);
        }
        let unprepared = self.answered.clone();
        self.hear(Input::Node(SeenNode { reports: true, awaiting, unprepared }));
        // Claims reported as unprepared are given to other pods.
        let given: Vec<String> = self
            .claims
            .iter()
            .filter(|(_, claim)| {
                self.awaiting.contains(&claim.id.uid) && self.answered.contains(&claim.id.uid)
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in given {
            let claim = self.claims.remove(&name).unwrap();
            for (driver, prepared) in &self.prepared {
                if prepared.contains_key(&claim.id.uid) {
                    self.wrong.push(format!("{name} was reported unprepared and is prepared by {driver}"));
                }
            }
            self.awaiting.remove(&claim.id.uid);
            self.answered.remove(&claim.id.uid);
        }
    }

    fn tell_pod(&mut self) {
        if self.untold.is_empty() || !self.is_listed {
            return;
        }
        let name = self.untold.remove(0);
        match self.pods.get(&name).cloned() {
            Some(pod) => self.hear(Input::Pod(pod)),
            None if self.mutant == Mutant::MissPods => {}
            None => self.hear(Input::PodGone(name)),
        }
    }

    /// Carries out an action of the node. With faults it is not done, or its answer is lost.
    fn carry_out(&mut self, faults: bool) {
        if self.asked.is_empty() {
            return;
        }
        // Checkpoints are written in order; all else in any.
        let mut at = self.dice.roll(self.asked.len());
        if matches!(self.asked[at].1, Action::Checkpoint { .. }) {
            at = self
                .asked
                .iter()
                .position(|(_, action)| matches!(action, Action::Checkpoint { .. }))
                .unwrap();
        }
        let (id, action) = self.asked.remove(at);
        let fault = if faults { self.dice.roll(10) } else { 9 };
        let is_unprepare = match &action {
            Action::Call { call, .. } => *call == Call::Unprepare,
            _ => false,
        };
        let outcome = if fault == 0 { Outcome::Failed("not done".into()) } else { self.perform(action) };
        let is_lost = fault == 1;
        let believed = self.mutant == Mutant::BelieveUnprepared && is_unprepare && fault == 0;
        self.answer(id, if is_lost { Outcome::Failed("no answer".into()) } else { outcome }, believed);
    }

    fn answer(&mut self, id: u64, outcome: Outcome, believed: bool) {
        let outcome = if believed {
            let uids = self.node.claims().into_iter().map(|claim| (claim.uid, Ok(vec![])));
            Outcome::Answered(Answer::Claims(uids.collect()))
        } else {
            outcome
        };
        self.hear(Input::Outcome(id, outcome));
    }

    fn perform(&mut self, action: Action) -> Outcome {
        match action {
            Action::ReadClaims { names, .. } => {
                let found = names.into_iter().filter_map(|name| {
                    let mut claim = self.claims.get(&name.1).filter(|claim| claim.id.kind == name.0)?.clone();
                    if self.mutant == Mutant::HideDevices {
                        claim.devices.clear();
                    }
                    Some((name, claim))
                });
                Outcome::Claims(found.collect())
            }
            Action::Checkpoint { text, .. } => {
                if let Err(error) = checkpoint::read(&text) {
                    self.wrong.push(format!("the checkpoint cannot be read: {error}"));
                }
                let is_lost = match self.mutant {
                    Mutant::LoseCheckpoint => true,
                    Mutant::LoseAnswers => self.file.as_ref().is_some_and(|file| who(file) == who(&text)),
                    _ => false,
                };
                if !is_lost {
                    self.file = Some(text);
                }
                Outcome::Done
            }
            Action::Call { call, driver, claims, .. } => {
                let driver = DRIVERS.into_iter().find(|name| *name == driver).unwrap();
                for claim in &claims {
                    self.call(call, driver, claim);
                }
                let mut answers = well(call, driver, &claims);
                for claim in &claims {
                    let devices = answers.get_mut(&claim.uid).unwrap().as_mut().unwrap();
                    if let (Some(device), Some(name)) =
                        (devices.first_mut(), self.prepared[driver].get(&claim.uid))
                    {
                        device.device.clone_from(name);
                    }
                    // A device that needs nothing in a container is not in the answer.
                    if self.mutant == Mutant::ForgetDevices {
                        devices.clear();
                    }
                }
                Outcome::Answered(Answer::Claims(answers))
            }
            Action::CallClassic { call, driver, claim, .. } => {
                assert_eq!((driver.as_str(), claim.kind), (CLASSIC, ClaimKind::Classic));
                self.call_classic(&call, &claim)
            }
            Action::AskPlugin { socket } => Outcome::Plugin(plugin_at(&socket)),
            Action::Report(claims) => {
                self.answered = claims.intersection(&self.awaiting).cloned().collect();
                self.tell_node();
                Outcome::Done
            }
            Action::DeletePod(pod) => {
                if self.pods.contains_key(&pod.name) {
                    self.remove_pod(&pod.name, false);
                }
                Outcome::Done
            }
            Action::ShowStatus { pod, containers } => {
                if let Some(pod) = self.pods.get_mut(&pod.name) {
                    pod.shown = containers;
                }
                Outcome::Done
            }
            Action::NotifyPlugin { .. } | Action::Wipe { .. } => Outcome::Done,
            Action::Connect { .. }
            | Action::Disconnect { .. }
            | Action::OfferDevices { .. }
            | Action::WithdrawDevices { .. }
            | Action::Freed { .. }
            | Action::Warn { .. }
            | Action::Began { .. }
            | Action::Ended { .. } => unreachable!(),
        }
    }

    /// As the enhancement has it: a claim that is neither prepared nor there any more does not exist.
    fn call_classic(&mut self, call: &ClassicCall, claim: &lazaret_node::ClaimId) -> Outcome {
        let is_prepared = self.prepared[CLASSIC].contains_key(&claim.uid);
        if !is_prepared && !self.claims.contains_key(&claim.name) {
            return Outcome::Answered(Answer::NotFound("no such resource".into()));
        }
        self.call(call.call(), CLASSIC, claim);
        Outcome::Answered(Answer::Classic(well_classic(call, CLASSIC, claim)))
    }

    /// A plugin prepares or unprepares, and everything that must hold then is checked.
    fn call(&mut self, call: Call, driver: &'static str, claim: &lazaret_node::ClaimId) {
        let file = self.file.as_ref().map(|file| checkpoint::read(file).unwrap()).unwrap_or_default();
        let is_noted = file.iter().any(|state| state.uid == claim.uid && state.drivers.contains_key(driver));
        // Nothing has to be noted of what was never prepared.
        if !is_noted && (call == Call::Prepare || self.prepared[driver].contains_key(&claim.uid)) {
            self.wrong.push(format!("{call:?} of {}, which is not in the checkpoint", claim.name));
        }
        match call {
            Call::Unprepare => {
                self.prepared.get_mut(driver).unwrap().remove(&claim.uid);
            }
            Call::Prepare => {
                // A claim that was removed from the API meanwhile keeps what the plugin noted.
                let view = self.claims.get(&claim.name);
                let device = match view {
                    Some(_) if driver == CLASSIC => claim.uid.clone(),
                    Some(view) => view.devices[0].device.clone(),
                    None => "none".to_owned(),
                };
                let others = self.prepared[driver].iter().filter(|(uid, _)| **uid != claim.uid);
                for (other, _) in others.filter(|(_, held)| **held == device) {
                    self.wrong
                        .push(format!("{device} of {driver} is prepared for {other} and {}", claim.name));
                }
                if device != "none" {
                    self.prepared.get_mut(driver).unwrap().insert(claim.uid.clone(), device);
                }
            }
        }
    }

    /// The process ends; what was in flight is done or is not. Another takes over.
    fn crash(&mut self) {
        for (_, action) in std::mem::take(&mut self.asked) {
            if self.dice.roll(2) == 0 {
                self.perform(action);
            }
        }
        let file = self.file.clone().filter(|_| self.mutant != Mutant::ForgetAtRestart);
        self.node = Node::start(self.now, file.as_deref()).unwrap();
        // The shell keeps files of pods that hold something.
        let held: BTreeSet<String> =
            self.node.claims().into_iter().flat_map(|claim| claim.pods.into_keys()).collect();
        self.offered.retain(|pod| held.contains(pod));
        self.untold.clear();
        self.is_listed = false;
        self.collect();
        self.scan();
        self.tell_node();
    }

    fn list(&mut self) {
        if !self.is_listed {
            self.is_listed = true;
            self.untold.clear();
            let pods = self.pods.values().cloned().collect();
            self.hear(Input::Pods(pods));
        }
    }

    fn pass(&mut self, millis: Millis) {
        self.now += millis;
        self.node.tick(self.now);
        self.collect();
    }

    fn step(&mut self) {
        match self.dice.roll(40) {
            0..=2 => self.create_pod(),
            3 | 4 => {
                if let Some(name) = self.some_pod() {
                    let life = if self.dice.roll(2) == 0 { Life::Deleted } else { Life::Ended };
                    let pod = self.pods.get_mut(&name).unwrap();
                    if pod.life == Life::Wanted {
                        pod.life = life;
                    }
                    self.untold.push(name);
                }
            }
            5 => {
                if let Some(name) = self.some_pod() {
                    let asks = self.dice.roll(2) == 0;
                    self.remove_pod(&name, asks);
                }
            }
            6 => {
                let driver = DRIVERS[self.dice.roll(DRIVERS.len())];
                *self.sockets.get_mut(driver).unwrap() += 2;
                self.scan();
            }
            7 => {
                let driver = DRIVERS[self.dice.roll(DRIVERS.len())].to_owned();
                let (endpoint, is_connected) = (format!("/{driver}"), self.dice.roll(2) == 0);
                let kind = if driver == CLASSIC { ClaimKind::Classic } else { ClaimKind::Structured };
                self.hear(Input::Connected { kind, driver, endpoint, is_connected });
            }
            8 => self.crash(),
            9 | 10 => self.list(),
            11 | 12 => {
                let millis = self.dice.roll(40_000);
                self.pass(Millis::try_from(millis).unwrap());
            }
            13..=17 => self.tell_pod(),
            _ => self.carry_out(true),
        }
    }

    /// Everything works again, all pods are deleted, and there is time.
    fn end(&mut self) {
        self.list();
        for name in self.pods.keys().cloned().collect::<Vec<_>>() {
            self.remove_pod(&name, false);
        }
        for _ in 0..40 {
            while !self.untold.is_empty() {
                self.tell_pod();
            }
            for _ in 0..400 {
                self.carry_out(false);
            }
            self.tell_node();
            self.pass(61_000);
        }
        let left: Vec<_> = self.prepared.values().flatten().collect();
        if !left.is_empty() {
            self.wrong.push(format!("in the end there is prepared: {left:?}"));
        }
        if !self.node.claims().is_empty() || !self.offered.is_empty() {
            self.wrong.push(format!("in the end there is {:?} {:?}", self.node.claims(), self.offered));
        }
        let file = self.file.as_ref().map(|file| checkpoint::read(file).unwrap()).unwrap_or_default();
        if !file.is_empty() {
            self.wrong.push(format!("in the end the checkpoint has {file:?}"));
        }
        if self.node.wake().is_none_or(|at| at <= self.now) {
            self.wrong.push("in the end it does not rest".into());
        }
    }
}

fn plugin_at(socket: &str) -> PluginInfo {
    let driver = DRIVERS.into_iter().find(|driver| socket.contains(driver)).unwrap();
    let info = info(driver, &format!("/{driver}"));
    match driver {
        CLASSIC => PluginInfo { kind: "ResourcePlugin".into(), services: vec!["1.0.0".into()], ..info },
        _ => info,
    }
}

/// Claims, their pods and their drivers, without devices.
fn who(file: &[u8]) -> Vec<(String, Vec<String>, Vec<String>)> {
    let claims = checkpoint::read(file).unwrap().into_iter();
    claims
        .map(|claim| (claim.uid, claim.pods.into_keys().collect(), claim.drivers.into_keys().collect()))
        .collect()
}

fn play(seed: u64, mutant: Mutant) -> Vec<String> {
    let mut world = World::new(seed, mutant);
    for _ in 0..STEPS {
        world.step();
        if !world.wrong.is_empty() {
            return world.wrong;
        }
    }
    world.end();
    world.wrong
}

#[test]
fn no_device_twice_nothing_left_and_a_readable_checkpoint_whatever_fails() {
    let mut calls = 0;
    for seed in 1..=1_500 {
        let wrong = play(seed, Mutant::None);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
        calls += 1;
    }
    assert_eq!(calls, 1_500);
}

#[test]
fn every_mutant_is_found() {
    for mutant in [
        Mutant::LoseCheckpoint,
        Mutant::HideDevices,
        Mutant::ForgetAtRestart,
        Mutant::BelieveUnprepared,
        Mutant::ReportEverything,
        Mutant::MissPods,
    ] {
        let found = (1..=1_500).find(|seed| !play(*seed, mutant).is_empty());
        assert!(found.is_some(), "{mutant:?} is not noticed");
    }
    // A plugin that answers without devices hides nothing: what a claim was given is known.
    assert!((1..=300).all(|seed| play(seed, Mutant::ForgetDevices).is_empty()));
}

/// Why a pod need not wait for the second checkpoint: without it, the plugin is asked again.
#[test]
fn answers_that_never_reach_the_disk_cost_a_call_and_nothing_else() {
    for seed in 1..=1_500 {
        let wrong = play(seed, Mutant::LoseAnswers);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}
