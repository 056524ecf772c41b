//! Pools that stay incomplete.

use lazaret_lifecycle::{INCOMPLETE_MS, Incident};
use lazaret_signals::POOL_COMPLETE_KEY;

use super::{NODE, NONE, World, forged, slice};

/// Another controller, which leads at once.
fn restarted(world: World, incidents: Vec<Incident>) -> World {
    let mut world = world.beside();
    world.lead(incidents);
    world
}

#[test]
fn a_pool_that_stays_incomplete_is_told_of_each_of_its_devices_until_it_is_complete() {
    let mut world = World::new(POOL_COMPLETE_KEY);
    world.publish(slice("a", (1, 1), &["gpu-0"]));
    assert_eq!(world.told(0), NONE);
    world.publish(slice("a", (2, 2), &["gpu-0", "gpu-1"]));
    assert_eq!(world.told(0), NONE);
    let due = world.levels.wake().unwrap();
    assert_eq!(due.as_millis(), world.now + INCOMPLETE_MS);
    assert_eq!(world.told(INCOMPLETE_MS - 1), NONE);
    let message = "False: pool gpu.example.com/node-1 has 1 of 2 slices of generation 2";
    assert_eq!(world.told(1), [format!("gpu-0 {message}"), format!("gpu-1 {message}")]);
    assert_eq!(world.told(INCOMPLETE_MS), NONE, "once");
    assert_eq!(world.lifecycle.incidents().count(), 2);
    world.publish(slice("b", (2, 2), &["gpu-2"]));
    assert_eq!(world.told(0), ["gpu-0 is over", "gpu-1 is over", "gpu-2 is over"]);
    assert_eq!(world.levels.wake(), None);
}

#[test]
fn an_update_is_no_trouble_and_a_pool_that_is_gone_is_not_incomplete() {
    let mut world = World::new(POOL_COMPLETE_KEY);
    world.node(NODE);
    world.publish(slice("a", (1, 1), &["gpu-0"]));
    world.told(0);
    for generation in 2..5 {
        world.publish(slice("a", (generation, 2), &["gpu-0"]));
        assert_eq!(world.told(INCOMPLETE_MS / 2), NONE);
        world.publish(slice("b", (generation, 2), &["gpu-1"]));
        assert_eq!(world.told(INCOMPLETE_MS), NONE);
    }
    world.withdraw("b");
    assert_eq!(world.told(0), NONE);
    assert_eq!(world.told(INCOMPLETE_MS).len(), 2, "also of the device that is not published any more");
    world.withdraw("a");
    assert_eq!(world.told(0), ["gpu-0 is over", "gpu-1 is over"]);
    assert_eq!(world.told(10 * INCOMPLETE_MS), NONE);
}

#[test]
fn a_restart_waits_anew_and_an_incident_about_it_goes_on() {
    let mut world = World::new(POOL_COMPLETE_KEY);
    world.publish(slice("a", (2, 2), &["gpu-0"]));
    world.told(0);
    assert_eq!(world.told(INCOMPLETE_MS - 1), NONE);
    let mut world = restarted(world, Vec::new());
    assert_eq!(world.told(INCOMPLETE_MS - 1), NONE, "the time is counted anew");
    assert_eq!(world.told(1).len(), 1);
    let incidents = world.incidents();
    assert_eq!(incidents.len(), 1);
    let mut world = restarted(world, incidents);
    assert_eq!(world.told(0).len(), 1, "its incident is about it");
}

#[test]
fn a_device_that_a_new_leader_finds_missing_has_the_signal_of_its_pool() {
    let mut world = World::new(POOL_COMPLETE_KEY);
    world.publish(slice("a", (2, 2), &["gpu-0", "gpu-1"]));
    world.told(0);
    assert_eq!(world.told(INCOMPLETE_MS).len(), 2);
    let is_lost = |one: &&Incident| &*one.device.device == "gpu-1";
    let incidents: Vec<Incident> = world.lifecycle.incidents().filter(is_lost).cloned().collect();
    world.publish(slice("a", (2, 2), &["gpu-0"]));
    let mut world = world.beside();
    world.node(NODE);
    assert_eq!(
        world.told(INCOMPLETE_MS).len(),
        1,
        "a controller that does not lead knows published devices alone"
    );
    world.lead(incidents);
    let message = "False: pool gpu.example.com/node-1 has 1 of 2 slices of generation 2";
    assert_eq!(world.told(0), [format!("gpu-1 {message}")]);
    world.publish(slice("b", (2, 2), &["gpu-1"]));
    assert_eq!(world.told(0), ["gpu-0 is over", "gpu-1 is over"]);
}

/// The device comes back with its node, and its incident goes on: the signal must not.
#[test]
fn the_signal_of_a_pool_is_over_when_it_goes_with_its_node() {
    let mut world = World::new(POOL_COMPLETE_KEY);
    world.node(NODE);
    world.publish(slice("a", (2, 2), &["gpu-0", "gpu-1"]));
    world.told(0);
    assert_eq!(world.told(INCOMPLETE_MS).len(), 2);
    world.publish(slice("a", (2, 2), &["gpu-0"]));
    assert_eq!(world.told(0), NONE);
    world.levels.node_gone(&NODE.into());
    assert_eq!(world.told(0), ["gpu-1 is over"], "it was missed, and goes with its node");
    world.withdraw("a");
    assert_eq!(world.told(0), ["gpu-0 is over"]);
}

/// A stolen certificate of a node publishes devices in the pool of another, in a newer generation of which slices are missing.
#[test]
fn a_slice_of_another_node_makes_no_pool_incomplete() {
    let mut world = World::new(POOL_COMPLETE_KEY);
    world.node(NODE);
    world.node("node-2");
    world.publish(slice("a", (1, 1), &["gpu-0"]));
    assert_eq!(world.told(0), NONE);
    world.publish(forged((9, 7), &["gpu-0"]));
    world.told(0);
    assert_eq!(world.told(2 * INCOMPLETE_MS), NONE);
    world.withdraw("forged");
    world.told(0);
    world.publish(slice("a", (2, 2), &["gpu-0"]));
    world.told(0);
    assert_eq!(world.told(2 * INCOMPLETE_MS).len(), 1, "its own slices are missing");
}

/// The same, in a newer generation that is complete by itself, and in the place of the slice that is missing.
#[test]
fn a_slice_of_another_node_does_not_hide_that_a_pool_is_incomplete() {
    let mut world = World::new(POOL_COMPLETE_KEY);
    world.node(NODE);
    world.node("node-2");
    world.publish(slice("a", (2, 2), &["gpu-0"]));
    assert_eq!(world.told(0), NONE);
    world.publish(forged((9, 1), &[]));
    world.told(0);
    assert_eq!(world.told(INCOMPLETE_MS).len(), 1, "a slice of its own is missing");
    for generation in [(10, 1), (2, 2)] {
        world.publish(forged(generation, &[]));
        assert_eq!(world.told(INCOMPLETE_MS), NONE, "it is not over: {generation:?}");
    }
}
