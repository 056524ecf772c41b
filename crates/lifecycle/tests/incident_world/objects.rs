//! The objects of a world, and the views that controllers have of them.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_lifecycle::{
    Child, ChildKind, ChildTarget, Count, Flaps, HeldReason, Input, Limit, Mode, Notice, Owner, Policy,
    Recovery, Report, Rule, Selected, Signal, Source, Step, Stored, TaintKeyValue, Tally, Target, When,
};
use lazaret_machine::Outcome;
use lazaret_model::{DeviceId, Text, Unit};

use super::{
    DEVICES, SECOND,
    pools::{POOL_COMPLETE, TORN},
};

/// A fault on purpose, which the checks must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    None,
    /// Deletions are said to be done and are not.
    KeepsTaints,
    /// A new leader does not get the incidents.
    ForgetsIncidents,
    /// Deletions hit the first rule there is.
    DeletesForeign,
    /// Statuses are said to be written and are not.
    LosesRecords,
    /// A repair is written as if the device were only suspect.
    StepsBack,
    /// No controller gets the limits of guards.
    ForgetsGuards,
    /// A new leader gets the limits of guards late.
    HearsOfGuardsLate,
    /// While the breaker is tripped no taint is taken back.
    HoldsRecovery,
    /// An incident that is held does not say what it waits for.
    HoldsInSilence,
    /// An incident that is held taints its device.
    TaintsWhatIsHeld,
    /// A new incident is said to be written and is not.
    LosesNewIncidents,
    /// A Job that has ended is not there any more, and its result is not known.
    LosesJobs,
    /// Reports are said to be deleted and are not.
    KeepsReports,
    /// An incident that only a person may end is written as cleared.
    ClearsAbandoned,
    /// Of two incidents of one device none is closed.
    KeepsDoubles,
    /// The taints of abandoned incidents are removed.
    UntaintsAbandoned,
    /// Controllers see every taint with the key that its incident has.
    ForgetsTaintKeys,
    /// A pool is reported when it has been incomplete for half of the time.
    TellsOfTornPoolsEarly,
    /// No incomplete pool is reported.
    OverlooksTornPools,
    /// The end of an incomplete pool is not reported.
    KeepsTornPools,
}

impl Mutant {
    pub(super) const OF_POOLS: [Self; 3] =
        [Self::TellsOfTornPoolsEarly, Self::OverlooksTornPools, Self::KeepsTornPools];
    pub(super) const ALL: [Self; 20] = [
        Self::KeepsTaints,
        Self::ForgetsIncidents,
        Self::DeletesForeign,
        Self::LosesRecords,
        Self::StepsBack,
        Self::ForgetsGuards,
        Self::HearsOfGuardsLate,
        Self::HoldsRecovery,
        Self::HoldsInSilence,
        Self::TaintsWhatIsHeld,
        Self::LosesNewIncidents,
        Self::LosesJobs,
        Self::KeepsReports,
        Self::ClearsAbandoned,
        Self::KeepsDoubles,
        Self::UntaintsAbandoned,
        Self::ForgetsTaintKeys,
        Self::TellsOfTornPoolsEarly,
        Self::OverlooksTornPools,
        Self::KeepsTornPools,
    ];
}

/// A guard: it permits as many devices to be out of service for the whole run; people pause it, and its breaker trips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Guard {
    pub(super) permitted: u64,
    pub(super) is_paused: bool,
    pub(super) is_tripped: bool,
}

/// xorshift: the same seed gives the same steps on every machine.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    pub(super) fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}

pub(super) fn id(device: &str) -> DeviceId {
    DeviceId::new("gpu.example.com", "node-1", device)
}

pub(super) fn policy(mode: Mode) -> Policy {
    let rule = |name: &str, target| Rule {
        name: name.into(),
        when: When::compile(&format!("signal.key == \"{name}\"")).unwrap(),
        count: None,
        hold_ms: 0,
        target,
        // One value and a key for each rule: a worse rule changes nothing of a taint but its key.
        taint: TaintKeyValue { key: format!("example.com/{name}").into(), value: "ill".into() },
    };
    let step = |name: &str| Step { name: name.into(), timeout_ms: 60 * SECOND, is_request: false };
    Policy {
        name: "p".into(),
        mode,
        rules: vec![
            rule("warm", Target::Suspect),
            rule("hot", Target::Quarantined),
            rule("dead", Target::Drained),
            Rule {
                count: Some(Count { at_least: 3, within_ms: 60 * SECOND }),
                ..rule("often", Target::Quarantined)
            },
            Rule {
                when: When::compile(&format!(
                    "signal.key == \"{POOL_COMPLETE}\" && signal.value == \"False\""
                ))
                .unwrap(),
                ..rule(TORN, Target::Quarantined)
            },
        ],
        clear_after_ms: 20 * SECOND,
        steps: vec![step("reset"), step("reboot")],
        attempts_max: 2,
        recovery: Some(Recovery {
            probation_ms: 20 * SECOND,
            validates: true,
            flaps: Some(Flaps { at_most: 2, within_ms: 3_600 * SECOND }),
        }),
    }
}

pub(super) const KEYS: [&str; 4] = ["warm", "hot", "dead", "often"];

/// The API server's objects.
#[derive(Default)]
pub(super) struct Api {
    pub(super) incidents: BTreeMap<Text, Stored>,
    pub(super) children: BTreeMap<(ChildKind, Text), Child>,
    pub(super) reports: BTreeMap<Text, Report>,
    pub(super) foreign: BTreeSet<Text>,
    /// Devices that an administrator taints.
    pub(super) tainted: BTreeSet<DeviceId>,
    pub(super) guard: Guard,
    pub(super) mode: Option<Mode>,
    pub(super) tallies: Vec<Tally>,
    pub(super) clock: u64,
    /// How often each Job was made for an incident, by whoever led.
    pub(super) made: BTreeMap<(Text, Text), usize>,
    /// The write that arrives was sent by somebody who does not lead any more.
    pub(super) is_late: bool,
    /// Objects that such a write made or changed.
    pub(super) late: BTreeSet<Text>,
    /// All changes, for watches.
    pub(super) log: Vec<Event>,
}

#[derive(Clone)]
pub(super) enum Event {
    Incident(Box<Stored>),
    IncidentGone(Text, Text),
    Child(Child),
    ChildGone(ChildKind, Text),
    Report(Report),
    ReportGone(Text),
    Signal(Signal),
    Lowered(DeviceId, Text),
    Used(DeviceId, bool),
    Guard(Guard),
    Tainted(DeviceId, bool),
    Mode(Mode),
    Pool { is_incomplete: bool },
}

impl Event {
    /// A line about an incident, for the search for a cause.
    pub(super) fn line(&self) -> Option<String> {
        match self {
            Self::Incident(stored) => {
                let (incident, version) = (&stored.incident, &stored.version);
                Some(format!("{} {:?} at {version}", incident.name, incident.stage))
            }
            Self::IncidentGone(name, _) => Some(format!("{name} is gone")),
            Self::Signal(signal) => Some(format!("{} {} raised", signal.device.device, signal.key)),
            Self::Lowered(device, key) => Some(format!("{} {key} lowered", device.device)),
            Self::Mode(mode) => Some(format!("{mode:?}")),
            Self::Pool { is_incomplete } => Some(format!("the pool is incomplete: {is_incomplete}")),
            Self::Child(_)
            | Self::ChildGone(..)
            | Self::Report(_)
            | Self::ReportGone(_)
            | Self::Used(..)
            | Self::Guard(_)
            | Self::Tainted(..) => None,
        }
    }

    pub(super) fn notice(self) -> Option<Notice> {
        Some(match self {
            Self::Guard(_) | Self::Tainted(..) | Self::Pool { .. } => return None,
            Self::Mode(mode) => Notice::Core(Input::Policy(Box::new(policy(mode)))),
            Self::Incident(stored) => Notice::Stored(stored),
            Self::IncidentGone(name, uid) => Notice::StoredGone(name, uid),
            Self::Child(child) => Notice::Child(child),
            Self::ChildGone(kind, name) => Notice::ChildGone(kind, Text::default(), name),
            Self::Report(report) => Notice::Report(report),
            Self::ReportGone(name) => Notice::ReportGone(name),
            Self::Signal(signal) => Notice::Core(Input::Raised(signal)),
            Self::Lowered(device, key) => Notice::Core(Input::Lowered { device, key, source: Source::Taint }),
            Self::Used(device, is_used) => {
                let namespaces = if is_used { vec!["default".into()] } else { Vec::new() };
                Notice::Core(Input::InUse { device, is_used, namespaces })
            }
        })
    }
}

/// A controller's view of taints and guards.
#[derive(Clone, Default)]
pub(super) struct View {
    pub(super) rules: BTreeMap<Text, DeviceId>,
    pub(super) tainted: BTreeSet<DeviceId>,
    pub(super) guard: Guard,
}

impl View {
    pub(super) fn see(&mut self, event: &Event) {
        match event {
            Event::Child(child) => match &child.target {
                ChildTarget::Rule { device, effect, .. } if **effect == *"NoSchedule" => {
                    self.rules.insert(child.name.clone(), device.clone());
                }
                ChildTarget::Rule { .. } => drop(self.rules.remove(&child.name)),
                ChildTarget::Drain { .. } | ChildTarget::Job { .. } | ChildTarget::Claim => {}
            },
            Event::ChildGone(ChildKind::Rule, name) => drop(self.rules.remove(name)),
            Event::Guard(guard) => self.guard = *guard,
            Event::Tainted(device, true) => drop(self.tainted.insert(device.clone())),
            Event::Tainted(device, false) => drop(self.tainted.remove(device)),
            Event::ChildGone(..)
            | Event::Incident(_)
            | Event::IncidentGone(..)
            | Event::Report(_)
            | Event::ReportGone(_)
            | Event::Signal(_)
            | Event::Lowered(..)
            | Event::Used(..)
            | Event::Pool { .. }
            | Event::Mode(_) => {}
        }
    }

    pub(super) fn limits(&self) -> Vec<Limit> {
        let Guard { permitted, is_paused, is_tripped } = self.guard;
        let stops = match (is_paused, is_tripped) {
            (true, _) => Some((HeldReason::Paused, "the guard is paused".into())),
            (false, true) => Some((HeldReason::Breaker, "the guard is tripped".into())),
            (false, false) => None,
        };
        let out = self.rules.values().chain(&self.tainted).map(|device| Unit::Device(device.clone()));
        vec![Limit {
            guard: "g".into(),
            selects: Selected::All,
            counts: "devices",
            window_seconds: 0,
            permitted: Some(permitted),
            total: DEVICES.len() as u64,
            out: out.collect(),
            stops,
        }]
    }
}

/// The key of the taint of an object that taints.
pub(super) fn taint_key(child: &Child) -> Option<Text> {
    match &child.target {
        ChildTarget::Rule { taint, .. } | ChildTarget::Drain { taint, .. } => Some(taint.key.clone()),
        ChildTarget::Job { .. } | ChildTarget::Claim => None,
    }
}

pub(super) fn set_taint_key(child: &mut Child, key: Text) {
    if let ChildTarget::Rule { taint, .. } | ChildTarget::Drain { taint, .. } = &mut child.target {
        taint.key = key;
    }
}

impl Api {
    pub(super) fn version(&mut self) -> Text {
        self.clock += 1;
        self.clock.to_string().into()
    }

    pub(super) fn set_incident(&mut self, stored: Stored) {
        self.log.push(Event::Incident(Box::new(stored.clone())));
        self.incidents.insert(stored.incident.name.clone(), stored);
    }

    /// Gives a taint the key that its incident has, whatever it is.
    pub(super) fn hide_taint_key(&self, child: &mut Child) {
        if let Some(stored) = self.incidents.get(&child.owner.name) {
            set_taint_key(child, stored.incident.taint.key.clone());
        }
    }

    pub(super) fn set_child(&mut self, child: Child) {
        if self.is_late {
            self.late.insert(child.uid.clone());
        }
        self.log.push(Event::Child(child.clone()));
        self.children.insert((child.target.kind(), child.name.clone()), child);
    }

    pub(super) fn make(&mut self, owner: Owner, name: Text, target: ChildTarget) -> Outcome {
        let kind = target.kind();
        if kind == ChildKind::Rule && self.foreign.contains(&name) {
            return Outcome::Conflict;
        }
        if let Some(there) = self.children.get(&(kind, name.clone())) {
            return if there.owner == owner { Outcome::Done } else { Outcome::Conflict };
        }
        if kind == ChildKind::Job && !self.is_late {
            *self.made.entry((owner.uid.clone(), name.clone())).or_default() += 1;
        }
        let uid = self.version();
        self.set_child(Child { namespace: Text::default(), name, uid, owner, target });
        Outcome::Done
    }
}
