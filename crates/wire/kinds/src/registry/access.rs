//! Kinds for identity and permissions.

use super::{BASE, CLUSTER, Row, STATUS, v1};
use crate::{
    certificates::CertificateSigningRequest,
    kind::{Subresource, Verbs},
    rbac::{ClusterRoleBinding, Role, RoleBinding},
};

pub(super) const AUTHENTICATION: &[Row] = &[
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
];

pub(super) const AUTHORIZATION: &[Row] = &[
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

const APPROVAL: Subresource =
    Subresource { name: "approval", takes: None, verbs: &["get", "patch", "update"] };

pub(super) const CERTIFICATES: &[Row] = &[Row {
    group: "certificates.k8s.io",
    kind: "CertificateSigningRequest",
    rules: &CertificateSigningRequest,
    plural: "certificatesigningrequests",
    singular: "certificatesigningrequest",
    short: &["csr"],
    subresources: &[APPROVAL, STATUS],
    versions: &v1("certificates/v1.CertificateSigningRequest"),
    ..CLUSTER
}];

pub(super) const ROLES: &[Row] = &[
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
];
