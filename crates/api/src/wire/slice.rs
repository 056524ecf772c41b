//! ResourceSlice.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Amount, NodeSelector, Nullable, ObjectMeta, Taint};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceSlice {
    pub(crate) metadata: Nullable<ObjectMeta>,
    pub(crate) spec: Nullable<SliceSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct SliceSpec {
    pub(crate) driver: Nullable<String>,
    pub(crate) pool: Nullable<Pool>,
    pub(crate) node_name: Nullable<String>,
    pub(crate) node_selector: Option<NodeSelector>,
    pub(crate) all_nodes: Nullable<bool>,
    pub(crate) per_device_node_selection: Nullable<bool>,
    pub(crate) devices: Nullable<Vec<Device>>,
    pub(crate) shared_counters: Nullable<Vec<CounterSet>>,
    pub(crate) taints: Nullable<Vec<SliceTaint>>,
    pub(crate) skip_node_operations: Nullable<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Pool {
    pub(crate) name: Nullable<String>,
    pub(crate) generation: Nullable<i64>,
    pub(crate) resource_slice_count: Nullable<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SliceTaint {
    pub(crate) device: Nullable<String>,
    pub(crate) taint: Nullable<Taint>,
}

/// A device. In v1beta1 all but the name is within `basic`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Device {
    pub(crate) name: Nullable<String>,
    pub(crate) basic: Option<Box<Device>>,
    pub(crate) attributes: Nullable<BTreeMap<String, Attribute>>,
    pub(crate) capacity: Nullable<BTreeMap<String, Capacity>>,
    pub(crate) consumes_counters: Nullable<Vec<CounterConsumption>>,
    pub(crate) node_name: Nullable<String>,
    pub(crate) node_selector: Option<NodeSelector>,
    pub(crate) all_nodes: Nullable<bool>,
    pub(crate) taints: Nullable<Vec<Taint>>,
    pub(crate) binds_to_node: Nullable<bool>,
    pub(crate) binding_conditions: Option<Vec<String>>,
    pub(crate) binding_failure_conditions: Option<Vec<String>>,
    pub(crate) allow_multiple_allocations: Option<bool>,
    pub(crate) node_allocatable_resources: Nullable<BTreeMap<String, NodeAllocatable>>,
}

/// What a device takes of a resource of its node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeAllocatable {
    pub(crate) mapping: Option<NodeMapping>,
    pub(crate) overhead: Option<NodeOverhead>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NodeMapping {
    pub(crate) capacity_key: Nullable<String>,
    pub(crate) capacity_multiplier: Option<Amount>,
    pub(crate) device_multiplier: Option<Amount>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NodeOverhead {
    pub(crate) per_pod: Option<Amount>,
    pub(crate) per_container: Option<Amount>,
}

/// The value of an attribute: one of these. `null`, which removes, is for patches alone.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Attribute {
    pub(crate) int: Option<i64>,
    pub(crate) bool: Option<bool>,
    pub(crate) string: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) ints: Nullable<Vec<i64>>,
    pub(crate) bools: Nullable<Vec<bool>>,
    pub(crate) strings: Nullable<Vec<String>>,
    pub(crate) versions: Nullable<Vec<String>>,
    pub(crate) null: Option<Null>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Null {}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Capacity {
    pub(crate) value: Option<Amount>,
    pub(crate) request_policy: Option<RequestPolicy>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RequestPolicy {
    pub(crate) default: Option<Amount>,
    pub(crate) valid_values: Nullable<Vec<Amount>>,
    pub(crate) valid_range: Option<ValidRange>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ValidRange {
    pub(crate) min: Option<Amount>,
    pub(crate) max: Option<Amount>,
    pub(crate) step: Option<Amount>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CounterConsumption {
    pub(crate) counter_set: Nullable<String>,
    pub(crate) counters: Nullable<BTreeMap<String, Counter>>,
    pub(crate) compatibility_groups: Nullable<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CounterSet {
    pub(crate) name: Nullable<String>,
    pub(crate) counters: Nullable<BTreeMap<String, Counter>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Counter {
    pub(crate) value: Option<Amount>,
}
