//! Reasons that keep the pod of a repair or a validation from doing its work.

use lazaret_model::Text;
use lazaret_runtime::Object;
use serde::Deserialize;

/// Reasons of containers that are about to start.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

#[derive(Default, Deserialize)]
#[serde(default)]
struct Pod {
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    conditions: Vec<Condition>,
    init_container_statuses: Vec<Container>,
    container_statuses: Vec<Container>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Container {
    name: String,
    state: State,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct State {
    waiting: Option<Waiting>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: String,
    message: String,
}

/// The reason that keeps this pod from doing its work, for people: no node has room for it, or an image cannot be had. Empty where there is none.
pub(super) fn obstacle(pod: &Object) -> Text {
    match serde_json::from_slice(pod.json()) {
        Ok(Pod { status }) => of_status(&pod.key.to_string(), &status).unwrap_or_default().into(),
        Err(error) => format!("pod {} cannot be read: {error}", pod.key).into(),
    }
}

fn of_status(pod: &str, status: &Status) -> Option<String> {
    let is_unplaced = |one: &&Condition| one.kind == "PodScheduled" && one.status == "False";
    if let Some(said) = status.conditions.iter().find(is_unplaced) {
        return Some(format!("pod {pod} has no node: {}", said.message));
    }
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses);
    containers.into_iter().find_map(|container| {
        let Waiting { reason, message } = container.state.waiting.as_ref()?;
        let is_stuck = !reason.is_empty() && !STARTING.contains(&reason.as_str());
        is_stuck.then(|| format!("container {} of pod {pod}: {reason}: {message}", container.name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_pod_is_its_node_or_its_image() {
        let rows = [
            (r#"{}"#, None),
            (
                r#"{"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]}"#,
                Some("pod a/b has no node: 0/3 nodes are available"),
            ),
            (r#"{"conditions": [{"type": "PodScheduled", "status": "True"}]}"#, None),
            (
                r#"{"containerStatuses": [{"name": "x", "state": {"waiting": {"reason": "ContainerCreating"}}}]}"#,
                None,
            ),
            (
                r#"{"containerStatuses": [{"name": "x", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]}"#,
                Some("container x of pod a/b: ImagePullBackOff: no such image"),
            ),
            (r#"{"containerStatuses": [{"name": "x", "state": {"running": {}}}]}"#, None),
        ];
        for (status, expected) in rows {
            let status: Status = serde_json::from_str(status).unwrap_or_default();
            assert_eq!(of_status("a/b", &status).as_deref(), expected);
        }
    }
}
