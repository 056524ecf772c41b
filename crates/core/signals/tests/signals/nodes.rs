//! Conditions of nodes, told of the devices on them, and devices that come, go and are selected or not.

use lazaret_model::{AttrValue, DeviceHealth, ObjectKey, PoolSpec, Taint};
use lazaret_signals::{Condition, PUBLISHED_KEY};

use super::{absent::claim, *};

const KEY: &str = "Ready";
const ILL: &str = "gpu-0 False: node condition Ready is False: Gone";
const WELL: &str = "gpu-0 is over";

fn ready(world: &mut World, node: &str, status: &str) {
    let condition = Condition { kind: KEY, status, reason: "Gone" };
    world.levels.node(&node.into(), std::iter::once(condition));
}

/// A node that is not ready, and has a device.
fn ill() -> World {
    let mut world = World::new(KEY);
    ready(&mut world, NODE, "False");
    world.told(0);
    world.publish(slice("a", (1, 1), &["gpu-0"]));
    assert_eq!(world.told(0), [ILL]);
    assert_eq!(world.incidents().len(), 1);
    world
}

#[test]
fn a_condition_is_over_for_a_device_that_goes_with_its_node_in_whatever_order() {
    for order in ["node", "slice", "both"] {
        let mut world = ill();
        let mut told = Vec::new();
        if order == "slice" {
            world.withdraw("a");
            told.extend(world.told(0));
        }
        world.levels.node_gone(&NODE.into());
        if order == "node" {
            told.extend(world.told(0));
        }
        if order != "slice" {
            world.withdraw("a");
        }
        told.extend(world.told(0));
        assert_eq!(told, [WELL], "first {order}");
    }
}

#[test]
fn a_condition_is_over_for_a_device_that_is_not_published_any_more() {
    for changes in [false, true] {
        let mut world = ill();
        world.publish(slice("a", (1, 1), &["gpu-1"]));
        if changes {
            world.levels.node(&NODE.into(), std::iter::empty());
        }
        let told = world.told(0);
        assert!(told.contains(&WELL.to_owned()), "{told:?}");
    }
}

#[test]
fn a_device_has_the_conditions_of_the_node_that_its_slice_has_come_to() {
    let mut world = ill();
    ready(&mut world, "node-2", "Unknown");
    world.told(0);
    let moved = ResourceSlice {
        nodes: NodeScope::Node("node-2".into()),
        ..ResourceSlice::clone(&slice("a", (1, 1), &["gpu-0"]))
    };
    world.publish(Arc::new(moved.clone()));
    assert_eq!(world.told(0), ["gpu-0 Unknown: node condition Ready is Unknown: Gone"]);
    world.publish(Arc::new(ResourceSlice { nodes: NodeScope::All, ..moved }));
    assert_eq!(world.told(0), [WELL]);
}

#[test]
fn a_slice_of_another_pool_that_has_the_name_of_one_does_not_hide_that_this_is_gone() {
    let mut world = World::new(PUBLISHED_KEY);
    world.node(NODE);
    world.publish(slice("a", (1, 1), &["gpu-0"]));
    assert_eq!(world.told(0), NONE);
    let other = ResourceSlice {
        pool: PoolSpec { name: "node-2".into(), generation: 1, slice_count: 1 },
        ..ResourceSlice::clone(&slice("a", (1, 1), &["gpu-0"]))
    };
    world.publish(Arc::new(other));
    assert_eq!(world.told(0), ["gpu-0 False: the driver does not publish it any more"]);
}

/// A device of this model. The policy selects good ones.
fn model(name: &str) -> Arc<ResourceSlice> {
    let mut slice = ResourceSlice::clone(&slice("a", (1, 1), &["gpu-0"]));
    let text = |text: &str| AttrValue::String(text.into());
    slice.devices[0].attributes = vec![("model".into(), text(name)), ("serial".into(), text("7"))];
    slice.devices[0].taints = vec![Taint { key: "trouble".into(), ..Taint::default() }];
    Arc::new(slice)
}

fn selecting(key: &'static str) -> World {
    let mut world = World::new(key);
    let expression = format!("device.attributes[\"{DRIVER}\"].model == \"good\"");
    let selector = DeviceSelector { cel: vec![expression.into()], ..DeviceSelector::default() };
    world.fleet.apply(Told::Rule(Arc::new(selection("p".into(), 2, selector))));
    ready(&mut world, NODE, "False");
    assert_eq!(world.told(0), NONE);
    world
}

#[test]
fn a_device_that_becomes_selected_has_all_its_signals() {
    for key in [KEY, "trouble", "gpu.example.com/serial"] {
        let mut world = selecting(key);
        world.publish(model("bad"));
        world.told(0);
        world.publish(model("good"));
        assert_eq!(world.told(0).len(), 1, "{key}");
        assert_eq!(world.incidents().len(), 1, "{key}");
    }
}

#[test]
fn a_device_that_is_not_selected_any_more_has_no_signal_left() {
    for key in [KEY, "trouble", "gpu.example.com/serial"] {
        let mut world = selecting(key);
        world.publish(model("good"));
        assert_eq!(world.told(0).len(), 1, "{key}");
        world.publish(model("bad"));
        assert_eq!(world.told(0), [WELL], "{key}");
        ready(&mut world, NODE, "Unknown");
        assert_eq!(world.told(0), NONE, "{key}");
        world.publish(model("good"));
        assert_eq!(world.told(0).len(), 1, "{key} is raised again");
    }
}

fn unhealthy(world: &mut World) {
    let health = DeviceHealth {
        claim: "c".into(),
        request: None,
        resource: "gpu-0".into(),
        health: "Unhealthy".into(),
        message: Text::default(),
    };
    world.levels.pod(&ObjectKey::new("default", "pod"), vec![health]);
}

#[test]
fn health_is_told_whether_pod_claim_or_device_come_first() {
    let order = ["pod", "claim", "slice"];
    for first in 0..3 {
        for second in (0..3).filter(|second| *second != first) {
            let mut world = World::new("health");
            let mut told = Vec::new();
            for what in [first, second, 3 - first - second] {
                match order[what] {
                    "pod" => unhealthy(&mut world),
                    "claim" => world.claim(claim("gpu-0")),
                    _ => world.publish(slice("a", (1, 1), &["gpu-0"])),
                }
                told = world.told(0);
            }
            assert_eq!(world.incidents().len(), 1, "{} and {}: {told:?}", order[first], order[second]);
            assert_eq!(world.told(0), NONE, "once");
        }
    }
}

#[test]
fn a_device_that_comes_back_with_its_node_is_as_unhealthy_as_before() {
    let mut world = World::new("health");
    world.node(NODE);
    world.claim(claim("gpu-0"));
    world.publish(slice("a", (1, 1), &["gpu-0"]));
    unhealthy(&mut world);
    assert_eq!(world.told(0), ["gpu-0 Unhealthy: pod default/pod reports Unhealthy"]);
    world.levels.node_gone(&NODE.into());
    world.withdraw("a");
    world.told(0);
    world.node(NODE);
    world.publish(slice("a", (1, 1), &["gpu-0"]));
    assert_eq!(world.told(0), ["gpu-0 Unhealthy: pod default/pod reports Unhealthy"]);
}

/// A stolen certificate of a node publishes a device of another: the conditions of that node are not those of the device, and the device does not
/// vanish with the forged slice.
#[test]
fn a_device_has_the_conditions_of_its_own_node_alone() {
    let mut world = World::new(KEY);
    ready(&mut world, NODE, "True");
    world.publish(slice("a", (1, 1), &["gpu-0"]));
    world.told(0);
    ready(&mut world, "node-2", "False");
    world.publish(forged((9, 1), &["gpu-0"]));
    assert_eq!(world.told(0), NONE);
    ready(&mut world, "node-2", "Unknown");
    assert_eq!(world.told(0), NONE);
    world.withdraw("forged");
    assert_eq!(world.told(0), NONE);
    ready(&mut world, NODE, "False");
    assert_eq!(world.told(0), [ILL]);
}
