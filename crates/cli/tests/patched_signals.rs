//! What ResourceSlicePatches make of a device is what a health policy sees: attributes and taints, by priority, as they come and go.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use serde_json::{Value, json};
use support::{Cluster, wait_until};

const DRIVER: &str = "gpu.example.com";
const POLICIES: &str = "/apis/lazaret.dev/v1alpha1/devicehealthpolicies";
const INCIDENTS: &str = "/apis/lazaret.dev/v1alpha1/deviceincidents";
const PATCHES: &str = "/apis/resource.k8s.io/v1alpha3/resourceslicepatches";

fn policy(name: &str, when: &str) -> Value {
    json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceHealthPolicy", "metadata": {"name": name},
        "spec": {
            "deviceSelector": {"driver": DRIVER}, "clearAfter": "1s", "mode": "Observe",
            "rules": [{"name": name, "when": when, "stage": "Suspect"}],
        },
    })
}

fn patch(name: &str, priority: i64, more: &Value) -> Value {
    let mut devices =
        json!({"filter": {"driver": DRIVER, "pool": "node-1", "device": "gpu-0"}, "priority": priority});
    devices.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({
        "apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceSlicePatch",
        "metadata": {"name": name}, "spec": {"devices": devices},
    })
}

fn rows(count: i64) -> Value {
    json!({"attributes": {"gpu.example.com/remappedRows": {"int": count}}})
}

/// How many incidents of a policy are open and how many are over, and why the newest was opened.
fn incidents(cluster: &Cluster, policy: &str) -> (usize, usize, String) {
    let all = cluster.get(INCIDENTS)["items"].as_array().cloned().unwrap();
    let all: Vec<Value> = all.into_iter().filter(|one| one["spec"]["policy"] == policy).collect();
    let over = all.iter().filter(|one| one["status"]["stage"] == "Cleared").count();
    let cause = all
        .last()
        .map_or_else(String::new, |one| one["spec"]["cause"].as_str().unwrap_or_default().to_owned());
    (all.len() - over, over, cause)
}

#[test]
fn a_policy_sees_what_patches_leave() {
    let gates =
        ["--nodes", "1", "--devices", "2", "--feature-gates", "DRAAdminControlledDeviceAttributes=true"];
    let cluster = Cluster::start(&gates);
    cluster.until("the devices are published", |cluster| {
        !cluster.names("/apis/resource.k8s.io/v1/resourceslices").is_empty()
    });
    let when =
        "signal.source == 'Attribute' && signal.key == 'gpu.example.com/remappedRows' && signal.value == '9'";
    cluster.send("POST", POLICIES, &policy("rows", when));
    cluster.send(
        "POST",
        POLICIES,
        &policy("noise", "signal.source == 'Taint' && signal.key == 'example.com/noisy'"),
    );
    cluster.send("POST", PATCHES, &patch("low", 1, &rows(9)));
    wait_until("the policy sees the attribute of the patch", || {
        let (open, _, cause) = incidents(&cluster, "rows");
        open == 1 && cause.contains("remappedRows is 9")
    });
    // The patch with the higher priority counts.
    cluster.send("POST", PATCHES, &patch("high", 2, &rows(3)));
    wait_until("the attribute has another value", || incidents(&cluster, "rows").0 == 0);
    cluster.send("DELETE", &format!("{PATCHES}/high"), &Value::Null);
    wait_until("the other patch counts again", || {
        let (open, over, _) = incidents(&cluster, "rows");
        (open, over) == (1, 1)
    });
    cluster.send("DELETE", &format!("{PATCHES}/low"), &Value::Null);
    wait_until("without a patch there is no such attribute", || incidents(&cluster, "rows").0 == 0);
    let noisy = json!({"taints": [{"key": "example.com/noisy", "value": "fan", "effect": "None"}]});
    cluster.send("POST", PATCHES, &patch("noise", 1, &noisy));
    wait_until("the policy sees the taint of a patch", || {
        let (open, _, cause) = incidents(&cluster, "noise");
        open == 1 && cause.contains("patch noise says example.com/noisy=fan:None")
    });
    cluster.send("DELETE", &format!("{PATCHES}/noise"), &Value::Null);
    wait_until("the taint is gone", || incidents(&cluster, "noise").0 == 0);
}
