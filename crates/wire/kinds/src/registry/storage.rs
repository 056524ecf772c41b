//! Storage, which nothing here provides: a scheduler wants to list it.

use super::{BASE, CLUSTER, PlainWithStatus, Row, STATUS, v1};
use crate::core::{CsiDriver, StorageClass};

pub(super) const STORAGE: &[Row] = &[
    Row {
        group: "storage.k8s.io",
        kind: "StorageClass",
        rules: &StorageClass,
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
        rules: &CsiDriver,
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
        rules: &PlainWithStatus,
        delete_returns_object: true,
        plural: "volumeattachments",
        singular: "volumeattachment",
        subresources: &[STATUS],
        versions: &v1("storage/v1.VolumeAttachment"),
        ..CLUSTER
    },
];
