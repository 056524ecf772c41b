//! Kinds that are stored for other programs to act on: autoscalers, ingresses, network policies, runtime classes.

use super::{BASE, CLUSTER, Row, STATUS, Version, v1};
use crate::{
    autoscaling::HorizontalPodAutoscaler,
    networking::{Ingress, IngressClass, NetworkPolicy},
    runtime_class::RuntimeClass,
};

// DEVIATION(one-autoscaling-version)
pub(super) const AUTOSCALING: &[Row] = &[Row {
    group: "autoscaling",
    kind: "HorizontalPodAutoscaler",
    unheeded: Some("a HorizontalPodAutoscaler is stored and scales nothing"),
    rules: &HorizontalPodAutoscaler,
    plural: "horizontalpodautoscalers",
    singular: "horizontalpodautoscaler",
    short: &["hpa"],
    categories: &["all"],
    versions: &[Version {
        version: "v2",
        shape: "autoscaling/v2.HorizontalPodAutoscaler",
        by_default: true,
        since: None,
        feature: None,
    }],
    subresources: &[STATUS],
    generation: true,
    ..BASE
}];

pub(super) const NETWORKING: &[Row] = &[
    Row {
        group: "networking.k8s.io",
        kind: "NetworkPolicy",
        unheeded: Some("a NetworkPolicy is stored and filters no traffic"),
        rules: &NetworkPolicy,
        plural: "networkpolicies",
        singular: "networkpolicy",
        short: &["netpol"],
        versions: &v1("networking/v1.NetworkPolicy"),
        generation: true,
        ..BASE
    },
    Row {
        group: "networking.k8s.io",
        kind: "Ingress",
        unheeded: Some("an Ingress is stored and routes no traffic"),
        rules: &Ingress,
        plural: "ingresses",
        singular: "ingress",
        short: &["ing"],
        versions: &v1("networking/v1.Ingress"),
        subresources: &[STATUS],
        generation: true,
        ..BASE
    },
    Row {
        group: "networking.k8s.io",
        kind: "IngressClass",
        unheeded: Some("an IngressClass is stored and no controller serves it"),
        rules: &IngressClass,
        plural: "ingressclasses",
        singular: "ingressclass",
        versions: &v1("networking/v1.IngressClass"),
        generation: true,
        ..CLUSTER
    },
];

pub(super) const NODE: &[Row] = &[Row {
    group: "node.k8s.io",
    kind: "RuntimeClass",
    rules: &RuntimeClass,
    plural: "runtimeclasses",
    singular: "runtimeclass",
    create_on_update: true,
    unconditional_update: false,
    versions: &v1("node/v1.RuntimeClass"),
    ..CLUSTER
}];
