//! The kinds that controllers read and write, as they are called in addresses.

pub use lazaret_machine::Resource;

macro_rules! resources {
    ($($(#[$doc:meta])* $name:ident = $group:literal, $version:literal, $plural:literal, $kind:literal, $namespaced:literal;)*) => {
        $($(#[$doc])* pub static $name: Resource = Resource {
            group: $group, version: $version, plural: $plural, kind: $kind, namespaced: $namespaced,
        };)*
        /// Every kind that this crate names: what owns or is owned, and all that can be in a namespace. Pump them all, those
        /// of [`TYPED`](crate::TYPED) whole and the others' metadata; kinds beyond these are added with
        /// [`Workloads::learn`](crate::Workloads::learn).
        pub static KNOWN: &[&Resource] = &[$(&$name),*];
    };
}

resources! {
    /// Pods.
    PODS = "", "v1", "pods", "Pod", true;
    /// Nodes.
    NODES = "", "v1", "nodes", "Node", false;
    /// Namespaces.
    NAMESPACES = "", "v1", "namespaces", "Namespace", false;
    /// Service accounts.
    SERVICE_ACCOUNTS = "", "v1", "serviceaccounts", "ServiceAccount", true;
    /// Config maps.
    CONFIG_MAPS = "", "v1", "configmaps", "ConfigMap", true;
    /// Replication controllers.
    REPLICATION_CONTROLLERS = "", "v1", "replicationcontrollers", "ReplicationController", true;
    /// Deployments.
    DEPLOYMENTS = "apps", "v1", "deployments", "Deployment", true;
    /// Replica sets.
    REPLICA_SETS = "apps", "v1", "replicasets", "ReplicaSet", true;
    /// Stateful sets.
    STATEFUL_SETS = "apps", "v1", "statefulsets", "StatefulSet", true;
    /// Daemon sets.
    DAEMON_SETS = "apps", "v1", "daemonsets", "DaemonSet", true;
    /// Templates of stateful sets and daemon sets as they were.
    CONTROLLER_REVISIONS = "apps", "v1", "controllerrevisions", "ControllerRevision", true;
    /// Jobs.
    JOBS = "batch", "v1", "jobs", "Job", true;
    /// Jobs to come.
    CRON_JOBS = "batch", "v1", "cronjobs", "CronJob", true;
    /// Disruption budgets.
    BUDGETS = "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true;
    /// Leases, by which nodes say that they are alive.
    LEASES = "coordination.k8s.io", "v1", "leases", "Lease", true;
    /// Services.
    SERVICES = "", "v1", "services", "Service", true;
    /// Endpoints.
    ENDPOINTS = "", "v1", "endpoints", "Endpoints", true;
    /// Endpoints in portions.
    ENDPOINT_SLICES = "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", true;
    /// Secrets; these and those below are known by their metadata alone.
    SECRETS = "", "v1", "secrets", "Secret", true;
    /// Claims of storage.
    VOLUME_CLAIMS = "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true;
    /// Storage.
    VOLUMES = "", "v1", "persistentvolumes", "PersistentVolume", false;
    /// Templates of pods.
    POD_TEMPLATES = "", "v1", "podtemplates", "PodTemplate", true;
    /// Limits of a namespace.
    LIMIT_RANGES = "", "v1", "limitranges", "LimitRange", true;
    /// Quotas of a namespace.
    QUOTAS = "", "v1", "resourcequotas", "ResourceQuota", true;
    /// Roles.
    ROLES = "rbac.authorization.k8s.io", "v1", "roles", "Role", true;
    /// Grants of roles to subjects.
    ROLE_BINDINGS = "rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", true;
    /// Free storage.
    STORAGE_CAPACITIES = "storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", true;
    /// CSI drivers of a node, which owns the list.
    CSI_NODES = "storage.k8s.io", "v1", "csinodes", "CSINode", false;
    /// Claims of devices.
    CLAIMS = "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", true;
    /// Templates of claims of devices.
    CLAIM_TEMPLATES = "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", true;
    /// Devices; a node owns its own.
    SLICES = "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", false;
    /// Classes of devices.
    DEVICE_CLASSES = "resource.k8s.io", "v1", "deviceclasses", "DeviceClass", false;
    /// Rules that taint devices.
    TAINT_RULES = "resource.k8s.io", "v1", "devicetaintrules", "DeviceTaintRule", false;
    /// Patches of devices.
    SLICE_PATCHES = "resource.k8s.io", "v1alpha3", "resourceslicepatches", "ResourceSlicePatch", false;
    /// Requests for the status of resource pools.
    POOL_STATUS_REQUESTS = "resource.k8s.io", "v1alpha3", "resourcepoolstatusrequests", "ResourcePoolStatusRequest", false;
    /// Classic claims.
    CLASSIC_CLAIMS = "cdi.k8s.io", "v1alpha1", "resourceclaims", "ResourceClaim", true;
    /// Classes of classic claims.
    CLASSIC_CLASSES = "cdi.k8s.io", "v1alpha1", "resourceclasses", "ResourceClass", false;
    /// Groups of pods.
    POD_GROUPS = "scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", true;
    /// Priorities of pods.
    PRIORITY_CLASSES = "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false;
    /// Roles in the whole cluster.
    CLUSTER_ROLES = "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false;
    /// Bindings of cluster roles.
    CLUSTER_ROLE_BINDINGS = "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", false;
    /// Classes of storage.
    STORAGE_CLASSES = "storage.k8s.io", "v1", "storageclasses", "StorageClass", false;
    /// Drivers of storage.
    CSI_DRIVERS = "storage.k8s.io", "v1", "csidrivers", "CSIDriver", false;
    /// Storage that is attached to nodes.
    VOLUME_ATTACHMENTS = "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", false;
    /// Policies of admission.
    ADMISSION_POLICIES = "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", false;
    /// Where policies of admission apply.
    ADMISSION_BINDINGS = "admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", false;
    /// Webhooks that may change objects.
    MUTATING_WEBHOOKS = "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", false;
    /// Webhooks that may refuse requests.
    VALIDATING_WEBHOOKS = "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", false;
    /// Autoscalers of pods.
    AUTOSCALERS = "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", true;
    /// Ingresses.
    INGRESSES = "networking.k8s.io", "v1", "ingresses", "Ingress", true;
    /// Network policies.
    NETWORK_POLICIES = "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", true;
    /// Classes of ingresses.
    INGRESS_CLASSES = "networking.k8s.io", "v1", "ingressclasses", "IngressClass", false;
    /// Runtime classes.
    RUNTIME_CLASSES = "node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", false;
    /// Custom resource definitions.
    DEFINITIONS = "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false;
}
