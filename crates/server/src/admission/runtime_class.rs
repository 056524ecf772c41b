//! What the runtime class of a pod adds to it.

use lazaret_json::Value;

use crate::{ApiError, server::Call};

/// Gives a pod the overhead, the node selector and the tolerations of its class.
pub(super) fn admit(call: &Call<'_>, pod: &mut Value, name: &str) -> Result<(), ApiError> {
    let refuse = |why: String| ApiError::forbidden(&call.kind, name, &why);
    let class = match pod["spec"]["runtimeClassName"].as_str().unwrap_or_default() {
        "" => Value::Null,
        class => lazaret_kinds::find("node.k8s.io", "runtimeclasses")
            .and_then(|classes| call.server.get(classes, "", class))
            .ok_or_else(|| refuse(format!("pod rejected: RuntimeClass {class:?} not found")))?,
    };
    apply(&class, &mut pod["spec"]).map_err(refuse)
}

fn apply(class: &Value, spec: &mut Value) -> Result<(), String> {
    let is_empty = |value: &Value| value.as_object().is_none_or(|fields| fields.is_empty());
    let (fixed, overhead) = (&class["overhead"]["podFixed"], &spec["overhead"]);
    if class["overhead"].is_null() {
        if !is_empty(overhead) {
            return Err(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".into()
            );
        }
    } else if is_empty(overhead) {
        if !is_empty(fixed) {
            spec["overhead"] = fixed.clone();
        }
    } else if overhead != fixed {
        return Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".into());
    }
    for (key, wanted) in class["scheduling"]["nodeSelector"].as_object().into_iter().flatten() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if let Some(said) = spec["nodeSelector"].get(key).filter(|said| *said != wanted) {
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                text(wanted),
                text(said)
            ));
        }
        spec["nodeSelector"][key.as_str()] = wanted.clone();
    }
    let known: Vec<Value> = spec["tolerations"].as_array().into_iter().flatten().cloned().collect();
    let added = class["scheduling"]["tolerations"].as_array().into_iter().flatten();
    let added: Vec<Value> = added.filter(|toleration| !known.contains(toleration)).cloned().collect();
    if !added.is_empty() {
        spec["tolerations"] = known.into_iter().chain(added).collect();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use lazaret_json::json;

    use super::*;

    #[test]
    fn a_pod_gets_what_its_class_says_unless_it_says_otherwise() {
        let toleration = json!({"key": "sandbox", "operator": "Exists"});
        let class = json!({
            "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {"nodeSelector": {"sandbox": "yes"}, "tolerations": [toleration]},
        });
        let applied = |class: &Value, spec: Value| {
            let mut spec = spec;
            apply(class, &mut spec).map(|()| spec)
        };
        let whole = json!({"overhead": {"cpu": "250m"}, "nodeSelector": {"sandbox": "yes"}, "tolerations": [toleration]});
        assert_eq!(applied(&class, json!({})), Ok(whole.clone()));
        assert_eq!(applied(&class, whole.clone()), Ok(whole));
        assert_eq!(applied(&json!({}), json!({"a": 1})), Ok(json!({"a": 1})));
        assert!(applied(&class, json!({"overhead": {"cpu": "1"}})).unwrap_err().contains("doesn't match"));
        assert!(applied(&Value::Null, json!({"overhead": {"cpu": "1"}})).unwrap_err().contains("without"));
        assert_eq!(
            applied(&class, json!({"nodeSelector": {"sandbox": "no"}})).unwrap_err(),
            "conflict: runtimeClass.scheduling.nodeSelector[sandbox] = yes; pod.spec.nodeSelector[sandbox] = no"
        );
    }
}
