//! Kinds that run pods.

use super::{BASE, Row, SCALE, STATUS, v1};
use crate::apps::{CronJob, DaemonSet, Deployment, Job, ReplicaSet, StatefulSet};

pub(super) const APPS: &[Row] = &[
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
];

pub(super) const BATCH: &[Row] = &[
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
];
