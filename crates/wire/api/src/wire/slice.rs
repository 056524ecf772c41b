//! ResourceSlice.

use std::collections::BTreeMap;

use super::{Amount, NodeSelector, Nullable, ObjectMeta, Taint};
use crate::fields;

fields! {
    pub(crate) struct ResourceSlice {
        pub(crate) metadata: Nullable<ObjectMeta> = "metadata",
        pub(crate) spec: Nullable<SliceSpec> = "spec",
    }

    pub(crate) struct SliceSpec {
        pub(crate) driver: Nullable<String> = "driver",
        pub(crate) pool: Nullable<Pool> = "pool",
        pub(crate) node_name: Nullable<String> = "nodeName",
        pub(crate) node_selector: Option<NodeSelector> = "nodeSelector",
        pub(crate) all_nodes: Nullable<bool> = "allNodes",
        pub(crate) per_device_node_selection: Nullable<bool> = "perDeviceNodeSelection",
        pub(crate) devices: Nullable<Vec<Device>> = "devices",
        pub(crate) shared_counters: Nullable<Vec<CounterSet>> = "sharedCounters",
        pub(crate) taints: Nullable<Vec<SliceTaint>> = "taints",
        pub(crate) skip_node_operations: Nullable<Vec<String>> = "skipNodeOperations",
    }

    pub(crate) struct Pool {
        pub(crate) name: Nullable<String> = "name",
        pub(crate) generation: Nullable<i64> = "generation",
        pub(crate) resource_slice_count: Nullable<i64> = "resourceSliceCount",
    }

    pub(crate) struct SliceTaint {
        pub(crate) device: Nullable<String> = "device",
        pub(crate) taint: Nullable<Taint> = "taint",
    }

    /// A device. In v1beta1 all but the name is within `basic`.
    pub(crate) struct Device {
        pub(crate) name: Nullable<String> = "name",
        pub(crate) basic: Option<Box<Device>> = "basic",
        pub(crate) attributes: Nullable<BTreeMap<String, Attribute>> = "attributes",
        pub(crate) capacity: Nullable<BTreeMap<String, Capacity>> = "capacity",
        pub(crate) consumes_counters: Nullable<Vec<CounterConsumption>> = "consumesCounters",
        pub(crate) node_name: Nullable<String> = "nodeName",
        pub(crate) node_selector: Option<NodeSelector> = "nodeSelector",
        pub(crate) all_nodes: Nullable<bool> = "allNodes",
        pub(crate) taints: Nullable<Vec<Taint>> = "taints",
        pub(crate) binds_to_node: Nullable<bool> = "bindsToNode",
        pub(crate) binding_conditions: Option<Vec<String>> = "bindingConditions",
        pub(crate) binding_failure_conditions: Option<Vec<String>> = "bindingFailureConditions",
        pub(crate) allow_multiple_allocations: Option<bool> = "allowMultipleAllocations",
        pub(crate) node_allocatable_resources: Nullable<BTreeMap<String, NodeAllocatable>> = "nodeAllocatableResources",
    }

    /// The amount that a device takes of a resource of its node.
    pub(crate) struct NodeAllocatable {
        pub(crate) mapping: Option<NodeMapping> = "mapping",
        pub(crate) overhead: Option<NodeOverhead> = "overhead",
    }

    pub(crate) struct NodeMapping {
        pub(crate) capacity_key: Nullable<String> = "capacityKey",
        pub(crate) capacity_multiplier: Option<Amount> = "capacityMultiplier",
        pub(crate) device_multiplier: Option<Amount> = "deviceMultiplier",
    }

    pub(crate) struct NodeOverhead {
        pub(crate) per_pod: Option<Amount> = "perPod",
        pub(crate) per_container: Option<Amount> = "perContainer",
    }

    /// The value of an attribute: one of these. `null`, which removes, is for patches alone.
    pub(crate) struct Attribute {
        pub(crate) int: Option<i64> = "int",
        pub(crate) bool: Option<bool> = "bool",
        pub(crate) string: Option<String> = "string",
        pub(crate) version: Option<String> = "version",
        pub(crate) ints: Nullable<Vec<i64>> = "ints",
        pub(crate) bools: Nullable<Vec<bool>> = "bools",
        pub(crate) strings: Nullable<Vec<String>> = "strings",
        pub(crate) versions: Nullable<Vec<String>> = "versions",
        pub(crate) null: Option<Null> = "null",
    }

    pub(crate) struct Null {}

    pub(crate) struct Capacity {
        pub(crate) value: Option<Amount> = "value",
        pub(crate) request_policy: Option<RequestPolicy> = "requestPolicy",
    }

    pub(crate) struct RequestPolicy {
        pub(crate) default: Option<Amount> = "default",
        pub(crate) valid_values: Nullable<Vec<Amount>> = "validValues",
        pub(crate) valid_range: Option<ValidRange> = "validRange",
    }

    pub(crate) struct ValidRange {
        pub(crate) min: Option<Amount> = "min",
        pub(crate) max: Option<Amount> = "max",
        pub(crate) step: Option<Amount> = "step",
    }

    pub(crate) struct CounterConsumption {
        pub(crate) counter_set: Nullable<String> = "counterSet",
        pub(crate) counters: Nullable<BTreeMap<String, Counter>> = "counters",
        pub(crate) compatibility_groups: Nullable<Vec<String>> = "compatibilityGroups",
    }

    pub(crate) struct CounterSet {
        pub(crate) name: Nullable<String> = "name",
        pub(crate) counters: Nullable<BTreeMap<String, Counter>> = "counters",
    }

    pub(crate) struct Counter {
        pub(crate) value: Option<Amount> = "value",
    }
}
