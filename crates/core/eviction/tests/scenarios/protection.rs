//! How pods leave because of a rule that says how: by the eviction API, with a limit at a time, in order; and what blocks them.

use std::sync::Arc;

use lazaret_eviction::{Block, EffectKind, Input, Options, Outcome};
use lazaret_fleet::Input as FleetInput;
use lazaret_model::{
    Breaker, BreakerStatus, BreakerUnit, ConditionStatus, DeviceSelector, DisruptionGuard,
    EvictionPreference, ObjectKey, Pause, Pod, RarePodFields, Share, Timestamp,
};

use crate::world::World;

/// Four pods, each on a device of its own.
const PODS: &str = "
    slice worker d0 d1 d2 d3
    claim c0 device=d0 for=p0:uid-p0; claim c1 device=d1 for=p1:uid-p1
    claim c2 device=d2 for=p2:uid-p2; claim c3 device=d3 for=p3:uid-p3
    pod p0 claim=c0 priority=10 created=1
    pod p1 claim=c1 priority=0 created=1
    pod p2 claim=c2 priority=0 created=9
    pod p3 claim=c3 priority=0 created=1
";

fn world(rule: &str) -> World {
    let mut world = World::new(Options::default());
    world.apply(PODS);
    world.apply(rule);
    world
}

fn log_of(world: &World, words: &[&str]) -> String {
    let is_it = |line: &&String| words.iter().any(|word| line.split(' ').nth(1) == Some(word));
    world.log.iter().filter(is_it).map(|line| format!("{line}\n")).collect()
}

/// Compares line by line; blanks at the ends of lines do not count.
fn check(actual: &str, expected: &str) {
    let lines = |text: &str| {
        text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(lines(actual), lines(expected));
}

/// How many pods a budget keeps.
fn by_budget(world: &World) -> u64 {
    world.machine.blocked()[Block::Budget as usize]
}

#[test]
fn a_budget_is_obeyed_and_named_until_it_permits() {
    let mut world = world("rule r device=d1 taint=k=v:NoExecute@0 mode=Evict");
    world.refusals.insert("p1".into(), 3);
    world.run_until(2_000);
    assert_eq!(by_budget(&world), 1);
    world.run_until(60_000);
    check(
        &log_of(&world, &["evict", "blocked", "event", "delete"]),
        r#"
        0s evict p1 Held
        0s blocked r True Budget: Budget: 1 pod not evicted (default/p1): The disruption budget web needs 1 healthy pods and has 1 currently.
        0s event r: Budget: 1 pod not evicted (default/p1): The disruption budget web needs 1 healthy pods and has 1 currently.
        1s evict p1 Held
        3s evict p1 Held
        7s evict by API p1 7000ms late
        7s event p1 Marking
        7s blocked r False NotBlocked: 
    "#,
    );
    assert_eq!(world.machine.blocked(), [0; Block::ALL.len()]);
}

#[test]
fn a_rule_gives_notice() {
    let mut world = world("rule r device=d1 taint=k=v:NoExecute@0 notice=30");
    world.run_until(29_999);
    assert_eq!(log_of(&world, &["evict", "delete"]), "");
    world.run_until(60_000);
    check(&log_of(&world, &["evict", "delete"]), "30s evict p1");
}

#[test]
fn a_rule_that_never_kept_anybody_has_no_condition_for_it() {
    let mut world = world("rule r device=d1 taint=k=v:NoExecute@0");
    world.refusals.insert("p1".into(), 3);
    world.run_until(60_000);
    assert_eq!(log_of(&world, &["evict", "blocked", "delete"]), "0s evict p1\n", "no budget is asked");
}

#[test]
fn after_the_deadline_a_pod_is_deleted_and_that_is_said() {
    let rule = "rule r device=d1 taint=k=v:NoExecute@0 mode=EvictThenDelete deadline=10";
    let mut world = world(rule);
    world.refusals.insert("p1".into(), u32::MAX);
    world.run_until(60_000);
    check(
        &log_of(&world, &["evict", "delete"]),
        r#"
        0s evict p1 Held
        1s evict p1 Held
        3s evict p1 Held
        7s evict p1 Held
        10s delete overdue p1 10000ms late
    "#,
    );
    let refused = u32::MAX - world.refusals["p1"];
    assert_eq!((refused, by_budget(&world)), (4, 0));
}

#[test]
fn the_deadline_counts_from_the_pods_own() {
    let mut world = World::new(Options::default());
    world.apply(
        "slice worker d0; claim c0 device=d0 for=p0:uid-p0 tolerate=k,Exists,NoExecute,20; pod p0 claim=c0",
    );
    world.apply("rule r device=d0 taint=k=v:NoExecute@0 mode=EvictThenDelete deadline=1");
    world.refusals.insert("p0".into(), u32::MAX);
    world.run_until(60_000);
    check(
        &log_of(&world, &["evict", "delete"]),
        r#"
        20s evict p0 Held
        21s delete overdue p0 1000ms late
    "#,
    );
}

#[test]
fn no_more_than_allowed_are_terminating_and_the_least_important_and_youngest_go_first() {
    let mut world = world("rule r driver=some-driver taint=k=v:NoExecute@0 concurrent=2");
    world.run_until(1_000);
    let gone = |world: &World| world.evicted_at.iter().map(|(_, pod)| pod.clone()).collect::<Vec<_>>();
    assert_eq!(gone(&world), ["p2", "p1"]);
    world.run_until(100_000);
    assert_eq!(gone(&world).len(), 2, "none is gone yet");
    world.apply("pod- p2");
    world.run_until(101_000);
    assert_eq!(gone(&world), ["p2", "p1", "p3"]);
    world.apply("pod- p1; pod- p3");
    world.run_until(102_000);
    assert_eq!(gone(&world), ["p2", "p1", "p3", "p0"]);
}

/// A second leader counts those that the first one evicted.
#[test]
fn a_new_leader_knows_who_is_terminating() {
    let mut world = world("rule r driver=some-driver taint=k=v:NoExecute@0 concurrent=2");
    world.run_until(1_000);
    world.hear(Input::LostLeadership);
    world.hear(Input::BecameLeader);
    world.run_until(60_000);
    assert_eq!(world.evicted_at.len(), 2);
    world.apply("pod- p1");
    world.run_until(61_000);
    assert_eq!(world.evicted_at.len(), 3);
}

/// Seed 1396 of the simulator: those that left before the rule had a limit count.
#[test]
fn a_limit_counts_who_left_before_it() {
    let mut world = world("rule r device=d2 taint=k=v:NoExecute@0");
    world.run_until(1_000);
    assert_eq!(world.evicted_at.len(), 1);
    world.apply("rule r gen=2 driver=some-driver taint=k=v:NoExecute@0 concurrent=1");
    world.run_until(60_000);
    assert_eq!(world.evicted_at.len(), 1, "it is not seen to be gone yet");
    world.apply("pod- p2");
    world.run_until(61_000);
    assert_eq!(world.evicted_at.len(), 2);
}

/// A place is free again when an eviction fails, and taken while its outcome is unknown.
#[test]
fn places_of_failed_evictions_are_free_again() {
    let mut world = world("rule r driver=some-driver taint=k=v:NoExecute@0 concurrent=1");
    world.outcomes.insert("p2".into(), vec![Outcome::RetryLater]);
    world.run_until(100);
    assert_eq!(world.evicted_at, [(0, "p1".to_owned())]);
    world.apply("pod- p1");
    world.run_until(1_000);
    assert_eq!(world.evicted_at[1].1, "p2");
}

/// Seed 23418 of the simulator: the place of a pod was held for it, and it was not the first in the line.
#[test]
fn who_may_be_terminating_is_asked_again_before_others_go() {
    let mut world = world("rule r device=d3 taint=k=v:NoExecute@0 concurrent=1");
    world.outcomes.insert("p3".into(), vec![Outcome::Unknown]);
    world.run_until(1);
    world.apply("rule r gen=2 driver=some-driver taint=k=v:NoExecute@0 concurrent=1");
    world.run_until(1_000);
    assert_eq!(gone(&world), ["p3"]);
}

/// Two may be terminating when only one is permitted any more. If they were, they would be seen to be.
#[test]
fn doubts_about_who_is_terminating_end() {
    let mut world = world("rule r driver=some-driver taint=k=v:NoExecute@0 concurrent=2");
    for pod in ["p1", "p2"] {
        world.outcomes.insert(pod.into(), vec![Outcome::Unknown]);
    }
    world.run_until(1);
    world.apply("rule r gen=2 driver=some-driver taint=k=v:NoExecute@0 concurrent=1");
    world.run_until(50_000);
    assert_eq!(world.evicted_at, []);
    world.run_until(61_000);
    assert_eq!(gone(&world), ["p2"]);
}

/// The pace of a rule holds in its line, too.
#[test]
fn a_line_keeps_the_pace() {
    let options = Options { burst: 1, ..Options::default() };
    let mut world = World::new(options);
    world.apply(PODS);
    world.now = 10_000;
    world.apply("rule r driver=some-driver taint=k=v:NoExecute@10~2 mode=Evict");
    world.run_until(60_000);
    let at: Vec<(i64, &str)> = world.evicted_at.iter().map(|(at, pod)| (*at, pod.as_str())).collect();
    assert_eq!(at, [(10_000, "p2"), (10_500, "p1"), (11_000, "p3"), (11_500, "p0")]);
}

#[test]
fn an_edited_rule_takes_effect_on_pods_that_wait() {
    let mut world = world("rule r device=d1 taint=k=v:NoExecute@0 mode=Evict");
    world.refusals.insert("p1".into(), u32::MAX);
    world.run_until(500);
    world.apply("rule r gen=2 device=d1 taint=k=v:NoExecute@0");
    world.run_until(60_000);
    assert_eq!(world.evicted_at.len(), 1, "a rule that deletes asks no budget");
    assert_eq!(world.machine.blocked(), [0; Block::ALL.len()]);
    let rule = world.fleet.rule("r").unwrap().rule;
    let blocked = rule.conditions.iter().find(|condition| condition.kind == "EvictionBlocked").unwrap();
    assert_eq!(blocked.status, ConditionStatus::False);
}

/// A guard, by what it says beyond its name.
fn guard(name: &str, guard: DisruptionGuard) -> Arc<DisruptionGuard> {
    Arc::new(DisruptionGuard { name: name.into(), uid: format!("uid-{name}").into(), generation: 1, ..guard })
}

fn paused(until: Option<i64>) -> Arc<DisruptionGuard> {
    let until = until.map(Timestamp::from_secs);
    guard(
        "stop",
        DisruptionGuard {
            paused: Some(Pause { reason: "freeze".into(), until }),
            ..DisruptionGuard::default()
        },
    )
}

fn breaker(most: Share, reset_after_seconds: i64) -> Arc<DisruptionGuard> {
    let breaker = Breaker {
        max_out_of_service: most,
        of: BreakerUnit::Devices,
        window_seconds: 0,
        reset_after_seconds,
    };
    guard("fleet", DisruptionGuard { breaker: Some(breaker), ..DisruptionGuard::default() })
}

fn gone(world: &World) -> Vec<&str> {
    world.evicted_at.iter().map(|(_, pod)| pod.as_str()).collect()
}

#[test]
fn nothing_begins_while_a_guard_is_paused_whatever_the_taint() {
    let mut world = World::new(Options::default());
    world.hear(Input::Guards(&[paused(None)]));
    world.apply(PODS);
    // One of a rule that says nothing, one of a rule that does, one of the driver.
    world.apply("rule r device=d1 taint=k=v:NoExecute@0; rule s device=d2 taint=k=v:NoExecute@0 mode=Evict");
    world.apply("slice worker gen=2 d0 d1 d2 d3{bad:NoExecute@0}");
    world.run_until(100_000);
    assert_eq!(gone(&world), [""; 0]);
    assert_eq!(world.machine.blocked()[Block::Paused as usize], 3);
    check(
        &log_of(&world, &["evict", "blocked", "event"]),
        r#"
        0s blocked r True Paused: Paused: 1 pod not evicted (default/p1): DisruptionGuard stop is paused: freeze.
        0s blocked s True Paused: Paused: 1 pod not evicted (default/p2): DisruptionGuard stop is paused: freeze.
        0s event r: Paused: 1 pod not evicted (default/p1): DisruptionGuard stop is paused: freeze.
        0s event s: Paused: 1 pod not evicted (default/p2): DisruptionGuard stop is paused: freeze.
    "#,
    );
    world.hear(Input::Guards(&[]));
    world.run_until(101_000);
    let mut left = gone(&world);
    left.sort_unstable();
    assert_eq!(left, ["p1", "p2", "p3"]);
    assert_eq!(world.machine.blocked(), [0; Block::ALL.len()]);
}

#[test]
fn a_pause_ends_by_itself() {
    let mut world = World::new(Options::default());
    world.hear(Input::Guards(&[paused(Some(30))]));
    world.apply(PODS);
    world.apply("rule r device=d1 taint=k=v:NoExecute@0");
    world.run_until(100_000);
    assert_eq!(world.evicted_at, [(30_000, "p1".to_owned())]);
}

#[test]
fn a_guard_is_about_the_devices_that_it_selects() {
    let mut world = World::new(Options::default());
    let selector = DeviceSelector { device: Some("d1".into()), ..DeviceSelector::default() };
    let by_name = DisruptionGuard { selector: Some(selector), ..DisruptionGuard::clone(&paused(None)) };
    world.hear(Input::Guards(&[Arc::new(by_name)]));
    world.apply(PODS);
    world.apply("rule r driver=some-driver taint=k=v:NoExecute@0");
    world.run_until(1_000);
    assert_eq!(gone(&world), ["p0", "p2", "p3"]);
    let cel = "device.attributes[\"some-driver\"].model==\"big\"";
    let selector = DeviceSelector { cel: vec![cel.into()], ..DeviceSelector::default() };
    let by_cel = DisruptionGuard { selector: Some(selector), ..DisruptionGuard::clone(&paused(None)) };
    let mut world = World::new(Options::default());
    world.hear(Input::Guards(&[Arc::new(by_cel)]));
    world.apply("slice worker d0[model=big] d1[model=small]");
    world.apply("claim c0 device=d0 for=p0:uid-p0; claim c1 device=d1 for=p1:uid-p1; pod p0 claim=c0; pod p1 claim=c1");
    world.apply("rule r driver=some-driver taint=k=v:NoExecute@0");
    world.run_until(1_000);
    assert_eq!(gone(&world), ["p1"]);
}

/// Two devices of one rack count once; one without the attribute is in the domain of its node.
#[test]
fn a_breaker_counts_fault_domains_by_an_attribute() {
    let of = BreakerUnit::FaultDomains { attribute: "rack".into() };
    let breaker =
        Breaker { max_out_of_service: Share::Count(1), of, window_seconds: 0, reset_after_seconds: 20 };
    let guard = guard("racks", DisruptionGuard { breaker: Some(breaker), ..DisruptionGuard::default() });
    let mut world = World::new(Options::default());
    world.hear(Input::Guards(&[guard]));
    world.apply("slice worker d0[rack=r1] d1[rack=r1] d2[some-driver/rack=r2] d3");
    for number in 0..4 {
        let pod = format!("p{number}");
        world.apply(&format!(
            "claim c{number} device=d{number} for={pod}:uid-{pod}; pod {pod} claim=c{number}"
        ));
    }
    world.apply("rule r device=d0 taint=k=v:NoExecute@0; rule s device=d1 taint=k=v:NoExecute@0");
    world.run_until(1_000);
    assert_eq!(gone(&world), ["p0", "p1"], "one rack of three domains is permitted");
    world.apply("rule t device=d2 taint=k=v:NoExecute@1");
    world.run_until(5_000);
    assert_eq!(gone(&world), ["p0", "p1"]);
    let why = "DisruptionGuard racks is tripped: 2 of 3 fault domains out of service, 1 permitted";
    let blocked = log_of(&world, &["blocked"]);
    assert!(blocked.contains(why), "{blocked}");
    world.apply("rule- t; rule u device=d3 taint=k=v:NoExecute@5");
    world.run_until(10_000);
    assert_eq!(gone(&world), ["p0", "p1"], "its node is another domain");
}

#[test]
fn a_breaker_trips_at_once_and_resets_when_it_was_below_for_long_enough() {
    let mut world = World::new(Options::default());
    world.hear(Input::Guards(&[breaker(Share::Percent(25), 20)]));
    world.apply(PODS);
    world.apply("rule r device=d1 taint=k=v:NoExecute@0");
    world.run_until(1_000);
    assert_eq!(gone(&world), ["p1"], "one of four is permitted");
    world.apply("rule t device=d3 taint=k=v:NoSchedule@1; rule s device=d2 taint=k=v:NoExecute@1");
    world.run_until(5_000);
    assert_eq!(gone(&world), ["p1"]);
    let why = "DisruptionGuard fleet is tripped: 3 of 4 devices out of service, 1 permitted";
    let blocked = log_of(&world, &["blocked"]);
    assert!(blocked.contains(why), "{blocked}");
    world.now = 10_000;
    world.apply("rule- r; rule- t");
    world.run_until(60_000);
    assert_eq!(gone(&world), ["p1", "p2"]);
    assert_eq!(
        world.evicted_at[1].0, 31_000,
        "20 s after it was seen to be below: devices are counted once a second"
    );
    assert!(world.log.iter().any(|line| line.ends_with("guard fleet tripped: true")), "{:?}", world.log);
    assert!(world.log.iter().any(|line| line.ends_with("guard fleet tripped: false")), "{:?}", world.log);
}

/// The state of a breaker is in the guard's status: a new leader begins with it.
#[test]
fn a_tripped_breaker_survives_its_leader() {
    let mut guard = DisruptionGuard::clone(&breaker(Share::Count(1), 60));
    guard.status = BreakerStatus {
        tripped: true,
        exceeded_since: Some(Timestamp::from_secs(-100)),
        below_since: Some(Timestamp::from_secs(-20)),
        ..BreakerStatus::default()
    };
    let mut world = World::follower(Options::default());
    world.apply(PODS);
    world.apply("rule r device=d1 taint=k=v:NoExecute@0");
    world.hear(Input::Guards(&[Arc::new(guard)]));
    world.hear(Input::BecameLeader);
    world.run_until(100_000);
    assert_eq!(world.evicted_at, [(40_000, "p1".to_owned())]);
}

#[test]
fn an_expired_rule_applies_no_more_and_says_so() {
    let mut world = World::new(Options::default());
    world.apply(PODS);
    let tolerates = "claim c1 device=d1 for=p1:uid-p1 tolerate=k,Exists,NoExecute,50";
    world.apply(tolerates);
    world.apply("rule r driver=some-driver taint=k=v:NoExecute@0 concurrent=1 expires=30");
    world.run_until(100_000);
    assert_eq!(gone(&world), ["p2"], "neither who waited for its turn nor who tolerates it for longer");
    let rule = world.fleet.rule("r").unwrap().rule;
    let expired = rule.conditions.iter().find(|condition| condition.kind == "Expired").unwrap();
    assert_eq!(
        (expired.status, expired.last_transition),
        (ConditionStatus::True, Some(Timestamp::from_secs(30)))
    );
    assert_eq!(world.fleet.rule_selection("r").published_count(), 0, "nobody sees its taint any more");
    world.apply("rule r gen=2 driver=some-driver taint=k=v:NoExecute@0 concurrent=1 expires=900; pod- p2");
    world.run_until(200_000);
    assert_eq!(gone(&world).len(), 2, "longer after all");
}

#[test]
fn a_workload_says_how_long_it_stays_and_never_longer_than_the_rule_permits() {
    for (say, pod_say, deadline, gone_at) in [
        ("", "", "deadline=60", 0),
        ("", "say=Immediate", "deadline=60", 0),
        ("", "say=20", "deadline=60", 20_000),
        ("", "say=600", "deadline=60", 60_000),
        ("", "say=AllowCompletion", "deadline=60", 60_000),
        ("", "say=AllowCompletion", "concurrent=9", 0),
        ("", "say=sometime", "deadline=60", 0),
        ("30", "", "deadline=60", 30_000),
        ("30", "say=Immediate", "deadline=60", 0),
    ] {
        let mut world = World::new(Options::default());
        let says = EvictionPreference::parse(say).map(|say| ("default".into(), say)).into_iter().collect();
        world.hear(Input::Preferences(&says));
        world.apply(&format!("slice worker d0; claim c0 device=d0 for=p0:uid-p0; pod p0 claim=c0 {pod_say}"));
        world.apply(&format!("rule r device=d0 taint=k=v:NoExecute@0 {deadline}"));
        world.run_until(1_000_000);
        assert_eq!(world.evicted_at, [(gone_at, "p0".to_owned())], "{say} {pod_say} {deadline}");
    }
}

#[test]
fn what_a_namespace_says_later_counts_and_the_deadline_stays_where_it_was() {
    let mut world = World::new(Options::default());
    world.apply("slice worker d0; claim c0 device=d0 for=p0:uid-p0; pod p0 claim=c0 say=20");
    world.apply("rule r device=d0 taint=k=v:NoExecute@0 mode=EvictThenDelete deadline=60");
    world.refusals.insert("p0".into(), u32::MAX);
    world.run_until(200_000);
    assert_eq!(world.evicted_at, [(60_000, "p0".to_owned())], "20 s of the 60 were spent by its own word");
    let mut world = World::new(Options::default());
    world.apply("slice worker d0; claim c0 device=d0 for=p0:uid-p0; pod p0 claim=c0");
    world.hear(Input::Preferences(
        &[("default".into(), EvictionPreference::AllowCompletion)].into_iter().collect(),
    ));
    world.apply("rule r device=d0 taint=k=v:NoExecute@0 deadline=60");
    world.run_until(10_000);
    world.hear(Input::Preferences(&[].into_iter().collect()));
    world.run_until(20_000);
    assert_eq!(world.evicted_at, [(10_000, "p0".to_owned())]);
}

/// The first instant of these worlds is a midnight.
#[test]
fn nothing_begins_outside_a_window() {
    let mut world = world("rule r device=d1 taint=k=v:NoExecute@0 window=00:01/30s window=00:05/1m");
    world.run_until(30_000);
    assert_eq!(gone(&world), [""; 0]);
    assert_eq!(world.machine.blocked()[Block::Window as usize], 1);
    let blocked = log_of(&world, &["blocked"]);
    check(
        &blocked,
        "0s blocked r True Window: Window: 1 pod not evicted (default/p1): no window of the rule is open.",
    );
    world.run_until(60_000);
    assert_eq!(world.evicted_at, [(60_000, "p1".to_owned())]);
    world.now = 100_000;
    world.apply("rule s device=d2 taint=k=v:NoExecute@0 mode=Evict window=00:01/30s window=00:05/1m");
    world.run_until(900_000);
    assert_eq!(world.evicted_at[1], (300_000, "p2".to_owned()));
}

/// Seed 434 of the simulator: a leader whose clock is behind took back what the one before had said.
#[test]
fn an_expiry_that_was_said_stays_whatever_the_next_leader_s_clock_shows() {
    let mut world = World::new(Options::default());
    world.apply(PODS);
    world.now = 31_000;
    world.apply("rule r driver=some-driver taint=k=v:NoExecute@0 concurrent=1 expires=30");
    world.run_until(40_000);
    world.hear(Input::LostLeadership);
    world.now = 10_000;
    world.hear(Input::BecameLeader);
    world.run_until(25_000);
    assert_eq!(gone(&world), [""; 0]);
    assert!(world.fleet.rule("r").unwrap().rule.is_said_to_be_expired());
}

/// Seed 11510 of the simulator: the first attempt had succeeded, which nobody knew, and the second found the pod leaving.
#[test]
fn a_pod_that_may_be_terminating_keeps_its_place() {
    let mut world = world("rule r driver=some-driver taint=k=v:NoExecute@0 concurrent=1");
    world.outcomes.insert("p2".into(), vec![Outcome::Unknown, Outcome::RetryLater, Outcome::Gone]);
    world.run_until(100_000);
    assert_eq!(gone(&world), [""; 0], "it has not been seen to be gone");
    world.apply("pod- p2");
    world.run_until(101_000);
    assert_eq!(gone(&world), ["p1"]);
}

/// A policy or a webhook refuses the delete: the status says so in its words, and the pod is asked for again.
#[test]
fn a_refusal_of_the_server_is_told_in_its_words() {
    let mut world = world("rule r device=d1 taint=k=v:NoExecute@0");
    let denial = format!("denied by policy keep-training: {}", "x".repeat(2_000));
    let evict = std::iter::from_fn(|| world.machine.poll_effect())
        .find(|effect| matches!(effect.kind, EffectKind::Evict(_)))
        .expect("an eviction");
    world.hear(Input::Refused { effect: evict.id, why: denial.as_str().into() });
    assert_eq!(world.machine.blocked()[Block::Refused as usize], 1);
    world.work();
    let told = log_of(&world, &["blocked", "event"]);
    for line in [
        "0s blocked r True Refused: Refused: 1 pod not evicted (default/p1): denied by policy keep-training: xx",
        "0s event r: Refused: 1 pod not evicted",
    ] {
        assert!(told.contains(line), "{told}");
    }
    assert!(told.len() < 3_000 && told.contains("bytes more)"), "{told}");
    world.run_until(2_000);
    assert_eq!(world.evicted_at.len(), 1, "it is asked again: {:?}", world.log);
    assert_eq!(world.machine.blocked()[Block::Refused as usize], 0);
    // A status that is refused is no eviction.
    world.apply("rule s device=d2 taint=k=v:NoExecute@0");
    let status = std::iter::from_fn(|| world.machine.poll_effect())
        .find(|effect| matches!(effect.kind, EffectKind::SetRuleStatus(_)))
        .expect("a status");
    world.hear(Input::Refused { effect: status.id, why: "no".into() });
    assert_eq!(world.machine.blocked()[Block::Refused as usize], 0);
}

/// A driver's taint has no status: what keeps the pod is said with the pod, once.
#[test]
fn a_refusal_where_no_rule_makes_the_pod_leave_is_said_with_the_pod() {
    let mut world = world("slice worker d1{k=v:NoExecute@0} d2 d3");
    for _ in 0..3 {
        let evict = std::iter::from_fn(|| world.machine.poll_effect())
            .find(|effect| matches!(effect.kind, EffectKind::Evict(_)))
            .expect("an eviction");
        world.hear(Input::Refused { effect: evict.id, why: "denied by policy keep-training".into() });
        assert_eq!(world.machine.blocked()[Block::Refused as usize], 1);
        world.work();
        world.now += 60_000;
        world.hear(Input::Tick);
    }
    assert_eq!(log_of(&world, &["event"]), "0s event p1 Not\n", "the same again is no news");
}

/// A pod that was evicted is kept by a finalizer: after ten seconds the status says by which.
#[test]
fn a_finalizer_that_keeps_an_evicted_pod_is_named() {
    let mut world = world("rule r device=d1 taint=k=v:NoExecute@0");
    world.run_until(1_000);
    let key = ObjectKey::new("default", "p1");
    let mut pod = Pod::clone(world.fleet.pod(world.fleet.pod_ix(&key).unwrap()).unwrap());
    let kept_by = Some("example.com/checkpoint".into());
    pod.rare = Some(Box::new(RarePodFields { kept_by, ..RarePodFields::default() }));
    world.feed(FleetInput::Pod(Arc::new(pod.clone())));
    world.run_until(9_000);
    assert_eq!(world.machine.blocked()[Block::Finalizer as usize], 0, "a Job needs a moment");
    world.run_until(30_000);
    assert_eq!(world.machine.blocked()[Block::Finalizer as usize], 1);
    let told = log_of(&world, &["blocked"]);
    assert!(
        told.contains("blocked r True Finalizer: Finalizer: 1 pod not gone (default/p1): its finalizer example.com/checkpoint is not removed"),
        "{told}"
    );
    // Another leader says the same, and once the pod is gone nobody does.
    world.hear(Input::LostLeadership);
    assert_eq!(world.machine.blocked()[Block::Finalizer as usize], 0);
    world.hear(Input::BecameLeader);
    assert_eq!(world.machine.blocked()[Block::Finalizer as usize], 1);
    world.apply("pod- p1; claim- c1");
    assert_eq!(world.machine.blocked()[Block::Finalizer as usize], 0);
    world.run_until(60_000);
    let told = log_of(&world, &["blocked"]);
    assert!(told.trim_end().ends_with("blocked r False NotBlocked:"), "{told}");
}
