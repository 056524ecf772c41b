//! How long it takes to find a node and devices, or to find out that there are none.
//!
//! `cargo bench -p lazaret-allocator`
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use divan::Bencher;
use lazaret_allocator::{Allocator, Answer, Features, Found, NodeSearch, Options, Overlay, Request};
use lazaret_fleet::{Fleet, Input, Snapshot};
use lazaret_model::*;

fn main() {
    divan::main();
}

/// A fleet, some claims, and an allocator that has seen them.
struct BenchCase {
    snapshot: Arc<Snapshot>,
    nodes: Vec<Arc<Node>>,
    claims: Vec<Arc<ResourceClaim>>,
    overlay: Overlay,
    options: Options,
    allocator: Allocator,
}

impl BenchCase {
    fn find(&mut self) -> Found {
        let Self { snapshot, nodes, claims, overlay, options, allocator } = self;
        let search = NodeSearch { snapshot, nodes, claims, in_flight: overlay, options };
        allocator.find_node(&search, &mut || "share".into())
    }

    fn allocate(&mut self) -> Answer {
        let Self { snapshot, nodes, claims, overlay, options, allocator } = self;
        let request = Request { snapshot, node: &nodes[0], claims, in_flight: overlay, options };
        allocator.allocate(&request, &mut || "share".into())
    }
}

/// `nodes` nodes, each with one slice of devices as `device` makes them and perhaps one of counters.
fn setting(
    nodes: usize,
    devices: usize,
    device: impl Fn(usize, usize) -> Device,
    counters: Vec<CounterSet>,
    in_use: impl Fn(usize, usize) -> bool,
    claim: ClaimSpec,
) -> BenchCase {
    let mut fleet = Fleet::new();
    let selector = Some("device.driver == \"gpu.example.com\"".into());
    let class = DeviceClass { name: "gpu".into(), selectors: vec![selector], ..DeviceClass::default() };
    fleet.apply(Input::Class(Arc::new(class)));
    for node in 0..nodes {
        let name: Text = format!("node-{node:05}").into();
        fleet.apply(Input::Node(Arc::new(Node { name: name.clone(), ..Node::default() })));
        let slice_count = 1 + i64::from(!counters.is_empty());
        let slice = |kind: &str| ResourceSlice {
            name: format!("{name}-{kind}").into(),
            driver: "gpu.example.com".into(),
            pool: PoolSpec { name: name.clone(), generation: 1, slice_count },
            nodes: NodeScope::Node(name.clone()),
            ..ResourceSlice::default()
        };
        let all = (0..devices).map(|at| device(node, at)).collect();
        fleet.apply(Input::Slice(Arc::new(ResourceSlice { devices: all, ..slice("devices") })));
        if !counters.is_empty() {
            let counters = ResourceSlice { shared_counters: counters.clone(), ..slice("counters") };
            fleet.apply(Input::Slice(Arc::new(counters)));
        }
        for at in (0..devices).filter(|at| in_use(node, *at)) {
            let held = ResourceClaim {
                key: ObjectKey::new("held", format!("{name}-{at}")),
                uid: format!("{name}-{at}").into(),
                allocation: Some(Arc::new(Allocation {
                    results: vec![result(DeviceId::new(
                        "gpu.example.com",
                        name.clone(),
                        format!("gpu-{at}"),
                    ))],
                    ..Allocation::default()
                })),
                ..ResourceClaim::default()
            };
            fleet.apply(Input::Claim(Arc::new(held)));
        }
    }
    let snapshot = fleet.snapshot();
    let claim = ResourceClaim {
        key: ObjectKey::new("default", "claim"),
        uid: "claim".into(),
        spec: Arc::new(claim),
        ..ResourceClaim::default()
    };
    let mut setting = BenchCase {
        nodes: snapshot.nodes().cloned().collect(),
        snapshot,
        claims: vec![Arc::new(claim)],
        overlay: Overlay::new(),
        options: Options::default(),
        allocator: Allocator::new(Features::kubernetes_1_37()),
    };
    setting.find();
    setting
}

fn result(device: DeviceId) -> DeviceResult {
    DeviceResult {
        request: "r".into(),
        device,
        admin_access: false,
        tolerations: vec![],
        binding_conditions: vec![],
        binding_failure_conditions: vec![],
        share_id: None,
        consumed_capacity: vec![],
        skip_node_operations: vec![],
    }
}

/// A device with a dozen attributes, some of them its own, and two capacities.
fn gpu(node: usize, at: usize) -> Device {
    let text = |text: String| AttrValue::String(text.into());
    let capacity = |text: &str| CapacityValue { value: Quantity::parse(text).unwrap(), policy: None };
    let mut attributes = vec![
        ("architecture".into(), text("ampere".into())),
        ("brand".into(), text("compute".into())),
        ("cores".into(), AttrValue::Int(6912)),
        ("driverVersion".into(), AttrValue::Version(VersionValue::new("550.127.8"))),
        ("healthy".into(), AttrValue::Bool(true)),
        ("index".into(), AttrValue::Int(at as i64)),
        ("model".into(), text("a100".into())),
        ("numa".into(), AttrValue::Int((at % 2) as i64)),
        ("resource.kubernetes.io/pcieRoot".into(), text(format!("pci0000:{:02x}", at % 2))),
        ("serial".into(), text(format!("{node:06}-{at:03}"))),
        ("type".into(), text("gpu".into())),
        ("uuid".into(), text(format!("gpu-{node:08x}-{at:04x}"))),
    ];
    attributes.sort_by(|a: &(Text, _), b| a.0.cmp(&b.0));
    Device {
        name: format!("gpu-{at}").into(),
        attributes,
        capacity: vec![("memory".into(), capacity("40Gi")), ("slots".into(), capacity("7"))],
        ..Device::default()
    }
}

fn request(name: &str, count: i64, selectors: &[&str]) -> lazaret_model::Request {
    let spec = DeviceRequest {
        class: "gpu".into(),
        selectors: selectors.iter().map(|selector| Some(Text::from(*selector))).collect(),
        mode: AllocationMode::Exact(count),
        ..DeviceRequest::default()
    };
    lazaret_model::Request { name: name.into(), kind: RequestKind::Exactly(spec) }
}

fn requests(requests: Vec<lazaret_model::Request>) -> ClaimSpec {
    ClaimSpec { requests, ..ClaimSpec::default() }
}

fn half(node: usize, at: usize) -> bool {
    (node + at).is_multiple_of(2)
}

const BY_ATTRIBUTE_AND_CAPACITY: &str = "device.attributes[\"gpu.example.com\"].model == \"a100\" && \
    device.capacity[\"gpu.example.com\"].memory.compareTo(quantity(\"20Gi\")) >= 0";

#[divan::bench]
fn one_device_by_class(bencher: Bencher<'_, '_>) {
    let mut setting = setting(500, 10, gpu, vec![], half, requests(vec![request("r", 1, &[])]));
    assert!(matches!(setting.find(), Found::Node { .. }));
    bencher.bench_local(|| setting.find());
}

#[divan::bench]
fn one_device_by_attribute_and_capacity(bencher: Bencher<'_, '_>) {
    let spec = requests(vec![request("r", 1, &[BY_ATTRIBUTE_AND_CAPACITY])]);
    let mut setting = setting(500, 10, gpu, vec![], half, spec);
    assert!(matches!(setting.find(), Found::Node { .. }));
    bencher.bench_local(|| setting.find());
}

#[divan::bench]
fn five_requests_on_one_pcie_root(bencher: Bencher<'_, '_>) {
    let names = ["r0", "r1", "r2", "r3", "r4"];
    let mut spec = requests(names.iter().map(|name| request(name, 1, &[])).collect());
    let kind = ConstraintKind::Match("resource.kubernetes.io/pcieRoot".into());
    spec.constraints.push(Constraint { requests: vec![], kind });
    let mut setting = setting(500, 10, gpu, vec![], |_, _| false, spec);
    assert!(matches!(setting.find(), Found::Node { .. }));
    bencher.bench_local(|| setting.find());
}

/// Ten free devices among 40,000: finds them all, one after the other.
#[divan::bench]
fn last_ten_of_forty_thousand(bencher: Bencher<'_, '_>) {
    let in_use = |node: usize, at: usize| !(node % 500 == 499 && at == 7);
    let mut setting = setting(5_000, 8, gpu, vec![], in_use, requests(vec![request("r", 1, &[])]));
    bencher.bench_local(|| {
        setting.overlay = Overlay::new();
        for round in 0..10 {
            match setting.find() {
                Found::Node { allocations, .. } => {
                    setting.overlay.insert(&format!("claim-{round}").into(), &allocations[0]);
                }
                other => panic!("{other:?}"),
            }
        }
    });
}

fn nowhere(bencher: Bencher<'_, '_>, spec: ClaimSpec) {
    let mut setting = setting(1, 8, gpu, vec![], |_, _| false, spec);
    assert!(matches!(setting.allocate(), Answer::DoesNotFit(_)));
    bencher.bench_local(|| setting.allocate());
}

#[divan::bench]
fn nine_of_eight(bencher: Bencher<'_, '_>) {
    nowhere(bencher, requests(vec![request("r", 9, &[])]));
}

#[divan::bench]
fn five_and_five_of_eight(bencher: Bencher<'_, '_>) {
    nowhere(bencher, requests(vec![request("r0", 5, &[]), request("r1", 5, &[])]));
}

#[divan::bench]
fn five_on_one_root_of_four(bencher: Bencher<'_, '_>) {
    let mut spec = requests(vec![request("r", 5, &[])]);
    let kind = ConstraintKind::Match("resource.kubernetes.io/pcieRoot".into());
    spec.constraints.push(Constraint { requests: vec![], kind });
    nowhere(bencher, spec);
}

/// The first device is too large, any seven of the others do: Kubernetes tries all that contain the first.
#[divan::bench]
fn seven_partitions_without_the_first(bencher: Bencher<'_, '_>) {
    let quantity = |text: &str| Quantity::parse(text).unwrap();
    let counters = vec![CounterSet { name: "set".into(), counters: vec![("mem".into(), quantity("70Gi"))] }];
    let device = |node: usize, at: usize| Device {
        consumes_counters: vec![CounterConsumption {
            counter_set: "set".into(),
            counters: vec![("mem".into(), quantity(if at == 0 { "20Gi" } else { "10Gi" }))],
            compatibility_groups: vec![],
        }],
        ..gpu(node, at)
    };
    let mut setting = setting(1, 8, device, counters, |_, _| false, requests(vec![request("r", 7, &[])]));
    assert!(matches!(setting.allocate(), Answer::Allocated(_)));
    bencher.bench_local(|| setting.allocate());
}

const NODES_OF_128: usize = 50;

#[divan::bench]
fn one_of_128_plain(bencher: Bencher<'_, '_>) {
    let mut setting = setting(NODES_OF_128, 128, gpu, vec![], half, requests(vec![request("r", 1, &[])]));
    assert!(matches!(setting.find(), Found::Node { .. }));
    bencher.bench_local(|| setting.find());
}

#[divan::bench]
fn one_of_128_partitions(bencher: Bencher<'_, '_>) {
    let quantity = |value: i64| Quantity::from_i64(value);
    let sets = (0..8).map(|set| CounterSet {
        name: format!("set-{set}").into(),
        counters: vec![("mem".into(), quantity(16)), ("sm".into(), quantity(16))],
    });
    let device = |node: usize, at: usize| Device {
        consumes_counters: vec![CounterConsumption {
            counter_set: format!("set-{}", at / 16).into(),
            counters: vec![("mem".into(), quantity(1)), ("sm".into(), quantity(1))],
            compatibility_groups: vec![],
        }],
        ..gpu(node, at)
    };
    let spec = requests(vec![request("r", 1, &[])]);
    let mut setting = setting(NODES_OF_128, 128, device, sets.collect(), half, spec);
    assert!(matches!(setting.find(), Found::Node { .. }));
    bencher.bench_local(|| setting.find());
}

#[divan::bench]
fn one_share_of_128(bencher: Bencher<'_, '_>) {
    let device = |node: usize, at: usize| Device { allow_multiple_allocations: Some(true), ..gpu(node, at) };
    let mut one = request("r", 1, &[]);
    if let RequestKind::Exactly(spec) = &mut one.kind {
        spec.capacity = Some(vec![("memory".into(), Quantity::parse("1Gi").unwrap())]);
    }
    let mut setting = setting(NODES_OF_128, 128, device, vec![], half, requests(vec![one]));
    assert!(matches!(setting.find(), Found::Node { .. }));
    bencher.bench_local(|| setting.find());
}

/// Every node of 500 is alike and too small: one search, the rest recognised.
#[divan::bench]
fn eleven_of_ten_on_500_nodes(bencher: Bencher<'_, '_>) {
    let mut setting = setting(500, 10, gpu, vec![], |_, _| false, requests(vec![request("r", 11, &[])]));
    assert!(matches!(setting.find(), Found::Nowhere(_)));
    bencher.bench_local(|| setting.find());
}
