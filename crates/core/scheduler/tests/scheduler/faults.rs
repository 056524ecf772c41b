//! Writes that fail, are lost, or are done by another client first; leadership that comes and goes.

use std::sync::Arc;

use lazaret_model::{Consumer, ObjectKey};
use lazaret_scheduler::{Effect, EffectKind, Input, Options, Outcome, Pod};

use crate::{
    claims::{conditional, device_says},
    world::{World, claim, pod},
};

fn one_pod() -> World {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 1);
    world.node("b", 1_000, 1);
    world.add_claim(claim("c", 1));
    world.add_pod(pod("p", 1_000, &["c"]));
    world
}

fn is_at_rest(world: &World) {
    let sizes = world.scheduler.sizes();
    assert_eq!((sizes.in_flight, sizes.claims_in_flight, sizes.effects_pending), (0, 0, 0));
    let reserved = world.claims.values().map(|claim| claim.claim.reserved_for.len()).sum::<usize>();
    assert_eq!(reserved, world.pods.values().filter(|pod| pod.node.is_some()).count());
}

/// Each write answered with each outcome once: in the end the pod is bound, by two writes that were done.
#[test]
fn any_answer_to_any_write_is_survived() {
    for outcome in [Outcome::Gone, Outcome::Conflict, Outcome::RetryLater, Outcome::Unknown] {
        for write in 0..2 {
            let mut world = one_pod();
            for _ in 0..write {
                let effect = world.scheduler.poll_effect().unwrap();
                world.perform(effect);
            }
            world.faults.push(outcome);
            world.settle();
            world.seconds(10);
            assert!(world.node_of("p").is_some(), "{outcome:?} to write {write}: {}", world.message_of("p"));
            is_at_rest(&world);
        }
    }
}

#[test]
fn a_server_that_is_down_for_long_is_not_stormed() {
    let mut world = one_pod();
    world.faults = vec![Outcome::RetryLater; 1_000];
    world.settle();
    world.seconds(60);
    let writes = world.log.iter().filter(|kind| matches!(kind, EffectKind::ReserveClaim(_))).count();
    assert!((5..20).contains(&writes), "the pauses grow to ten seconds: {writes} in a minute");
    world.faults.clear();
    world.seconds(11);
    assert!(world.node_of("p").is_some());
    is_at_rest(&world);
}

#[test]
fn who_does_not_lead_wants_nothing_and_decides_anew_when_it_does() {
    let mut world = one_pod();
    let reserve = world.scheduler.poll_effect().unwrap();
    world.tell(Input::LostLeadership);
    assert!(world.scheduler.poll_effect().is_none() && world.scheduler.next_wake().is_none());
    // Done all the same, and seen too late.
    world.perform(reserve);
    assert!(world.scheduler.poll_effect().is_none());
    world.tell(Input::BecameLeader);
    world.settle();
    assert!(world.node_of("p").is_some());
    is_at_rest(&world);
}

#[test]
fn a_pod_that_is_deleted_on_the_way_gives_everything_back() {
    let mut world = one_pod();
    let reserve = world.scheduler.poll_effect().unwrap();
    world.remove_pod("p");
    world.hear();
    world.perform(reserve);
    world.settle();
    assert_eq!(world.scheduler.sizes().in_flight, 0);
    // Its room and its device are there for another.
    for name in ["q", "r"] {
        world.add_claim(claim(&format!("c-{name}"), 1));
        world.add_pod(pod(name, 1_000, &[&format!("c-{name}")]));
    }
    world.settle();
    // The one that was allocated for the deleted pod is the claims controller's to free.
    let placed = ["q", "r"].iter().filter(|name| world.node_of(name).is_some()).count();
    assert!(placed >= 1);
}

#[test]
fn a_pod_that_somebody_else_bound_is_where_they_say() {
    let mut world = one_pod();
    let elsewhere = Pod { node: Some("b".into()), ..pod("p", 1_000, &["c"]) };
    world.scheduler.poll_effect().unwrap();
    world.tell(Input::Pod(Arc::new(elsewhere)));
    let key = lazaret_model::ObjectKey::new("ns", "p");
    assert_eq!(world.scheduler.node_of(&key).map(|node| node.as_str()), Some("b"));
    assert_eq!(world.scheduler.sizes().in_flight, 0);
}

/// The write by which the devices of `c` are given back: they do not get ready for `p`.
fn giving_back(world: &mut World) -> Effect {
    world.node("a", 1_000, 0);
    conditional(world, "a");
    world.add_claim(claim("c", 1));
    world.add_pod(pod("p", 100, &["c"]));
    world.settle();
    device_says(world, "Broken");
    for _ in 0..100 {
        world.now = world.now.plus_millis(100);
        world.tell(Input::Tick);
        while let Some(effect) = world.scheduler.poll_effect() {
            if matches!(&effect.kind, EffectKind::ReleaseClaim(release) if release.deallocate) {
                return effect;
            }
            world.perform(effect);
            for input in std::mem::take(&mut world.news) {
                world.tell(input);
            }
        }
    }
    panic!("the devices are kept");
}

#[test]
fn devices_that_another_pod_has_got_meanwhile_are_not_given_back() {
    let mut world = World::new(Options::default());
    let effect = giving_back(&mut world);
    // A pod that runs with the claim was left out of its users. The claim controller adds it.
    let runs = Pod { node: Some("a".into()), ..pod("q", 100, &["c"]) };
    world.add_pod(runs);
    world.version += 1;
    let user =
        Consumer { resource: "pods".into(), name: "q".into(), uid: "uid-q".into(), ..Consumer::default() };
    let key = ObjectKey::new("ns", "c");
    let changed = world.claims.get_mut(&key).unwrap();
    Arc::make_mut(&mut changed.claim).reserved_for.push(user);
    changed.version = world.version;
    let news = Input::Claim(Arc::new(changed.clone()));
    world.perform(effect);
    world.tell(news);
    world.settle();
    world.pass(60_000);
    let claim = &world.claims[&key].claim;
    let users: Vec<&str> = claim.reserved_for.iter().map(|user| &*user.name).collect();
    assert_eq!((users, claim.allocation.is_some()), (vec!["q"], true));
    assert_eq!(world.scheduler.sizes().claims_in_flight, 0);
}
