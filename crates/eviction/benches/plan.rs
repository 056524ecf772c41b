//! How long a decision takes. `cargo bench -p lazaret-eviction`.
#![allow(missing_docs)]

use std::sync::Arc;

use divan::Bencher;
use lazaret_eviction::{Eviction, Input, Options, Subject, preview};
use lazaret_fleet::{Changes, Fleet, Input as FleetInput};
use lazaret_model::*;

// As the shipped binary does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

const NOW: Timestamp = Timestamp::from_secs(1_000);

fn taint(effect: Effect, rate: Option<i64>) -> Taint {
    Taint {
        key: "example.com/unhealthy".into(),
        value: "yes".into(),
        effect,
        time_added: Some(NOW),
        evictions_per_second: rate,
        description: None,
    }
}

fn slice(pool: usize, devices: usize, taints: &[Taint]) -> FleetInput {
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

fn user(fleet: &mut Fleet, pool: usize, device: usize, namespaces: usize) {
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

fn rule(effect: Effect, rate: Option<i64>) -> FleetInput {
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

/// A fleet of so many pods, eight to a node, and a leader that knows it.
fn cluster(pods: usize) -> (Fleet, Eviction) {
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

/// One rule that hits every pod: from what the fleet says changed to a full plan.
#[divan::bench(args = [1_000, 10_000, 100_000], sample_count = 5, sample_size = 1)]
fn one_rule_hits_all(bencher: Bencher, pods: usize) {
    plan_all(bencher, pods, None);
}

/// The same with a pace: all pods queue for permits.
#[divan::bench(args = [100_000], sample_count = 5, sample_size = 1)]
fn one_paced_rule_hits_all(bencher: Bencher, pods: usize) {
    plan_all(bencher, pods, Some(10));
}

fn plan_all(bencher: Bencher, pods: usize, rate: Option<i64>) {
    let prepare = || {
        let (mut fleet, machine) = cluster(pods);
        fleet.apply(rule(Effect::NoExecute, rate));
        let changes: Changes = fleet.take_changes();
        (fleet, machine, changes)
    };
    bencher.with_inputs(prepare).bench_local_refs(|(fleet, machine, changes)| {
        machine.handle(NOW, fleet, Input::Changed(changes));
        assert_eq!(machine.pending_len(), pods);
    });
}

/// A taint is set on a device in use and removed: slice in, eviction out, slice in, eviction withdrawn; the fleet's part
/// is included.
#[divan::bench(args = [8, 10_000])]
fn taint_set_and_removed(bencher: Bencher, pods: usize) {
    let (mut fleet, mut machine) = cluster(pods);
    fleet.apply(slice(1_000_000, 1, &[]));
    user(&mut fleet, 1_000_000, 0, 100);
    let changes = fleet.take_changes();
    machine.handle(NOW, &fleet, Input::Changed(&changes));
    let clean = slice(1_000_000, 1, &[]);
    let tainted = slice(1_000_000, 1, &[taint(Effect::NoExecute, None)]);
    bencher.bench_local(|| {
        fleet.apply(tainted.clone());
        let changes = fleet.take_changes();
        machine.handle(NOW, &fleet, Input::Changed(&changes));
        assert_eq!(machine.pending_len(), 1);
        fleet.apply(clean.clone());
        let changes = fleet.take_changes();
        machine.handle(NOW, &fleet, Input::Changed(&changes));
        assert_eq!(machine.pending_len(), 0);
        // The event that the pod is spared.
        machine.poll_effect()
    });
}

/// The fleet's part of the above alone.
#[divan::bench]
fn taint_set_and_removed_fleet_only(bencher: Bencher) {
    let (mut fleet, _machine) = cluster(8);
    fleet.apply(slice(1_000_000, 1, &[]));
    user(&mut fleet, 1_000_000, 0, 100);
    fleet.take_changes();
    let clean = slice(1_000_000, 1, &[]);
    let tainted = slice(1_000_000, 1, &[taint(Effect::NoExecute, None)]);
    bencher.bench_local(|| {
        fleet.apply(tainted.clone());
        let first = fleet.take_changes();
        fleet.apply(clean.clone());
        (first, fleet.take_changes())
    });
}

/// An exact preview of a rule that would hit every pod.
#[divan::bench(args = [1_000, 100_000], sample_count = 5, sample_size = 1)]
fn preview_of_all(bencher: Bencher, pods: usize) {
    let (mut fleet, _machine) = cluster(pods);
    fleet.apply(rule(Effect::None, None));
    bencher.bench_local(|| preview(&fleet, NOW, Subject::Rule("maintenance")));
}
