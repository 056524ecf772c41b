//! The two standard patches: RFC 6902 and RFC 7386.

use lazaret_json::{Map, Value};

use crate::PatchError;

/// More operations than this in one JSON patch are refused.
pub const OPERATIONS_MAX: usize = 10_000;

/// Applies a JSON patch (RFC 6902), all of it or nothing.
///
/// # Errors
/// When the patch is malformed, too long, or an operation does not apply.
pub fn json_patch(object: Value, patch: &Value) -> Result<Value, PatchError> {
    if patch.as_array().is_some_and(|operations| operations.len() > OPERATIONS_MAX) {
        return Err(PatchError::TooLarge(format!(
            "a JSON patch may have at most {OPERATIONS_MAX} operations"
        )));
    }
    let patch: json_patch::Patch = lazaret_json::from_value(patch.clone())
        .map_err(|error| PatchError::Malformed(format!("not a JSON patch: {error}")))?;
    // What was done before an operation failed goes with the object: nothing is to be undone, which could fail in its turn.
    let mut object = object.into();
    json_patch::patch_unsafe(&mut object, &patch)
        .map_err(|error| PatchError::DoesNotApply(error.to_string()))?;
    Ok(object.into())
}

/// Applies a merge patch (RFC 7386): objects merge, `null` removes, everything else replaces.
#[must_use]
pub fn merge_patch(mut object: Value, patch: &Value) -> Value {
    merge(&mut object, patch);
    object
}

fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        object.clone_from(patch);
        return;
    };
    for (name, value) in patch {
        if !value.is_null() {
            merge(&mut object[name.as_str()], value);
        } else if let Some(object) = object.as_object_mut() {
            object.remove(name);
        }
    }
    // An empty patch of what is no object makes it one, too.
    if !object.is_object() {
        *object = Map::new().into();
    }
}

#[cfg(test)]
mod tests {
    use lazaret_json::json;

    use super::*;

    #[test]
    fn a_move_to_nowhere_is_an_error_and_no_more() {
        let object = json!({"metadata": {"labels": {"a": "b"}}});
        let patch = json!([
            {"op": "add", "path": "/metadata/labels/x", "value": "y"},
            {"op": "move", "from": "/metadata/labels/x", "path": "/nowhere/labels/z"},
        ]);
        assert!(matches!(json_patch(object, &patch), Err(PatchError::DoesNotApply(_))));
    }
}
