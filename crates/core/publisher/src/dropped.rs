//! Fields that a server did not keep, and the feature gate that is off there.

use alloc::{string::String, vec::Vec};
use core::fmt;

use k8s_openapi::api::resource::v1::{Device, ResourceSliceSpec};

use crate::compare::canonical;

/// A feature of the API server without which it drops a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gate {
    /// Taints of devices.
    DeviceTaints,
    /// Counters and devices that say themselves where they are.
    PartitionableDevices,
    /// Conditions before a pod is bound.
    DeviceBindingConditions,
    /// Devices that several claims share.
    ConsumableCapacity,
    /// The attribute that says which partitions are alike.
    PartitionableDevicesType,
    /// Calls that kubelet need not make.
    OptionalNodeOperations,
    /// Which partitions can be used together.
    DeviceCompatibilityGroups,
    /// Not known.
    Unknown,
}

impl Gate {
    /// As Kubernetes calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DeviceTaints => "DRADeviceTaints",
            Self::PartitionableDevices => "DRAPartitionableDevices",
            Self::DeviceBindingConditions => "DRADeviceBindingConditions",
            Self::ConsumableCapacity => "DRAConsumableCapacity",
            Self::PartitionableDevicesType => "DRAPartitionableDevicesType",
            Self::OptionalNodeOperations => "DRAOptionalNodeOperations",
            Self::DeviceCompatibilityGroups => "DRADeviceCompatibilityGroups",
            Self::Unknown => "unknown",
        }
    }
}

/// A server stored less than it was sent. The stored content counts as the wanted one, until the driver wants something else:
/// otherwise the same would be written for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Of which pool.
    pub pool: String,
    /// Of which of its slices.
    pub index: usize,
    /// The features that seem to be off.
    pub gates: Vec<Gate>,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the API server dropped fields of slice {} of pool {}; feature gates: ",
            self.index, self.pool
        )?;
        for (at, gate) in self.gates.iter().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { ", " }, gate.name())?;
        }
        Ok(())
    }
}

/// Which gates explain that a server stored this after it was sent that; none if it stored everything.
pub(crate) fn missing(sent: &ResourceSliceSpec, stored: &ResourceSliceSpec) -> Vec<Gate> {
    let (sent, stored) = (canonical(sent), canonical(stored));
    let mut gates = Vec::new();
    if sent.shared_counters != stored.shared_counters
        || sent.per_device_node_selection != stored.per_device_node_selection
    {
        gates.push(Gate::PartitionableDevices);
    }
    if sent.partition_type_attribute != stored.partition_type_attribute {
        gates.push(Gate::PartitionableDevicesType);
    }
    if sent.skip_node_operations != stored.skip_node_operations {
        gates.push(Gate::OptionalNodeOperations);
    }
    let (devices, kept) = (sent.devices.unwrap_or_default(), stored.devices.unwrap_or_default());
    for (device, kept) in devices.iter().zip(&kept) {
        missing_of_device(device, kept, &mut gates);
    }
    if devices.len() != kept.len() {
        gates.push(Gate::Unknown);
    }
    gates.sort_unstable();
    gates.dedup();
    gates
}

fn missing_of_device(sent: &Device, kept: &Device, gates: &mut Vec<Gate>) {
    let before = gates.len();
    let count = |device: &Device| device.taints.as_ref().map_or(0, Vec::len);
    if count(kept) < count(sent) {
        gates.push(Gate::DeviceTaints);
    }
    if sent.consumes_counters.is_some() && kept.consumes_counters.is_none() {
        gates.push(Gate::PartitionableDevices);
    }
    let groups = |device: &Device| {
        device
            .consumes_counters
            .iter()
            .flatten()
            .any(|consumption| consumption.compatibility_groups.is_some())
    };
    if groups(sent) && !groups(kept) && kept.consumes_counters.is_some() {
        gates.push(Gate::DeviceCompatibilityGroups);
    }
    if sent.all_nodes != kept.all_nodes
        || sent.node_name != kept.node_name
        || sent.node_selector != kept.node_selector
    {
        gates.push(Gate::PartitionableDevices);
    }
    if sent.binding_conditions != kept.binding_conditions
        || sent.binding_failure_conditions != kept.binding_failure_conditions
        || sent.binds_to_node != kept.binds_to_node
    {
        gates.push(Gate::DeviceBindingConditions);
    }
    let policies = |device: &Device| {
        device
            .capacity
            .iter()
            .flat_map(|map| map.values())
            .filter(|capacity| capacity.request_policy.is_some())
            .count()
    };
    if sent.allow_multiple_allocations != kept.allow_multiple_allocations || policies(sent) != policies(kept)
    {
        gates.push(Gate::ConsumableCapacity);
    }
    if gates.len() == before && sent != kept {
        gates.push(Gate::Unknown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{string::ToString, vec};
    use k8s_openapi::{
        api::resource::v1::{
            CapacityRequestPolicy, Counter, CounterSet, DeviceCapacity, DeviceCounterConsumption, DeviceTaint,
        },
        apimachinery::pkg::api::resource::Quantity,
    };

    fn full() -> ResourceSliceSpec {
        let counters = || [("slots".to_string(), Counter { value: Quantity("1".into()) })].into();
        let consumption = DeviceCounterConsumption {
            counter_set: "set".into(),
            counters: counters(),
            compatibility_groups: Some(vec!["half".into()]),
        };
        let capacity = DeviceCapacity {
            value: Quantity("80Gi".into()),
            request_policy: Some(CapacityRequestPolicy {
                default: Some(Quantity("1Gi".into())),
                ..CapacityRequestPolicy::default()
            }),
        };
        let device = Device {
            name: "gpu-0".into(),
            taints: Some(vec![DeviceTaint {
                key: "a".into(),
                effect: "NoSchedule".into(),
                ..DeviceTaint::default()
            }]),
            consumes_counters: Some(vec![consumption]),
            allow_multiple_allocations: Some(true),
            binds_to_node: Some(true),
            binding_conditions: Some(vec!["ready".into()]),
            capacity: Some([("memory".to_string(), capacity)].into()),
            ..Device::default()
        };
        ResourceSliceSpec {
            devices: Some(vec![device]),
            shared_counters: Some(vec![CounterSet { name: "set".into(), counters: counters() }]),
            per_device_node_selection: Some(true),
            partition_type_attribute: Some("type".into()),
            skip_node_operations: Some(vec!["*".into()]),
            ..ResourceSliceSpec::default()
        }
    }

    fn device(spec: &mut ResourceSliceSpec) -> &mut Device {
        &mut spec.devices.as_mut().unwrap()[0]
    }

    /// Each field that a server without a feature drops, and the gate that is named for it.
    #[test]
    fn every_dropped_field_has_its_gate() {
        type Drop = fn(&mut ResourceSliceSpec);
        let rows: [(Drop, &str); 13] = [
            (|_| {}, ""),
            (|spec| device(spec).taints = None, "DRADeviceTaints"),
            (|spec| spec.shared_counters = None, "DRAPartitionableDevices"),
            (|spec| spec.per_device_node_selection = None, "DRAPartitionableDevices"),
            (|spec| device(spec).consumes_counters = None, "DRAPartitionableDevices"),
            (|spec| device(spec).binding_conditions = None, "DRADeviceBindingConditions"),
            (|spec| device(spec).binds_to_node = None, "DRADeviceBindingConditions"),
            (|spec| device(spec).allow_multiple_allocations = None, "DRAConsumableCapacity"),
            (
                |spec| {
                    let capacity = device(spec).capacity.as_mut().unwrap();
                    capacity.get_mut("memory").unwrap().request_policy = None;
                },
                "DRAConsumableCapacity",
            ),
            (|spec| spec.partition_type_attribute = None, "DRAPartitionableDevicesType"),
            (|spec| spec.skip_node_operations = None, "DRAOptionalNodeOperations"),
            (
                |spec| {
                    let consumes = device(spec).consumes_counters.as_mut().unwrap();
                    consumes[0].compatibility_groups = None;
                },
                "DRADeviceCompatibilityGroups",
            ),
            (|spec| device(spec).name = "other".into(), "unknown"),
        ];
        for (drop, wanted) in rows {
            let mut stored = full();
            drop(&mut stored);
            let gates = missing(&full(), &stored);
            let names: Vec<&str> = gates.iter().map(|gate| gate.name()).collect();
            assert_eq!(names.join(","), wanted);
        }
        let mut stored = full();
        device(&mut stored).taints = None;
        stored.skip_node_operations = None;
        let gates = missing(&full(), &stored);
        let dropped = Dropped { pool: "p".into(), index: 1, gates };
        let text = "the API server dropped fields of slice 1 of pool p; feature gates: DRADeviceTaints, DRAOptionalNodeOperations";
        assert_eq!(dropped.to_string(), text);
    }
}
