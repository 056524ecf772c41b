//! The fields of a pod's JSON that a hollow node reads.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_kubelet::{Container, RestartPolicy, Script, SeenPod};
use lazaret_model::Pod;
use serde::Deserialize;

use crate::{
    annotations::{EXIT_CODE, RUN_FOR, STOP_AFTER, duration_ms},
    node_json,
};

/// Reads the JSON of a pod on the node of this number; `pod` is the same in the form of the model. `None` if it is no pod.
pub(crate) fn read(pod: &Arc<Pod>, node: usize, json: &[u8]) -> Option<SeenPod> {
    let wire: Wire = serde_json::from_str(std::str::from_utf8(json).ok()?).ok()?;
    let annotation = |name: &str| wire.metadata.annotations.get(name).map(String::as_str);
    let restarts = wire.status.container_statuses.iter().map(|status| status.restart_count).max();
    Some(SeenPod {
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
        address: wire.status.pod_ip.and_then(|address| node_json::pod_number(node, &address)),
        restarts: restarts.unwrap_or(0),
        is_unready: wire.status.conditions.iter().any(WireCondition::is_unready),
    })
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
    use lazaret_model::PodPhase;

    use super::*;

    fn read(json: &str) -> SeenPod {
        super::read(&Arc::new(Pod::default()), 0, json.as_bytes()).unwrap()
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
        assert_eq!(super::read(&Arc::default(), 0, b"[]"), None);
        assert_eq!(super::read(&Arc::default(), 0, br#"{"metadata":{}}"#), None);
    }
}
