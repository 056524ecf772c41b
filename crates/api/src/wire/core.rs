//! The parts of Pod, PodGroup and Node that matter to devices.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Condition, NodeSelector, Nullable, ObjectMeta, Taint, Toleration};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) metadata: Nullable<ObjectMeta>,
    pub(crate) spec: Nullable<PodSpec>,
    pub(crate) status: Nullable<PodStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodSpec {
    pub(crate) node_name: Nullable<String>,
    pub(crate) priority: Nullable<i32>,
    pub(crate) resource_claims: Nullable<Vec<PodClaim>>,
    pub(crate) scheduling_group: Nullable<SchedulingGroup>,
    pub(crate) node_selector: Nullable<BTreeMap<String, Nullable<String>>>,
    pub(crate) affinity: Nullable<Affinity>,
    pub(crate) tolerations: Nullable<Vec<Toleration>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Affinity {
    pub(crate) node_affinity: Nullable<NodeAffinity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NodeAffinity {
    pub(crate) required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct SchedulingGroup {
    pub(crate) pod_group_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodClaim {
    pub(crate) name: Nullable<String>,
    pub(crate) resource_claim_name: Option<String>,
    pub(crate) resource_claim_template_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodStatus {
    pub(crate) phase: Nullable<String>,
    pub(crate) resource_claim_statuses: Nullable<Vec<PodClaimStatus>>,
    pub(crate) extended_resource_claim_status: Nullable<ExtendedClaimStatus>,
    pub(crate) conditions: Nullable<Vec<Condition>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodClaimStatus {
    pub(crate) name: Nullable<String>,
    pub(crate) resource_claim_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ExtendedClaimStatus {
    pub(crate) resource_claim_name: Nullable<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodGroup {
    pub(crate) metadata: Nullable<ObjectMeta>,
    pub(crate) spec: Nullable<PodGroupSpec>,
    pub(crate) status: Nullable<PodGroupStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodGroupSpec {
    pub(crate) resource_claims: Nullable<Vec<PodClaim>>,
    pub(crate) scheduling_policy: Nullable<SchedulingPolicy>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SchedulingPolicy {
    pub(crate) gang: Option<Gang>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Gang {
    pub(crate) min_count: Nullable<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodGroupStatus {
    pub(crate) resource_claim_statuses: Nullable<Vec<PodClaimStatus>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Node {
    pub(crate) metadata: Nullable<ObjectMeta>,
    pub(crate) spec: Nullable<NodeSpec>,
    pub(crate) status: Nullable<NodeStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeSpec {
    pub(crate) taints: Nullable<Vec<Taint>>,
    pub(crate) unschedulable: Nullable<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NodeStatus {
    pub(crate) declared_features: Nullable<Vec<String>>,
}
