//! The effects of a driver's own taints.

use serde_json::json;

use crate::stage::Stage;

#[test]
fn a_taint_without_effect_moves_nobody_and_keeps_nobody_away() {
    let stage = Stage::with(1, 1);
    stage.template("one", &json!([]));
    stage.fail("node-1", "gpu-0", "None");
    stage.pod("a", "one");
    stage.running("a");
    stage.settle();
    assert!(stage.pod_now("a").unwrap()["metadata"]["deletionTimestamp"].is_null());
}

#[test]
fn no_schedule_lets_be_who_is_there_and_keeps_others_away_until_it_goes() {
    let stage = Stage::with(1, 2);
    stage.template("one", &json!([]));
    stage.pod("a", "one");
    stage.running("a");
    let (node, device) = stage.device_of("a");
    let other = if device == "gpu-0" { "gpu-1" } else { "gpu-0" };
    stage.fail(&node, other, "NoSchedule");
    stage.heard_of_taint("NoSchedule");
    stage.pod("b", "one");
    stage.until("b says why it waits", || {
        let pod = stage.pod_now("b").unwrap();
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let scheduled =
            conditions.into_iter().find(|one| one["type"] == "PodScheduled" && one["status"] == "False");
        let why = scheduled.map(|one| one["message"].as_str().unwrap_or_default().to_owned());
        // Before its claim was made, it waits for that.
        let is_taint = why.is_some_and(|why| why.contains("gpu.example.com/unhealthy"));
        is_taint.then_some(()).ok_or_else(|| pod.to_string())
    });
    stage.told_of("b", "FailedScheduling");
    assert!(stage.pod_now("a").unwrap()["metadata"]["deletionTimestamp"].is_null());
    stage.recover(&node);
    stage.running("b");
    assert_eq!(stage.device_of("b").1, other);
}

#[test]
fn no_execute_makes_the_pod_leave_and_says_why() {
    let stage = Stage::with(1, 2);
    stage.template("one", &json!([]));
    stage.pod("a", "one");
    stage.running("a");
    // Stay long enough for the condition to be read.
    stage.merge(
        "/api/v1/namespaces/default/pods/a",
        &json!({"metadata": {"finalizers": ["example.com/look"]}}),
    );
    let (node, device) = stage.device_of("a");
    stage.fail(&node, &device, "NoExecute");
    let pod = stage.until("a is leaving", || {
        let pod = stage.pod_now("a").unwrap();
        if pod["metadata"]["deletionTimestamp"].is_string() {
            Ok(pod)
        } else {
            Err(pod["status"].to_string())
        }
    });
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    let target = conditions.iter().find(|one| one["type"] == "DisruptionTarget").unwrap();
    assert_eq!(target["reason"], "DeletionByDeviceTaintManager");
    let message = target["message"].as_str().unwrap();
    assert!(message.contains(&device) && message.contains("gpu.example.com/unhealthy"), "{message}");
    stage.until("there is an event", || {
        let events = stage.events("a", "DeviceTaintManagerEviction");
        if events.is_empty() { Err("none".to_owned()) } else { Ok(()) }
    });
    stage.merge("/api/v1/namespaces/default/pods/a", &json!({"metadata": {"finalizers": null}}));
    stage.gone("a");
}
