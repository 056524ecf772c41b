//! Patience and deadlines count only while a rule is in force and guards and windows let its pods leave.

use std::sync::Arc;

use lazaret_eviction::{Input, Options};
use lazaret_model::{ConfirmAbove, DisruptionGuard, Pause, Timestamp};

use crate::{objects, world::World};

/// Two pods of one group, each on a device of its own; p0 tolerates any taint for a minute.
const PODS: &str = "
    slice worker d0 d1
    claim c0 device=d0 for=p0:uid-p0 tolerate=k,Exists,NoExecute,60; claim c1 device=d1 for=p1:uid-p1
    pod p0 claim=c0 with=g; pod p1 claim=c1 with=g
";
const RULE: &str = "rule r device=d0 taint=k=v:NoExecute@0";

fn world(guard: DisruptionGuard) -> World {
    let mut world = World::new(Options { trusts_user_names: true, ..Options::default() });
    let guard = DisruptionGuard { name: "fleet".into(), uid: "uid-fleet".into(), ..guard };
    world.hear(Input::Guards(&[Arc::new(guard)]));
    world.apply(PODS);
    world
}

fn paused(until: i64) -> DisruptionGuard {
    let until = Some(Timestamp::from_secs(until));
    DisruptionGuard { paused: Some(Pause { reason: "freeze".into(), until }), ..DisruptionGuard::default() }
}

fn when(world: &World, pod: &str) -> Option<i64> {
    world.evicted_at.iter().find(|(_, evicted)| evicted == pod).map(|(at, _)| *at)
}

#[test]
fn a_toleration_counts_from_when_a_held_rule_is_approved() {
    let confirm_above = Some(ConfirmAbove { pods: Some(0), ..ConfirmAbove::default() });
    let mut world = world(DisruptionGuard { confirm_above, ..DisruptionGuard::default() });
    world.apply(&format!("{RULE} author=alice"));
    world.run_until(1_000_000);
    assert_eq!(when(&world, "p0"), None, "it is held");
    let mut rule = lazaret_model::DeviceTaintRule::clone(world.fleet.rule("r").unwrap().rule);
    let objects = objects::parse(&format!("{RULE} author=alice approved=9/9/9/bob"));
    let lazaret_fleet::Input::Rule(approved) = objects else { panic!("no rule") };
    rule.review = approved.review.clone();
    world.feed(lazaret_fleet::Input::Rule(Arc::new(rule)));
    world.run_until(2_000_000);
    assert_eq!(when(&world, "p0"), Some(1_060_000));
    let rule = world.fleet.rule("r").unwrap().rule;
    assert_eq!(rule.effective_since, Some(Timestamp::from_secs(1_000)), "a new leader goes by it");
}

/// Another leader had held it again and let it begin later.
#[test]
fn who_leads_again_does_not_go_by_when_the_rule_began_under_it_before() {
    let confirm_above = Some(ConfirmAbove { pods: Some(0), ..ConfirmAbove::default() });
    let mut world = world(DisruptionGuard { confirm_above, ..DisruptionGuard::default() });
    world.apply(&format!("{RULE} author=alice"));
    world.run_until(1_000_000);
    let mut rule = lazaret_model::DeviceTaintRule::clone(world.fleet.rule("r").unwrap().rule);
    let objects = objects::parse(&format!("{RULE} author=alice approved=9/9/9/bob"));
    let lazaret_fleet::Input::Rule(approved) = objects else { panic!("no rule") };
    rule.review = approved.review.clone();
    world.feed(lazaret_fleet::Input::Rule(Arc::new(rule)));
    world.run_until(1_010_000);
    world.hear(Input::LostLeadership);
    let mut rule = lazaret_model::DeviceTaintRule::clone(world.fleet.rule("r").unwrap().rule);
    assert_eq!(rule.effective_since, Some(Timestamp::from_secs(1_000)));
    rule.effective_since = Some(Timestamp::from_secs(1_040));
    world.feed(lazaret_fleet::Input::Rule(Arc::new(rule)));
    world.hear(Input::BecameLeader);
    world.run_until(2_000_000);
    assert_eq!(when(&world, "p0"), Some(1_100_000));
    let rule = world.fleet.rule("r").unwrap().rule;
    assert_eq!(rule.effective_since, Some(Timestamp::from_secs(1_040)));
}

#[test]
fn a_new_leader_goes_by_the_status() {
    let mut world = world(DisruptionGuard::default());
    let lazaret_fleet::Input::Rule(rule) = objects::parse(RULE) else { panic!("no rule") };
    let mut rule = lazaret_model::DeviceTaintRule::clone(&rule);
    rule.effective_since = Some(Timestamp::from_secs(500));
    world.feed(lazaret_fleet::Input::Rule(Arc::new(rule)));
    world.run_until(1_000_000);
    assert_eq!(when(&world, "p0"), Some(560_000));
}

#[test]
fn a_toleration_counts_from_when_an_expired_rule_is_extended() {
    let mut world = world(DisruptionGuard::default());
    world.apply(&format!("{RULE} expires=30"));
    world.run_until(1_000_000);
    assert_eq!(when(&world, "p0"), None, "it has expired before the toleration ended");
    let expired = world.fleet.rule("r").unwrap().rule.clone();
    assert!(expired.is_said_to_be_expired());
    let lazaret_fleet::Input::Rule(extended) = objects::parse(&format!("{RULE} gen=2 expires=9000")) else {
        panic!("no rule")
    };
    let mut rule = lazaret_model::DeviceTaintRule::clone(&expired);
    (rule.generation, rule.taint) = (2, extended.taint.clone());
    world.feed(lazaret_fleet::Input::Rule(Arc::new(rule)));
    world.run_until(2_000_000);
    assert_eq!(when(&world, "p0"), Some(1_060_000));
}

#[test]
fn a_toleration_counts_from_when_a_window_opens() {
    let mut world = world(DisruptionGuard::default());
    world.apply(&format!("{RULE} window=00:10/1h"));
    world.run_until(2_000_000);
    assert_eq!(when(&world, "p0"), Some(660_000));
}

/// A rule that nothing holds is as Kubernetes' are.
#[test]
fn a_toleration_of_a_plain_rule_counts_from_when_the_taint_was_added() {
    let mut world = world(DisruptionGuard::default());
    world.now = 30_000;
    world.apply(RULE);
    world.run_until(2_000_000);
    assert_eq!(when(&world, "p0"), Some(60_000));
}

#[test]
fn a_deadline_counts_from_when_a_pause_ends_and_budgets_are_asked_before_it_is_over() {
    let mut world = world(paused(1_000));
    world.refusals.insert("p1".into(), u32::MAX);
    world.apply("rule r device=d1 taint=k=v:NoExecute@0 mode=EvictThenDelete deadline=90");
    world.run_until(2_000_000);
    let asked = world.log.iter().filter(|line| line.contains("evict p1 Held"));
    assert!(asked.clone().count() > 2, "{:?}", world.log);
    assert!(asked.clone().all(|line| !line.starts_with("0s")), "nothing is asked during the pause");
    assert_eq!(when(&world, "p1"), Some(1_090_000));
}

/// The rest of a deadline when a guard is paused is the rest when it is resumed.
#[test]
fn time_before_a_pause_counts() {
    let mut world = world(DisruptionGuard::default());
    world.refusals.insert("p1".into(), u32::MAX);
    world.apply("rule r device=d1 taint=k=v:NoExecute@0 mode=EvictThenDelete deadline=300");
    world.run_until(200_000);
    let guard = DisruptionGuard { name: "fleet".into(), uid: "uid-fleet".into(), ..paused(1_000) };
    world.hear(Input::Guards(&[Arc::new(guard)]));
    world.run_until(2_000_000);
    let left = when(&world, "p1").unwrap();
    // A refusal is repeated every 30 s at most: the pause was noticed that much later.
    assert!((1_070_000..=1_100_000).contains(&left), "{left}");
}

#[test]
fn a_leader_that_finds_a_deadline_over_asks_first() {
    let mut world = World::follower(Options::default());
    world.refusals.insert("p1".into(), u32::MAX);
    world.apply(PODS);
    world.apply("rule r device=d1 taint=k=v:NoExecute@0 mode=EvictThenDelete deadline=300");
    world.now = 1_000_000;
    world.hear(Input::BecameLeader);
    world.run_until(2_000_000);
    assert!(world.log.iter().any(|line| line.contains("evict p1 Held")), "{:?}", world.log);
    assert_eq!(when(&world, "p1"), Some(1_060_000), "a minute of refusals");
}

#[test]
fn a_group_is_whole_after_a_pause_that_was_longer_than_its_deadline() {
    let mut world = world(paused(1_000));
    let spec = "taint=k=v:NoExecute@0 mode=EvictThenDelete deadline=30 together";
    world.apply(&format!("rule r driver=some-driver {spec}"));
    world.run_until(2_000_000);
    assert_eq!((when(&world, "p0"), when(&world, "p1")), (Some(1_000_000), Some(1_000_000)));
    let overdue = world.log.iter().filter(|line| line.contains("delete overdue"));
    assert_eq!(overdue.count(), 0, "{:?}", world.log);
}
