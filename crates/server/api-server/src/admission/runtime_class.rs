//! Runtime classes: a pod that names one gets its overhead and is placed where it can run.

use lazaret_json::Value;
use lazaret_kinds::runtime_class;

use crate::{ApiError, call::Call};

/// The class that a pod names. DEVIATION(client-errors): an empty name is one that no class has.
fn class(call: &Call<'_>, pod: &Value, name: &str) -> Result<Option<Value>, ApiError> {
    let Some(said) = pod["spec"]["runtimeClassName"].as_str() else { return Ok(None) };
    let found = lazaret_kinds::find("node.k8s.io", "runtimeclasses")
        .and_then(|classes| call.server.get(classes, "", said));
    found.map(Some).ok_or_else(|| {
        let why = format!("pod rejected: RuntimeClass {said:?} not found");
        ApiError::forbidden(&call.kind, name, &why)
    })
}

/// Gives a new pod what its class says.
pub(super) fn admit(call: &Call<'_>, pod: &mut Value, name: &str) -> Result<(), ApiError> {
    let Some(class) = class(call, pod, name)? else { return Ok(()) };
    runtime_class::admit(pod, &class).map_err(|why| ApiError::forbidden(&call.kind, name, &why))
}

/// Whether a new pod has the overhead of its class, and no other.
pub(super) fn validate(call: &Call<'_>, pod: &Value, name: &str) -> Result<(), ApiError> {
    let class = class(call, pod, name)?;
    runtime_class::check(pod, class.as_ref()).map_err(|why| ApiError::forbidden(&call.kind, name, &why))
}
