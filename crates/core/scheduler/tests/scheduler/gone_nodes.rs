//! Nodes that are deleted while pods are on their way to them.

use lazaret_model::ObjectKey;
use lazaret_scheduler::{EffectKind, Input, Options, Outcome, Reply};

use crate::world::{World, claim, pod};

/// The number of effects that are carried out before the node goes.
fn bound_after(steps: usize) -> World {
    let mut world = World::new(Options::default());
    world.node("a", 4_000, 1);
    world.add_claim(claim("c", 1));
    world.add_pod(pod("p", 100, &["c"]));
    let mut done = 0;
    while done < steps {
        let Some(effect) = world.scheduler.poll_effect() else { break };
        done += usize::from(!matches!(effect.kind, EffectKind::Event(_)));
        world.perform(effect);
        world.hear();
    }
    world
}

/// A pod that is bound to a node that is gone waits for its collection; its devices were of no use.
#[test]
fn no_pod_is_bound_to_a_node_that_went_after_the_decision() {
    for steps in 0..2 {
        let mut world = bound_after(steps);
        world.tell(Input::NodeGone("a".into()));
        world.settle();
        assert_eq!(world.node_of("p"), None, "{steps}");
        world.node("b", 4_000, 1);
        world.pass(60_000);
        world.pass(60_000);
        assert_eq!(world.node_of("p").as_deref(), Some("b"), "{steps}: {}", world.message_of("p"));
    }
}

#[test]
fn a_pod_goes_to_a_node_that_is_made_again() {
    for steps in 0..2 {
        let mut world = bound_after(steps);
        world.tell(Input::NodeGone("a".into()));
        world.settle();
        world.node("a", 4_000, 0);
        world.pass(60_000);
        assert_eq!(world.node_of("p").as_deref(), Some("a"), "{steps}: {}", world.message_of("p"));
    }
}

/// The binding was sent: nobody knows before the answer whether it is done.
#[test]
fn a_binding_that_failed_is_not_repeated_when_the_node_is_gone() {
    let mut world = bound_after(1);
    let bind = std::iter::from_fn(|| world.scheduler.poll_effect());
    let bind = bind.into_iter().find(|effect| matches!(effect.kind, EffectKind::Bind(_))).unwrap();
    world.tell(Input::NodeGone("a".into()));
    world.tell(Input::Acknowledged(bind.id, Reply::of(Outcome::RetryLater)));
    world.pass(60_000);
    assert_eq!(world.node_of("p"), None);
}

/// A binding of which nothing is known may still be done: the room that the pod would take is kept, whether the node goes or a claim.
#[test]
fn a_pod_that_may_be_bound_keeps_its_room() {
    for goes in [Goes::Node, Goes::Claim, Goes::Nothing] {
        let mut world = World::new(Options::default());
        world.node("a", 1_000, 1);
        world.add_claim(claim("c", 1));
        world.add_pod(pod("p", 600, &["c"]));
        while let Some(effect) = world.scheduler.poll_effect() {
            if matches!(effect.kind, EffectKind::Bind(_)) {
                world.tell(Input::Acknowledged(effect.id, Reply::of(Outcome::Unknown)));
                break;
            }
            world.perform(effect);
            world.hear();
        }
        match goes {
            Goes::Node => {
                world.tell(Input::NodeGone("a".into()));
                world.node("a", 1_000, 0);
            }
            Goes::Claim => world.tell(Input::ClaimGone(ObjectKey::new("ns", "c"))),
            Goes::Nothing => {}
        }
        world.add_pod(pod("q", 600, &[]));
        for _ in 0..5 {
            world.tick(5_000);
            while let Some(effect) = world.scheduler.poll_effect() {
                if matches!(&effect.kind, EffectKind::Bind(bind) if *bind.pod.name == *"p") {
                    world.tell(Input::Acknowledged(effect.id, Reply::of(Outcome::Unknown)));
                } else {
                    world.perform(effect);
                }
                world.hear();
            }
            assert_eq!(world.node_of("q"), None, "{goes:?}");
        }
        // Half a minute after the last attempt it is not bound.
        if !matches!(goes, Goes::Nothing) {
            world.pods.remove(&ObjectKey::new("ns", "p"));
            world.pass(60_000);
            world.tell(Input::PodGone(ObjectKey::new("ns", "p")));
            world.pass(60_000);
            assert_eq!(world.node_of("q").as_deref(), Some("a"), "{goes:?}");
        }
    }
}

#[derive(Debug)]
enum Goes {
    Node,
    Claim,
    Nothing,
}
