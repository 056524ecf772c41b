//! All kinds that the server knows, in the order in which discovery shows their groups.

use std::sync::LazyLock;

use crate::{
    Release,
    apps::{CronJob, DaemonSet, Deployment, Job, ReplicaSet, ReplicationController, StatefulSet},
    core::{
        ConfigMap, CoreEvent, Endpoints, Namespace, NewEvent, Node, PersistentVolume, PersistentVolumeClaim,
        Pod, PriorityClass, Secret, Service, ServiceAccount,
    },
    crd::CustomResourceDefinition,
    kind::{Kind, RuleSet, Scope, Served, Shape, Subresource, Verbs},
    lease::Lease,
    pod_group::{self, PodGroup},
    policy::DisruptionBudget,
    rbac::{ClusterRoleBinding, Role, RoleBinding},
    resource::{Claim, Class, Patch, Rule, Slice, Template},
    rules::Rules,
};

/// Every built-in kind.
#[must_use]
pub fn all() -> &'static [Kind] {
    static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| ROWS.iter().map(Row::kind).collect());
    &KINDS
}

/// The built-in kind with this plural name in a group.
#[must_use]
pub fn find(group: &str, plural: &str) -> Option<&'static Kind> {
    all().iter().find(|kind| kind.group == group && kind.plural == plural)
}

/// The built-in kind of this name in a group.
#[must_use]
pub fn find_kind(group: &str, name: &str) -> Option<&'static Kind> {
    all().iter().find(|kind| kind.group == group && kind.kind == name)
}

/// A kind as it stands in the table below; the fields are those of [`Kind`].
struct Row {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short: &'static [&'static str],
    categories: &'static [&'static str],
    scope: Scope,
    versions: &'static [Version],
    subresources: &'static [Subresource],
    verbs: Verbs,
    generation: bool,
    unconditional_update: bool,
    create_on_update: bool,
    delete_returns_object: bool,
    rules: &'static dyn Rules,
}

#[derive(Clone, Copy)]
struct Version {
    version: &'static str,
    shape: &'static str,
    by_default: bool,
    since: Option<Release>,
    feature: Option<&'static str>,
}

impl Row {
    fn kind(&self) -> Kind {
        let names = |list: &[&'static str]| list.iter().map(|name| (*name).into()).collect();
        let served = |version: &Version| Served {
            version: version.version.into(),
            shape: Shape::Builtin(version.shape),
            by_default: version.by_default,
            since: version.since,
            feature: version.feature,
        };
        Kind {
            group: self.group.into(),
            kind: self.kind.into(),
            list_kind: format!("{}List", self.kind).into(),
            plural: self.plural.into(),
            singular: self.singular.into(),
            short: names(self.short),
            categories: names(self.categories),
            scope: self.scope,
            versions: self.versions.iter().map(served).collect(),
            subresources: self.subresources.to_vec(),
            verbs: self.verbs,
            generation: self.generation,
            unconditional_update: self.unconditional_update,
            create_on_update: self.create_on_update,
            delete_returns_object: self.delete_returns_object,
            rules: RuleSet::Fixed(self.rules),
        }
    }
}

/// Stored and served, nothing more.
#[derive(Debug)]
struct Plain;

impl Rules for Plain {}

pub(crate) const STATUS: Subresource =
    Subresource { name: "status", takes: None, verbs: &["get", "patch", "update"] };
pub(crate) const SCALE: Subresource = Subresource {
    name: "scale",
    takes: Some(("autoscaling", "v1", "Scale")),
    verbs: &["get", "patch", "update"],
};

/// A kind that is namespaced, stored, and like most others; the constants below change what differs.
const BASE: Row = Row {
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

const CLUSTER: Row = Row { scope: Scope::Cluster, ..BASE };

const fn v1(shape: &'static str) -> [Version; 1] {
    [Version { version: "v1", shape, by_default: true, since: None, feature: None }]
}

/// Versions of `resource.k8s.io`: v1 unless asked for more.
const fn resource<const N: usize>(shapes: [&'static str; N], versions: [&'static str; N]) -> [Version; N] {
    let mut served = [v1("")[0]; N];
    let mut at = 0;
    while at < N {
        let by_default = matches!(versions[at].as_bytes(), b"v1");
        served[at] =
            Version { version: versions[at], shape: shapes[at], by_default, since: None, feature: None };
        at += 1;
    }
    served
}

/// The only kind of the group that came late to its versions.
const DEVICE_TAINT_RULE: [Version; 3] = {
    let mut versions = resource(
        [
            "resource/v1.DeviceTaintRule",
            "resource/v1beta2.DeviceTaintRule",
            "resource/v1alpha3.DeviceTaintRule",
        ],
        ["v1", "v1beta2", "v1alpha3"],
    );
    versions[0].since = Some(Release::V1_37);
    versions[1].since = Some(Release::V1_36);
    versions
};

/// Groups of pods, as of 1.37.
const POD_GROUP: [Version; 1] = [Version {
    version: "v1beta1",
    shape: "scheduling/v1beta1.PodGroup",
    by_default: false,
    since: Some(Release::V1_37),
    feature: Some(pod_group::FEATURE),
}];

static ROWS: &[Row] = &[
    Row {
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
            Subresource { name: "log", takes: None, verbs: &["get"] },
            Subresource { name: "eviction", takes: Some(("policy", "v1", "Eviction")), verbs: &["create"] },
        ],
        ..BASE
    },
    Row {
        kind: "Node",
        rules: &Node,
        plural: "nodes",
        singular: "node",
        short: &["no"],
        versions: &v1("core/v1.Node"),
        subresources: &[STATUS],
        ..CLUSTER
    },
    Row {
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
    Row {
        kind: "Event",
        rules: &CoreEvent,
        plural: "events",
        singular: "event",
        short: &["ev"],
        versions: &v1("core/v1.Event"),
        create_on_update: true,
        ..BASE
    },
    Row {
        kind: "ConfigMap",
        rules: &ConfigMap,
        plural: "configmaps",
        singular: "configmap",
        short: &["cm"],
        versions: &v1("core/v1.ConfigMap"),
        ..BASE
    },
    Row {
        kind: "Secret",
        rules: &Secret,
        plural: "secrets",
        singular: "secret",
        versions: &v1("core/v1.Secret"),
        ..BASE
    },
    Row {
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
    Row {
        kind: "Service",
        rules: &Service,
        plural: "services",
        singular: "service",
        delete_returns_object: true,
        short: &["svc"],
        categories: &["all"],
        versions: &v1("core/v1.Service"),
        subresources: &[STATUS],
        ..BASE
    },
    Row {
        kind: "Endpoints",
        rules: &Endpoints,
        plural: "endpoints",
        singular: "endpoints",
        short: &["ep"],
        versions: &v1("core/v1.Endpoints"),
        ..BASE
    },
    Row {
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
    Row {
        kind: "PersistentVolume",
        rules: &PersistentVolume,
        delete_returns_object: true,
        plural: "persistentvolumes",
        singular: "persistentvolume",
        short: &["pv"],
        versions: &v1("core/v1.PersistentVolume"),
        subresources: &[STATUS],
        ..CLUSTER
    },
    Row {
        kind: "PersistentVolumeClaim",
        rules: &PersistentVolumeClaim,
        delete_returns_object: true,
        plural: "persistentvolumeclaims",
        singular: "persistentvolumeclaim",
        short: &["pvc"],
        versions: &v1("core/v1.PersistentVolumeClaim"),
        subresources: &[STATUS],
        ..BASE
    },
    Row {
        kind: "PodTemplate",
        delete_returns_object: true,
        plural: "podtemplates",
        singular: "podtemplate",
        versions: &v1("core/v1.PodTemplate"),
        generation: true,
        ..BASE
    },
    Row {
        kind: "LimitRange",
        plural: "limitranges",
        singular: "limitrange",
        short: &["limits"],
        versions: &v1("core/v1.LimitRange"),
        ..BASE
    },
    Row {
        kind: "ResourceQuota",
        delete_returns_object: true,
        plural: "resourcequotas",
        singular: "resourcequota",
        short: &["quota"],
        versions: &v1("core/v1.ResourceQuota"),
        subresources: &[STATUS],
        ..BASE
    },
    Row {
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
    Row {
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
    Row {
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
    Row {
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
    Row {
        group: "resource.k8s.io",
        kind: "DeviceTaintRule",
        rules: &Rule,
        plural: "devicetaintrules",
        singular: "devicetaintrule",
        generation: true,
        subresources: &[STATUS],
        unconditional_update: false,
        delete_returns_object: true,
        versions: &DEVICE_TAINT_RULE,
        ..CLUSTER
    },
    Row {
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
    Row {
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
    Row {
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
    Row {
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
    Row {
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
    Row {
        group: "apps",
        kind: "ControllerRevision",
        plural: "controllerrevisions",
        singular: "controllerrevision",
        versions: &v1("apps/v1.ControllerRevision"),
        ..BASE
    },
    Row {
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
    Row {
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
    Row {
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
    Row {
        group: "rbac.authorization.k8s.io",
        kind: "Role",
        rules: &Role,
        plural: "roles",
        singular: "role",
        create_on_update: true,
        versions: &v1("rbac/v1.Role"),
        ..BASE
    },
    Row {
        group: "rbac.authorization.k8s.io",
        kind: "RoleBinding",
        rules: &RoleBinding,
        plural: "rolebindings",
        singular: "rolebinding",
        create_on_update: true,
        versions: &v1("rbac/v1.RoleBinding"),
        ..BASE
    },
    Row {
        group: "rbac.authorization.k8s.io",
        kind: "ClusterRole",
        rules: &Role,
        plural: "clusterroles",
        singular: "clusterrole",
        create_on_update: true,
        versions: &v1("rbac/v1.ClusterRole"),
        ..CLUSTER
    },
    Row {
        group: "rbac.authorization.k8s.io",
        kind: "ClusterRoleBinding",
        rules: &ClusterRoleBinding,
        plural: "clusterrolebindings",
        singular: "clusterrolebinding",
        create_on_update: true,
        versions: &v1("rbac/v1.ClusterRoleBinding"),
        ..CLUSTER
    },
    Row {
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
    Row {
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
    Row {
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
    Row {
        group: "scheduling.k8s.io",
        kind: "PodGroup",
        rules: &PodGroup,
        plural: "podgroups",
        singular: "podgroup",
        subresources: &[STATUS],
        unconditional_update: false,
        versions: &POD_GROUP,
        ..BASE
    },
    Row {
        group: "storage.k8s.io",
        kind: "StorageClass",
        delete_returns_object: true,
        plural: "storageclasses",
        singular: "storageclass",
        short: &["sc"],
        versions: &v1("storage/v1.StorageClass"),
        ..CLUSTER
    },
    Row {
        group: "storage.k8s.io",
        kind: "CSINode",
        delete_returns_object: true,
        plural: "csinodes",
        singular: "csinode",
        versions: &v1("storage/v1.CSINode"),
        ..CLUSTER
    },
    Row {
        group: "storage.k8s.io",
        kind: "CSIDriver",
        delete_returns_object: true,
        plural: "csidrivers",
        singular: "csidriver",
        versions: &v1("storage/v1.CSIDriver"),
        ..CLUSTER
    },
    Row {
        group: "storage.k8s.io",
        kind: "CSIStorageCapacity",
        plural: "csistoragecapacities",
        singular: "csistoragecapacity",
        versions: &v1("storage/v1.CSIStorageCapacity"),
        ..BASE
    },
    Row {
        group: "storage.k8s.io",
        kind: "VolumeAttachment",
        delete_returns_object: true,
        plural: "volumeattachments",
        singular: "volumeattachment",
        subresources: &[STATUS],
        versions: &v1("storage/v1.VolumeAttachment"),
        ..CLUSTER
    },
    Row {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingAdmissionPolicy",
        plural: "validatingadmissionpolicies",
        singular: "validatingadmissionpolicy",
        generation: true,
        subresources: &[STATUS],
        versions: &v1("admissionregistration/v1.ValidatingAdmissionPolicy"),
        ..CLUSTER
    },
    Row {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingAdmissionPolicyBinding",
        plural: "validatingadmissionpolicybindings",
        singular: "validatingadmissionpolicybinding",
        generation: true,
        versions: &v1("admissionregistration/v1.ValidatingAdmissionPolicyBinding"),
        ..CLUSTER
    },
    Row {
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
    Row {
        group: "authentication.k8s.io",
        kind: "TokenReview",
        plural: "tokenreviews",
        singular: "tokenreview",
        verbs: Verbs::Create,
        versions: &v1("authentication/v1.TokenReview"),
        ..CLUSTER
    },
    Row {
        group: "authentication.k8s.io",
        kind: "SelfSubjectReview",
        plural: "selfsubjectreviews",
        singular: "selfsubjectreview",
        verbs: Verbs::Create,
        versions: &v1("authentication/v1.SelfSubjectReview"),
        ..CLUSTER
    },
    Row {
        group: "authorization.k8s.io",
        kind: "SubjectAccessReview",
        plural: "subjectaccessreviews",
        singular: "subjectaccessreview",
        verbs: Verbs::Create,
        versions: &v1("authorization/v1.SubjectAccessReview"),
        ..CLUSTER
    },
    Row {
        group: "authorization.k8s.io",
        kind: "SelfSubjectAccessReview",
        plural: "selfsubjectaccessreviews",
        singular: "selfsubjectaccessreview",
        verbs: Verbs::Create,
        versions: &v1("authorization/v1.SelfSubjectAccessReview"),
        ..CLUSTER
    },
    Row {
        group: "authorization.k8s.io",
        kind: "LocalSubjectAccessReview",
        plural: "localsubjectaccessreviews",
        singular: "localsubjectaccessreview",
        verbs: Verbs::Create,
        versions: &v1("authorization/v1.LocalSubjectAccessReview"),
        ..BASE
    },
    Row {
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

    #[test]
    fn every_kind_has_a_shape_in_every_version_and_a_name_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for kind in all() {
            assert!(seen.insert((&kind.group, &kind.plural)), "{kind:?} stands twice");
            assert!(!kind.versions.is_empty(), "{kind:?} has no version");
            for served in &kind.versions {
                assert!(served.shape.find().is_some(), "{kind:?}: no shape {:?}", served.shape);
            }
        }
    }
}
