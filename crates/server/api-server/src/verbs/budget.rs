//! Disruption budgets: how many pods may be evicted before their controller has looked again.

use lazaret_json::{Value, json};
use lazaret_kinds::Kind;
use lazaret_storage::{Op, RangeOptions, TxnError};

use super::{finish::storage, pods::set_condition};
use crate::{ApiError, call::Call, object, selector::Selector};

/// A budget that other evictions change at the same time is read this number of times.
const ATTEMPTS_MAX: usize = 20;
/// Evictions that the budget's controller has not seen yet; beyond that it is not working.
const UNCONFIRMED_MAX: usize = 2_000;
/// Seconds after which a budget whose controller is behind is worth another try.
const BEHIND_RETRY_SECONDS: u32 = 10;
const CAUSE: &str = "DisruptionBudget";
const VIOLATION: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// The charge of an eviction.
pub(super) enum Charge {
    /// No budget covers the pod.
    NotNeeded,
    /// The budget has one disruption less.
    Taken,
    /// The budget does not count the pod, which is not ready.
    NotReady {
        /// The budget's name.
        budget: String,
    },
}

/// Takes one disruption from the budget that covers the pod, if one does. A dry run only asks.
pub(super) async fn take(call: &Call<'_>, pod: &Value, dry_run: bool) -> Result<Charge, ApiError> {
    let Some(budgets) = lazaret_kinds::find("policy", "poddisruptionbudgets") else {
        return Ok(Charge::NotNeeded);
    };
    let prefix = object::key(budgets, &call.target.namespace, "");
    for _ in 0..ATTEMPTS_MAX {
        let range =
            call.store().range(prefix.as_bytes(), &RangeOptions::default()).map_err(ApiError::internal)?;
        let mut covering = range
            .items
            .iter()
            .map(|item| (item, object::decode(&item.value)))
            .filter(|(_, b)| covers(call, b, pod));
        let (item, budget) = match (covering.next(), covering.next()) {
            (None, _) => return Ok(Charge::NotNeeded),
            (Some(one), None) => one,
            (Some(_), Some(_)) => {
                return Err(ApiError::internal(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        if allows_unready(&budget, pod) {
            return Ok(Charge::NotReady { budget: object::meta(&budget, "name").to_owned() });
        }
        let taken = taken(budgets, &budget, object::meta(pod, "name"), &Call::timestamp())?;
        if dry_run {
            return Ok(Charge::Taken);
        }
        let op = Op::update(item.key.clone(), item.modified, object::encode(&taken)?);
        match call.server.commit(vec![op]).await {
            Ok(_) => return Ok(Charge::Taken),
            Err(TxnError::Conflict { .. }) => {}
            Err(error) => return Err(storage(&error)),
        }
    }
    Err(ApiError::too_many_requests(
        "Cannot evict pod: too many evictions at once under its disruption budget.",
        1,
    ))
}

/// A pod that is not ready may go without being counted, if the budget says so or has enough healthy ones.
fn allows_unready(budget: &Value, pod: &Value) -> bool {
    let (healthy, desired) = health(budget);
    let policy = &budget["spec"]["unhealthyPodEvictionPolicy"];
    !is_ready(pod) && (policy == "AlwaysAllow" || desired > 0 && healthy >= desired)
}

fn health(budget: &Value) -> (i64, i64) {
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    (number("currentHealthy"), number("desiredHealthy"))
}

/// The budget with one disruption less, or why it allows none.
fn taken(kind: &Kind, budget: &Value, pod: &str, now: &str) -> Result<Value, ApiError> {
    let name = object::meta(budget, "name");
    let status = &budget["status"];
    let observed = status["observedGeneration"].as_i64().unwrap_or(0);
    if observed < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        return Err(behind(name));
    }
    let forbidden = |why: &str, cause: &str| {
        let cause = format!("The disruption budget {name} does not allow evicting pods currently: {cause}");
        Err(ApiError::forbidden(kind, name, why).with_cause(CAUSE, &cause, ""))
    };
    let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative", "pdb disruptions allowed is negative");
    }
    if status["disruptedPods"].as_object().map_or(0, lazaret_json::Map::len) > UNCONFIRMED_MAX {
        return forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            "too many pending evictions not confirmed by PDB controller",
        );
    }
    if allowed == 0 {
        return Err(ApiError::too_many_requests(VIOLATION, 0).with_cause(
            CAUSE,
            &none_allowed_reason(name, budget),
            "",
        ));
    }
    let mut budget = budget.clone();
    budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
    if allowed == 1 {
        let condition = json!({"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "", "observedGeneration": observed});
        set_condition(&mut budget, condition);
    }
    budget["status"]["disruptedPods"][pod] = now.into();
    Ok(budget)
}

/// A budget that has to be looked at again before it permits anything.
pub(super) fn behind(name: &str) -> ApiError {
    let why = format!("The disruption budget {name} is still being processed by the server.");
    ApiError::too_many_requests(VIOLATION, BEHIND_RETRY_SECONDS).with_cause(CAUSE, &why, "")
}

/// Why a budget that allows none does so, as well as its status tells.
fn none_allowed_reason(name: &str, budget: &Value) -> String {
    let (healthy, desired) = health(budget);
    let refusal = budget["status"]["conditions"].as_array().into_iter().flatten().find(|condition| {
        condition["type"] == "DisruptionAllowed"
            && condition["status"] == "False"
            && condition["message"].as_str().is_some_and(|text| !text.is_empty())
    });
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    match refusal {
        // Without a sync, the counts are not to be trusted.
        Some(condition) if condition["reason"] == "SyncFailed" => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {}",
            text(condition, "message")
        ),
        _ if healthy <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
        Some(condition) => format!(
            "The disruption budget {name} does not allow evicting pods currently ({}): {}",
            text(condition, "reason"),
            text(condition, "message")
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

fn covers(call: &Call<'_>, budget: &Value, pod: &Value) -> bool {
    let selector = &budget["spec"]["selector"];
    if selector.is_null() {
        return false;
    }
    let mut parts: Vec<String> = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        parts.push(match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({})", values.join(",")),
            Some("NotIn") => format!("{key} notin ({})", values.join(",")),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    Selector::parse(&call.kind, Some(&parts.join(",")), None)
        .is_ok_and(|selector| selector.matches(&call.kind, pod))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(status: Value) -> Result<Value, (u16, Option<u32>)> {
        let kind = lazaret_kinds::find("policy", "poddisruptionbudgets").unwrap();
        let budget = json!({"metadata": {"name": "b", "generation": 2}, "status": status});
        taken(kind, &budget, "p", "now").map_err(|error| (error.code, error.retry_after))
    }

    #[test]
    fn a_budget_gives_only_what_its_controller_has_counted() {
        let one = json!({"observedGeneration": 2, "disruptionsAllowed": 1});
        let left = attempt(one).unwrap();
        assert_eq!(
            (&left["status"]["disruptionsAllowed"], &left["status"]["disruptedPods"]["p"]),
            (&json!(0), &json!("now"))
        );
        let condition = &left["status"]["conditions"][0];
        assert_eq!(
            (&condition["type"], &condition["status"], &condition["reason"]),
            (&json!("DisruptionAllowed"), &json!("False"), &json!("InsufficientPods"))
        );
        for (status, expected) in [
            (json!({"observedGeneration": 1, "disruptionsAllowed": 1}), (429, Some(10))),
            (json!({"observedGeneration": 2, "disruptionsAllowed": -1}), (403, None)),
            (json!({"observedGeneration": 2, "disruptionsAllowed": 0}), (429, None)),
        ] {
            assert_eq!(attempt(status.clone()), Err(expected), "{status}");
        }
    }

    #[test]
    fn a_pod_that_is_not_ready_may_go_when_enough_are_healthy() {
        let pod = |ready: &str| json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
        let budget = |healthy: i64, policy: Option<&str>| json!({"spec": {"unhealthyPodEvictionPolicy": policy}, "status": {"currentHealthy": healthy, "desiredHealthy": 2}});
        assert!(allows_unready(&budget(2, None), &pod("False")));
        assert!(!allows_unready(&budget(1, None), &pod("False")));
        assert!(allows_unready(&budget(1, Some("AlwaysAllow")), &pod("False")));
        assert!(!allows_unready(&budget(2, None), &pod("True")));
    }
}
