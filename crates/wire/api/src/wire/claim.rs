//! ResourceClaim, ResourceClaimTemplate and DeviceClass.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Amount, Instant, NodeSelector, Nullable, ObjectMeta, Raw};
use crate::fields;

fields! {
    pub(crate) struct ResourceClaim {
        pub(crate) metadata: Nullable<ObjectMeta> = "metadata",
        pub(crate) spec: Nullable<ClaimSpec> = "spec",
        pub(crate) status: Nullable<ClaimStatus> = "status",
    }

    pub(crate) struct ResourceClaimTemplate {
        pub(crate) metadata: Nullable<ObjectMeta> = "metadata",
        pub(crate) spec: Nullable<TemplateSpec> = "spec",
    }

    pub(crate) struct TemplateSpec {
        pub(crate) spec: Nullable<ClaimSpec> = "spec",
    }

    pub(crate) struct ClaimSpec {
        pub(crate) devices: Nullable<ClaimDevices> = "devices",
    }

    pub(crate) struct ClaimDevices {
        pub(crate) requests: Nullable<Vec<Request>> = "requests",
        pub(crate) constraints: Nullable<Vec<Constraint>> = "constraints",
        pub(crate) config: Nullable<Vec<ClaimConfig>> = "config",
    }

    /// A request in any of its places. At the top of a claim it has `exactly` or `firstAvailable`, or in v1beta1 the
    /// fields themselves; within those two it only has the fields.
    pub(crate) struct Request {
        pub(crate) name: Nullable<String> = "name",
        pub(crate) exactly: Option<Box<Request>> = "exactly",
        pub(crate) first_available: Nullable<Vec<Request>> = "firstAvailable",
        pub(crate) device_class_name: Nullable<String> = "deviceClassName",
        pub(crate) selectors: Nullable<Vec<Selector>> = "selectors",
        pub(crate) allocation_mode: Nullable<String> = "allocationMode",
        pub(crate) count: Nullable<i64> = "count",
        pub(crate) admin_access: Option<bool> = "adminAccess",
        pub(crate) tolerations: Nullable<Vec<Toleration>> = "tolerations",
        pub(crate) capacity: Option<Capacities> = "capacity",
        pub(crate) derived_attributes: Nullable<Vec<DerivedAttribute>> = "derivedAttributes",
    }

    pub(crate) struct Capacities {
        pub(crate) requests: Nullable<BTreeMap<String, Amount>> = "requests",
    }

    pub(crate) struct Selector {
        pub(crate) cel: Option<CelSelector> = "cel",
    }

    pub(crate) struct CelSelector {
        pub(crate) expression: Nullable<String> = "expression",
    }

    pub(crate) struct DerivedAttribute {
        pub(crate) name: Nullable<String> = "name",
        pub(crate) expression: Nullable<String> = "expression",
    }

    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    pub(crate) struct Toleration {
        #[serde(skip_serializing_if = "Nullable::<String>::is_empty")]
        pub(crate) key: Nullable<String> = "key",
        #[serde(skip_serializing_if = "Nullable::<String>::is_empty")]
        pub(crate) operator: Nullable<String> = "operator",
        #[serde(skip_serializing_if = "Nullable::<String>::is_empty")]
        pub(crate) value: Nullable<String> = "value",
        #[serde(skip_serializing_if = "Nullable::<String>::is_empty")]
        pub(crate) effect: Nullable<String> = "effect",
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) toleration_seconds: Option<i64> = "tolerationSeconds",
    }

    pub(crate) struct Constraint {
        pub(crate) requests: Nullable<Vec<String>> = "requests",
        pub(crate) match_attribute: Option<String> = "matchAttribute",
        pub(crate) distinct_attribute: Option<String> = "distinctAttribute",
    }

    pub(crate) struct ClaimConfig {
        pub(crate) requests: Nullable<Vec<String>> = "requests",
        pub(crate) opaque: Option<Opaque> = "opaque",
    }

    #[derive(Serialize)]
    pub(crate) struct Opaque {
        pub(crate) driver: Nullable<String> = "driver",
        pub(crate) parameters: Option<Raw> = "parameters",
    }

    pub(crate) struct ClaimStatus {
        pub(crate) allocation: Option<Allocation> = "allocation",
        pub(crate) reserved_for: Nullable<Vec<Consumer>> = "reservedFor",
    }

    pub(crate) struct Consumer {
        pub(crate) api_group: Nullable<String> = "apiGroup",
        pub(crate) resource: Nullable<String> = "resource",
        pub(crate) name: Nullable<String> = "name",
        pub(crate) uid: Nullable<String> = "uid",
    }

    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    pub(crate) struct Allocation {
        pub(crate) devices: Nullable<AllocationDevices> = "devices",
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) node_selector: Option<NodeSelector> = "nodeSelector",
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) allocation_timestamp: Option<Instant> = "allocationTimestamp",
    }

    #[derive(Serialize)]
    pub(crate) struct AllocationDevices {
        #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
        pub(crate) results: Nullable<Vec<DeviceResult>> = "results",
        #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
        pub(crate) config: Nullable<Vec<AllocationConfig>> = "config",
    }

    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    pub(crate) struct DeviceResult {
        pub(crate) request: Nullable<String> = "request",
        pub(crate) driver: Nullable<String> = "driver",
        pub(crate) pool: Nullable<String> = "pool",
        pub(crate) device: Nullable<String> = "device",
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) admin_access: Option<bool> = "adminAccess",
        #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
        pub(crate) tolerations: Nullable<Vec<Toleration>> = "tolerations",
        #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
        pub(crate) binding_conditions: Nullable<Vec<String>> = "bindingConditions",
        #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
        pub(crate) binding_failure_conditions: Nullable<Vec<String>> = "bindingFailureConditions",
        #[serde(rename = "shareID", skip_serializing_if = "Option::is_none")]
        pub(crate) share_id: Option<String> = "shareID",
        #[serde(skip_serializing_if = "no_capacity")]
        pub(crate) consumed_capacity: Nullable<BTreeMap<String, Amount>> = "consumedCapacity",
        #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
        pub(crate) skip_node_operations: Nullable<Vec<String>> = "skipNodeOperations",
    }
}

fn no_capacity(capacity: &Nullable<BTreeMap<String, Amount>>) -> bool {
    capacity.0.is_empty()
}

fields! {
    #[derive(Serialize)]
    pub(crate) struct AllocationConfig {
        pub(crate) source: Nullable<String> = "source",
        #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
        pub(crate) requests: Nullable<Vec<String>> = "requests",
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) opaque: Option<Opaque> = "opaque",
    }

    pub(crate) struct DeviceClass {
        pub(crate) metadata: Nullable<ObjectMeta> = "metadata",
        pub(crate) spec: Nullable<ClassSpec> = "spec",
    }

    pub(crate) struct ClassSpec {
        pub(crate) selectors: Nullable<Vec<Selector>> = "selectors",
        pub(crate) config: Nullable<Vec<ClaimConfig>> = "config",
        pub(crate) extended_resource_name: Option<String> = "extendedResourceName",
    }
}
