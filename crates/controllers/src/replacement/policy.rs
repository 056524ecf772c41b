//! A policy of the API becomes one of the core.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use lazaret_model::Text;
use lazaret_replacement::{Policy, Problem, Share, Spec, Strategy, TaintOption};
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSpec {
    #[serde(default)]
    pod_selector: LabelSelector,
    #[serde(default)]
    automatic_replacement_options: WireOptions,
}

/// Absent fields are what the definition's defaults say.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireOptions {
    enabled: bool,
    max_concurrent_replacements: u32,
    taint_replacement_options: Vec<WireOption>,
    device_taint_replacement_options: Vec<WireOption>,
    taint_replacement_time_seconds: i64,
    failure_detection_time_seconds: i64,
    enable_node_failure_detection: bool,
    fault_domain_key: String,
    max_fault_domains_tainted: Value,
    strategy: String,
    replacement_ready_seconds: i64,
}

impl Default for WireOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            max_concurrent_replacements: 1,
            taint_replacement_options: Vec::new(),
            device_taint_replacement_options: Vec::new(),
            taint_replacement_time_seconds: 1_800,
            failure_detection_time_seconds: 7_200,
            enable_node_failure_detection: false,
            fault_domain_key: String::new(),
            max_fault_domains_tainted: Value::Null,
            strategy: String::new(),
            replacement_ready_seconds: 600,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireOption {
    key: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    effect: String,
    duration_in_seconds: i64,
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
        spec: spec(wire.spec).map(Arc::new).map_err(|problem| vec![problem]),
        status: Arc::new(status::from_wire(&status)),
    })
}

fn spec(value: Value) -> Result<Spec, Problem> {
    let wire: WireSpec =
        serde_json::from_value(value).map_err(|error| Problem::new("spec", error.to_string()))?;
    let options = wire.automatic_replacement_options;
    let text = |text: String| (!text.is_empty()).then(|| Text::from(text));
    let list = |options: Vec<WireOption>| -> Vec<TaintOption> {
        let option = |option: WireOption| TaintOption {
            key: option.key.into(),
            value: text(option.value),
            effect: text(option.effect),
            secs: option.duration_in_seconds,
        };
        options.into_iter().map(option).collect()
    };
    Ok(Spec {
        selector: pods::selector(&wire.pod_selector)?,
        enabled: options.enabled,
        max_concurrent: options.max_concurrent_replacements,
        node_options: list(options.taint_replacement_options),
        device_options: list(options.device_taint_replacement_options),
        replacement_secs: options.taint_replacement_time_seconds,
        failure_secs: options.failure_detection_time_seconds,
        node_failures: options.enable_node_failure_detection,
        fault_domain_key: text(options.fault_domain_key),
        max_domains_tainted: share(&options.max_fault_domains_tainted)?,
        strategy: match options.strategy.as_str() {
            "" | "ReplaceFirst" => Strategy::ReplaceFirst,
            "Recreate" => Strategy::Recreate,
            other => {
                let message = format!("must be ReplaceFirst or Recreate, is {other:?}");
                return Err(Problem::new("spec.automaticReplacementOptions.strategy", message));
            }
        },
        ready_secs: options.replacement_ready_seconds,
    })
}

fn share(value: &Value) -> Result<Option<Share>, Problem> {
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let share = match value {
        Value::Null => return Ok(None),
        Value::Number(count) => count.as_u64().map(|count| Share::Count(number(count))),
        Value::String(text) => text
            .strip_suffix('%')
            .and_then(|percent| percent.parse().ok())
            .map(|percent| Share::Percent(number(percent))),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let message = || format!("must be a number or a percentage like 10%, is {value}");
    share
        .map(Some)
        .ok_or_else(|| Problem::new("spec.automaticReplacementOptions.maxFaultDomainsTainted", message()))
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
