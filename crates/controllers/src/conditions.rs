//! When a condition of a status last changed.

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Seen {
    status: SeenStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SeenStatus {
    conditions: Vec<SeenCondition>,
}

#[derive(Deserialize)]
struct SeenCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(rename = "lastTransitionTime")]
    last_transition: String,
}

/// Conditions in `body` whose status is the one that the object has already keep the instant of their last change.
pub(crate) fn keep_transitions(object: &[u8], body: &mut Value) {
    let seen = serde_json::from_slice::<Seen>(object).unwrap_or_default().status.conditions;
    let conditions = body.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let before =
            seen.iter().find(|one| condition["type"] == one.kind && condition["status"] == one.status);
        if let Some(before) = before {
            condition["lastTransitionTime"] = before.last_transition.as_str().into();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_instant_stays_until_the_status_changes() {
        let condition = |kind: &str, status: &str, at: &str, message: &str| json!({"type": kind, "status": status, "lastTransitionTime": at, "message": message});
        let object = json!({"status": {"conditions": [
            condition("Compiled", "True", "then", "1 rule"),
            condition("Applied", "False", "then", "no"),
        ]}});
        let mut body = json!({"status": {"conditions": [
            condition("Compiled", "True", "now", "2 rules"),
            condition("Applied", "True", "now", "yes"),
            condition("New", "True", "now", ""),
        ]}});
        keep_transitions(object.to_string().as_bytes(), &mut body);
        let times = |body: &Value| -> Vec<String> {
            let conditions = body["status"]["conditions"].as_array().unwrap();
            conditions.iter().map(|one| one["lastTransitionTime"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(times(&body), ["then", "now", "now"]);
        assert_eq!(body["status"]["conditions"][0]["message"], "2 rules");
        for odd in ["{}", r#"{"status":{"conditions":[{"type":"New"}]}}"#, "no object"] {
            keep_transitions(odd.as_bytes(), &mut body);
            assert_eq!(times(&body), ["then", "now", "now"], "{odd}");
        }
        let mut without = json!({"status": {}});
        keep_transitions(object.to_string().as_bytes(), &mut without);
        assert_eq!(without, json!({"status": {}}));
    }
}
