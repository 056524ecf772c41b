//! The core group.

use super::{BASE, CLUSTER, Row, SCALE, STATUS, v1};
use crate::{
    apps::ReplicationController,
    core::{
        ConfigMap, CoreEvent, Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
        ResourceQuota, Secret, Service, ServiceAccount,
    },
    kind::{Subresource, Verbs},
    limit_range::LimitRange,
};

/// Verbs that begin a stream to a container.
const STREAMED: &[&str] = &["create", "get"];
/// Verbs that are proxied to a node's own API.
const PROXIED: &[&str] = &["create", "delete", "get", "patch", "update"];

pub(super) const CORE: &[Row] = &[
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
            Subresource { name: "ephemeralcontainers", takes: None, verbs: &["get", "patch", "update"] },
            Subresource { name: "resize", takes: None, verbs: &["get", "patch", "update"] },
            Subresource { name: "log", takes: None, verbs: &["get"] },
            Subresource { name: "exec", takes: Some(("", "v1", "PodExecOptions")), verbs: STREAMED },
            Subresource { name: "attach", takes: Some(("", "v1", "PodAttachOptions")), verbs: STREAMED },
            Subresource {
                name: "portforward",
                takes: Some(("", "v1", "PodPortForwardOptions")),
                verbs: STREAMED,
            },
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
        subresources: &[
            STATUS,
            Subresource { name: "proxy", takes: Some(("", "v1", "NodeProxyOptions")), verbs: PROXIED },
        ],
        ..CLUSTER
    },
    Row {
        kind: "Namespace",
        rules: &Namespace,
        plural: "namespaces",
        verbs: Verbs::OneByOne,
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
        create_on_update: true,
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
        create_on_update: true,
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
        subresources: &[STATUS, SCALE],
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
        unheeded: Some(
            "a PersistentVolumeClaim is bound by simulated nodes alone, to a volume that stores nothing",
        ),
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
        rules: &LimitRange,
        plural: "limitranges",
        singular: "limitrange",
        short: &["limits"],
        versions: &v1("core/v1.LimitRange"),
        ..BASE
    },
    Row {
        kind: "ResourceQuota",
        rules: &ResourceQuota,
        delete_returns_object: true,
        plural: "resourcequotas",
        singular: "resourcequota",
        short: &["quota"],
        versions: &v1("core/v1.ResourceQuota"),
        subresources: &[STATUS],
        ..BASE
    },
];
