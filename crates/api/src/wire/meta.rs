//! What all objects have, and selectors of nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Instant, Nullable};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ObjectMeta {
    pub(crate) name: Nullable<String>,
    pub(crate) namespace: Nullable<String>,
    pub(crate) uid: Nullable<String>,
    pub(crate) generation: Nullable<i64>,
    pub(crate) labels: Nullable<BTreeMap<String, Nullable<String>>>,
    pub(crate) annotations: Nullable<BTreeMap<String, Nullable<String>>>,
    pub(crate) creation_timestamp: Option<Instant>,
    pub(crate) deletion_timestamp: Option<Instant>,
    pub(crate) owner_references: Nullable<Vec<OwnerReference>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct OwnerReference {
    pub(crate) api_version: Nullable<String>,
    pub(crate) kind: Nullable<String>,
    pub(crate) name: Nullable<String>,
    pub(crate) uid: Nullable<String>,
    pub(crate) controller: Nullable<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Condition {
    pub(crate) r#type: Nullable<String>,
    pub(crate) status: Nullable<String>,
    pub(crate) reason: Nullable<String>,
    pub(crate) message: Nullable<String>,
    pub(crate) observed_generation: Nullable<i64>,
    pub(crate) last_transition_time: Option<Instant>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NodeSelector {
    pub(crate) node_selector_terms: Nullable<Vec<NodeSelectorTerm>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NodeSelectorTerm {
    #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
    pub(crate) match_expressions: Nullable<Vec<Requirement>>,
    #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
    pub(crate) match_fields: Nullable<Vec<Requirement>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Requirement {
    pub(crate) key: Nullable<String>,
    pub(crate) operator: Nullable<String>,
    #[serde(skip_serializing_if = "Nullable::<Vec<_>>::is_empty")]
    pub(crate) values: Nullable<Vec<String>>,
}
