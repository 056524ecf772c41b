//! A request for the status of resource pools is answered once, with what there was when it was made.

use lazaret_testkit::{Cluster, Features, Plane};
use serde_json::{Value, json};

use crate::stage::{DRIVER, Stage, taint};

const REQUESTS: &str = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests";

/// Two nodes with three devices each behind a server with this gate.
fn stage(gates: &str) -> Stage {
    let mut features = Features::kubernetes_1_37();
    features.parse(gates).unwrap();
    Stage::of(Cluster::options().features(features).plane(Plane::simulated(2, 3)), 2)
}

fn ask(stage: &Stage, name: &str, spec: &Value) -> Value {
    stage.create(
        REQUESTS,
        &json!({
            "apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourcePoolStatusRequest",
            "metadata": {"name": name}, "spec": spec,
        }),
    );
    stage.until("an answer", || {
        let request = stage.get(&format!("{REQUESTS}/{name}"));
        let status = &request["status"];
        if status.is_object() { Ok(status.clone()) } else { Err(request.to_string()) }
    })
}

#[test]
fn a_request_counts_devices_in_use_and_devices_with_taints() {
    let stage = stage("DRAResourcePoolStatus=true");
    stage.template("one", &json!([]));
    stage.pod("user", "one");
    stage.running("user");
    let (pool, _) = stage.device_of("user");
    let other = if pool == "node-1" { "node-2" } else { "node-1" };
    let rule = json!({"driver": DRIVER, "pool": other, "device": "gpu-0"});
    stage.rule("v1", "out", &rule, &taint("NoSchedule"));

    let status = ask(&stage, "all", &json!({"driver": DRIVER}));
    assert_eq!(status["poolCount"], 2, "{status}");
    let condition = &status["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("Complete"), &json!("True")), "{status}");
    assert_eq!(condition["message"], "Calculated status for 2 pools");
    let counts = |name: &str| {
        let pools = status["pools"].as_array().unwrap();
        let pool = pools.iter().find(|pool| pool["poolName"] == name).unwrap();
        ["totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices"]
            .map(|count| pool[count].as_i64().unwrap())
    };
    assert_eq!(counts(&pool), [3, 1, 2, 0]);
    assert_eq!(counts(other), [3, 0, 2, 1]);

    let one = ask(&stage, "one", &json!({"driver": DRIVER, "limit": 1}));
    assert_eq!((&one["poolCount"], one["pools"].as_array().map(Vec::len)), (&json!(2), Some(1)), "{one}");
    // A status that was written does not change.
    stage.pod("later", "one");
    stage.running("later");
    stage.settle();
    assert_eq!(stage.get(&format!("{REQUESTS}/all"))["status"], status);
}

#[test]
fn a_request_for_a_pool_that_lacks_slices_waits_for_them() {
    let stage = stage("DRAResourcePoolStatus=true");
    let slice = |name: &str| {
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
            "spec": {
                "driver": "late.example.com", "allNodes": true, "devices": [{"name": name}],
                "pool": {"name": "late", "generation": 0, "resourceSliceCount": 2},
            },
        })
    };
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    stage.create(slices, &slice("first"));
    stage.create(
        REQUESTS,
        &json!({
            "apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourcePoolStatusRequest",
            "metadata": {"name": "late"}, "spec": {"driver": "late.example.com"},
        }),
    );
    stage.settle();
    assert_eq!(stage.get(&format!("{REQUESTS}/late")).get("status"), None);
    stage.create(slices, &slice("second"));
    let status = stage.until("an answer", || {
        let request = stage.get(&format!("{REQUESTS}/late"));
        request.get("status").cloned().ok_or_else(|| request.to_string())
    });
    assert_eq!(
        (&status["pools"][0]["totalDevices"], &status["pools"][0]["generation"]),
        (&json!(2), &json!(0))
    );
}

#[test]
fn without_the_gate_there_are_no_requests() {
    let stage = stage("");
    let served = stage.get("/apis/resource.k8s.io/v1alpha3").to_string();
    assert!(
        served.contains("resourceslicepatches") && !served.contains("resourcepoolstatusrequests"),
        "{served}"
    );
}
