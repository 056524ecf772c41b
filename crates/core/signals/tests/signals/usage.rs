//! The usage of devices with open incidents.

use lazaret_model::{AttrValue, Taint};

use super::{absent::claim, *};

const KEY: &str = "example.com/ecc";

/// Devices with the identity of their hardware. One is ill.
pub(super) fn publish(world: &mut World, devices: &[(&str, &str)], ill: &str) {
    let names: Vec<&str> = devices.iter().map(|(name, _)| *name).collect();
    let mut slice = ResourceSlice::clone(&slice("a", (1, 1), &names));
    for (device, (_, hardware)) in slice.devices.iter_mut().zip(devices) {
        device.attributes = vec![("uuid".into(), AttrValue::String((*hardware).into()))];
        let taint = Taint { key: KEY.into(), ..Taint::default() };
        device.taints.extend((*hardware == ill).then_some(taint));
    }
    world.publish(Arc::new(slice));
    world.told(0);
}

fn hold(world: &mut World, device: &str) {
    world.claim(claim(device));
    let changes = world.fleet.take_changes();
    world.usage.changed(&changes);
}

/// The usage that is news to the machine.
fn used(world: &mut World) -> Vec<String> {
    let told = world.usage.settle(&world.fleet, &world.lifecycle);
    let lines = told.iter().map(|heard| match heard {
        CoreInput::InUse { device, namespaces, .. } => format!("{} by {namespaces:?}", device.device),
        other => panic!("{other:?}"),
    });
    lines.collect()
}

#[test]
fn usage_is_told_of_devices_with_incidents_when_it_changes() {
    let mut world = World::new(KEY);
    hold(&mut world, "gpu-0");
    publish(&mut world, &[("gpu-0", "A"), ("gpu-1", "B")], "none");
    assert_eq!(used(&mut world), NONE);
    publish(&mut world, &[("gpu-0", "A"), ("gpu-1", "B")], "A");
    assert_eq!(used(&mut world), [r#"gpu-0 by ["default"]"#]);
    assert_eq!(used(&mut world), NONE);
    hold(&mut world, "gpu-1");
    assert_eq!(used(&mut world), ["gpu-0 by []"]);
}

#[test]
fn usage_is_told_of_the_device_that_an_incident_has_moved_to() {
    let mut world = World::new(KEY);
    hold(&mut world, "gpu-1");
    publish(&mut world, &[("gpu-0", "A"), ("gpu-1", "B")], "A");
    assert_eq!(used(&mut world), ["gpu-0 by []"]);
    publish(&mut world, &[("gpu-0", "B"), ("gpu-1", "A")], "A");
    assert_eq!(used(&mut world), [r#"gpu-1 by ["default"]"#], "the hardware was swapped");
}

/// The device was dropped with its first incident, while no policy selected it.
#[test]
fn usage_is_told_again_of_a_device_with_another_incident() {
    let mut world = World::new(KEY);
    publish(&mut world, &[("gpu-0", "A")], "A");
    assert_eq!(used(&mut world), ["gpu-0 by []"]);
    let now = lazaret_model::Timestamp::EPOCH;
    let incident = world.lifecycle.incidents().next().unwrap().number;
    world.lifecycle.handle(now, CoreInput::Forgotten { incident });
    world.levels.tell_all();
    world.told(0);
    assert_eq!(world.incidents().len(), 1);
    assert_eq!(used(&mut world), ["gpu-0 by []"]);
}
