//! Hardware that changes its name keeps its incident, and two devices with one identity are not taken for one.

use lazaret_lifecycle::{Effect, Input, Lifecycle, Presence, Signal, Source, Stage};

use crate::world::{MINUTE, World, at, device, policy};

/// gpu-0 is drained; gpu-7 is published with its identity.
fn twins() -> World {
    let mut world = World::new(policy());
    world.is_used(true);
    world.signal("xid", "79", false);
    world.presence("gpu-0", Presence::Published);
    world.publish("gpu-7", "uuid-0");
    world
}

#[test]
fn a_published_device_is_freed_only_by_its_own_recovery() {
    let mut world = twins();
    assert_eq!((world.taints_of("gpu-0"), world.taints_of("gpu-7")), (vec!["NoSchedule"], vec![]));
    let incident = world.recorded();
    assert_eq!((incident.device, incident.twin.as_deref()), (device("gpu-0"), Some(&device("gpu-7"))));
    let last = incident.timeline.last().unwrap();
    assert!(last.cause.contains("gpu-7") && last.cause.contains("uuid-0"), "{}", last.cause);
    let notes = incident.timeline.len();
    for _ in 0..3 {
        world.publish("gpu-7", "uuid-0");
        world.pass(MINUTE);
    }
    assert_eq!(world.recorded().timeline.len(), notes, "it is noted once");
}

#[test]
fn an_incident_follows_its_hardware_as_soon_as_the_old_name_is_not_published() {
    let mut world = twins();
    world.presence("gpu-0", Presence::Unpublished);
    assert_eq!((world.taints_of("gpu-0"), world.taints_of("gpu-7")), (vec![], vec!["NoSchedule"]));
    let incident = world.recorded();
    assert_eq!((incident.device, incident.twin), (device("gpu-7"), None));
    world.hear(Input::DeviceGone(device("gpu-0")));
    assert_eq!(world.machine.incidents().count(), 1);
}

#[test]
fn two_devices_with_one_identity_that_are_told_apart_again_leave_no_trace() {
    let mut world = twins();
    world.publish("gpu-7", "uuid-7");
    assert_eq!(world.recorded().twin, None);
    world.presence("gpu-0", Presence::Unpublished);
    assert_eq!((world.taints_of("gpu-0"), world.taints_of("gpu-7")), (vec!["NoSchedule"], vec![]));
}

#[test]
fn another_drivers_device_with_the_same_identity_is_other_hardware() {
    let mut world = World::new(policy());
    world.signal("xid", "79", false);
    let mut other = device("gpu-7");
    other.driver = "nic.example.com".into();
    world.hear(Input::Device { id: other, hardware: Some("uuid-0".into()), policies: vec!["p".into()] });
    assert_eq!(world.recorded().twin, None);
    world.presence("gpu-0", Presence::Unpublished);
    assert_eq!(world.recorded().device, device("gpu-0"));
}

/// A claim that selects by identity may get the other device: what passes there proves nothing.
#[test]
fn no_validation_begins_while_two_devices_have_one_identity() {
    let mut world = twins();
    world.is_used(false);
    world.effects.clear();
    world.repaired(0, 0, Ok(()));
    assert_eq!(world.stage(), Some(Stage::Probation));
    let validates = |world: &World| world.effects.iter().any(|one| matches!(one, Effect::Validate { .. }));
    assert!(!validates(&world));
    let incident = world.machine.incidents().next().unwrap();
    assert_eq!(world.machine.wanted(incident).task, None);
    assert!(incident.waits_for.contains("gpu-7"), "{}", incident.waits_for);
    world.hear(Input::DeviceGone(device("gpu-7")));
    assert!(validates(&world));
}

/// No controller led when the device got another name.
#[test]
fn a_new_leader_follows_hardware_that_was_renamed_before() {
    let mut world = World::new(policy());
    world.signal("xid", "79", false);
    let found = world.machine.incidents().next().unwrap().clone();
    let mut next =
        World { machine: Lifecycle::default(), now: world.now, effects: Vec::new(), is_used: true };
    next.hear(Input::Policy(Box::new(policy())));
    next.publish("gpu-7", "uuid-0");
    next.hear(Input::Found(Box::new(found)));
    assert_eq!(next.taints_of("gpu-7"), Vec::<&str>::new(), "it is not known yet that the old name is gone");
    next.presence("gpu-0", Presence::Unpublished);
    assert_eq!((next.taints_of("gpu-0"), next.taints_of("gpu-7")), (vec![], vec!["NoSchedule"]));
}

/// Other hardware is put in the place of the old: the incident goes on with what is there, or with the old one where that turns up.
#[test]
fn replaced_hardware_has_to_prove_that_it_is_well_itself() {
    let mut world = World::new(policy());
    world.is_used(false);
    world.signal("xid", "79", false);
    world.publish("gpu-0", "uuid-new");
    world.repaired(0, 0, Ok(()));
    let incident = world.recorded();
    assert_eq!((incident.stage, incident.hardware.as_deref()), (Stage::Probation, Some("uuid-new")));

    let mut world = World::new(policy());
    world.is_used(true);
    world.signal("xid", "79", false);
    world.publish("gpu-0", "uuid-new");
    world.publish("gpu-7", "uuid-0");
    assert_eq!((world.taints_of("gpu-0"), world.taints_of("gpu-7")), (vec![], vec!["NoSchedule"]));
}

/// The hardware has an incident under its new name already.
#[test]
fn of_two_incidents_of_one_hardware_one_is_closed_when_the_old_name_goes() {
    let mut world = twins();
    world.hear(Input::Raised(lazaret_lifecycle::Signal {
        device: device("gpu-7"),
        key: "hot".into(),
        value: "".into(),
        source: lazaret_lifecycle::Source::Taint,
        at: crate::world::at(world.now),
        lasts: true,
        message: "".into(),
    }));
    world.pass(3 * MINUTE);
    assert_eq!(world.machine.incidents().count(), 2);
    world.presence("gpu-0", Presence::Unpublished);
    let open: Vec<_> = world.machine.incidents().map(|one| (one.device.clone(), one.stage)).collect();
    assert_eq!(open, [(device("gpu-7"), Stage::Draining)]);
}

/// The name of an incident follows from the device that it was opened for, which has another incident later.
#[test]
fn no_incident_gets_the_name_of_one_that_has_passed_to_another_device() {
    let mut world = World::new(policy());
    world.signal("xid", "79", false);
    world.presence("gpu-0", Presence::Unpublished);
    world.publish("gpu-7", "uuid-0");
    let found = world.recorded();
    assert_eq!(found.device, device("gpu-7"));
    let mut next = World::new(policy());
    next.hear(Input::Begin);
    next.hear(Input::Found(Box::new(found.clone())));
    next.publish("gpu-0", "uuid-1");
    next.signal("xid", "79", false);
    let names: Vec<_> = next.machine.incidents().map(|one| one.name.clone()).collect();
    assert!(names.len() == 2 && names[0] != names[1], "{names:?}");
}

/// Both are ill: neither incident passes to the other, in whatever order their absence is seen.
#[test]
fn two_devices_of_one_identity_that_go_at_the_same_time_keep_their_incidents() {
    let mut world = twins();
    let raised = Signal {
        device: device("gpu-7"),
        key: "xid".into(),
        value: "79".into(),
        source: Source::Taint,
        at: at(world.now),
        lasts: true,
        message: "".into(),
    };
    world.hear(Input::Raised(raised));
    for name in ["gpu-0", "gpu-7"] {
        world.hear(Input::Left(device(name)));
    }
    for name in ["gpu-0", "gpu-7"] {
        world.presence(name, Presence::Unpublished);
    }
    let devices: Vec<_> = world.machine.incidents().map(|one| one.device.device.to_string()).collect();
    assert_eq!(devices, ["gpu-0", "gpu-7"]);
}
