//! Devices that take of the resources of their own node.

use std::sync::Arc;

use lazaret_fleet as fleet;
use lazaret_model::*;
use lazaret_scheduler::{
    EffectKind, Input, NodeAllocatableStatus, Options, Pod, PodLevel, SetNodeAllocatable,
};

use crate::world::{World, claim, node, pod, slice};

fn amount(text: &str) -> Quantity {
    Quantity::parse(text).unwrap()
}

fn world() -> World {
    let mut world = World::new(Options { node_allocatable: true, preemption: false, ..Options::default() });
    world.tell(Input::Node(Arc::new(node("a", 100_000))));
    world
}

/// `cpu` of a device: what it stands for, and what it costs for a pod and for each container.
fn taking(mapping: Option<NodeMapping>, per_pod: Option<&str>, per_container: Option<&str>) -> Device {
    let taken =
        NodeAllocatable { mapping, per_pod: per_pod.map(amount), per_container: per_container.map(amount) };
    Device { name: "gpu-0".into(), node_allocatable: vec![("cpu".into(), taken)], ..Device::default() }
}

fn per_device(text: &str) -> Option<NodeMapping> {
    Some(NodeMapping::PerDevice(amount(text)))
}

fn publish(world: &mut World, devices: Vec<Device>) {
    let slice = ResourceSlice { devices, ..slice("a", 1) };
    world.tell(Input::Fleet(fleet::Input::Slice(Arc::new(slice))));
}

/// A pod whose containers use its claims.
fn using(name: &str, cpu_milli: i64, claims: &[&str], containers: &[&str]) -> Pod {
    let mut pod = pod(name, cpu_milli, claims);
    let entries: Vec<Text> = claims.iter().map(|claim| (*claim).into()).collect();
    Arc::make_mut(&mut pod.spec).claim_users =
        containers.iter().map(|name| ((*name).into(), entries.clone())).collect();
    pod
}

fn written(world: &World, pod: &str) -> Vec<NodeAllocatableStatus> {
    let of_pod = |kind: &EffectKind| {
        let EffectKind::SetNodeAllocatable(SetNodeAllocatable { pod: key, statuses, .. }) = kind else {
            return None;
        };
        (key.name == pod).then(|| statuses.to_vec())
    };
    world.log.iter().rev().find_map(of_pod).unwrap_or_default()
}

#[test]
fn what_devices_stand_for_counts_as_the_pods_and_is_said_in_its_status() {
    let mut world = world();
    let capacity =
        |key: &str, text: &str| (Text::from(key), CapacityValue { value: amount(text), policy: None });
    let mapping = |key: &str, factor: &str| NodeAllocatable {
        mapping: Some(NodeMapping::Capacity { key: key.into(), multiplier: Some(amount(factor)) }),
        per_pod: None,
        per_container: None,
    };
    let device = Device {
        name: "pool".into(),
        allow_multiple_allocations: Some(true),
        capacity: vec![capacity("cpus", "100"), capacity("mem", "2Gi")],
        node_allocatable: vec![
            ("cpu".into(), mapping("cpus", "1")),
            ("memory".into(), mapping("mem", "0.5")),
        ],
        ..Device::default()
    };
    publish(&mut world, vec![device]);
    world.add_claim(claim("c", 1));
    world.add_pod(using("p", 0, &["c"], &["one", "two"]));
    world.settle();
    assert_eq!(world.node_of("p").as_deref(), Some("a"), "{}", world.message_of("p"));
    let [status] = written(&world, "p").try_into().unwrap();
    assert_eq!(status.containers, ["one", "two"]);
    let shown: Vec<String> = status.mapping.iter().map(|(name, amount)| format!("{name} {amount}")).collect();
    assert_eq!((shown, status.overhead), (vec!["cpu 100".into(), "memory 1Gi".into()], vec![]));
    // The processors are all taken.
    world.add_pod(pod("q", 2_000, &[]));
    world.settle();
    assert!(world.message_of("q").contains("Insufficient cpu"), "{}", world.message_of("q"));
    world.remove_pod("p");
    world.settle();
    world.pass(2_000);
    assert_eq!(world.node_of("q").as_deref(), Some("a"), "they are free again");
}

/// Amount mapped, overhead for a pod and a container, containers, own request: what is left of 100 processors, in
/// thousandths, or why not.
#[test]
fn what_devices_take_must_be_there() {
    for (mapping, per_pod, per_container, containers, own, expected) in [
        (per_device("16"), None, None, 2, 0, Ok(84_000)),
        (per_device("16"), None, None, 2, 4_000, Ok(80_000)),
        (per_device("101"), None, None, 1, 0, Err("Insufficient cpu")),
        (per_device("98"), None, None, 1, 5_000, Err("Insufficient cpu")),
        (None, Some("2"), None, 3, 0, Ok(98_000)),
        (None, None, Some("2"), 3, 0, Ok(94_000)),
        (None, Some("1"), Some("2"), 3, 1_000, Ok(92_000)),
        (None, Some("1"), Some("50"), 2, 0, Err("Insufficient cpu")),
        // Whose claim no container uses takes it all the same, but nothing for each container.
        (per_device("4"), Some("1"), Some("50"), 0, 0, Ok(95_000)),
        (per_device("500m"), None, Some("1m"), 1, 0, Ok(99_499)),
    ] {
        let mut world = world();
        publish(&mut world, vec![taking(mapping.clone(), per_pod, per_container)]);
        world.add_claim(claim("c", 1));
        let names = ["one", "two", "three"];
        world.add_pod(using("p", own, &["c"], &names[..containers]));
        world.settle();
        let case = format!("{mapping:?} {per_pod:?} {per_container:?} {containers} {own}");
        match expected {
            Err(reason) => {
                assert_eq!(world.node_of("p"), None, "{case}");
                assert!(world.message_of("p").contains(reason), "{case}: {}", world.message_of("p"));
                assert_eq!(world.claims.values().filter(|claim| claim.claim.allocation.is_some()).count(), 0);
            }
            Ok(left) => {
                assert!(world.node_of("p").is_some(), "{case}: {}", world.message_of("p"));
                world.add_pod(pod("too-much", left + 1, &[]));
                world.settle();
                assert_eq!(world.node_of("too-much"), None, "{case}");
                world.add_pod(pod("rest", left, &[]));
                world.settle();
                assert!(world.node_of("rest").is_some(), "{case}: {}", world.message_of("rest"));
            }
        }
    }
}

#[test]
fn another_node_is_taken_where_the_first_lacks_what_devices_take() {
    let mut world = world();
    world.tell(Input::Node(Arc::new(node("b", 200_000))));
    let device = taking(per_device("150"), None, None);
    let everywhere = ResourceSlice { nodes: NodeScope::All, devices: vec![device], ..slice("shared", 1) };
    world.tell(Input::Fleet(fleet::Input::Slice(Arc::new(everywhere))));
    world.add_pod(Pod { node: Some("b".into()), ..pod("there", 49_000, &[]) });
    world.add_claim(claim("c", 1));
    world.add_pod(using("p", 0, &["c"], &["one"]));
    world.settle();
    assert_eq!(world.node_of("p").as_deref(), Some("b"), "{}", world.message_of("p"));
}

#[test]
fn a_claim_whose_devices_stand_for_resources_is_one_pods_alone() {
    for (device, shared) in
        [(taking(per_device("1"), Some("1"), None), false), (taking(None, Some("1"), None), true)]
    {
        let mut world = world();
        publish(&mut world, vec![device]);
        world.add_claim(claim("c", 1));
        world.add_pod(using("p", 0, &["c"], &["one"]));
        world.settle();
        assert!(world.node_of("p").is_some());
        world.add_pod(using("q", 0, &["c"], &["one"]));
        world.settle();
        assert_eq!(world.node_of("q").is_some(), shared, "{}", world.message_of("q"));
        if !shared {
            let told =
                "node allocatable resource claim c has a mapped device and cannot be shared across pods";
            assert_eq!(world.message_of("q"), told);
            world.remove_pod("p");
            world.settle();
            world.pass(2_000);
            assert!(world.node_of("q").is_some(), "{}", world.message_of("q"));
        }
    }
}

#[test]
fn what_the_pod_as_a_whole_asks_for_must_cover_its_claims() {
    for (requested, fits) in [(10_000, true), (6_000, true), (5_000, false)] {
        let mut world = world();
        publish(&mut world, vec![taking(per_device("4"), None, None)]);
        world.add_claim(claim("c", 1));
        let mut pod = using("p", requested, &["c"], &["one"]);
        Arc::make_mut(&mut pod.spec).pod_level =
            vec![PodLevel { resource: "cpu".into(), requested, containers: 2_000 }];
        world.add_pod(pod);
        world.settle();
        assert_eq!(world.node_of("p").is_some(), fits, "{requested}: {}", world.message_of("p"));
        if fits {
            world.add_pod(crate::world::pod("rest", 100_000 - requested, &[]));
            world.settle();
            assert!(world.node_of("rest").is_some(), "covered, so counted once");
        } else {
            let told = "pod level request for cpu is insufficient to cover the aggregated container and \
                        node-allocatable DRA requests";
            assert_eq!(world.message_of("p"), told);
        }
    }
}

#[test]
fn a_pod_that_is_not_bound_after_all_says_so() {
    let mut world = world();
    publish(&mut world, vec![taking(None, Some("1"), None)]);
    world.add_claim(claim("c", 1));
    world.add_pod(using("p", 0, &["c"], &["one"]));
    // The bindings fail for good.
    for _ in 0..200 {
        let Some(effect) = world.scheduler.poll_effect() else {
            world.tick(1_000);
            world.hear();
            continue;
        };
        if matches!(effect.kind, EffectKind::Bind(_)) {
            world.faults.push(lazaret_scheduler::Outcome::RetryLater);
        }
        world.perform(effect);
        let cleared = |kind: &EffectKind| matches!(kind, EffectKind::SetNodeAllocatable(set) if set.statuses.is_empty());
        if world.log.iter().any(cleared) {
            return;
        }
    }
    panic!("the status stays");
}

#[test]
fn without_the_feature_devices_take_nothing() {
    let mut world = World::new(Options::default());
    world.tell(Input::Node(Arc::new(node("a", 1_000))));
    publish(&mut world, vec![taking(per_device("16"), None, None)]);
    world.add_claim(claim("c", 1));
    world.add_pod(using("p", 0, &["c"], &["one"]));
    world.settle();
    assert!(world.node_of("p").is_some());
    assert_eq!(written(&world, "p"), []);
}
