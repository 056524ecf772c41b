//! The parts of Pod that the cores read.

use std::collections::BTreeMap;

use super::{
    Amount, Condition, Instant, NodeSelector, NodeSelectorTerm, Nullable, ObjectMeta, Raw, Requirement,
    Toleration,
};
use crate::fields;

/// Amounts by resource.
pub(crate) type Amounts = Nullable<BTreeMap<String, Amount>>;
type Labels = Nullable<BTreeMap<String, Nullable<String>>>;
type Texts = Nullable<Vec<String>>;

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
        pub(crate) node_selector: Labels = "nodeSelector",
        pub(crate) affinity: Nullable<Affinity> = "affinity",
        pub(crate) tolerations: Nullable<Vec<Toleration>> = "tolerations",
        pub(crate) scheduler_name: Nullable<String> = "schedulerName",
        pub(crate) scheduling_gates: Nullable<Vec<Named>> = "schedulingGates",
        pub(crate) preemption_policy: Nullable<String> = "preemptionPolicy",
        pub(crate) init_containers: Nullable<Vec<Container>> = "initContainers",
        pub(crate) containers: Nullable<Vec<Container>> = "containers",
        pub(crate) resources: Nullable<Resources> = "resources",
        pub(crate) overhead: Amounts = "overhead",
        pub(crate) topology_spread_constraints: Nullable<Vec<SpreadConstraint>> = "topologySpreadConstraints",
    }

    pub(crate) struct Named {
        pub(crate) name: Nullable<String> = "name",
    }

    pub(crate) struct Container {
        pub(crate) name: Nullable<String> = "name",
        pub(crate) ports: Nullable<Vec<Port>> = "ports",
        pub(crate) resources: Nullable<Resources> = "resources",
        pub(crate) restart_policy: Nullable<String> = "restartPolicy",
    }

    pub(crate) struct Port {
        pub(crate) host_port: Nullable<i32> = "hostPort",
        pub(crate) protocol: Nullable<String> = "protocol",
        pub(crate) host_ip: Nullable<String> = "hostIP",
    }

    pub(crate) struct Resources {
        pub(crate) requests: Amounts = "requests",
        pub(crate) claims: Nullable<Vec<Named>> = "claims",
    }

    pub(crate) struct Affinity {
        pub(crate) node_affinity: Nullable<NodeAffinity> = "nodeAffinity",
        pub(crate) pod_affinity: Nullable<PodAffinity> = "podAffinity",
        pub(crate) pod_anti_affinity: Nullable<PodAffinity> = "podAntiAffinity",
    }

    pub(crate) struct NodeAffinity {
        pub(crate) required: Option<NodeSelector> = "requiredDuringSchedulingIgnoredDuringExecution",
        pub(crate) preferred: Nullable<Vec<PreferredNodes>> = "preferredDuringSchedulingIgnoredDuringExecution",
    }

    pub(crate) struct PreferredNodes {
        pub(crate) weight: Nullable<i32> = "weight",
        pub(crate) preference: Nullable<NodeSelectorTerm> = "preference",
    }

    pub(crate) struct PodAffinity {
        pub(crate) required: Nullable<Vec<PodTerm>> = "requiredDuringSchedulingIgnoredDuringExecution",
        pub(crate) preferred: Nullable<Vec<PreferredPods>> = "preferredDuringSchedulingIgnoredDuringExecution",
    }

    pub(crate) struct PreferredPods {
        pub(crate) weight: Nullable<i32> = "weight",
        pub(crate) pod_affinity_term: Nullable<PodTerm> = "podAffinityTerm",
    }

    pub(crate) struct PodTerm {
        pub(crate) label_selector: Option<LabelSelector> = "labelSelector",
        pub(crate) namespaces: Texts = "namespaces",
        pub(crate) namespace_selector: Option<LabelSelector> = "namespaceSelector",
        pub(crate) topology_key: Nullable<String> = "topologyKey",
        pub(crate) match_label_keys: Texts = "matchLabelKeys",
        pub(crate) mismatch_label_keys: Texts = "mismatchLabelKeys",
    }

    pub(crate) struct LabelSelector {
        pub(crate) match_labels: Labels = "matchLabels",
        pub(crate) match_expressions: Nullable<Vec<Requirement>> = "matchExpressions",
    }

    pub(crate) struct SpreadConstraint {
        pub(crate) max_skew: Nullable<i32> = "maxSkew",
        pub(crate) topology_key: Nullable<String> = "topologyKey",
        pub(crate) when_unsatisfiable: Nullable<String> = "whenUnsatisfiable",
        pub(crate) label_selector: Option<LabelSelector> = "labelSelector",
        pub(crate) match_label_keys: Texts = "matchLabelKeys",
        pub(crate) min_domains: Option<i32> = "minDomains",
        pub(crate) node_affinity_policy: Option<String> = "nodeAffinityPolicy",
        pub(crate) node_taints_policy: Option<String> = "nodeTaintsPolicy",
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
        pub(crate) conditions: Nullable<Vec<Condition>> = "conditions",
        pub(crate) start_time: Option<Instant> = "startTime",
        pub(crate) nominated_node_name: Nullable<String> = "nominatedNodeName",
        pub(crate) resource_claim_statuses: Nullable<Vec<PodClaimStatus>> = "resourceClaimStatuses",
        pub(crate) extended_resource_claim_status: Nullable<ExtendedClaimStatus> = "extendedResourceClaimStatus",
        pub(crate) init_container_statuses: Nullable<Vec<ContainerStatus>> = "initContainerStatuses",
        pub(crate) container_statuses: Nullable<Vec<ContainerStatus>> = "containerStatuses",
        pub(crate) node_allocatable: Nullable<Vec<NodeAllocatableStatus>> = "nodeAllocatableResourceClaimStatuses",
    }

    pub(crate) struct PodClaimStatus {
        pub(crate) name: Nullable<String> = "name",
        pub(crate) resource_claim_name: Option<String> = "resourceClaimName",
    }

    pub(crate) struct ExtendedClaimStatus {
        pub(crate) resource_claim_name: Nullable<String> = "resourceClaimName",
    }

    pub(crate) struct ContainerStatus {
        pub(crate) allocated: Nullable<Vec<AllocatedResource>> = "allocatedResourcesStatus",
    }

    pub(crate) struct AllocatedResource {
        pub(crate) name: Nullable<String> = "name",
        pub(crate) resources: Nullable<Vec<ResourceHealth>> = "resources",
    }

    pub(crate) struct ResourceHealth {
        pub(crate) resource_id: Nullable<String> = "resourceID",
        pub(crate) health: Nullable<String> = "health",
        pub(crate) message: Nullable<String> = "message",
    }

    pub(crate) struct NodeAllocatableStatus {
        pub(crate) resource_claim_name: Nullable<String> = "resourceClaimName",
        pub(crate) containers: Texts = "containers",
        pub(crate) mapping: Nullable<Vec<MappedResource>> = "mapping",
        pub(crate) overhead: Nullable<Vec<ResourceOverhead>> = "overhead",
    }

    pub(crate) struct MappedResource {
        pub(crate) name: Nullable<String> = "name",
        pub(crate) quantity: Option<Amount> = "quantity",
    }

    pub(crate) struct ResourceOverhead {
        pub(crate) name: Nullable<String> = "name",
        pub(crate) per_pod: Option<Amount> = "perPod",
        pub(crate) per_container: Option<Amount> = "perContainer",
    }
}
