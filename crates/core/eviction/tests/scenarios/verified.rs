//! A status says that all is over only once everything that there was with the rule has been seen.

use lazaret_eviction::{Input, Options, ViewRequest};
use lazaret_fleet::Kind;

use crate::world::World;

const SLICE: &str = "slice worker instance";
const CLAIM: &str = "claim my-claim device=instance owner=my-pod:1234 for=my-pod:1234";
const POD: &str = "pod my-pod uid=1234 claim=my-claim";
const RULE: &str = "rule evict driver=some-driver taint=example.com/taint=something:NoExecute@0";

/// A leader whose watches are behind.
fn lagging() -> World {
    let mut world = World::new(Options::default());
    world.view_lags = true;
    world
}

fn asked(world: &mut World) -> ViewRequest {
    world.machine.poll_view().expect("it wants to see what there is")
}

fn reached(world: &mut World, request: &ViewRequest) {
    world.hear(Input::ViewReached(request.number));
    world.work();
}

#[test]
fn a_rule_that_is_seen_before_its_pods_does_not_say_that_nothing_started() {
    let mut world = lagging();
    world.apply(RULE);
    world.work();
    assert_eq!(world.log, [""; 0], "nobody knows yet");
    let request = asked(&mut world);
    assert_eq!(request.kinds, [Kind::Pod, Kind::Claim], "it selects by name");
    assert_eq!(world.machine.poll_view(), None, "asked for once");
    world.apply(SLICE);
    world.apply(CLAIM);
    world.apply(POD);
    world.run_until(0);
    let first = [
        "0s evict my-pod",
        "0s status evict True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace.",
    ];
    assert_eq!(world.log[..2], first);
    assert!(!world.log.iter().any(|line| line.contains("False")), "{:?}", world.log);
    reached(&mut world, &request);
    assert_eq!(
        world.log.last().unwrap(),
        "0s status evict False Completed: 1 pod evicted since the rule was created."
    );
}

#[test]
fn a_rule_by_expression_waits_for_slices_as_well() {
    let mut world = lagging();
    world.apply("rule evict cel=true taint=example.com/taint=something:NoExecute@0");
    world.work();
    let kinds = asked(&mut world).kinds;
    assert_eq!(kinds, [Kind::Pod, Kind::Claim, Kind::Slice, Kind::Patch, Kind::Class]);
}

#[test]
fn what_was_seen_for_one_spec_says_nothing_of_the_next() {
    let mut world = lagging();
    world.apply(RULE);
    world.work();
    let first = asked(&mut world);
    world.apply(&RULE.replace("something", "else").replace("rule evict", "rule evict gen=2"));
    world.work();
    reached(&mut world, &first);
    assert_eq!(world.log, [""; 0], "it was asked before the spec changed");
    let second = asked(&mut world);
    reached(&mut world, &first);
    assert_eq!(world.log, [""; 0], "an old answer");
    reached(&mut world, &second);
    assert_eq!(world.log, ["0s status evict False NotStarted: "]);
}

#[test]
fn a_new_leader_looks_for_itself() {
    let mut world = lagging();
    world.apply(RULE);
    world.work();
    let request = asked(&mut world);
    world.hear(Input::LostLeadership);
    assert_eq!(world.machine.poll_view(), None, "a follower wants nothing");
    world.hear(Input::BecameLeader);
    reached(&mut world, &request);
    assert_eq!(world.log, [""; 0], "an answer from before");
    let request = asked(&mut world);
    reached(&mut world, &request);
    assert_eq!(world.log, ["0s status evict False NotStarted: "]);
}

#[test]
fn a_leader_that_ends_before_it_has_seen_all_leaves_its_count_and_no_verdict() {
    let mut world = lagging();
    [SLICE, CLAIM, POD, RULE].into_iter().for_each(|line| world.apply(line));
    world.run_until(0);
    world.hear(Input::Closing);
    assert!(world.machine.has_final_writes());
    world.work();
    let last = world.log.last().unwrap();
    assert_eq!(last, "0s status evict Unknown NotVerified: 1 pod evicted since the rule was created.");
    assert!(!world.machine.has_final_writes(), "said once");
    let mut next = World::follower(Options::default());
    world.objects.values().for_each(|object| next.feed(object.clone()));
    next.hear(Input::BecameLeader);
    next.run_until(0);
    let last = next.log.last().unwrap();
    assert_eq!(last, "0s status evict False Completed: At least 1 pod evicted since the rule was created.");
}
