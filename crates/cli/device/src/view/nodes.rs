//! The node annotation by which a driver that supports it is made to report a device as failing.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The driver that acts on the annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obeys {
    /// The driver of a simulated node, for all of its devices.
    SimulatedNode,
    /// A driver whose devices say that they fail on command, on any node.
    Driver,
}

impl Obeys {
    /// A JSON object from device to what is wrong with it.
    fn annotation(self) -> &'static str {
        match self {
            Self::SimulatedNode => "hollow.lazaret.dev/fail",
            Self::Driver => "driver.lazaret.dev/fail",
        }
    }

    /// How a device is called there. A node may have several drivers.
    #[must_use]
    pub fn key(self, driver: &str, device: &str) -> String {
        match self {
            Self::SimulatedNode => device.to_owned(),
            Self::Driver => format!("{driver}/{device}"),
        }
    }
}

/// Set on nodes that are simulated.
const SIMULATED_LABEL: &str = "hollow.lazaret.dev/node";

/// Whether a simulated driver looks at this node.
#[must_use]
pub fn is_simulated(node: &Value) -> bool {
    node["metadata"]["labels"][SIMULATED_LABEL] == "true"
}

/// The devices of a node that fail, by name.
///
/// # Errors
/// A sentence when the annotation holds something else than a JSON object.
pub fn failures(obeys: Obeys, node: &Value) -> Result<BTreeMap<String, Value>, String> {
    let annotation = obeys.annotation();
    let written = node["metadata"]["annotations"][annotation].as_str().unwrap_or("{}");
    serde_json::from_str(written)
        .map_err(|error| format!("annotation {annotation} is not a JSON object: {error}"))
}

/// The merge patch that makes `device` fail on a node, or recover where `failure` is absent. `None` when nothing would change.
///
/// # Errors
/// A sentence when the annotation holds something else than a JSON object.
pub fn fail_patch(
    obeys: Obeys,
    node: &Value,
    device: &str,
    failure: Option<(&str, Option<&str>)>,
) -> Result<Option<Value>, String> {
    let mut failures = failures(obeys, node)?;
    let before = failures.clone();
    match failure {
        Some((effect, reason)) => {
            let mut entry = json!({"effect": effect});
            if let Some(reason) = reason {
                entry["reason"] = reason.into();
            }
            failures.insert(device.to_owned(), entry);
        }
        None => {
            failures.remove(device);
        }
    }
    if failures == before {
        return Ok(None);
    }
    let value = if failures.is_empty() { Value::Null } else { json!(json!(failures).to_string()) };
    Ok(Some(json!({
        "metadata": {
            "uid": node["metadata"]["uid"],
            "resourceVersion": node["metadata"]["resourceVersion"],
            "annotations": {obeys.annotation(): value},
        }
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAIL_ANNOTATION: &str = "hollow.lazaret.dev/fail";
    const SIMULATED: Obeys = Obeys::SimulatedNode;

    fn patched(written: Option<&str>, device: &str, failure: Option<(&str, Option<&str>)>) -> Option<Value> {
        let mut node = json!({"metadata": {"uid": "u", "resourceVersion": "1"}});
        if let Some(written) = written {
            node["metadata"]["annotations"] = json!({FAIL_ANNOTATION: written});
        }
        let patch = fail_patch(SIMULATED, &node, device, failure).unwrap()?;
        Some(patch["metadata"]["annotations"][FAIL_ANNOTATION].clone())
    }

    #[test]
    fn one_device_at_a_time() {
        let fan = Some(("NoExecute", Some("fan")));
        let one = r#"{"gpu-1":{"effect":"NoExecute","reason":"fan"}}"#;
        assert_eq!(patched(None, "gpu-1", fan), Some(json!(one)));
        let two = r#"{"gpu-0":{"effect":"NoSchedule"},"gpu-1":{"effect":"NoExecute","reason":"fan"}}"#;
        assert_eq!(patched(Some(one), "gpu-0", Some(("NoSchedule", None))), Some(json!(two)));
        assert_eq!(patched(Some(one), "gpu-1", fan), None);
        assert_eq!(patched(Some(two), "gpu-0", None), Some(json!(one)));
        assert_eq!(patched(Some(one), "gpu-1", None), Some(Value::Null));
        assert_eq!(patched(None, "gpu-1", None), None);
        assert!(
            fail_patch(SIMULATED, &json!({"metadata": {"annotations": {FAIL_ANNOTATION: "[]"}}}), "a", None)
                .is_err()
        );
    }
}
