//! The errors of a policy, and the rules that are evaluated.

use lazaret_lifecycle::{Count, Effect, Policy, Target, When};

use crate::world::{MINUTE, World, policy, rule};

#[test]
fn what_is_wrong_with_a_policy_is_named_by_field() {
    assert!(When::compile("signal.colour == \"red\"").unwrap_err().contains("undefined field 'colour'"));
    assert!(When::compile("signal.key").unwrap_err().contains("must evaluate to bool"));
    let mut policy = policy();
    policy.rules[1].name = "fatal".into();
    policy.rules[1].count = Some(Count { at_least: 1, within_ms: 0 });
    policy.clear_after_ms = 0;
    let problems = policy.problems();
    let fields: Vec<&str> = problems.iter().map(|problem| &*problem.field).collect();
    let expected = ["spec.clearAfter", "spec.rules[1].name", "spec.rules[1].count.within"];
    assert_eq!(fields, expected);
    assert!(self::policy().problems().is_empty());
}

/// The cost of a signal does not grow with rules about other keys: every expression that is evaluated here fails.
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
