//! Several policies that demand to drain one device: the repair and the proof of each, one after the other.

use lazaret_lifecycle::{
    Act, Effect, Flaps, Incident, Input, Limit, Mode, Policy, Recovery, Selected, Stage, Step, Target,
};
use lazaret_model::Unit;
use proptest::prelude::*;

use crate::world::{MINUTE, World, at, device, policy, rule};

fn named(name: &str, rules: &[(&str, Target)]) -> Policy {
    let rules =
        rules.iter().map(|(key, target)| rule(key, &format!("signal.key == '{key}'"), *target)).collect();
    let step = Step { name: format!("step of {name}").into(), timeout_ms: 10 * MINUTE, is_request: false };
    Policy { name: name.into(), rules, steps: vec![step], ..policy() }
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

/// Two policies that both demand to drain a device for a fatal signal, which came once.
fn demanded() -> World {
    let mut world =
        world(vec![named("a", &[("fatal", Target::Drained)]), named("b", &[("fatal", Target::Drained)])]);
    world.is_used(false);
    world.signal("fatal", "", false);
    world
}

fn incident(world: &World) -> Incident {
    world.machine.incidents().next().unwrap().clone()
}

fn governed(world: &World) -> (String, Stage) {
    let incident = incident(world);
    (incident.policy.to_string(), incident.stage)
}

/// The policy that governs repairs the device, and it proves itself.
fn mend(world: &mut World) {
    world.repaired(0, 0, Ok(()));
    let incident = world.number();
    world.hear(Input::Validated { incident, result: Ok(()) });
    world.pass(31 * MINUTE);
}

#[test]
fn the_repair_and_the_proof_of_each_policy_that_demands_a_repair_follow_each_other() {
    let mut world = demanded();
    assert_eq!(governed(&world), ("a".into(), Stage::Repairing));
    let demands = incident(&world).demands;
    assert_eq!(
        demands.iter().map(|demand| (&*demand.policy, demand.is_met)).collect::<Vec<_>>(),
        [("b", false)]
    );
    assert_eq!(
        &*incident(&world).waits_for,
        "repair step of a; then the repair and the proof of DeviceHealthPolicy b"
    );
    let said =
        |world: &World, text: &str| incident(world).timeline.iter().any(|entry| entry.cause.contains(text));
    assert!(said(&world, "rule fatal; the repair and the proof of DeviceHealthPolicy b follow"));
    mend(&mut world);
    assert_eq!(governed(&world), ("b".into(), Stage::Repairing));
    assert!(said(&world, "DeviceHealthPolicy b governs the incident from now on, not a"));
    assert_eq!(world.repairs(), ["step of a", "step of b"]);
    assert_eq!(&*incident(&world).waits_for, "repair step of b");
    assert_eq!(incident(&world).flaps, [], "nothing came back in vain");
    mend(&mut world);
    assert_eq!(world.stage(), None);
}

#[test]
fn the_next_leader_knows_which_policies_demand_a_repair() {
    let found = demanded().recorded();
    let mut world = demanded();
    world.hear(Input::Begin);
    world.hear(Input::Found(Box::new(found)));
    mend(&mut world);
    assert_eq!(governed(&world), ("b".into(), Stage::Repairing));
}

#[test]
fn a_policy_that_demanded_a_repair_during_that_of_another_has_its_own() {
    let mut world =
        world(vec![named("a", &[("odd", Target::Drained)]), named("b", &[("fatal", Target::Drained)])]);
    world.is_used(false);
    world.signal("odd", "", false);
    world.signal("fatal", "", false);
    mend(&mut world);
    assert_eq!(governed(&world), ("b".into(), Stage::Repairing));
}

#[test]
fn the_end_of_one_of_two_policies_leaves_the_demand_of_the_other() {
    for ends in [true, false] {
        let mut world = demanded();
        if ends {
            world.hear(Input::PolicyGone("a".into()));
        } else {
            let observes = Policy { mode: Mode::Observe, ..named("a", &[("fatal", Target::Drained)]) };
            world.hear(Input::Policy(Box::new(observes)));
        }
        assert_eq!(governed(&world), ("b".into(), Stage::Repairing), "{ends}");
        assert_eq!(world.taints(), ["NoSchedule", "NoExecute"]);
        mend(&mut world);
        assert_eq!(world.stage(), None);
    }
    let mut world = demanded();
    world.hear(Input::PolicyGone("b".into()));
    assert_eq!(&*incident(&world).waits_for, "repair step of a");
    mend(&mut world);
    assert_eq!(world.stage(), None);
}

#[test]
fn a_guard_that_held_both_holds_the_other_when_one_is_gone() {
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
    let fatal = [("fatal", Target::Drained)];
    let mut world = world(vec![named("a", &fatal), named("b", &fatal)]);
    world.hear(Input::Limits(vec![limit(1)]));
    world.signal("fatal", "", false);
    assert_eq!(world.stage(), Some(Stage::Suspect));
    world.hear(Input::PolicyGone("a".into()));
    world.pass(60 * MINUTE);
    assert_eq!(world.stage(), Some(Stage::Suspect), "it waits for the guard, however calm the device is");
    world.hear(Input::Limits(vec![limit(2)]));
    assert_eq!(governed(&world), ("b".into(), Stage::Draining));
}

#[test]
fn a_person_who_repaired_the_device_answers_for_all_policies() {
    let mut world = demanded();
    let (incident, at) = (world.number(), at(world.now));
    world.hear(Input::Person { incident, act: Act::Repaired, who: "jo".into(), why: "".into(), at });
    world.hear(Input::Validated { incident, result: Ok(()) });
    world.pass(31 * MINUTE);
    assert_eq!(world.stage(), None);
}

#[test]
fn a_policy_that_demands_again_after_its_proof_counts_a_flap() {
    let mut world = demanded();
    mend(&mut world);
    world.signal("fatal", "", false);
    assert_eq!(incident(&world).flaps.len(), 1);
    mend(&mut world);
    assert_eq!(governed(&world), ("a".into(), Stage::Repairing));
    world.signal("fatal", "", false);
    assert_eq!(world.stage(), Some(Stage::Abandoned), "one flap is permitted");
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Signal(usize),
    Repaired(bool),
    Validated(bool),
    Pass(i64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..3usize).prop_map(Event::Signal),
        4 => any::<bool>().prop_map(Event::Repaired),
        4 => any::<bool>().prop_map(Event::Validated),
        4 => (1..40 * MINUTE).prop_map(Event::Pass),
    ]
}

const KEYS: [&str; 3] = ["a", "b", "both"];

/// Plays an event. `owed`: policies that demanded a repair and have no proof since. A signal that lasts would be one demand, however often it is raised.
fn play(world: &mut World, event: Event, owed: &mut Vec<&'static str>) {
    let result = |well: bool| if well { Ok(()) } else { Err("no".to_owned()) };
    let open = world.machine.incidents().next().map(|one| (one.number, one.step, one.attempts, one.stage));
    match event {
        Event::Signal(key) => {
            if open.is_none_or(|(.., stage)| stage != Stage::Abandoned) {
                let both: &[&'static str] = &["a", "b"];
                let of = both.iter().filter(|name| key == 2 || KEYS[key] == **name);
                owed.extend(of);
            }
            world.signal(KEYS[key], "", false);
        }
        Event::Repaired(well) => {
            if let Some((_, step, attempt, Stage::Repairing)) = open {
                world.repaired(step, attempt, result(well));
            }
        }
        Event::Validated(well) => {
            if let Some((incident, .., Stage::Probation)) = open {
                let governs = self::incident(world).policy;
                if well {
                    owed.retain(|name| **name != *governs);
                }
                world.hear(Input::Validated { incident, result: result(well) });
            }
        }
        Event::Pass(millis) => world.pass(millis),
    }
}

proptest! {
    #[test]
    fn no_incident_ends_before_each_policy_that_demanded_a_repair_has_its_proof(
        events in proptest::collection::vec(event(), 1..80),
    ) {
        let flaps = Some(Flaps { at_most: 60, within_ms: 24 * 60 * MINUTE });
        let patient = |name: &str, rules: &[(&str, Target)]| Policy {
            attempts_max: 50,
            recovery: Some(Recovery { flaps, ..policy().recovery.unwrap() }),
            ..named(name, rules)
        };
        let (own, both) = (Target::Drained, ("both", Target::Drained));
        let mut world = world(vec![patient("a", &[("a", own), both]), patient("b", &[("b", own), both])]);
        world.is_used(false);
        let mut owed = Vec::new();
        for event in events {
            play(&mut world, event, &mut owed);
            let ended = world.effects.iter().any(|effect| matches!(effect, Effect::Record(one) if !one.is_open()));
            if ended {
                prop_assert_eq!(&owed, &Vec::<&str>::new(), "after {:?}", event);
                world.effects.clear();
            }
        }
    }
}

/// Nothing may be taken out of service.
fn full() -> Vec<Limit> {
    vec![Limit {
        guard: "g".into(),
        selects: Selected::All,
        counts: "devices",
        window_seconds: 0,
        permitted: Some(0),
        total: 1,
        out: [].into(),
        unnamed: 0,
        stops: None,
    }]
}

/// Each of two policies demands to drain the device, and a guard holds both verdicts. The signals came once.
fn both_held() -> World {
    let mut world = world(vec![
        named("a", &[("one", Target::Drained)]),
        named("b", &[("bad", Target::Suspect), ("two", Target::Drained)]),
    ]);
    world.is_used(false);
    world.hear(Input::Limits(full()));
    for key in ["bad", "one", "two"] {
        world.signal(key, "", false);
    }
    let incident = incident(&world);
    assert_eq!((incident.stage, &*incident.policy), (Stage::Suspect, "b"));
    assert_eq!(incident.held.as_ref().map(|held| &*held.policy), Some("a"));
    world
}

fn demanding(world: &World) -> Vec<String> {
    incident(world).demands.iter().map(|demand| demand.policy.to_string()).collect()
}

#[test]
fn a_verdict_that_a_guard_holds_is_not_lost_to_that_of_another_policy() {
    let mut world = both_held();
    assert_eq!(demanding(&world), ["b"]);
    world.hear(Input::Limits(Vec::new()));
    assert_eq!((governed(&world), demanding(&world)), (("a".into(), Stage::Repairing), vec!["b".into()]));
    mend(&mut world);
    assert_eq!(governed(&world), ("b".into(), Stage::Repairing));
    mend(&mut world);
    assert_eq!(world.stage(), None);
}

#[test]
fn what_the_policy_of_a_suspect_device_demands_is_held_when_the_other_one_goes() {
    let observing = Policy { mode: Mode::Observe, ..named("a", &[("one", Target::Drained)]) };
    for goes in [Input::PolicyGone("a".into()), Input::Policy(Box::new(observing))] {
        let mut world = both_held();
        world.hear(goes);
        assert_eq!(incident(&world).held.as_ref().map(|held| &*held.policy), Some("b"));
        assert!(demanding(&world).is_empty(), "it is what the guard holds");
        world.hear(Input::Limits(Vec::new()));
        assert_eq!(governed(&world), ("b".into(), Stage::Repairing));
    }
}

#[test]
fn a_policy_that_comes_to_govern_demands_nothing_beside() {
    let mut world = both_held();
    let mut found = incident(&world);
    found.held.as_mut().unwrap().policy = "b".into();
    world.hear(Input::Begin);
    world.hear(Input::Found(Box::new(found)));
    world.hear(Input::Limits(Vec::new()));
    assert_eq!((governed(&world), demanding(&world)), (("b".into(), Stage::Repairing), vec![]));
}
