//! Which claims are prepared, in a file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Unit;

/// The claims that are prepared, by UID, each with the UUIDs of the devices that are its alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// UUIDs of devices, by the UID of the claim that holds them.
    pub claims: BTreeMap<String, Vec<String>>,
}

impl Checkpoint {
    /// The claim other than this one that holds a device, or a part of it, or what it is a part of.
    #[must_use]
    pub fn other_holder(&self, uuid: &str, claim: &str) -> Option<&str> {
        let holds = |(other, held): &(&String, &Vec<String>)| {
            *other != claim && held.iter().any(|held| Unit::overlaps(held, uuid))
        };
        self.claims.iter().find(holds).map(|(other, _)| other.as_str())
    }
}
