//! Brings the objects of a cluster to what the incidents want, whatever fails on the way.
//!
//! [`Reconciler`] runs a [`Lifecycle`] and knows which objects there are. An incident is written before anything is done for it, and each object that
//! is made for it has a name that follows from the incident: whoever does it again, after a crash or a lost answer, finds it done.

mod alerts;
mod children;
mod idle;
mod input;
mod kept;
mod objects;
mod plan;
mod scene;
mod state;
mod taints;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};

use lazaret_machine::{Flights, Wake};
use lazaret_model::{Text, Timestamp};

pub use idle::{ViewKind, ViewRequest};
pub use input::{Effect, Input, WriteKind};
pub use objects::{Acts, Child, ChildKind, History, Owner, PersonAct, Report, Stored, Target};

use crate::{
    effect::{Act, Input as CoreInput},
    machine::Lifecycle,
};
use alerts::Alerts;
use children::Children;
use idle::Looks;
use kept::Kept;
use state::{Queued, Written};
use taints::Tainting;

/// Room in the queue that is kept when all effects were taken.
const QUEUE_KEPT: usize = 64;

/// Brings the objects of a cluster to what the incidents want.
#[derive(Debug)]
pub struct Reconciler {
    lifecycle: Lifecycle,
    history: History,
    leads: bool,
    /// Boxed: nodes of a map are half empty mostly.
    incidents: BTreeMap<Text, Box<Written>>,
    children: Children,
    /// Those that are over, the oldest first.
    over: BTreeSet<(Timestamp, Text)>,
    /// Signals that do not last, and whether they were raised.
    reports: BTreeMap<Text, (Report, bool)>,
    alerts: Alerts,
    /// Keys of effects that wait, in order; a key that is not in `waiting` any more is skipped.
    queue: VecDeque<Text>,
    waiting: BTreeMap<Text, Queued>,
    in_flight: Flights<WriteKind, Queued>,
    /// Keys of the effects in flight.
    flying: BTreeSet<Text>,
    /// By the key of an effect: no attempt before this instant, and the number of failures.
    not_before: BTreeMap<Text, (Timestamp, u32)>,
    /// Incidents to plan again.
    touched: BTreeSet<Text>,
    /// Taints that were sent and not seen yet, by incident.
    tainting: Tainting,
    /// Which devices may be worked on.
    looks: Looks,
    /// Jobs that keep their names.
    kept: Kept,
    /// By incident: its task, and what is in the way of that.
    obstacles: BTreeMap<Text, (Text, Text)>,
    /// Which version of each policy's counts is stored.
    tallied: BTreeMap<Text, u64>,
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
        lifecycle.handle(Timestamp::EPOCH, CoreInput::Pause);
        Self {
            lifecycle,
            history,
            leads: false,
            incidents: BTreeMap::new(),
            children: Children::default(),
            over: BTreeSet::new(),
            reports: BTreeMap::new(),
            alerts: Alerts::default(),
            queue: VecDeque::new(),
            waiting: BTreeMap::new(),
            in_flight: Flights::default(),
            flying: BTreeSet::new(),
            not_before: BTreeMap::new(),
            touched: BTreeSet::new(),
            tainting: Tainting::default(),
            looks: Looks::default(),
            kept: Kept::default(),
            obstacles: BTreeMap::new(),
            tallied: BTreeMap::new(),
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
            Input::Core(heard) => {
                if matches!(heard, CoreInput::Policy(_) | CoreInput::PolicyGone(_)) {
                    self.touched.extend(self.lifecycle.incidents().map(|incident| incident.name.clone()));
                }
                if let CoreInput::PolicyGone(name) = &heard {
                    self.tallied.remove(name);
                }
                let device = if let CoreInput::Device { id, .. } = &heard { Some(id.clone()) } else { None };
                let used =
                    if let CoreInput::InUse { device, .. } = &heard { Some(device.clone()) } else { None };
                self.lifecycle.handle(now, heard);
                // The obstacle of its incident may be gone.
                let used = used.and_then(|device| self.lifecycle.incident_of(&device));
                self.touched.extend(used.map(|incident| incident.name.clone()));
                if let Some(device) = device {
                    self.raise_alerts(now, &device);
                }
            }
            Input::Stored(stored) => self.stored(now, *stored),
            Input::StoredGone(name, uid) => self.stored_gone(now, &name, &uid),
            Input::Child(child) => self.child(now, child),
            Input::ChildGone(kind, namespace, name) => self.child_gone(&(kind, namespace, name)),
            Input::Report(report) if report.signal.lasts => self.alert(now, report),
            Input::Report(report) => {
                let known = self.reports.get(&report.name);
                if known.is_none_or(|(known, _)| known.uid != report.uid) {
                    self.reports.insert(report.name.clone(), (report, false));
                }
            }
            Input::ReportGone(name) => {
                self.reports.remove(&name);
                // A write that was done need not be waited for any more.
                self.not_before.remove(&Text::from(alloc::format!("/report/{name}")));
                self.alert_gone(now, &name);
            }
            Input::Asked(object, result) => self.asked(now, &object, result),
            Input::Made(object) => {
                if let Some(number) = self.number_of_task(&object.name) {
                    self.obstructed(object.name.clone(), Text::default());
                    self.lifecycle.made(number, object);
                    self.take_effects();
                }
            }
            Input::Obstructed(task, why) => self.obstructed(task, why),
            Input::ViewReached(number) => self.view_reached(number),
            Input::Acknowledged { id, outcome, version, uid, refused } => {
                self.acknowledged(now, id, outcome, (version, uid, refused));
            }
            Input::BecameLeader => self.begin(now),
            Input::LostLeadership => {
                self.leads = false;
                self.queue.clear();
                self.waiting.clear();
                self.looks.clear();
                self.kept.clear();
                self.lifecycle.handle(now, CoreInput::Pause);
            }
            Input::Tick if self.leads => {
                self.raise_reports(now);
                self.end_alerts(now);
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
            if self.queue.is_empty() {
                self.queue.shrink_to(QUEUE_KEPT);
            }
            let key = self.queue.pop_front()?;
            if let Some(queued) = self.waiting.remove(&key) {
                break queued;
            }
        };
        self.flying.insert(queued.key.clone());
        let kind = queued.kind.clone();
        self.taint_sent(&kind);
        Some(self.in_flight.send(queued, kind))
    }

    /// When there may be something to do though nothing happens.
    #[must_use]
    pub fn next_wake(&self) -> Option<Wake> {
        if !self.leads {
            return None;
        }
        let later = |at: &Timestamp| *at > self.planned;
        let retries = self.not_before.values().map(|(at, _)| *at).filter(later).min();
        let expiry = self.over.first().map(|(at, _)| at.plus_millis(self.history.keep_ms)).filter(later);
        let wake = |at: Option<Timestamp>, why| at.map(|at| Wake::new(at, why));
        Wake::first([
            wake(retries, "a write is looked at again"),
            wake(expiry, "an incident has been over for long"),
            wake(self.next_end().filter(later), "an alert was not repeated for long"),
            wake(self.kept.wake().filter(later), "a Job has ended for long"),
            wake(self.looks.wake(self.planned), "a taint has been seen for long enough"),
            wake(self.lifecycle.wake(), "a device is to be looked at again"),
        ])
    }

    /// Reports a policy's expression that cannot be evaluated; other effects of the machine follow from its incidents.
    fn take_effects(&mut self) {
        while let Some(effect) = self.lifecycle.poll() {
            match effect {
                crate::Effect::Record(incident) => self.pend(incident),
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
            self.lifecycle.handle(now, CoreInput::Person { incident: number, act, who, why, at });
        }
    }
}
