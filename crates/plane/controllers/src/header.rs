//! Metadata and conditions of an object of any kind, read without the rest of it.

use lazaret_model::{Text, Uid};
use lazaret_runtime::Resource;
use serde::Deserialize;

/// The fields that objects of every kind have. Absent ones are empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Header {
    metadata: Metadata,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    generation: i64,
    creation_timestamp: Option<String>,
    owner_references: Vec<Owner>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Owner {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    controller: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

/// A condition as an object shows it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) observed_generation: i64,
    pub(crate) last_transition_time: Option<String>,
}

impl Header {
    /// `None`: it cannot be understood.
    pub(crate) fn read(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    pub(crate) fn generation(&self) -> i64 {
        self.metadata.generation
    }

    /// When it was made, as its metadata says it.
    pub(crate) fn created(&self) -> &str {
        self.metadata.creation_timestamp.as_deref().unwrap_or_default()
    }

    pub(crate) fn conditions(&self) -> &[Condition] {
        &self.status.conditions
    }

    /// The name and the UID of the object of this kind that controls it, if one does.
    pub(crate) fn controller(&self, of: Resource) -> Option<(Text, Uid)> {
        let is_it = |owner: &&Owner| {
            owner.controller && owner.kind == of.kind && owner.api_version == of.api_version()
        };
        let owner = self.metadata.owner_references.iter().find(is_it)?;
        Some((owner.name.as_str().into(), owner.uid.as_str().into()))
    }
}
