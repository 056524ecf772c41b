//! Devices of claims that are gone and that their node has not unprepared.

use std::sync::Arc;

use lazaret_model::{Awaited, DeviceId, ObjectKey};
use lazaret_scheduler::{Input, Node, Options};

use crate::{
    groups::{group, on},
    world::{DRIVER, World, claim, node, pod, slice},
};

fn reporting(awaiting: Vec<Awaited>) -> Input {
    Input::Node(Arc::new(Node { reports: true, awaiting, ..node("a", 4_000) }))
}

fn awaited(uid: &str) -> Awaited {
    Awaited {
        claim: ObjectKey::new("ns", "c"),
        uid: uid.into(),
        devices: vec![DeviceId { driver: DRIVER.into(), pool: "a".into(), device: "gpu-0".into() }],
        ..Awaited::default()
    }
}

/// A node with one device that `p` runs with, and `q` that wants it.
fn world() -> World {
    let mut world = World::new(Options::default());
    world.tell(reporting(Vec::new()));
    world.tell(Input::Fleet(lazaret_fleet::Input::Slice(Arc::new(slice("a", 1)))));
    world.add_claim(claim("c", 1));
    world.add_pod(pod("p", 100, &["c"]));
    world.settle();
    assert_eq!(world.node_of("p").as_deref(), Some("a"));
    world.add_claim(claim("d", 1));
    world.add_pod(pod("q", 100, &["d"]));
    world.settle();
    assert_eq!(world.node_of("q"), None);
    world
}

fn uid_of(world: &World, name: &str) -> String {
    world.claims[&ObjectKey::new("ns", name)].claim.uid.to_string()
}

fn remove_claim(world: &mut World, name: &str) {
    world.claims.remove(&ObjectKey::new("ns", name));
    world.tell(Input::ClaimGone(ObjectKey::new("ns", name)));
}

#[test]
fn nobody_gets_what_a_node_was_asked_about_until_it_has_answered() {
    let mut world = world();
    let uid = uid_of(&world, "c");
    world.tell(reporting(vec![awaited(&uid)]));
    world.remove_pod("p");
    remove_claim(&mut world, "c");
    world.settle();
    world.pass(60_000);
    assert_eq!(world.node_of("q"), None);
    world.tell(reporting(Vec::new()));
    world.pass(60_000);
    assert_eq!(world.node_of("q").as_deref(), Some("a"));
}

/// The claim was given other devices in between, which this scheduler did not hear.
#[test]
fn a_node_that_is_asked_about_other_devices_of_the_same_claim_holds_these() {
    let mut other = awaited("c");
    other.devices[0].device = "gpu-7".into();
    let mut world = World::new(Options::default());
    world.tell(reporting(vec![other.clone()]));
    world.tell(Input::Fleet(lazaret_fleet::Input::Slice(Arc::new(slice("a", 1)))));
    world.tell(reporting(vec![awaited("c")]));
    world.add_claim(claim("d", 1));
    world.add_pod(pod("q", 100, &["d"]));
    world.settle();
    assert_eq!(world.node_of("q"), None);
    world.tell(reporting(vec![other]));
    world.pass(60_000);
    assert_eq!(world.node_of("q").as_deref(), Some("a"), "it is not asked about this device any more");
}

/// The watch of claims is behind that of nodes: the claim lost other devices before.
#[test]
fn older_news_of_a_claim_do_not_free_the_devices_that_its_node_is_asked_about() {
    let mut world = World::new(Options::default());
    world.tell(reporting(Vec::new()));
    world.tell(Input::Fleet(lazaret_fleet::Input::Slice(Arc::new(slice("a", 2)))));
    world.add_claim(claim("c", 1));
    world.add_pod(pod("p", 100, &["c"]));
    world.settle();
    let given = world.claims[&ObjectKey::new("ns", "c")].claim.allocation.clone().unwrap();
    let other = if &*given.results[0].device.device == "gpu-0" { "gpu-1" } else { "gpu-0" };
    let mut asked = awaited(&uid_of(&world, "c"));
    asked.devices[0].device = other.into();
    world.tell(reporting(vec![asked]));
    remove_claim(&mut world, "c");
    world.add_claim(claim("d", 1));
    world.add_pod(pod("q", 100, &["d"]));
    world.settle();
    assert_eq!(
        world.node_of("q"),
        None,
        "one device is kept until the node is asked, the other one it is asked about"
    );
    world.pass(60_000);
    assert_eq!(world.node_of("q").as_deref(), Some("a"), "the first one is not asked about");
    let taken = world.claims[&ObjectKey::new("ns", "d")].claim.allocation.clone().unwrap();
    assert_eq!(taken.results[0].device, given.results[0].device);
}

#[test]
fn a_node_that_is_gone_holds_nothing() {
    let mut world = world();
    let uid = uid_of(&world, "c");
    world.tell(reporting(vec![awaited(&uid)]));
    world.remove_pod("p");
    remove_claim(&mut world, "c");
    world.settle();
    world.tell(Input::NodeGone("a".into()));
    world.tell(reporting(Vec::new()));
    world.pass(60_000);
    assert_eq!(world.node_of("q").as_deref(), Some("a"));
}

#[test]
fn a_claim_removed_while_its_pod_runs_keeps_its_device_until_the_node_is_asked() {
    let mut world = world();
    let uid = uid_of(&world, "c");
    remove_claim(&mut world, "c");
    world.settle();
    world.pass(5_000);
    assert_eq!(world.node_of("q"), None, "the claim controller has not written yet");
    world.tell(reporting(vec![awaited(&uid)]));
    world.pass(60_000);
    assert_eq!(world.node_of("q"), None, "it has");
    world.tell(reporting(Vec::new()));
    world.pass(60_000);
    assert_eq!(world.node_of("q").as_deref(), Some("a"));
}

#[test]
fn a_claim_that_nobody_waits_for_is_not_held_for_ever() {
    let mut world = world();
    remove_claim(&mut world, "c");
    world.pass(60_000);
    assert_eq!(world.node_of("q").as_deref(), Some("a"));
}

#[test]
fn nodes_that_say_nothing_are_as_in_kubernetes() {
    let mut world = world();
    world.tell(Input::Node(Arc::new(node("a", 4_000))));
    remove_claim(&mut world, "c");
    world.pass(1);
    world.pass(5_000);
    assert_eq!(world.node_of("q").as_deref(), Some("a"));
}

/// The claim of a group is reserved for the group: nothing in it names the pod that vanished.
#[test]
fn what_a_group_gives_back_is_kept_until_the_node_is_asked() {
    let mut world = World::new(Options::default());
    world.tell(reporting(Vec::new()));
    world.tell(Input::Fleet(lazaret_fleet::Input::Slice(Arc::new(slice("a", 1)))));
    world.node("b", 1_000, 1);
    world.add_claim(claim("c", 1));
    world.tell(group(&["c"], None));
    world.add_pod(on("p", "a", &["c"]));
    world.settle();
    assert_eq!(world.node_of("p").as_deref(), Some("a"));
    let uid = uid_of(&world, "c");
    // By force. The next pod of the group has to go elsewhere, and somebody else wants the device.
    world.remove_pod("p");
    world.add_pod(on("next", "b", &["c"]));
    world.settle();
    world.pass(3_000);
    assert_eq!(world.node_of("next").as_deref(), Some("b"), "{}", world.message_of("next"));
    world.add_claim(claim("d", 1));
    world.add_pod(pod("q", 100, &["d"]));
    world.settle();
    world.pass(3_000);
    assert_eq!(world.node_of("q"), None, "the claim controller has not written yet");
    world.tell(reporting(vec![awaited(&uid)]));
    world.pass(60_000);
    assert_eq!(world.node_of("q"), None, "it has");
    world.tell(reporting(Vec::new()));
    world.pass(60_000);
    assert_eq!(world.node_of("q").as_deref(), Some("a"));
}
