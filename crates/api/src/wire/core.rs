//! The parts of Pod, PodGroup and Node that matter to devices.

use std::collections::BTreeMap;

use super::{Condition, NodeSelector, Nullable, ObjectMeta, Raw, Taint, Toleration};
use crate::fields;

fields! {
    pub(crate) struct Pod {
        pub(crate) metadata: Nullable<ObjectMeta> = "metadata",
        pub(crate) spec: Nullable<PodSpec> = "spec",
        pub(crate) status: Nullable<PodStatus> = "status",
    }

    pub(crate) struct PodSpec {
        pub(crate) node_name: Nullable<String> = "nodeName",
        pub(crate) priority: Nullable<i32> = "priority",
        pub(crate) resource_claims: Nullable<Vec<PodClaim>> = "resourceClaims",
        pub(crate) scheduling_group: Nullable<SchedulingGroup> = "schedulingGroup",
        pub(crate) node_selector: Nullable<BTreeMap<String, Nullable<String>>> = "nodeSelector",
        pub(crate) affinity: Nullable<Affinity> = "affinity",
        pub(crate) tolerations: Nullable<Vec<Toleration>> = "tolerations",
    }

    pub(crate) struct Affinity {
        pub(crate) node_affinity: Nullable<NodeAffinity> = "nodeAffinity",
    }

    pub(crate) struct NodeAffinity {
        pub(crate) required_during_scheduling_ignored_during_execution: Option<NodeSelector> = "requiredDuringSchedulingIgnoredDuringExecution",
    }

    pub(crate) struct SchedulingGroup {
        pub(crate) pod_group_name: Option<String> = "podGroupName",
    }

    pub(crate) struct PodClaim {
        pub(crate) name: Nullable<String> = "name",
        pub(crate) resource_claim_name: Option<String> = "resourceClaimName",
        pub(crate) resource_claim_template_name: Option<String> = "resourceClaimTemplateName",
        pub(crate) classic_claim_name: Option<String> = "classicClaimName",
        pub(crate) template: Option<Raw> = "template",
    }

    pub(crate) struct PodStatus {
        pub(crate) phase: Nullable<String> = "phase",
        pub(crate) resource_claim_statuses: Nullable<Vec<PodClaimStatus>> = "resourceClaimStatuses",
        pub(crate) extended_resource_claim_status: Nullable<ExtendedClaimStatus> = "extendedResourceClaimStatus",
        pub(crate) conditions: Nullable<Vec<Condition>> = "conditions",
    }

    pub(crate) struct PodClaimStatus {
        pub(crate) name: Nullable<String> = "name",
        pub(crate) resource_claim_name: Option<String> = "resourceClaimName",
    }

    pub(crate) struct ExtendedClaimStatus {
        pub(crate) resource_claim_name: Nullable<String> = "resourceClaimName",
    }

    pub(crate) struct PodGroup {
        pub(crate) metadata: Nullable<ObjectMeta> = "metadata",
        pub(crate) spec: Nullable<PodGroupSpec> = "spec",
        pub(crate) status: Nullable<PodGroupStatus> = "status",
    }

    pub(crate) struct PodGroupSpec {
        pub(crate) resource_claims: Nullable<Vec<PodClaim>> = "resourceClaims",
        pub(crate) scheduling_policy: Nullable<SchedulingPolicy> = "schedulingPolicy",
    }

    pub(crate) struct SchedulingPolicy {
        pub(crate) gang: Option<Gang> = "gang",
    }

    pub(crate) struct Gang {
        pub(crate) min_count: Nullable<u32> = "minCount",
    }

    pub(crate) struct PodGroupStatus {
        pub(crate) resource_claim_statuses: Nullable<Vec<PodClaimStatus>> = "resourceClaimStatuses",
    }

    pub(crate) struct Node {
        pub(crate) metadata: Nullable<ObjectMeta> = "metadata",
        pub(crate) spec: Nullable<NodeSpec> = "spec",
        pub(crate) status: Nullable<NodeStatus> = "status",
    }

    pub(crate) struct NodeSpec {
        pub(crate) taints: Nullable<Vec<Taint>> = "taints",
        pub(crate) unschedulable: Nullable<bool> = "unschedulable",
    }

    pub(crate) struct NodeStatus {
        pub(crate) declared_features: Nullable<Vec<String>> = "declaredFeatures",
    }
}
