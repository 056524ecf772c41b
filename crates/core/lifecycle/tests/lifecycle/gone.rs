//! Devices that are gone with their nodes.

use std::collections::BTreeSet;

use lazaret_lifecycle::{GONE_MS, Input, Limit, Policy, Presence, Selected, Stage, Target};

use crate::world::{MINUTE, World, at, device, policy, rule};

fn one_of_two(world: &mut World) {
    world.hear(Input::Limits(vec![Limit {
        guard: "g".into(),
        selects: Selected::All,
        counts: "devices",
        window_seconds: 0,
        permitted: Some(1),
        total: 2,
        out: BTreeSet::new(),
        unnamed: 0,
        stops: None,
    }]));
}

fn raise(world: &mut World, name: &str) {
    world.hear(Input::Raised(lazaret_lifecycle::Signal {
        device: device(name),
        key: "hot".into(),
        value: "".into(),
        source: lazaret_lifecycle::Source::Taint,
        at: at(world.now),
        lasts: false,
        message: "".into(),
    }));
}

fn hot() -> Policy {
    Policy { rules: vec![rule("hot", r#"signal.key == "hot""#, Target::Quarantined)], ..policy() }
}

fn stage_of(world: &World, name: &str) -> Option<Stage> {
    world.machine.incident_of(&device(name)).map(|incident| incident.stage)
}

#[test]
fn what_does_not_exist_does_not_count_for_a_guard() {
    let mut world = World::new(hot());
    world.publish("gpu-1", "uuid-1");
    one_of_two(&mut world);
    raise(&mut world, "gpu-0");
    world.presence("gpu-0", Presence::Published);
    raise(&mut world, "gpu-1");
    assert_eq!(
        (stage_of(&world, "gpu-0"), stage_of(&world, "gpu-1")),
        (Some(Stage::Quarantined), Some(Stage::Suspect))
    );
    world.hear(Input::DeviceGone(device("gpu-0")));
    world.presence("gpu-0", Presence::Unpublished);
    world.pass(MINUTE);
    assert_eq!(
        stage_of(&world, "gpu-1"),
        Some(Stage::Suspect),
        "its node is there: it may come back at any time"
    );
    world.presence("gpu-0", Presence::Gone);
    world.pass(0);
    assert_eq!(stage_of(&world, "gpu-1"), Some(Stage::Quarantined));
}

#[test]
fn a_device_that_is_back_counts_again() {
    let mut world = World::new(hot());
    world.publish("gpu-1", "uuid-1");
    one_of_two(&mut world);
    raise(&mut world, "gpu-0");
    world.presence("gpu-0", Presence::Gone);
    world.publish("gpu-0", "uuid-0");
    world.presence("gpu-0", Presence::Published);
    raise(&mut world, "gpu-1");
    assert_eq!(stage_of(&world, "gpu-1"), Some(Stage::Suspect));
}

#[test]
fn an_incident_of_a_device_that_is_gone_is_not_repaired_and_ends_after_a_day() {
    let mut world = World::new(policy());
    world.is_used(false);
    world.signal("xid", "79", false);
    world.hear(Input::DeviceGone(device("gpu-0")));
    world.presence("gpu-0", Presence::Gone);
    let incident = world.recorded();
    assert_eq!((incident.gone_since, world.machine.wanted(&incident).task), (Some(at(0)), None));
    assert!(incident.waits_for.contains("published again"), "{}", incident.waits_for);
    world.pass(GONE_MS - 1);
    assert_eq!(world.stage(), Some(Stage::Repairing), "its steps did not time out");
    world.pass(1);
    assert_eq!((world.stage(), world.taints()), (None, vec![]));
    assert!(world.recorded().timeline.last().unwrap().cause.contains("gone for 24 h"));
}

#[test]
fn a_device_that_is_back_within_a_day_is_repaired_as_before() {
    let mut world = World::new(policy());
    world.is_used(false);
    world.signal("xid", "79", false);
    world.presence("gpu-0", Presence::Gone);
    world.pass(GONE_MS / 2);
    world.publish("gpu-0", "uuid-0");
    world.presence("gpu-0", Presence::Published);
    assert_eq!((world.stage(), world.repair_now()), (Some(Stage::Repairing), Some((0, 0))));
    world.pass(9 * MINUTE);
    assert_eq!(world.repair_now(), Some((0, 0)), "the step has its whole time");
    world.pass(MINUTE);
    assert_eq!(world.repair_now(), Some((1, 0)));
}

#[test]
fn a_device_that_was_given_up_stays_so_until_a_person_decides() {
    let mut world = World::new(policy());
    world.is_used(false);
    world.signal("xid", "79", false);
    for (step, attempt) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        world.repaired(step, attempt, Err("no".into()));
    }
    world.presence("gpu-0", Presence::Gone);
    world.pass(2 * GONE_MS);
    assert_eq!(world.stage(), Some(Stage::Abandoned));
}

#[test]
fn what_did_not_exist_was_not_calm() {
    let suspect = Policy { rules: vec![rule("hot", r#"signal.key == "hot""#, Target::Suspect)], ..policy() };
    let mut world = World::new(suspect);
    raise(&mut world, "gpu-0");
    world.hear(Input::DeviceGone(device("gpu-0")));
    world.presence("gpu-0", Presence::Gone);
    world.pass(GONE_MS / 2);
    world.presence("gpu-0", Presence::Unpublished);
    world.pass(14 * MINUTE);
    assert_eq!(world.stage(), Some(Stage::Suspect), "its time begins with its return");
    world.pass(2 * MINUTE);
    assert_eq!(world.stage(), None);
}

#[test]
fn of_devices_that_are_gone_with_their_node_no_more_are_taken_out_than_permitted_on_its_return() {
    let mut world = World::new(hot());
    let none = |permitted| {
        Input::Limits(vec![Limit {
            guard: "g".into(),
            selects: Selected::All,
            counts: "devices",
            window_seconds: 0,
            permitted: Some(permitted),
            total: 2,
            out: BTreeSet::new(),
            unnamed: 0,
            stops: None,
        }])
    };
    world.publish("gpu-1", "uuid-1");
    world.hear(none(0));
    raise(&mut world, "gpu-0");
    raise(&mut world, "gpu-1");
    for presence in [Presence::Gone, Presence::Published] {
        world.presence("gpu-0", presence);
        world.presence("gpu-1", presence);
        world.pass(MINUTE);
        world.hear(none(1));
        world.pass(MINUTE);
        let stages = ["gpu-0", "gpu-1"].map(|name| stage_of(&world, name));
        let out = stages.iter().filter(|stage| **stage == Some(Stage::Quarantined)).count();
        assert_eq!(out, 1, "{presence:?}: {stages:?}");
    }
}
