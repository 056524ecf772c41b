//! Fleets to measure with: slices of devices with ten attributes each, as GPU drivers publish them.

use std::sync::Arc;

use lazaret_fleet::{Fleet, Input};
use lazaret_model::{
    Allocation, AttrValue, CapacityValue, Device, DeviceId, DeviceResult, DeviceSelector, DeviceTaintRule,
    Effect, NodeScope, ObjectKey, PoolSpec, Quantity, ResourceClaim, ResourceSlice, Taint, Timestamp,
    VersionValue,
};

pub(crate) const DRIVER: &str = "gpu.example.com";

/// A device with ten attributes, three of which no other has, and one capacity.
pub(crate) fn device(slice: usize, at: usize) -> Device {
    let unique = slice * 128 + at;
    let text = |value: String| AttrValue::String(value.into());
    let attributes = [
        ("addressingMode", text("HMM".into())),
        ("architecture", text("Hopper".into())),
        ("brand", text("Nvidia".into())),
        ("cudaComputeCapability", AttrValue::Version(VersionValue::new("9.0.0"))),
        ("driverVersion", AttrValue::Version(VersionValue::new("570.124.6"))),
        ("minor", AttrValue::Int(i64::try_from(at).unwrap_or(0))),
        ("pcieRoot", text(format!("pci0000:{at:02x}"))),
        ("productName", text("NVIDIA H100 80GB HBM3".into())),
        ("serial", AttrValue::Int(1_650_000_000 + i64::try_from(unique).unwrap_or(0))),
        ("uuid", text(format!("GPU-{unique:08x}-4cf2-11ee-be56-0242ac120002"))),
    ];
    let memory = CapacityValue { value: Quantity::from_i64(81_559 << 20), policy: None };
    Device {
        name: format!("gpu-{at}").into(),
        attributes: attributes.into_iter().map(|(key, value)| (key.into(), value)).collect(),
        capacity: vec![("memory".into(), memory)],
        ..Device::default()
    }
}

/// A slice that is a pool of its own, on a node of its own.
pub(crate) fn slice(at: usize, devices: usize) -> ResourceSlice {
    let node = format!("node-{at:05}");
    ResourceSlice {
        name: format!("{node}-{DRIVER}-x7k2p").into(),
        uid: format!("7b0e1c9a-{at:012}").into(),
        driver: DRIVER.into(),
        pool: PoolSpec { name: node.as_str().into(), generation: 1, slice_count: 1 },
        nodes: NodeScope::Node(node.as_str().into()),
        devices: (0..devices).map(|device_at| device(at, device_at)).collect(),
        ..ResourceSlice::default()
    }
}

pub(crate) fn fleet(slices: usize, devices: usize) -> Fleet {
    let mut fleet = Fleet::new();
    (0..slices).for_each(|at| fleet.apply(Input::Slice(Arc::new(slice(at, devices)))));
    fleet.snapshot();
    fleet.take_changes();
    fleet
}

pub(crate) fn rule(
    driver: Option<&str>,
    pool: Option<&str>,
    device: Option<&str>,
    cel: &[&str],
) -> Arc<DeviceTaintRule> {
    Arc::new(DeviceTaintRule {
        name: "maintenance".into(),
        uid: "0f8c1d2e".into(),
        selector: Some(DeviceSelector {
            driver: driver.map(Into::into),
            pool: pool.map(Into::into),
            device: device.map(Into::into),
            cel: cel.iter().map(|&text| text.into()).collect(),
            ..DeviceSelector::default()
        }),
        taint: taint(),
        ..DeviceTaintRule::default()
    })
}

pub(crate) fn taint() -> Taint {
    Taint {
        key: "example.com/unhealthy".into(),
        effect: Effect::NoExecute,
        time_added: Some(Timestamp::from_secs(1_700_000_000)),
        ..Taint::default()
    }
}

/// A claim that holds a device of a slice.
pub(crate) fn claim(slice: usize, device: usize) -> ResourceClaim {
    let result = DeviceResult {
        request: "gpu".into(),
        device: DeviceId::new(DRIVER, format!("node-{slice:05}"), format!("gpu-{device}")),
        admin_access: false,
        tolerations: vec![],
        binding_conditions: vec![],
        binding_failure_conditions: vec![],
        share_id: None,
        consumed_capacity: vec![],
        skip_node_operations: vec![],
    };
    ResourceClaim {
        key: ObjectKey::new("default", format!("claim-{slice}-{device}")),
        uid: format!("claim-uid-{slice}-{device}").into(),
        allocation: Some(Arc::new(Allocation { results: vec![result], ..Allocation::default() })),
        ..ResourceClaim::default()
    }
}
