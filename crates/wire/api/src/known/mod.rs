//! The smallest reader: it reads as much as can be read of an object that cannot be decoded.
//!
//! The parts that are wrong are removed one by one, until the rest can be decoded. A part that was removed is then assumed to be what does the least
//! harm: a claim gets no further device, no pod is evicted, no device is given out for it.

mod cautious;
mod kept;
mod prune;

use serde_json::Value;

use crate::{
    decode::{Object, decode_as},
    field::FieldError,
};

pub use self::{cautious::WhatIsKnown, kept::kept_in_words};

/// Parts that are removed one by one; after these, whole branches are.
const PARTS_MAX: usize = 32;
/// Branches that are removed then.
const BRANCHES_MAX: usize = 16;
/// A branch is a field in the `spec` or the `status`, or such a field itself.
const BRANCH_DEPTH: usize = 2;

/// Reads as much as can be read of an object that [`decode_as`] refuses; `None` where that is nothing that could be used.
#[must_use]
pub fn what_is_known(group: &str, version: &str, kind: &str, text: &str) -> Option<WhatIsKnown> {
    let whole: Value = serde_json::from_str(text).ok()?;
    let (mut value, mut lost) = (whole.clone(), Vec::new());
    for round in 0..PARTS_MAX + BRANCHES_MAX {
        match read(group, version, kind, &value) {
            Ok(object) => return cautious::cautious(object, &lost, &whole),
            Err(error) => {
                let depth = if round < PARTS_MAX { usize::MAX } else { BRANCH_DEPTH };
                let Some(part) = prune::remove(&mut value, &error.path, depth) else { break };
                lost.push(part);
            }
        }
    }
    cautious::bare(kind, &whole)
}

/// The same for an object that says its kind.
#[must_use]
pub fn what_is_known_of(text: &str) -> Option<WhatIsKnown> {
    let whole: Value = serde_json::from_str(text).ok()?;
    let api = whole["apiVersion"].as_str()?;
    let (group, version) = api.rsplit_once('/').unwrap_or(("", api));
    what_is_known(group, version, whole["kind"].as_str()?, text)
}

/// Claims and slices of a version that is not known have their status, and their devices, where v1 has them.
fn read(group: &str, version: &str, kind: &str, value: &Value) -> Result<Object, FieldError> {
    let text = value.to_string();
    decode_as(group, version, kind, &text).or_else(|error| {
        if error.path == "apiVersion" { decode_as(group, "v1", kind, &text) } else { Err(error) }
    })
}
