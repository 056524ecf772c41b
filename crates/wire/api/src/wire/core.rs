//! The parts of PodGroup and Node that matter to devices.

use super::{Nullable, ObjectMeta, PodClaim, PodClaimStatus, Taint};
use crate::fields;

fields! {
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
