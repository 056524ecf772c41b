//! Metadata common to all objects, and selectors of nodes.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Instant, Nullable};
use crate::fields;

fields! {
    pub(crate) struct ObjectMeta {
        pub(crate) name: Nullable<String> = "name",
        pub(crate) namespace: Nullable<String> = "namespace",
        pub(crate) uid: Nullable<String> = "uid",
        pub(crate) resource_version: Nullable<String> = "resourceVersion",
        pub(crate) generation: Nullable<i64> = "generation",
        pub(crate) labels: Nullable<BTreeMap<String, Nullable<String>>> = "labels",
        pub(crate) annotations: Nullable<BTreeMap<String, Nullable<String>>> = "annotations",
        pub(crate) creation_timestamp: Option<Instant> = "creationTimestamp",
        pub(crate) deletion_timestamp: Option<Instant> = "deletionTimestamp",
        pub(crate) deletion_grace_period_seconds: Option<i64> = "deletionGracePeriodSeconds",
        pub(crate) finalizers: Nullable<Vec<String>> = "finalizers",
        pub(crate) owner_references: Nullable<Vec<OwnerReference>> = "ownerReferences",
    }

    pub(crate) struct OwnerReference {
        pub(crate) api_version: Nullable<String> = "apiVersion",
        pub(crate) kind: Nullable<String> = "kind",
        pub(crate) name: Nullable<String> = "name",
        pub(crate) uid: Nullable<String> = "uid",
        pub(crate) controller: Nullable<bool> = "controller",
    }

    pub(crate) struct Condition {
        pub(crate) r#type: Nullable<String> = "type",
        pub(crate) status: Nullable<String> = "status",
        pub(crate) reason: Nullable<String> = "reason",
        pub(crate) message: Nullable<String> = "message",
        pub(crate) observed_generation: Nullable<i64> = "observedGeneration",
        pub(crate) last_transition_time: Option<Instant> = "lastTransitionTime",
    }

    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    pub(crate) struct NodeSelector {
        pub(crate) node_selector_terms: Nullable<Vec<NodeSelectorTerm>> = "nodeSelectorTerms",
    }

    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    pub(crate) struct NodeSelectorTerm {
        #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
        pub(crate) match_expressions: Nullable<Vec<Requirement>> = "matchExpressions",
        #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
        pub(crate) match_fields: Nullable<Vec<Requirement>> = "matchFields",
    }

    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    pub(crate) struct Requirement {
        pub(crate) key: Nullable<String> = "key",
        pub(crate) operator: Nullable<String> = "operator",
        #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
        pub(crate) values: Nullable<Vec<String>> = "values",
    }
}
