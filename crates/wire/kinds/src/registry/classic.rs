//! Classic claims and their classes. The group comes last, so that `resourceclaims` without a group are those of `resource.k8s.io`.

use super::{BASE, CLUSTER, Row, STATUS, Version};
use crate::classic::{Claim, Class, FEATURE};

const fn v1alpha1(shape: &'static str) -> [Version; 1] {
    [Version { version: "v1alpha1", shape, by_default: true, since: None, feature: Some(FEATURE) }]
}

pub(super) const CLASSIC: &[Row] = &[
    Row {
        group: "cdi.k8s.io",
        kind: "ResourceClass",
        rules: &Class,
        plural: "resourceclasses",
        singular: "resourceclass",
        delete_returns_object: true,
        versions: &v1alpha1("cdi/v1alpha1.ResourceClass"),
        ..CLUSTER
    },
    Row {
        group: "cdi.k8s.io",
        kind: "ResourceClaim",
        rules: &Claim,
        plural: "resourceclaims",
        singular: "resourceclaim",
        short: &["cclaim"],
        delete_returns_object: true,
        subresources: &[STATUS],
        versions: &v1alpha1("cdi/v1alpha1.ResourceClaim"),
        ..BASE
    },
];
