//! A body names the object that the URL names.

use lazaret_json::Value;

use crate::{ApiError, call::Call, object};

/// A body may leave out what the URL says, and must not contradict it.
pub(super) fn check_identity(call: &Call<'_>, object: &Value) -> Result<(), ApiError> {
    let name = object::meta(object, "name");
    if !name.is_empty() && name != call.target.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.target.name
        )));
    }
    let namespace = object::meta(object, "namespace");
    if !namespace.is_empty() && !call.target.namespace.is_empty() && namespace != call.target.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}
