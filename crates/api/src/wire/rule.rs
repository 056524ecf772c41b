//! DeviceTaintRule, ResourceSlicePatch, and taints.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Attribute, Capacity, Condition, Instant, Nullable, ObjectMeta, Raw, Selector};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DeviceTaintRule {
    pub(crate) metadata: Nullable<ObjectMeta>,
    pub(crate) spec: Nullable<RuleSpec>,
    pub(crate) status: Nullable<RuleStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RuleSpec {
    pub(crate) device_selector: Option<DeviceSelector>,
    pub(crate) taint: Nullable<Taint>,
    pub(crate) eviction: Option<Eviction>,
    pub(crate) expires_at: Option<Instant>,
}

/// How pods leave, in v1alpha3 alone.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Eviction {
    pub(crate) mode: Nullable<String>,
    pub(crate) deadline_seconds: Option<i64>,
    pub(crate) max_concurrent: Option<i64>,
    pub(crate) windows: Nullable<Vec<Window>>,
    pub(crate) groups: Nullable<String>,
    pub(crate) capacity: Nullable<String>,
    pub(crate) capacity_timeout_seconds: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Window {
    pub(crate) start: Nullable<String>,
    pub(crate) duration: Nullable<String>,
    pub(crate) time_zone: Nullable<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RuleStatus {
    pub(crate) conditions: Nullable<Vec<Condition>>,
    pub(crate) evictions: Option<RuleEvictions>,
}

/// Counts of evictions, in v1alpha3 alone.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RuleEvictions {
    pub(crate) pods: Nullable<i64>,
    pub(crate) at_least: Nullable<bool>,
    pub(crate) until: Option<Instant>,
}

/// Which devices. Class and selectors are in v1alpha3 alone.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct DeviceSelector {
    pub(crate) device_class_name: Option<String>,
    pub(crate) driver: Option<String>,
    pub(crate) pool: Option<String>,
    pub(crate) device: Option<String>,
    pub(crate) selectors: Nullable<Vec<Selector>>,
}

/// A taint. Pace, description and data are in v1alpha3 alone.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Taint {
    pub(crate) key: Nullable<String>,
    pub(crate) value: Nullable<String>,
    pub(crate) effect: Nullable<String>,
    pub(crate) time_added: Option<Instant>,
    pub(crate) evictions_per_second: Option<i64>,
    pub(crate) description: Option<String>,
    pub(crate) data: Option<Raw>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceSlicePatch {
    pub(crate) metadata: Nullable<ObjectMeta>,
    pub(crate) spec: Nullable<PatchSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PatchSpec {
    pub(crate) devices: Nullable<DevicePatch>,
}

/// What is overridden, and where: the selector is called `filter` in the first draft of the kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct DevicePatch {
    pub(crate) filter: Option<DeviceSelector>,
    pub(crate) device_selector: Option<DeviceSelector>,
    pub(crate) priority: Nullable<i64>,
    pub(crate) attributes: Nullable<BTreeMap<String, Attribute>>,
    pub(crate) capacity: Nullable<BTreeMap<String, Capacity>>,
    pub(crate) taints: Nullable<Vec<Taint>>,
}
