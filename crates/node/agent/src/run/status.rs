//! The status of a pod, as the API takes it.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use lazaret_model::{Format, Quantity};
use lazaret_node::ResourceStatus;
use lazaret_pods::{Amounts, Condition, ConditionKind, ContainerStatus, Exit, Millis, Phase, State, Status};
use serde_json::{Map, Value, json};

/// Facts for a pod's status that the machine does not have.
#[derive(Debug)]
pub(super) struct StatusInputs<'a> {
    /// The pod as the API has it.
    pub(super) pod: &'a Pod,
    /// The runtime's name: the scheme of container ids.
    pub(super) runtime: &'a str,
    /// The addresses of the node.
    pub(super) host_ips: &'a [String],
    /// How devices of containers are.
    pub(super) health: &'a BTreeMap<String, Vec<ResourceStatus>>,
}

/// A strategic merge patch: conditions and claims of others stay.
pub(super) fn patch(around: &StatusInputs<'_>, status: &Status) -> Value {
    let metadata = &around.pod.metadata;
    let ips = &status.ips;
    let addresses = |ips: &[String]| ips.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>();
    let mut body = json!({
        "phase": phase(status.phase),
        "conditions": conditions(around.pod, status),
        "startTime": time(status.started_at),
        "hostIP": around.host_ips.first(),
        "hostIPs": addresses(around.host_ips),
        "qosClass": lazaret_provision::qos_class(around.pod).as_str(),
        "observedGeneration": metadata.generation,
        "reason": status.reason,
        "message": status.message,
    });
    let fields = body.as_object_mut().into_iter();
    for fields in fields {
        if !ips.is_empty() {
            fields.insert("podIP".into(), json!(ips[0]));
            fields.insert("podIPs".into(), json!(addresses(ips)));
        }
        if !status.init.is_empty() {
            let all: Vec<Value> = status.init.iter().map(|one| container(around, one)).collect();
            fields.insert("initContainerStatuses".into(), all.into());
        }
        if !status.main.is_empty() {
            let all: Vec<Value> = status.main.iter().map(|one| container(around, one)).collect();
            fields.insert("containerStatuses".into(), all.into());
        }
        if !status.ephemeral.is_empty() {
            let all: Vec<Value> = status.ephemeral.iter().map(|one| container(around, one)).collect();
            fields.insert("ephemeralContainerStatuses".into(), all.into());
        }
    }
    json!({"metadata": {"uid": metadata.uid}, "status": body})
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "Pending",
        Phase::Running => "Running",
        Phase::Succeeded => "Succeeded",
        Phase::Failed => "Failed",
    }
}

/// Conditions, and the removal of those that are not so any more. The object that is here may be older than what was written last, so
/// it is not asked which it has; a pod whose spec never changed has none.
fn conditions(pod: &Pod, status: &Status) -> Vec<Value> {
    let was_changed = pod.metadata.generation.is_none_or(|generation| generation > 1);
    let has = |kind: ConditionKind| status.conditions.iter().any(|one| one.kind == kind);
    let gone = ConditionKind::TRANSIENT.into_iter().filter(|kind| was_changed && !has(*kind));
    let gone = gone.map(|kind| json!({"type": kind.name(), "$patch": "delete"}));
    status.conditions.iter().map(|one| condition(pod, one)).chain(gone).collect()
}

fn condition(pod: &Pod, condition: &Condition) -> Value {
    json!({
        "type": condition.kind.name(),
        "status": if condition.is_true { "True" } else { "False" },
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": time(condition.changed_at),
        "lastProbeTime": null,
        "observedGeneration": pod.metadata.generation,
    })
}

fn container(around: &StatusInputs<'_>, status: &ContainerStatus) -> Value {
    let id = |id: &str| format!("{}://{id}", around.runtime);
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| drop(fields.insert(name.into(), value));
    set("name", status.name.as_str().into());
    set("image", status.image.as_str().into());
    set("imageID", status.image_id.as_str().into());
    set("ready", status.is_ready.into());
    set("started", status.is_started.into());
    set("restartCount", status.restarts.into());
    set("state", state(&status.state, &id));
    set("lastState", status.last.as_ref().map_or_else(|| json!({}), |last| state(last, &id)));
    if let Some(own) = &status.id {
        set("containerID", id(own).into());
    }
    if let Some(resources) = resources(around.pod, status) {
        set("resources", resources);
        let allocated = with_amounts(&Map::new(), status.allocated.requests);
        if !allocated.is_empty() {
            set("allocatedResources", allocated.into());
        }
    }
    if let Some(health) = around.health.get(&status.name).filter(|health| !health.is_empty()) {
        let all: Vec<Value> = health.iter().map(resource).collect();
        set("allocatedResourcesStatus", all.into());
    }
    without_nulls(fields.into())
}

/// The current resources of a running container, if its pod sets any: the pod's own fields, with the current amounts.
fn resources(pod: &Pod, status: &ContainerStatus) -> Option<Value> {
    let has = status.resources?;
    let spec = pod.spec.as_ref()?;
    let mut all = spec.init_containers.iter().flatten().chain(&spec.containers);
    let wanted = all.find(|container| container.name == status.name)?.resources.as_ref()?;
    let Value::Object(mut fields) = serde_json::to_value(wanted).ok()? else { return None };
    for (name, amounts) in [("requests", has.requests), ("limits", has.limits)] {
        if let Some(Value::Object(known)) = fields.get(name) {
            let known = with_amounts(known, amounts);
            fields.insert(name.to_owned(), known.into());
        }
    }
    // Claims are no amounts.
    fields.remove("claims");
    Some(Value::Object(fields)).filter(|value| value.as_object().is_some_and(|fields| !fields.is_empty()))
}

/// The same list with these amounts of what can be changed; one that says the same stays as it is written.
fn with_amounts(list: &Map<String, Value>, amounts: Amounts) -> Map<String, Value> {
    let mut list = list.clone();
    let known = |list: &Map<String, Value>, name: &str| {
        let text = list.get(name).and_then(Value::as_str)?;
        Quantity::parse(text).ok()
    };
    let cpu = Quantity::from_milli(amounts.cpu_milli.into(), Format::DecimalSi);
    let memory = i64::try_from(amounts.memory).unwrap_or(i64::MAX);
    let memory = Quantity::from_i64_format(memory, Format::BinarySi);
    for (name, amount) in [("cpu", cpu), ("memory", memory)] {
        if amount.is_zero() || known(&list, name).is_some_and(|known| known == amount) {
            continue;
        }
        list.insert(name.to_owned(), amount.to_string().into());
    }
    list
}

/// A list is replaced as it is: what is not there must not be there as `null`.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other,
    }
}

fn resource(status: &ResourceStatus) -> Value {
    let devices = status.resources.iter().map(|resource| {
        json!({"resourceID": resource.id, "health": resource.health.name(), "message": resource.message})
    });
    json!({"name": status.name, "resources": devices.collect::<Vec<_>>()})
}

fn state(state: &State, id: &impl Fn(&str) -> String) -> Value {
    match state {
        State::Waiting { reason, message } => json!({"waiting": {"reason": reason, "message": message}}),
        State::Running { started_at } => json!({"running": {"startedAt": time(*started_at)}}),
        State::Terminated { id: own, exit } => json!({"terminated": terminated(&id(own), exit)}),
    }
}

fn terminated(id: &str, exit: &Exit) -> Value {
    json!({
        "containerID": id,
        "exitCode": exit.code,
        "signal": exit.signal,
        "reason": exit.reason,
        "message": exit.message,
        "startedAt": exit.started_at.map(time),
        "finishedAt": time(exit.finished_at),
    })
}

/// Seconds, as Kubernetes has them.
pub(super) fn time(at: Millis) -> String {
    let seconds = i64::try_from(at / 1_000).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_pods::Resources;

    #[test]
    fn a_status_is_written_as_kubelet_writes_it() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "uid": "u", "generation": 2}, "spec": {"containers": [{"name": "c"}]},
        }))
        .unwrap();
        let exit = Exit {
            started_at: None,
            finished_at: 1_000_000_000_500,
            code: 128,
            signal: None,
            reason: "ContainerCannotRun",
            message: Some("no such file".into()),
        };
        let container = ContainerStatus {
            name: "c".into(),
            image: "i".into(),
            image_id: "sha256:1".into(),
            id: Some("x1".into()),
            state: State::Waiting { reason: "CrashLoopBackOff", message: None },
            last: Some(State::Terminated { id: "x1".into(), exit }),
            restarts: 3,
            is_ready: false,
            is_started: false,
            resources: None,
            allocated: Resources::default(),
        };
        let condition = Condition {
            kind: ConditionKind::Ready,
            is_true: false,
            reason: Some("ContainersNotReady"),
            message: None,
            changed_at: 1_000_000_000_000,
        };
        let status = Status {
            phase: Phase::Running,
            reason: None,
            message: None,
            started_at: 1_000_000_000_000,
            ips: vec!["10.0.0.2".into()],
            conditions: vec![condition],
            init: vec![],
            main: vec![container],
            ephemeral: vec![],
        };
        let around = StatusInputs {
            pod: &pod,
            runtime: "runc",
            host_ips: &["192.0.2.1".into()],
            health: &BTreeMap::new(),
        };
        let patch = patch(&around, &status);
        assert_eq!(patch["metadata"]["uid"], "u");
        let status = &patch["status"];
        assert_eq!((&status["phase"], &status["podIP"]), (&json!("Running"), &json!("10.0.0.2")));
        assert_eq!(status["startTime"], "2001-09-09T01:46:40Z");
        assert_eq!(status["qosClass"], "BestEffort");
        let expected = json!([{
            "name": "c", "image": "i", "imageID": "sha256:1", "containerID": "runc://x1", "ready": false, "started": false,
            "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {
                "containerID": "runc://x1", "exitCode": 128, "reason": "ContainerCannotRun", "message": "no such file",
                "finishedAt": "2001-09-09T01:46:40Z",
            }},
        }]);
        assert_eq!(status["containerStatuses"], expected);
    }
}
