//! Which claims are prepared, in a file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The claims that are prepared, by UID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoint {
    pub(crate) claims: BTreeMap<String, Vec<Held>>,
}

/// A GPU or partition that a claim holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Held {
    /// The device's name.
    pub(crate) device: String,
    /// The card.
    pub(crate) uuid: String,
    /// The compute mode that the card had before, if it was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mode_before: Option<u32>,
    /// The length of turns was, or is about to be, set for the claim.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) interval_set: bool,
    /// Of a partition, the first slice of memory and how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) slices: Option<(u32, u32)>,
    /// The partition was, or is about to be, made for the claim.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) made_for_it: bool,
    /// Only looked after: does not count as held.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) admin: bool,
}

impl Checkpoint {
    /// The claim other than this one that holds a card, or a part of it that overlaps with these slices of memory.
    pub(crate) fn other_holder(&self, uuid: &str, slices: Option<(u32, u32)>, claim: &str) -> Option<&str> {
        let conflicts = |held: &Held| {
            let overlap = match (held.slices, slices) {
                (Some((a, a_size)), Some((b, b_size))) => a < b + b_size && b < a + a_size,
                // One of them is the whole card.
                (None, _) | (_, None) => true,
            };
            !held.admin && held.uuid == uuid && overlap
        };
        let mut others = self.claims.iter().filter(|(uid, _)| *uid != claim);
        others.find(|(_, held)| held.iter().any(conflicts)).map(|(uid, _)| uid.as_str())
    }

    /// Whether any claim holds a card or a part of it.
    pub(crate) fn holder(&self, uuid: &str) -> Option<&str> {
        self.other_holder(uuid, None, "")
    }
}
