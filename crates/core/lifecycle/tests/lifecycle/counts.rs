//! The counts of rules, over restarts as well.

use lazaret_lifecycle::{Count, Incident, Input, Policy, Signal, Source, Stage, TALLIES_MAX, Tally, Target};

use crate::world::{MINUTE, SECOND, World, at, device, policy};

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

/// A machine that begins with what another one counted.
fn after_restart(world: &mut World) -> World {
    let tallies = world.machine.tallies(&"p".into(), at(world.now));
    let mut other = World::empty(world.now);
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

/// The next machine: it finds the incident as it was stored last, and counts that were stored before.
fn after_a_kill(now: i64, incident: &Incident, tallies: &[Tally], are_counts_first: bool) -> World {
    let mut next = World::empty(now);
    next.is_used = false;
    next.hear(Input::Policy(Box::new(drains_at_three())));
    next.publish("gpu-0", "uuid-0");
    let stored = Input::Found(Box::new(incident.clone()));
    let counted = Input::Counted { policy: "p".into(), tallies: tallies.to_vec() };
    let (first, second) = if are_counts_first { (counted, stored) } else { (stored, counted) };
    next.hear(first);
    next.hear(second);
    next
}

fn drains_at_three() -> Policy {
    let mut policy = policy();
    policy.rules[1].target = Target::Drained;
    policy.rules[1].count = Some(Count { at_least: 3, within_ms: 120 * MINUTE });
    policy
}

#[test]
fn a_repaired_device_is_not_repaired_again_for_what_was_counted_before_whichever_was_stored_first() {
    let mut world = World::new(drains_at_three());
    world.is_used(false);
    for _ in 0..3 {
        world.pass(SECOND);
        world.signal("ecc", "", false);
    }
    assert_eq!(world.stage(), Some(Stage::Repairing));
    let tallies = world.machine.tallies(&"p".into(), at(world.now));
    assert_eq!(tallies[0].hits.len(), 3);
    world.pass(SECOND);
    world.repaired(0, 0, Ok(()));
    let proving = world.recorded();
    assert_eq!(proving.stage, Stage::Probation);
    world.pass(SECOND);
    world.hear(Input::Validated { incident: world.number(), result: Ok(()) });
    world.pass(30 * MINUTE);
    let cleared = world.recorded();
    assert_eq!(cleared.stage, Stage::Cleared);
    for (now, incident, stage) in
        [(6 * SECOND, &proving, Some(Stage::Probation)), (world.now, &cleared, None)]
    {
        for are_counts_first in [true, false] {
            let mut next = after_a_kill(now, incident, &tallies, are_counts_first);
            assert_eq!(next.stage(), stage, "nothing has come since, counts first: {are_counts_first}");
            for _ in 0..2 {
                next.signal("ecc", "", false);
                assert_eq!(next.stage(), stage, "two of three, counts first: {are_counts_first}");
            }
            next.signal("ecc", "", false);
            assert_eq!(next.stage(), Some(Stage::Draining), "three since, counts first: {are_counts_first}");
        }
    }
}
