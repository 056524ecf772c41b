//! A pod as a row of a table.

use lazaret_json::Value;

use crate::{
    Column, Context,
    kind::{age, since},
    value::{has, is_true, list, number, text},
};

pub(super) const COLUMNS: &[Column] = &[
    Column::text("Ready"),
    Column::text("Status"),
    Column::text("Restarts"),
    Column::AGE,
    Column::wide("IP"),
    Column::wide("Node"),
    Column::wide("Nominated Node"),
    Column::wide("Readiness Gates"),
];

pub(super) fn cells(pod: &Value, context: &Context<'_>) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let summary = ContainerSummary::of(pod);
    let restarts = match summary.last_restart {
        Some(time) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, since(Some(time), context))
        }
        _ => summary.restarts.to_string(),
    };
    let or_none = |text: &str| Value::from(if text.is_empty() { "<none>" } else { text });
    let address = list(status, "podIPs").first().map_or("", |ip| text(ip, "ip"));
    vec![
        format!("{}/{}", summary.ready, summary.containers).into(),
        summary.reason.into(),
        restarts.into(),
        age(pod, context),
        or_none(address),
        or_none(text(spec, "nodeName")),
        or_none(text(status, "nominatedNodeName")),
        readiness_gates(spec, status).into(),
    ]
}

fn readiness_gates(spec: &Value, status: &Value) -> String {
    let gates = list(spec, "readinessGates");
    if gates.is_empty() {
        return "<none>".into();
    }
    let open =
        |gate: &&Value| condition(status, text(gate, "conditionType")).is_some_and(|found| found == "True");
    format!("{}/{}", gates.iter().filter(open).count(), gates.len())
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a str> {
    let found = list(status, "conditions").iter().find(|condition| text(condition, "type") == kind);
    found.map(|condition| text(condition, "status"))
}

/// The summary of the containers of a pod.
struct ContainerSummary<'a> {
    ready: usize,
    containers: usize,
    restarts: i64,
    last_restart: Option<&'a str>,
    reason: String,
}

impl<'a> ContainerSummary<'a> {
    fn of(pod: &'a Value) -> Self {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let said = text(status, "reason");
        let mut summary = Self {
            ready: 0,
            containers: list(spec, "containers").len(),
            restarts: 0,
            last_restart: None,
            reason: if said.is_empty() { text(status, "phase") } else { said }.to_owned(),
        };
        if list(status, "conditions")
            .iter()
            .any(|known| text(known, "type") == "PodScheduled" && text(known, "reason") == "SchedulingGated")
        {
            summary.reason = "SchedulingGated".into();
        }
        let initializing = summary.init_containers(spec, status);
        if !initializing || condition(status, "Initialized") == Some("True") {
            summary.main_containers(spec, status);
        }
        if has(&pod["metadata"], "deletionTimestamp") {
            if said == "NodeLost" {
                summary.reason = "Unknown".into();
            } else if !["Succeeded", "Failed"].contains(&text(status, "phase")) {
                summary.reason = "Terminating".into();
            }
        }
        summary
    }

    fn note_restart(&mut self, container: &'a Value) {
        self.restarts += number(container, "restartCount");
        let finished = text(&container["lastState"]["terminated"], "finishedAt");
        if !finished.is_empty() && self.last_restart.is_none_or(|last| last < finished) {
            self.last_restart = Some(finished);
        }
    }

    /// Whether the pod is not past its init containers.
    fn init_containers(&mut self, spec: &Value, status: &'a Value) -> bool {
        self.containers +=
            list(spec, "initContainers").iter().filter(|container| is_sidecar(container)).count();
        for (at, container) in list(status, "initContainerStatuses").iter().enumerate() {
            self.note_restart(container);
            let sidecar = find(spec, container).is_some_and(is_sidecar);
            let state = &container["state"];
            if has(state, "terminated") && number(&state["terminated"], "exitCode") == 0 {
                continue;
            }
            if sidecar && is_true(container, "started") {
                self.ready += usize::from(is_true(container, "ready"));
                continue;
            }
            let waiting = text(&state["waiting"], "reason");
            self.reason = if has(state, "terminated") {
                format!("Init:{}", end_of(&state["terminated"]))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{at}/{}", list(spec, "initContainers").len())
            };
            return true;
        }
        false
    }

    fn main_containers(&mut self, spec: &Value, status: &'a Value) {
        self.restarts = 0;
        self.last_restart = None;
        for container in list(status, "initContainerStatuses") {
            if find(spec, container).is_some_and(is_sidecar) {
                self.note_restart(container);
            }
        }
        let mut running = false;
        let mut failure = None;
        for container in list(status, "containerStatuses").iter().rev() {
            self.note_restart(container);
            let state = &container["state"];
            let waiting = text(&state["waiting"], "reason");
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if has(state, "terminated") {
                self.reason = end_of(&state["terminated"]);
                if number(&state["terminated"], "exitCode") != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if is_true(container, "ready") && has(state, "running") {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if running && condition(status, "Ready") == Some("True") {
                self.reason = "Running".into();
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if running {
                self.reason = "NotReady".into();
            }
        }
    }
}

fn find<'a>(spec: &'a Value, status: &Value) -> Option<&'a Value> {
    list(spec, "initContainers").iter().find(|container| text(container, "name") == text(status, "name"))
}

fn is_sidecar(container: &Value) -> bool {
    text(container, "restartPolicy") == "Always"
}

/// How a container ended.
fn end_of(terminated: &Value) -> String {
    let (reason, signal) = (text(terminated, "reason"), number(terminated, "signal"));
    if !reason.is_empty() {
        reason.to_owned()
    } else if signal != 0 {
        format!("Signal:{signal}")
    } else {
        format!("ExitCode:{}", number(terminated, "exitCode"))
    }
}
