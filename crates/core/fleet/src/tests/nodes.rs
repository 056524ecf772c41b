//! Slices of a node say nothing about devices of another node, whatever their pool and generation are.

use alloc::{vec, vec::Vec};

use lazaret_model::{NodeScope, ResourceSlice};

use super::build::*;
use crate::{Fleet, Input, Presence};

/// A slice of a node: `name`, `node`, generation, and its devices, each with these taints.
fn of(name: &str, node: &str, number: i64, devices: &[&str], taints: &[&str]) -> Input {
    let devices = devices.iter().map(|name| device(name, &[], taints)).collect();
    let nodes = if node.is_empty() { NodeScope::All } else { NodeScope::Node(node.into()) };
    ResourceSlice { nodes, ..generation(slice(name, "d/n1", devices), number, 1) }.into()
}

fn presence(fleet: &Fleet, claim: &str) -> Vec<Presence> {
    let claim = fleet.claim_ix(&lazaret_model::ObjectKey::new("ns", claim)).unwrap();
    fleet.held(claim).map(|held| held.presence).collect()
}

fn held_taints(fleet: &Fleet, claim: &str) -> usize {
    let claim = fleet.claim_ix(&lazaret_model::ObjectKey::new("ns", claim)).unwrap();
    fleet.held(claim).map(|held| held.taints().count()).sum()
}

const FORGED: [(&str, i64); 3] = [("a-forged", 9), ("z-forged", 9), ("z-forged", 1)];

/// The attack: a stolen certificate of node n2 publishes devices of the pool of n1, in a newer generation, with a taint that evicts.
#[test]
fn a_nodes_slice_neither_hides_nor_taints_devices_of_another() {
    for (name, number) in FORGED {
        let held = claim_on("c", "n1", &["d/n1/a", "d/n1/b"]);
        let mut fleet = fleet(&[of("mine", "n1", 1, &["a", "b"], &[]), held.into()]);
        fleet.snapshot();
        fleet.take_changes();
        fleet.apply(of(name, "n2", number, &["a"], &["sick:NoExecute"]));
        assert_eq!(presence(&fleet, "c"), [Presence::Published; 2], "{name} {number}");
        assert_eq!(held_taints(&fleet, "c"), 0, "{name} {number}");
        assert!(taints(&fleet, "d/n1/a").is_empty() && taints(&fleet, "d/n1/b").is_empty());
        assert_eq!(fleet.device(&id("d/n1/a")).unwrap().slice().name(), "mine");
        assert!(fleet.take_changes().claims.is_empty(), "{name} {number}");
        let snapshot = fleet.snapshot();
        assert_eq!(snapshot.find(&id("d/n1/a")).unwrap().slice().name(), "mine");
        // The driver of n1 starts anew: its slices are gone for a time, and those of the other node do not take their place.
        fleet.apply(Input::SliceGone("mine".into()));
        assert_eq!(presence(&fleet, "c"), [Presence::Remembered; 2], "{name} {number}");
        assert_eq!(held_taints(&fleet, "c"), 0, "{name} {number}");
        assert!(fleet.device(&id("d/n1/a")).is_none());
        fleet.apply(of("mine", "n1", 2, &["a", "b"], &[]));
        assert_eq!(presence(&fleet, "c"), [Presence::Published; 2], "{name} {number}");
    }
}

#[test]
fn a_slice_of_taints_of_a_node_counts_for_its_own_devices_alone() {
    let forged = ResourceSlice {
        nodes: NodeScope::Node("n2".into()),
        ..generation(taint_slice("t", "d/n1", &["a sick:NoExecute"]), 9, 1)
    };
    let mine = || of("mine", "n1", 1, &["a"], &[]);
    let shared = || of("mine", "", 1, &["a"], &[]);
    for slice in [mine(), shared()] {
        let fleet = fleet(&[slice, claim("c", &["d/n1/a"], &[]).into(), forged.clone().into()]);
        assert!(taints(&fleet, "d/n1/a").is_empty());
        assert_eq!(presence(&fleet, "c"), [Presence::Published]);
    }
}

/// Devices that several nodes reach are published by a controller, not by a node.
#[test]
fn a_nodes_slice_says_nothing_about_devices_of_no_node() {
    for (name, number) in FORGED {
        let of_all = of("net", "", 1, &["a"], &[]);
        let held = [claim("c", &["d/n1/a"], &[]), claim_on("e", "n2", &["d/n1/a"])].map(Input::from);
        for held in held {
            let fleet = fleet(&[of_all.clone(), of(name, "n2", number, &["a"], &["sick:NoExecute"]), held]);
            assert!(taints(&fleet, "d/n1/a").is_empty(), "{name} {number}");
        }
    }
}

/// A rule by attributes means what the slice of the device's own node says.
#[test]
fn a_rule_does_not_select_a_device_by_what_another_node_says_of_it() {
    let mine = slice("mine", "d/n1", vec![device("a", &["model=x"], &[])]);
    let mine = ResourceSlice { nodes: NodeScope::Node("n1".into()), ..mine };
    let forged = slice("forged", "d/n1", vec![device("a", &["model=y"], &[])]);
    let forged = ResourceSlice { nodes: NodeScope::Node("n2".into()), ..generation(forged, 9, 1) };
    let recalled = rule("r", Some(cel(&["device.attributes[\"d\"].model == \"y\""])), "sick:NoExecute");
    let fleet =
        fleet(&[mine.into(), claim_on("c", "n1", &["d/n1/a"]).into(), recalled.into(), forged.into()]);
    assert_eq!(held_taints(&fleet, "c"), 0);
    let selection = fleet.rule_selection("r");
    assert_eq!((selection.published_count(), selection.held().count()), (0, 0));
}

/// A pool that a controller publishes for several nodes, each device in the slice of its node.
#[test]
fn a_pool_may_have_devices_of_several_nodes() {
    let on = |name: &str, node: &str| {
        let devices = vec![device(name, &[], &["sick:NoSchedule"])];
        let nodes = NodeScope::Node(node.into());
        Input::from(ResourceSlice { nodes, ..generation(slice(name, "d/p", devices), 1, 2) })
    };
    let held = [claim_on("c", "n1", &["d/p/a"]), claim_on("e", "n2", &["d/p/b"])].map(Input::from);
    let mut inputs = vec![on("a", "n1"), on("b", "n2")];
    inputs.extend(held);
    let mut fleet = fleet(&inputs);
    assert_eq!(held_taints(&fleet, "c") + held_taints(&fleet, "e"), 2);
    let snapshot = fleet.snapshot();
    let pool = snapshot.pool(&id("d/p/a").pool_id()).unwrap();
    assert!(pool.newest().unwrap().is_complete());
    assert_eq!(pool.current().count(), 2);
}
