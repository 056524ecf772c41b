//! Kinds that controllers and schedulers share.

use super::{BASE, CLUSTER, Row, STATUS, Version, v1};
use crate::{
    Release,
    core::{EndpointSlice, NewEvent, PriorityClass},
    lease::Lease,
    pod_group::{self, PodGroup},
    policy::DisruptionBudget,
};

pub(super) const EVENTS: &[Row] = &[Row {
    group: "events.k8s.io",
    kind: "Event",
    rules: &NewEvent,
    plural: "events",
    singular: "event",
    short: &["ev"],
    create_on_update: true,
    versions: &v1("events/v1.Event"),
    ..BASE
}];

pub(super) const POLICY: &[Row] = &[Row {
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
}];

pub(super) const SCHEDULING: &[Row] = &[
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
];

/// Groups of pods, as of 1.37.
const POD_GROUP: [Version; 1] = [Version {
    version: "v1beta1",
    shape: "scheduling/v1beta1.PodGroup",
    by_default: false,
    since: Some(Release::V1_37),
    feature: Some(pod_group::FEATURE),
}];

pub(super) const COORDINATION: &[Row] = &[Row {
    group: "coordination.k8s.io",
    kind: "Lease",
    rules: &Lease,
    plural: "leases",
    singular: "lease",
    create_on_update: true,
    unconditional_update: false,
    versions: &v1("coordination/v1.Lease"),
    ..BASE
}];

pub(super) const DISCOVERY: &[Row] = &[Row {
    group: "discovery.k8s.io",
    kind: "EndpointSlice",
    rules: &EndpointSlice,
    plural: "endpointslices",
    singular: "endpointslice",
    generation: true,
    versions: &v1("discovery/v1.EndpointSlice"),
    ..BASE
}];
