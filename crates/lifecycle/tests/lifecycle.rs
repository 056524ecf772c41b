//! Devices that fall ill and get well, by the rules of policies.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on has failed; it looks at one effect of many"
)]

use lazaret_lifecycle::{
    Act, Count, Effect, Flaps, HeldReason, Input, Lifecycle, Limit, Mode, Policy, Recovery, Repair, Rule,
    Selected, Signal, Source, Stage, Step, TALLIES_MAX, Target, Unit, When,
};
use lazaret_model::{DeviceId, Text, Timestamp};
use proptest::prelude::*;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn device(name: &str) -> DeviceId {
    DeviceId { driver: "gpu.example.com".into(), pool: "node-1".into(), device: name.into() }
}

fn rule(name: &str, when: &str, target: Target) -> Rule {
    let when = When::compile(when).unwrap();
    Rule { name: name.into(), when, count: None, hold_ms: 0, target, taint_value: name.into() }
}

fn policy() -> Policy {
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
        recovery: Some(Recovery {
            probation_ms: 30 * MINUTE,
            validates: true,
            flaps: Some(Flaps { at_most: 1, within_ms: 24 * 60 * MINUTE }),
        }),
    }
}

struct World {
    machine: Lifecycle,
    now: i64,
    effects: Vec<Effect>,
}

impl World {
    fn new(policy: Policy) -> Self {
        let mut world = Self { machine: Lifecycle::default(), now: 0, effects: Vec::new() };
        let name = policy.name.clone();
        world.hear(Input::Policy(Box::new(policy)));
        world.hear(Input::Device {
            id: device("gpu-0"),
            hardware: Some("uuid-0".into()),
            policies: vec![name],
        });
        world
    }

    fn hear(&mut self, input: Input) {
        self.machine.handle(at(self.now), input);
        self.take();
    }

    fn take(&mut self) {
        while let Some(effect) = self.machine.poll() {
            self.effects.push(effect);
        }
    }

    fn signal(&mut self, key: &str, value: &str, lasts: bool) {
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

    fn lower(&mut self, key: &str) {
        self.hear(Input::Lowered { device: device("gpu-0"), key: key.into(), source: Source::Taint });
    }

    fn is_used(&mut self, is_used: bool) {
        self.hear(Input::InUse { device: device("gpu-0"), is_used, namespaces: vec!["default".into()] });
    }

    /// Lets time pass, with every wake-up in between.
    fn pass(&mut self, millis: i64) {
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

    fn stage(&self) -> Option<Stage> {
        self.machine.incidents().next().map(|incident| incident.stage)
    }

    fn number(&self) -> u64 {
        self.machine.incidents().next().unwrap().number
    }

    fn repair_now(&self) -> Option<(usize, u32)> {
        self.machine.incidents().next().map(|incident| (incident.step, incident.attempts))
    }

    fn taints(&self) -> Vec<&'static str> {
        let taints = self.effects.iter().rev().find_map(|effect| match effect {
            Effect::Taint { effects, .. } => Some(effects.to_vec()),
            _ => None,
        });
        taints.unwrap_or_default()
    }

    fn repairs(&self) -> Vec<&str> {
        let names = self.effects.iter().filter_map(|effect| match effect {
            Effect::Repair { name, .. } => Some(&**name),
            _ => None,
        });
        names.collect()
    }

    fn repaired(&mut self, step: usize, attempt: u32, result: Result<(), String>) {
        let incident = self.number();
        self.hear(Input::Repaired { incident, repair: Repair { step, attempt }, result });
    }
}

#[test]
fn a_device_is_drained_repaired_proven_and_brought_back() {
    let mut world = World::new(policy());
    world.is_used(true);
    world.signal("xid", "79", true);
    assert_eq!((world.stage(), world.taints()), (Some(Stage::Draining), vec!["NoSchedule"]));
    assert!(world.effects.iter().any(|effect| matches!(effect, Effect::Drain { .. })));
    world.pass(MINUTE);
    world.is_used(false);
    assert_eq!((world.stage(), world.repairs()), (Some(Stage::Repairing), vec!["reset"]));
    world.lower("xid");
    world.pass(MINUTE);
    world.repaired(0, 0, Ok(()));
    assert_eq!((world.stage(), world.taints()), (Some(Stage::Probation), vec!["NoSchedule", "NoExecute"]));
    let incident = world.number();
    world.pass(40 * MINUTE);
    assert_eq!(world.stage(), Some(Stage::Probation), "its validation has not passed");
    world.hear(Input::Validated { incident, result: Ok(()) });
    assert_eq!((world.stage(), world.taints()), (None, vec![]));
    let last = world.effects.iter().rev().find_map(|effect| match effect {
        Effect::Record(incident) => Some(incident),
        _ => None,
    });
    let times = last.unwrap().times;
    let minutes = [times.detected, times.decided, times.drained, times.repaired, times.cleared];
    assert_eq!(minutes.map(|time| time.unwrap().as_millis() / MINUTE), [0, 0, 1, 2, 42]);
}

/// Usage is heard once, when the incident begins, and not again when its device is drained.
#[test]
fn whose_pods_used_the_device_is_known_before_it_is_drained() {
    let mut world = World::new(policy());
    for _ in 0..3 {
        world.signal("ecc", "", false);
    }
    assert_eq!(world.stage(), Some(Stage::Quarantined));
    world.is_used(true);
    world.signal("xid", "79", true);
    assert_eq!(world.stage(), Some(Stage::Draining));
    let recorded = world.effects.iter().rev().find_map(|effect| match effect {
        Effect::Record(incident) => Some(incident.cost.namespaces.clone()),
        _ => None,
    });
    assert_eq!(recorded, Some(vec!["default".into()]));
}

#[test]
fn a_count_within_a_time_quarantines_and_calm_ends_it() {
    let mut policy = policy();
    policy.recovery = None;
    let mut world = World::new(policy);
    for _ in 0..2 {
        world.signal("ecc", "", false);
        world.pass(6 * MINUTE);
    }
    world.signal("ecc", "", false);
    assert_eq!(world.stage(), None, "the first is too long ago");
    world.pass(MINUTE);
    world.signal("ecc", "", false);
    assert_eq!(world.stage(), Some(Stage::Quarantined));
    // The three are within ten minutes for three minutes more, and calm lasts fifteen.
    world.pass(18 * MINUTE - 1);
    assert_eq!(world.stage(), Some(Stage::Quarantined));
    world.pass(1);
    assert_eq!((world.stage(), world.taints()), (None, vec![]));
}

#[test]
fn what_was_counted_before_a_repair_is_no_flap_and_what_lasts_has_the_probation_to_end() {
    let mut policy = policy();
    policy.rules[1].target = Target::Drained;
    let mut world = World::new(policy);
    world.is_used(false);
    for _ in 0..3 {
        world.signal("ecc", "", true);
        world.lower("ecc");
    }
    assert_eq!(world.stage(), Some(Stage::Repairing));
    world.repaired(0, 0, Ok(()));
    world.pass(MINUTE);
    assert_eq!(
        world.stage(),
        Some(Stage::Probation),
        "three within ten minutes, all of them before the repair"
    );
    let incident = world.number();
    world.hear(Input::Validated { incident, result: Ok(()) });
    world.pass(30 * MINUTE);
    assert_eq!(world.stage(), None);

    world.signal("xid", "79", true);
    world.pass(MINUTE);
    world.repaired(0, 0, Ok(()));
    world.pass(29 * MINUTE);
    assert_eq!(world.stage(), Some(Stage::Probation), "the driver may be slow to take it back");
    world.pass(MINUTE);
    assert_eq!(
        world.stage(),
        Some(Stage::Abandoned),
        "it did not go away: a flap, as that it came back so soon"
    );
}

#[test]
fn a_short_interruption_does_not_begin_the_time_anew_and_a_long_one_does() {
    let mut world = World::new(policy());
    world.signal("hot", "", true);
    world.pass(90 * SECOND);
    world.lower("hot");
    world.pass(10 * SECOND);
    world.signal("hot", "", true);
    world.pass(20 * SECOND - 1);
    assert_eq!(world.stage(), None);
    world.pass(1);
    assert_eq!((world.stage(), world.taints()), (Some(Stage::Suspect), vec!["None"]));

    let mut world = World::new(self::policy());
    world.signal("hot", "", true);
    world.pass(90 * SECOND);
    world.lower("hot");
    world.pass(3 * MINUTE);
    world.signal("hot", "", true);
    world.pass(119 * SECOND);
    assert_eq!(world.stage(), None);
    world.pass(SECOND);
    assert_eq!(world.stage(), Some(Stage::Suspect));
}

#[test]
fn repairs_go_on_until_none_is_left_and_a_person_decides() {
    let mut world = World::new(policy());
    world.is_used(false);
    world.signal("xid", "48", false);
    world.repaired(0, 0, Err("nvidia-smi failed".into()));
    world.pass(60 * MINUTE);
    assert!(world.effects.iter().any(|effect| matches!(effect, Effect::StopRepair { .. })), "too long");
    world.repaired(0, 0, Ok(()));
    assert_eq!(world.stage(), Some(Stage::Repairing), "an old answer counts for nothing");
    world.repaired(0, 1, Err("again".into()));
    world.repaired(1, 1, Err("and again".into()));
    assert_eq!(world.repairs(), ["reset", "reboot", "reset", "reboot"]);
    assert_eq!((world.stage(), world.taints()), (Some(Stage::Abandoned), vec!["NoSchedule", "NoExecute"]));
    world.pass(1_000 * MINUTE);
    assert_eq!(world.stage(), Some(Stage::Abandoned));
    let incident = world.number();
    let at = at(world.now);
    world.hear(Input::Person { incident, act: Act::Repaired, who: "jo".into(), why: "".into(), at });
    assert_eq!(world.stage(), Some(Stage::Probation));
}

#[test]
fn who_comes_back_in_vain_too_often_is_abandoned() {
    let mut world = World::new(policy());
    world.is_used(false);
    world.signal("xid", "79", false);
    for attempt in 0..2 {
        world.repaired(0, 0, Ok(()));
        assert_eq!(world.stage(), Some(Stage::Probation), "{attempt}");
        world.pass(MINUTE);
        world.signal("xid", "79", false);
    }
    assert_eq!(world.stage(), Some(Stage::Abandoned));
}

#[test]
fn a_policy_that_observes_does_nothing_to_devices() {
    let mut policy = policy();
    policy.mode = Mode::Observe;
    let mut world = World::new(policy);
    world.is_used(true);
    world.signal("xid", "79", false);
    assert_eq!(world.stage(), Some(Stage::Draining));
    world.pass(16 * MINUTE);
    assert_eq!(world.stage(), None);
    assert!(world.effects.iter().all(|effect| matches!(effect, Effect::Record(_))), "{:?}", world.effects);
}

#[test]
fn an_incident_follows_the_hardware_under_another_name() {
    let mut world = World::new(policy());
    world.is_used(true);
    world.signal("xid", "79", false);
    world.hear(Input::DeviceGone(device("gpu-0")));
    let (id, hardware) = (device("gpu-7"), Some(Text::from("uuid-0")));
    world.hear(Input::Device { id: id.clone(), hardware, policies: vec!["p".into()] });
    assert!(world.machine.incidents().map(|one| &one.device).eq([&id]));
    let last = |of: &DeviceId| {
        world.effects.iter().rev().find_map(|effect| match effect {
            Effect::Taint { device, effects, .. } if device == of => Some(effects.to_vec()),
            _ => None,
        })
    };
    assert_eq!((last(&device("gpu-0")), last(&id)), (Some(vec![]), Some(vec!["NoSchedule"])));
}

#[test]
fn a_machine_that_is_given_the_incidents_goes_on_where_the_one_before_ended() {
    let mut world = World::new(policy());
    world.is_used(false);
    world.signal("xid", "79", false);
    world.repaired(0, 0, Err("no".into()));
    let found = world.machine.incidents().next().unwrap().clone();
    let mut other = World { machine: Lifecycle::default(), now: world.now, effects: Vec::new() };
    other.hear(Input::Policy(Box::new(policy())));
    other.hear(Input::Found(Box::new(found.clone())));
    assert_eq!((other.repairs(), other.taints()), (vec!["reboot"], vec!["NoSchedule", "NoExecute"]));
    other.pass(60 * MINUTE);
    assert_eq!(other.repairs(), ["reboot", "reset"], "its time is over as it would have been");
}

/// A guard that permits as many of all devices to be out of service.
fn limit(permitted: u64, out: &[&str]) -> Vec<Limit> {
    vec![Limit {
        guard: "g".into(),
        selects: Selected::All,
        permitted: Some(permitted),
        total: 3,
        out: out.iter().map(|name| Unit::Device(device(name))).collect(),
        stops: None,
    }]
}

/// Three devices, and a signal that lasts on each.
fn three_ill(policy: Policy, limits: Vec<Limit>) -> World {
    let mut world = World::new(policy);
    world.hear(Input::Limits(limits));
    for name in ["gpu-1", "gpu-2"] {
        let (id, hardware) = (device(name), Some(name.into()));
        world.hear(Input::Device { id, hardware, policies: vec!["p".into()] });
    }
    for name in ["gpu-0", "gpu-1", "gpu-2"] {
        world.hear(Input::Raised(Signal {
            device: device(name),
            key: "xid".into(),
            value: "79".into(),
            source: Source::Taint,
            at: at(0),
            lasts: true,
            message: "".into(),
        }));
    }
    world
}

fn stages(world: &World) -> Vec<Stage> {
    let mut all: Vec<_> = world.machine.incidents().collect();
    all.sort_by(|one, other| one.device.cmp(&other.device));
    all.into_iter().map(|incident| incident.stage).collect()
}

#[test]
fn a_policy_that_would_quarantine_everything_is_held_with_the_reason() {
    let mut world = three_ill(policy(), limit(1, &[]));
    assert_eq!(stages(&world), [Stage::Draining, Stage::Suspect, Stage::Suspect]);
    let held = world.machine.incident_of(&device("gpu-2")).unwrap();
    assert_eq!(&*held.waits_for, "DisruptionGuard g: 1 of 3 devices out of service, 1 permitted");
    let why = held.held.clone().unwrap();
    assert_eq!((why.stage, why.reason, &*why.rule), (Stage::Draining, HeldReason::Breaker, "fatal"));
    world.pass(MINUTE);
    assert_eq!(stages(&world), [Stage::Draining, Stage::Suspect, Stage::Suspect], "it stays so");
    // What others took out of service counts, and what is both is counted once.
    world.hear(Input::Limits(limit(2, &["gpu-0"])));
    assert_eq!(stages(&world), [Stage::Draining, Stage::Draining, Stage::Suspect]);
    world.hear(Input::Limits(limit(2, &["gpu-0", "other"])));
    assert_eq!(stages(&world), [Stage::Draining, Stage::Draining, Stage::Suspect]);
    world.hear(Input::Limits(Vec::new()));
    assert_eq!(stages(&world), [Stage::Draining; 3]);
    assert!(world.machine.incidents().all(|incident| incident.held.is_none()));
}

#[test]
fn a_tripped_breaker_holds_what_begins_and_nothing_that_ends() {
    let tripped = |permitted| {
        let mut limits = limit(permitted, &[]);
        limits[0].stops = Some((HeldReason::Breaker, "tripped".into()));
        limits
    };
    let mut world = three_ill(policy(), limit(1, &[]));
    world.hear(Input::Limits(tripped(3)));
    assert_eq!(stages(&world), [Stage::Draining, Stage::Suspect, Stage::Suspect]);
    world.is_used(false);
    world.lower("xid");
    world.repaired(0, 0, Ok(()));
    let incident = world.number();
    world.hear(Input::Validated { incident, result: Ok(()) });
    world.pass(30 * MINUTE);
    assert!(world.machine.incident_of(&device("gpu-0")).is_none(), "it is well again");
    assert_eq!(stages(&world), [Stage::Suspect, Stage::Suspect]);
}

#[test]
fn what_was_observed_is_enforced_as_far_as_guards_permit() {
    let observing = Policy { mode: Mode::Observe, ..policy() };
    let mut world = three_ill(observing, limit(1, &[]));
    assert_eq!(stages(&world), [Stage::Draining; 3], "observing takes nothing out of service");
    world.hear(Input::Policy(Box::new(policy())));
    let enforced = |world: &World| world.machine.incidents().filter(|incident| incident.is_enforced).count();
    assert_eq!((stages(&world), enforced(&world)), (vec![Stage::Draining; 3], 1));
    // Another machine goes by the same.
    let found: Vec<_> = world.machine.incidents().cloned().collect();
    let mut other = World { machine: Lifecycle::default(), now: world.now, effects: Vec::new() };
    other.hear(Input::Policy(Box::new(policy())));
    other.hear(Input::Limits(limit(1, &[])));
    for incident in found {
        other.hear(Input::Found(Box::new(incident)));
    }
    assert_eq!(enforced(&other), 1);
    other.hear(Input::Limits(limit(2, &[])));
    assert_eq!(enforced(&other), 2);
    other.hear(Input::Policy(Box::new(Policy { mode: Mode::Observe, ..policy() })));
    assert_eq!(enforced(&other), 0);
}

#[test]
fn a_node_is_counted_once_and_a_person_goes_on_whatever_a_guard_says() {
    let mut limits = limit(1, &[]);
    let node = |name: &str, node: &str| (device(name), Text::from(node));
    let nodes = [node("gpu-0", "node-1"), node("gpu-1", "node-1"), node("gpu-2", "node-2")];
    limits[0].selects = Selected::Nodes(nodes.into());
    let mut world = three_ill(policy(), limits);
    assert_eq!(stages(&world), [Stage::Draining, Stage::Draining, Stage::Suspect]);
    let incident = world.machine.incident_of(&device("gpu-2")).unwrap();
    assert_eq!(&*incident.waits_for, "DisruptionGuard g: 1 of 3 nodes out of service, 1 permitted");
    let (incident, at) = (incident.number, at(world.now));
    world.hear(Input::Person { incident, act: Act::Abandon, who: "jo".into(), why: "".into(), at });
    assert_eq!(stages(&world), [Stage::Draining, Stage::Draining, Stage::Abandoned]);
}

/// A machine that begins with what another one counted.
fn after_restart(world: &mut World) -> World {
    let tallies = world.machine.tallies(&"p".into(), at(world.now));
    let mut other = World { machine: Lifecycle::default(), now: world.now, effects: Vec::new() };
    other.hear(Input::Policy(Box::new(policy())));
    other.hear(Input::Counted { policy: "p".into(), tallies });
    let id = device("gpu-0");
    other.hear(Input::Device { id, hardware: Some("uuid-0".into()), policies: vec!["p".into()] });
    other
}

#[test]
fn counts_survive_a_restart_and_what_lasts_is_counted_once() {
    let mut world = World::new(policy());
    world.signal("ecc", "", false);
    world.pass(MINUTE);
    world.signal("ecc", "1", true);
    let mut world = after_restart(&mut world);
    world.signal("ecc", "1", true);
    assert_eq!(world.stage(), None, "the second was there before");
    let mut world = after_restart(&mut world);
    world.signal("ecc", "1", true);
    world.lower("ecc");
    world.pass(8 * MINUTE);
    let mut world = after_restart(&mut world);
    world.signal("ecc", "", false);
    assert_eq!(world.stage(), Some(Stage::Quarantined), "three within ten minutes");

    let mut world = World::new(policy());
    world.signal("ecc", "", false);
    world.pass(6 * MINUTE);
    world.signal("ecc", "", false);
    let mut world = after_restart(&mut world);
    world.pass(5 * MINUTE);
    world.signal("ecc", "", false);
    assert_eq!(world.stage(), None, "the first is too long ago");
}

#[test]
fn counts_are_bounded_and_the_newest_are_kept() {
    let mut world = World::new(policy());
    for number in 0..TALLIES_MAX + 10 {
        let name = format!("gpu-{number}");
        let (id, hardware) = (device(&name), Some(name.as_str().into()));
        world.hear(Input::Device { id, hardware, policies: vec!["p".into()] });
        world.now += 1;
        world.hear(Input::Raised(Signal {
            device: device(&name),
            key: "ecc".into(),
            value: "".into(),
            source: Source::Person,
            at: at(world.now),
            lasts: false,
            message: "".into(),
        }));
    }
    let tallies = world.machine.tallies(&"p".into(), at(world.now));
    assert_eq!(
        (tallies.len(), &tallies[0].device),
        (TALLIES_MAX, &device(&format!("gpu-{}", TALLIES_MAX + 9)))
    );
    assert!(world.machine.tallies(&"p".into(), at(world.now + 11 * MINUTE)).is_empty());
}

#[test]
fn what_is_wrong_with_a_policy_is_named_by_field() {
    assert!(When::compile("signal.colour == \"red\"").unwrap_err().contains("undefined field 'colour'"));
    assert!(When::compile("signal.key").unwrap_err().contains("must evaluate to bool"));
    let mut policy = policy();
    policy.rules[1].name = "fatal".into();
    policy.rules[1].count = Some(Count { at_least: 0, within_ms: 0 });
    policy.attempts_max = 0;
    policy.clear_after_ms = 0;
    let problems = policy.problems();
    let fields: Vec<&str> = problems.iter().map(|problem| &*problem.field).collect();
    let expected = [
        "spec.clearAfter",
        "spec.rules[1].name",
        "spec.rules[1].count.atLeast",
        "spec.rules[1].count.within",
        "spec.repair.maxAttempts",
    ];
    assert_eq!(fields, expected);
    assert!(self::policy().problems().is_empty());
}

#[derive(Clone, Debug)]
enum Event {
    Signal(usize, bool),
    Lower(usize),
    Used(bool),
    Repaired(bool),
    Validated(bool),
    Person(usize),
    Pass(i64),
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..4usize, any::<bool>()).prop_map(|(key, lasts)| Event::Signal(key, lasts)),
        3 => (0..4usize).prop_map(Event::Lower),
        2 => any::<bool>().prop_map(Event::Used),
        2 => any::<bool>().prop_map(Event::Repaired),
        2 => any::<bool>().prop_map(Event::Validated),
        1 => (0..3usize).prop_map(Event::Person),
        4 => (1..40 * MINUTE).prop_map(Event::Pass),
        1 => Just(Event::Restart),
    ]
}

const KEYS: [(&str, &str); 4] = [("xid", "79"), ("ecc", ""), ("hot", ""), ("other", "")];

/// Which stage may follow which, without a person.
fn may_follow(before: Stage, after: Stage) -> bool {
    match before {
        Stage::Suspect => true,
        Stage::Quarantined => !matches!(after, Stage::Suspect | Stage::Repairing),
        Stage::Draining => !matches!(after, Stage::Suspect | Stage::Quarantined | Stage::Probation),
        Stage::Repairing => matches!(after, Stage::Repairing | Stage::Probation | Stage::Abandoned),
        Stage::Probation => {
            matches!(after, Stage::Probation | Stage::Draining | Stage::Cleared | Stage::Abandoned)
        }
        Stage::Abandoned => after == Stage::Abandoned,
        Stage::Cleared => false,
    }
}

proptest! {
    #[test]
    fn whatever_happens_no_stage_is_skipped_backwards_and_at_rest_all_is_explained(
        events in proptest::collection::vec(event(), 1..60),
    ) {
        let mut world = World::new(policy());
        let mut shown: Option<Stage> = None;
        let mut by_person = false;
        for event in events {
            let from = world.effects.len();
            let number = world.machine.incidents().next().map(|incident| incident.number);
            match event {
                Event::Signal(key, lasts) => world.signal(KEYS[key].0, KEYS[key].1, lasts),
                Event::Lower(key) => world.lower(KEYS[key].0),
                Event::Used(is_used) => world.is_used(is_used),
                Event::Repaired(well) => if let Some((step, attempt)) = world.repair_now() {
                    world.repaired(step, attempt, if well { Ok(()) } else { Err("no".into()) });
                },
                Event::Validated(well) => if let Some(incident) = number {
                    world.hear(Input::Validated { incident, result: if well { Ok(()) } else { Err("no".into()) } });
                },
                Event::Person(act) => if let Some(incident) = number {
                    by_person = true;
                    let act = [Act::Acknowledge, Act::Repaired, Act::Abandon][act];
                    let at = at(world.now);
                    world.hear(Input::Person { incident, act, who: "jo".into(), why: "".into(), at });
                },
                Event::Pass(millis) => world.pass(millis),
                Event::Restart => {
                    let found: Vec<_> = world.machine.incidents().cloned().collect();
                    world.machine = Lifecycle::default();
                    world.hear(Input::Policy(Box::new(policy())));
                    for incident in found {
                        world.hear(Input::Found(Box::new(incident)));
                    }
                    let id = device("gpu-0");
                    world.hear(Input::Device { id, hardware: Some("uuid-0".into()), policies: vec!["p".into()] });
                }
            }
            for effect in &world.effects[from..] {
                if let Effect::Record(incident) = effect {
                    if let Some(before) = shown {
                        prop_assert!(by_person || may_follow(before, incident.stage), "{before:?} {incident:?}");
                    }
                    shown = Some(incident.stage).filter(|stage| *stage != Stage::Cleared);
                    prop_assert!(incident.timeline.len() <= lazaret_lifecycle::TIMELINE_MAX);
                    prop_assert!(incident.stage == Stage::Cleared || !incident.waits_for.is_empty());
                }
            }
            by_person = false;
            prop_assert!(world.machine.incidents().count() <= 1);
            // The device has the taints of its stage, and none without an incident.
            let expected: &[&str] = match world.stage() {
                None => &[],
                Some(Stage::Suspect) => &["None"],
                Some(Stage::Quarantined | Stage::Draining) => &["NoSchedule"],
                Some(_) => &["NoSchedule", "NoExecute"],
            };
            prop_assert_eq!(world.taints(), expected);
        }
    }
}

/// What a signal costs does not grow with the rules that are about other keys: every expression that is evaluated here says that it cannot be.
#[test]
fn of_fifty_rules_only_those_about_the_key_of_a_signal_are_evaluated() {
    let when = |number| format!(r#"signal.key == "xid-{number}" && int(signal.value) > 8"#);
    let rules = (0..50).map(|number| rule(&format!("rule-{number}"), &when(number), Target::Drained));
    let mut world = World::new(Policy { rules: rules.collect(), ..policy() });
    let evaluated = |world: &World| {
        let broken = |effect: &&Effect| matches!(effect, Effect::Broken { .. });
        world.effects.iter().filter(broken).count()
    };
    world.signal("other", "no number", true);
    assert_eq!(evaluated(&world), 0);
    world.signal("xid-7", "no number", true);
    assert_eq!(evaluated(&world), 1);
}

#[test]
fn rules_that_mean_the_same_signals_are_one_too_many_and_two_policies_may_not_contradict() {
    let fatal = |name: &str, target| rule(name, r#" signal.key == "xid" "#, target);
    let one = Policy { rules: vec![fatal("a", Target::Drained)], ..policy() };
    assert_eq!(one.problems(), []);
    let twice = Policy { rules: vec![fatal("a", Target::Drained), fatal("b", Target::Suspect)], ..policy() };
    let problems: Vec<String> = twice.problems().iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        ["spec.rules[1].when: rule a means the same signals: change or leave out one of them"]
    );
    let other = Policy { rules: vec![fatal("b", Target::Suspect)], ..policy() };
    assert_eq!(other.contradiction(&one), Some((&"b".into(), &"a".into())));
    assert_eq!(one.contradiction(&one), None, "they agree");
    let mut often = fatal("b", Target::Suspect);
    often.count = Some(Count { at_least: 2, within_ms: MINUTE });
    let often = Policy { rules: vec![often], ..policy() };
    assert_eq!((often.problems(), often.contradiction(&one)), (vec![], None), "it means others");
}
