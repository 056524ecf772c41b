//! Several policies of one device: those that observe are apart, and of those that enforce the one of the worst rule governs.

use lazaret_lifecycle::{
    Act, Effect, Flaps, Incident, Input, Limit, Mode, Policy, Recovery, Selected, Stage, Step, Target,
};
use lazaret_model::{DeviceId, Unit};
use proptest::prelude::*;

use crate::world::{MINUTE, World, at, device, policy, rule};

fn named(name: &str, mode: Mode, rules: &[(&str, Target)]) -> Policy {
    let rules =
        rules.iter().map(|(key, target)| rule(key, &format!("signal.key == '{key}'"), *target)).collect();
    let step = Step { name: format!("step of {name}").into(), timeout_ms: 10 * MINUTE, is_request: false };
    Policy { name: name.into(), mode, rules, steps: vec![step], ..policy() }
}

fn world(policies: Vec<Policy>) -> World {
    let mut world = World::empty(0);
    let names = policies.iter().map(|policy| policy.name.clone()).collect();
    for policy in policies {
        world.hear(Input::Policy(Box::new(policy)));
    }
    world.hear(Input::Device { id: device("gpu-0"), hardware: Some("uuid-0".into()), policies: names });
    world
}

fn governed(world: &World) -> Option<(String, Stage, bool)> {
    let incident = world.machine.incidents().next()?;
    Some((incident.policy.to_string(), incident.stage, incident.is_enforced))
}

#[test]
fn a_policy_that_enforces_has_an_incident_of_its_own_where_another_observes() {
    for observer in ["a", "z"] {
        let mut world = world(vec![
            named(observer, Mode::Observe, &[("early", Target::Drained), ("late", Target::Drained)]),
            named("p", Mode::Enforce, &[("late", Target::Quarantined)]),
        ]);
        world.signal("early", "", true);
        assert_eq!(governed(&world), Some((observer.into(), Stage::Draining, false)));
        world.signal("late", "", true);
        assert_eq!(governed(&world), Some(("p".into(), Stage::Quarantined, true)), "{observer}");
        assert_eq!(world.taints(), ["NoSchedule"]);
        // An observed signal is no reason that the device is not calm.
        world.lower("late");
        world.pass(16 * MINUTE);
        assert_eq!(governed(&world), Some(("p".into(), Stage::Probation, true)), "{observer}");
    }
}

#[test]
fn a_policy_that_observes_changes_nothing_of_an_incident_that_is_enforced() {
    let mut world = world(vec![
        named("a", Mode::Observe, &[("fatal", Target::Drained)]),
        named("p", Mode::Enforce, &[("mild", Target::Quarantined)]),
    ]);
    world.signal("mild", "", true);
    world.signal("fatal", "", true);
    assert_eq!(governed(&world), Some(("p".into(), Stage::Quarantined, true)));
    world.hear(Input::PolicyGone("a".into()));
    assert_eq!(governed(&world), Some(("p".into(), Stage::Quarantined, true)));
}

#[test]
fn an_incident_that_was_only_observed_ends_with_its_policy() {
    let mut world = world(vec![named("a", Mode::Observe, &[("fatal", Target::Drained)])]);
    world.signal("fatal", "", true);
    world.hear(Input::PolicyGone("a".into()));
    assert_eq!(world.stage(), None);
}

#[test]
fn a_device_that_a_person_gave_up_stays_so_whatever_becomes_of_its_policy() {
    let mut world = world(vec![named("a", Mode::Enforce, &[("fatal", Target::Drained)])]);
    world.signal("fatal", "", true);
    let (incident, at) = (world.number(), at(world.now));
    world.hear(Input::Person { incident, act: Act::Abandon, who: "jo".into(), why: "".into(), at });
    world.hear(Input::Policy(Box::new(named("a", Mode::Observe, &[("fatal", Target::Drained)]))));
    world.hear(Input::PolicyGone("a".into()));
    assert_eq!(world.stage(), Some(Stage::Abandoned));
}

#[test]
fn the_policy_of_a_worse_rule_governs_from_then_on_with_its_repair_and_its_proof() {
    let mild = Policy {
        recovery: None,
        steps: Vec::new(),
        ..named("a", Mode::Enforce, &[("mild", Target::Quarantined)])
    };
    let mut world = world(vec![mild, named("strict", Mode::Enforce, &[("fatal", Target::Drained)])]);
    world.is_used(true);
    world.signal("mild", "", false);
    world.signal("fatal", "", false);
    assert_eq!(governed(&world), Some(("strict".into(), Stage::Draining, true)));
    let said = world.machine.incidents().next().unwrap().timeline.last().unwrap().cause.clone();
    assert_eq!(&*said, "rule fatal; DeviceHealthPolicy strict governs the incident from now on, not a");
    world.is_used(false);
    assert_eq!(world.repairs(), ["step of strict"]);
    world.repaired(0, 0, Ok(()));
    assert!(world.effects.iter().any(|effect| matches!(effect, Effect::Validate { .. })));
    world.hear(Input::PolicyGone("a".into()));
    assert_eq!(governed(&world), Some(("strict".into(), Stage::Probation, true)));
    let incident = world.number();
    world.hear(Input::Validated { incident, result: Ok(()) });
    world.pass(30 * MINUTE);
    assert_eq!(world.stage(), None);
}

#[test]
fn during_a_probation_a_worse_rule_governs_and_a_milder_one_is_a_flap_of_the_policy_before() {
    let strict = || named("strict", Mode::Enforce, &[("fatal", Target::Drained)]);
    let mild = || named("a", Mode::Enforce, &[("mild", Target::Quarantined)]);
    for (first, second, policy) in [("mild", "fatal", "strict"), ("fatal", "mild", "strict")] {
        let mut world = world(vec![mild(), strict()]);
        world.is_used(false);
        world.signal(first, "", false);
        if first == "mild" {
            world.pass(16 * MINUTE);
        } else {
            world.repaired(0, 0, Ok(()));
        }
        assert_eq!(world.stage(), Some(Stage::Probation));
        world.is_used(true);
        world.signal(second, "", false);
        assert_eq!(governed(&world), Some((policy.into(), Stage::Draining, true)), "{first}");
    }
}

#[test]
fn what_a_guard_holds_for_another_policy_is_governed_by_that_once_it_is_permitted() {
    let limit = |permitted| Limit {
        guard: "g".into(),
        selects: Selected::All,
        counts: "devices",
        window_seconds: 0,
        permitted: Some(permitted),
        total: 2,
        out: [Unit::Device(device("gpu-1"))].into(),
        unnamed: 0,
        stops: None,
    };
    let suspicious = named("a", Mode::Enforce, &[("odd", Target::Suspect)]);
    let mut world = world(vec![suspicious, named("strict", Mode::Enforce, &[("fatal", Target::Drained)])]);
    world.hear(Input::Limits(vec![limit(1)]));
    world.signal("odd", "", false);
    world.signal("fatal", "", false);
    assert_eq!(governed(&world), Some(("a".into(), Stage::Suspect, true)));
    world.hear(Input::Limits(vec![limit(2)]));
    assert_eq!(governed(&world), Some(("strict".into(), Stage::Draining, true)));

    world.hear(Input::Limits(vec![limit(1)]));
    let mut world = self::world(vec![
        named("a", Mode::Enforce, &[("odd", Target::Suspect)]),
        named("strict", Mode::Enforce, &[("fatal", Target::Drained)]),
    ]);
    world.hear(Input::Limits(vec![limit(1)]));
    world.signal("odd", "", false);
    world.signal("fatal", "", false);
    world.hear(Input::PolicyGone("strict".into()));
    assert_eq!(
        &*world.machine.incidents().next().unwrap().waits_for,
        "calm for 900 s",
        "nobody wants it any more"
    );
}

#[derive(Clone, Debug)]
enum Event {
    Signal(usize, bool),
    Lower(usize),
    Used(bool),
    Repaired(bool),
    Validated(bool),
    Pass(i64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..3usize, any::<bool>()).prop_map(|(key, lasts)| Event::Signal(key, lasts)),
        3 => (0..3usize).prop_map(Event::Lower),
        2 => any::<bool>().prop_map(Event::Used),
        2 => any::<bool>().prop_map(Event::Repaired),
        2 => any::<bool>().prop_map(Event::Validated),
        4 => (1..40 * MINUTE).prop_map(Event::Pass),
    ]
}

const KEYS: [&str; 3] = ["odd", "mild", "fatal"];

fn play(world: &mut World, event: &Event) {
    let enforced = world.machine.incident_of(&device("gpu-0")).filter(|incident| incident.is_enforced);
    let task = enforced.map(|incident| (incident.number, incident.step, incident.attempts));
    let result = |well: bool| if well { Ok(()) } else { Err("no".to_owned()) };
    match *event {
        Event::Signal(key, lasts) => world.signal(KEYS[key], "", lasts),
        Event::Lower(key) => world.lower(KEYS[key]),
        Event::Used(is_used) => world.is_used(is_used),
        Event::Repaired(well) => {
            if let Some((_, step, attempt)) = task {
                world.repaired(step, attempt, result(well));
            }
        }
        Event::Validated(well) => {
            if let Some((incident, ..)) = task {
                world.hear(Input::Validated { incident, result: result(well) });
            }
        }
        Event::Pass(millis) => world.pass(millis),
    }
}

type Enforced = (String, Stage, Vec<&'static str>, usize, u32, usize);

/// The effects on the device.
fn enforced(world: &World) -> Option<Enforced> {
    let id: DeviceId = device("gpu-0");
    let incident = world.machine.incident_of(&id).filter(|incident| incident.is_enforced)?;
    let (policy, flaps) = (incident.policy.to_string(), incident.flaps.len());
    Some((policy, incident.stage, world.taints(), incident.step, incident.attempts, flaps))
}

proptest! {
    #[test]
    fn a_policy_that_observes_changes_nothing_that_those_that_enforce_do(
        events in proptest::collection::vec(event(), 1..40),
        targets in proptest::collection::vec(0..3usize, 3),
        name in prop_oneof![Just("a"), Just("z")],
        removed in 0..40usize,
    ) {
        let targets = targets.iter().map(|at| [Target::Suspect, Target::Quarantined, Target::Drained][*at]);
        let observed: Vec<(&str, Target)> = KEYS.into_iter().zip(targets).collect();
        let recovery = |within| Some(Recovery {
            flaps: Some(Flaps { at_most: 1, within_ms: within }),
            ..policy().recovery.unwrap()
        });
        let rules = [("mild", Target::Quarantined), ("fatal", Target::Drained)];
        let enforcing = Policy { recovery: recovery(60 * MINUTE), ..named("p", Mode::Enforce, &rules) };
        let observing = Policy { recovery: recovery(30 * MINUTE), ..named(name, Mode::Observe, &observed) };
        let mut alone = world(vec![enforcing.clone()]);
        let mut beside = world(vec![enforcing, observing]);
        for (index, event) in events.iter().enumerate() {
            if index == removed {
                beside.hear(Input::PolicyGone(name.into()));
            }
            play(&mut alone, event);
            play(&mut beside, event);
            prop_assert_eq!(enforced(&alone), enforced(&beside), "after {:?} at {:?}", event, at(alone.now));
        }
    }
}

/// A leader that ended before it could say that the policy was gone.
#[test]
fn an_incident_that_was_only_observed_ends_where_its_policy_went_between_two_leaders() {
    let mut world = world(vec![named("a", Mode::Observe, &[("early", Target::Drained)])]);
    world.signal("early", "", false);
    let found = world.recorded();
    assert!(!found.is_enforced);
    let mut next = World::empty(world.now);
    next.hear(Input::Begin);
    next.hear(Input::Found(Box::new(found.clone())));
    assert_eq!(next.stage(), None);
    let ended = next.recorded();
    assert_eq!(
        &*ended.timeline.last().unwrap().cause,
        "its policy is gone, and nothing was done to the device"
    );
    // One that enforced leaves the device to a person.
    next.hear(Input::Found(Box::new(Incident { is_enforced: true, ..found })));
    assert_eq!(next.stage(), Some(Stage::Draining));
}
