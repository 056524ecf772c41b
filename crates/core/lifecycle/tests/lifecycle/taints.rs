//! Which taint the device of an incident has: its key and its value are those of the rule that took it furthest.

use lazaret_lifecycle::{Effect, Input, Policy, Rule, Stage, TaintKeyValue, Target};

use crate::world::{MINUTE, World, at, device, policy, rule};

/// The taint that the device was given last, with its effects.
fn tainted(world: &World) -> Option<(TaintKeyValue, Vec<&'static str>)> {
    world.effects.iter().rev().find_map(|effect| match effect {
        Effect::Taint { taint, effects, .. } => Some((taint.clone(), effects.to_vec())),
        _ => None,
    })
}

fn taint(key: &str, value: &str) -> TaintKeyValue {
    TaintKeyValue { key: key.into(), value: value.into() }
}

fn with_key(name: &str, key: &str, target: Target) -> Rule {
    Rule { taint: taint(key, "ill"), ..rule(name, &format!("signal.key == '{name}'"), target) }
}

#[test]
fn a_rule_names_the_key_of_its_taint_and_a_worse_rule_another() {
    let rules = vec![
        with_key("warm", "example.com/warm", Target::Suspect),
        with_key("dead", "example.com/dead", Target::Drained),
    ];
    let mut world = World::new(Policy { rules, recovery: None, ..policy() });
    world.signal("warm", "", true);
    assert_eq!(tainted(&world), Some((taint("example.com/warm", "ill"), vec!["None"])));
    world.signal("dead", "", true);
    assert_eq!(tainted(&world), Some((taint("example.com/dead", "ill"), vec!["NoSchedule"])));
    let keys: Vec<_> = world.machine.incidents().map(|incident| incident.taint.key.clone()).collect();
    assert_eq!(keys, ["example.com/dead"], "an incident has one taint");
}

/// Two policies select the device: it has one incident, with the taint of the rule that took it furthest.
#[test]
fn of_two_policies_with_different_keys_the_rule_that_takes_the_device_furthest_names_the_key() {
    let mut world = World::new(Policy {
        rules: vec![with_key("warm", "one.example.com/ill", Target::Suspect)],
        ..policy()
    });
    let second = Policy {
        name: "q".into(),
        rules: vec![with_key("dead", "two.example.com/ill", Target::Quarantined)],
        recovery: None,
        ..policy()
    };
    world.hear(Input::Policy(Box::new(second)));
    let both = vec!["p".into(), "q".into()];
    world.hear(Input::Device { id: device("gpu-0"), hardware: Some("uuid-0".into()), policies: both });
    world.signal("warm", "", true);
    assert_eq!(tainted(&world), Some((taint("one.example.com/ill", "ill"), vec!["None"])));
    world.signal("dead", "", true);
    assert_eq!(tainted(&world), Some((taint("two.example.com/ill", "ill"), vec!["NoSchedule"])));
    assert_eq!(world.machine.incidents().count(), 1);
}

#[test]
fn an_open_incident_keeps_its_key_when_its_policy_names_another_and_the_next_one_has_it() {
    let with = |key: &str| Policy {
        rules: vec![with_key("hot", key, Target::Quarantined)],
        recovery: None,
        ..policy()
    };
    let mut world = World::new(with("example.com/before"));
    world.signal("hot", "", false);
    world.hear(Input::Policy(Box::new(with("example.com/after"))));
    let key = |world: &World| world.machine.incidents().next().map(|incident| incident.taint.key.to_string());
    assert_eq!(key(&world).as_deref(), Some("example.com/before"));
    world.pass(15 * MINUTE);
    assert_eq!((world.stage(), world.taints()), (None, vec![]), "what is left of it is taken away");
    world.signal("hot", "", false);
    assert_eq!(
        (world.stage(), key(&world).as_deref()),
        (Some(Stage::Quarantined), Some("example.com/after"))
    );
}

/// The next leader has the incident as it was written, and another key in the policy.
#[test]
fn a_machine_that_begins_goes_on_with_the_key_that_the_incident_has() {
    let with = |key: &str| Policy { rules: vec![with_key("hot", key, Target::Quarantined)], ..policy() };
    let mut world = World::new(with("example.com/before"));
    world.signal("hot", "", true);
    let found = world.machine.incidents().next().cloned().unwrap();
    let mut next = World::new(with("example.com/after"));
    next.now = world.now;
    next.hear(Input::Found(Box::new(found)));
    assert_eq!(tainted(&next), Some((taint("example.com/before", "ill"), vec!["NoSchedule"])));
    next.machine.tick(at(next.now));
    assert_eq!(next.machine.incidents().next().map(|one| &*one.taint.key), Some("example.com/before"));
}

#[test]
fn a_taint_that_no_device_can_have_is_refused_by_field() {
    let rows = [
        ("", "ill", Some("spec.rules[0].taint.key")),
        ("two words", "ill", Some("spec.rules[0].taint.key")),
        ("a/b/c", "ill", Some("spec.rules[0].taint.key")),
        ("example.com/", "ill", Some("spec.rules[0].taint.key")),
        ("example.com/ill", "-", Some("spec.rules[0].taint.value")),
        ("example.com/ill", "", None),
        ("ill", "ill", None),
    ];
    for (key, value, field) in rows {
        let rule = Rule { taint: taint(key, value), ..rule("hot", "signal.key == 'hot'", Target::Suspect) };
        let problems = Policy { rules: vec![rule], ..policy() }.problems();
        assert_eq!(problems.first().map(|problem| &*problem.field), field, "{key:?}={value:?}");
    }
}
