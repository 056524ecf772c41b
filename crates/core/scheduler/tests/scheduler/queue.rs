//! The order of the queue, the events that pods wait for, and the pods that an event wakes.

use std::sync::Arc;

use lazaret_fleet as fleet;
use lazaret_scheduler::{EffectKind, Input, Node, Options, Pod, PodSpec};

use crate::world::{World, claim, node, pod, slice};

fn of(priority: i32, pod: Pod) -> Pod {
    Pod { spec: Arc::new(PodSpec { priority, ..PodSpec::clone(&pod.spec) }), ..pod }
}

fn bound(world: &World) -> Vec<String> {
    let name = |kind: &EffectKind| {
        let EffectKind::Bind(bind) = kind else { return None };
        Some(bind.pod.name.to_string())
    };
    world.log.iter().filter_map(name).collect()
}

#[test]
fn priority_first_then_who_came_first() {
    let mut world = World::new(Options::default());
    world.node("a", 10_000, 0);
    for (name, priority, after) in [("late", 0, 20), ("early", 0, 0), ("urgent", 5, 30)] {
        let start = world.now;
        world.now = start.plus_millis(after);
        world.add_pod(of(priority, pod(name, 100, &[])));
        world.now = start;
    }
    world.now = world.now.plus_millis(100);
    world.settle();
    assert_eq!(bound(&world), ["urgent", "early", "late"]);
}

#[test]
fn pods_of_others_and_gated_pods_are_left_alone() {
    let mut world = World::new(Options::default());
    world.node("a", 10_000, 0);
    let spec = |change: fn(&mut PodSpec), pod: Pod| {
        let mut spec = PodSpec::clone(&pod.spec);
        change(&mut spec);
        Pod { spec: Arc::new(spec), ..pod }
    };
    world.add_pod(spec(|spec| spec.scheduler = "another".into(), pod("x", 100, &[])));
    world.add_pod(spec(|spec| spec.gates = vec!["wait".into()], pod("y", 100, &[])));
    world.settle();
    assert_eq!((bound(&world).len(), world.scheduler.sizes().gated), (0, 1));
    world.add_pod(pod("y", 100, &[]));
    world.settle();
    assert_eq!(bound(&world), ["y"]);
}

/// Events, and whether a pod that waits is tried again at once.
#[test]
fn only_what_can_help_wakes_a_pod() {
    type Happening = fn(&mut World);
    let free_claim: Happening = |world| {
        world.change_claim("held", |claim| Arc::make_mut(&mut claim.claim).allocation = None);
    };
    let happenings: [(&str, Happening); 7] = [
        ("a pod leaves", |world| world.remove_pod("there")),
        ("a node grows", |world| world.tell(Input::Node(Arc::new(node("a", 1_001))))),
        ("a node comes", |world| world.tell(Input::Node(Arc::new(node("z", 1))))),
        ("a node is relabelled", |world| {
            let mut node = node("a", 1_000);
            Arc::make_mut(&mut node.facts).labels.insert("new".into(), "label".into());
            world.tell(Input::Node(Arc::new(node)));
        }),
        ("a slice grows", |world| {
            world.tell(Input::Fleet(fleet::Input::Slice(Arc::new(slice("a", 2)))));
        }),
        ("a claim is freed", free_claim),
        ("a pod is heard of again", |world| {
            let pod = world.pods[&lazaret_model::ObjectKey::new("ns", "p")].clone();
            world.tell(Input::Pod(Arc::new(pod)));
        }),
    ];
    for (waits_for, pod, woken_by) in [
        (
            "room",
            pod("p", 1_500, &[]),
            &["a pod leaves", "a node grows", "a node comes", "a slice grows", "a node is relabelled"][..],
        ),
        (
            "devices",
            pod("p", 1, &["c"]),
            &["a node comes", "a node is relabelled", "a slice grows", "a claim is freed"],
        ),
        ("its claim", pod("p", 1, &["missing"]), &["a node comes", "a node is relabelled"]),
    ] {
        for (happening, happen) in happenings {
            let mut world = World::new(Options { preemption: false, ..Options::default() });
            world.tell(Input::Node(Arc::new(Node { pods_max: 10, ..node("a", 1_000) })));
            world.tell(Input::Fleet(fleet::Input::Slice(Arc::new(slice("a", 1)))));
            world.add_claim(claim("held", 1));
            world.add_pod(self::pod("there", 500, &["held"]));
            world.settle();
            world.add_claim(claim("c", 2));
            world.add_pod(pod.clone());
            world.settle();
            world.now = world.now.plus_millis(20_000);
            let before = world.scheduler.decisions();
            happen(&mut world);
            world.news.drain(..).collect::<Vec<_>>().into_iter().for_each(|input| world.tell(input));
            while world.scheduler.poll_effect().is_some() {}
            let woken = world.scheduler.decisions() > before;
            // Removing the pod that is there frees its claim as well.
            let by_claim = happening == "a pod leaves" && waits_for == "devices";
            assert_eq!(
                woken,
                woken_by.contains(&happening) || by_claim,
                "waits for {waits_for}: {happening}"
            );
        }
    }
}

#[test]
fn pauses_double_up_to_ten_seconds_and_the_patient_are_tried_after_five_minutes() {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 0);
    world.add_pod(pod("filler", 1_000, &[]));
    world.settle();
    world.add_pod(pod("p", 1_000, &[]));
    world.settle();
    let flush = world.scheduler.next_wake().unwrap();
    assert_eq!(flush.at.millis_since(world.now), 300_000);
    world.pass(299_999);
    let before = world.scheduler.decisions();
    world.pass(1);
    assert_eq!(world.scheduler.decisions(), before + 1);
}

#[test]
fn what_is_said_already_is_not_said_again() {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 0);
    world.add_pod(pod("p", 2_000, &[]));
    world.settle();
    let said = world.log.len();
    assert_eq!(said, 2, "an event and a condition");
    for _ in 0..5 {
        world.pass(300_000);
    }
    assert_eq!(world.log.len(), said);
    assert!(world.scheduler.decisions() >= 5);
}
