//! Brings the objects of a cluster to what the incidents want, whatever fails on the way.
//!
//! [`Reconciler`] runs a [`Lifecycle`] and knows which objects there are. An incident is written before anything is done for it, and each object that
//! is made for it has a name that follows from the incident: whoever does it again, after a crash or a lost answer, finds it done.

mod plan;
mod state;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::String,
    vec::Vec,
};

use lazaret_model::{DeviceId, EffectId, Outcome, Text, Timestamp, Uid};

use crate::{
    effect::{Act, Input as Heard, JobResult},
    incident::Incident,
    machine::Lifecycle,
    signal::Signal,
    wanted::Task,
};
use state::{Queued, Written};

/// How long incidents are kept after their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// After this they are deleted.
    pub keep_ms: i64,
    /// Of more than these the oldest are deleted.
    pub incidents_max: usize,
}

impl Default for History {
    /// Thirty days; 10,000 of them take about 20 MB in an API server.
    fn default() -> Self {
        Self { keep_ms: 30 * 24 * 60 * 60 * 1_000, incidents_max: 10_000 }
    }
}

/// The incident that an object belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub name: Text,
    /// Its incarnation.
    pub uid: Uid,
}

/// An incident as it is stored.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its incarnation.
    pub uid: Uid,
    /// Its version.
    pub version: Text,
    /// What it says.
    pub incident: Incident,
    /// What people wrote into it.
    pub acts: Acts,
}

/// What people wrote into an incident.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acts {
    /// Somebody has seen it.
    pub acknowledged: Option<PersonAct>,
    /// Somebody has repaired the device.
    pub repaired: Option<PersonAct>,
    /// Somebody gives it up.
    pub abandoned: Option<PersonAct>,
}

/// What a person did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonAct {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub who: Text,
    /// Why; may be empty.
    pub why: Text,
}

/// An object that was made for an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Where it is; empty where there are no namespaces.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// Its incarnation.
    pub uid: Uid,
    /// The incident that it was made for.
    pub owner: Owner,
    /// What it says.
    pub target: Target,
}

/// What an object does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// It taints a device.
    Rule {
        /// The device.
        device: DeviceId,
        /// With this effect.
        effect: Text,
        /// And this value.
        value: Text,
    },
    /// It makes the pods of a device leave.
    Drain {
        /// The device.
        device: DeviceId,
        /// The value of its taint.
        value: Text,
        /// How many pods have left because of it.
        evicted: u64,
    },
    /// It repairs or validates.
    Job {
        /// How it ended.
        result: Option<JobResult>,
    },
    /// It holds the device for a validation of the same name.
    Claim,
}

/// Which kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChildKind {
    /// A rule that taints.
    Rule,
    /// A policy that drains.
    Drain,
    /// A Job.
    Job,
    /// A claim of a validation.
    Claim,
}

impl Target {
    /// Which kind of object does that.
    #[must_use]
    pub fn kind(&self) -> ChildKind {
        match self {
            Self::Rule { .. } => ChildKind::Rule,
            Self::Drain { .. } => ChildKind::Drain,
            Self::Job { .. } => ChildKind::Job,
            Self::Claim => ChildKind::Claim,
        }
    }
}

/// A signal that somebody wrote down.
#[derive(Clone, Debug)]
pub struct Report {
    /// The name of the object.
    pub name: Text,
    /// Its incarnation.
    pub uid: Uid,
    /// What it says.
    pub signal: Signal,
}

/// Something that happened.
#[derive(Debug)]
pub enum Input {
    /// Something about policies, devices and signals.
    Heard(Heard),
    /// An incident is so.
    Stored(Box<Stored>),
    /// There is no incident of this name and incarnation.
    StoredGone(Text, Uid),
    /// An object is so.
    Child(Child),
    /// There is no such object, or it belongs to no incident.
    ChildGone(ChildKind, Text, Text),
    /// Somebody wrote down a signal.
    Report(Report),
    /// There is no such signal.
    ReportGone(Text),
    /// What a request that repairs says now: `None` while it goes on.
    Asked(Text, Option<JobResult>),
    /// What became of an effect.
    Acknowledged {
        /// Which.
        id: EffectId,
        /// Whether it was done.
        outcome: Outcome,
        /// The version of what was written.
        version: Option<Text>,
        /// The incarnation of what was written.
        uid: Option<Uid>,
        /// Why it was refused for good.
        refused: Option<String>,
    },
    /// Effects are wanted from now on.
    BecameLeader,
    /// No effects are wanted.
    LostLeadership,
    /// Time has passed.
    Tick,
}

/// Something to be done.
#[derive(Clone, Debug)]
pub struct Effect {
    /// To acknowledge it by.
    pub id: EffectId,
    /// What.
    pub kind: WriteKind,
}

/// What is to be done. Everything can be done twice.
#[derive(Clone, Debug)]
pub enum WriteKind {
    /// Write a new incident.
    Create(Box<Incident>),
    /// Write the status of an incident of this incarnation and version.
    Record(Uid, Text, Box<Incident>),
    /// Delete an incident that is over, of this incarnation.
    Remove(Text, Uid),
    /// Make a rule of the owner's name that taints a device.
    Taint {
        /// For which incident.
        owner: Owner,
        /// Which device.
        device: DeviceId,
        /// With which effect.
        effect: &'static str,
        /// And which value.
        value: Text,
        /// The incarnation of the rule that is changed; `None`: it is made.
        uid: Option<Uid>,
    },
    /// Make a policy of the owner's name that makes pods leave.
    Drain {
        /// For which incident.
        owner: Owner,
        /// Which device.
        device: DeviceId,
        /// The value of its taint.
        value: Text,
        /// The health policy, which says how fast.
        policy: Text,
    },
    /// Run a Job, or make or look at a request.
    Run {
        /// For which incident.
        owner: Owner,
        /// What it is called.
        name: Text,
        /// What.
        task: Task,
        /// The incident as it is.
        incident: Box<Incident>,
    },
    /// Delete an object of this incarnation.
    Delete(ChildKind, Text, Text, Uid),
    /// Delete a signal that was taken in, of this incarnation.
    DropReport(Text, Uid),
    /// Say that an expression of a policy could not be evaluated.
    Broken(Text, usize, String),
}

/// Brings the objects of a cluster to what the incidents want.
#[derive(Debug)]
pub struct Reconciler {
    lifecycle: Lifecycle,
    history: History,
    leads: bool,
    incidents: BTreeMap<Text, Written>,
    /// By incident, kind, namespace and name.
    children: BTreeMap<(Text, ChildKind, Text, Text), Child>,
    /// The incident of each child.
    owners: BTreeMap<(ChildKind, Text, Text), Text>,
    /// Names of incidents by the number that the machine knows them by.
    names: BTreeMap<u64, Text>,
    /// Those that are over, the oldest first.
    over: BTreeSet<(Timestamp, Text)>,
    reports: BTreeMap<Text, (Report, bool)>,
    /// What effects that wait are about, in order; what is not among `waiting` any more is passed over.
    queue: VecDeque<Text>,
    waiting: BTreeMap<Text, Queued>,
    in_flight: BTreeMap<EffectId, Queued>,
    /// What they are about.
    flying: BTreeSet<Text>,
    /// By what an effect is about: it is left alone until then; and how often it failed.
    not_before: BTreeMap<Text, (Timestamp, u32)>,
    /// Incidents to look at.
    touched: BTreeSet<Text>,
    next: u64,
    planned: Timestamp,
}

impl Default for Reconciler {
    fn default() -> Self {
        Self::new(History::default())
    }
}

impl Reconciler {
    /// One that does nothing until it leads.
    #[must_use]
    pub fn new(history: History) -> Self {
        let mut lifecycle = Lifecycle::default();
        lifecycle.handle(Timestamp::EPOCH, Heard::Pause);
        Self {
            lifecycle,
            history,
            leads: false,
            incidents: BTreeMap::new(),
            children: BTreeMap::new(),
            owners: BTreeMap::new(),
            names: BTreeMap::new(),
            over: BTreeSet::new(),
            reports: BTreeMap::new(),
            queue: VecDeque::new(),
            waiting: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            flying: BTreeSet::new(),
            not_before: BTreeMap::new(),
            touched: BTreeSet::new(),
            next: 0,
            planned: Timestamp::EPOCH,
        }
    }

    /// The machine that decides.
    #[must_use]
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// Takes note; decides on [`Input::Tick`].
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        match input {
            Input::Heard(heard) => {
                if matches!(heard, Heard::Policy(_) | Heard::PolicyGone(_)) {
                    self.touched.extend(self.names.values().cloned());
                }
                self.lifecycle.handle(now, heard);
            }
            Input::Stored(stored) => self.stored(now, *stored),
            Input::StoredGone(name, uid) => self.stored_gone(now, &name, &uid),
            Input::Child(child) => self.child(now, child),
            Input::ChildGone(kind, namespace, name) => self.child_gone(&(kind, namespace, name)),
            Input::Report(report) => {
                let known = self.reports.get(&report.name);
                if known.is_none_or(|(known, _)| known.uid != report.uid) {
                    self.reports.insert(report.name.clone(), (report, false));
                }
            }
            Input::ReportGone(name) => drop(self.reports.remove(&name)),
            Input::Asked(task, result) => self.asked(now, &task, result),
            Input::Acknowledged { id, outcome, version, uid, refused } => {
                self.acknowledged(now, id, outcome, (version, uid, refused));
            }
            Input::BecameLeader => self.begin(now),
            Input::LostLeadership => {
                self.leads = false;
                self.queue.clear();
                self.waiting.clear();
                self.lifecycle.handle(now, Heard::Pause);
            }
            Input::Tick if self.leads => {
                self.raise_reports(now);
                self.lifecycle.tick(now);
                self.take_effects();
                self.plan(now);
                self.planned = now;
            }
            Input::Tick => {}
        }
    }

    /// The next thing to be done.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        let queued = loop {
            let key = self.queue.pop_front()?;
            if let Some(queued) = self.waiting.remove(&key) {
                break queued;
            }
        };
        self.flying.insert(queued.key.clone());
        let id = EffectId(self.next);
        self.next += 1;
        let kind = queued.kind.clone();
        self.in_flight.insert(id, queued);
        Some(Effect { id, kind })
    }

    /// When there may be something to do though nothing happens.
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        if !self.leads {
            return None;
        }
        let later = |at: &Timestamp| *at > self.planned;
        let retries = self.not_before.values().map(|(at, _)| *at).filter(later).min();
        let expiry = self.over.first().map(|(at, _)| at.plus_millis(self.history.keep_ms)).filter(later);
        [retries, expiry, self.lifecycle.wake()].into_iter().flatten().min()
    }

    /// A policy's expression that cannot be evaluated is told; other effects of the machine are read off its incidents.
    fn take_effects(&mut self) {
        while let Some(effect) = self.lifecycle.poll() {
            match effect {
                crate::Effect::Record(incident) => self.pend(*incident),
                crate::Effect::Broken { policy, rule, error } => {
                    let key = alloc::format!("/broken/{policy}/{rule}").into();
                    self.push(key, 0, WriteKind::Broken(policy, rule, error));
                }
                crate::Effect::Taint { .. }
                | crate::Effect::Drain { .. }
                | crate::Effect::Repair { .. }
                | crate::Effect::StopRepair { .. }
                | crate::Effect::Validate { .. } => {}
            }
        }
    }

    /// Acts of people that were not acted on yet.
    fn acts(&mut self, now: Timestamp, number: u64, acts: &Acts) {
        let mut all: Vec<(Act, PersonAct)> = [
            (Act::Acknowledge, &acts.acknowledged),
            (Act::Repaired, &acts.repaired),
            (Act::Abandon, &acts.abandoned),
        ]
        .into_iter()
        .filter_map(|(act, done)| done.clone().map(|done| (act, done)))
        .collect();
        all.sort_by_key(|(_, done)| done.at);
        for (act, PersonAct { at, who, why }) in all {
            self.lifecycle.handle(now, Heard::Person { incident: number, act, who, why, at });
        }
    }
}
