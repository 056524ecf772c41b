//! Writes for incidents and policies, as calls.

use lazaret_api::HealthPolicy;
use lazaret_lifecycle::{Owner, TaintKeyValue, Tally};
use lazaret_model::{DeviceId, Text, Timestamp};
use lazaret_runtime::{Call, HEALTH_POLICIES, PatchKind, Resource, TAINT_POLICIES};
use serde_json::{Value, json};

use super::{
    INCIDENT_LABEL,
    acceptance::Problem,
    executor::{New, Operation},
    task::owner_reference,
};

/// The field manager of counts.
const COUNTS_MANAGER: &str = "device-health-counts";

fn names_of(device: &DeviceId) -> Value {
    json!({"driver": &*device.driver, "pool": &*device.pool, "device": &*device.device})
}

fn metadata_of(owner: &Owner) -> Value {
    json!({
        "name": &*owner.name,
        "labels": {"app.kubernetes.io/managed-by": "lazaret", INCIDENT_LABEL: &*owner.name},
        "annotations": {"lazaret.dev/reason": format!("DeviceIncident {}", owner.name)},
        "ownerReferences": [owner_reference(owner)],
    })
}

/// A rule that taints a device, or the change of one.
pub(super) fn taint(
    rules: Resource,
    owner: &Owner,
    device: &DeviceId,
    (effect, taint): (&str, &TaintKeyValue),
    uid: Option<Text>,
) -> Operation {
    let taint = json!({"key": &*taint.key, "value": &*taint.value, "effect": effect});
    if let Some(uid) = uid {
        let body = json!({"metadata": {"uid": &*uid}, "spec": {"taint": taint}}).to_string();
        return Operation::Send(Box::new(Call::patch(&rules, "", &owner.name, "", PatchKind::Merge, body)));
    }
    let body = json!({
        "apiVersion": rules.api_version(), "kind": rules.kind,
        "metadata": metadata_of(owner),
        "spec": {"deviceSelector": names_of(device), "taint": taint},
    });
    make(rules, owner, &body)
}

/// A policy that makes the pods of a device leave, as a health policy says.
pub(super) fn drain(
    owner: &Owner,
    device: &DeviceId,
    taint: &TaintKeyValue,
    policy: Option<&HealthPolicy>,
) -> Operation {
    let mut taint = json!({"key": &*taint.key, "value": &*taint.value, "effect": "NoExecute"});
    if let Some(pace) = policy.and_then(|policy| policy.evictions_per_second) {
        taint["evictionsPerSecond"] = pace.into();
    }
    let mut spec = json!({"deviceSelector": names_of(device), "taint": taint});
    if let Some(policy) = policy.filter(|policy| !policy.eviction.is_empty()) {
        spec["eviction"] = Value::Object(policy.eviction.clone());
    }
    let body = json!({
        "apiVersion": TAINT_POLICIES.api_version(), "kind": TAINT_POLICIES.kind,
        "metadata": metadata_of(owner),
        "spec": spec,
    });
    make(TAINT_POLICIES, owner, &body)
}

/// The counts of a policy, under a name of their own: whoever writes the conditions leaves them alone.
pub(super) fn tally(policy: &Text, tallies: &[Tally]) -> Operation {
    let body = json!({
        "apiVersion": HEALTH_POLICIES.api_version(), "kind": HEALTH_POLICIES.kind,
        "metadata": {"name": &**policy},
        "status": {"counts": lazaret_api::tallies_to_json(tallies)},
    });
    let kind = PatchKind::Apply { manager: COUNTS_MANAGER };
    Operation::Send(Box::new(Call::patch(&HEALTH_POLICIES, "", policy, "status", kind, body.to_string())))
}

/// Whether a policy is acted on, and which of its expressions could not be evaluated.
pub(super) fn verdict(
    now: Timestamp,
    name: &Text,
    generation: i64,
    (problem, broken): (Option<&Problem>, Option<&str>),
) -> Operation {
    let (status, reason, message) = match problem {
        None => ("True", "Accepted", "the policy is acted on"),
        Some(Problem { reason, message }) => ("False", *reason, message.as_str()),
    };
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "observedGeneration": generation,
            "lastTransitionTime": lazaret_api::format_time(now),
        })
    };
    let mut conditions = vec![condition("Accepted", status, reason, message)];
    if let Some(error) = broken {
        let message = format!(
            "{error}; such signals match nothing: let the expression ask for what it needs, as with has() or a comparison of signal.key before it"
        );
        conditions.push(condition("Evaluated", "False", "ExpressionFailed", &message));
    }
    let body = json!({
        "apiVersion": HEALTH_POLICIES.api_version(), "kind": HEALTH_POLICIES.kind,
        "metadata": {"name": &**name},
        "status": {"conditions": conditions},
    });
    Operation::Judge(name.clone(), body)
}

fn make(resource: Resource, owner: &Owner, body: &Value) -> Operation {
    let new =
        New { resource, namespace: String::new(), name: owner.name.to_string(), body: body.to_string() };
    Operation::Make(owner.uid.clone(), vec![new])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(broken: Option<&str>) -> Vec<Value> {
        let now = Timestamp::from_secs(1_767_225_600);
        let Operation::Judge(name, body) = verdict(now, &"p".into(), 3, (None, broken)) else {
            panic!("a verdict is a status");
        };
        assert_eq!((&*name, &body["metadata"]["name"]), ("p", &json!("p")));
        body["status"]["conditions"].as_array().cloned().unwrap_or_default()
    }

    #[test]
    fn a_policy_says_which_expression_could_not_be_evaluated() {
        let said = conditions(Some("rule fan: no such key: rpm"));
        let condition = said.iter().find(|one| one["type"] == "Evaluated").expect("it is said");
        assert_eq!(
            *condition,
            json!({
                "type": "Evaluated", "status": "False", "reason": "ExpressionFailed",
                "message": "rule fan: no such key: rpm; such signals match nothing: let the expression ask for what it needs, as with has() or a comparison of signal.key before it",
                "observedGeneration": 3, "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        );
        assert_eq!(said[0]["reason"], "Accepted", "it is acted on all the same");
        // Without one the condition goes: the status is applied as a whole.
        assert!(conditions(None).iter().all(|one| one["type"] != "Evaluated"));
    }
}
