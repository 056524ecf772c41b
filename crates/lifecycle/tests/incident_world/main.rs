//! A world with an API that loses answers, watches that lag, controllers that crash and take turns: what holds at every step, and at rest.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of a die")]

mod objects;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lazaret_lifecycle::{
    Acts, Child, ChildKind, ChildTarget, History, Incident, Input, Mode, Notice, Owner, PersonAct,
    Reconciler, Report, Signal, Source, Stage, Stored, Write, WriteKind,
};
use lazaret_machine::Outcome;
use lazaret_model::{DeviceId, Text, Timestamp};

use objects::{Api, Dice, Event, KEYS, Mutant, View, id, policy};

const SECOND: i64 = 1_000;
const DEVICES: [&str; 3] = ["gpu-0", "gpu-1", "gpu-2"];
/// After as many rounds in which nothing happens nothing will.
const QUIET_ROUNDS: usize = 40;
/// Nobody's rule, of the name that an incident's rule would have.
const FOREIGN: &str = "theirs";

/// One controller with its watch.
struct Controller {
    core: Reconciler,
    view: View,
    /// How much of the log it has heard.
    heard: usize,
    leads: bool,
    in_flight: VecDeque<Write>,
}

struct World {
    api: Api,
    dice: Dice,
    now: i64,
    controllers: Vec<Controller>,
    mutant: Mutant,
    used: BTreeMap<DeviceId, bool>,
    raised: BTreeSet<(DeviceId, Text)>,
    /// The last stage of each incident, and whether a person acted since.
    stages: BTreeMap<Text, (Stage, bool)>,
    broken: Option<String>,
    seen: BTreeSet<&'static str>,
    /// What was last done, for whoever looks for a cause.
    trace: VecDeque<String>,
}

/// Lines of a trace.
const TRACE_MAX: usize = 60;

impl World {
    fn new(seed: u64, mutant: Mutant) -> Self {
        let mut world = Self {
            api: Api::default(),
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            now: 1_000_000,
            controllers: Vec::new(),
            mutant,
            used: DEVICES.iter().map(|device| (id(device), true)).collect(),
            raised: BTreeSet::new(),
            stages: BTreeMap::new(),
            broken: None,
            seen: BTreeSet::new(),
            trace: VecDeque::new(),
        };
        world.api.foreign.insert(FOREIGN.into());
        world.api.guard.permitted = world.dice.roll(4);
        for _ in 0..2 {
            let fresh = world.fresh();
            world.controllers.push(fresh);
        }
        world
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    /// A controller that was just started, and has listed everything.
    fn fresh(&self) -> Controller {
        let history = History { keep_ms: 600 * SECOND, incidents_max: 8 };
        let mut core = Reconciler::new(history);
        let now = self.at();
        core.handle(now, Notice::Heard(Input::Policy(Box::new(policy(self.mode())))));
        let tallies = self.api.tallies.clone();
        core.handle(now, Notice::Heard(Input::Counted { policy: "p".into(), tallies }));
        for device in DEVICES {
            let hardware = Some(format!("uuid-{device}").into());
            let input = Input::Device { id: id(device), hardware, policies: vec!["p".into()] };
            core.handle(now, Notice::Heard(input));
        }
        if self.mutant != Mutant::ForgetsIncidents {
            for stored in self.api.incidents.values() {
                core.handle(now, Notice::Stored(Box::new(stored.clone())));
            }
        }
        for child in self.api.children.values() {
            core.handle(now, Notice::Child(child.clone()));
        }
        for report in self.api.reports.values() {
            core.handle(now, Notice::Report(report.clone()));
        }
        for (device, key) in &self.raised {
            core.handle(now, Notice::Heard(Input::Raised(signal(device, key, now, Source::Taint))));
        }
        for (device, is_used) in &self.used {
            core.handle(now, Event::Used(device.clone(), *is_used).notice().unwrap());
        }
        let mut view = View { tainted: self.api.tainted.clone(), guard: self.api.guard, ..View::default() };
        for child in self.api.children.values() {
            view.see(&Event::Child(child.clone()));
        }
        Controller { core, view, heard: self.api.log.len(), leads: false, in_flight: VecDeque::new() }
    }

    fn mode(&self) -> Mode {
        self.api.mode.unwrap_or(Mode::Enforce)
    }

    /// A controller counts what is out of service, as far as it has heard.
    fn tell_limits(&mut self, which: usize) {
        if self.mutant == Mutant::ForgetsGuards {
            return;
        }
        let now = self.at();
        let controller = &mut self.controllers[which];
        controller.core.handle(now, Notice::Heard(Input::Limits(controller.view.limits())));
    }

    /// A controller hears some of what happened.
    fn hear(&mut self, which: usize, most: usize) {
        let now = self.at();
        for _ in 0..most {
            let heard = self.api.log.get(self.controllers[which].heard);
            if let Some(line) = heard.and_then(Event::line) {
                self.note(format!("{which} hears {line}"));
            }
            let controller = &mut self.controllers[which];
            let Some(event) = self.api.log.get(controller.heard) else { break };
            controller.heard += 1;
            controller.view.see(event);
            if let Some(notice) = event.clone().notice() {
                controller.core.handle(now, notice);
            }
        }
    }

    /// Whoever leads knows who uses its devices.
    fn tell_usage(&mut self, which: usize) {
        let now = self.at();
        for (device, is_used) in &self.used {
            let notice = Event::Used(device.clone(), *is_used).notice().unwrap();
            self.controllers[which].core.handle(now, notice);
        }
    }

    fn lead(&mut self, which: usize) {
        let now = self.at();
        for (at, controller) in self.controllers.iter_mut().enumerate() {
            if at != which && controller.leads {
                controller.leads = false;
                controller.core.handle(now, Notice::LostLeadership);
            }
        }
        if !self.controllers[which].leads {
            self.note(format!("{which} leads"));
            // A lease is longer than any request: what it sent in an earlier term has ended.
            while !self.controllers[which].in_flight.is_empty() {
                self.land(which, false);
            }
            // Nobody acts on a view that is older than the term.
            self.hear(which, usize::MAX);
            self.controllers[which].leads = true;
            if self.mutant != Mutant::HearsOfGuardsLate {
                self.tell_limits(which);
            }
            self.controllers[which].core.handle(now, Notice::BecameLeader);
            self.tell_usage(which);
        }
    }

    fn think(&mut self, which: usize) {
        let now = self.at();
        // Who leads counts before it decides; others have no need to.
        if self.controllers[which].leads && (self.mutant != Mutant::HearsOfGuardsLate || self.dice.one_in(20))
        {
            self.tell_limits(which);
        }
        self.controllers[which].core.handle(now, Notice::Tick);
        while let Some(write) = self.controllers[which].core.poll_effect() {
            self.controllers[which].in_flight.push_back(write);
        }
    }

    /// One write arrives, or is lost on the way there or back.
    fn land(&mut self, which: usize, is_calm: bool) {
        let Some(write) = self.controllers[which].in_flight.pop_front() else { return };
        self.note(format!("a write of {which} lands"));
        let fate = if is_calm { 9 } else { self.dice.roll(10) };
        // A write of somebody who does not lead any more is not sent, but one that is on its way may still arrive.
        let is_sent = self.controllers[which].leads || self.dice.one_in(3);
        self.api.is_late = !self.controllers[which].leads;
        let (outcome, version, uid) = match fate {
            0 => (Outcome::RetryLater, None, None),
            _ if !is_sent => (Outcome::RetryLater, None, None),
            1 => {
                self.perform(&write.kind);
                (Outcome::Unknown, None, None)
            }
            _ => self.perform(&write.kind),
        };
        let now = self.at();
        let notice = Notice::Acknowledged { id: write.id, outcome, version, uid, refused: None };
        self.controllers[which].core.handle(now, notice);
    }

    fn note(&mut self, what: String) {
        if self.trace.len() >= TRACE_MAX {
            self.trace.pop_front();
        }
        self.trace.push_back(format!("{} {what}", self.now));
    }

    fn perform(&mut self, kind: &WriteKind) -> (Outcome, Option<Text>, Option<Text>) {
        let late = if self.api.is_late { "late " } else { "" };
        self.note(match kind {
            WriteKind::Create(one) | WriteKind::Record(_, _, one) => {
                let held = one.held.as_ref().map(|held| held.stage);
                format!("{late}write {} {:?} enforced {} held {held:?}", one.name, one.stage, one.is_enforced)
            }
            WriteKind::Taint { owner, effect, .. } => format!("{late}taint {} {effect}", owner.name),
            WriteKind::Delete(kind, _, name, _) => format!("{late}delete {kind:?} {name}"),
            WriteKind::Remove(..)
            | WriteKind::Drain { .. }
            | WriteKind::Run { .. }
            | WriteKind::DropReport(..)
            | WriteKind::Tally(..)
            | WriteKind::Broken(..) => format!("{late}other"),
        });
        match kind {
            WriteKind::Create(incident) => self.create(incident),
            WriteKind::Record(uid, version, incident) => self.record(uid, version, incident),
            WriteKind::Remove(name, uid) => {
                if self.api.incidents.get(name).is_some_and(|stored| stored.uid == *uid) {
                    self.delete_incident(name);
                }
                (Outcome::Done, None, None)
            }
            WriteKind::Taint { owner, device, effect, value, uid } => {
                self.explained(owner, "taint");
                let is_held =
                    self.api.incidents.get(&owner.name).is_some_and(|stored| stored.incident.held.is_some());
                let is_wrong = self.mutant == Mutant::TaintsWhatIsHeld && is_held;
                let target = ChildTarget::Rule {
                    device: device.clone(),
                    effect: if is_wrong { "NoSchedule" } else { *effect }.into(),
                    value: value.clone(),
                };
                (self.taint(owner, target, uid.as_ref()), None, None)
            }
            WriteKind::Drain { owner, device, value, .. } => {
                self.explained(owner, "drain");
                let target = ChildTarget::Drain { device: device.clone(), value: value.clone(), evicted: 0 };
                (self.api.make(owner.clone(), owner.name.clone(), target), None, None)
            }
            WriteKind::Run { owner, name, incident, .. } => {
                self.explained(owner, "job");
                let stored = self.api.incidents.get(&owner.name).filter(|stored| stored.uid == owner.uid);
                if stored.is_some_and(|stored| stored.incident.tries < incident.tries) {
                    self.broken = Some(format!("{name} runs before its incident says so"));
                }
                let outcome = self.api.make(owner.clone(), name.clone(), ChildTarget::Job { result: None });
                (outcome, None, None)
            }
            WriteKind::Delete(kind, _, name, uid) => {
                self.delete(*kind, name, uid);
                (Outcome::Done, None, None)
            }
            WriteKind::DropReport(..) if self.mutant == Mutant::KeepsReports => (Outcome::Done, None, None),
            WriteKind::DropReport(name, _) => {
                self.api.reports.remove(name);
                self.api.log.push(Event::ReportGone(name.clone()));
                (Outcome::Done, None, None)
            }
            WriteKind::Tally(_, tallies) => {
                self.api.tallies.clone_from(tallies);
                (Outcome::Done, None, None)
            }
            WriteKind::Broken(..) => panic!("every expression can be evaluated"),
        }
    }

    fn taint(&mut self, owner: &Owner, target: ChildTarget, uid: Option<&Text>) -> Outcome {
        let place = (ChildKind::Rule, owner.name.clone());
        match (uid, self.api.children.get(&place)) {
            (None, _) => self.api.make(owner.clone(), owner.name.clone(), target),
            (Some(uid), Some(there)) if there.uid == *uid => {
                let changed = Child { target, ..there.clone() };
                self.api.set_child(changed);
                Outcome::Done
            }
            (Some(_), _) => Outcome::Gone,
        }
    }

    fn delete(&mut self, kind: ChildKind, name: &Text, uid: &Text) {
        if self.mutant == Mutant::DeletesForeign && kind == ChildKind::Rule {
            self.api.foreign.clear();
        }
        let place = (kind, name.clone());
        let is_it = self.api.children.get(&place).is_some_and(|there| there.uid == *uid);
        let is_stopped = self.mutant == Mutant::HoldsRecovery && self.api.guard.is_tripped;
        if is_it && !is_stopped && self.mutant != Mutant::KeepsTaints {
            self.api.children.remove(&place);
            self.api.log.push(Event::ChildGone(kind, name.clone()));
        }
    }

    fn create(&mut self, incident: &Incident) -> (Outcome, Option<Text>, Option<Text>) {
        if self.api.incidents.contains_key(&incident.name) {
            return (Outcome::Conflict, None, None);
        }
        let (uid, version) = (self.api.version(), self.api.version());
        if self.mutant == Mutant::LosesNewIncidents {
            return (Outcome::Done, Some(version), Some(uid));
        }
        let mut opened = incident.clone();
        opened.timeline.truncate(1);
        (opened.stage, opened.tries, opened.since) = (opened.timeline[0].stage, 0, opened.timeline[0].at);
        let stored =
            Stored { uid: uid.clone(), version: version.clone(), incident: opened, acts: Acts::default() };
        self.stages.insert(incident.name.clone(), (stored.incident.stage, false));
        self.api.set_incident(stored);
        (Outcome::Done, Some(version), Some(uid))
    }

    fn record(
        &mut self,
        uid: &Text,
        version: &Text,
        incident: &Incident,
    ) -> (Outcome, Option<Text>, Option<Text>) {
        let Some(stored) = self.api.incidents.get(&incident.name).cloned() else {
            return (Outcome::Gone, None, None);
        };
        if stored.uid != *uid || stored.version != *version {
            return (Outcome::Conflict, None, None);
        }
        let next = self.api.version();
        let mut incident = incident.clone();
        if self.mutant == Mutant::StepsBack && incident.stage == Stage::Repairing {
            incident.stage = Stage::Suspect;
        }
        if self.mutant == Mutant::HoldsInSilence && incident.held.is_some() {
            incident.waits_for = Text::default();
        }
        if self.mutant == Mutant::KeepsDoubles && is_double(&incident) {
            return (Outcome::Done, Some(version.clone()), None);
        }
        if self.mutant == Mutant::LosesRecords && incident.stage != Stage::Draining {
            return (Outcome::Done, Some(version.clone()), None);
        }
        let (before, by_person) = self.stages.get(&incident.name).copied().unwrap_or((incident.stage, true));
        if before != incident.stage {
            // A policy that only observed is enforced from now on: nothing was done to the device before, and a person wanted that.
            let begins = incident.is_enforced && !stored.incident.is_enforced;
            // Of two that a person is to end one is enough.
            let is_spare = is_double(&incident) && self.is_abandoned_by_another(&incident);
            if !by_person && !begins && !is_spare && !may_follow(before, incident.stage) {
                self.broken = Some(format!("{before:?} is followed by {:?}", incident.stage));
            }
            self.stages.insert(incident.name.clone(), (incident.stage, false));
        }
        if incident.stage != Stage::Cleared && incident.waits_for.is_empty() {
            self.broken = Some(format!("{:?} waits for nothing", incident.stage));
        }
        self.seen.insert(incident.stage.name());
        if incident.held.is_some() {
            self.seen.insert("held");
        }
        self.api.set_incident(Stored { version: next.clone(), incident, ..stored });
        (Outcome::Done, Some(next), None)
    }

    /// Whether another incident keeps the device of this one for a person to decide.
    fn is_abandoned_by_another(&self, incident: &Incident) -> bool {
        self.api.incidents.values().map(|stored| &stored.incident).any(|other| {
            other.stage == Stage::Abandoned && other.device == incident.device && other.name != incident.name
        })
    }

    /// What is done is done for an incident that is stored.
    fn explained(&mut self, owner: &Owner, what: &str) {
        let is_there = self.api.incidents.get(&owner.name).is_some_and(|stored| stored.uid == owner.uid);
        // A person may have deleted it meanwhile, or its time was over: then it is taken back.
        if !is_there && !self.stages.contains_key(&owner.name) {
            self.broken = Some(format!("a {what} for {}, which was never stored", owner.name));
        }
    }

    fn delete_incident(&mut self, name: &Text) {
        if let Some(stored) = self.api.incidents.remove(name) {
            self.api.log.push(Event::IncidentGone(name.clone(), stored.uid));
        }
    }

    /// Pods leave a device that is drained; others come to one that nobody keeps them from.
    fn pods(&mut self) {
        for device in DEVICES.map(id) {
            let of = |child: &&Child| match &child.target {
                ChildTarget::Rule { device: of, effect, .. } => *of == device && **effect != *"None",
                ChildTarget::Drain { device: of, .. } => *of == device,
                ChildTarget::Job { .. } | ChildTarget::Claim => false,
            };
            let is_tainted = self.api.tainted.contains(&device);
            let drained =
                self.api.children.values().any(|child| of(&child) && child.target.kind() == ChildKind::Drain);
            let kept_off = is_tainted || self.api.children.values().any(|child| of(&child));
            let is_used = self.used[&device];
            let becomes = if drained { false } else { is_used || !kept_off };
            if becomes != is_used {
                self.used.insert(device.clone(), becomes);
                self.api.log.push(Event::Used(device, becomes));
            }
        }
    }

    /// Jobs end.
    fn jobs(&mut self, is_calm: bool) {
        let running = |child: &&Child| matches!(child.target, ChildTarget::Job { result: None });
        let running: Vec<Child> = self.api.children.values().filter(running).cloned().collect();
        for job in running {
            if is_calm || self.dice.one_in(3) {
                let failed = !is_calm && self.dice.one_in(3);
                if self.mutant == Mutant::LosesJobs {
                    self.api.children.remove(&(ChildKind::Job, job.name.clone()));
                    self.api.log.push(Event::ChildGone(ChildKind::Job, job.name));
                    continue;
                }
                let result = if failed { Err("it failed".to_owned()) } else { Ok(()) };
                self.api.set_child(Child { target: ChildTarget::Job { result: Some(result) }, ..job });
            }
        }
    }

    fn signals(&mut self) {
        let device = id(DEVICES[self.dice.roll(3) as usize]);
        let key: Text = KEYS[self.dice.roll(4) as usize].into();
        let now = self.at();
        match self.dice.roll(4) {
            0 if self.raised.insert((device.clone(), key.clone())) => {
                self.api.log.push(Event::Signal(signal(&device, &key, now, Source::Taint)));
            }
            1 | 2 if self.raised.remove(&(device.clone(), key.clone())) => {
                self.api.log.push(Event::Lowered(device, key));
            }
            3 if self.dice.one_in(4) => {
                let uid = self.api.version();
                let name: Text = format!("report-{uid}").into();
                let signal = Signal { lasts: false, ..signal(&device, &key, now, Source::Person) };
                let report = Report { name: name.clone(), uid, signal };
                self.api.reports.insert(name, report.clone());
                self.api.log.push(Event::Report(report));
            }
            _ => {}
        }
    }

    /// Administrators pause, trip and reset the guard, taint devices of their own accord, and change the mode of the policy.
    fn administrators(&mut self) {
        self.note(format!("before a change: {:?} {:?} {:?}", self.api.guard, self.api.tainted, self.mode()));
        match self.dice.roll(6) {
            0 => self.api.guard.is_paused = !self.api.guard.is_paused,
            1 | 2 => self.api.guard.is_tripped = !self.api.guard.is_tripped,
            3 | 4 => {
                let device = id(DEVICES[self.dice.roll(3) as usize]);
                let is_new = self.api.tainted.insert(device.clone());
                if !is_new {
                    self.api.tainted.remove(&device);
                }
                self.api.log.push(Event::Tainted(device, is_new));
                return;
            }
            _ => {
                let mode = if self.mode() == Mode::Enforce { Mode::Observe } else { Mode::Enforce };
                self.api.mode = Some(mode);
                self.api.log.push(Event::Mode(mode));
                return;
            }
        }
        self.api.log.push(Event::Guard(self.api.guard));
    }

    fn people(&mut self) {
        let names: Vec<Text> = self.api.incidents.keys().cloned().collect();
        if names.is_empty() {
            return;
        }
        let name = &names[self.dice.roll(names.len() as u64) as usize];
        let act = Some(PersonAct { at: self.at(), who: "jo".into(), why: Text::default() });
        let choice = self.dice.roll(8);
        if choice == 7 {
            let name = name.clone();
            self.delete_incident(&name);
            return;
        }
        let version = self.api.version();
        let Some(mut stored) = self.api.incidents.get(name).cloned() else { return };
        match choice {
            0 => stored.acts.acknowledged = act,
            1 | 2 => stored.acts.repaired = act,
            3 => stored.acts.abandoned = act,
            _ => return,
        }
        if let Some(entry) = self.stages.get_mut(name) {
            entry.1 = true;
        }
        stored.version = version;
        self.api.set_incident(stored);
    }

    /// What a mutant does: as if a controller took it for well.
    fn clear_abandoned(&mut self) {
        let mut stored = self.api.incidents.values();
        let Some(stored) = stored.find(|one| one.incident.stage == Stage::Abandoned).cloned() else { return };
        let cleared = Incident { stage: Stage::Cleared, ..stored.incident };
        self.record(&stored.uid, &stored.version, &cleared);
    }

    fn step(&mut self) {
        if self.mutant == Mutant::ClearsAbandoned {
            self.clear_abandoned();
        }
        let which = self.dice.roll(2) as usize;
        match self.dice.roll(25) {
            24 => {
                if self.dice.one_in(3) {
                    self.administrators();
                }
            }
            0..=4 => self.signals(),
            5 => self.people(),
            6 => {
                self.note(format!("{which} starts again"));
                self.controllers[which] = self.fresh();
            }
            7 => self.lead(which),
            8..=10 => self.now += i64::try_from(self.dice.roll(15_000)).unwrap(),
            11 | 12 => self.pods(),
            13 | 14 => self.jobs(false),
            15..=17 => {
                let most = self.dice.roll(8) as usize;
                self.hear(which, most);
                if self.controllers[which].leads {
                    self.tell_usage(which);
                }
            }
            18..=20 => self.land(which, false),
            _ => self.think(which),
        }
        self.check();
    }

    fn check(&mut self) {
        if !self.api.foreign.contains(FOREIGN) {
            self.broken = Some("somebody else's rule was touched".to_owned());
        }
        let out = self.out_by_policy();
        if out.len() as u64 > self.api.guard.permitted {
            let permitted = self.api.guard.permitted;
            self.broken = Some(format!("{out:?} are out of service, {permitted} permitted"));
        }
        if let Some(((_, name), times)) = self.api.made.iter().find(|(_, times)| **times > 1) {
            self.broken = Some(format!("{name} was run {times} times"));
        }
    }

    /// Devices that policies keep out of service: what people gave up is theirs.
    fn out_by_policy(&self) -> BTreeSet<&DeviceId> {
        let is_by_policy = |child: &&Child| {
            // A leader takes back what one before it wrote too late.
            let is_late = self.api.late.contains(&child.uid);
            self.api.incidents.get(&child.owner.name).is_some_and(|stored| {
                stored.uid == child.owner.uid
                    && !is_late
                    && stored.incident.is_open()
                    && stored.incident.handled.abandoned.is_none()
            })
        };
        let rules = self.api.children.values().filter(is_by_policy);
        rules
            .filter_map(|child| match &child.target {
                ChildTarget::Rule { device, effect, .. } if **effect == *"NoSchedule" => Some(device),
                ChildTarget::Rule { .. }
                | ChildTarget::Drain { .. }
                | ChildTarget::Job { .. }
                | ChildTarget::Claim => None,
            })
            .collect()
    }

    /// Signals end, repairs succeed, nothing is lost: everything comes to rest, also while the breaker is tripped. Where signals go on, what they
    /// want waits for something.
    fn rest(&mut self, is_calm: bool) {
        if is_calm {
            for (device, key) in core::mem::take(&mut self.raised) {
                self.api.log.push(Event::Lowered(device, key));
            }
        }
        self.lead(0);
        let mut quiet = 0;
        for _ in 0..2_000 {
            self.hear(0, usize::MAX);
            self.tell_usage(0);
            self.think(0);
            while !self.controllers[0].in_flight.is_empty() {
                self.land(0, true);
            }
            self.pods();
            self.jobs(true);
            self.now += 2 * SECOND;
            if self.mutant == Mutant::UntaintsAbandoned {
                self.untaint_abandoned();
            }
            self.check();
            let is_quiet = self.api.log.len() == self.controllers[0].heard && (!is_calm || self.is_at_rest());
            quiet = if is_quiet { quiet + 1 } else { 0 };
            if quiet > QUIET_ROUNDS {
                return;
            }
        }
    }

    /// What a mutant does: nobody is told that the taints are gone.
    fn untaint_abandoned(&mut self) {
        let incidents = &self.api.incidents;
        let is_abandoned =
            |name: &Text| incidents.get(name).is_some_and(|stored| stored.incident.stage == Stage::Abandoned);
        self.api.children.retain(|(kind, name), _| *kind >= ChildKind::Job || !is_abandoned(name));
    }

    fn is_at_rest(&self) -> bool {
        self.api
            .incidents
            .values()
            .all(|stored| matches!(stored.incident.stage, Stage::Cleared | Stage::Abandoned))
            && self.orphans().is_empty()
            && self.api.reports.is_empty()
    }

    /// Taints that no open incident explains.
    fn orphans(&self) -> Vec<String> {
        let taints = self.api.children.values().filter(|child| child.target.kind() < ChildKind::Job);
        let is_explained = |child: &&Child| {
            self.api
                .incidents
                .get(&child.owner.name)
                .is_some_and(|stored| stored.uid == child.owner.uid && stored.incident.is_open())
        };
        taints.filter(|child| !is_explained(child)).map(|child| format!("{:?}", child.target)).collect()
    }

    fn check_rest(&mut self, is_calm: bool) {
        let open = self.api.incidents.values().filter(|stored| stored.incident.is_open());
        let mut devices: Vec<&DeviceId> = open.map(|stored| &stored.incident.device).collect();
        let incidents = devices.len();
        devices.dedup();
        if devices.len() < incidents {
            self.broken = Some("a device has two open incidents".to_owned());
        }
        for stored in self.api.incidents.values() {
            let (stage, name) = (stored.incident.stage, &stored.incident.name);
            let is_over = matches!(stage, Stage::Cleared | Stage::Abandoned);
            let names_what = !stored.incident.waits_for.is_empty();
            if !is_over && (is_calm || !names_what) {
                self.broken =
                    Some(format!("{name} is {stage:?} for ever, waiting for {}", stored.incident.waits_for));
            }
            let has = |kind| self.api.children.contains_key(&(kind, name.clone()));
            let is_kept_away = self.api.children.get(&(ChildKind::Rule, name.clone())).is_some_and(
                |child| matches!(&child.target, ChildTarget::Rule { effect, .. } if **effect != *"None"),
            );
            if stored.incident.held.is_some() && is_kept_away {
                self.broken = Some(format!("{name} is held and keeps its device from others"));
            }
            if stage == Stage::Abandoned
                && stored.incident.is_enforced
                && !(has(ChildKind::Rule) && has(ChildKind::Drain))
            {
                self.broken = Some(format!("{name} is abandoned and not tainted"));
            }
        }
        if let Some(orphan) = self.orphans().into_iter().next() {
            self.broken = Some(format!("nobody explains {orphan}"));
        }
        if !self.api.reports.is_empty() {
            self.broken = Some("a report was not taken in".to_owned());
        }
    }
}

fn signal(device: &DeviceId, key: &Text, at: Timestamp, source: Source) -> Signal {
    Signal {
        device: device.clone(),
        key: key.clone(),
        value: Text::default(),
        source,
        at,
        lasts: true,
        message: Text::default(),
    }
}

/// Whether an incident is closed because its device has another.
fn is_double(incident: &Incident) -> bool {
    incident.stage == Stage::Cleared
        && incident.timeline.last().is_some_and(|entry| entry.cause.contains("another open incident"))
}

/// Which stage may follow which, without a person.
fn may_follow(before: Stage, after: Stage) -> bool {
    match before {
        Stage::Suspect => true,
        Stage::Quarantined => !matches!(after, Stage::Suspect),
        Stage::Draining => !matches!(after, Stage::Suspect | Stage::Quarantined),
        Stage::Repairing => !matches!(after, Stage::Suspect | Stage::Quarantined),
        Stage::Probation => !matches!(after, Stage::Suspect | Stage::Quarantined),
        Stage::Abandoned | Stage::Cleared => false,
    }
}

/// What was found in a world, if anything, and which stages there were.
fn run(seed: u64, steps: usize, mutant: Mutant) -> (Option<String>, BTreeSet<&'static str>) {
    let mut world = World::new(seed, mutant);
    for _ in 0..steps {
        world.step();
        if world.broken.is_some() {
            break;
        }
    }
    if world.broken.is_none() {
        let is_calm = !world.dice.one_in(3);
        world.rest(is_calm);
        if world.broken.is_none() {
            world.check_rest(is_calm);
        }
    }
    let trace: Vec<String> = world.trace.into();
    (world.broken.map(|broken| format!("{broken}\n{}", trace.join("\n"))), world.seen)
}

/// The first world that is looked at; `LIFECYCLE_FIRST` asks for a later one.
fn first_seed() -> u64 {
    std::env::var("LIFECYCLE_FIRST").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// How many worlds are looked at; `LIFECYCLE_SEEDS` asks for more.
fn seeds() -> u64 {
    std::env::var("LIFECYCLE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(400)
}

#[test]
fn whatever_is_lost_every_taint_is_explained_and_every_incident_comes_to_rest() {
    let mut seen = BTreeSet::new();
    for seed in first_seed()..first_seed() + seeds() {
        let (broken, stages) = run(seed, 600, Mutant::None);
        assert!(broken.is_none(), "seed {seed}: {}", broken.unwrap_or_default());
        seen.extend(stages);
    }
    assert_eq!(seen.len(), Stage::ALL.len() + 1, "not every stage was seen, or nothing was held: {seen:?}");
}

/// A second incident of a device that a former leader made late; one of the same name that this leader had opened and not written yet; one that this
/// leader had closed while a former leader gave it up.
#[test]
fn worlds_that_did_not_hold_once_hold() {
    for seed in [2_349, 3_161, 24_886] {
        let (broken, _) = run(seed, 600, Mutant::None);
        assert!(broken.is_none(), "seed {seed}: {}", broken.unwrap_or_default());
    }
}

#[test]
fn what_is_done_wrongly_is_found() {
    for mutant in Mutant::ALL {
        let found = (1..=200).any(|seed| run(seed, 600, mutant).0.is_some());
        assert!(found, "{mutant:?} is not found");
    }
}
