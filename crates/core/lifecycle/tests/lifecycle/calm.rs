//! Since when a device is calm, over restarts: never counted from earlier than its last signal.

use lazaret_lifecycle::{Incident, Input, Lifecycle, Mode, Policy, Presence, Recovery, Stage, Target};

use crate::world::{MINUTE, SECOND, World, device, policy, rule};

fn quarantines() -> Policy {
    let rules = vec![rule("hot", r#"signal.key == "hot""#, Target::Quarantined)];
    Policy { rules, recovery: None, ..policy() }
}

/// Another machine finds what was last recorded.
fn restart(world: &World, now: i64) -> World {
    let found: Incident = world.recorded();
    let mut next = World { machine: Lifecycle::default(), now, effects: Vec::new(), is_used: true };
    next.hear(Input::Policy(Box::new(quarantines())));
    next.publish("gpu-0", "uuid-0");
    next.hear(Input::Found(Box::new(found)));
    next
}

#[test]
fn a_restart_does_not_count_calm_from_before_the_last_signal() {
    let mut world = World::new(quarantines());
    world.signal("hot", "", false);
    for _ in 0..4 {
        world.pass(13 * MINUTE);
        world.signal("hot", "", false);
    }
    let last = world.now;
    let mut next = restart(&world, last + SECOND);
    next.pass(14 * MINUTE);
    assert_eq!(next.stage(), Some(Stage::Quarantined));
    next.pass(2 * MINUTE);
    assert_eq!(next.stage(), None);
}

#[test]
fn a_restart_goes_on_from_calm_that_was_stored() {
    let mut world = World::new(quarantines());
    world.signal("hot", "", false);
    world.pass(5 * MINUTE);
    world.signal("hot", "", false);
    world.pass(8 * MINUTE);
    assert_eq!(world.recorded().calm_since, Some(crate::world::at(5 * MINUTE)));
    let mut next = restart(&world, world.now);
    next.pass(7 * MINUTE - 1);
    assert_eq!(next.stage(), Some(Stage::Quarantined));
    next.pass(1);
    assert_eq!(next.stage(), None);
}

#[test]
fn what_held_when_the_last_leader_ended_and_holds_no_more_is_calm_from_the_start_of_the_next() {
    let mut world = World::new(quarantines());
    world.signal("hot", "", true);
    world.pass(100 * MINUTE);
    let mut next = restart(&world, world.now + 100 * MINUTE);
    next.pass(15 * MINUTE - 1);
    assert_eq!(next.stage(), Some(Stage::Quarantined));
    next.pass(1);
    assert_eq!(next.stage(), None);
}

#[test]
fn many_signals_write_an_incident_twice_in_the_time_after_which_calm_is_stored() {
    let mut world = World::new(quarantines());
    world.signal("hot", "", false);
    world.pass(2 * MINUTE);
    let before = world.effects.len();
    for _ in 0..600 {
        world.signal("hot", "", true);
        world.pass(SECOND / 2);
        world.lower("hot");
        world.pass(SECOND / 2);
    }
    assert_eq!(world.effects.len() - before, 1, "calm is void from the first on");
    world.pass(14 * MINUTE);
    assert_eq!(world.effects.len() - before, 2);
    assert!(world.recorded().calm_since.is_some());
}

/// The rules of a policy that is written begin again, and signals that last are sent again after it.
#[test]
fn an_ill_device_is_not_calm_while_its_policy_is_being_written() {
    for (recovery, expected) in [(None, Stage::Quarantined), (policy().recovery, Stage::Quarantined)] {
        let edited = |value: &str| {
            let mut edited = Policy { recovery, ..quarantines() };
            edited.rules[0].taint.value = value.into();
            edited
        };
        let mut world = World::new(edited("one"));
        world.signal("hot", "", true);
        world.pass(60 * MINUTE);
        world.hear(Input::Policy(Box::new(Policy { mode: Mode::Observe, ..edited("two") })));
        world.signal("hot", "", true);
        assert_eq!(world.stage(), Some(expected));
        world.pass(60 * MINUTE);
        world.hear(Input::Policy(Box::new(edited("two"))));
        world.signal("hot", "", true);
        assert_eq!(world.stage(), Some(expected));
        world.pass(60 * MINUTE);
        world.hear(Input::PolicyGone("p".into()));
        world.pass(60 * MINUTE);
        world.hear(Input::Policy(Box::new(edited("two"))));
        world.signal("hot", "", true);
        assert_eq!(world.stage(), Some(expected));
        assert_eq!(world.recorded().serial, 1, "it is the same incident");
    }
}

#[test]
fn a_device_in_probation_is_not_calm_while_its_policy_is_being_written() {
    let rules = vec![rule("hot", r#"signal.key == "hot""#, Target::Quarantined)];
    let recovery = policy().recovery.map(|recovery| Recovery { validates: false, ..recovery });
    let written = || Policy { rules: rules.clone(), recovery, ..policy() };
    let mut world = World::new(written());
    world.signal("hot", "", false);
    world.pass(15 * MINUTE);
    assert_eq!(world.stage(), Some(Stage::Probation));
    world.pass(10 * MINUTE);
    world.hear(Input::PolicyGone("p".into()));
    world.pass(60 * MINUTE);
    world.hear(Input::Policy(Box::new(written())));
    assert_eq!(world.stage(), Some(Stage::Probation), "nothing is known of the time without a policy");
    world.pass(30 * MINUTE);
    assert_eq!(world.stage(), None);
}

/// The rule of another policy held until now.
#[test]
fn a_device_is_calm_since_no_rule_of_any_policy_that_enforces_has_held() {
    let other = |mode| Policy {
        name: "q".into(),
        mode,
        rules: vec![rule("odd", r#"signal.key == "odd""#, Target::Suspect)],
        ..quarantines()
    };
    for (mode, left) in [(Mode::Enforce, Some(Stage::Quarantined)), (Mode::Observe, None)] {
        let mut world = World::new(quarantines());
        world.hear(Input::Policy(Box::new(other(mode))));
        let policies = vec!["p".into(), "q".into()];
        world.hear(Input::Device { id: device("gpu-0"), hardware: Some("uuid-0".into()), policies });
        world.signal("odd", "", true);
        world.signal("hot", "", false);
        world.pass(60 * MINUTE);
        world.lower("odd");
        assert_eq!(world.stage(), left, "{mode:?}");
        world.pass(15 * MINUTE);
        assert_eq!(world.stage(), None);
    }
}

/// The signals of the new name come after the name itself.
#[test]
fn an_ill_device_that_gets_another_name_is_not_calm() {
    let mut world = World::new(quarantines());
    world.signal("hot", "", true);
    world.pass(60 * MINUTE);
    world.presence("gpu-0", Presence::Unpublished);
    world.publish("gpu-7", "uuid-0");
    let open: Vec<_> = world.machine.incidents().map(|one| (one.device.clone(), one.stage)).collect();
    assert_eq!(open, [(device("gpu-7"), Stage::Quarantined)]);
}
