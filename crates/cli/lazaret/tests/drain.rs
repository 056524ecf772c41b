//! A drain that is stopped, as a user stops it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use serde_json::{Value, json};
use support::{Cluster, interrupt_at};

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A pod that bears any taint for ten minutes.
fn start_pod(cluster: &Cluster) {
    let tolerations = json!([{"operator": "Exists", "tolerationSeconds": 600}]);
    let exactly = json!({"deviceClassName": "gpu.example.com", "tolerations": tolerations});
    let claim = json!({"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}});
    cluster.send("POST", CLAIMS, &claim);
    let pod = json!({"metadata": {"name": "trainer"}, "spec": {
        "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
    }});
    // A new cluster makes the account of its pods on its own time.
    cluster.until("pods can be made", |cluster| cluster.try_send("POST", PODS, &pod).is_ok());
    cluster.until("the pod runs", |cluster| {
        cluster.get(&format!("{PODS}/trainer"))["status"]["phase"] == "Running"
    });
}

#[test]
fn ctrl_c_lets_pods_stay_and_says_how_far_it_went() {
    let cluster = Cluster::start(&["--nodes", "1", "--devices", "1"]);
    start_pod(&cluster);
    let drain =
        cluster.command(&["device", "drain", "node-1/gpu-0", "--reason", "fan", "--yes"]).spawn().unwrap();
    let ended = interrupt_at(drain, "now tainted lazaret.dev/drain:NoExecute");
    let (out, notes) = (String::from_utf8(ended.stdout).unwrap(), String::from_utf8(ended.stderr).unwrap());
    assert_eq!(ended.status.code(), Some(2), "{out}{notes}");
    assert!(out.ends_with("stopped: 1 device cordoned, 0 pods gone, 1 not evicted\n"), "{out}{notes}");
    assert!(notes.contains("stopping: pods that are not terminating yet may stay"), "{notes}");
    assert!(notes.contains("undo: kubectl device uncordon gpu.example.com/node-1/gpu-0"), "{notes}");

    let rules = cluster.get("/apis/resource.k8s.io/v1/devicetaintrules");
    let taints: Vec<&Value> =
        rules["items"].as_array().unwrap().iter().map(|rule| &rule["spec"]["taint"]).collect();
    assert_eq!((taints.len(), &taints[0]["effect"]), (1, &json!("NoSchedule")), "{taints:?}");
    let pod = cluster.get(&format!("{PODS}/trainer"));
    assert_eq!(pod["metadata"]["deletionTimestamp"], Value::Null);
}
