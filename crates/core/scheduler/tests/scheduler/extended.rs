//! Extended resources that devices stand in for.

use std::sync::Arc;

use lazaret_fleet as fleet;
use lazaret_model::*;
use lazaret_scheduler::{
    Container, EffectKind, Extended, Input, Options, Outcome, Pod, PodSpec, Reply, Role,
};

use crate::world::{World, claim, node, pod, slice};

pub(crate) const GPU: &str = "example.com/gpu";

pub(crate) fn world() -> World {
    let mut world = World::new(Options::default());
    let class = DeviceClass {
        name: "gpu".into(),
        extended_resource_name: Some(GPU.into()),
        ..DeviceClass::default()
    };
    world.tell(Input::Fleet(fleet::Input::Class(Arc::new(class))));
    world
}

pub(crate) fn asking(name: &str, resource: &str, amount: i64) -> Pod {
    let pod = pod(name, 100, &[]);
    let mut spec = PodSpec::clone(&pod.spec);
    spec.requests.set_other(&resource.into(), amount);
    let extended = [(resource.into(), Extended { amount, place: 0 })].into();
    spec.containers = vec![Container { name: "main".into(), index: 0, role: Role::Main, extended }];
    Pod { spec: Arc::new(spec), ..pod }
}

#[test]
fn a_claim_is_made_filled_named_and_the_pod_bound() {
    for resource in [GPU, "deviceclass.resource.kubernetes.io/gpu"] {
        let mut world = world();
        world.node("a", 1_000, 1);
        world.node("b", 1_000, 2);
        world.add_pod(asking("p", resource, 2));
        world.settle();
        assert_eq!(world.node_of("p").as_deref(), Some("b"), "{resource}: {}", world.message_of("p"));
        let [
            EffectKind::CreateExtendedClaim(create),
            EffectKind::ReserveClaim(reserve),
            EffectKind::SetExtendedClaim(named),
            EffectKind::Bind(_),
            EffectKind::Event(_),
        ] = &world.log[..]
        else {
            panic!("{:?}", world.log)
        };
        assert_eq!(create.generate_name, "p-extended-resources-");
        assert_eq!(create.owner.uid, "uid-p");
        assert_eq!(create.spec.requests[0].name, "container-0-request-0");
        assert!(!reserve.add_finalizer, "it was made with it");
        assert_eq!(reserve.allocation.as_ref().unwrap().results.len(), 2);
        assert_eq!((&named.claim, named.mappings.len()), (&reserve.claim.name, 1));
        let sizes = world.scheduler.sizes();
        assert_eq!((sizes.in_flight, sizes.claims_in_flight), (0, 0));
    }
}

#[test]
fn a_node_with_resources_of_its_own_needs_no_claim() {
    let mut world = world();
    let mut own = node("a", 1_000);
    own.allocatable.set_other(&GPU.into(), 1);
    world.tell(Input::Node(Arc::new(own)));
    world.add_pod(asking("p", GPU, 1));
    world.settle();
    assert!(matches!(&world.log[..], [EffectKind::Bind(_), EffectKind::Event(_)]), "{:?}", world.log);
    world.add_pod(asking("q", GPU, 1));
    world.settle();
    let full = "0/1 nodes are available: 1 Insufficient example.com/gpu.";
    assert!(world.message_of("q").starts_with(full), "{}", world.message_of("q"));

    // Devices elsewhere do as well.
    world.node("b", 1_000, 1);
    world.settle();
    world.pass(1_000);
    assert_eq!(world.node_of("q").as_deref(), Some("b"));
}

#[test]
fn what_was_made_for_nothing_is_deleted() {
    let mut world = world();
    world.node("a", 1_000, 1);
    // The answer to the second effect: the reservation fails.
    world.faults = vec![Outcome::RetryLater, Outcome::Done];
    world.add_pod(asking("p", GPU, 1));
    let create = world.scheduler.poll_effect().unwrap();
    world.faults.pop();
    let reserve_fails = world.faults.pop().unwrap();
    world.perform(create);
    world.hear();
    world.faults.push(reserve_fails);
    let reserve = world.scheduler.poll_effect().unwrap();
    world.perform(reserve);
    world.settle();
    assert!(world.log.iter().any(|kind| matches!(kind, EffectKind::DeleteExtendedClaim(_))));
    assert_eq!(world.claims.len(), 0);
    world.pass(2_000);
    assert_eq!(world.node_of("p").as_deref(), Some("a"), "{}", world.message_of("p"));
    assert_eq!(world.claims.len(), 1);
}

#[test]
fn devices_in_use_are_counted() {
    let mut world = world();
    world.node("a", 10_000, 2);
    world.tell(Input::Fleet(fleet::Input::Slice(Arc::new(slice("a", 2)))));
    for name in ["p", "q", "r"] {
        world.add_pod(asking(name, GPU, 1));
    }
    world.settle();
    let placed = ["p", "q", "r"].iter().filter(|name| world.node_of(name).is_some()).count();
    assert_eq!(placed, 2);
}

/// Somebody deletes the claim before the watch shows it.
#[test]
fn a_claim_that_is_gone_before_it_is_seen_is_made_again() {
    let mut world = world();
    world.node("a", 1_000, 1);
    world.add_pod(asking("p", GPU, 1));
    let create = world.scheduler.poll_effect().unwrap();
    world.perform(create);
    world.news.clear();
    world.claims.clear();
    world.seconds(60);
    assert_eq!(world.node_of("p").as_deref(), Some("a"), "{}", world.message_of("p"));
    assert_eq!(world.claims.len(), 1);
    let sizes = world.scheduler.sizes();
    assert_eq!((sizes.in_flight, sizes.claims_in_flight), (0, 0));
}

/// The watch has not shown that the claim of `p` is allocated, and deleting it has failed: nobody else gets its device.
#[test]
fn what_was_allocated_counts_until_the_claim_is_seen_to_be_gone() {
    let mut world = world();
    world.node("a", 1_000, 1);
    world.add_pod(asking("p", GPU, 1));
    let create = world.scheduler.poll_effect().unwrap();
    world.perform(create);
    world.hear();
    let reserve = world.scheduler.poll_effect().unwrap();
    assert!(matches!(reserve.kind, EffectKind::ReserveClaim(_)), "{:?}", reserve.kind);
    world.perform(reserve);
    let unseen = std::mem::take(&mut world.news);
    world.add_pod(asking("q", GPU, 1));
    for _ in 0..8 {
        let Some(effect) = world.scheduler.poll_effect() else { break };
        if matches!(effect.kind, EffectKind::SetExtendedClaim(_) | EffectKind::DeleteExtendedClaim(_)) {
            world.faults.push(Outcome::RetryLater);
        }
        world.perform(effect);
    }
    let is_made = |kind: &&EffectKind| matches!(kind, EffectKind::CreateExtendedClaim(_));
    assert!(world.log.iter().any(|kind| matches!(kind, EffectKind::DeleteExtendedClaim(_))));
    assert_eq!(world.log.iter().filter(is_made).count(), 1, "{:?}", world.log);

    unseen.into_iter().for_each(|input| world.tell(input));
    world.settle();
    world.pass(20_000);
    let placed = ["p", "q"].iter().filter(|name| world.node_of(name).is_some()).count();
    assert_eq!((placed, world.claims.len()), (1, 1));
    assert_eq!(world.scheduler.sizes().claims_in_flight, 0);
}

/// Passes a second in which the watch shows no pod.
fn pass_without_pods(world: &mut World, hidden: &mut Vec<Input>) {
    world.tick(1_000);
    for _ in 0..100 {
        if let Some(effect) = world.scheduler.poll_effect() {
            if matches!(effect.kind, EffectKind::Bind(_)) && world.node_of("p").is_none() {
                world.faults.push(Outcome::Unknown);
            }
            world.perform(effect);
        }
        for input in std::mem::take(&mut world.news) {
            if matches!(input, Input::Pod(_)) {
                hidden.push(input);
            } else {
                world.tell(input);
            }
        }
    }
}

/// The answer to the binding is lost, later ones are refused because the pod is bound, and the watch is behind: the pod runs with the claim.
#[test]
fn the_claim_of_a_pod_that_may_be_bound_is_not_deleted() {
    for loses_lease in [false, true] {
        let mut world = world();
        world.node("a", 1_000, 1);
        world.add_pod(asking("p", GPU, 1));
        let mut hidden = Vec::new();
        for second in 0..20 {
            pass_without_pods(&mut world, &mut hidden);
            if loses_lease && second == 2 {
                world.tell(Input::LostLeadership);
                world.tell(Input::BecameLeader);
            }
        }
        assert_eq!(world.node_of("p").as_deref(), Some("a"));
        let is_deleted = world.log.iter().any(|kind| matches!(kind, EffectKind::DeleteExtendedClaim(_)));
        assert!(!is_deleted, "{:?}", world.log);
        assert_eq!(world.claims.len(), 1);
        assert!(world.claims.values().all(|claim| !claim.claim.reserved_for.is_empty()));

        hidden.into_iter().for_each(|input| world.tell(input));
        world.settle();
        world.pass(60_000);
        assert_eq!((world.claims.len(), world.node_of("p").as_deref()), (1, Some("a")));
        let sizes = world.scheduler.sizes();
        assert_eq!((sizes.in_flight, sizes.claims_in_flight), (0, 0));
    }
}

#[test]
fn a_pod_that_was_not_bound_after_all_is_decided_on_anew() {
    let mut world = world();
    world.node("a", 1_000, 1);
    world.add_pod(asking("p", GPU, 1));
    for _ in 0..10 {
        world.tick(1_000);
        for _ in 0..100 {
            if let Some(effect) = world.scheduler.poll_effect() {
                if matches!(effect.kind, EffectKind::Bind(_)) {
                    world.faults.push(Outcome::Conflict);
                }
                world.perform(effect);
            }
            world.hear();
        }
    }
    assert_eq!((world.node_of("p"), world.claims.len()), (None, 1));
    world.seconds(60);
    assert_eq!(world.node_of("p").as_deref(), Some("a"), "{}", world.message_of("p"));
    assert_eq!(world.claims.len(), 1);
}

/// A pod is bound and gone again before the watch shows it: its node may still have its devices prepared. The claim controller, which asks the
/// node, takes the claims from it.
#[test]
fn the_claims_of_a_pod_that_was_bound_and_is_gone_are_left_to_the_claim_controller() {
    for with_claim in [false, true] {
        let mut world = world();
        world.node("a", 1_000, 2);
        world.add_pod(if with_claim { pod("p", 100, &["c"]) } else { asking("p", GPU, 1) });
        if with_claim {
            world.add_claim(claim("c", 1));
        }
        let mut hidden = Vec::new();
        for _ in 0..100 {
            world.tick(100);
            while let Some(effect) = world.scheduler.poll_effect() {
                world.perform(effect);
            }
            let (pods, others): (Vec<_>, Vec<_>) =
                std::mem::take(&mut world.news).into_iter().partition(|input| matches!(input, Input::Pod(_)));
            hidden.extend(pods);
            others.into_iter().for_each(|input| world.tell(input));
        }
        assert_eq!(world.node_of("p").as_deref(), Some("a"));
        let done = world.log.len();
        world.tell(Input::PodGone(ObjectKey::new("ns", "p")));
        world.seconds(40);
        let written = &world.log[done..];
        assert!(written.is_empty(), "{written:?}");
    }
}

/// Goes on until nothing is left, while no answer comes to this many writes of the name of a claim. Gives the claims that were to be named.
fn settle_without_names(world: &mut World, mut unanswered: u32) -> Vec<Text> {
    let mut named = Vec::new();
    while let Some(effect) = world.scheduler.poll_effect() {
        if let EffectKind::SetExtendedClaim(set) = &effect.kind {
            named.push(set.claim.clone());
            if unanswered > 0 {
                unanswered -= 1;
                world.tell(Input::Acknowledged(effect.id, Reply::of(Outcome::Unknown)));
                continue;
            }
        }
        world.perform(effect);
        for input in std::mem::take(&mut world.news) {
            world.tell(input);
        }
    }
    named
}

/// A write without an answer may arrive later: it must not name a claim that was deleted since.
#[test]
fn a_claim_whose_name_may_be_written_is_named_again_and_no_other_before_that_is_known() {
    let mut world = world();
    world.node("a", 1_000, 1);
    world.add_pod(asking("p", GPU, 1));
    let named = settle_without_names(&mut world, 2);
    assert!(named.len() == 3 && named.iter().all(|name| *name == named[0]), "{named:?}");
    assert_eq!(world.node_of("p").as_deref(), Some("a"));
    assert!(
        !world.log.iter().any(|one| matches!(one, EffectKind::DeleteExtendedClaim(_))),
        "{:?}",
        world.log
    );

    world.add_pod(asking("q", GPU, 1));
    world.node("b", 1_000, 1);
    let named = settle_without_names(&mut world, u32::MAX);
    assert!(!named.is_empty() && named.iter().all(|name| *name == named[0]), "{named:?}");
    let made = |world: &World| {
        let is_made = |one: &&EffectKind| matches!(one, EffectKind::CreateExtendedClaim(_));
        world.log.iter().filter(is_made).count()
    };
    let before = made(&world);
    world.now = world.now.plus_millis(20_000);
    world.tell(Input::Tick);
    settle_without_names(&mut world, u32::MAX);
    assert_eq!(made(&world), before, "it may be named still");
    world.now = world.now.plus_millis(60_000);
    world.tell(Input::Tick);
    world.settle();
    world.pass(60_000);
    assert_eq!(world.node_of("q").as_deref(), Some("b"), "{}", world.message_of("q"));
}
