//! Since when a device is calm, over restarts: never counted from earlier than its last signal.

use lazaret_lifecycle::{Incident, Input, Lifecycle, Policy, Stage, Target};

use crate::world::{MINUTE, SECOND, World, policy, rule};

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
