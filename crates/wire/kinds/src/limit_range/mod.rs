//! Limit ranges: checked, kept, and held against pods and claims for volumes.

mod enforce;
mod rules;
#[cfg(test)]
mod tests;

use lazaret_json::Value;

use crate::Kind;

pub use enforce::default_pod;
pub(crate) use enforce::pod_requests;
use enforce::{check_claim, check_pod};
pub(crate) use rules::LimitRange;

/// Compares an object with a limit range.
pub type Check = fn(range: &Value, object: &Value) -> Result<(), String>;

/// The check for a write of an object of a kind, or of one of its subresources; `None` if limit ranges do not apply.
#[must_use]
pub fn check_for(kind: &Kind, subresource: &str, creates: bool) -> Option<Check> {
    if kind.is("", "pods") && (subresource == "resize" || subresource.is_empty() && creates) {
        Some(check_pod)
    } else if kind.is("", "persistentvolumeclaims") && subresource.is_empty() {
        Some(check_claim)
    } else {
        None
    }
}
