//! The resources that agents watch and write.

pub use lazaret_machine::Resource;

macro_rules! resources {
    ($($(#[$doc:meta])* $name:ident: $group:literal $version:literal $plural:literal $kind:literal $namespaced:literal;)*) => {
        $($(#[$doc])* pub const $name: Resource = Resource {
            group: $group, version: $version, plural: $plural, kind: $kind, namespaced: $namespaced,
        };)*
    };
}

resources! {
    /// Pods.
    PODS: "" "v1" "pods" "Pod" true;
    /// Nodes.
    NODES: "" "v1" "nodes" "Node" false;
    /// Namespaces.
    NAMESPACES: "" "v1" "namespaces" "Namespace" false;
    /// Service accounts.
    SERVICE_ACCOUNTS: "" "v1" "serviceaccounts" "ServiceAccount" true;
    /// Configuration maps.
    CONFIG_MAPS: "" "v1" "configmaps" "ConfigMap" true;
    /// Secrets.
    SECRETS: "" "v1" "secrets" "Secret" true;
    /// Events of the core group.
    EVENTS: "" "v1" "events" "Event" true;
    /// Claims of volumes.
    VOLUME_CLAIMS: "" "v1" "persistentvolumeclaims" "PersistentVolumeClaim" true;
    /// Volumes.
    VOLUMES: "" "v1" "persistentvolumes" "PersistentVolume" false;
    /// Leases.
    LEASES: "coordination.k8s.io" "v1" "leases" "Lease" true;
    /// Deployments.
    DEPLOYMENTS: "apps" "v1" "deployments" "Deployment" true;
    /// Replica sets.
    REPLICA_SETS: "apps" "v1" "replicasets" "ReplicaSet" true;
    /// Stateful sets.
    STATEFUL_SETS: "apps" "v1" "statefulsets" "StatefulSet" true;
    /// Jobs.
    JOBS: "batch" "v1" "jobs" "Job" true;
    /// Disruption budgets.
    DISRUPTION_BUDGETS: "policy" "v1" "poddisruptionbudgets" "PodDisruptionBudget" true;
    /// Groups of pods.
    POD_GROUPS: "scheduling.k8s.io" "v1beta1" "podgroups" "PodGroup" true;
    /// Slices.
    SLICES: "resource.k8s.io" "v1" "resourceslices" "ResourceSlice" false;
    /// Slices with what only the widest version shows.
    SLICES_V1ALPHA3: "resource.k8s.io" "v1alpha3" "resourceslices" "ResourceSlice" false;
    /// Claims.
    CLAIMS: "resource.k8s.io" "v1" "resourceclaims" "ResourceClaim" true;
    /// Claim templates.
    CLAIM_TEMPLATES: "resource.k8s.io" "v1" "resourceclaimtemplates" "ResourceClaimTemplate" true;
    /// Device classes.
    CLASSES: "resource.k8s.io" "v1" "deviceclasses" "DeviceClass" false;
    /// Taint rules.
    RULES: "resource.k8s.io" "v1" "devicetaintrules" "DeviceTaintRule" false;
    /// Taint rules as Kubernetes 1.36 has them.
    RULES_V1BETA2: "resource.k8s.io" "v1beta2" "devicetaintrules" "DeviceTaintRule" false;
    /// Taint rules with what only the widest version shows, and as Kubernetes 1.34 and 1.35 have them.
    RULES_V1ALPHA3: "resource.k8s.io" "v1alpha3" "devicetaintrules" "DeviceTaintRule" false;
    /// Patches of devices.
    PATCHES: "resource.k8s.io" "v1alpha3" "resourceslicepatches" "ResourceSlicePatch" false;
    /// Requests for the status of resource pools.
    POOL_STATUS_REQUESTS: "resource.k8s.io" "v1alpha3" "resourcepoolstatusrequests" "ResourcePoolStatusRequest" false;
    /// Classic claims.
    CLASSIC_CLAIMS: "cdi.k8s.io" "v1alpha1" "resourceclaims" "ResourceClaim" true;
    /// Classes of classic claims.
    CLASSIC_CLASSES: "cdi.k8s.io" "v1alpha1" "resourceclasses" "ResourceClass" false;
    /// Policies that taint devices by class and expression.
    TAINT_POLICIES: "lazaret.dev" "v1alpha1" "devicetaintpolicies" "DeviceTaintPolicy" false;
    /// Patches of devices on a server that has none in `resource.k8s.io`.
    OWN_PATCHES: "lazaret.dev" "v1alpha1" "resourceslicepatches" "ResourceSlicePatch" false;
    /// Limits that evictions must never exceed.
    DISRUPTION_GUARDS: "lazaret.dev" "v1alpha1" "disruptionguards" "DisruptionGuard" false;
    /// Policies that say which signals make a device unhealthy and which make it healthy.
    HEALTH_POLICIES: "lazaret.dev" "v1alpha1" "devicehealthpolicies" "DeviceHealthPolicy" false;
    /// Incidents of devices, from the first signal to the end.
    INCIDENTS: "lazaret.dev" "v1alpha1" "deviceincidents" "DeviceIncident" false;
    /// Signals about devices from people and alerts.
    SIGNALS: "lazaret.dev" "v1alpha1" "devicesignals" "DeviceSignal" false;
    /// Policies that replace pods on tainted nodes and devices.
    REPLACEMENT_POLICIES: "lazaret.dev" "v1alpha1" "taintreplacementpolicies" "TaintReplacementPolicy" true;
}
