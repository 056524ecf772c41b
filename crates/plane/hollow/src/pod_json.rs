//! The statuses that a node writes for its pods, each in one patch.

use lazaret_api::format_time;
use lazaret_kubelet::{Container, EndPod, SeenPod, StartPod};
use lazaret_model::{PodPhase, Timestamp};
use serde_json::{Value, json};

/// Where a pod runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host_ip: String,
    pub(crate) pod_ip: String,
}

/// All containers run.
pub(crate) fn running(start: &StartPod, place: &Place) -> Value {
    let (seen, restarts) = (&*start.pod, start.restarts);
    let (first, since) = (format_time(start.started), format_time(start.since));
    let containers =
        |state: &dyn Fn(&Container) -> Value| seen.containers.iter().map(state).collect::<Vec<_>>();
    let run = |container: &Container| {
        let mut status = container_status(container, restarts, json!({"running": {"startedAt": &*since}}));
        status["ready"] = true.into();
        status["started"] = true.into();
        status["containerID"] = format!("hollow://{}/{}/{restarts}", seen.pod.uid, container.name).into();
        status
    };
    json!({
        "metadata": {"uid": &*seen.pod.uid},
        "status": {
            "phase": "Running",
            "observedGeneration": seen.generation,
            "conditions": conditions(seen, &since, &[
                ("PodReadyToStartContainers", true),
                ("Initialized", true),
                ("Ready", true),
                ("ContainersReady", true),
            ]),
            "hostIP": place.host_ip,
            "hostIPs": [{"ip": place.host_ip}],
            "podIP": place.pod_ip,
            "podIPs": [{"ip": place.pod_ip}],
            "startTime": first,
            "initContainerStatuses": init_statuses(seen, &first),
            "containerStatuses": containers(&run),
        },
    })
}

/// A pod that runs is ready, whatever another client wrote.
pub(crate) fn ready(seen: &SeenPod, at: Timestamp) -> Value {
    let mut conditions = conditions(seen, &format_time(at), &[("Ready", true)]);
    for condition in &mut conditions {
        (condition["reason"], condition["message"]) = (Value::Null, Value::Null);
    }
    json!({"metadata": {"uid": &*seen.pod.uid}, "status": {"conditions": conditions}})
}

/// All containers have exited.
pub(crate) fn ended(end: &EndPod) -> Value {
    let EndPod { pod: seen, exit_code, restarts, .. } = end;
    let (exit_code, restarts) = (*exit_code, *restarts);
    let started = format_time(end.started.unwrap_or(end.at));
    let at = format_time(end.at);
    let exit = |container: &Container| {
        let state = terminated(exit_code, &started, &at);
        let mut status = container_status(container, restarts, state);
        status["containerID"] = format!("hollow://{}/{}/{restarts}", seen.pod.uid, container.name).into();
        status
    };
    let (name, reason) = match end.phase {
        PodPhase::Succeeded => ("Succeeded", "PodCompleted"),
        PodPhase::Pending | PodPhase::Running | PodPhase::Failed | PodPhase::Unknown => {
            ("Failed", "PodFailed")
        }
    };
    let mut conditions = conditions(
        seen,
        &at,
        &[
            ("PodReadyToStartContainers", false),
            ("Initialized", true),
            ("Ready", false),
            ("ContainersReady", false),
        ],
    );
    for condition in &mut conditions {
        if matches!(condition["type"].as_str(), Some("Ready" | "ContainersReady")) {
            condition["reason"] = reason.into();
        }
    }
    json!({
        "metadata": {"uid": &*seen.pod.uid},
        "status": {
            "phase": name,
            "observedGeneration": seen.generation,
            "conditions": conditions,
            "initContainerStatuses": init_statuses(seen, &started),
            "containerStatuses": seen.containers.iter().map(exit).collect::<Vec<_>>(),
        },
    })
}

fn conditions(seen: &SeenPod, at: &str, states: &[(&str, bool)]) -> Vec<Value> {
    let condition = |(kind, holds): &(&str, bool)| {
        json!({
            "type": kind,
            "status": if *holds { "True" } else { "False" },
            "lastTransitionTime": at,
            "observedGeneration": seen.generation,
        })
    };
    states.iter().map(condition).collect()
}

fn init_statuses(seen: &SeenPod, at: &str) -> Vec<Value> {
    let done = |container: &Container| {
        let mut status = container_status(container, 0, terminated(0, at, at));
        status["ready"] = true.into();
        status["containerID"] = format!("hollow://{}/{}/0", seen.pod.uid, container.name).into();
        status
    };
    seen.init_containers.iter().map(done).collect()
}

fn container_status(container: &Container, restarts: u32, state: Value) -> Value {
    json!({
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": false,
        "started": false,
        "restartCount": restarts,
        "state": state,
    })
}

fn terminated(exit_code: i32, started: &str, finished: &str) -> Value {
    let reason = if exit_code == 0 { "Completed" } else { "Error" };
    json!({"terminated": {
        "exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": finished,
    }})
}
