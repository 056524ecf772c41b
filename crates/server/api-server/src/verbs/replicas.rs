//! The number of replicas of an object, and its scale.

use lazaret_json::{Value, json};

use crate::{ApiError, call::Call};

/// Takes the number of replicas over from a scale.
pub(super) fn take(call: &Call<'_>, object: &mut Value, scale: &Value) -> Result<(), ApiError> {
    set_replicas(call, object, replicas(scale)?);
    Ok(())
}

pub(super) fn set_replicas(call: &Call<'_>, object: &mut Value, replicas: i64) {
    match call.kind.rules.scale_paths() {
        Some(paths) => paths.spec.set(object, replicas.into()),
        None => object["spec"]["replicas"] = replicas.into(),
    }
}

pub(super) fn replicas(scale: &Value) -> Result<i64, ApiError> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if !(0..=i64::from(i32::MAX)).contains(&replicas) {
        return Err(ApiError::bad_request("spec.replicas: must not be negative"));
    }
    Ok(replicas)
}

/// The scale of an object.
pub(super) fn scale_of(call: &Call<'_>, object: &Value) -> Value {
    let count = |found: Option<&Value>| found.and_then(Value::as_i64).unwrap_or(0);
    let (wanted, current, selector) = match call.kind.rules.scale_paths() {
        Some(paths) => {
            let selector = paths.selector.as_ref().and_then(|path| path.first(object)?.as_str());
            let (wanted, current) = (paths.spec.first(object), paths.status.first(object));
            (count(wanted), count(current), selector.unwrap_or_default().to_owned())
        }
        None => (
            count(object.pointer("/spec/replicas")),
            count(object.pointer("/status/replicas")),
            selector_text(call.kind.rules.scale_labels(object)),
        ),
    };
    let metadata = &object["metadata"];
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": wanted}, "status": {"replicas": current, "selector": selector},
    });
    if metadata["namespace"].is_string() {
        scale["metadata"]["namespace"] = metadata["namespace"].clone();
    }
    scale
}

fn selector_text(labels: &Value) -> String {
    let pairs = labels.as_object().into_iter().flatten();
    let pairs: Vec<String> =
        pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    pairs.join(",")
}
