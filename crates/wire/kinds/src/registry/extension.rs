//! Kinds that change the API itself.

use super::{CLUSTER, Row, STATUS, v1};
use crate::{
    admission::{
        MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
        ValidatingWebhookConfiguration,
    },
    crd::CustomResourceDefinition,
};

pub(super) const ADMISSION: &[Row] = &[
    Row {
        group: "admissionregistration.k8s.io",
        kind: "MutatingWebhookConfiguration",
        rules: &MutatingWebhookConfiguration,
        plural: "mutatingwebhookconfigurations",
        categories: &["api-extensions"],
        singular: "mutatingwebhookconfiguration",
        generation: true,
        unconditional_update: false,
        versions: &v1("admissionregistration/v1.MutatingWebhookConfiguration"),
        ..CLUSTER
    },
    Row {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingAdmissionPolicy",
        rules: &ValidatingAdmissionPolicy,
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
        rules: &ValidatingAdmissionPolicyBinding,
        plural: "validatingadmissionpolicybindings",
        categories: &["api-extensions"],
        singular: "validatingadmissionpolicybinding",
        generation: true,
        versions: &v1("admissionregistration/v1.ValidatingAdmissionPolicyBinding"),
        ..CLUSTER
    },
    Row {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingWebhookConfiguration",
        rules: &ValidatingWebhookConfiguration,
        plural: "validatingwebhookconfigurations",
        categories: &["api-extensions"],
        singular: "validatingwebhookconfiguration",
        generation: true,
        unconditional_update: false,
        versions: &v1("admissionregistration/v1.ValidatingWebhookConfiguration"),
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
