//! The user stories of the enhancement that asks for device taints, and what it says of pods that no story names.

use serde_json::{Value, json};

use crate::stage::{DRIVER, Stage, pod, taint};

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const RULES: &str = "/apis/resource.k8s.io/v1/devicetaintrules";

fn stays(stage: &Stage, name: &str) {
    stage.settle();
    assert!(stage.pod_now(name).unwrap()["metadata"]["deletionTimestamp"].is_null(), "{name}");
}

/// Until the scheduler has said that there is no place for a pod, and why.
fn waits_for(stage: &Stage, name: &str, reason: &str) {
    stage.until(&format!("{name} waits because of {reason}"), || {
        let pod = stage.pod_now(name).unwrap();
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let told = conditions.iter().any(|one| {
            one["type"] == "PodScheduled" && one["message"].as_str().is_some_and(|text| text.contains(reason))
        });
        told.then_some(()).ok_or_else(|| pod["status"].to_string())
    });
}

/// A pod without claims, on any node.
fn bare(stage: &Stage, name: &str) {
    let mut pod = pod(name, &Value::Null);
    pod["spec"]["resourceClaims"] = Value::Null;
    pod["spec"]["containers"][0]["resources"] = Value::Null;
    stage.create(PODS, &pod);
    stage.running(name);
}

#[test]
fn a_device_is_taken_offline_and_a_test_pod_still_uses_it() {
    let stage = Stage::with(1, 1);
    let tolerating = json!([{"key": "example.com/maintenance", "operator": "Equal", "value": "planned", "effect": "NoExecute"}]);
    stage.template("ordinary", &json!([]));
    stage.template("test", &tolerating);
    stage.rule(
        "v1",
        "offline",
        &json!({"driver": DRIVER, "pool": "node-1", "device": "gpu-0"}),
        &taint("NoExecute"),
    );
    stage.heard_of("offline");
    stage.pod("ordinary", "ordinary");
    waits_for(&stage, "ordinary", "tainted example.com/maintenance=planned:NoExecute by rule offline");
    stage.pod("test", "test");
    stage.running("test");
    assert_eq!(stage.device_of("test"), ("node-1".to_owned(), "gpu-0".to_owned()));
    stays(&stage, "test");
    // Maintenance is over: the device goes to the pods that wait.
    stage.delete(&format!("{PODS}/test"));
    stage.delete(&format!("{RULES}/offline"));
    stage.running("ordinary");
}

/// The driver informs, nothing happens; an administrator reacts, first for new pods, then for all.
#[test]
fn a_driver_reports_and_an_administrator_decides() {
    let stage = Stage::with(1, 2);
    stage.template("one", &json!([]));
    stage.pod("user", "one");
    stage.running("user");
    let (node, device) = stage.device_of("user");
    stage.fail(&node, &device, "None");
    stays(&stage, "user");
    stage.rule("v1", "react", &json!({"driver": DRIVER, "pool": node}), &taint("NoSchedule"));
    stage.heard_of("react");
    stage.pod("second", "one");
    waits_for(&stage, "second", "tainted example.com/maintenance=planned:NoSchedule by rule react");
    stays(&stage, "user");
    let rule = stage.get(&format!("{RULES}/react"));
    assert_eq!(rule["metadata"]["generation"], 1, "a status is no change of the spec");
    let rule = stage.merge(&format!("{RULES}/react"), &json!({"spec": {"taint": {"effect": "NoExecute"}}}));
    assert_eq!(rule["metadata"]["generation"], 2);
    stage.gone("user");
    let condition =
        stage.condition("react", "is done", |one| one["status"] == "False" && one["reason"] == "Completed");
    assert_eq!(condition["observedGeneration"], 2);
}

/// Device taints and node taints know nothing of each other: a pod's tolerations are for its node, a claim's are for its devices.
#[test]
fn a_device_taint_concerns_those_alone_who_use_the_device() {
    let stage = Stage::with(1, 1);
    stage.template("one", &json!([]));
    bare(&stage, "beside");
    let mut user = pod("user", &json!({"resourceClaimTemplateName": "one"}));
    user["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    stage.create(PODS, &user);
    stage.running("user");
    stage.rule("v1", "all", &json!({"driver": DRIVER}), &taint("NoExecute"));
    stage.gone("user");
    bare(&stage, "later");
    for name in ["beside", "later"] {
        let pod = stage.pod_now(name).unwrap();
        assert!(pod["metadata"]["deletionTimestamp"].is_null(), "{name}");
        assert_eq!(pod["spec"]["nodeName"], "node-1");
    }
    assert_eq!(stage.get("/api/v1/nodes/node-1")["spec"]["taints"], Value::Null, "the node is as it was");
}

/// NoSchedule is for the scheduler: a pod that names its node itself starts.
#[test]
fn no_schedule_stops_nobody_who_comes_without_the_scheduler() {
    let stage = Stage::with(1, 1);
    stage.create(
        CLAIMS,
        &json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "shared"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}},
        }),
    );
    let shared = json!({"resourceClaimName": "shared"});
    stage.create(PODS, &pod("first", &shared));
    stage.running("first");
    stage.rule("v1", "all", &json!({"driver": DRIVER}), &taint("NoSchedule"));
    stage.heard_of("all");
    let mut placed = pod("placed", &shared);
    placed["spec"]["nodeName"] = "node-1".into();
    stage.create(PODS, &placed);
    stage.running("placed");
    for name in ["first", "placed"] {
        stays(&stage, name);
    }
    let users = stage.get(&format!("{CLAIMS}/shared"))["status"]["reservedFor"].clone();
    assert_eq!(users.as_array().unwrap().len(), 2, "{users}");
}

/// Once all pods are evicted the claim is free: it has neither users nor devices.
#[test]
fn a_claim_whose_pods_were_evicted_is_deallocated() {
    let stage = Stage::with(1, 1);
    stage.create(
        CLAIMS,
        &json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "it"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}},
        }),
    );
    stage.create(PODS, &pod("user", &json!({"resourceClaimName": "it"})));
    stage.running("user");
    stage.rule("v1", "all", &json!({"driver": DRIVER}), &taint("NoExecute"));
    stage.gone("user");
    stage.until("the claim has nothing", || {
        let claim = stage.get(&format!("{CLAIMS}/it"));
        let unused = claim["status"]["reservedFor"].as_array().is_none_or(Vec::is_empty);
        let free = claim["status"]["allocation"].is_null() && unused;
        free.then_some(()).ok_or_else(|| claim["status"].to_string())
    });
    stage.create(PODS, &pod("next", &json!({"resourceClaimName": "it"})));
    waits_for(&stage, "next", "tainted example.com/maintenance=planned:NoExecute by rule all");
}

#[test]
fn a_patch_with_a_taint_keeps_away_and_evicts() {
    let stage = Stage::with(1, 2);
    stage.template("one", &json!([]));
    stage.pod("user", "one");
    stage.running("user");
    let (node, device) = stage.device_of("user");
    let patches = "/apis/resource.k8s.io/v1alpha3/resourceslicepatches";
    stage.create(
        patches,
        &json!({
            "apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceSlicePatch", "metadata": {"name": "out"},
            "spec": {"devices": {
                "filter": {"driver": DRIVER, "pool": node, "device": device}, "taints": [taint("NoExecute")],
            }},
        }),
    );
    stage.gone("user");
    stage.pod("second", "one");
    stage.running("second");
    assert_ne!(stage.device_of("second").1, device);
    stage.pod("third", "one");
    waits_for(&stage, "third", "tainted example.com/maintenance=planned:NoExecute by patch out");
    stage.delete(&format!("{patches}/out"));
    stage.running("third");
}
