//! ResourceClaim, ResourceClaimTemplate and DeviceClass.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Amount, Instant, NodeSelector, Nullable, ObjectMeta, Raw};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceClaim {
    pub(crate) metadata: Nullable<ObjectMeta>,
    pub(crate) spec: Nullable<ClaimSpec>,
    pub(crate) status: Nullable<ClaimStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceClaimTemplate {
    pub(crate) metadata: Nullable<ObjectMeta>,
    pub(crate) spec: Nullable<TemplateSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TemplateSpec {
    pub(crate) spec: Nullable<ClaimSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClaimSpec {
    pub(crate) devices: Nullable<ClaimDevices>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClaimDevices {
    pub(crate) requests: Nullable<Vec<Request>>,
    pub(crate) constraints: Nullable<Vec<Constraint>>,
    pub(crate) config: Nullable<Vec<ClaimConfig>>,
}

/// A request in any of its places. At the top of a claim it has `exactly` or `firstAvailable`, or in v1beta1 the
/// fields themselves; within those two it only has the fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Request {
    pub(crate) name: Nullable<String>,
    pub(crate) exactly: Option<Box<Request>>,
    pub(crate) first_available: Nullable<Vec<Request>>,
    pub(crate) device_class_name: Nullable<String>,
    pub(crate) selectors: Nullable<Vec<Selector>>,
    pub(crate) allocation_mode: Nullable<String>,
    pub(crate) count: Nullable<i64>,
    pub(crate) admin_access: Option<bool>,
    pub(crate) tolerations: Nullable<Vec<Toleration>>,
    pub(crate) capacity: Option<Capacities>,
    pub(crate) derived_attributes: Nullable<Vec<DerivedAttribute>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Capacities {
    pub(crate) requests: Nullable<BTreeMap<String, Amount>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Selector {
    pub(crate) cel: Option<CelSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CelSelector {
    pub(crate) expression: Nullable<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DerivedAttribute {
    pub(crate) name: Nullable<String>,
    pub(crate) expression: Nullable<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Toleration {
    #[serde(skip_serializing_if = "Nullable::<String>::is_empty")]
    pub(crate) key: Nullable<String>,
    #[serde(skip_serializing_if = "Nullable::<String>::is_empty")]
    pub(crate) operator: Nullable<String>,
    #[serde(skip_serializing_if = "Nullable::<String>::is_empty")]
    pub(crate) value: Nullable<String>,
    #[serde(skip_serializing_if = "Nullable::<String>::is_empty")]
    pub(crate) effect: Nullable<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) toleration_seconds: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Constraint {
    pub(crate) requests: Nullable<Vec<String>>,
    pub(crate) match_attribute: Option<String>,
    pub(crate) distinct_attribute: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClaimConfig {
    pub(crate) requests: Nullable<Vec<String>>,
    pub(crate) opaque: Option<Opaque>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Opaque {
    pub(crate) driver: Nullable<String>,
    pub(crate) parameters: Option<Raw>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ClaimStatus {
    pub(crate) allocation: Option<Allocation>,
    pub(crate) reserved_for: Nullable<Vec<Consumer>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Consumer {
    pub(crate) api_group: Nullable<String>,
    pub(crate) resource: Nullable<String>,
    pub(crate) name: Nullable<String>,
    pub(crate) uid: Nullable<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Allocation {
    pub(crate) devices: Nullable<AllocationDevices>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_selector: Option<NodeSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) allocation_timestamp: Option<Instant>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct AllocationDevices {
    #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
    pub(crate) results: Nullable<Vec<DeviceResult>>,
    #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
    pub(crate) config: Nullable<Vec<AllocationConfig>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct DeviceResult {
    pub(crate) request: Nullable<String>,
    pub(crate) driver: Nullable<String>,
    pub(crate) pool: Nullable<String>,
    pub(crate) device: Nullable<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) admin_access: Option<bool>,
    #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
    pub(crate) tolerations: Nullable<Vec<Toleration>>,
    #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
    pub(crate) binding_conditions: Nullable<Vec<String>>,
    #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
    pub(crate) binding_failure_conditions: Nullable<Vec<String>>,
    #[serde(rename = "shareID", skip_serializing_if = "Option::is_none")]
    pub(crate) share_id: Option<String>,
    #[serde(skip_serializing_if = "no_capacity")]
    pub(crate) consumed_capacity: Nullable<BTreeMap<String, Amount>>,
    #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
    pub(crate) skip_node_operations: Nullable<Vec<String>>,
}

fn no_capacity(capacity: &Nullable<BTreeMap<String, Amount>>) -> bool {
    capacity.0.is_empty()
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct AllocationConfig {
    pub(crate) source: Nullable<String>,
    #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
    pub(crate) requests: Nullable<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) opaque: Option<Opaque>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DeviceClass {
    pub(crate) metadata: Nullable<ObjectMeta>,
    pub(crate) spec: Nullable<ClassSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ClassSpec {
    pub(crate) selectors: Nullable<Vec<Selector>>,
    pub(crate) config: Nullable<Vec<ClaimConfig>>,
    pub(crate) extended_resource_name: Option<String>,
}
