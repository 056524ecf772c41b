//! Short ways to say what is there, and what must follow.

use alloc::{format, string::String, sync::Arc, vec, vec::Vec};

use lazaret_model::{
    Allocation, AttrValue, Consumer, Device, DeviceClass, DeviceId, DevicePatch, DeviceResult,
    DeviceSelector, DeviceTaintRule, Effect, NodeScope, NodeSelector, NodeSelectorTerm, ObjectKey, Operator,
    PoolSpec, Requirement, ResourceClaim, ResourceSlice, ResourceSlicePatch, SliceTaint, Taint, Text,
};

use crate::{EffectiveTaint, Fleet, Input, Origin};

/// `driver/pool/device`.
pub(super) fn id(text: &str) -> DeviceId {
    let mut parts = text.split('/');
    let mut next = || parts.next().unwrap();
    DeviceId::new(next(), next(), next())
}

/// `key=value:Effect`, value optional.
pub(super) fn taint(text: &str) -> Taint {
    let (label, effect) = text.split_once(':').unwrap();
    let (key, value) = label.split_once('=').unwrap_or((label, ""));
    Taint { key: key.into(), value: value.into(), effect: Effect::from_name(effect), ..Taint::default() }
}

/// A slice of generation 1 of a pool of one slice: `name driver/pool`, and its devices.
pub(super) fn slice(name: &str, pool: &str, devices: Vec<Device>) -> ResourceSlice {
    let (driver, pool) = pool.split_once('/').unwrap();
    ResourceSlice {
        name: name.into(),
        driver: driver.into(),
        pool: PoolSpec { name: pool.into(), generation: 1, slice_count: 1 },
        nodes: NodeScope::Node("n".into()),
        devices,
        ..ResourceSlice::default()
    }
}

/// The same slice as part of another generation.
pub(super) fn generation(mut slice: ResourceSlice, number: i64, count: i64) -> ResourceSlice {
    slice.pool.generation = number;
    slice.pool.slice_count = count;
    slice
}

/// A slice of taints: `device taint`.
pub(super) fn taint_slice(name: &str, pool: &str, taints: &[&str]) -> ResourceSlice {
    let entry = |text: &&str| {
        let (device, t) = text.split_once(' ').unwrap();
        SliceTaint { device: device.into(), taint: taint(t) }
    };
    ResourceSlice { taints: taints.iter().map(entry).collect(), ..slice(name, pool, vec![]) }
}

/// A device with attributes `key=value` and taints.
pub(super) fn device(name: &str, attributes: &[&str], taints: &[&str]) -> Device {
    let attribute = |text: &&str| {
        let (key, value) = text.split_once('=').unwrap();
        (Text::from(key), AttrValue::String(value.into()))
    };
    Device {
        name: name.into(),
        attributes: attributes.iter().map(attribute).collect(),
        taints: taints.iter().map(|text| taint(text)).collect(),
        ..Device::default()
    }
}

/// `driver/pool/device` with `*` for what is left open.
pub(super) fn names(text: &str) -> DeviceSelector {
    let mut parts = text.split('/').map(|part| (part != "*").then(|| Text::from(part)));
    let mut next = || parts.next().unwrap();
    DeviceSelector { driver: next(), pool: next(), device: next(), ..DeviceSelector::default() }
}

pub(super) fn cel(expressions: &[&str]) -> DeviceSelector {
    DeviceSelector { cel: expressions.iter().map(|&text| text.into()).collect(), ..DeviceSelector::default() }
}

pub(super) fn of_class(class: &str) -> DeviceSelector {
    DeviceSelector { class: Some(class.into()), ..DeviceSelector::default() }
}

pub(super) fn rule(name: &str, selector: Option<DeviceSelector>, text: &str) -> DeviceTaintRule {
    let uid = format!("{name}-uid").into();
    DeviceTaintRule { name: name.into(), uid, selector, taint: taint(text), ..DeviceTaintRule::default() }
}

pub(super) fn class(name: &str, expressions: &[&str]) -> DeviceClass {
    let selectors = expressions.iter().map(|&text| Some(text.into())).collect();
    DeviceClass { name: name.into(), selectors, ..DeviceClass::default() }
}

pub(super) fn patch(name: &str, priority: i64, selector: &str, taints: &[&str]) -> ResourceSlicePatch {
    let taints = taints.iter().map(|text| taint(text)).collect();
    ResourceSlicePatch {
        name: name.into(),
        selector: Some(names(selector)),
        patch: DevicePatch { priority, taints, ..DevicePatch::default() },
        ..ResourceSlicePatch::default()
    }
}

/// A claim in namespace `ns` that holds these devices and is reserved for pods with these UIDs.
pub(super) fn claim(name: &str, devices: &[&str], pods: &[&str]) -> ResourceClaim {
    let result = |text: &&str| DeviceResult {
        request: "r".into(),
        device: id(text),
        admin_access: false,
        tolerations: vec![],
        binding_conditions: vec![],
        binding_failure_conditions: vec![],
        share_id: None,
        consumed_capacity: vec![],
        skip_node_operations: vec![],
    };
    let consumer =
        |uid: &&str| Consumer { resource: "pods".into(), uid: (*uid).into(), ..Consumer::default() };
    ResourceClaim {
        key: ObjectKey::new("ns", name),
        uid: format!("{name}-uid").into(),
        allocation: Some(Arc::new(Allocation {
            results: devices.iter().map(result).collect(),
            ..Allocation::default()
        })),
        reserved_for: pods.iter().map(consumer).collect(),
        ..ResourceClaim::default()
    }
}

/// As the allocator writes it for devices of a node.
pub(super) fn on_node(name: &str) -> NodeSelector {
    let by_name =
        Requirement { key: "metadata.name".into(), operator: Operator::In, values: vec![name.into()] };
    NodeSelector {
        terms: vec![NodeSelectorTerm { match_fields: vec![by_name], ..NodeSelectorTerm::default() }],
    }
}

/// A claim whose devices are usable on one node alone.
pub(super) fn claim_on(name: &str, node: &str, devices: &[&str]) -> ResourceClaim {
    let mut claim = claim(name, devices, &[]);
    let results = claim.allocation.take().map(|allocation| allocation.results.clone()).unwrap_or_default();
    let node_selector = Some(on_node(node));
    claim.allocation = Some(Arc::new(Allocation { results, node_selector, ..Allocation::default() }));
    claim
}

impl From<ResourceSlice> for Input {
    fn from(slice: ResourceSlice) -> Self {
        Self::Slice(Arc::new(slice))
    }
}

impl From<DeviceTaintRule> for Input {
    fn from(rule: DeviceTaintRule) -> Self {
        Self::Rule(Arc::new(rule))
    }
}

impl From<ResourceSlicePatch> for Input {
    fn from(patch: ResourceSlicePatch) -> Self {
        Self::Patch(Arc::new(patch))
    }
}

impl From<DeviceClass> for Input {
    fn from(class: DeviceClass) -> Self {
        Self::Class(Arc::new(class))
    }
}

impl From<ResourceClaim> for Input {
    fn from(claim: ResourceClaim) -> Self {
        Self::Claim(Arc::new(claim))
    }
}

impl From<lazaret_model::Pod> for Input {
    fn from(pod: lazaret_model::Pod) -> Self {
        Self::Pod(Arc::new(pod))
    }
}

pub(super) fn fleet(inputs: &[Input]) -> Fleet {
    let mut fleet = Fleet::new();
    inputs.iter().for_each(|input| fleet.apply(input.clone()));
    fleet
}

/// The effective taints of a device: `taint < origin`.
pub(super) fn taints(fleet: &Fleet, device: &str) -> Vec<String> {
    fleet.effective_taints(&id(device)).map(say).collect()
}

pub(super) fn say(taint: EffectiveTaint<'_>) -> String {
    let origin = match taint.origin {
        Origin::Device { slice, index } => format!("{slice}#{index}"),
        Origin::TaintSlice { slice, index } => format!("taints in {slice}#{index}"),
        Origin::Patch { name, index } => format!("patch {name}#{index}"),
        Origin::Rule { name, from_memory: false, .. } => format!("rule {name}"),
        Origin::Rule { name, from_memory: true, .. } => format!("rule {name} from memory"),
    };
    format!("{} < {origin}", taint.taint)
}

/// Checks the taints of some devices after the inputs, in every order that keeps the inputs about one object in
/// theirs, and in the snapshot as well as in the fleet.
pub(super) fn check(inputs: &[Input], expected: &[(&str, &[&str])]) {
    for order in orders(inputs) {
        let mut fleet = Fleet::new();
        order.iter().for_each(|&at| fleet.apply(inputs[at].clone()));
        let snapshot = fleet.snapshot();
        for (device, expected) in expected {
            assert_eq!(taints(&fleet, device), *expected, "taints of {device} after {order:?}");
            if let Some(found) = snapshot.find(&id(device)) {
                let seen: Vec<String> = found.taints().map(say).collect();
                assert_eq!(seen, *expected, "taints of {device} in the snapshot after {order:?}");
            }
        }
    }
}

fn orders(inputs: &[Input]) -> Vec<Vec<usize>> {
    let mut orders = vec![vec![]];
    for _ in inputs {
        let extend = |order: Vec<usize>| {
            let next = |at: &usize| {
                let same = |other: &usize| {
                    inputs[*other].kind() == inputs[*at].kind() && inputs[*other].key() == inputs[*at].key()
                };
                !order.contains(at) && (0..*at).filter(same).all(|other| order.contains(&other))
            };
            let with = |at| {
                let mut longer = order.clone();
                longer.push(at);
                longer
            };
            (0..inputs.len()).filter(next).map(with).collect::<Vec<_>>()
        };
        orders = orders.into_iter().flat_map(extend).collect();
    }
    orders
}
