//! Counts in a rule's status: exact while one leads, taken over by the next, never too high.

use std::sync::Arc;

use lazaret_eviction::{EffectId, EffectKind, Evict, Input, Options, Outcome};
use lazaret_fleet::Input as FleetInput;
use lazaret_model::Pod;

use crate::world::World;

const RULE: &str = "rule evict driver=some-driver taint=k=v:NoExecute@0";

fn pods(world: &mut World, from: usize, to: usize) {
    for i in from..to {
        world.apply(&format!("claim c-{i} device=d-{i} for=p-{i}:u-{i}; pod p-{i} uid=u-{i} claim=c-{i}"));
    }
}

/// A machine that finds the same objects and knows nothing else.
fn successor(world: &World) -> World {
    let mut next = World::follower(Options::default());
    next.now = world.now;
    world.objects.values().for_each(|input| next.feed(input.clone()));
    next
}

fn evicted(world: &World) -> u64 {
    world.machine.tally("evict").unwrap().evicted
}

fn written(world: &World) -> u64 {
    world.fleet.rule("evict").unwrap().rule.evictions.unwrap_or_default().pods
}

fn after_three() -> World {
    let mut world = World::new(Options::default());
    pods(&mut world, 0, 3);
    world.apply(RULE);
    world.run_until(20_000);
    assert_eq!((evicted(&world), written(&world)), (3, 3));
    world
}

#[test]
fn a_restart_keeps_the_count_and_says_that_there_may_be_more() {
    for gone in [false, true] {
        let mut world = after_three();
        if gone {
            (0..3).for_each(|i| world.apply(&format!("pod- p-{i}; claim- c-{i}")));
            world.run_until(40_000);
        }
        let mut next = successor(&world);
        next.hear(Input::BecameLeader);
        next.run_until(100_000);
        assert_eq!(evicted(&next), 3);
        // The count of another leader is only a lower bound.
        let at_least = "At least 3 pods evicted since the rule was created.";
        assert_eq!(next.log.len(), 1, "{:?}", next.log);
        assert!(next.log[0].ends_with(at_least), "{:?}", next.log);
        let mut last = successor(&next);
        last.hear(Input::BecameLeader);
        last.run_until(150_000);
        assert_eq!(last.log, Vec::<String>::new(), "said once and for all");
        // And goes on from there.
        pods(&mut next, 3, 5);
        next.run_until(200_000);
        assert_eq!((evicted(&next), written(&next)), (5, 5));
    }
}

#[test]
fn evictions_that_no_status_tells_of_are_found_while_the_pods_terminate() {
    let mut world = after_three();
    world.now = 25_000;
    // Two more leave, and the leader dies before it writes a status.
    pods(&mut world, 3, 5);
    let batch: Vec<_> = std::iter::from_fn(|| world.machine.poll_effect()).collect();
    batch.into_iter().take(2).for_each(|effect| world.perform(effect));
    assert_eq!((evicted(&world), written(&world)), (5, 3));
    // One of them is gone for good before anybody looks: it is missed. The other is found.
    for (vanished, expected) in [(false, 5), (true, 4)] {
        let mut next = successor(&world);
        if vanished {
            next.apply("pod- p-4");
        }
        next.hear(Input::BecameLeader);
        next.run_until(100_000);
        assert_eq!((evicted(&next), written(&next)), (expected, expected));
        // Looking again finds nothing new, neither now nor under the next leader.
        next.hear(Input::LostLeadership);
        next.hear(Input::BecameLeader);
        next.run_until(200_000);
        assert_eq!((evicted(&next), written(&next)), (expected, expected));
        let mut last = successor(&next);
        last.hear(Input::BecameLeader);
        last.run_until(300_000);
        assert_eq!((evicted(&last), written(&last)), (expected, expected));
    }
}

#[test]
fn a_leader_that_closes_says_all_it_knows_and_begins_nothing() {
    let mut world = after_three();
    world.now = 21_000;
    world.apply("rule other driver=some-driver taint=k=v:NoExecute/1@0");
    pods(&mut world, 3, 6);
    // One is gone, one is in flight, one has not been begun when the process is asked to end.
    let batch: Vec<_> = std::iter::from_fn(|| world.machine.poll_effect()).take(2).collect();
    let [first, second] = <[_; 2]>::try_from(batch).unwrap();
    world.perform(first);
    world.hear(Input::Closing);
    assert!(world.machine.has_final_writes());
    world.perform(second);
    world.work();
    assert_eq!((evicted(&world), written(&world)), (5, 5));
    assert!(!world.machine.has_final_writes());
    assert_eq!(world.machine.next_wake(), None, "who waits for a permit waits for the next leader");
    // The next one goes on, whatever became of the pods: nothing is lost and nothing counted twice.
    let mut next = successor(&world);
    (0..5).for_each(|i| next.apply(&format!("pod- p-{i}; claim- c-{i}")));
    next.hear(Input::BecameLeader);
    next.run_until(100_000);
    assert_eq!((evicted(&next), written(&next)), (6, 6));
}

#[test]
fn last_words_that_fail_are_said_again() {
    let mut world = after_three();
    world.now = 25_000;
    pods(&mut world, 3, 4);
    let evict = world.machine.poll_effect().unwrap();
    world.perform(evict);
    world.outcomes.insert("evict".into(), vec![Outcome::RetryLater, Outcome::Unknown]);
    world.hear(Input::Closing);
    world.work();
    assert!(world.machine.has_final_writes() && written(&world) == 3);
    world.run_until(26_000);
    assert!(!world.machine.has_final_writes());
    assert_eq!(written(&world), 4);
}

#[test]
fn late_news_of_a_predecessor() {
    let world = after_three();
    // The successor leads before it has heard of anything but the rule as it was made.
    let mut next = World::follower(Options::default());
    next.now = 30_000;
    next.outcomes.insert("evict".into(), vec![lazaret_eviction::Outcome::RetryLater; 3]);
    next.apply(RULE);
    next.hear(Input::BecameLeader);
    assert_eq!(evicted(&next), 0);
    // Before its first write arrives, the status of the predecessor does; what was queued is withdrawn.
    world.objects.values().for_each(|input| next.feed(input.clone()));
    assert_eq!(evicted(&next), 3);
    next.run_until(100_000);
    assert_eq!((evicted(&next), written(&next)), (3, 3));
}

#[test]
fn a_clock_behind_the_predecessors_does_not_count_twice() {
    let mut world = after_three();
    world.now = 25_000;
    pods(&mut world, 3, 4);
    let evict = world.machine.poll_effect().unwrap();
    world.perform(evict);
    // The next leader's clock is fifteen seconds behind.
    let mut next = successor(&world);
    next.now = 10_000;
    next.hear(Input::BecameLeader);
    next.run_until(40_000);
    assert_eq!((evicted(&next), written(&next)), (4, 4));
    let mut last = successor(&next);
    last.now = 11_000;
    last.hear(Input::BecameLeader);
    last.run_until(60_000);
    assert_eq!((evicted(&last), written(&last)), (4, 4));
}

#[test]
fn a_pod_deleted_by_somebody_else_is_not_counted() {
    let mut world = World::new(Options::default());
    world.apply(&format!(
        "{RULE}; claim c device=d for=p:u tolerate=k,Exists,NoExecute,60; pod p uid=u claim=c"
    ));
    world.run_until(1_000);
    world.apply("pod p uid=u claim=c terminating");
    world.run_until(100_000);
    assert_eq!((evicted(&world), written(&world)), (0, 0));
}

#[test]
fn the_count_is_written_at_most_every_ten_seconds() {
    let mut world = World::new(Options::default());
    world.now = 100_000;
    pods(&mut world, 0, 100);
    world.apply("rule evict driver=some-driver taint=k=v:NoExecute@100~2");
    world.run_until(300_000);
    let at: Vec<&str> = world
        .log
        .iter()
        .filter(|line| line.contains(" status "))
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(at, ["100s", "110s", "120s", "130s", "140s", "145s"]);
    assert_eq!(written(&world), 100);
}

fn next_eviction(world: &mut World) -> (EffectId, Evict) {
    let effects = std::iter::from_fn(|| world.machine.poll_effect());
    let mut evictions = effects.filter_map(|effect| match effect.kind {
        EffectKind::Evict(evict) => Some((effect.id, evict)),
        EffectKind::SetRuleStatus(_)
        | EffectKind::SetLastPublished(_)
        | EffectKind::SetGuardStatus(_)
        | EffectKind::AskCapacity(_)
        | EffectKind::Event(_)
        | EffectKind::RuleEvent(_)
        | EffectKind::GuardEvent(_) => None,
    });
    evictions.next().expect("an eviction")
}

/// The first of two attempts took hold, neither was heard of, and each was for another rule.
#[test]
fn an_unheard_eviction_is_counted_for_the_attempt_that_took_hold() {
    for seen in [true, false] {
        let mut world = World::new(Options::default());
        world.apply("rule a device=d taint=k=v:NoExecute@0; claim c device=d for=p:u; pod p uid=u claim=c");
        let (id, first) = next_eviction(&mut world);
        world.hear(Input::Acknowledged { effect: id, outcome: Outcome::Unknown });
        world.apply("rule a nothing gen=2 taint=k=v:NoExecute@0; rule b device=d taint=k=v:NoExecute@0");
        world.now = 60_000;
        world.hear(Input::Tick);
        let (id, _) = next_eviction(&mut world);
        world.hear(Input::Acknowledged { effect: id, outcome: Outcome::Unknown });
        if seen {
            let at = world.fleet.pod_ix(&first.pod).unwrap();
            let mut pod = Pod::clone(world.fleet.pod(at).unwrap());
            pod.deleting_since = Some(first.decided);
            pod.conditions = vec![first.condition()];
            pod.evicted_by = Some(Box::new(first.mark()));
            world.feed(FleetInput::Pod(Arc::new(pod)));
        }
        world.apply("pod- p");
        let counted = ["a", "b"].map(|rule| world.machine.tally(rule).unwrap().evicted);
        assert_eq!(counted, if seen { [1, 0] } else { [0, 0] }, "seen: {seen}");
        // Where nothing tells, nobody is counted, and the status says that there may be more.
        for rule in ["a", "b"] {
            let at_least = world.machine.tally(rule).unwrap().at_least;
            assert_eq!(at_least, !seen, "{rule}, seen: {seen}");
        }
    }
}
