//! The scheduler section of the enhancement.

use lazaret_example::FabricOptions;
use serde_json::json;

use crate::stage::{CLAIMS, PODS, Stage, TEMPLATE, claim, claim_path, named, pod};

#[test]
fn nodes_that_the_driver_calls_unsuitable_are_avoided() {
    let stage = Stage::new(3, 0, FabricOptions::default());
    stage.fabric.disconnect("node-1");
    stage.fabric.disconnect("node-2");
    for name in ["a", "b"] {
        stage.post(PODS, &pod(name, &[("gpu", TEMPLATE)]));
    }
    assert_eq!(["a", "b"].map(|name| stage.runs_on(name)), ["node-3", "node-3"]);
}

#[test]
fn a_pod_without_a_suitable_node_says_which_driver_refused_and_runs_when_one_is_there() {
    let stage = Stage::new(2, 0, FabricOptions::default());
    stage.fabric.disconnect("node-1");
    stage.fabric.disconnect("node-2");
    stage.post(PODS, &pod("p", &[("gpu", TEMPLATE)]));
    stage.eventually("the refusal", |stage| {
        let pod = stage.pod("p");
        let message = pod["status"]["conditions"][0]["message"].as_str()?.to_owned();
        (message.contains("driver gpu.acme.com refused") && message.contains("node-1")).then_some(())
    });
    let claim = stage.claim("p-gpu").unwrap();
    assert_eq!(claim["status"]["scheduling"]["scheduler"]["potentialNodes"].as_array().unwrap().len(), 2);
    assert_eq!(claim["status"]["phase"], "Pending");
    assert_eq!(stage.fabric.attached(), 0);
    stage.fabric.connect("node-2");
    // The driver examines nodes again after other claims have changed: this one frees nothing, but counts as a change.
    stage.post(CLAIMS, &self::claim("other", "Immediate"));
    assert_eq!(stage.runs_on("p"), "node-2");
}

/// One decision about both kinds: the node has the structured device, and the fabric reaches it.
#[test]
fn a_pod_with_classic_and_structured_claims_runs_where_both_can_be_had() {
    let stage = Stage::new(3, 1, FabricOptions::default());
    stage.fabric.disconnect("node-1");
    stage.fabric.disconnect("node-3");
    let structured = "
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: structured}
spec:
  devices:
    requests:
    - name: gpu
      exactly: {deviceClassName: gpu}
";
    let class = "
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {}
";
    stage.post("/apis/resource.k8s.io/v1/deviceclasses", class);
    stage.post("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", structured);
    let both = pod("p", &[("today", "resourceClaimName: structured"), ("gpu", TEMPLATE)]);
    stage.post(PODS, &both);
    assert_eq!(stage.runs_on("p"), "node-2");
    let (_, structured) = stage.get("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/structured");
    assert_eq!(structured["status"]["reservedFor"][0]["name"], "p", "{structured}");
    assert_eq!(structured["status"]["allocation"]["devices"]["results"][0]["pool"], "node-2");
    assert_eq!(stage.claim("p-gpu").unwrap()["status"]["reservedFor"][0]["name"], "p");
}

/// A claim that was allocated for a node on which the pod cannot run is deallocated and allocated elsewhere.
#[test]
fn a_claim_in_the_way_is_reallocated() {
    let stage = Stage::new(2, 0, FabricOptions::default());
    stage.post(CLAIMS, &claim("c", "Delayed"));
    stage.post(PODS, &pod("first", &[("gpu", &named("c"))]));
    let node = stage.runs_on("first");
    stage.delete(&format!("{PODS}/first"));
    let other = if node == "node-1" { "node-2" } else { "node-1" };
    let second = pod("second", &[("gpu", &named("c"))]);
    let second =
        second.replace("spec:\n", &format!("spec:\n  nodeSelector: {{kubernetes.io/hostname: {other}}}\n"));
    stage.post(PODS, &second);
    assert_eq!(stage.runs_on("second"), other);
    assert_eq!(stage.fabric.attached(), 1);
}

#[test]
fn more_pods_than_devices_wait_and_take_turns() {
    let stage = Stage::new(4, 0, FabricOptions { devices: 2, ..FabricOptions::default() });
    let names = ["a", "b", "c"];
    for name in names {
        stage.post(PODS, &pod(name, &[("gpu", TEMPLATE)]));
    }
    let running = |stage: &Stage| -> Vec<&str> {
        names.into_iter().filter(|name| stage.pod(name)["spec"]["nodeName"].is_string()).collect()
    };
    let first =
        stage.eventually("two run", |stage| Some(running(stage)).filter(|running| running.len() == 2));
    assert_eq!(stage.fabric.attached(), 2);
    stage.delete(&format!("{PODS}/{}", first[0]));
    let last = names.into_iter().find(|name| !first.contains(name)).unwrap();
    stage.runs_on(last);
}

#[test]
fn two_hundred_nodes_share_a_fabric_of_sixty_four_devices() {
    let stage = Stage::new(200, 0, FabricOptions::default());
    let names: Vec<String> = (0..64).map(|at| format!("p{at}")).collect();
    for name in &names {
        stage.post(PODS, &pod(name, &[("gpu", TEMPLATE)]));
    }
    for name in &names {
        stage.runs_on(name);
    }
    assert_eq!(stage.fabric.attached(), 64);
    let (_, claims) = stage.get(CLAIMS);
    let mut devices: Vec<&str> = claims["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|claim| claim["status"]["attributes"]["device"].as_str().unwrap())
        .collect();
    devices.sort_unstable();
    devices.dedup();
    assert_eq!(devices.len(), 64, "no device is given twice");
}

#[test]
fn a_deleted_claim_waits_for_its_user() {
    let stage = Stage::new(1, 0, FabricOptions::default());
    stage.post(CLAIMS, &claim("c", "Delayed"));
    stage.post(PODS, &pod("p", &[("gpu", &named("c"))]));
    stage.runs_on("p");
    stage.delete(&claim_path("c"));
    let deleted = stage.claim("c").unwrap();
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(deleted["status"]["phase"], json!("Allocated"));
    assert_eq!(stage.fabric.attached(), 1);
    stage.delete(&format!("{PODS}/p"));
    stage.eventually("freed", |stage| {
        (stage.claim("c").is_none() && stage.fabric.attached() == 0).then_some(())
    });
}
