//! A clock that was a day ahead is put right: what it dated counts as now.

use lazaret_lifecycle::{Act, Incident, Input, Lifecycle, Policy, Stage, Target};

use crate::world::{MINUTE, World, at, policy, rule};

const DAY: i64 = 24 * 60 * MINUTE;

/// Another machine finds what was recorded a day ahead, and lives a day before.
fn put_right(world: &World, policy: Policy) -> World {
    let found: Incident = world.recorded();
    let mut next =
        World { machine: Lifecycle::default(), now: world.now - DAY, effects: Vec::new(), is_used: true };
    next.hear(Input::Policy(Box::new(policy)));
    next.publish("gpu-0", "uuid-0");
    next.hear(Input::Found(Box::new(found)));
    next
}

#[test]
fn calm_is_not_kept_for_a_day() {
    let rules = vec![rule("hot", r#"signal.key == "hot""#, Target::Quarantined)];
    let policy = Policy { rules, recovery: None, ..policy() };
    let mut world = World::new(policy.clone());
    world.pass(DAY);
    world.signal("hot", "", false);
    world.pass(5 * MINUTE);
    let mut next = put_right(&world, policy);
    next.pass(15 * MINUTE);
    assert_eq!(next.stage(), None);
}

#[test]
fn a_repair_times_out_in_its_time_and_acts_of_people_count() {
    let mut world = World::new(policy());
    world.pass(DAY);
    world.is_used(false);
    world.signal("xid", "79", false);
    let (incident, ahead) = (world.number(), at(world.now));
    world.hear(Input::Person { incident, act: Act::Abandon, who: "jo".into(), why: "".into(), at: ahead });
    world.hear(Input::Person { incident, act: Act::Repaired, who: "jo".into(), why: "".into(), at: ahead });
    world.signal("xid", "79", false);
    assert_eq!(world.stage(), Some(Stage::Repairing));
    let mut next = put_right(&world, policy());
    let (incident, act) = (next.number(), Act::Abandon);
    let person = |at| Input::Person { incident, act, who: "jo".into(), why: "".into(), at };
    next.hear(person(ahead));
    assert_eq!(next.stage(), Some(Stage::Repairing), "it was acted on before");
    next.pass(10 * MINUTE);
    assert_eq!(next.repair_now(), Some((1, 0)), "the first step took too long");
    next.hear(person(at(next.now)));
    assert_eq!(next.stage(), Some(Stage::Abandoned));
}
