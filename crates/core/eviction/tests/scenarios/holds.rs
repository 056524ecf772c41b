//! Rules that reach more than a guard permits without approval have no effect.

use std::sync::Arc;

use lazaret_eviction::{Block, Input, Options};
use lazaret_model::{Approvers, ConfirmAbove, DeviceSelector, DisruptionGuard, Share};

use crate::world::World;

/// Four pods in two namespaces, each on a device of its own.
const PODS: &str = "
    slice worker d0 d1 d2 d3
    claim c0 device=d0 for=p0:uid-p0; claim c1 device=d1 for=p1:uid-p1
    claim c2 device=d2 for=p2:uid-p2; claim other/c3 device=d3 for=p3:uid-p3
    pod p0 claim=c0; pod p1 claim=c1; pod p2 claim=c2; pod other/p3 claim=c3
";
const RULE: &str = "rule r driver=some-driver taint=k=v:NoExecute@0";

fn guard(confirm_above: ConfirmAbove, approvers: Approvers) -> Arc<DisruptionGuard> {
    Arc::new(DisruptionGuard {
        name: "fleet".into(),
        uid: "uid-fleet".into(),
        generation: 1,
        confirm_above: Some(confirm_above),
        approvers,
        ..DisruptionGuard::default()
    })
}

fn above(pods: u64) -> ConfirmAbove {
    ConfirmAbove { pods: Some(pods), ..ConfirmAbove::default() }
}

fn world(guards: &[Arc<DisruptionGuard>], rule: &str) -> World {
    let mut world = World::new(Options { trusts_user_names: true, ..Options::default() });
    world.hear(Input::Guards(guards));
    world.apply(PODS);
    world.apply(rule);
    world.run_until(5_000);
    world
}

/// The last word of each kind, without when it was said.
fn said(world: &World, kind: &str) -> String {
    let of_kind = |line: &&String| line.split(' ').nth(1) == Some(kind);
    let last = world.log.iter().rfind(of_kind);
    last.map_or_else(String::new, |line| line.split_once(' ').unwrap().1.to_owned())
}

fn is_tainted(world: &World) -> bool {
    world.fleet.rule_selection("r").published_count() > 0
}

#[test]
fn a_rule_that_reaches_too_far_is_held_until_it_is_approved_with_what_was_seen() {
    let guards = [guard(above(3), Approvers::Anyone)];
    let mut world = world(&guards, RULE);
    assert!(world.evicted_at.is_empty() && !is_tainted(&world), "{:?}", world.log);
    let why = "4 pods in 2 namespaces on 4 devices; DisruptionGuard fleet wants approval above 3 pods; kubectl device approve r";
    assert_eq!(said(&world, "held"), format!("held r True ApprovalRequired: {why}"));
    let blocked = format!("Held: 4 pods not evicted (default/p0, default/p1, default/p2, other/p3): {why}.");
    assert_eq!(said(&world, "blocked"), format!("blocked r True Held: {blocked}"));
    let told = world.log.iter().filter(|line| line.contains(" event r: "));
    assert_eq!(told.collect::<Vec<_>>(), [&format!("0s event r: {blocked}")], "once");
    assert_eq!(world.machine.blocked()[Block::Held as usize], 4);
    world.apply(&format!("{RULE} approved=4/2/4"));
    world.run_until(10_000);
    assert_eq!(world.evicted_at.len(), 4);
    assert_eq!(said(&world, "held"), "held r False NotHeld: ");
    assert_eq!(world.machine.blocked(), [0; Block::ALL.len()]);
}

#[test]
fn a_rule_within_the_limits_and_one_without_guards_are_as_they_were() {
    let within = world(&[guard(above(4), Approvers::Different)], RULE);
    assert_eq!(within.evicted_at.len(), 4);
    assert_eq!(said(&within, "held"), "held r False NotHeld: ");
    let without = world(&[], RULE);
    assert_eq!((without.evicted_at.len(), said(&without, "held")), (4, String::new()));
}

/// A rule that the server signed has no effect for anybody before it was decided about.
#[test]
fn a_signed_rule_takes_effect_by_decision() {
    let mut world = World::new(Options::default());
    world.hear(Input::Guards(&[guard(above(9), Approvers::Anyone)]));
    world.apply(PODS);
    world.apply(&format!("{RULE} author=alice"));
    assert!(!is_tainted(&world));
    world.run_until(1_000);
    assert!(is_tainted(&world));
    assert_eq!(world.evicted_at.len(), 4);
    let said_idle = |line: &String| line.contains("Drained");
    assert!(!world.log.iter().any(said_idle));
}

#[test]
fn an_approval_lapses_when_the_rule_reaches_more() {
    let guards = [guard(above(1), Approvers::Anyone)];
    let world = world(&guards, &format!("{RULE} approved=3/2/4"));
    assert!(world.evicted_at.is_empty());
    assert_eq!(
        said(&world, "held"),
        "held r True ApprovalLapsed: 4 pods in 2 namespaces on 4 devices; the approval was for 3 pods in 2 namespaces on 4 devices and has lapsed; kubectl device approve r"
    );
}

#[test]
fn an_approval_of_another_spec_counts_for_nothing() {
    let guards = [guard(above(1), Approvers::Anyone)];
    let mut world = world(&guards, RULE);
    let approved = format!("{RULE} approved=4/2/4");
    let lazaret_fleet::Input::Rule(rule) = crate::objects::parse(&approved) else { panic!("no rule") };
    let mut rule = lazaret_model::DeviceTaintRule::clone(&rule);
    rule.generation = 2;
    world.feed(lazaret_fleet::Input::Rule(Arc::new(rule)));
    world.run_until(6_000);
    assert!(world.evicted_at.is_empty() && !is_tainted(&world));
}

#[test]
fn who_approves_must_not_be_who_wrote_it() {
    let guards = [guard(above(1), Approvers::Different)];
    for (rule, reason) in [
        ("author=alice approved=4/2/4/alice", "ApproverNotDifferent"),
        ("author=alice approved=4/2/4", "ApproverUnknown"),
        ("approved=4/2/4/bob", "ApproverUnknown"),
        ("author=alice approved=4/2/4/bob", "NotHeld"),
    ] {
        let world = world(&guards, &format!("{RULE} {rule}"));
        let expected = if reason == "NotHeld" { 4 } else { 0 };
        assert_eq!(world.evicted_at.len(), expected, "{rule}");
        assert!(said(&world, "held").contains(reason), "{rule}: {}", said(&world, "held"));
    }
    // Where the server does not say who wrote what, nobody can approve.
    let mut world = World::new(Options::default());
    world.hear(Input::Guards(&guards));
    world.apply(PODS);
    world.apply(&format!("{RULE} author=alice approved=4/2/4/bob"));
    world.run_until(5_000);
    assert!(world.evicted_at.is_empty());
    assert!(said(&world, "held").contains("ApproverUnknown"));
}

/// Of several guards each counts what it selects.
#[test]
fn a_guard_counts_the_devices_that_it_selects() {
    let of = |device: &str, confirm_above: ConfirmAbove| {
        let selector = DeviceSelector { device: Some(device.into()), ..DeviceSelector::default() };
        let selected = guard(confirm_above, Approvers::Anyone);
        Arc::new(DisruptionGuard { selector: Some(selector), ..DisruptionGuard::clone(&selected) })
    };
    let half = ConfirmAbove { devices: Some(Share::Percent(50)), ..ConfirmAbove::default() };
    for (guards, evicted) in [
        (vec![of("d0", above(1))], 4),
        (vec![of("d0", above(0))], 0),
        (vec![of("d9", above(0))], 4),
        // Half of one device is one.
        (vec![of("d0", half)], 4),
        (vec![guard(half, Approvers::Anyone)], 0),
    ] {
        assert_eq!(world(&guards, RULE).evicted_at.len(), evicted, "{guards:?}");
    }
    let two = "rule r device=d0 taint=k=v:NoExecute@0; rule s device=d1 taint=k=v:NoExecute@0";
    assert_eq!(world(&[guard(half, Approvers::Anyone)], two).evicted_at.len(), 2);
}

/// A taint that only keeps new pods away evicts no pod: its devices count.
#[test]
fn a_rule_that_does_not_evict_is_held_for_its_devices() {
    let rule = "rule r driver=some-driver taint=k=v:NoSchedule@0";
    assert!(is_tainted(&world(&[guard(above(0), Approvers::Anyone)], rule)));
    let devices = ConfirmAbove { devices: Some(Share::Count(3)), ..ConfirmAbove::default() };
    let world = world(&[guard(devices, Approvers::Anyone)], rule);
    assert!(!is_tainted(&world));
    assert_eq!(
        said(&world, "blocked"),
        "blocked r True Held: Held: 0 pods in 0 namespaces on 4 devices; DisruptionGuard fleet wants approval above 3 devices; kubectl device approve r."
    );
}

/// A guard that comes later holds a rule that is at work, and lets it go on when it is taken away.
#[test]
fn a_guard_that_comes_later_holds_what_is_left() {
    let mut world = World::new(Options::default());
    world.apply(PODS);
    world.apply("rule r driver=some-driver taint=k=v:NoExecute@0~1 concurrent=1");
    world.run_until(1_000);
    assert_eq!(world.evicted_at.len(), 1);
    world.hear(Input::Guards(&[guard(above(2), Approvers::Anyone)]));
    world.apply("pod- p0; pod- p1; pod- p2; pod- other/p3");
    world.apply(PODS);
    world.run_until(20_000);
    assert_eq!(world.evicted_at.len(), 1, "{:?}", world.log);
    assert!(!is_tainted(&world));
    world.hear(Input::LostLeadership);
    world.hear(Input::BecameLeader);
    world.run_until(30_000);
    assert_eq!(world.evicted_at.len(), 1, "a new leader holds it, too");
    world.hear(Input::Guards(&[]));
    world.run_until(40_000);
    assert_eq!(world.evicted_at.len(), 2);
    assert_eq!(said(&world, "held"), "held r False NotHeld: ");
}

fn on_devices(count: u64) -> ConfirmAbove {
    ConfirmAbove { devices: Some(Share::Count(count)), ..ConfirmAbove::default() }
}

/// One rule for each of these devices.
fn rules_for(devices: &[&str], more: &str) -> String {
    let rule = |device: &&str| format!("rule r-{device} device={device} taint=k=v:NoExecute@0 {more};");
    devices.iter().map(rule).collect()
}

/// A drain of many devices makes a rule for each: they are counted together, from the first one on.
#[test]
fn rules_of_one_request_are_counted_as_one() {
    let guards = [guard(on_devices(2), Approvers::Anyone)];
    let alone = world(&guards, &rules_for(&["d0", "d1", "d2"], ""));
    assert_eq!(alone.evicted_at.len(), 3, "each by itself is permitted");
    let mut together = world(&guards, &rules_for(&["d0"], "request=drain/3/1/3"));
    assert!(
        together.evicted_at.is_empty(),
        "the first rule waits for what its request said: {:?}",
        together.log
    );
    together.apply(&rules_for(&["d1", "d2"], "request=drain/3/1/3"));
    together.run_until(20_000);
    assert!(together.evicted_at.is_empty(), "{:?}", together.log);
    for rule in ["r-d0", "r-d1", "r-d2"] {
        let wanted = format!(
            "held {rule} True ApprovalRequired: 3 pods in 1 namespace on 3 devices by 3 rules of one request; DisruptionGuard fleet wants approval above 2 devices; kubectl device approve {rule}"
        );
        assert!(together.log.iter().any(|line| line.ends_with(&wanted)), "{:?}", together.log);
    }
    assert_eq!(together.machine.blocked()[Block::Held as usize], 3, "no pod is counted twice");
    // Another request is another matter.
    together.apply(&rules_for(&["d3"], "request=other/1/1/1"));
    together.run_until(25_000);
    assert_eq!(together.evicted_at.len(), 1);
}

#[test]
fn a_request_within_the_limits_is_not_held() {
    let guards = [guard(on_devices(3), Approvers::Anyone)];
    let world = world(&guards, &rules_for(&["d0", "d1", "d2"], "request=drain/3/1/3"));
    assert_eq!(world.evicted_at.len(), 3, "{:?}", world.log);
}

/// A request that comes to more than it said is counted by what there is.
#[test]
fn a_request_cannot_say_less_than_it_is() {
    let guards = [guard(on_devices(2), Approvers::Anyone)];
    let mut world = world(&guards, &rules_for(&["d0", "d1", "d2"], "request=drain/0/0/1 author=alice"));
    assert!(world.evicted_at.is_empty(), "{:?}", world.log);
    world.apply("rule- r-d2");
    world.run_until(20_000);
    assert_eq!(world.evicted_at.len(), 2, "{:?}", world.log);
}

/// A drain keeps new pods off all its devices before it evicts: pods are counted from then on.
#[test]
fn pods_of_a_drain_are_counted_before_it_evicts() {
    let guards = [guard(above(2), Approvers::Anyone)];
    let close = |device: &str| {
        format!("rule r-{device} device={device} taint=k=v:NoSchedule@0 draining request=drain/3/1/3")
    };
    let world = world(&guards, &["d0", "d1", "d2"].map(close).join(";"));
    assert!(
        said(&world, "held")
            .starts_with("held r-d2 True ApprovalRequired: 3 pods in 1 namespace on 3 devices")
    );
}
