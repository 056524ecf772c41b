//! Limits of guards on the devices that policies take out of service.

use lazaret_lifecycle::{
    Act, HeldReason, Input, Limit, Mode, Policy, Presence, Selected, Signal, Source, Stage,
};
use lazaret_model::Unit;

use crate::world::{MINUTE, World, at, device, policy};

/// A guard that permits as many of all devices to be out of service.
fn limit(permitted: u64, out: &[&str]) -> Vec<Limit> {
    vec![Limit {
        guard: "g".into(),
        selects: Selected::All,
        counts: "devices",
        window_seconds: 0,
        permitted: Some(permitted),
        total: 3,
        out: out.iter().map(|name| Unit::Device(device(name))).collect(),
        unnamed: 0,
        stops: None,
    }]
}

/// Three devices, and a signal that lasts on each.
fn three_ill(policy: Policy, limits: Vec<Limit>) -> World {
    let mut world = World::new(policy);
    world.hear(Input::Limits(limits));
    for name in ["gpu-1", "gpu-2"] {
        let (id, hardware) = (device(name), Some(name.into()));
        world.hear(Input::Device { id, hardware, policies: vec!["p".into()] });
    }
    for name in ["gpu-0", "gpu-1", "gpu-2"] {
        world.hear(Input::Raised(Signal {
            device: device(name),
            key: "xid".into(),
            value: "79".into(),
            source: Source::Taint,
            at: at(0),
            lasts: true,
            message: "".into(),
        }));
    }
    world
}

fn stages(world: &World) -> Vec<Stage> {
    let mut all: Vec<_> = world.machine.incidents().collect();
    all.sort_by(|one, other| one.device.cmp(&other.device));
    all.into_iter().map(|incident| incident.stage).collect()
}

#[test]
fn a_policy_that_would_quarantine_everything_is_held_with_the_reason() {
    let mut world = three_ill(policy(), limit(1, &[]));
    assert_eq!(stages(&world), [Stage::Draining, Stage::Suspect, Stage::Suspect]);
    let held = world.machine.incident_of(&device("gpu-2")).unwrap();
    assert_eq!(&*held.waits_for, "DisruptionGuard g: 1 of 3 devices out of service, 1 permitted");
    let why = held.held.clone().unwrap();
    assert_eq!((why.stage, why.reason, &*why.rule), (Stage::Draining, HeldReason::Breaker, "fatal"));
    world.pass(MINUTE);
    assert_eq!(stages(&world), [Stage::Draining, Stage::Suspect, Stage::Suspect], "it stays so");
    // Devices that others took out of service count, and a device that both took out counts once.
    world.hear(Input::Limits(limit(2, &["gpu-0"])));
    assert_eq!(stages(&world), [Stage::Draining, Stage::Draining, Stage::Suspect]);
    world.hear(Input::Limits(limit(2, &["gpu-0", "other"])));
    assert_eq!(stages(&world), [Stage::Draining, Stage::Draining, Stage::Suspect]);
    world.hear(Input::Limits(Vec::new()));
    assert_eq!(stages(&world), [Stage::Draining; 3]);
    assert!(world.machine.incidents().all(|incident| incident.held.is_none()));
}

#[test]
fn a_tripped_breaker_holds_what_begins_and_nothing_that_ends() {
    let tripped = |permitted| {
        let mut limits = limit(permitted, &[]);
        limits[0].stops = Some((HeldReason::Breaker, "tripped".into()));
        limits
    };
    let mut world = three_ill(policy(), limit(1, &[]));
    world.hear(Input::Limits(tripped(3)));
    assert_eq!(stages(&world), [Stage::Draining, Stage::Suspect, Stage::Suspect]);
    world.is_used(false);
    world.lower("xid");
    world.repaired(0, 0, Ok(()));
    let incident = world.number();
    world.hear(Input::Validated { incident, result: Ok(()) });
    world.pass(30 * MINUTE);
    assert!(world.machine.incident_of(&device("gpu-0")).is_none(), "it is well again");
    assert_eq!(stages(&world), [Stage::Suspect, Stage::Suspect]);
}

/// Outside of a guard's windows nothing begins; a person's word, and what ends an incident, goes on.
#[test]
fn outside_a_window_nothing_begins_and_it_goes_on_when_one_opens() {
    let closed = |permitted| {
        let mut limits = limit(permitted, &[]);
        limits[0].stops = Some((HeldReason::Window, "no window of DisruptionGuard g is open".into()));
        limits
    };
    let mut world = three_ill(policy(), closed(3));
    assert_eq!(stages(&world), [Stage::Suspect; 3]);
    let held = world.machine.incident_of(&device("gpu-1")).unwrap();
    assert_eq!(&*held.waits_for, "no window of DisruptionGuard g is open");
    assert_eq!(held.held.as_ref().unwrap().reason.name(), "Window");
    assert_eq!(HeldReason::from_name("Window"), Some(HeldReason::Window));
    world.hear(Input::Limits(limit(3, &[])));
    assert_eq!(stages(&world), [Stage::Draining; 3]);
    world.hear(Input::Limits(closed(3)));
    world.is_used(false);
    world.lower("xid");
    world.repaired(0, 0, Ok(()));
    let incident = world.number();
    world.hear(Input::Validated { incident, result: Ok(()) });
    world.pass(30 * MINUTE);
    assert!(world.machine.incident_of(&device("gpu-0")).is_none(), "it is well again");
}

#[test]
fn what_was_observed_is_enforced_as_far_as_guards_permit() {
    let observing = Policy { mode: Mode::Observe, ..policy() };
    let mut world = three_ill(observing, limit(1, &[]));
    assert_eq!(stages(&world), [Stage::Draining; 3], "observing takes nothing out of service");
    world.hear(Input::Policy(Box::new(policy())));
    let enforced = |world: &World| world.machine.incidents().filter(|incident| incident.is_enforced).count();
    assert_eq!((stages(&world), enforced(&world)), (vec![Stage::Draining; 3], 1));
    // Another machine goes by the same.
    let found: Vec<_> = world.machine.incidents().cloned().collect();
    let mut other = World::empty(world.now);
    other.hear(Input::Policy(Box::new(policy())));
    other.hear(Input::Limits(limit(1, &[])));
    for incident in found {
        other.hear(Input::Found(Box::new(incident)));
    }
    assert_eq!(enforced(&other), 1);
    other.hear(Input::Limits(limit(2, &[])));
    assert_eq!(enforced(&other), 2);
    other.hear(Input::Policy(Box::new(Policy { mode: Mode::Observe, ..policy() })));
    assert_eq!(enforced(&other), 0);
}

#[test]
fn a_node_is_counted_once_and_a_person_goes_on_whatever_a_guard_says() {
    let mut limits = limit(1, &[]);
    let node = |name: &str, node: &str| (device(name), Unit::Node(node.into()));
    let nodes = [node("gpu-0", "node-1"), node("gpu-1", "node-1"), node("gpu-2", "node-2")];
    (limits[0].selects, limits[0].counts) = (Selected::Units(nodes.into()), "nodes");
    let mut world = three_ill(policy(), limits);
    assert_eq!(stages(&world), [Stage::Draining, Stage::Draining, Stage::Suspect]);
    let incident = world.machine.incident_of(&device("gpu-2")).unwrap();
    assert_eq!(&*incident.waits_for, "DisruptionGuard g: 1 of 3 nodes out of service, 1 permitted");
    let (incident, at) = (incident.number, at(world.now));
    world.hear(Input::Person { incident, act: Act::Abandon, who: "jo".into(), why: "".into(), at });
    assert_eq!(stages(&world), [Stage::Draining, Stage::Draining, Stage::Abandoned]);
}

/// Two of three devices are in one fault domain: the second of them takes no more out of service.
#[test]
fn a_fault_domain_is_counted_once_whatever_is_out_of_service_in_it() {
    let mut limits = limit(1, &[]);
    let rack = |name: &str, rack: &str| (device(name), Unit::FaultDomain(rack.into()));
    let units = [rack("gpu-0", "r1"), rack("gpu-1", "r2"), rack("gpu-2", "r1")];
    (limits[0].selects, limits[0].counts) = (Selected::Units(units.into()), "fault domains");
    limits[0].total = 2;
    let world = three_ill(policy(), limits);
    assert_eq!(stages(&world), [Stage::Draining, Stage::Suspect, Stage::Draining]);
    let incident = world.machine.incident_of(&device("gpu-1")).unwrap();
    assert_eq!(&*incident.waits_for, "DisruptionGuard g: 1 of 2 fault domains out of service, 1 permitted");
}

/// The limits of a guard that selects by what is published, when its device has gone.
#[test]
fn what_a_guard_holds_is_held_while_nobody_publishes_its_device() {
    let mut limits = limit(0, &[]);
    let units = [(device("gpu-0"), Unit::FaultDomain("r1".into()))];
    limits[0].selects = Selected::Units(units.into());
    let mut blind = limits.clone();
    blind[0].selects = Selected::Units([].into());
    let mut world = World::new(policy());
    world.hear(Input::Limits(limits.clone()));
    world.signal("xid", "79", false);
    assert_eq!(world.stage(), Some(Stage::Suspect));
    world.hear(Input::Limits(blind.clone()));
    world.presence("gpu-0", Presence::Unpublished);
    world.pass(MINUTE);
    assert_eq!(world.stage(), Some(Stage::Suspect), "it is not asked about what it does not see");
    world.hear(Input::Limits(limits));
    world.presence("gpu-0", Presence::Published);
    world.pass(MINUTE);
    assert_eq!(world.stage(), Some(Stage::Suspect), "it still holds it");
    world.hear(Input::Limits(blind));
    world.pass(MINUTE);
    assert_eq!(world.stage(), Some(Stage::Draining), "it selects the device no more, which is published");
}

#[test]
fn a_guard_that_is_gone_holds_nothing_of_a_device_that_nobody_publishes() {
    let mut world = World::new(policy());
    world.hear(Input::Limits(limit(0, &[])));
    world.signal("xid", "79", false);
    world.presence("gpu-0", Presence::Unpublished);
    world.hear(Input::Limits(Vec::new()));
    assert_eq!(world.stage(), Some(Stage::Draining));
}
