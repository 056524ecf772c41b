//! When a condition of a status last changed.

use serde_json::Value;

use crate::header::{Condition, Header};

/// Conditions in `body` whose status is the one that the object has already keep the instant of their last change.
pub(crate) fn keep_transitions(object: &[u8], body: &mut Value) {
    let object = Header::read(object).unwrap_or_default();
    let conditions = body.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let is_same = |one: &&Condition| condition["type"] == one.kind && condition["status"] == one.status;
        let before = object.conditions().iter().find(is_same);
        if let Some(since) = before.and_then(|one| one.last_transition_time.as_deref()) {
            condition["lastTransitionTime"] = since.into();
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
        for odd in ["{}", r#"{"status":{"conditions":[{"type":"New","status":"True"}]}}"#, "no object"] {
            keep_transitions(odd.as_bytes(), &mut body);
            assert_eq!(times(&body), ["then", "now", "now"], "{odd}");
        }
        let mut without = json!({"status": {}});
        keep_transitions(object.to_string().as_bytes(), &mut without);
        assert_eq!(without, json!({"status": {}}));
    }
}
