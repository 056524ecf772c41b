//! Containers whose limits are changed while they run.

use lazaret_pods::{Amounts, ConditionKind, ContainerView, Input, Kind, PodView, Resources, Restart};

use crate::world::{ActionResult, World, container, pod};

fn sized(uid: &str, cpu_milli: u64, memory: u64) -> PodView {
    let requests = Amounts { cpu_milli, memory, ephemeral_storage: 0 };
    let resources = Resources { requests, limits: requests };
    let container = ContainerView { resources, restarts_on_memory: true, ..container("c", Kind::Main) };
    PodView { requests, ..pod(uid, vec![container], Restart::Always) }
}

fn change(world: &mut World, view: PodView) {
    world.api.insert(view.pod.uid.clone(), view.clone());
    world.give(Input::Pod(view));
}

/// Its resize condition: the type, the reason and the message.
fn condition(world: &World, uid: &str) -> Option<(ConditionKind, Option<&'static str>, String)> {
    let mut all = world.statuses[uid].conditions.iter();
    let found = all.find(|one| ConditionKind::TRANSIENT.contains(&one.kind))?;
    assert!(found.is_true);
    Some((found.kind, found.reason, found.message.clone().unwrap_or_default()))
}

fn has(world: &World, uid: &str) -> (u64, u64) {
    let resources = world.statuses[uid].main[0].resources.unwrap();
    (resources.limits.cpu_milli, resources.limits.memory)
}

#[test]
fn a_container_gets_other_limits_without_being_started_again() {
    let mut world = World::new();
    world.add(sized("a", 500, 100));
    world.pass(1_000);
    change(&mut world, sized("a", 700, 100));
    world.pass(1_000);
    assert_eq!((has(&world, "a"), world.resizes.len(), world.starts.len()), ((700, 100), 1, 1));
    assert_eq!(condition(&world, "a"), None);
    assert_eq!(world.said("ResizeCompleted"), 1);
    world.pass(100_000);
    assert_eq!(world.resizes.len(), 1, "once");
    // Another agent knows what it has by its status.
    world.restart();
    world.pass(1_000);
    assert_eq!(world.resizes.len(), 1);
    change(&mut world, sized("a", 800, 100));
    world.restart();
    world.pass(1_000);
    assert_eq!((has(&world, "a"), world.resizes.len(), world.starts.len()), ((800, 100), 2, 1));
}

#[test]
fn a_container_is_started_again_where_its_policy_wants_it() {
    let mut world = World::new();
    world.add(sized("a", 500, 100));
    world.pass(1_000);
    change(&mut world, sized("a", 500, 200));
    world.pass(10_000);
    assert_eq!((has(&world, "a"), world.resizes.len(), world.starts.len()), ((500, 200), 0, 2));
    let why = "Container c resize requires restart";
    assert!(world.events.iter().any(|(reason, message)| *reason == "Killing" && message == why));
}

#[test]
fn a_resize_waits_for_room() {
    let mut world = World::new();
    world.add(sized("a", 2_000, 100));
    world.add(sized("b", 1_000, 100));
    world.pass(1_000);
    change(&mut world, sized("a", 3_500, 100));
    world.pass(60_000);
    let message = "Node didn't have enough resource: cpu, requested: 3500, used: 1000, capacity: 4000";
    let expected = (ConditionKind::PodResizePending, Some("Deferred"), message.to_owned());
    assert_eq!(condition(&world, "a"), Some(expected));
    assert_eq!((has(&world, "a"), world.resizes.len()), ((2_000, 100), 0));
    let allocated = world.statuses["a"].main[0].allocated.requests.cpu_milli;
    assert_eq!((allocated, world.said("ResizeDeferred")), (2_000, 1));
    world.delete("b", 1);
    world.pass(20_000);
    assert_eq!((has(&world, "a"), condition(&world, "a")), ((3_500, 100), None));
}

#[test]
fn a_resize_that_fails_says_so_and_is_tried_again() {
    let mut world = World::new();
    world.add(sized("a", 500, 100));
    world.pass(1_000);
    change(&mut world, sized("a", 700, 100));
    world.perform(0, ActionResult::Fails);
    world.pass(700);
    let expected = (ConditionKind::PodResizeInProgress, Some("Error"), "bad luck".to_owned());
    assert_eq!(condition(&world, "a"), Some(expected));
    world.pass(5_000);
    assert_eq!((has(&world, "a"), condition(&world, "a")), ((700, 100), None));
}
