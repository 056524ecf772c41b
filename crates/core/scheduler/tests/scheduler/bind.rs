//! From a pod to its binding.

use lazaret_scheduler::*;

use crate::world::{World, claim, pod};

#[test]
fn a_pod_without_claims_is_bound_by_one_write() {
    let mut world = World::new(Options::default());
    world.node("a", 4_000, 0);
    world.add_pod(pod("p", 1_000, &[]));
    world.settle();
    assert_eq!(world.node_of("p").as_deref(), Some("a"));
    assert!(matches!(&world.log[..], [EffectKind::Bind(_), EffectKind::Event(_)]), "{:?}", world.log);
    assert_eq!(world.events[0].message, "Successfully assigned ns/p to a");
}

#[test]
fn a_claim_is_allocated_and_reserved_by_one_write_and_then_the_pod_is_bound() {
    let mut world = World::new(Options::default());
    world.node("a", 4_000, 0);
    world.node("b", 4_000, 2);
    world.add_claim(claim("c", 1));
    world.add_pod(pod("p", 1_000, &["c"]));
    world.settle();
    assert_eq!(world.node_of("p").as_deref(), Some("b"));
    let [EffectKind::ReserveClaim(reserve), EffectKind::Bind(_), EffectKind::Event(_)] = &world.log[..]
    else {
        panic!("{:?}", world.log)
    };
    assert!(reserve.add_finalizer && reserve.allocation.is_some() && reserve.reserve_for.len() == 1);
    let sizes = world.scheduler.sizes();
    assert_eq!((sizes.in_flight, sizes.claims_in_flight, sizes.effects_pending), (0, 0, 0));
}

#[test]
fn what_is_decided_counts_at_once() {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 0);
    world.add_pod(pod("p", 1_000, &[]));
    world.add_pod(pod("q", 1_000, &[]));
    let first = world.scheduler.poll_effect().unwrap();
    assert!(matches!(first.kind, EffectKind::Bind(_)));
    // Nothing is acknowledged, and the room is taken all the same.
    let second = world.scheduler.poll_effect().unwrap();
    assert!(matches!(second.kind, EffectKind::Event(_)), "{second:?}");
    world.perform(first);
    world.settle();
    assert_eq!(world.node_of("q"), None);
    assert_eq!(
        world.message_of("q"),
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims \
         found for incoming pod."
    );
}

#[test]
fn a_binding_that_nobody_knows_of_is_tried_again_on_the_same_node() {
    let mut world = World::new(Options::default());
    world.node("a", 4_000, 0);
    world.node("b", 4_000, 0);
    world.faults.push(Outcome::RetryLater);
    world.add_pod(pod("p", 1_000, &[]));
    world.settle();
    assert_eq!(world.node_of("p"), None);
    world.pass(1_000);
    let binds: Vec<_> = world.log.iter().filter(|kind| matches!(kind, EffectKind::Bind(_))).collect();
    assert!(binds.len() == 2 && binds[0] == binds[1], "{binds:?}");
    assert!(world.node_of("p").is_some());
}
