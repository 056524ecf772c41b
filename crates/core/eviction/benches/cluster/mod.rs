//! A cluster to measure: a given number of pods, eight to a node, each with a device of its own.
#![allow(missing_docs)]

use std::sync::Arc;

use lazaret_eviction::{Eviction, Input, Options};
use lazaret_fleet::{Fleet, Input as FleetInput};
use lazaret_model::*;

pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_000);

pub(crate) fn taint(effect: Effect, rate: Option<i64>) -> Taint {
    Taint {
        key: "example.com/unhealthy".into(),
        value: "yes".into(),
        effect,
        time_added: Some(NOW),
        evictions_per_second: rate,
        description: None,
        eviction: None,
    }
}

pub(crate) fn slice(pool: usize, devices: usize, taints: &[Taint]) -> FleetInput {
    let devices = (0..devices)
        .map(|i| Device { name: format!("gpu-{i}").into(), taints: taints.to_vec(), ..Device::default() })
        .collect();
    FleetInput::Slice(Arc::new(ResourceSlice {
        name: format!("slice-{pool}").into(),
        uid: format!("slice-uid-{pool}").into(),
        driver: "gpu.example.com".into(),
        pool: PoolSpec { name: format!("node-{pool}").into(), generation: 1, slice_count: 1 },
        nodes: NodeScope::Node(format!("node-{pool}").into()),
        devices,
        ..ResourceSlice::default()
    }))
}

pub(crate) fn user(fleet: &mut Fleet, pool: usize, device: usize, namespaces: usize) {
    let name = format!("pod-{pool}-{device}");
    let key = ObjectKey::new(format!("ns-{}", pool % namespaces), name.as_str());
    let result = DeviceResult {
        request: "gpu".into(),
        device: DeviceId::new("gpu.example.com", format!("node-{pool}"), format!("gpu-{device}")),
        admin_access: false,
        tolerations: vec![],
        binding_conditions: vec![],
        binding_failure_conditions: vec![],
        share_id: None,
        consumed_capacity: vec![],
        skip_node_operations: vec![],
    };
    let uid: Text = format!("uid-{name}").into();
    fleet.apply(FleetInput::Claim(Arc::new(ResourceClaim {
        key: key.clone(),
        uid: format!("claim-{name}").into(),
        allocation: Some(Arc::new(Allocation { results: vec![result], ..Allocation::default() })),
        reserved_for: vec![Consumer {
            api_group: "".into(),
            resource: "pods".into(),
            name: name.as_str().into(),
            uid: uid.clone(),
        }],
        ..ResourceClaim::default()
    })));
    fleet.apply(FleetInput::Pod(Arc::new(Pod {
        uid,
        node: Some(format!("node-{pool}").into()),
        phase: PodPhase::Running,
        claims: vec![PodClaim { name: "gpu".into(), source: ClaimSource::Claim(key.name.clone()) }],
        key,
        ..Pod::default()
    })));
}

pub(crate) fn rule(effect: Effect, rate: Option<i64>) -> FleetInput {
    FleetInput::Rule(Arc::new(DeviceTaintRule {
        name: "maintenance".into(),
        uid: "rule-uid".into(),
        generation: 1,
        selector: Some(DeviceSelector {
            driver: Some("gpu.example.com".into()),
            ..DeviceSelector::default()
        }),
        taint: taint(effect, rate),
        ..DeviceTaintRule::default()
    }))
}

/// A fleet of this many pods, eight to a node, and a leader that knows it.
pub(crate) fn cluster(pods: usize) -> (Fleet, Eviction) {
    let mut fleet = Fleet::new();
    for pool in 0..pods / 8 {
        fleet.apply(slice(pool, 8, &[]));
        (0..8).for_each(|device| user(&mut fleet, pool, device, 100));
    }
    let mut machine = Eviction::new(Options::default());
    machine.handle(Timestamp::EPOCH, &fleet, Input::BecameLeader);
    let changes = fleet.take_changes();
    machine.handle(NOW, &fleet, Input::Changed(&changes));
    (fleet, machine)
}
