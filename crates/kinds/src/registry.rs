//! All kinds that the server knows, in the order in which discovery shows their groups.

use crate::{
    apps::{CronJob, DaemonSet, Deployment, Job, ReplicaSet, ReplicationController, StatefulSet},
    core::{
        ConfigMap, CoreEvent, Endpoints, Namespace, NewEvent, Node, PersistentVolume, PersistentVolumeClaim,
        Pod, PriorityClass, Secret, Service, ServiceAccount,
    },
    crd::CustomResourceDefinition,
    kind::{Kind, Scope, Served, Subresource, Verbs},
    lease::Lease,
    policy::DisruptionBudget,
    rbac::{ClusterRoleBinding, Role, RoleBinding},
    resource::{Claim, Class, Patch, Rule, Slice, Template},
    rules::Rules,
};

/// Every kind.
#[must_use]
pub fn all() -> &'static [Kind] {
    KINDS
}

/// The kind with this plural name in a group.
#[must_use]
pub fn find(group: &str, plural: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.group == group && kind.plural == plural)
}

/// The kind of this name in a group.
#[must_use]
pub fn find_kind(group: &str, name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.group == group && kind.kind == name)
}

/// Stored and served, nothing more.
#[derive(Debug)]
struct Plain;

impl Rules for Plain {}

const STATUS: Subresource = Subresource { name: "status", takes: None, verbs: &["get", "patch", "update"] };
const SCALE: Subresource = Subresource {
    name: "scale",
    takes: Some(("autoscaling", "v1", "Scale")),
    verbs: &["get", "patch", "update"],
};

/// A kind that is namespaced, stored, and like most others; the constants below change what differs.
const BASE: Kind = Kind {
    group: "",
    kind: "",
    plural: "",
    singular: "",
    short: &[],
    categories: &[],
    scope: Scope::Namespaced,
    versions: &[],
    subresources: &[],
    verbs: Verbs::All,
    generation: false,
    unconditional_update: true,
    create_on_update: false,
    delete_returns_object: false,
    rules: &Plain,
};

const CLUSTER: Kind = Kind { scope: Scope::Cluster, ..BASE };

const fn v1(shape: &'static str) -> [Served; 1] {
    [Served { version: "v1", shape, by_default: true }]
}

/// Versions of `resource.k8s.io`: v1 unless asked for more.
const fn resource<const N: usize>(shapes: [&'static str; N], versions: [&'static str; N]) -> [Served; N] {
    let mut served = [Served { version: "v1", shape: "", by_default: true }; N];
    let mut at = 0;
    while at < N {
        served[at] = Served { version: versions[at], shape: shapes[at], by_default: at == 0 };
        at += 1;
    }
    served
}

static KINDS: &[Kind] = &[
    Kind {
        kind: "Pod",
        rules: &Pod,
        plural: "pods",
        singular: "pod",
        short: &["po"],
        categories: &["all"],
        versions: &v1("core/v1.Pod"),
        generation: true,
        delete_returns_object: true,
        subresources: &[
            STATUS,
            Subresource { name: "binding", takes: Some(("", "v1", "Binding")), verbs: &["create"] },
            Subresource { name: "eviction", takes: Some(("policy", "v1", "Eviction")), verbs: &["create"] },
        ],
        ..BASE
    },
    Kind {
        kind: "Node",
        rules: &Node,
        plural: "nodes",
        singular: "node",
        short: &["no"],
        versions: &v1("core/v1.Node"),
        subresources: &[STATUS],
        ..CLUSTER
    },
    Kind {
        kind: "Namespace",
        rules: &Namespace,
        plural: "namespaces",
        singular: "namespace",
        short: &["ns"],
        versions: &v1("core/v1.Namespace"),
        delete_returns_object: true,
        subresources: &[STATUS, Subresource { name: "finalize", takes: None, verbs: &["update"] }],
        ..CLUSTER
    },
    Kind {
        kind: "Event",
        rules: &CoreEvent,
        plural: "events",
        singular: "event",
        short: &["ev"],
        versions: &v1("core/v1.Event"),
        create_on_update: true,
        ..BASE
    },
    Kind {
        kind: "ConfigMap",
        rules: &ConfigMap,
        plural: "configmaps",
        singular: "configmap",
        short: &["cm"],
        versions: &v1("core/v1.ConfigMap"),
        ..BASE
    },
    Kind {
        kind: "Secret",
        rules: &Secret,
        plural: "secrets",
        singular: "secret",
        versions: &v1("core/v1.Secret"),
        ..BASE
    },
    Kind {
        kind: "ServiceAccount",
        rules: &ServiceAccount,
        plural: "serviceaccounts",
        singular: "serviceaccount",
        short: &["sa"],
        versions: &v1("core/v1.ServiceAccount"),
        delete_returns_object: true,
        subresources: &[Subresource {
            name: "token",
            takes: Some(("authentication.k8s.io", "v1", "TokenRequest")),
            verbs: &["create"],
        }],
        ..BASE
    },
    Kind {
        kind: "Service",
        rules: &Service,
        plural: "services",
        singular: "service",
        short: &["svc"],
        categories: &["all"],
        versions: &v1("core/v1.Service"),
        subresources: &[STATUS],
        ..BASE
    },
    Kind {
        kind: "Endpoints",
        rules: &Endpoints,
        plural: "endpoints",
        singular: "endpoints",
        short: &["ep"],
        versions: &v1("core/v1.Endpoints"),
        ..BASE
    },
    Kind {
        kind: "ReplicationController",
        rules: &ReplicationController,
        plural: "replicationcontrollers",
        singular: "replicationcontroller",
        short: &["rc"],
        categories: &["all"],
        versions: &v1("core/v1.ReplicationController"),
        subresources: &[STATUS],
        generation: true,
        ..BASE
    },
    Kind {
        kind: "PersistentVolume",
        rules: &PersistentVolume,
        plural: "persistentvolumes",
        singular: "persistentvolume",
        short: &["pv"],
        versions: &v1("core/v1.PersistentVolume"),
        subresources: &[STATUS],
        ..CLUSTER
    },
    Kind {
        kind: "PersistentVolumeClaim",
        rules: &PersistentVolumeClaim,
        plural: "persistentvolumeclaims",
        singular: "persistentvolumeclaim",
        short: &["pvc"],
        versions: &v1("core/v1.PersistentVolumeClaim"),
        subresources: &[STATUS],
        ..BASE
    },
    Kind {
        kind: "PodTemplate",
        plural: "podtemplates",
        singular: "podtemplate",
        versions: &v1("core/v1.PodTemplate"),
        generation: true,
        ..BASE
    },
    Kind {
        kind: "LimitRange",
        plural: "limitranges",
        singular: "limitrange",
        short: &["limits"],
        versions: &v1("core/v1.LimitRange"),
        ..BASE
    },
    Kind {
        kind: "ResourceQuota",
        plural: "resourcequotas",
        singular: "resourcequota",
        short: &["quota"],
        versions: &v1("core/v1.ResourceQuota"),
        subresources: &[STATUS],
        ..BASE
    },
    Kind {
        group: "resource.k8s.io",
        kind: "ResourceSlice",
        rules: &Slice,
        plural: "resourceslices",
        singular: "resourceslice",
        generation: true,
        delete_returns_object: true,
        versions: &resource(
            [
                "resource/v1.ResourceSlice",
                "resource/v1beta2.ResourceSlice",
                "resource/v1beta1.ResourceSlice",
                "resource/v1alpha3.ResourceSlice",
            ],
            ["v1", "v1beta2", "v1beta1", "v1alpha3"],
        ),
        ..CLUSTER
    },
    Kind {
        group: "resource.k8s.io",
        kind: "ResourceClaim",
        rules: &Claim,
        plural: "resourceclaims",
        singular: "resourceclaim",
        delete_returns_object: true,
        subresources: &[STATUS],
        versions: &resource(
            ["resource/v1.ResourceClaim", "resource/v1beta2.ResourceClaim", "resource/v1beta1.ResourceClaim"],
            ["v1", "v1beta2", "v1beta1"],
        ),
        ..BASE
    },
    Kind {
        group: "resource.k8s.io",
        kind: "ResourceClaimTemplate",
        rules: &Template,
        plural: "resourceclaimtemplates",
        singular: "resourceclaimtemplate",
        delete_returns_object: true,
        versions: &resource(
            [
                "resource/v1.ResourceClaimTemplate",
                "resource/v1beta2.ResourceClaimTemplate",
                "resource/v1beta1.ResourceClaimTemplate",
            ],
            ["v1", "v1beta2", "v1beta1"],
        ),
        ..BASE
    },
    Kind {
        group: "resource.k8s.io",
        kind: "DeviceClass",
        rules: &Class,
        plural: "deviceclasses",
        singular: "deviceclass",
        generation: true,
        delete_returns_object: true,
        versions: &resource(
            ["resource/v1.DeviceClass", "resource/v1beta2.DeviceClass", "resource/v1beta1.DeviceClass"],
            ["v1", "v1beta2", "v1beta1"],
        ),
        ..CLUSTER
    },
    Kind {
        group: "resource.k8s.io",
        kind: "DeviceTaintRule",
        rules: &Rule,
        plural: "devicetaintrules",
        singular: "devicetaintrule",
        generation: true,
        subresources: &[STATUS],
        unconditional_update: false,
        delete_returns_object: true,
        versions: &resource(
            [
                "resource/v1.DeviceTaintRule",
                "resource/v1beta2.DeviceTaintRule",
                "resource/v1alpha3.DeviceTaintRule",
            ],
            ["v1", "v1beta2", "v1alpha3"],
        ),
        ..CLUSTER
    },
    Kind {
        group: "resource.k8s.io",
        kind: "ResourceSlicePatch",
        rules: &Patch,
        plural: "resourceslicepatches",
        singular: "resourceslicepatch",
        generation: true,
        delete_returns_object: true,
        versions: &resource(["resource/v1alpha3.ResourceSlicePatch"], ["v1alpha3"]),
        ..CLUSTER
    },
    Kind {
        group: "apps",
        kind: "Deployment",
        rules: &Deployment,
        plural: "deployments",
        singular: "deployment",
        short: &["deploy"],
        categories: &["all"],
        generation: true,
        versions: &v1("apps/v1.Deployment"),
        subresources: &[STATUS, SCALE],
        ..BASE
    },
    Kind {
        group: "apps",
        kind: "ReplicaSet",
        rules: &ReplicaSet,
        plural: "replicasets",
        singular: "replicaset",
        short: &["rs"],
        categories: &["all"],
        generation: true,
        versions: &v1("apps/v1.ReplicaSet"),
        subresources: &[STATUS, SCALE],
        ..BASE
    },
    Kind {
        group: "apps",
        kind: "StatefulSet",
        rules: &StatefulSet,
        plural: "statefulsets",
        singular: "statefulset",
        short: &["sts"],
        categories: &["all"],
        generation: true,
        versions: &v1("apps/v1.StatefulSet"),
        subresources: &[STATUS, SCALE],
        ..BASE
    },
    Kind {
        group: "apps",
        kind: "DaemonSet",
        rules: &DaemonSet,
        plural: "daemonsets",
        singular: "daemonset",
        short: &["ds"],
        categories: &["all"],
        generation: true,
        versions: &v1("apps/v1.DaemonSet"),
        subresources: &[STATUS],
        ..BASE
    },
    Kind {
        group: "apps",
        kind: "ControllerRevision",
        plural: "controllerrevisions",
        singular: "controllerrevision",
        versions: &v1("apps/v1.ControllerRevision"),
        ..BASE
    },
    Kind {
        group: "batch",
        kind: "Job",
        rules: &Job,
        plural: "jobs",
        singular: "job",
        categories: &["all"],
        generation: true,
        versions: &v1("batch/v1.Job"),
        subresources: &[STATUS],
        ..BASE
    },
    Kind {
        group: "batch",
        kind: "CronJob",
        rules: &CronJob,
        plural: "cronjobs",
        singular: "cronjob",
        short: &["cj"],
        categories: &["all"],
        generation: true,
        versions: &v1("batch/v1.CronJob"),
        subresources: &[STATUS],
        ..BASE
    },
    Kind {
        group: "policy",
        kind: "PodDisruptionBudget",
        rules: &DisruptionBudget,
        plural: "poddisruptionbudgets",
        singular: "poddisruptionbudget",
        short: &["pdb"],
        generation: true,
        unconditional_update: false,
        versions: &v1("policy/v1.PodDisruptionBudget"),
        subresources: &[STATUS],
        ..BASE
    },
    Kind {
        group: "rbac.authorization.k8s.io",
        kind: "Role",
        rules: &Role,
        plural: "roles",
        singular: "role",
        create_on_update: true,
        versions: &v1("rbac/v1.Role"),
        ..BASE
    },
    Kind {
        group: "rbac.authorization.k8s.io",
        kind: "RoleBinding",
        rules: &RoleBinding,
        plural: "rolebindings",
        singular: "rolebinding",
        create_on_update: true,
        versions: &v1("rbac/v1.RoleBinding"),
        ..BASE
    },
    Kind {
        group: "rbac.authorization.k8s.io",
        kind: "ClusterRole",
        rules: &Role,
        plural: "clusterroles",
        singular: "clusterrole",
        create_on_update: true,
        versions: &v1("rbac/v1.ClusterRole"),
        ..CLUSTER
    },
    Kind {
        group: "rbac.authorization.k8s.io",
        kind: "ClusterRoleBinding",
        rules: &ClusterRoleBinding,
        plural: "clusterrolebindings",
        singular: "clusterrolebinding",
        create_on_update: true,
        versions: &v1("rbac/v1.ClusterRoleBinding"),
        ..CLUSTER
    },
    Kind {
        group: "coordination.k8s.io",
        kind: "Lease",
        rules: &Lease,
        plural: "leases",
        singular: "lease",
        create_on_update: true,
        unconditional_update: false,
        versions: &v1("coordination/v1.Lease"),
        ..BASE
    },
    Kind {
        group: "events.k8s.io",
        kind: "Event",
        rules: &NewEvent,
        plural: "events",
        singular: "event",
        short: &["ev"],
        create_on_update: true,
        versions: &v1("events/v1.Event"),
        ..BASE
    },
    Kind {
        group: "scheduling.k8s.io",
        kind: "PriorityClass",
        rules: &PriorityClass,
        plural: "priorityclasses",
        singular: "priorityclass",
        short: &["pc"],
        generation: true,
        versions: &v1("scheduling/v1.PriorityClass"),
        ..CLUSTER
    },
    Kind {
        group: "storage.k8s.io",
        kind: "StorageClass",
        plural: "storageclasses",
        singular: "storageclass",
        short: &["sc"],
        versions: &v1("storage/v1.StorageClass"),
        ..CLUSTER
    },
    Kind {
        group: "storage.k8s.io",
        kind: "CSINode",
        plural: "csinodes",
        singular: "csinode",
        versions: &v1("storage/v1.CSINode"),
        ..CLUSTER
    },
    Kind {
        group: "storage.k8s.io",
        kind: "CSIDriver",
        plural: "csidrivers",
        singular: "csidriver",
        versions: &v1("storage/v1.CSIDriver"),
        ..CLUSTER
    },
    Kind {
        group: "storage.k8s.io",
        kind: "CSIStorageCapacity",
        plural: "csistoragecapacities",
        singular: "csistoragecapacity",
        versions: &v1("storage/v1.CSIStorageCapacity"),
        ..BASE
    },
    Kind {
        group: "storage.k8s.io",
        kind: "VolumeAttachment",
        plural: "volumeattachments",
        singular: "volumeattachment",
        subresources: &[STATUS],
        versions: &v1("storage/v1.VolumeAttachment"),
        ..CLUSTER
    },
    Kind {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingAdmissionPolicy",
        plural: "validatingadmissionpolicies",
        singular: "validatingadmissionpolicy",
        generation: true,
        subresources: &[STATUS],
        versions: &v1("admissionregistration/v1.ValidatingAdmissionPolicy"),
        ..CLUSTER
    },
    Kind {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingAdmissionPolicyBinding",
        plural: "validatingadmissionpolicybindings",
        singular: "validatingadmissionpolicybinding",
        generation: true,
        versions: &v1("admissionregistration/v1.ValidatingAdmissionPolicyBinding"),
        ..CLUSTER
    },
    Kind {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        rules: &CustomResourceDefinition,
        plural: "customresourcedefinitions",
        singular: "customresourcedefinition",
        short: &["crd", "crds"],
        generation: true,
        subresources: &[STATUS],
        versions: &v1("apiextensions/v1.CustomResourceDefinition"),
        ..CLUSTER
    },
    Kind {
        group: "authentication.k8s.io",
        kind: "TokenReview",
        plural: "tokenreviews",
        singular: "tokenreview",
        verbs: Verbs::Create,
        versions: &v1("authentication/v1.TokenReview"),
        ..CLUSTER
    },
    Kind {
        group: "authentication.k8s.io",
        kind: "SelfSubjectReview",
        plural: "selfsubjectreviews",
        singular: "selfsubjectreview",
        verbs: Verbs::Create,
        versions: &v1("authentication/v1.SelfSubjectReview"),
        ..CLUSTER
    },
    Kind {
        group: "authorization.k8s.io",
        kind: "SubjectAccessReview",
        plural: "subjectaccessreviews",
        singular: "subjectaccessreview",
        verbs: Verbs::Create,
        versions: &v1("authorization/v1.SubjectAccessReview"),
        ..CLUSTER
    },
    Kind {
        group: "authorization.k8s.io",
        kind: "SelfSubjectAccessReview",
        plural: "selfsubjectaccessreviews",
        singular: "selfsubjectaccessreview",
        verbs: Verbs::Create,
        versions: &v1("authorization/v1.SelfSubjectAccessReview"),
        ..CLUSTER
    },
    Kind {
        group: "authorization.k8s.io",
        kind: "LocalSubjectAccessReview",
        plural: "localsubjectaccessreviews",
        singular: "localsubjectaccessreview",
        verbs: Verbs::Create,
        versions: &v1("authorization/v1.LocalSubjectAccessReview"),
        ..BASE
    },
    Kind {
        group: "authorization.k8s.io",
        kind: "SelfSubjectRulesReview",
        plural: "selfsubjectrulesreviews",
        singular: "selfsubjectrulesreview",
        verbs: Verbs::Create,
        versions: &v1("authorization/v1.SelfSubjectRulesReview"),
        ..CLUSTER
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_schema::builtin;

    #[test]
    fn every_kind_has_a_shape_in_every_version_and_a_name_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for kind in all() {
            assert!(seen.insert((kind.group, kind.plural)), "{kind:?} stands twice");
            assert!(!kind.versions.is_empty(), "{kind:?} has no version");
            for served in kind.versions {
                assert!(builtin().find(served.shape).is_some(), "{kind:?}: no shape {}", served.shape);
            }
        }
    }
}
