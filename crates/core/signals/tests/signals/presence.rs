//! Devices of open incidents that are published under another name, twice, or not at all.

use std::sync::Arc;

use lazaret_lifecycle::{Input as CoreInput, Presence, Signal, Source};
use lazaret_model::{AttrValue, Device, DeviceId, ResourceSlice};

use super::{DRIVER, NODE, World, slice};

/// A slice whose devices have this identity each.
fn identified(name: &str, devices: &[(&str, &str)]) -> Arc<ResourceSlice> {
    let names: Vec<&str> = devices.iter().map(|(name, _)| *name).collect();
    let mut slice = ResourceSlice::clone(&slice(name, (1, 1), &names));
    let uuid = |uuid: &str| vec![("uuid".into(), AttrValue::String(uuid.into()))];
    let device = |(name, of): &(&str, &str)| Device {
        name: (*name).into(),
        attributes: uuid(of).into_iter().collect(),
        ..Device::default()
    };
    slice.devices = devices.iter().map(device).collect();
    Arc::new(slice)
}

/// It leads, and gpu-0 has an incident.
fn ill() -> World {
    let mut world = World::new("hot");
    world.node(NODE);
    world.publish(identified("a", &[("gpu-0", "uuid-0")]));
    world.told(0);
    world.lead(Vec::new());
    world.told(0);
    let now = world.time();
    world.lifecycle.handle(
        now,
        CoreInput::Raised(Signal {
            device: DeviceId::new(DRIVER, NODE, "gpu-0"),
            key: "hot".into(),
            value: "".into(),
            source: Source::Person,
            at: now,
            lasts: false,
            message: "".into(),
        }),
    );
    world.told(0);
    assert_eq!(devices(&world), ["gpu-0"]);
    world
}

fn devices(world: &World) -> Vec<String> {
    world.incidents().iter().map(|one| one.device.device.to_string()).collect()
}

#[test]
fn an_incident_follows_a_device_that_gets_another_name_in_one_update() {
    let mut world = ill();
    world.publish(identified("a", &[("gpu-9", "uuid-0")]));
    world.told(0);
    assert_eq!(devices(&world), ["gpu-9"]);
    assert_eq!(world.incidents()[0].timeline.len(), 2, "two published devices were never seen");
}

#[test]
fn a_second_device_with_the_same_identity_takes_no_incident_over() {
    let mut world = ill();
    world.publish(identified("a", &[("gpu-0", "uuid-0"), ("gpu-9", "uuid-0")]));
    world.told(0);
    assert_eq!(devices(&world), ["gpu-0"]);
    let twin = world.incidents()[0].twin.as_ref().map(|twin| twin.device.to_string());
    assert_eq!(twin.as_deref(), Some("gpu-9"));
    world.publish(identified("a", &[("gpu-9", "uuid-0")]));
    world.told(0);
    assert_eq!(devices(&world), ["gpu-9"]);
}

#[test]
fn what_is_gone_with_its_node_is_an_input_once_and_so_is_its_return() {
    let mut world = ill();
    let presences = |world: &mut World| -> Vec<Presence> {
        let now = world.time();
        let told = world.levels.settle(now, &world.fleet, &world.lifecycle);
        let told = told.into_iter().filter_map(|heard| {
            let presence =
                if let CoreInput::Presence { presence, .. } = &heard { Some(*presence) } else { None };
            world.lifecycle.handle(now, heard);
            presence
        });
        told.collect()
    };
    world.withdraw("a");
    assert_eq!(presences(&mut world), [Presence::Unpublished]);
    world.levels.node_gone(&NODE.into());
    assert_eq!(presences(&mut world), [Presence::Gone]);
    assert!(world.incidents()[0].gone_since.is_some());
    assert_eq!(presences(&mut world), []);
    world.node(NODE);
    world.publish(identified("a", &[("gpu-0", "uuid-0")]));
    assert_eq!(presences(&mut world), [Presence::Published]);
    assert_eq!(world.incidents()[0].gone_since, None);
}

#[test]
fn a_new_leader_looks_at_the_devices_of_the_incidents_that_it_finds() {
    let mut world = ill();
    let found = world.incidents();
    world.withdraw("a");
    let mut next = world.beside();
    next.lead(found);
    next.told(0);
    assert!(next.incidents()[0].gone_since.is_some(), "neither a slice nor a node of it is known");
}

#[test]
fn an_incident_passes_to_no_device_that_goes_at_the_same_time() {
    let mut world = ill();
    world.publish(identified("a", &[("gpu-0", "uuid-0"), ("gpu-9", "uuid-0")]));
    world.told(0);
    world.withdraw("a");
    world.told(0);
    assert_eq!(devices(&world), ["gpu-0"]);
}
