//! The cost of a question for room and of a large group. Prints figures (`-- --nocapture`), and fails over none: machines differ.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "it measures, and prints what it measured"
)]
#![allow(missing_docs)]

use std::{sync::Arc, time::Instant};

use lazaret_allocator::Features;
use lazaret_eviction::{
    Capacity, CapacityAnswer, CapacityQuestion, EffectKind, Eviction, Input, LeavingPod, Options, Outcome,
};
use lazaret_fleet::{Fleet, Input as Object};
use lazaret_model::*;

const DRIVER: &str = "gpu.example.com";
const DEVICES: usize = 8;
const NOW: Timestamp = Timestamp::from_secs(1_000);

fn node_objects(node: usize) -> [Object; 2] {
    let name: Text = format!("node-{node}").into();
    let facts = Object::Node(Arc::new(Node { name: name.clone(), ..Node::default() }));
    let device = |number: usize| Device { name: format!("gpu-{number}").into(), ..Device::default() };
    let slice = Object::Slice(Arc::new(ResourceSlice {
        name: name.clone(),
        uid: name.clone(),
        driver: DRIVER.into(),
        pool: PoolSpec { name: name.clone(), generation: 1, slice_count: 1 },
        nodes: NodeScope::Node(name),
        devices: (0..DEVICES).map(device).collect(),
        ..ResourceSlice::default()
    }));
    [facts, slice]
}

fn apply_node(fleet: &mut Fleet, node: usize) {
    node_objects(node).into_iter().for_each(|object| fleet.apply(object));
}

fn apply_pod(fleet: &mut Fleet, node: usize, device: usize) -> LeavingPod {
    let (objects, pod) = pod_objects(node, device);
    objects.into_iter().for_each(|object| fleet.apply(object));
    pod
}

fn pod_objects(node: usize, device: usize) -> ([Object; 2], LeavingPod) {
    let name = format!("pod-{node}-{device}");
    let (key, uid) = (ObjectKey::new("default", name.as_str()), Text::from(name.as_str()));
    let id = DeviceId::new(DRIVER, format!("node-{node}"), format!("gpu-{device}"));
    let result = DeviceResult {
        request: "gpu".into(),
        device: id.clone(),
        admin_access: false,
        tolerations: vec![],
        binding_conditions: vec![],
        binding_failure_conditions: vec![],
        share_id: None,
        consumed_capacity: vec![],
        skip_node_operations: vec![],
    };
    let request = DeviceRequest { class: "gpu".into(), ..DeviceRequest::default() };
    let claim = Object::Claim(Arc::new(ResourceClaim {
        key: key.clone(),
        uid: format!("claim-{name}").into(),
        spec: Arc::new(ClaimSpec {
            requests: vec![Request { name: "gpu".into(), kind: RequestKind::Exactly(request) }],
            ..ClaimSpec::default()
        }),
        allocation: Some(Arc::new(Allocation { results: vec![result], ..Allocation::default() })),
        reserved_for: vec![Consumer {
            api_group: "".into(),
            resource: "pods".into(),
            name: key.name.clone(),
            uid: uid.clone(),
        }],
        ..ResourceClaim::default()
    }));
    let facts = Object::Pod(Arc::new(Pod {
        key: key.clone(),
        uid: uid.clone(),
        node: Some(format!("node-{node}").into()),
        phase: PodPhase::Running,
        claims: vec![PodClaim { name: "gpu".into(), source: ClaimSource::Claim(key.name.clone()) }],
        eviction_group: Some("all".into()),
        ..Pod::default()
    }));
    ([claim, facts], LeavingPod { pod: key, uid, devices: vec![id] })
}

fn class() -> Object {
    let selectors = vec![Some(format!("device.driver == \"{DRIVER}\"").into())];
    Object::Class(Arc::new(DeviceClass { name: "gpu".into(), selectors, ..DeviceClass::default() }))
}

/// A cluster of `nodes` nodes with all devices in use, except for `free` devices of the last node.
fn cluster(nodes: usize, free: usize) -> (Fleet, Vec<LeavingPod>) {
    let mut fleet = Fleet::new();
    fleet.apply(class());
    let mut pods = Vec::new();
    for node in 0..nodes {
        apply_node(&mut fleet, node);
        let used = if node + 1 == nodes { DEVICES - free } else { DEVICES };
        pods.extend((0..used).map(|device| apply_pod(&mut fleet, node, device)));
    }
    (fleet, pods)
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok()).unwrap_or(0) * 1024
}

/// Each controller that looks at devices has a fleet of its own; the objects in them are shared.
#[test]
fn the_cost_of_one_more_fleet_of_the_same_objects() {
    const NODES: usize = 5_000;
    const PODS_PER_NODE: usize = 4;
    let mut objects = vec![class()];
    for node in 0..NODES {
        objects.extend(node_objects(node));
        objects.extend((0..PODS_PER_NODE).flat_map(|device| pod_objects(node, device).0));
    }
    let mut fleets = Vec::new();
    for number in 1..=3 {
        let (before, start) = (resident_bytes(), Instant::now());
        let mut fleet = Fleet::new();
        objects.iter().cloned().for_each(|object| fleet.apply(object));
        let changes = fleet.take_changes();
        assert_eq!(changes.pods.len(), NODES * PODS_PER_NODE);
        drop(changes);
        fleets.push(fleet);
        let (grown, took) = (resident_bytes().saturating_sub(before), start.elapsed());
        let mb = grown as f64 / 1e6;
        println!("fleet {number} of {} objects: {mb:.1} MB more, {took:?}", objects.len());
    }
}

#[test]
fn what_a_question_for_room_costs() {
    for (nodes, free) in [(1_000, 0), (1_000, 8), (5_000, 0), (5_000, 8)] {
        let (mut fleet, pods) = cluster(nodes, free);
        let mut capacity = Capacity::new(Features::kubernetes_1_37());
        let ask = |capacity: &mut Capacity, fleet: &mut Fleet, pod: &LeavingPod| {
            let question = CapacityQuestion { pods: vec![pod.clone()] };
            capacity.ask(NOW, fleet, &question)
        };
        // The first compiles expressions and takes the snapshot.
        ask(&mut capacity, &mut fleet, &pods[0]);
        let start = Instant::now();
        let asked = 4;
        for pod in &pods[1..=asked] {
            let answer = ask(&mut capacity, &mut fleet, pod);
            assert_eq!(matches!(answer, CapacityAnswer::Room(_)), free > 0, "{answer:?}");
            let _ = fleet.take_changes();
        }
        let each = start.elapsed() / u32::try_from(asked).unwrap();
        println!("{nodes} nodes with {DEVICES} devices, {free} free: {each:?} a question");
    }
}

#[test]
fn what_a_large_group_costs() {
    for pods in [2_000, 4_000, 8_000, 16_000] {
        let (mut fleet, _) = cluster(pods / DEVICES, 0);
        let mut machine = Eviction::new(Options::default());
        let spec = EvictionSpec { groups: GroupMode::Together, ..EvictionSpec::default() };
        let taint = Taint {
            key: "k".into(),
            effect: Effect::NoExecute,
            time_added: Some(NOW),
            eviction: Some(Arc::new(spec)),
            ..Taint::default()
        };
        fleet.apply(Object::Rule(Arc::new(DeviceTaintRule {
            name: "r".into(),
            uid: "r".into(),
            generation: 1,
            selector: Some(DeviceSelector { driver: Some(DRIVER.into()), ..DeviceSelector::default() }),
            taint,
            ..DeviceTaintRule::default()
        })));
        machine.handle(NOW, &fleet, Input::BecameLeader);
        let changes = fleet.take_changes();
        let start = Instant::now();
        machine.handle(NOW, &fleet, Input::Changed(&changes));
        let mut evicted = 0;
        while let Some(effect) = machine.poll_effect() {
            if let EffectKind::Evict(_) = &effect.kind {
                evicted += 1;
                machine.handle(
                    NOW,
                    &fleet,
                    Input::Acknowledged { effect: effect.id, outcome: Outcome::Done },
                );
            }
        }
        assert_eq!(evicted, pods);
        println!("a group of {pods} pods leaves in one go: {:?}", start.elapsed());
    }
}
