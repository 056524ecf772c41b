//! Paths through the cores.

use std::{hint::black_box, sync::Arc};

use anyhow::{Result, anyhow, ensure};
use lazaret_allocator::{Allocator, Features, Found, NodeSearch, Options, Overlay};
use lazaret_cel::{Env, SimpleDevice, compile};
use lazaret_eviction::{Eviction, Input as EvictionInput};
use lazaret_fleet::{Fleet, Input};
use lazaret_model::{
    Allocation, AllocationMode, AttrNames, AttrValue, ClaimSource, ClaimSpec, Consumer, Device, DeviceClass,
    DeviceId, DeviceRequest, DeviceResult, DeviceSelector, DeviceTaintRule, Effect, Node, NodeScope,
    ObjectKey, Pod, PodClaim, PodPhase, PoolSpec, Quantity, Request, RequestKind, ResourceClaim,
    ResourceSlice, Taint, Text, Timestamp, VersionValue,
};

const DRIVER: &str = "gpu.example.com";
const NOW: Timestamp = Timestamp::from_secs(1_000);
const EXPRESSION: &str = r#"device.driver == "gpu.example.com"
 && device.attributes["gpu.example.com"].model == "a100"
 && device.attributes["gpu.example.com"].index >= 0
 && device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.0.0"))
 && "memory" in device.capacity["gpu.example.com"]
 && device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0"#;

/// One expression of six terms, asked of one device.
pub(super) fn cel_evaluation(rounds: usize) -> Result<()> {
    let mut names = AttrNames::default();
    let attributes = [
        ("model", AttrValue::String("a100".into())),
        ("index", AttrValue::Int(3)),
        ("version", AttrValue::Version(VersionValue::new("1.2.3"))),
    ];
    let memory = Quantity::parse("80Gi").map_err(|error| anyhow!("{error}"))?;
    let device = SimpleDevice::new(DRIVER, attributes, [("memory", memory)], false, &mut names);
    let bound = compile(EXPRESSION, &Env::stored()).map_err(|error| anyhow!("{error:?}"))?.bind(&names);
    for _ in 0..rounds {
        let matches = black_box(&bound).matches(black_box(&device));
        ensure!(matches == lazaret_cel::Outcome::Match, "{matches:?}");
    }
    Ok(())
}

/// A rule with an expression for all of a hundred slices of eight devices, and its removal.
pub(super) fn rule_match(rounds: usize) -> Result<()> {
    let mut fleet = Fleet::new();
    for node in 0..100 {
        fleet.apply(Input::Slice(Arc::new(slice(node, 8, None))));
    }
    fleet.take_changes();
    let rule = Arc::new(DeviceTaintRule {
        name: "maintenance".into(),
        uid: "rule".into(),
        selector: Some(DeviceSelector {
            driver: Some(DRIVER.into()),
            cel: vec![r#"device.attributes["gpu.example.com"].index < 4"#.into()],
            ..DeviceSelector::default()
        }),
        taint: taint(),
        ..DeviceTaintRule::default()
    });
    for _ in 0..rounds {
        fleet.apply(Input::Rule(Arc::clone(&rule)));
        black_box(fleet.take_changes());
        fleet.apply(Input::RuleGone(rule.name.clone()));
        black_box(fleet.take_changes());
    }
    Ok(())
}

/// A taint on a device in use, among eight hundred, and its removal: an eviction planned and withdrawn.
pub(super) fn plan_step(rounds: usize) -> Result<()> {
    let mut fleet = Fleet::new();
    for node in 0..100 {
        fleet.apply(Input::Slice(Arc::new(slice(node, 8, None))));
        (0..8).for_each(|device| user(&mut fleet, node, device));
    }
    let mut eviction = Eviction::new(lazaret_eviction::Options::default());
    eviction.handle(Timestamp::EPOCH, &fleet, EvictionInput::BecameLeader);
    let changes = fleet.take_changes();
    eviction.handle(NOW, &fleet, EvictionInput::Changed(&changes));
    let (clean, tainted) = (Arc::new(slice(50, 8, None)), Arc::new(slice(50, 8, Some(3))));
    for _ in 0..rounds {
        for (slice, pending) in [(&tainted, 1), (&clean, 0)] {
            fleet.apply(Input::Slice(Arc::clone(slice)));
            let changes = fleet.take_changes();
            eviction.handle(NOW, &fleet, EvictionInput::Changed(&changes));
            ensure!(
                eviction.pending_len() == pending,
                "{} are planned, not {pending}",
                eviction.pending_len()
            );
        }
        // The event that the pod is spared.
        black_box(eviction.poll_effect());
    }
    Ok(())
}

/// One device by class and expression, on a hundred nodes of which the first half is full.
pub(super) fn allocation(rounds: usize) -> Result<()> {
    let mut fleet = Fleet::new();
    let class = DeviceClass {
        name: "gpu".into(),
        selectors: vec![Some(r#"device.driver == "gpu.example.com""#.into())],
        ..DeviceClass::default()
    };
    fleet.apply(Input::Class(Arc::new(class)));
    for node in 0..100 {
        fleet.apply(Input::Node(Arc::new(Node { name: node_name(node), ..Node::default() })));
        fleet.apply(Input::Slice(Arc::new(slice(node, 8, None))));
        if node < 50 {
            (0..8).for_each(|device| user(&mut fleet, node, device));
        }
    }
    let snapshot = fleet.snapshot();
    let nodes: Vec<Arc<Node>> = snapshot.nodes().cloned().collect();
    let spec = DeviceRequest {
        class: "gpu".into(),
        selectors: vec![Some(r#"device.attributes["gpu.example.com"].model == "a100""#.into())],
        mode: AllocationMode::Exact(1),
        ..DeviceRequest::default()
    };
    let requests = vec![Request { name: "gpu".into(), kind: RequestKind::Exactly(spec) }];
    let claim = ResourceClaim {
        key: ObjectKey::new("default", "claim"),
        uid: "claim".into(),
        spec: Arc::new(ClaimSpec { requests, ..ClaimSpec::default() }),
        ..ResourceClaim::default()
    };
    let (claims, in_flight, options) = (vec![Arc::new(claim)], Overlay::new(), Options::default());
    let mut allocator = Allocator::new(Features::kubernetes_1_37());
    for _ in 0..rounds {
        let search = NodeSearch {
            snapshot: &snapshot,
            nodes: &nodes,
            claims: &claims,
            in_flight: &in_flight,
            options: &options,
        };
        let found = allocator.find_node(&search, &mut || "share".into());
        ensure!(matches!(found, Found::Node { .. }), "no node was found");
    }
    Ok(())
}

fn node_name(node: usize) -> Text {
    format!("node-{node:03}").into()
}

fn taint() -> Taint {
    Taint {
        key: "example.com/unhealthy".into(),
        effect: Effect::NoExecute,
        time_added: Some(NOW),
        ..Taint::default()
    }
}

/// A slice of a node; one of its devices may be tainted.
fn slice(node: usize, devices: usize, tainted: Option<usize>) -> ResourceSlice {
    let name = node_name(node);
    let device = |at: usize| Device {
        name: format!("gpu-{at}").into(),
        attributes: vec![
            ("index".into(), AttrValue::Int(i64::try_from(at).unwrap_or(0))),
            ("model".into(), AttrValue::String("a100".into())),
            ("uuid".into(), AttrValue::String(format!("{node}-{at}").into())),
        ],
        taints: if tainted == Some(at) { vec![taint()] } else { vec![] },
        ..Device::default()
    };
    ResourceSlice {
        name: format!("{name}-gpus").into(),
        uid: format!("slice-{node}").into(),
        driver: DRIVER.into(),
        pool: PoolSpec { name: name.clone(), generation: 1, slice_count: 1 },
        nodes: NodeScope::Node(name),
        devices: (0..devices).map(device).collect(),
        ..ResourceSlice::default()
    }
}

/// A running pod and the claim by which it has a device.
fn user(fleet: &mut Fleet, node: usize, device: usize) {
    let name: Text = format!("pod-{node}-{device}").into();
    let (key, uid) = (ObjectKey::new("default", name.as_str()), Text::from(format!("uid-{name}").as_str()));
    let result = DeviceResult {
        request: "gpu".into(),
        device: DeviceId::new(DRIVER, node_name(node), format!("gpu-{device}")),
        admin_access: false,
        tolerations: vec![],
        binding_conditions: vec![],
        binding_failure_conditions: vec![],
        share_id: None,
        consumed_capacity: vec![],
        skip_node_operations: vec![],
    };
    fleet.apply(Input::Claim(Arc::new(ResourceClaim {
        key: key.clone(),
        uid: format!("claim-{name}").into(),
        allocation: Some(Arc::new(Allocation { results: vec![result], ..Allocation::default() })),
        reserved_for: vec![Consumer {
            api_group: "".into(),
            resource: "pods".into(),
            name,
            uid: uid.clone(),
        }],
        ..ResourceClaim::default()
    })));
    fleet.apply(Input::Pod(Arc::new(Pod {
        uid,
        node: Some(node_name(node)),
        phase: PodPhase::Running,
        claims: vec![PodClaim { name: "gpu".into(), source: ClaimSource::Claim(key.name.clone()) }],
        key,
        ..Pod::default()
    })));
}
