//! `status.conditions`, of whatever object has them.

use serde::Deserialize;

/// An object with conditions.
#[derive(Deserialize)]
pub(super) struct WithConditions {
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

/// One condition.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
}

impl WithConditions {
    /// The conditions of an object; none where it cannot be read.
    pub(super) fn read(json: &[u8]) -> Option<Vec<Condition>> {
        serde_json::from_slice::<Self>(json).ok().map(|object| object.status.conditions)
    }
}
