//! The two standard patches: RFC 6902 and RFC 7386.

use serde_json::Value;

use crate::PatchError;

/// More operations than this in one JSON patch are refused.
pub const OPERATIONS_MAX: usize = 10_000;

/// Applies a JSON patch (RFC 6902), all of it or nothing.
///
/// # Errors
/// When the patch is malformed, too long, or an operation does not apply.
pub fn json_patch(mut object: Value, patch: &Value) -> Result<Value, PatchError> {
    if patch.as_array().is_some_and(|operations| operations.len() > OPERATIONS_MAX) {
        return Err(PatchError::TooLarge(format!(
            "a JSON patch may have at most {OPERATIONS_MAX} operations"
        )));
    }
    let patch: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|error| PatchError::Malformed(format!("not a JSON patch: {error}")))?;
    json_patch::patch(&mut object, &patch).map_err(|error| PatchError::DoesNotApply(error.to_string()))?;
    Ok(object)
}

/// Applies a merge patch (RFC 7386): objects merge, `null` removes, everything else replaces.
#[must_use]
pub fn merge_patch(mut object: Value, patch: &Value) -> Value {
    json_patch::merge(&mut object, patch);
    object
}
