//! Which replicas are missed least: the order in which pods are deleted when there are too many.

use core::cmp::Reverse;

use crate::{meta, pods, prelude::*};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Sorts pods so that those that are missed least come first. `related` are all pods that do the same work: where many
/// of them share a node, one of those goes first.
pub(crate) fn sort_for_deletion(now: Timestamp, pods: &mut [Arc<Pod>], related: &[Arc<Pod>]) {
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in related.iter().filter(|pod| pods::is_active(pod)) {
        *on_node.entry(pods::node(pod)).or_default() += 1;
    }
    pods.sort_by_cached_key(|pod| {
        let company = on_node.get(pods::node(pod)).copied().unwrap_or_default();
        let place = (bound(pod), progress(pod), pods::is_ready(pod), cost(pod), Reverse(company));
        let created = magnitude(now, meta::created(&pod.metadata));
        let age = (ready_magnitude(now, pod), Reverse(restarts(pod)), created);
        (place, age, meta::uid(&pod.metadata).to_owned())
    });
}

fn bound(pod: &Pod) -> bool {
    !pods::node(pod).is_empty()
}

fn progress(pod: &Pod) -> u8 {
    match pods::phase(pod) {
        "Unknown" => 1,
        "Running" => 2,
        _ => 0,
    }
}

fn cost(pod: &Pod) -> i32 {
    meta::annotation(&pod.metadata, DELETION_COST).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Those that became ready last come first.
fn ready_magnitude(now: Timestamp, pod: &Pod) -> i64 {
    pods::ready_since(pod).map_or(-1, |since| magnitude(now, since))
}

/// The order of magnitude of an age: the logarithm of nanoseconds, as Kubernetes counts it. Pods 50 and 60 minutes old
/// count as equally old, so that not always the pods of the newest nodes are deleted. No time at all comes first.
///
/// DEVIATION(deletion-order): of two ages of one magnitude neither comes first, and the next question decides. Kubernetes
/// decides by UID if the times differ and by the next question if they do not, which is no order at all.
fn magnitude(now: Timestamp, since: Timestamp) -> i64 {
    if since == Timestamp::EPOCH {
        return -2;
    }
    let nanos = i128::from(now.millis_since(since)) * 1_000_000;
    if nanos <= 0 { -1 } else { i64::from(127 - nanos.leading_zeros()) }
}

/// The most restarts of a container, then of a sidecar.
fn restarts(pod: &Pod) -> (i32, i32) {
    let Some(status) = &pod.status else { return (0, 0) };
    let sidecars: Vec<&str> = pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten())
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let main = status.container_statuses.iter().flatten().map(|container| container.restart_count).max();
    let side = status
        .init_container_statuses
        .iter()
        .flatten()
        .filter(|container| sidecars.contains(&container.name.as_str()))
        .map(|container| container.restart_count)
        .max();
    (main.unwrap_or(0), side.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(
        name: &str,
        node: &str,
        phase: &str,
        ready_at: Option<i64>,
        created: i64,
        more: &Value,
    ) -> Arc<Pod> {
        let stamp = |secs: i64| jiff::Timestamp::from_second(secs).unwrap().to_string();
        let mut object = json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": stamp(created)},
            "spec": {"containers": [], "nodeName": node},
            "status": {"phase": phase},
        });
        if let Some(at) = ready_at {
            object["status"]["conditions"] =
                json!([{"type": "Ready", "status": "True", "lastTransitionTime": stamp(at)}]);
        }
        if let Some(cost) = more.get("cost") {
            object["metadata"]["annotations"] = json!({DELETION_COST: cost});
        }
        if let Some(restarts) = more.get("restarts") {
            object["status"]["containerStatuses"] =
                json!([{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": restarts}]);
        }
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn those_that_are_missed_least_go_first() {
        let none = json!({});
        let now = Timestamp::from_secs(1_000_000);
        let mut all = vec![
            pod("old", "n1", "Running", Some(900), 800, &none),
            pod("restarted", "n1", "Running", Some(900), 800, &json!({"restarts": 3})),
            pod("young", "n1", "Running", Some(999_000), 998_000, &none),
            pod("crowded", "n2", "Running", Some(900), 800, &none),
            pod("cheap", "n1", "Running", Some(900), 800, &json!({"cost": "-5"})),
            pod("unready", "n1", "Running", None, 800, &none),
            pod("pending", "n1", "Pending", None, 800, &none),
            pod("unbound", "", "Pending", None, 800, &none),
        ];
        let mut related = all.clone();
        for at in 0..9 {
            related.push(pod(&format!("r{at}"), "n2", "Running", None, 800, &none));
        }
        sort_for_deletion(now, &mut all, &related);
        let order: Vec<&str> = all.iter().map(|pod| meta::name(&pod.metadata)).collect();
        assert_eq!(order, ["unbound", "pending", "unready", "cheap", "crowded", "young", "restarted", "old"]);
    }
}
