//! DeviceTaintRule, ResourceSlicePatch, and taints.
//!
//! All below the spec and the status of a rule is written by the build script, from the table of v1alpha3.

use std::collections::BTreeMap;

use super::{Attribute, Capacity, Condition, Instant, Nullable, ObjectMeta, Raw, Selector};
use crate::fields;

fields! {
    pub(crate) struct DeviceTaintRule {
        pub(crate) metadata: Nullable<ObjectMeta> = "metadata",
        pub(crate) spec: Nullable<RuleSpec> = "spec",
        pub(crate) status: Nullable<RuleStatus> = "status",
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

include!(concat!(env!("OUT_DIR"), "/rule_fields.rs"));
