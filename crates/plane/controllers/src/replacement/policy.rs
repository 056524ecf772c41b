//! A policy of the API becomes one of the core.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use lazaret_replacement::{Policy, Problem, Spec};
use lazaret_runtime::Object;
use serde::Deserialize;
use serde_json::Value;

use super::{
    pods,
    status::{self, WireStatus},
};

#[derive(Deserialize)]
struct WirePolicy {
    metadata: Metadata,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    generation: i64,
    #[serde(default)]
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    pod_selector: LabelSelector,
}

/// Reads a policy. Problems of its spec are part of the result.
///
/// # Errors
/// When it is not even an object.
pub(super) fn read(object: &Object) -> Result<Policy, serde_json::Error> {
    let wire: WirePolicy = serde_json::from_slice(object.json())?;
    // A status that cannot be read is as good as none: it is written anew.
    let status: WireStatus = serde_json::from_value(wire.status).unwrap_or_default();
    Ok(Policy {
        key: object.key.clone(),
        uid: object.uid.clone(),
        version: object.resource_version.clone(),
        generation: wire.metadata.generation,
        deleting: wire.metadata.deletion_timestamp.is_some(),
        spec: spec(object, wire.spec).map(Arc::new).map_err(|problem| vec![problem]),
        status: Arc::new(status::from_wire(&status)),
    })
}

fn spec(object: &Object, value: Value) -> Result<Spec, Problem> {
    let wire: WireSpec =
        serde_json::from_value(value).map_err(|error| Problem::new("spec", error.to_string()))?;
    let spec = lazaret_api::read_replacement_spec(object.text())
        .map_err(|error| Problem::new(error.path, error.message))?;
    Ok(Spec { selector: pods::selector(&wire.pod_selector)?, ..spec })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_runtime::REPLACEMENT_POLICIES;
    use serde_json::json;

    fn read_spec(spec: &Value) -> Result<Arc<Spec>, Vec<Problem>> {
        let text = json!({
            "kind": "TaintReplacementPolicy",
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 3},
            "spec": spec,
        });
        let object = Object::new(&REPLACEMENT_POLICIES, text.to_string()).unwrap();
        read(&object).unwrap().spec
    }

    #[test]
    fn the_documents_yaml_means_what_it_says() {
        let spec = read_spec(&json!({
            "podSelector": {"matchLabels": {"app": "fdb"}},
            "automaticReplacementOptions": {
                "enabled": true,
                "failureDetectionTimeSeconds": 7200,
                "maxConcurrentReplacements": 1,
                "enableNodeFailureDetection": true,
                "taintReplacementOptions": [
                    {"key": "example.org/maintenance", "durationInSeconds": 7200},
                    {"key": "*", "durationInSeconds": 3600, "value": "", "effect": "NoExecute"},
                ],
                "taintReplacementTimeSeconds": 1800,
            },
        }))
        .unwrap();
        assert_eq!((spec.node_options.len(), spec.replacement_secs, spec.failure_secs), (2, 1_800, 7_200));
        assert!(spec.node_failures && spec.problems().is_empty());
        assert_eq!(spec.node_options[1].value, None);
        assert_eq!(spec.node_options[1].effect.as_deref(), Some("NoExecute"));
    }

    #[test]
    fn what_cannot_be_read_is_a_problem_of_its_field() {
        let rows = [
            (
                json!({"automaticReplacementOptions": {"maxFaultDomainsTainted": "many"}}),
                "maxFaultDomainsTainted",
            ),
            (json!({"automaticReplacementOptions": {"strategy": "Hope"}}), "strategy"),
            (json!({"podSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}), "operator"),
            (json!({"podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}), "values"),
            (
                json!({"podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}}),
                "values",
            ),
        ];
        for (spec, field) in rows {
            let problems = read_spec(&spec).unwrap_err();
            assert!(problems[0].field.ends_with(field), "{}", problems[0]);
        }
    }
}
