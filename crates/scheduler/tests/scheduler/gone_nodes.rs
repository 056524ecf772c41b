//! Nodes that are deleted while pods are on their way to them.

use lazaret_scheduler::{EffectKind, Input, Options};

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
        for input in std::mem::take(&mut world.news) {
            world.tell(input);
        }
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
    world.tell(Input::Acknowledged(
        bind.id,
        lazaret_scheduler::Reply::of(lazaret_scheduler::Outcome::RetryLater),
    ));
    world.pass(60_000);
    assert_eq!(world.node_of("p"), None);
}
