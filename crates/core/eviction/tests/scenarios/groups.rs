//! Pods of a group leave together, where a rule wants that.

use std::sync::Arc;

use lazaret_eviction::{Block, Input, Options};
use lazaret_model::{DeviceSelector, DisruptionGuard, Pause};

use crate::world::World;

/// Three pods of one group and one that is alone.
const PODS: &str = "
    slice worker d0 d1 d2 d3
    claim c0 device=d0 for=p0:uid-p0; claim c1 device=d1 for=p1:uid-p1
    claim c2 device=d2 for=p2:uid-p2 tolerate=k,Exists,NoExecute,20; claim c3 device=d3 for=p3:uid-p3
    pod p0 claim=c0 with=gang; pod p1 claim=c1 with=gang; pod p2 claim=c2 with=gang; pod p3 claim=c3
";

fn world(options: Options, rule: &str) -> World {
    let mut world = World::new(options);
    world.apply(PODS);
    world.apply(rule);
    world
}

fn gone(world: &World) -> Vec<String> {
    world.evicted_at.iter().map(|(at, pod)| format!("{at} {pod}")).collect()
}

fn by_group(world: &World) -> u64 {
    world.machine.blocked()[Block::Group as usize]
}

const TOGETHER: &str = "rule r driver=some-driver taint=k=v:NoExecute@0 together";

#[test]
fn a_group_waits_for_the_last_of_its_pods_and_leaves_in_one_go() {
    let mut world = world(Options::default(), TOGETHER);
    world.run_until(1_000);
    assert_eq!((gone(&world), by_group(&world)), (vec!["0 p3".to_owned()], 2));
    let blocked = world.log.iter().rfind(|line| line.contains(" blocked ")).unwrap();
    assert_eq!(
        blocked,
        "0s blocked r True Group: Group: 2 pods not evicted (default/p0, default/p1): pod default/p2 of the group need not leave yet."
    );
    world.run_until(60_000);
    assert_eq!(gone(&world)[1..], ["20000 p2", "20000 p0", "20000 p1"]);
    assert_eq!(by_group(&world), 0);
}

#[test]
fn without_it_each_leaves_by_itself() {
    let mut world = world(Options::default(), "rule r driver=some-driver taint=k=v:NoExecute@0 mode=Delete");
    world.run_until(60_000);
    assert_eq!(gone(&world), ["0 p0", "0 p1", "0 p3", "20000 p2"]);
}

#[test]
fn a_pod_that_is_gone_holds_nobody() {
    let mut world = world(Options::default(), TOGETHER);
    world.run_until(1_000);
    world.apply("pod- p2");
    world.run_until(2_000);
    assert_eq!(gone(&world)[1..], ["1000 p0", "1000 p1"]);
}

#[test]
fn a_pod_that_leaves_the_group_holds_nobody() {
    let mut world = world(Options::default(), TOGETHER);
    world.run_until(1_000);
    world.apply("pod p2 claim=c2 with=others");
    world.run_until(2_000);
    assert_eq!(gone(&world)[1..], ["1000 p0", "1000 p1"]);
}

/// The label is anybody's to write: it holds pods of its own namespace alone, and takes none of another along.
#[test]
fn the_same_label_in_another_namespace_is_another_group() {
    let mut world = World::new(Options::default());
    world.apply(
        "slice worker d0 d1
        claim c0 device=d0 for=p0:uid-p0; claim tenant/c1 device=d1 for=p1:uid-p1 tolerate=k,Exists,NoExecute,20
        pod p0 claim=c0 with=gang; pod tenant/p1 claim=c1 with=gang",
    );
    world.apply(TOGETHER);
    world.run_until(60_000);
    assert_eq!(gone(&world), ["0 p0", "20000 p1"]);
}

/// A guard over one device keeps the whole group.
#[test]
fn what_keeps_one_keeps_all() {
    let mut world = World::new(Options::default());
    let selector = DeviceSelector { device: Some("d2".into()), ..DeviceSelector::default() };
    let paused = DisruptionGuard {
        name: "stop".into(),
        selector: Some(selector),
        paused: Some(Pause { reason: "played".into(), until: None }),
        ..DisruptionGuard::default()
    };
    world.hear(Input::Guards(&[Arc::new(paused)]));
    world.apply(PODS);
    world.apply(TOGETHER);
    world.run_until(60_000);
    assert_eq!(gone(&world), ["0 p3"]);
    assert_eq!((by_group(&world), world.machine.blocked()[Block::Paused as usize]), (2, 1));
    world.hear(Input::Guards(&[]));
    world.run_until(61_000);
    assert_eq!(gone(&world)[1..], ["60000 p0", "60000 p1", "60000 p2"]);
}

/// A budget that refuses one of them keeps it; those that it let go are gone.
#[test]
fn a_budget_that_refuses_one_is_obeyed() {
    let mut world = world(Options::default(), &format!("{TOGETHER} mode=Evict"));
    world.refusals.insert("p1".into(), 1);
    world.run_until(60_000);
    assert_eq!(gone(&world)[1..], ["20000 p2", "20000 p0", "21000 p1"]);
}

/// The pace is charged for all of them: the next pod waits for what the group owes.
#[test]
fn the_pace_is_charged_for_the_whole_group() {
    let mut world = World::new(Options { burst: 2, ..Options::default() });
    world.apply(PODS);
    world.apply("claim c2 device=d2 for=p2:uid-p2");
    world.apply("rule r driver=some-driver taint=k=v:NoExecute@0~1 together");
    world.run_until(60_000);
    // Empty at first, two permits after two seconds; three pods go, and one is owed.
    assert_eq!(gone(&world), ["2000 p0", "2000 p1", "2000 p2", "4000 p3"]);
}

#[test]
fn a_group_larger_than_may_be_terminating_says_so() {
    let mut world = World::new(Options::default());
    world.apply(PODS);
    world.apply("claim c2 device=d2 for=p2:uid-p2");
    world.apply(&format!("{TOGETHER} concurrent=2"));
    world.run_until(60_000);
    assert_eq!((gone(&world), by_group(&world)), (vec!["0 p3".to_owned()], 3));
    assert!(
        world.log.iter().any(|line| line.contains("the group has 3 pods, and maxConcurrent is 2")),
        "{:?}",
        world.log
    );
}

/// After the deadline nobody waits for the others.
#[test]
fn whose_time_is_over_waits_for_nobody() {
    let mut world = world(Options::default(), &format!("{TOGETHER} mode=EvictThenDelete deadline=5"));
    world.run_until(60_000);
    assert_eq!(gone(&world), ["0 p3", "5000 p0", "5000 p1", "20000 p2"]);
}

/// The time of one pod is over by another rule. A pod that is due by this rule alone stays, for the third may still complete.
#[test]
fn a_pod_whose_time_is_over_takes_nobody_along_unless_the_group_is_whole() {
    for (this, other) in [("r", "s"), ("s", "r")] {
        let mut world = World::new(Options::default());
        world.apply(PODS);
        world.apply(&format!("rule {this} driver=some-driver taint=k=v:NoExecute@0 together mode=Evict"));
        world.run_until(1_000);
        world.apply(&format!(
            "rule {other} device=d0 taint=k2=v:NoExecute@0 together mode=EvictThenDelete deadline=0"
        ));
        world.run_until(2_000);
        assert_eq!(gone(&world), ["0 p3", "1000 p0"], "{this} and {other}");
        assert_eq!(by_group(&world), 1);
        world.run_until(60_000);
        assert_eq!(gone(&world)[2..], ["20000 p2", "20000 p1"], "{this} and {other}");
        assert_eq!(by_group(&world), 0);
    }
}

/// The same within one rule: pods whose time is over leave, and those whose time is not stay with the third.
#[test]
fn a_pod_whose_time_is_not_over_waits_for_the_rest_of_its_group() {
    let mut world = World::new(Options::default());
    world.apply(PODS);
    world.apply("claim c1 device=d1 for=p1:uid-p1 tolerate=k,Exists,NoExecute,3");
    world.apply(&format!("{TOGETHER} mode=EvictThenDelete deadline=5"));
    world.run_until(60_000);
    assert_eq!(gone(&world), ["0 p3", "5000 p0", "8000 p1", "20000 p2"]);
}

/// One pod of a group has another reason to leave, which needs no window: the others stay until theirs opens.
#[test]
fn a_pod_with_another_reason_takes_nobody_along_outside_a_window() {
    let mut world = World::new(Options::default());
    world.apply(PODS);
    world.apply("claim c2 device=d2 for=p2:uid-p2");
    world.apply("rule s device=d0 taint=k2=v:NoExecute@0 mode=Delete");
    world.apply(&format!("{TOGETHER} mode=EvictThenDelete deadline=0 window=02:00/1h"));
    world.run_until(60_000);
    assert_eq!(gone(&world), ["0 p0"]);
    world.run_until(7_300_000);
    assert_eq!(world.evicted_at.len(), 4, "{:?}", gone(&world));
    assert!(world.evicted_at[1..].iter().all(|(at, _)| *at == 7_200_000), "{:?}", gone(&world));
}
