//! The Node object of a hollow node.

use lazaret_api::format_time;
use lazaret_kubelet::POD_ADDRESSES;
use lazaret_model::Timestamp;
use serde_json::{Value, json};

use crate::options::HollowOptions;

/// Pods that a node takes.
pub(crate) const PODS_MAX: u32 = 110;
/// Put on every new node by the API server, until it is ready.
pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// How long a lease holds; a node that has not renewed it for this time counts as lost.
const LEASE_SECONDS: i64 = 40;

/// The object that registers a node.
pub(crate) fn node(options: &HollowOptions, index: usize, now: Timestamp) -> Value {
    let name = options.node_name(index);
    options.labelled(json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/zone": format!("zone-{}", options.zone(index)),
                "hollow.lazaret.dev/node": "true",
            },
        },
        "spec": {},
        "status": status(options, index, now),
    }))
}

/// A node's status: there, ready, and with room.
pub(crate) fn status(options: &HollowOptions, index: usize, now: Timestamp) -> Value {
    let now = format_time(now);
    let room =
        json!({"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": PODS_MAX.to_string()});
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason,
            "message": "a node that is not there",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    json!({
        "capacity": room,
        "allocatable": room,
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID"),
            condition("Ready", "True", "KubeletReady"),
        ],
        "addresses": [
            {"type": "InternalIP", "address": host_ip(index)},
            {"type": "Hostname", "address": options.node_name(index)},
        ],
        "nodeInfo": {
            "architecture": "amd64",
            "operatingSystem": "linux",
            "kubeletVersion": concat!("v1.37.0-hollow.", env!("CARGO_PKG_VERSION")),
            "kubeProxyVersion": "",
            "containerRuntimeVersion": "hollow://",
            "kernelVersion": "",
            "osImage": "hollow",
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
        },
    })
}

/// The taints of a node that is ready, out of the text of a list of them.
pub(crate) fn taints(others: &str) -> Value {
    match serde_json::from_str(others) {
        Ok(Value::Array(others)) if !others.is_empty() => others.into(),
        // None, for the text was written by `HollowNode::read`.
        Ok(_) | Err(_) => Value::Null,
    }
}

/// The lease of a node, as it is first written.
pub(crate) fn lease(options: &HollowOptions, index: usize, now: Timestamp) -> Value {
    let name = options.node_name(index);
    options.labelled(json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": micro_time(now),
        },
    }))
}

/// The change that renews it.
pub(crate) fn renewal(options: &HollowOptions, index: usize, now: Timestamp) -> Value {
    json!({"spec": {"holderIdentity": options.node_name(index), "renewTime": micro_time(now)}})
}

/// The address of a node.
pub(crate) fn host_ip(index: usize) -> String {
    format!("172.{}.{}.{}", 16 + ((index >> 16) & 15), (index >> 8) & 255, index & 255)
}

/// The address of a pod: every node has a network of its own.
pub(crate) fn pod_ip(index: usize, number: u8) -> String {
    let address = index * usize::from(POD_ADDRESSES) + usize::from(number);
    format!("10.{}.{}.{}", (address >> 16) & 255, (address >> 8) & 255, address & 255)
}

/// Which of its node's addresses a pod has; `None` when it is another's.
pub(crate) fn pod_number(index: usize, address: &str) -> Option<u8> {
    let number = address.rsplit('.').next()?.parse::<u8>().ok()? % POD_ADDRESSES;
    (pod_ip(index, number) == address).then_some(number)
}

fn micro_time(now: Timestamp) -> String {
    let seconds = format_time(now);
    let millis = now.as_millis().rem_euclid(1_000);
    format!("{}.{millis:03}000Z", seconds.trim_end_matches('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_microseconds() {
        assert_eq!(micro_time(Timestamp::from_millis(1_000_000_123_045)), "2001-09-09T01:48:43.045000Z");
    }

    #[test]
    fn nodes_have_networks_of_their_own() {
        assert_eq!(
            (host_ip(0), host_ip(300), host_ip(65_536)),
            ("172.16.0.0".into(), "172.16.1.44".into(), "172.17.0.0".into())
        );
        assert_eq!(
            (pod_ip(4_999, 7), pod_ip(131_071, 127)),
            ("10.9.195.135".into(), "10.255.255.255".into())
        );
        assert_eq!((pod_number(4_999, "10.9.195.135"), pod_number(4_998, "10.9.195.135")), (Some(7), None));
    }
}
