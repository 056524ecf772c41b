//! Making room by force.

use std::sync::Arc;

use lazaret_model::{ObjectKey, Operator, Requirement, Timestamp};
use lazaret_scheduler::{Budget, EffectKind, Input, LabelSelector, Options, Pod, PodSpec};

use crate::world::{World, claim, pod};

fn of(priority: i32, pod: Pod) -> Pod {
    Pod { spec: Arc::new(PodSpec { priority, ..PodSpec::clone(&pod.spec) }), ..pod }
}

fn on(node: &str, pod: Pod) -> Pod {
    Pod { node: Some(node.into()), ..pod }
}

fn evicted(world: &World) -> Vec<String> {
    let name = |kind: &EffectKind| {
        let EffectKind::Evict(evict) = kind else { return None };
        Some(evict.victim.name.to_string())
    };
    world.log.iter().filter_map(name).collect()
}

#[test]
fn the_cheapest_pods_leave_and_the_pod_takes_their_place() {
    struct Case {
        name: &'static str,
        there: Vec<Pod>,
        evicted: Vec<&'static str>,
        node: Option<&'static str>,
    }
    let at = |secs, pod| Pod { started: Some(Timestamp::from_secs(secs)), ..pod };
    for case in [
        Case {
            name: "nobody lower",
            there: vec![on("a", of(10, pod("x", 1_000, &[]))), on("b", of(11, pod("y", 1_000, &[])))],
            evicted: vec![],
            node: None,
        },
        Case {
            name: "the only lower one",
            there: vec![on("a", of(10, pod("x", 1_000, &[]))), on("b", of(5, pod("y", 1_000, &[])))],
            evicted: vec!["y"],
            node: Some("b"),
        },
        Case {
            name: "the lower priority",
            there: vec![on("a", of(2, pod("x", 1_000, &[]))), on("b", of(1, pod("y", 1_000, &[])))],
            evicted: vec!["y"],
            node: Some("b"),
        },
        Case {
            name: "fewer pods",
            there: vec![
                on("a", of(1, pod("x", 500, &[]))),
                on("a", of(1, pod("z", 500, &[]))),
                on("b", of(1, pod("y", 1_000, &[]))),
            ],
            evicted: vec!["y"],
            node: Some("b"),
        },
        Case {
            name: "who need not leave stays",
            there: vec![
                on("a", of(1, pod("x", 100, &[]))),
                on("a", of(0, pod("z", 900, &[]))),
                on("b", of(10, pod("y", 1_000, &[]))),
            ],
            evicted: vec!["x", "z"],
            node: Some("a"),
        },
        Case {
            name: "who has run for less long",
            there: vec![
                on("a", at(100, of(1, pod("x", 1_000, &[])))),
                on("b", at(200, of(1, pod("y", 1_000, &[])))),
            ],
            evicted: vec!["y"],
            node: Some("b"),
        },
    ] {
        let mut world = World::new(Options::default());
        world.node("a", 1_000, 0);
        world.node("b", 1_000, 0);
        case.there.into_iter().for_each(|pod| world.add_pod(pod));
        world.add_pod(of(10, pod("p", 1_000, &[])));
        world.settle();
        world.pass(1_000);
        let mut left = evicted(&world);
        left.sort_unstable();
        assert_eq!(left, case.evicted, "{}", case.name);
        assert_eq!(world.node_of("p").as_deref(), case.node, "{}", case.name);
    }
}

#[test]
fn only_as_many_leave_as_must() {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 0);
    for (name, priority) in [("x", 3), ("y", 1), ("z", 2)] {
        world.add_pod(on("a", of(priority, pod(name, 300, &[]))));
    }
    world.add_pod(of(10, pod("p", 300, &[])));
    world.settle();
    assert_eq!(evicted(&world), ["y"], "the least important");
    world.pass(1_000);
    assert_eq!(world.node_of("p").as_deref(), Some("a"));
}

#[test]
fn a_pod_that_may_not_does_not() {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 0);
    world.add_pod(on("a", of(1, pod("x", 1_000, &[]))));
    let meek = of(10, pod("p", 1_000, &[]));
    world.add_pod(Pod { spec: Arc::new(PodSpec { preempts: false, ..PodSpec::clone(&meek.spec) }), ..meek });
    world.settle();
    assert_eq!(evicted(&world), [""; 0]);
    assert!(world.message_of("p").ends_with("preemption: not eligible due to preemptionPolicy=Never."));
}

#[test]
fn budgets_are_kept_if_they_can_be() {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 0);
    world.node("b", 1_000, 0);
    let labelled = |pod: Pod| Pod { labels: Arc::new([("app".into(), "web".into())].into()), ..pod };
    world.add_pod(on("a", labelled(of(1, pod("x", 1_000, &[])))));
    world.add_pod(on("b", of(5, pod("y", 1_000, &[]))));
    let requirement = Requirement { key: "app".into(), operator: Operator::Exists, values: vec![] };
    let budget = Budget {
        key: ObjectKey::new("ns", "budget"),
        selector: Some(LabelSelector { requirements: vec![requirement] }),
        allowed: 0,
        leaving: vec![],
    };
    world.tell(Input::Budget(Arc::new(budget)));
    world.add_pod(of(10, pod("p", 1_000, &[])));
    world.settle();
    assert_eq!(evicted(&world), ["y"], "although its priority is higher");
}

#[test]
fn room_that_was_made_is_kept() {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 0);
    world.add_pod(on("a", of(1, pod("x", 1_000, &[]))));
    world.add_pod(of(10, pod("p", 1_000, &[])));
    while let Some(effect) = world.scheduler.poll_effect() {
        world.perform(effect);
    }
    // The victim leaves, and a third one comes first.
    let news = std::mem::take(&mut world.news);
    world.add_pod(of(5, pod("thief", 1_000, &[])));
    news.into_iter().for_each(|input| world.tell(input));
    world.settle();
    world.pass(1_000);
    assert_eq!((world.node_of("p").as_deref(), world.node_of("thief")), (Some("a"), None));
}

#[test]
fn devices_are_freed_by_force_too() {
    let mut world = World::new(Options::default());
    world.node("a", 10_000, 2);
    for (name, priority) in [("low", 1), ("high", 5)] {
        world.add_claim(claim(&format!("c-{name}"), 1));
        world.add_pod(of(priority, pod(name, 100, &[&format!("c-{name}")])));
    }
    world.settle();
    world.add_claim(claim("c", 1));
    world.add_pod(of(10, pod("p", 100, &["c"])));
    world.settle();
    assert_eq!(evicted(&world), ["low"]);
    world.pass(1_000);
    assert_eq!(world.node_of("p").as_deref(), Some("a"), "{}", world.message_of("p"));
    assert!(world.node_of("high").is_some());
}
