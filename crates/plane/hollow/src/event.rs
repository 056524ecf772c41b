//! Events about pods.

use lazaret_model::{Pod, Timestamp};
use lazaret_runtime::{Call, EVENTS};
use serde_json::json;

/// A warning about a pod. Two in the same second about the same are one.
pub(crate) fn warning(pod: &Pod, node: &str, reason: &str, message: &str, now: Timestamp) -> Call {
    let time = lazaret_api::format_time(now);
    let name = format!("{}.{:x}", pod.key.name, now.as_secs());
    let body = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": &*pod.key.namespace},
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod",
            "namespace": &*pod.key.namespace, "name": &*pod.key.name, "uid": &*pod.uid,
        },
        "type": "Warning",
        "reason": reason,
        "message": message,
        "source": {"component": "kubelet", "host": node},
        "reportingComponent": "kubelet",
        "reportingInstance": node,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    });
    Call::create(&EVENTS, &pod.key.namespace, body.to_string())
}
