//! The search for pods to evict takes turns, as the search for a place does: a pod that is hard to decide about holds up none of others.

use std::sync::Arc;

use lazaret_model::*;
use lazaret_scheduler::{EffectKind, Options, Pod, PodSpec};

use crate::{
    budget::{
        SELECTOR_UNITS, TURN_UNITS, add_easy, hard_selectors, in_namespace, key, next, units_until_placed,
    },
    world::{World, claim, pod},
};

fn of(priority: i32, pod: Pod) -> Pod {
    Pod { spec: Arc::new(PodSpec { priority, ..PodSpec::clone(&pod.spec) }), ..pod }
}

/// Two devices, in use by pods of low priority, on each of some nodes; and a node with one that is free.
fn world(nodes: usize, attempt_turns: u64) -> World {
    let options =
        Options { turn_units: TURN_UNITS, attempt_units: attempt_turns * TURN_UNITS, ..Options::default() };
    let mut world = World::new(options);
    for node in 0..nodes {
        world.node(&format!("full-{node}"), 100_000, 2);
    }
    for number in 0..2 * nodes {
        let name = format!("low-{number}");
        world.add_claim(claim(&name, 1));
        world.add_pod(of(-1, pod(&name, 1, &[&name])));
    }
    world.settle();
    world.node("free", 100_000, 1);
    world.settle();
    world
}

/// Pods that want two devices by selectors that cost many units each: they fit nowhere unless others leave.
fn add_hard(world: &mut World, pods: usize) {
    for number in 0..pods {
        let name = format!("hard-{number}");
        let mut claim = claim(&name, 2);
        claim.key.namespace = "hard".into();
        let mut spec = ClaimSpec::clone(&claim.spec);
        if let RequestKind::Exactly(request) = &mut spec.requests[0].kind {
            request.selectors = hard_selectors(number);
        }
        claim.spec = Arc::new(spec);
        world.add_claim(claim);
        world.add_pod(in_namespace("hard", of(10, pod(&name, 1, &[&name]))));
    }
}

fn evicted(world: &World) -> usize {
    world.log.iter().filter(|kind| matches!(kind, EffectKind::Evict(_))).count()
}

#[test]
fn a_search_for_pods_to_evict_holds_up_no_pod_of_another_namespace() {
    let mut world = world(2, 400);
    add_hard(&mut world, 5);
    let mut yields = 0;
    while yields < 3 {
        assert!(next(&mut world, &mut yields).is_none_or(|effect| {
            world.perform(effect);
            true
        }));
    }
    add_easy(&mut world, "others");
    let units = units_until_placed(&mut world, &key("others", "easy"));
    assert!(units <= 2 * (TURN_UNITS + SELECTOR_UNITS), "{units} units");
}

#[test]
fn each_turn_of_the_search_is_bounded_and_it_comes_to_its_end() {
    let mut world = world(2, 400);
    add_hard(&mut world, 1);
    for _ in 0..1_000 {
        let before = world.scheduler.work_units();
        let effect = world.scheduler.poll_effect();
        let units = world.scheduler.work_units() - before;
        assert!(units <= 2 * (TURN_UNITS + SELECTOR_UNITS), "{units} units without an input in between");
        match effect {
            Some(effect) => world.perform(effect),
            None if evicted(&world) == 2 => return,
            None => {}
        }
        world.hear();
    }
    panic!("the pods that are in the way are not evicted");
}

/// The budget of an attempt is one for both searches. A search that is not finished then goes on after a pause.
#[test]
fn an_attempt_that_is_over_goes_on_after_a_pause() {
    let mut world = world(2, 3);
    add_hard(&mut world, 1);
    world.settle();
    let before = world.scheduler.work_units();
    assert_eq!(evicted(&world), 0);
    world.settle();
    assert_eq!(world.scheduler.work_units(), before, "it waits");
    world.seconds(120);
    assert_eq!(evicted(&world), 2);
}
