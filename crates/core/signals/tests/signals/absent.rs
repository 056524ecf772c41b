//! Devices that are not published, though their node is there.

use std::sync::Arc;

use lazaret_fleet::Input as Told;
use lazaret_lifecycle::{Incident, Input as CoreInput, Policy};
use lazaret_model::{
    Allocation, ClaimSource, Consumer, DeviceId, DeviceResult, ObjectKey, Pod, PodClaim, PodPhase,
    ResourceClaim, Text,
};
use lazaret_signals::{PUBLISHED_KEY, VANISHED_MAX};

use super::{DRIVER, NODE, NONE, World, slice};

const GONE: &str = "gpu-1 False: the driver does not publish it any more";
const BACK: &str = "gpu-1 is over";

/// A claim that holds a device of the node's pool.
pub(super) fn claim(device: &str) -> Arc<ResourceClaim> {
    claim_in(NODE, device)
}

fn claim_in(pool: &str, device: &str) -> Arc<ResourceClaim> {
    let result = DeviceResult {
        request: "gpu".into(),
        device: DeviceId::new(DRIVER, pool, device),
        admin_access: false,
        tolerations: Vec::new(),
        binding_conditions: Vec::new(),
        binding_failure_conditions: Vec::new(),
        share_id: None,
        consumed_capacity: Vec::new(),
        skip_node_operations: Vec::new(),
    };
    let allocation =
        Allocation { results: vec![result], config: Vec::new(), node_selector: None, timestamp: None };
    Arc::new(ResourceClaim {
        key: ObjectKey::new("default", "c"),
        uid: "uid-c".into(),
        owner: None,
        deleting: false,
        extended_resource: false,
        spec: Arc::default(),
        allocation: Some(Arc::new(allocation)),
        reserved_for: Vec::new(),
        last_published: Vec::new(),
    })
}

/// A pod on this node that uses the claim.
fn pod(name: &str, node: &str) -> Arc<Pod> {
    let claim = PodClaim { name: "c".into(), source: ClaimSource::Claim("c".into()) };
    Arc::new(Pod {
        key: ObjectKey::new("default", name),
        uid: format!("uid-{name}").into(),
        node: Some(node.into()),
        phase: PodPhase::Running,
        claims: vec![claim],
        ..Pod::default()
    })
}

/// A controller that has heard of the node, if it is there, and of these devices of its pool; it does not lead yet.
fn world(devices: &[&str], has_node: bool) -> World {
    let mut world = World::new(PUBLISHED_KEY);
    if has_node {
        world.node(NODE);
    }
    world.publish(slice("a", (1, 1), devices));
    world.told(0);
    world
}

#[test]
fn a_device_that_a_claim_holds_is_missed_when_a_controller_begins_and_found_again_when_it_is_back() {
    let mut world = world(&["gpu-0"], true);
    world.claim(claim("gpu-1"));
    world.lead(Vec::new());
    assert_eq!(world.told(0), [GONE]);
    assert_eq!(world.incidents().len(), 1);
    assert_eq!(world.told(0), NONE, "once");
    world.levels.tell_all();
    assert_eq!(world.told(0), [GONE], "a policy that has changed hears of it again");
    world.publish(slice("a", (1, 1), &["gpu-0", "gpu-1"]));
    assert_eq!(world.told(0), [BACK]);
}

#[test]
fn where_the_node_is_gone_or_the_device_is_there_nothing_is_missed() {
    let mut without_node = world(&["gpu-0"], false);
    without_node.claim(claim("gpu-1"));
    without_node.lead(Vec::new());
    assert_eq!(without_node.told(0), NONE, "a device goes with its node");
    let mut world = world(&["gpu-0"], true);
    world.claim(claim("gpu-0"));
    world.lead(Vec::new());
    assert_eq!(world.told(0), NONE);
}

#[test]
fn a_device_with_an_open_incident_is_missed_too() {
    let mut before = world(&["gpu-0", "gpu-1"], true);
    before.publish(slice("a", (1, 1), &["gpu-0"]));
    assert_eq!(before.told(0), [GONE]);
    let mut world = world(&["gpu-0"], true);
    world.lead(before.incidents());
    assert_eq!(world.told(0), [GONE]);
    assert_eq!(world.incidents().len(), 1, "it is the same incident");
}

#[test]
fn a_device_that_went_with_its_node_is_missed_when_the_node_comes_back_without_it() {
    let mut world = world(&["gpu-0", "gpu-1"], true);
    world.claim(claim("gpu-1"));
    world.lead(Vec::new());
    world.told(0);
    world.publish(slice("a", (1, 1), &["gpu-0"]));
    assert_eq!(world.told(0), [GONE]);
    world.levels.node_gone(&NODE.into());
    assert_eq!(world.told(0), [BACK], "a device goes with its node");
    world.node("node-2");
    assert_eq!(world.told(0), NONE, "another node");
    world.node(NODE);
    assert_eq!(world.told(0), [GONE], "its claim holds it still");
    assert_eq!(world.told(0), NONE, "once");
}

#[test]
fn a_controller_that_leads_no_more_misses_nothing_on_nodes_that_come() {
    let mut world = world(&["gpu-0"], false);
    world.claim(claim("gpu-1"));
    world.lead(Vec::new());
    assert_eq!(world.told(0), NONE);
    world.levels.end();
    world.node(NODE);
    assert_eq!(world.told(0), NONE, "the next leader misses it");
    world.lead(Vec::new());
    assert_eq!(world.told(0), [GONE]);
}

#[test]
fn a_policy_misses_devices_that_went_before_it_came_if_claims_hold_them() {
    let mut world = world(&["gpu-0", "gpu-1", "gpu-2"], true);
    world.claim(claim("gpu-1"));
    world.lead(Vec::new());
    world.told(0);
    world.select_nothing();
    world.told(0);
    world.publish(slice("a", (1, 1), &["gpu-0"]));
    world.told(0);
    assert_eq!(world.incidents(), [], "no policy");
    world.select();
    world.told(0);
    let missed =
        |world: &World| world.incidents().iter().map(|one| one.device.device.to_string()).collect::<Vec<_>>();
    assert_eq!(missed(&world), ["gpu-1"], "of the other nothing says that the policy would have selected it");
    let mut next = world.beside();
    next.node(NODE);
    next.claim(claim("gpu-1"));
    next.lead(Vec::new());
    next.told(0);
    assert_eq!(missed(&next), ["gpu-1"], "as the next leader does");
}

/// A pod stays where the devices were that its claim had before somebody took them away.
#[test]
fn a_device_whose_claim_has_pods_on_several_nodes_is_missed_too() {
    for (pool, has_node) in [(NODE, true), ("fabric", false)] {
        let mut world = world(&["gpu-0"], true);
        world.node("node-2");
        let consumer = |name: &str| Consumer {
            api_group: Text::default(),
            resource: "pods".into(),
            name: name.into(),
            uid: format!("uid-{name}").into(),
        };
        let reserved_for = ["a", "b"].map(consumer).into();
        world.claim(Arc::new(ResourceClaim {
            reserved_for,
            ..ResourceClaim::clone(&claim_in(pool, "gpu-1"))
        }));
        world.fleet.apply(Told::Pod(pod("a", NODE)));
        world.fleet.apply(Told::Pod(pod("b", "node-2")));
        world.lead(Vec::new());
        assert_eq!(world.told(0), [GONE], "{pool}");
        let node = world.levels.node_of(&world.fleet, &DeviceId::new(DRIVER, pool, "gpu-1"));
        assert_eq!(node, Ok(has_node.then(|| NODE.into())));
    }
}

/// It was beside the leader all the time, and saw the device go, which no policy selected.
#[test]
fn a_controller_that_begins_to_lead_misses_devices_that_went_before_the_policy_came() {
    let mut world = world(&["gpu-0", "gpu-1"], true);
    world.claim(claim("gpu-1"));
    world.select_nothing();
    world.told(0);
    world.publish(slice("a", (1, 1), &["gpu-0"]));
    world.told(0);
    world.select();
    world.told(0);
    assert_eq!(world.incidents(), []);
    world.lead(Vec::new());
    world.told(0);
    assert_eq!(world.incidents().len(), 1);
}

/// One that is forgotten comes back: nothing would say that its signal is over.
#[test]
fn of_more_devices_than_are_remembered_the_first_is_well_and_the_others_are_missed() {
    let names: Vec<String> = (0..=VANISHED_MAX).map(|number| format!("gpu-{number:05}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = world(&names, true);
    world.withdraw("a");
    let told = world.told(0);
    let over: Vec<&String> = told.iter().filter(|line| line.ends_with("is over")).collect();
    assert_eq!(over, ["gpu-00000 is over"]);
    assert_eq!(told.len(), VANISHED_MAX + 2);
}

/// The policy that governs an incident means something else than that its device is missed.
#[test]
fn every_policy_that_means_a_device_with_an_incident_misses_it_when_a_controller_begins() {
    let named = |name: &str, incident: &Incident| Incident { policy: name.into(), ..incident.clone() };
    let mut before = world(&["gpu-0", "gpu-1"], true);
    before.publish(slice("a", (1, 1), &["gpu-0"]));
    assert_eq!(before.told(0), [GONE]);
    let incident = before.incidents().remove(0);
    let mut forgotten = named("other", &incident);
    forgotten.timeline.clear();
    for found in [named("other", &incident), forgotten] {
        let mut world = world(&["gpu-0"], true);
        let other = Policy { name: "other".into(), rules: Vec::new(), ..world.policy.clone() };
        world.lifecycle.handle(world.time(), CoreInput::Policy(Box::new(other)));
        world.lead(vec![found]);
        assert_eq!(world.told(0), [GONE]);
        world.now += 10 * 60_000;
        world.lifecycle.tick(world.time());
        assert_eq!(world.incidents().len(), 1, "it is not calm while its device is missed");
        world.publish(slice("a", (1, 1), &["gpu-0", "gpu-1"]));
        assert_eq!(world.told(0), [BACK]);
        world.now += 10 * 60_000;
        world.lifecycle.tick(world.time());
        assert_eq!(world.incidents().len(), 0);
    }
}
