//! Pieces of objects that several agents read and write.

use lazaret_model::{Condition, ConditionStatus, Consumer};
use lazaret_runtime::{Reply, read_metadata};
use serde::Deserialize;
use serde_json::{Value, json};

/// A condition as the API has it.
pub(crate) fn condition(condition: &Condition) -> Value {
    let status = match condition.status {
        ConditionStatus::True => "True",
        ConditionStatus::False => "False",
        ConditionStatus::Unknown => "Unknown",
    };
    let mut json = json!({
        "type": &*condition.kind,
        "status": status,
        "reason": &*condition.reason,
        "message": &*condition.message,
    });
    if let Some(since) = condition.last_transition {
        json["lastTransitionTime"] = lazaret_api::format_time(since).into();
    }
    if condition.observed_generation > 0 {
        json["observedGeneration"] = condition.observed_generation.into();
    }
    json
}

/// An entry of `reservedFor`.
pub(crate) fn consumer(consumer: &Consumer) -> Value {
    let mut json = json!({"resource": &*consumer.resource, "name": &*consumer.name, "uid": &*consumer.uid});
    if !consumer.api_group.is_empty() {
        json["apiGroup"] = consumer.api_group.as_str().into();
    }
    json
}

/// The metadata of a written object, from the answer.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) deletion_timestamp: Option<String>,
    owner_references: Vec<Owner>,
}

#[derive(Deserialize)]
struct Owner {
    uid: String,
    #[serde(default)]
    controller: bool,
}

/// The metadata of an object.
pub(crate) fn metadata(object: &[u8]) -> Option<Metadata> {
    read_metadata(object).ok()
}

/// Whether the controller of an object has this UID.
pub(crate) fn is_controlled_by(object: &[u8], uid: &str) -> bool {
    let owned = |metadata: Metadata| {
        metadata.owner_references.iter().any(|owner| owner.controller && owner.uid == uid)
    };
    metadata(object).is_some_and(owned)
}

/// An answer with what was written, for a machine that goes by it.
pub(crate) fn with_written(reply: Reply) -> lazaret_machine::Reply {
    let written = reply.object.as_deref().and_then(metadata).map(|metadata| lazaret_machine::Written {
        name: metadata.name.into(),
        uid: metadata.uid.into(),
        version: metadata.resource_version.into(),
    });
    lazaret_machine::Reply { written, ..reply.into() }
}
