//! A device that was given to two claims: one of them gives it back before its pod goes to a node.

use std::sync::Arc;

use lazaret_model::{Allocation, Consumer, DeviceId, ObjectKey, ResourceClaim, Timestamp};
use lazaret_scheduler::{EffectKind, EventKind, Options, Outcome};

use crate::world::{World, claim, pod};

/// A device on each of two nodes.
fn world() -> World {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 1);
    world.node("b", 1_000, 1);
    world
}

fn device(world: &World, claim: &str) -> Option<DeviceId> {
    let claim = &world.claims[&ObjectKey::new("ns", claim)].claim;
    claim.allocation.as_ref().map(|given| given.results[0].device.clone())
}

fn given(world: &World, claim: &str) -> Option<Arc<Allocation>> {
    world.claims[&ObjectKey::new("ns", claim)].claim.allocation.clone()
}

fn reserved(name: &str, allocation: Option<Arc<Allocation>>, pod: &str) -> ResourceClaim {
    let user = Consumer {
        resource: "pods".into(),
        name: pod.into(),
        uid: format!("uid-{pod}").into(),
        ..Consumer::default()
    };
    ResourceClaim { allocation, reserved_for: vec![user], ..claim(name, 1) }
}

fn releases(world: &World) -> Vec<String> {
    let released = world.log.iter().filter_map(|kind| {
        let EffectKind::ReleaseClaim(release) = kind else { return None };
        release.deallocate.then(|| release.claim.name.to_string())
    });
    released.collect()
}

#[test]
fn the_claim_of_a_pod_that_is_on_no_node_gives_way_to_one_that_is_used() {
    let mut world = world();
    world.add_claim(claim("used", 1));
    world.add_pod(pod("p", 1_000, &["used"]));
    world.settle();
    assert!(world.node_of("p").is_some());
    let mut late = Allocation::clone(&given(&world, "used").unwrap());
    late.timestamp = Some(Timestamp::from_secs(1));
    world.add_claim(reserved("late", Some(Arc::new(late)), "q"));
    world.add_pod(pod("q", 1_000, &["late"]));
    world.settle();
    world.seconds(3);
    assert_eq!(releases(&world), ["late"]);
    assert_ne!(device(&world, "late"), device(&world, "used"));
    let told = world.events.iter().filter(|event| event.kind == EventKind::DeviceAllocatedTwice);
    let told: Vec<_> = told.map(|event| (event.pod.name.as_str(), event.message.as_str())).collect();
    let message = format!(
        "Device {} is allocated to ResourceClaims ns/used and ns/late: ns/late gives it back",
        device(&world, "used").unwrap()
    );
    assert_eq!(told, [("q", message.as_str()), ("p", message.as_str())]);
    assert!(
        world.node_of("q").is_some_and(|node| Some(node) != world.node_of("p")),
        "{}",
        world.message_of("q")
    );
}

#[test]
fn of_two_claims_that_nobody_uses_yet_the_older_allocation_stays() {
    let mut world = world();
    world.add_claim(claim("used", 1));
    world.add_pod(pod("p", 1_000, &["used"]));
    world.settle();
    let allocation = given(&world, "used").unwrap();
    let mut world = self::world();
    let at = |secs| {
        let timestamp = Some(Timestamp::from_secs(secs));
        Some(Arc::new(Allocation { timestamp, ..Allocation::clone(&allocation) }))
    };
    world.add_claim(reserved("young", at(900), "q"));
    world.add_claim(reserved("old", at(800), "p"));
    world.add_pod(pod("q", 1_000, &["young"]));
    world.add_pod(pod("p", 1_000, &["old"]));
    world.settle();
    world.seconds(3);
    assert_eq!(releases(&world), ["young"]);
    assert_eq!(device(&world, "old"), allocation.results.first().map(|result| result.device.clone()));
    assert!(world.node_of("p").is_some() && world.node_of("q").is_some());
    assert_ne!(device(&world, "old"), device(&world, "young"));
}

#[test]
fn what_was_decided_and_is_given_to_another_meanwhile_is_decided_anew() {
    let mut world = world();
    world.add_claim(claim("c", 1));
    world.add_pod(pod("p", 1_000, &["c"]));
    world.hear();
    let effect = world.scheduler.poll_effect().unwrap();
    let EffectKind::ReserveClaim(reserve) = effect.kind.clone() else { panic!("{effect:?}") };
    // The server refuses it: a write of the last leader came first.
    world.add_claim(reserved("late", reserve.allocation.clone(), "gone"));
    world.faults.push(Outcome::Conflict);
    world.perform(effect);
    world.settle();
    world.seconds(3);
    let taken = reserve.allocation.unwrap().results[0].device.clone();
    assert!(device(&world, "c").is_some_and(|device| device != taken), "{}", world.message_of("p"));
    assert_eq!(world.log.iter().filter(|kind| matches!(kind, EffectKind::ReserveClaim(_))).count(), 2);
    assert!(world.node_of("p").is_some());
    assert_eq!(device(&world, "late"), Some(taken));
}
