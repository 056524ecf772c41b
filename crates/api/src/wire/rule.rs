//! DeviceTaintRule, ResourceSlicePatch, and taints.

use std::collections::BTreeMap;

use super::{Attribute, Capacity, Condition, Instant, Nullable, ObjectMeta, Raw, Selector};
use crate::fields;

fields! {
    pub(crate) struct DeviceTaintRule {
        pub(crate) metadata: Nullable<ObjectMeta> = "metadata",
        pub(crate) spec: Nullable<RuleSpec> = "spec",
        pub(crate) status: Nullable<RuleStatus> = "status",
    }

    pub(crate) struct RuleSpec {
        pub(crate) device_selector: Option<DeviceSelector> = "deviceSelector",
        pub(crate) taint: Nullable<Taint> = "taint",
        pub(crate) eviction: Option<Eviction> = "eviction",
        pub(crate) expires_at: Option<Instant> = "expiresAt",
    }

    /// How pods leave, in v1alpha3 alone.
    pub(crate) struct Eviction {
        pub(crate) mode: Nullable<String> = "mode",
        pub(crate) deadline_seconds: Option<i64> = "deadlineSeconds",
        pub(crate) max_concurrent: Option<i64> = "maxConcurrent",
        pub(crate) windows: Nullable<Vec<Window>> = "windows",
        pub(crate) groups: Nullable<String> = "groups",
        pub(crate) capacity: Nullable<String> = "capacity",
        pub(crate) capacity_timeout_seconds: Option<i64> = "capacityTimeoutSeconds",
    }

    pub(crate) struct Window {
        pub(crate) start: Nullable<String> = "start",
        pub(crate) duration: Nullable<String> = "duration",
        pub(crate) time_zone: Nullable<String> = "timeZone",
    }

    pub(crate) struct RuleStatus {
        pub(crate) conditions: Nullable<Vec<Condition>> = "conditions",
        pub(crate) evictions: Option<RuleEvictions> = "evictions",
    }

    /// Counts of evictions, in v1alpha3 alone.
    pub(crate) struct RuleEvictions {
        pub(crate) pods: Nullable<i64> = "pods",
        pub(crate) at_least: Nullable<bool> = "atLeast",
        pub(crate) until: Option<Instant> = "until",
    }

    /// Which devices. Class and selectors are in v1alpha3 alone.
    pub(crate) struct DeviceSelector {
        pub(crate) device_class_name: Option<String> = "deviceClassName",
        pub(crate) driver: Option<String> = "driver",
        pub(crate) pool: Option<String> = "pool",
        pub(crate) device: Option<String> = "device",
        pub(crate) selectors: Nullable<Vec<Selector>> = "selectors",
    }

    /// A taint. Pace, description and data are in v1alpha3 alone.
    pub(crate) struct Taint {
        pub(crate) key: Nullable<String> = "key",
        pub(crate) value: Nullable<String> = "value",
        pub(crate) effect: Nullable<String> = "effect",
        pub(crate) time_added: Option<Instant> = "timeAdded",
        pub(crate) evictions_per_second: Option<i64> = "evictionsPerSecond",
        pub(crate) description: Option<String> = "description",
        pub(crate) data: Option<Raw> = "data",
    }

    pub(crate) struct ResourceSlicePatch {
        pub(crate) metadata: Nullable<ObjectMeta> = "metadata",
        pub(crate) spec: Nullable<PatchSpec> = "spec",
    }

    pub(crate) struct PatchSpec {
        pub(crate) devices: Nullable<DevicePatch> = "devices",
    }

    /// The overridden devices and their new values: the selector is called `filter` in the first draft of the kind.
    pub(crate) struct DevicePatch {
        pub(crate) filter: Option<DeviceSelector> = "filter",
        pub(crate) device_selector: Option<DeviceSelector> = "deviceSelector",
        pub(crate) priority: Nullable<i64> = "priority",
        pub(crate) attributes: Nullable<BTreeMap<String, Attribute>> = "attributes",
        pub(crate) capacity: Nullable<BTreeMap<String, Capacity>> = "capacity",
        pub(crate) taints: Nullable<Vec<Taint>> = "taints",
    }
}
