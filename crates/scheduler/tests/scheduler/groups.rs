//! Pods of a group: they wait for it, and use its claims as one.

use std::sync::Arc;

use lazaret_model::*;
use lazaret_scheduler::{EffectKind, Input, Options};

use crate::world::{World, claim, pod};

fn member(name: &str, claims: &[&str]) -> lazaret_scheduler::Pod {
    lazaret_scheduler::Pod { group: Some("g".into()), ..pod(name, 100, claims) }
}

fn group(claims: &[&str], gang: Option<u32>) -> Input {
    let entry =
        |claim: &&str| PodClaim { name: (*claim).into(), source: ClaimSource::Claim((*claim).into()) };
    Input::Group(Arc::new(PodGroup {
        key: ObjectKey::new("ns", "g"),
        uid: "uid-g".into(),
        claims: claims.iter().map(entry).collect(),
        gang,
        ..PodGroup::default()
    }))
}

fn users(world: &World, claim: &str) -> Vec<String> {
    let claim = &world.claims[&ObjectKey::new("ns", claim)].claim;
    claim.reserved_for.iter().map(|user| format!("{} {}", user.resource, user.uid)).collect()
}

#[test]
fn a_claim_of_the_group_is_reserved_once_for_all_of_its_pods() {
    let mut world = World::new(Options::default());
    world.node("a", 100_000, 1);
    world.add_claim(claim("c", 1));
    world.tell(group(&["c"], None));
    for number in 0..300 {
        world.add_pod(member(&format!("p-{number}"), &["c"]));
    }
    world.settle();
    assert!(
        (0..110).all(|number| world.node_of(&format!("p-{number}")).is_some()),
        "as many as a node takes"
    );
    assert_eq!(users(&world, "c"), ["podgroups uid-g"]);
    let writes = world.log.iter().filter(|effect| matches!(effect, EffectKind::ReserveClaim(_))).count();
    assert_eq!(writes, 1);
}

#[test]
fn entries_that_the_group_does_not_have_are_the_pods_own() {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 2);
    world.add_claim(claim("c", 1));
    world.add_claim(claim("own", 1));
    world.tell(group(&["c"], None));
    world.add_pod(member("p", &["c", "own"]));
    world.settle();
    assert_eq!(
        (users(&world, "c"), users(&world, "own")),
        (vec!["podgroups uid-g".into()], vec!["pods uid-p".into()])
    );
}

#[test]
fn pods_wait_for_their_group_and_a_gang_for_its_pods() {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 0);
    world.add_pod(member("p", &[]));
    world.settle();
    assert_eq!(world.message_of("p"), "waiting for pod group \"g\"");
    world.tell(group(&[], Some(2)));
    world.settle();
    world.pass(10_000);
    assert_eq!(
        (world.message_of("p").as_str(), world.node_of("p")),
        ("pod group \"g\" has 1 of 2 pods", None)
    );
    world.add_pod(member("q", &[]));
    world.settle();
    world.pass(10_000);
    assert!(world.node_of("p").is_some() && world.node_of("q").is_some());
}

#[test]
fn devices_that_hinder_a_group_are_given_back_unless_a_pod_of_it_has_them() {
    let on = |name: &str, node: &str| {
        let mut pod = member(name, &["c"]);
        Arc::make_mut(&mut pod.spec).node_selector = [("kubernetes.io/hostname".into(), node.into())].into();
        pod
    };
    for stays in [false, true] {
        let mut world = World::new(Options::default());
        world.node("a", 1_000, 1);
        world.node("b", 1_000, 1);
        world.add_claim(claim("c", 1));
        world.tell(group(&["c"], None));
        world.add_pod(on("first", "a"));
        world.settle();
        assert_eq!(world.node_of("first").as_deref(), Some("a"));
        if !stays {
            world.remove_pod("first");
        }
        world.add_pod(on("second", "b"));
        world.settle();
        world.pass(60_000);
        assert_eq!(world.node_of("second").is_some(), !stays, "{}", world.message_of("second"));
        assert_eq!(users(&world, "c"), ["podgroups uid-g"]);
    }
}
