//! The world: two controllers with their watches, and what each step does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lazaret_lifecycle::{History, Input, Mode, Notice, Reconciler, Signal, Source, Stage, Write, WriteKind};
use lazaret_machine::Outcome;
use lazaret_model::{DeviceId, Text, Timestamp};

use super::{
    DEVICES, SECOND,
    objects::{Api, Dice, Event, Mutant, View, id, policy},
    pools::{Pool, PoolView},
};

/// A rule without an incident, of the name that an incident's rule would have.
pub(super) const FOREIGN: &str = "theirs";

/// One controller with its watch.
pub(super) struct Controller {
    pub(super) core: Reconciler,
    pub(super) view: View,
    pub(super) pool: PoolView,
    /// How much of the log it has heard.
    pub(super) heard: usize,
    pub(super) leads: bool,
    pub(super) in_flight: VecDeque<Write>,
}

pub(super) struct World {
    pub(super) api: Api,
    pub(super) dice: Dice,
    pub(super) now: i64,
    pub(super) controllers: Vec<Controller>,
    pub(super) mutant: Mutant,
    pub(super) pool: Pool,
    pub(super) used: BTreeMap<DeviceId, bool>,
    pub(super) raised: BTreeSet<(DeviceId, Text)>,
    /// The last stage of each incident, and whether a person acted since.
    pub(super) stages: BTreeMap<Text, (Stage, bool)>,
    pub(super) broken: Option<String>,
    pub(super) seen: BTreeSet<&'static str>,
    /// The last actions, for the search for a cause.
    pub(super) trace: VecDeque<String>,
}

/// Lines of a trace.
pub(super) const TRACE_MAX: usize = 60;

impl World {
    pub(super) fn new(seed: u64, mutant: Mutant) -> Self {
        let mut world = Self {
            api: Api::default(),
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            now: 1_000_000,
            controllers: Vec::new(),
            mutant,
            pool: Pool::new(seed),
            used: DEVICES.iter().map(|device| (id(device), true)).collect(),
            raised: BTreeSet::new(),
            stages: BTreeMap::new(),
            broken: None,
            seen: BTreeSet::new(),
            trace: VecDeque::new(),
        };
        world.api.foreign.insert(FOREIGN.into());
        world.api.guard.permitted = world.dice.roll(4);
        for which in 0..2 {
            let fresh = world.fresh();
            world.controllers.push(fresh);
            world.see_pool(which, false);
        }
        world
    }

    pub(super) fn at(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    /// A controller that was just started, and has listed everything.
    pub(super) fn fresh(&self) -> Controller {
        let history = History { keep_ms: 600 * SECOND, incidents_max: 8 };
        let mut core = Reconciler::new(history);
        let now = self.at();
        core.handle(now, Notice::Core(Input::Policy(Box::new(policy(self.mode())))));
        let tallies = self.api.tallies.clone();
        core.handle(now, Notice::Core(Input::Counted { policy: "p".into(), tallies }));
        for device in DEVICES {
            let hardware = Some(format!("uuid-{device}").into());
            let input = Input::Device { id: id(device), hardware, policies: vec!["p".into()] };
            core.handle(now, Notice::Core(input));
        }
        if self.mutant != Mutant::ForgetsIncidents {
            for stored in self.api.incidents.values() {
                core.handle(now, Notice::Stored(Box::new(stored.clone())));
            }
        }
        for child in self.api.children.values() {
            let mut child = child.clone();
            if self.mutant == Mutant::ForgetsTaintKeys {
                self.api.hide_taint_key(&mut child);
            }
            core.handle(now, Notice::Child(child));
        }
        for report in self.api.reports.values() {
            core.handle(now, Notice::Report(report.clone()));
        }
        for (device, key) in &self.raised {
            core.handle(now, Notice::Core(Input::Raised(signal(device, key, now, Source::Taint))));
        }
        for (device, is_used) in &self.used {
            core.handle(now, Event::Used(device.clone(), *is_used).notice().unwrap());
        }
        let mut view = View { tainted: self.api.tainted.clone(), guard: self.api.guard, ..View::default() };
        for child in self.api.children.values() {
            view.see(&Event::Child(child.clone()));
        }
        let (pool, heard) = (PoolView::default(), self.api.log.len());
        Controller { core, view, pool, heard, leads: false, in_flight: VecDeque::new() }
    }

    pub(super) fn mode(&self) -> Mode {
        self.api.mode.unwrap_or(Mode::Enforce)
    }

    /// A controller counts what is out of service, as far as it has heard.
    pub(super) fn tell_limits(&mut self, which: usize) {
        if self.mutant == Mutant::ForgetsGuards {
            return;
        }
        let now = self.at();
        let controller = &mut self.controllers[which];
        controller.core.handle(now, Notice::Core(Input::Limits(controller.view.limits())));
    }

    /// A controller hears some of what happened.
    pub(super) fn hear(&mut self, which: usize, most: usize) {
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
            let mut event = event.clone();
            if let Event::Pool { is_incomplete } = event {
                self.see_pool(which, is_incomplete);
                continue;
            }
            if let (Mutant::ForgetsTaintKeys, Event::Child(child)) = (self.mutant, &mut event) {
                self.api.hide_taint_key(child);
            }
            let is_policy = matches!(event, Event::Mode(_));
            if let Some(notice) = event.notice() {
                self.controllers[which].core.handle(now, notice);
            }
            if is_policy {
                self.tell_pool_again(which);
            }
        }
    }

    /// A leader knows which of its devices are in use.
    pub(super) fn tell_usage(&mut self, which: usize) {
        let now = self.at();
        for (device, is_used) in &self.used {
            let notice = Event::Used(device.clone(), *is_used).notice().unwrap();
            self.controllers[which].core.handle(now, notice);
        }
    }

    pub(super) fn lead(&mut self, which: usize) {
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
            // No controller acts on a view that is older than the term.
            self.hear(which, usize::MAX);
            self.controllers[which].leads = true;
            if self.mutant != Mutant::HearsOfGuardsLate {
                self.tell_limits(which);
            }
            self.controllers[which].core.handle(now, Notice::BecameLeader);
            self.raise_pool(which, true);
            self.tell_usage(which);
        }
    }

    pub(super) fn think(&mut self, which: usize) {
        let now = self.at();
        // A leader counts before it decides; followers have no need to.
        if self.controllers[which].leads && (self.mutant != Mutant::HearsOfGuardsLate || self.dice.one_in(20))
        {
            self.tell_limits(which);
        }
        self.raise_pool(which, false);
        self.controllers[which].core.handle(now, Notice::Tick);
        while let Some(write) = self.controllers[which].core.poll_effect() {
            self.controllers[which].in_flight.push_back(write);
        }
    }

    /// One write arrives, or is lost on the way there or back.
    pub(super) fn land(&mut self, which: usize, is_calm: bool) {
        let Some(write) = self.controllers[which].in_flight.pop_front() else { return };
        self.note(format!("a write of {which} lands"));
        if let WriteKind::Create(incident) | WriteKind::Record(_, _, incident) = &write.kind {
            self.check_causes(incident);
        }
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

    pub(super) fn note(&mut self, what: String) {
        if self.trace.len() >= TRACE_MAX {
            self.trace.pop_front();
        }
        self.trace.push_back(format!("{} {what}", self.now));
    }

    pub(super) fn step(&mut self) {
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
                self.forget_pool(which);
                self.controllers[which] = self.fresh();
                self.see_pool(which, self.pool.is_incomplete);
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
        self.pool_steps();
        self.check();
    }
}

pub(super) fn signal(device: &DeviceId, key: &Text, at: Timestamp, source: Source) -> Signal {
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
