//! The fields of a pod that a hollow node reads.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_model::{ObjectKey, Pod, PodPhase, Timestamp};
use serde::Deserialize;

use crate::annotations::{EXIT_CODE, RUN_FOR, STOP_AFTER, duration_ms};

/// A pod as a node sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenPod {
    /// The pod in the form of the model.
    pub pod: Arc<Pod>,
    /// How its containers behave.
    pub script: Script,
    /// Its containers.
    pub containers: Vec<Container>,
    /// Those that run before them.
    pub init_containers: Vec<Container>,
    /// Whether containers that exit are started again.
    pub restart_policy: RestartPolicy,
    /// It has the node's address.
    pub host_network: bool,
    /// How long it may take to stop, while it is being deleted.
    pub grace_ms: i64,
    /// The spec's generation.
    pub generation: i64,
    /// When it was first seen by its node.
    pub start_time: Option<Timestamp>,
    /// Its address.
    pub address: Option<String>,
    /// How often its containers were started again.
    pub restarts: u32,
    /// Its status says that it is not ready. The node controller writes that while it does not hear from the node.
    pub is_unready: bool,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its image, which nobody pulls.
    pub image: String,
}

/// How the containers of a pod behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Script {
    /// They exit after this time; `None`: as their restart policy suggests.
    pub run_for_ms: Option<i64>,
    /// The exit code.
    pub exit_code: i32,
    /// They take this long to stop.
    pub stop_after_ms: i64,
}

/// Whether containers that exit are started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RestartPolicy {
    /// It is started again.
    #[default]
    Always,
    /// It is started again if it failed.
    OnFailure,
    /// Nothing.
    Never,
}

impl SeenPod {
    /// Reads a pod's JSON, of which `pod` is known already. `None` if it is no pod.
    #[must_use]
    pub fn read(pod: &Arc<Pod>, json: &[u8]) -> Option<Self> {
        let wire: Wire = serde_json::from_str(std::str::from_utf8(json).ok()?).ok()?;
        let annotation = |name: &str| wire.metadata.annotations.get(name).map(String::as_str);
        let restarts = wire.status.container_statuses.iter().map(|status| status.restart_count).max();
        Some(Self {
            pod: Arc::clone(pod),
            script: Script {
                run_for_ms: annotation(RUN_FOR).and_then(duration_ms),
                exit_code: annotation(EXIT_CODE).and_then(|code| code.trim().parse().ok()).unwrap_or(0),
                stop_after_ms: annotation(STOP_AFTER).and_then(duration_ms).unwrap_or(0),
            },
            containers: wire.spec.containers.into_iter().map(Container::from).collect(),
            init_containers: wire.spec.init_containers.into_iter().map(Container::from).collect(),
            restart_policy: match wire.spec.restart_policy.as_str() {
                "Never" => RestartPolicy::Never,
                "OnFailure" => RestartPolicy::OnFailure,
                _ => RestartPolicy::Always,
            },
            host_network: wire.spec.host_network,
            grace_ms: wire
                .metadata
                .deletion_grace_period_seconds
                .unwrap_or(wire.spec.termination_grace_period_seconds)
                .clamp(0, 1_000_000)
                * 1_000,
            generation: wire.metadata.generation,
            start_time: wire.status.start_time.and_then(|time| lazaret_api::parse_time(&time).ok()),
            address: wire.status.pod_ip,
            restarts: restarts.unwrap_or(0),
            is_unready: wire.status.conditions.iter().any(WireCondition::is_unready),
        })
    }

    /// Where it is.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.pod.key
    }

    /// How long its containers run before they exit; `None`: until somebody stops them.
    #[must_use]
    pub fn run_for_ms(&self, job_run_ms: i64) -> Option<i64> {
        self.script.run_for_ms.or(match self.restart_policy {
            RestartPolicy::Always => None,
            RestartPolicy::OnFailure | RestartPolicy::Never => Some(job_run_ms),
        })
    }

    /// How long its containers take to stop.
    #[must_use]
    pub fn stop_ms(&self) -> i64 {
        self.script.stop_after_ms.min(self.grace_ms)
    }

    /// The phase of the pod when its containers exit; `None`: they are started again.
    #[must_use]
    pub fn phase_after_exit(&self) -> Option<PodPhase> {
        match (self.restart_policy, self.script.exit_code) {
            (RestartPolicy::Always, _) => None,
            (RestartPolicy::OnFailure | RestartPolicy::Never, 0) => Some(PodPhase::Succeeded),
            (RestartPolicy::OnFailure, _) => None,
            (RestartPolicy::Never, _) => Some(PodPhase::Failed),
        }
    }
}

#[derive(Deserialize)]
struct Wire {
    metadata: WireMetadata,
    spec: WireSpec,
    #[serde(default)]
    status: WireStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMetadata {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    deletion_grace_period_seconds: Option<i64>,
    #[serde(default)]
    generation: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSpec {
    #[serde(default)]
    containers: Vec<WireContainer>,
    #[serde(default)]
    init_containers: Vec<WireContainer>,
    #[serde(default)]
    restart_policy: String,
    #[serde(default)]
    host_network: bool,
    #[serde(default = "default_grace")]
    termination_grace_period_seconds: i64,
}

fn default_grace() -> i64 {
    30
}

#[derive(Deserialize)]
struct WireContainer {
    name: String,
    #[serde(default)]
    image: String,
}

impl From<WireContainer> for Container {
    fn from(wire: WireContainer) -> Self {
        Self { name: wire.name, image: wire.image }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireStatus {
    start_time: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    container_statuses: Vec<WireContainerStatus>,
    conditions: Vec<WireCondition>,
}

#[derive(Deserialize)]
struct WireCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl WireCondition {
    fn is_unready(&self) -> bool {
        self.kind == "Ready" && self.status == "False"
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireContainerStatus {
    #[serde(default)]
    restart_count: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> SeenPod {
        SeenPod::read(&Arc::new(Pod::default()), json.as_bytes()).unwrap()
    }

    #[test]
    fn annotations_and_policy_say_how_it_ends() {
        let pod = read(
            r#"{"metadata":{"annotations":{"hollow.lazaret.dev/run-for":"5s","hollow.lazaret.dev/exit-code":"3"},
                "deletionGracePeriodSeconds":7},"spec":{"containers":[{"name":"c"}],"restartPolicy":"Never"}}"#,
        );
        assert_eq!(pod.run_for_ms(1_000), Some(5_000));
        assert_eq!(pod.phase_after_exit(), Some(PodPhase::Failed));
        assert_eq!(pod.grace_ms, 7_000);
        let policies = [("Always", None, None), ("OnFailure", Some(1_000), Some(PodPhase::Succeeded))];
        for (policy, run_for, phase) in policies {
            let pod = read(&format!(r#"{{"metadata":{{}},"spec":{{"restartPolicy":"{policy}"}}}}"#));
            assert_eq!((pod.run_for_ms(1_000), pod.phase_after_exit()), (run_for, phase), "{policy}");
            assert_eq!(pod.grace_ms, 30_000);
        }
    }

    #[test]
    fn what_is_no_pod_is_none() {
        assert_eq!(SeenPod::read(&Arc::default(), b"[]"), None);
        assert_eq!(SeenPod::read(&Arc::default(), br#"{"metadata":{}}"#), None);
    }
}
