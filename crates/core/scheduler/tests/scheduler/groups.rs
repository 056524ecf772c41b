//! Pods of a group: they wait for it, and use its claims as one.

use std::sync::Arc;

use lazaret_model::*;
use lazaret_scheduler::{EffectKind, Input, Options};

use crate::world::{World, claim, pod};

fn member(name: &str, claims: &[&str]) -> lazaret_scheduler::Pod {
    lazaret_scheduler::Pod { group: Some("g".into()), ..pod(name, 100, claims) }
}

pub(crate) fn group(claims: &[&str], gang: Option<u32>) -> Input {
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

pub(crate) fn on(name: &str, node: &str, claims: &[&str]) -> lazaret_scheduler::Pod {
    let mut pod = member(name, claims);
    Arc::make_mut(&mut pod.spec).node_selector = [("kubernetes.io/hostname".into(), node.into())].into();
    pod
}

fn with_cpu(mut pod: lazaret_scheduler::Pod, cpu_milli: i64) -> lazaret_scheduler::Pod {
    Arc::make_mut(&mut pod.spec).requests.cpu_milli = cpu_milli;
    pod
}

fn writes(world: &World) -> usize {
    let is_write =
        |kind: &&EffectKind| !matches!(kind, EffectKind::Event(_) | EffectKind::SetPodCondition(_));
    world.log.iter().filter(is_write).count()
}

/// As in Kubernetes: one claim, one device, and pods that must not be on one node.
#[test]
fn of_a_gang_whose_pods_cannot_all_be_placed_none_is() {
    let mut world = World::new(Options::default());
    world.node("worker-0", 10_000, 1);
    for number in 1..8 {
        world.node(&format!("worker-{number}"), 10_000, 0);
    }
    world.add_claim(claim("c", 1));
    world.tell(group(&["c"], Some(2)));
    world.add_pod(on("p0", "worker-0", &["c"]));
    world.add_pod(on("p1", "worker-1", &["c"]));
    world.settle();
    world.pass(30_000);
    assert_eq!(
        (world.node_of("p0"), world.node_of("p1"), writes(&world), users(&world, "c")),
        (None, None, 0, vec![])
    );
    assert_eq!(world.message_of("p0"), "pod group is unschedulable, minCount (2) cannot be satisfied");
    let told = "0/8 nodes are available: 1 resourceclaim not available on the node, \
                7 node(s) didn't match Pod's node affinity/selector.";
    assert_eq!(world.message_of("p1"), told);
    let sizes = world.scheduler.sizes();
    assert_eq!((sizes.in_flight, sizes.claims_in_flight, sizes.parked), (0, 0, 2), "{sizes:?}");
    let decisions = world.scheduler.decisions();
    world.seconds(60);
    assert_eq!(world.scheduler.decisions(), decisions, "nothing happened, nothing is tried");
}

#[test]
fn a_gang_is_placed_over_several_nodes_as_soon_as_all_of_it_fits() {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 1);
    world.node("b", 1_000, 1);
    world.tell(group(&[], Some(4)));
    for number in 0..4 {
        world.add_claim(claim(&format!("c{number}"), 1));
        world.add_pod(member(&format!("p{number}"), &[&format!("c{number}")]));
    }
    world.settle();
    world.pass(30_000);
    assert_eq!(writes(&world), 0, "two devices for four pods");
    world.node("c", 1_000, 1);
    world.settle();
    world.pass(30_000);
    assert_eq!(writes(&world), 0, "three devices for four pods");
    world.node("d", 1_000, 1);
    world.settle();
    let mut nodes: Vec<_> = (0..4).filter_map(|number| world.node_of(&format!("p{number}"))).collect();
    nodes.sort();
    assert_eq!(nodes, ["a", "b", "c", "d"]);
    // One more than the gang needs is placed by itself.
    world.add_pod(member("late", &[]));
    world.settle();
    assert!(world.node_of("late").is_some());
}

#[test]
fn a_pod_that_can_go_anywhere_makes_way_for_one_of_its_gang_that_cannot() {
    let mut world = World::new(Options::default());
    // By itself the first pod takes the emptier node.
    world.node("a", 1_000, 0);
    world.node("b", 900, 0);
    world.tell(group(&[], Some(2)));
    world.add_pod(with_cpu(member("anywhere", &[]), 800));
    world.add_pod(with_cpu(on("only-a", "a", &[]), 800));
    world.settle();
    assert_eq!(
        (world.node_of("anywhere").as_deref(), world.node_of("only-a").as_deref()),
        (Some("b"), Some("a")),
        "{}",
        world.message_of("only-a")
    );
}

#[test]
fn a_gang_that_does_not_fit_leaves_room_for_others() {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 2);
    world.tell(group(&[], Some(3)));
    for number in 0..3 {
        world.add_claim(claim(&format!("c{number}"), 1));
        world.add_pod(with_cpu(member(&format!("p{number}"), &[&format!("c{number}")]), 400));
    }
    world.settle();
    world.add_claim(claim("c", 2));
    world.add_pod(pod("q", 1_000, &["c"]));
    world.settle();
    assert_eq!(world.node_of("q").as_deref(), Some("a"), "{}", world.message_of("q"));
    world.remove_pod("q");
    world.node("b", 1_000, 1);
    world.settle();
    world.seconds(20);
    assert!((0..3).all(|number| world.node_of(&format!("p{number}")).is_some()));
}

#[test]
fn a_gang_of_which_some_are_placed_needs_only_the_others() {
    let mut world = World::new(Options::default());
    world.node("a", 250, 0);
    world.tell(group(&[], Some(2)));
    world.add_pod(lazaret_scheduler::Pod { node: Some("a".into()), ..member("p", &[]) });
    world.add_pod(member("q", &[]));
    world.add_pod(member("r", &[]));
    world.settle();
    let placed = ["q", "r"].iter().filter(|name| world.node_of(name).is_some()).count();
    assert_eq!(placed, 1, "there is room for one, and that is enough");
}

/// Its pods are created one after the other: none gets the message that the others are missing, unless that lasts.
#[test]
fn a_gang_that_is_complete_at_once_is_not_told_that_it_is_not() {
    let on = |name: &str, node: &str| {
        let mut pod = member(name, &["c"]);
        Arc::make_mut(&mut pod.spec).node_selector = [("kubernetes.io/hostname".into(), node.into())].into();
        pod
    };
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 1);
    world.node("b", 1_000, 0);
    world.add_claim(claim("c", 1));
    world.tell(group(&[], Some(2)));
    world.add_pod(on("first", "a"));
    world.settle();
    assert_eq!(world.message_of("first"), "");
    world.add_pod(on("second", "b"));
    world.settle();
    let first = "pod group is unschedulable, minCount (2) cannot be satisfied";
    assert_eq!(world.message_of("first"), first);
    let second = "1 resourceclaim not available on the node";
    assert!(world.message_of("second").contains(second), "{}", world.message_of("second"));
}

#[test]
fn a_gang_that_stays_incomplete_is_told() {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 0);
    world.tell(group(&[], Some(2)));
    world.add_pod(member("p", &[]));
    world.settle();
    assert_eq!(world.message_of("p"), "");
    world.pass(3_000);
    assert_eq!(world.message_of("p"), "pod group \"g\" has 1 of 2 pods");
}
