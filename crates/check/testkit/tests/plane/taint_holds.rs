//! Taints of drivers and patches that reach more than a guard permits evict no pod before a person approves them; new pods keep off.

use lazaret_server::User;
use lazaret_testkit::{Cluster, Plane};
use serde_json::{Value, json};

use crate::stage::{DRIVER, Stage, taint};

const GUARD: &str = "/apis/lazaret.dev/v1alpha1/disruptionguards/fleet";
const PATCHES: &str = "/apis/resource.k8s.io/v1alpha3/resourceslicepatches";
const APPROVALS: &str = "lazaret.dev/taint-approvals";

/// Two pods on devices of one node, and a guard that wants approval of what evicts anybody, by another user.
fn stage() -> Stage {
    let mut options = lazaret_controllers::Options::default();
    options.eviction.trusts_user_names = true;
    let stage = Stage::of(Cluster::options().plane(Plane::simulated(1, 2).options(options)), 1);
    stage.template("one", &json!([]));
    stage.pod("a", "one");
    stage.running("a");
    let guards = GUARD.trim_end_matches("/fleet");
    stage.until("the kind is served", || {
        stage.try_request("GET", guards, "application/json", &Value::Null).map(|_| ())
    });
    let guard = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "fleet"},
        "spec": {"confirmAbove": {"pods": 0}, "approvers": "Different"},
    });
    stage.create(guards, &guard);
    stage.until("the controller has seen the guard", || {
        let guard = stage.get(GUARD);
        if guard["status"]["selected"]["devices"].as_u64() > Some(0) {
            Ok(())
        } else {
            Err(guard.to_string())
        }
    });
    stage
}

fn as_user(stage: &Stage, user: &str, method: &str, path: &str, body: &Value) -> Value {
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(body.to_string().into_bytes())
        .unwrap();
    let groups = vec!["system:masters".into(), "system:authenticated".into()];
    let client = stage.cluster.client_as(User { name: user.into(), groups, ..User::default() });
    stage.cluster.block_on(async move { client.request::<Value>(request).await }).unwrap()
}

/// The only taint that the guard lists, once it has this reason.
fn held(stage: &Stage, reason: &str) -> Value {
    stage.until(&format!("the guard lists a taint that is {reason}"), || {
        let guard = stage.get(GUARD);
        match guard["status"]["held"].as_array().map(Vec::as_slice) {
            Some([only]) if only["reason"] == reason => Ok(only.clone()),
            _ => Err(guard.to_string()),
        }
    })
}

fn approve(stage: &Stage, user: &str, held: &Value) -> Value {
    let approval = json!([{
        "driver": held["driver"], "key": held["key"], "value": held["value"], "since": held["since"],
        "pods": held["pods"], "namespaces": held["namespaces"], "devices": held["devices"], "by": "bob",
    }]);
    let patch = json!({"metadata": {"annotations": {APPROVALS: approval.to_string()}}});
    as_user(stage, user, "PATCH", GUARD, &patch)
}

#[test]
fn a_drivers_taint_evicts_no_pod_before_a_person_approves_it() {
    let stage = stage();
    let (node, device) = stage.device_of("a");
    stage.fail(&node, &device, "NoExecute");
    let found = held(&stage, "ApprovalRequired");
    assert_eq!((&found["driver"], &found["pods"], &found["devices"]), (&json!(DRIVER), &json!(1), &json!(1)));
    let command = format!("kubectl device approve --driver {DRIVER} --taint ");
    assert!(found["message"].as_str().unwrap().contains(&command), "{found}");
    let conditions = stage.get(GUARD)["status"]["conditions"].clone();
    let condition = conditions.as_array().unwrap().iter().find(|one| one["type"] == "Held").unwrap();
    assert_eq!((&condition["status"], &condition["message"]), (&json!("True"), &found["message"]));
    let told = stage.until("an event says so", || {
        let told = stage.events("fleet", "EvictionBlocked");
        if told.is_empty() { Err("no event".to_owned()) } else { Ok(told) }
    });
    assert!(told[0].starts_with("Held: 1 pod not evicted: taint "), "{told:?}");
    stage.until("the metric counts the pod", || {
        let metrics = stage.text("/metrics");
        let found =
            metrics.lines().find(|line| line.starts_with("lazaret_evictions_blocked{reason=\"Held\"}"));
        if found.is_some_and(|line| line.ends_with(" 1")) { Ok(()) } else { Err(format!("{found:?}")) }
    });
    // The taint is in force: of two devices the next pod gets the other one.
    stage.pod("b", "one");
    stage.running("b");
    assert_ne!(stage.device_of("b").1, device);

    // The server says who it was, whatever the client says: an account of a program does not count.
    let written = approve(&stage, "system:serviceaccount:gpu:driver", &found);
    assert!(
        written["metadata"]["annotations"][APPROVALS].as_str().unwrap().contains("gpu:driver"),
        "{written}"
    );
    held(&stage, "ApproverNotDifferent");
    assert!(stage.pod_now("a").unwrap()["metadata"]["deletionTimestamp"].is_null());
    approve(&stage, "ada", &json!({}));
    approve(&stage, "ada", &found);
    stage.gone("a");
    assert!(stage.pod_now("b").unwrap()["metadata"]["deletionTimestamp"].is_null());
}

#[test]
fn a_patch_evicts_no_pod_before_another_user_approves_it() {
    let stage = stage();
    let patch = json!({
        "apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceSlicePatch", "metadata": {"name": "out"},
        "spec": {"devices": {"filter": {"driver": DRIVER}, "taints": [taint("NoExecute")]}},
    });
    let made = as_user(&stage, "ada", "POST", PATCHES, &patch);
    assert_eq!(made["metadata"]["annotations"], json!({"lazaret.dev/written-by": "ada"}));
    let found = held(&stage, "ApprovalRequired");
    assert_eq!((&found["patch"], &found["pods"], &found["devices"]), (&json!("out"), &json!(1), &json!(2)));
    let (uid, generation) = (&made["metadata"]["uid"], &made["metadata"]["generation"]);
    let text = json!({"uid": uid, "generation": generation, "pods": 1, "namespaces": 1, "devices": 2});
    let approval = json!({"metadata": {"annotations": {"lazaret.dev/approval": text.to_string()}}});
    let path = format!("{PATCHES}/out");
    as_user(&stage, "ada", "PATCH", &path, &approval);
    held(&stage, "ApproverNotDifferent");
    assert!(stage.pod_now("a").unwrap()["metadata"]["deletionTimestamp"].is_null());
    // Another text of the same approval is another approval.
    let text = json!({"uid": uid, "generation": generation, "pods": 1, "namespaces": 1, "devices": 2, "reason": "x"});
    let approval = json!({"metadata": {"annotations": {"lazaret.dev/approval": text.to_string()}}});
    as_user(&stage, "bob", "PATCH", &path, &approval);
    stage.gone("a");
}
