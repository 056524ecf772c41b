//! A machine with one device, and what is asked of it.

use lazaret_lifecycle::{
    Count, Effect, Flaps, Incident, Input, Lifecycle, Mode, Policy, Presence, Recovery, Repair, Rule, Signal,
    Source, Stage, Step, TaintKeyValue, Target, When,
};
use lazaret_model::{DeviceId, Timestamp};

pub(crate) const SECOND: i64 = 1_000;
pub(crate) const MINUTE: i64 = 60 * SECOND;

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(crate) fn device(name: &str) -> DeviceId {
    DeviceId { driver: "gpu.example.com".into(), pool: "node-1".into(), device: name.into() }
}

pub(crate) fn rule(name: &str, when: &str, target: Target) -> Rule {
    let when = When::compile(when).unwrap();
    Rule { name: name.into(), when, count: None, hold_ms: 0, target, taint: TaintKeyValue::quarantine(name) }
}

pub(crate) fn policy() -> Policy {
    let mut ecc = rule("ecc", r#"signal.key == "ecc""#, Target::Quarantined);
    ecc.count = Some(Count { at_least: 3, within_ms: 10 * MINUTE });
    let mut hot = rule("hot", r#"signal.key == "hot""#, Target::Suspect);
    hot.hold_ms = 2 * MINUTE;
    Policy {
        name: "p".into(),
        mode: Mode::Enforce,
        rules: vec![
            rule("fatal", r#"signal.key == "xid" && signal.value in ["48", "79"]"#, Target::Drained),
            ecc,
            hot,
        ],
        clear_after_ms: 15 * MINUTE,
        steps: vec![
            Step { name: "reset".into(), timeout_ms: 10 * MINUTE, is_request: false },
            Step { name: "reboot".into(), timeout_ms: 60 * MINUTE, is_request: false },
        ],
        attempts_max: 2,
        blocked: None,
        recovery: Some(Recovery {
            probation_ms: 30 * MINUTE,
            validates: true,
            validation_timeout_ms: 60 * MINUTE,
            flaps: Some(Flaps { at_most: 1, within_ms: 24 * 60 * MINUTE }),
        }),
    }
}

pub(crate) struct World {
    pub(crate) machine: Lifecycle,
    pub(crate) now: i64,
    pub(crate) effects: Vec<Effect>,
    pub(crate) is_used: bool,
}

impl World {
    pub(crate) fn new(policy: Policy) -> Self {
        let mut world = Self::empty(0);
        let name = policy.name.clone();
        world.hear(Input::Policy(Box::new(policy)));
        world.hear(Input::Device {
            id: device("gpu-0"),
            hardware: Some("uuid-0".into()),
            policies: vec![name],
        });
        world
    }

    pub(crate) fn empty(now: i64) -> Self {
        Self { machine: Lifecycle::default(), now, effects: Vec::new(), is_used: true }
    }

    pub(crate) fn hear(&mut self, input: Input) {
        self.machine.handle(at(self.now), input);
        self.take();
    }

    pub(crate) fn take(&mut self) {
        let from = self.effects.len();
        self.take_all();
        if self.effects[from..].iter().any(|effect| matches!(effect, Effect::Drain { .. })) {
            self.idle();
        }
    }

    fn take_all(&mut self) {
        while let Some(effect) = self.machine.poll() {
            self.effects.push(effect);
        }
    }

    pub(crate) fn signal(&mut self, key: &str, value: &str, lasts: bool) {
        let (key, value) = (key.into(), value.into());
        let signal = Signal {
            device: device("gpu-0"),
            key,
            value,
            source: Source::Taint,
            at: at(self.now),
            lasts,
            message: "".into(),
        };
        self.hear(Input::Raised(signal));
    }

    pub(crate) fn lower(&mut self, key: &str) {
        self.hear(Input::Lowered { device: device("gpu-0"), key: key.into(), source: Source::Taint });
    }

    pub(crate) fn presence(&mut self, name: &str, presence: Presence) {
        self.hear(Input::Presence { device: device(name), presence });
    }

    /// A device is published, with this identity.
    pub(crate) fn publish(&mut self, name: &str, hardware: &str) {
        let (id, hardware) = (device(name), Some(hardware.into()));
        self.hear(Input::Device { id, hardware, policies: vec!["p".into()] });
    }

    /// The taints that a device has.
    pub(crate) fn taints_of(&self, name: &str) -> Vec<&'static str> {
        let last = self.effects.iter().rev().find_map(|effect| match effect {
            Effect::Taint { device: tainted, effects, .. } if *tainted == device(name) => {
                Some(effects.to_vec())
            }
            _ => None,
        });
        last.unwrap_or_default()
    }

    /// The incident as it was last recorded.
    pub(crate) fn recorded(&self) -> Incident {
        let last = self.effects.iter().rev().find_map(|effect| match effect {
            Effect::Record(incident) => Some(Incident::clone(incident)),
            _ => None,
        });
        last.unwrap()
    }

    pub(crate) fn is_used(&mut self, is_used: bool) {
        let (device, namespaces, stays) = (device("gpu-0"), vec!["default".into()], "".into());
        self.is_used = is_used;
        self.hear(Input::InUse { device, is_used, namespaces, stays });
        self.idle();
    }

    /// Each taint is in force at once.
    fn idle(&mut self) {
        let draining = self.machine.incident_of(&device("gpu-0")).map(|incident| incident.number);
        if let Some(incident) = draining.filter(|_| !self.is_used) {
            self.machine.handle(at(self.now), Input::Idle { incident });
            self.take_all();
        }
    }

    /// Lets time pass, with every wake-up in between.
    pub(crate) fn pass(&mut self, millis: i64) {
        let end = self.now + millis;
        while let Some(wake) = self.machine.wake().filter(|wake| wake.as_millis() <= end) {
            assert!(self.effects.len() < 10_000, "it never comes to rest");
            self.now = self.now.max(wake.as_millis());
            self.machine.tick(at(self.now));
            self.take();
        }
        self.now = end;
        self.machine.tick(at(end));
        self.take();
    }

    pub(crate) fn stage(&self) -> Option<Stage> {
        self.machine.incidents().next().map(|incident| incident.stage)
    }

    pub(crate) fn number(&self) -> u64 {
        self.machine.incidents().next().unwrap().number
    }

    pub(crate) fn repair_now(&self) -> Option<(usize, u32)> {
        self.machine.incidents().next().map(|incident| (incident.step, incident.attempts))
    }

    pub(crate) fn taints(&self) -> Vec<&'static str> {
        let taints = self.effects.iter().rev().find_map(|effect| match effect {
            Effect::Taint { effects, .. } => Some(effects.to_vec()),
            _ => None,
        });
        taints.unwrap_or_default()
    }

    pub(crate) fn repairs(&self) -> Vec<&str> {
        let names = self.effects.iter().filter_map(|effect| match effect {
            Effect::Repair { name, .. } => Some(&**name),
            _ => None,
        });
        names.collect()
    }

    pub(crate) fn repaired(&mut self, step: usize, attempt: u32, result: Result<(), String>) {
        let incident = self.number();
        self.hear(Input::Repaired { incident, repair: Repair { step, attempt }, result });
    }
}
