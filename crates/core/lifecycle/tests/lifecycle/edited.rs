//! Policies that change, go and come back while a device has to prove itself: what lasted before is no news.

use lazaret_lifecycle::{Input, Policy, Stage, Target};

use crate::world::{MINUTE, World, device, policy, rule};

fn hot() -> Policy {
    Policy { rules: vec![rule("hot", r#"signal.key == "hot""#, Target::Drained)], ..policy() }
}

/// The signal lasts, and its device is in Probation.
fn on_probation(policy: Policy) -> World {
    let mut world = World::new(policy);
    world.is_used(false);
    world.signal("hot", "1", true);
    world.pass(MINUTE);
    world.repaired(0, 0, Ok(()));
    assert_eq!(world.stage(), Some(Stage::Probation));
    world.pass(MINUTE);
    world
}

/// The policy is written again: what lasts is raised again.
fn rewrite(world: &mut World, policy: Policy) {
    world.hear(Input::Policy(Box::new(policy)));
    world.publish("gpu-0", "uuid-0");
    world.signal("hot", "1", true);
}

/// How a policy is edited.
type Edit = fn(&mut Policy);

fn flaps(world: &World) -> usize {
    world.machine.incidents().next().map_or(0, |incident| incident.flaps.len())
}

#[test]
fn an_edited_policy_counts_no_flap_for_a_signal_that_lasted_before() {
    let edits: [(&str, Edit); 4] = [
        ("clearAfter", |policy| policy.clear_after_ms /= 3),
        ("another rule", |policy| {
            policy.rules.push(rule("cold", r#"signal.key == "cold""#, Target::Suspect))
        }),
        ("another name", |policy| policy.rules[0].name = "warm".into()),
        ("order", |policy| policy.rules.insert(0, rule("cold", r#"signal.key == "cold""#, Target::Suspect))),
    ];
    for (what, edit) in edits {
        let mut world = on_probation(hot());
        let mut edited = hot();
        edit(&mut edited);
        rewrite(&mut world, edited.clone());
        rewrite(&mut world, edited);
        assert_eq!((world.stage(), flaps(&world)), (Some(Stage::Probation), 0), "{what}");
        world.lower("hot");
        world.pass(1);
        world.signal("hot", "1", true);
        assert_eq!((world.stage(), flaps(&world)), (Some(Stage::Repairing), 1), "{what}: it came again");
    }
}

#[test]
fn a_signal_that_lasts_through_the_probation_is_a_flap_after_an_edit_too() {
    let mut world = on_probation(hot());
    rewrite(&mut world, hot());
    let incident = world.number();
    world.hear(Input::Validated { incident, result: Ok(()) });
    world.pass(29 * MINUTE);
    assert_eq!(flaps(&world), 1);
}

#[test]
fn a_policy_that_is_made_again_counts_no_flap_for_a_signal_that_lasted_before() {
    let mut world = on_probation(hot());
    world.hear(Input::PolicyGone("p".into()));
    world.hear(Input::DeviceGone(device("gpu-0")));
    rewrite(&mut world, hot());
    assert_eq!((world.stage(), flaps(&world)), (Some(Stage::Probation), 0));
}

#[test]
fn another_value_after_an_edit_is_news() {
    let mut world = on_probation(hot());
    world.hear(Input::Policy(Box::new(hot())));
    world.signal("hot", "2", true);
    assert_eq!(flaps(&world), 1);
}

#[test]
fn the_next_leader_counts_no_flap_after_an_edit() {
    let found = on_probation(hot()).recorded();
    let mut world = World::new(hot());
    world.signal("hot", "1", true);
    world.now = 3 * MINUTE;
    world.hear(Input::Begin);
    world.hear(Input::Found(Box::new(found)));
    rewrite(&mut world, Policy { clear_after_ms: 5 * MINUTE, ..hot() });
    assert_eq!((world.stage(), flaps(&world)), (Some(Stage::Probation), 0));
}

#[test]
fn the_policy_of_another_rule_governs_a_probation_without_a_flap() {
    let strict = Policy { name: "strict".into(), ..hot() };
    let mut world = on_probation(hot());
    world.hear(Input::Policy(Box::new(strict)));
    let policies = vec!["p".into(), "strict".into()];
    world.hear(Input::Device { id: device("gpu-0"), hardware: Some("uuid-0".into()), policies });
    world.hear(Input::PolicyGone("p".into()));
    rewrite(&mut world, hot());
    assert_eq!((world.stage(), flaps(&world)), (Some(Stage::Probation), 0));
}
