//! What changes the API itself.

use super::{CLUSTER, PlainWithStatus, Row, STATUS, v1};
use crate::crd::CustomResourceDefinition;

pub(super) const ADMISSION: &[Row] = &[
    Row {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingAdmissionPolicy",
        rules: &PlainWithStatus,
        plural: "validatingadmissionpolicies",
        categories: &["api-extensions"],
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
        categories: &["api-extensions"],
        singular: "validatingadmissionpolicybinding",
        generation: true,
        versions: &v1("admissionregistration/v1.ValidatingAdmissionPolicyBinding"),
        ..CLUSTER
    },
];

pub(super) const DEFINITIONS: &[Row] = &[Row {
    group: "apiextensions.k8s.io",
    kind: "CustomResourceDefinition",
    rules: &CustomResourceDefinition,
    plural: "customresourcedefinitions",
    categories: &["api-extensions"],
    singular: "customresourcedefinition",
    short: &["crd", "crds"],
    generation: true,
    subresources: &[STATUS],
    versions: &v1("apiextensions/v1.CustomResourceDefinition"),
    ..CLUSTER
}];
