//! Devices, claims to them, and taints.

use super::{BASE, CLUSTER, Row, STATUS, Version, v1};
use crate::{
    Release,
    resource::{Claim, Class, Patch, PoolStatusRequest, Rule, Slice, Template, pool_status},
};

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

/// Requests for the status of pools, which came with 1.36.
const POOL_STATUS_REQUEST: [Version; 1] = [Version {
    version: "v1alpha3",
    shape: "resource/v1alpha3.ResourcePoolStatusRequest",
    by_default: false,
    since: Some(Release::V1_36),
    feature: Some(pool_status::FEATURE),
}];

pub(super) const RESOURCE: &[Row] = &[
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
        group: "resource.k8s.io",
        kind: "ResourcePoolStatusRequest",
        rules: &PoolStatusRequest,
        plural: "resourcepoolstatusrequests",
        singular: "resourcepoolstatusrequest",
        subresources: &[STATUS],
        unconditional_update: false,
        delete_returns_object: true,
        versions: &POOL_STATUS_REQUEST,
        ..CLUSTER
    },
];
