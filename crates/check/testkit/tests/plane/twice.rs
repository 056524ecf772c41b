//! A device whose pod was removed by force is not allocated again before its node has unprepared it.

use lazaret_testkit::{Cluster, Plane};
use serde_json::{Value, json};

use crate::{
    rivals,
    stage::{DRIVER, Stage, pod, pod_path},
};

const NODE: &str = "/api/v1/nodes/node-1";

/// One node with one device, whose driver does not unprepare until the test says so.
fn stage() -> Stage {
    // Nodes answer with no more than their own credentials.
    let plane = Plane::simulated(1, 1);
    let stage = Stage::of(Cluster::options().plane(plane), 1);
    begin(&stage);
    stage
}

fn begin(stage: &Stage) {
    stage.template("one", &json!([]));
    hang(stage);
    stage.pod("first", "one");
    stage.running("first");
}

fn hang(stage: &Stage) {
    annotate(stage, &json!({"hollow.lazaret.dev/unprepare-after": "1000h"}));
    stage.until("the node says that it reports", || {
        let node = stage.get(NODE);
        let reports = &node["metadata"]["annotations"]["lazaret.dev/reports-unprepared"];
        if *reports == "true" { Ok(()) } else { Err(node["metadata"].to_string()) }
    });
}

fn go_on(stage: &Stage) {
    annotate(stage, &json!({"hollow.lazaret.dev/unprepare-after": null}));
}

fn annotate(stage: &Stage, annotations: &Value) {
    stage.merge(NODE, &json!({"metadata": {"annotations": annotations}}));
}

fn force_delete(stage: &Stage, name: &str) {
    stage.request("DELETE", &pod_path(name), "application/json", &json!({"gracePeriodSeconds": 0}));
    assert!(stage.pod_now(name).is_none());
}

fn claim_of(stage: &Stage, name: &str) -> String {
    let pod = stage.pod_now(name).unwrap();
    pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"].as_str().unwrap().to_owned()
}

fn claim_path(name: &str) -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{name}")
}

fn claims(stage: &Stage) -> Vec<String> {
    let all = stage.list("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims");
    all.iter().map(|claim| claim["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// The claims that the node is asked about.
fn asked(stage: &Stage) -> Vec<Value> {
    let node = stage.get(NODE);
    let text = node["metadata"]["annotations"]["lazaret.dev/awaiting-unprepare"].as_str().unwrap_or("[]");
    serde_json::from_str(text).unwrap()
}

fn until_asked_about(stage: &Stage, claim: &str) -> Value {
    stage.until("the node is asked", || {
        let all = asked(stage);
        all.iter()
            .find(|one| one["claim"] == format!("default/{claim}"))
            .cloned()
            .ok_or_else(|| format!("{all:?}"))
    })
}

/// Tries to place another pod: it stays where it is although the scheduler looked at it.
fn waits(stage: &Stage, name: &str) {
    let unschedulable = |pod: Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let placed = conditions.into_iter().find(|one| one["type"] == "PodScheduled");
        match placed {
            Some(one)
                if one["message"].as_str().is_some_and(|why| why.contains("cannot allocate all claims")) =>
            {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        }
    };
    stage.until(&format!("{name} cannot be placed"), || unschedulable(stage.pod_now(name).ok_or("gone")?));
    stage.settle();
    unschedulable(stage.pod_now(name).unwrap()).unwrap();
}

#[test]
fn a_device_is_free_again_when_its_node_has_unprepared_it() {
    let stage = stage();
    let claim = claim_of(&stage, "first");
    force_delete(&stage, "first");
    let entry = until_asked_about(&stage, &claim);
    assert_eq!(entry["devices"], json!([{"driver": DRIVER, "pool": "node-1", "device": "gpu-0"}]));
    stage.pod("second", "one");
    waits(&stage, "second");
    let there = stage.get(&claim_path(&claim));
    assert_eq!(there["metadata"]["annotations"]["lazaret.dev/awaiting-unprepare"], "node-1", "{there}");
    let words = format!(
        "waiting for node node-1 to unprepare {DRIVER}/node-1/gpu-0 for claim default/{claim}, whose pod was removed before it ended"
    );
    stage.until("an event says so", || {
        let events = stage.events(&claim, "AwaitingUnprepare");
        if events == [words.as_str()] { Ok(()) } else { Err(format!("{events:?}")) }
    });
    stage.until("a metric counts it", || {
        let metrics = stage.text("/metrics");
        let line = metrics.lines().find(|line| line.starts_with("lazaret_claims_awaiting_unprepare "));
        if line == Some("lazaret_claims_awaiting_unprepare 1") { Ok(()) } else { Err(format!("{line:?}")) }
    });
    go_on(&stage);
    stage.running("second");
    stage.until("nothing is left of it", || {
        let all = asked(&stage);
        let (claims, node) = (claims(&stage), stage.get(NODE));
        let answered = &node["metadata"]["annotations"]["lazaret.dev/unprepared"];
        if all.is_empty() && !claims.contains(&claim) && answered.is_null() {
            Ok(())
        } else {
            Err(format!("{all:?} {claims:?} {answered}"))
        }
    });
}

#[test]
fn a_claim_by_name_says_what_it_waits_for_and_no_more_afterwards() {
    let stage = Stage::with(1, 1);
    hang(&stage);
    let spec = json!({"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}});
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "named"}, "spec": spec,
    });
    stage.create("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", &claim);
    stage.create("/api/v1/namespaces/default/pods", &pod("first", &json!({"resourceClaimName": "named"})));
    stage.running("first");
    force_delete(&stage, "first");
    until_asked_about(&stage, "named");
    go_on(&stage);
    stage.until("the claim is free", || {
        let claim = stage.get(&claim_path("named"));
        let waits = &claim["metadata"]["annotations"]["lazaret.dev/awaiting-unprepare"];
        if claim["status"]["allocation"].is_null() && waits.is_null() {
            Ok(())
        } else {
            Err(claim.to_string())
        }
    });
}

#[test]
fn a_node_that_is_gone_or_out_of_service_is_not_waited_for() {
    for gone in [true, false] {
        let stage = stage();
        let claim = claim_of(&stage, "first");
        force_delete(&stage, "first");
        until_asked_about(&stage, &claim);
        if gone {
            stage.delete(NODE);
        } else {
            let taint = json!({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"});
            stage.merge(NODE, &json!({"spec": {"taints": [taint]}}));
        }
        stage.until("the claim is gone", || {
            let all = claims(&stage);
            if all.contains(&claim) { Err(format!("{all:?}")) } else { Ok(()) }
        });
    }
}

#[test]
fn a_claim_removed_by_hand_keeps_its_device_from_others() {
    for first_the_pod in [true, false] {
        let stage = stage();
        let claim = claim_of(&stage, "first");
        if first_the_pod {
            force_delete(&stage, "first");
            until_asked_about(&stage, &claim);
        }
        let uid = stage.get(&claim_path(&claim))["metadata"]["uid"].clone();
        stage.merge(&claim_path(&claim), &json!({"metadata": {"finalizers": null}}));
        let _ = stage.try_request("DELETE", &claim_path(&claim), "application/json", &Value::Null);
        // A pod that runs gets a new claim of the same name, with nothing in it.
        stage.until("the claim is gone", || {
            let all = stage.list("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims");
            if all.iter().any(|claim| claim["metadata"]["uid"] == uid) {
                Err(format!("{all:?}"))
            } else {
                Ok(())
            }
        });
        until_asked_about(&stage, &claim);
        stage.pod("second", "one");
        waits(&stage, "second");
        if !first_the_pod {
            force_delete(&stage, "first");
        }
        go_on(&stage);
        stage.running("second");
    }
}

#[test]
fn a_person_who_knows_better_releases_it() {
    let stage = stage();
    let claim = claim_of(&stage, "first");
    force_delete(&stage, "first");
    let mut entry = until_asked_about(&stage, &claim);
    entry["released"] = "the board was replaced".into();
    annotate(&stage, &json!({"lazaret.dev/awaiting-unprepare": json!([entry]).to_string()}));
    stage.until("the claim is gone", || {
        let all = claims(&stage);
        if all.contains(&claim) { Err(format!("{all:?}")) } else { Ok(()) }
    });
    stage.until("an event says why", || {
        let events = stage.events(&claim, "ReleasedByForce");
        let said =
            events.iter().any(|message| message.ends_with("released by force: the board was replaced"));
        if said { Ok(()) } else { Err(format!("{events:?}")) }
    });
    // The node knows better still: it starts nothing on a device that it has not unprepared.
    stage.pod("second", "one");
    stage.until("the node refuses", || {
        let events = stage.events("second", "FailedPrepareDynamicResources");
        let said = events.iter().any(|message| message.contains("is still prepared for claim default/"));
        if said { Ok(()) } else { Err(format!("{events:?}")) }
    });
    go_on(&stage);
    stage.running("second");
}

#[test]
fn a_controller_that_starts_in_between_goes_on_waiting() {
    // The first controller asks and ends, or ends before the pod is removed.
    for asks in [true, false] {
        let stage = rivals::stage_with(1, 1);
        let first = rivals::start(&stage, "first", rivals::LONG, stage.cluster.client());
        rivals::until_held_by(&stage, "first");
        begin(&stage);
        let claim = claim_of(&stage, "first");
        if asks {
            force_delete(&stage, "first");
            until_asked_about(&stage, &claim);
            stage.cluster.block_on(first.stop());
        } else {
            stage.cluster.block_on(first.stop());
            force_delete(&stage, "first");
        }
        let second = rivals::start(&stage, "second", rivals::LONG, stage.cluster.client());
        rivals::until_held_by(&stage, "second");
        until_asked_about(&stage, &claim);
        stage.pod("second", "one");
        waits(&stage, "second");
        assert!(claims(&stage).contains(&claim));
        go_on(&stage);
        stage.running("second");
        stage.cluster.block_on(second.stop());
    }
}

#[test]
fn a_pod_that_ends_in_order_costs_no_write_more() {
    let stage = Stage::with(1, 1);
    stage.template("one", &json!([]));
    hang(&stage);
    annotate(&stage, &json!({"hollow.lazaret.dev/unprepare-after": "0s"}));
    let mut graceful = pod("first", &json!({"resourceClaimTemplateName": "one"}));
    graceful["spec"]["terminationGracePeriodSeconds"] = 30.into();
    stage.create("/api/v1/namespaces/default/pods", &graceful);
    stage.running("first");
    let before = but_for_the_checkpoint(&stage);
    let claim = claim_of(&stage, "first");
    stage.delete(&pod_path("first"));
    stage.gone("first");
    stage.until("its claim is gone", || {
        let all = claims(&stage);
        if all.contains(&claim) { Err(format!("{all:?}")) } else { Ok(()) }
    });
    assert_eq!(but_for_the_checkpoint(&stage), before);
    assert_eq!(stage.events(&claim, "AwaitingUnprepare"), [""; 0]);
}

/// The Node without its own record of prepared claims, which each end of a pod changes.
fn but_for_the_checkpoint(stage: &Stage) -> Value {
    let mut node = stage.get(NODE);
    for field in ["resourceVersion", "managedFields"] {
        node["metadata"][field] = Value::Null;
    }
    node["metadata"]["annotations"]["hollow.lazaret.dev/prepared"] = Value::Null;
    node
}
