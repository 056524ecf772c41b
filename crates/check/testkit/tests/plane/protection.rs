//! Protections of pods from evictions, which the rule, an event and a metric report with the same words.

use serde_json::{Value, json};

use crate::stage::{DRIVER, Stage, taint};

const RULES: &str = "/apis/resource.k8s.io/v1alpha3/devicetaintrules";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// A rule of v1alpha3 for all devices of the driver.
fn rule(stage: &Stage, name: &str, eviction: &Value) {
    let spec =
        json!({"deviceSelector": {"driver": DRIVER}, "taint": taint("NoExecute"), "eviction": eviction});
    stage.create(
        RULES,
        &json!({
            "apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule",
            "metadata": {"name": name}, "spec": spec,
        }),
    );
}

/// The condition `EvictionBlocked` of a rule, once it has this status and reason.
fn blocked(stage: &Stage, name: &str, status: &str, reason: &str) -> Value {
    stage.until(&format!("{name} is {status} {reason}"), || {
        let rule = stage.get(&format!("{RULES}/{name}"));
        let conditions = rule["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|one| one["type"] == "EvictionBlocked");
        match found {
            Some(found) if found["status"] == status && found["reason"] == reason => Ok(found.clone()),
            _ => Err(rule["status"].to_string()),
        }
    })
}

/// How many pods are kept for a reason, as the metrics say.
fn kept(stage: &Stage, reason: &str) -> String {
    let line = format!("lazaret_evictions_blocked{{reason=\"{reason}\"}} ");
    let metrics = stage.text("/metrics");
    metrics.lines().find_map(|text| text.strip_prefix(&line)).unwrap_or("none").to_owned()
}

/// A pod `a` that runs, and a budget that must not lose it.
fn one_with_budget(stage: &Stage) {
    stage.template("one", &json!([]));
    stage.pod("a", "one");
    stage.running("a");
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}});
    stage.create(
        BUDGETS,
        &json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep"}, "spec": spec}),
    );
    stage.until("the budget counts", || {
        let budget = stage.get(&format!("{BUDGETS}/keep"));
        if budget["status"]["currentHealthy"] == 1 { Ok(()) } else { Err(budget["status"].to_string()) }
    });
}

#[test]
fn a_budget_keeps_a_pod_and_everybody_says_so_in_the_same_words() {
    let stage = Stage::with(1, 1);
    one_with_budget(&stage);
    rule(&stage, "careful", &json!({"mode": "Evict"}));
    let condition = blocked(&stage, "careful", "True", "Budget");
    let words = condition["message"].as_str().unwrap();
    assert_eq!(
        words,
        "Budget: 1 pod not evicted (default/a): Cannot evict pod as it would violate the pod's disruption budget. The disruption budget keep needs 1 healthy pods and has 1 currently."
    );
    let told = stage.until("an event says so", || {
        let told = stage.events("careful", "EvictionBlocked");
        if told.is_empty() { Err("no event".to_owned()) } else { Ok(told) }
    });
    assert_eq!(told, [words], "once");
    stage.until("the metric counts it", || match kept(&stage, "Budget").as_str() {
        "1" => Ok(()),
        other => Err(other.to_owned()),
    });
    let pod = stage.pod_now("a").unwrap();
    let marked =
        pod["status"]["conditions"].as_array().unwrap().iter().any(|one| one["type"] == "DisruptionTarget");
    assert!(
        !marked && pod["metadata"]["deletionTimestamp"].is_null(),
        "a pod that stays does not say that it goes: {pod}"
    );

    stage.delete(&format!("{BUDGETS}/keep"));
    stage.gone("a");
    blocked(&stage, "careful", "False", "NotBlocked");
    stage.until("the metric counts it no more", || match kept(&stage, "Budget").as_str() {
        "0" => Ok(()),
        other => Err(other.to_owned()),
    });
    stage.until("it is counted once", || {
        let evicted = stage.get(&format!("{RULES}/careful"))["status"]["evictions"]["pods"].clone();
        if evicted == 1 { Ok(()) } else { Err(evicted.to_string()) }
    });
}

#[test]
fn after_the_deadline_the_pod_is_deleted_although_the_budget_refuses() {
    let stage = Stage::with(1, 1);
    one_with_budget(&stage);
    rule(&stage, "firm", &json!({"mode": "EvictThenDelete", "deadlineSeconds": 3}));
    stage.gone("a");
    let told = stage.until("an event says so", || {
        let told = stage.events("a", "DeviceTaintManagerEviction");
        if told.is_empty() { Err("no event".to_owned()) } else { Ok(told) }
    });
    assert!(
        told[0].starts_with(
            "Marking for deletion, for the deadline until which disruption budgets are obeyed is over: "
        ),
        "{told:?}"
    );
}

const GUARDS: &str = "/apis/lazaret.dev/v1alpha1/disruptionguards";

/// A guard that the controller has heard of: it has said how many devices the guard selects.
fn guard(stage: &Stage, name: &str, spec: &Value) {
    let mut spec = spec.clone();
    if spec["breaker"].is_null() {
        spec["breaker"] = json!({"maxOutOfService": "100%"});
    }
    stage.create(
        GUARDS,
        &json!({
            "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": name}, "spec": spec,
        }),
    );
    stage.until("the controller has heard of the guard", || {
        let guard = stage.get(&format!("{GUARDS}/{name}"));
        if guard["status"]["breaker"]["total"].as_u64() > Some(0) { Ok(()) } else { Err(guard.to_string()) }
    });
}

#[test]
fn nothing_begins_while_paused_not_even_what_a_driver_wants() {
    let stage = Stage::with(2, 1);
    stage.template("one", &json!([]));
    for name in ["a", "b"] {
        stage.pod(name, "one");
        stage.running(name);
    }
    guard(&stage, "stop", &json!({"paused": {"reason": "storage is being moved"}}));
    let (node, device) = stage.device_of("a");
    stage.fail(&node, &device, "NoExecute");
    let (pool, device) = stage.device_of("b");
    stage.rule(
        "v1",
        "plain",
        &json!({"driver": DRIVER, "pool": pool, "device": device}),
        &taint("NoExecute"),
    );
    let condition = blocked(&stage, "plain", "True", "Paused");
    assert_eq!(
        condition["message"],
        "Paused: 1 pod not evicted (default/b): DisruptionGuard stop is paused: storage is being moved."
    );
    stage.until("the metric counts both", || match kept(&stage, "Paused").as_str() {
        "2" => Ok(()),
        other => Err(other.to_owned()),
    });
    stage.settle();
    for name in ["a", "b"] {
        assert!(stage.pod_now(name).unwrap()["metadata"]["deletionTimestamp"].is_null(), "{name}");
    }
    stage.delete(&format!("{GUARDS}/stop"));
    stage.gone("a");
    stage.gone("b");
    blocked(&stage, "plain", "False", "NotBlocked");
}

/// A window of ten hours that opens in eight, by the hour that the server has.
fn closed_window(stage: &Stage) -> Value {
    let namespace = stage.get("/api/v1/namespaces/default");
    let now = namespace["metadata"]["creationTimestamp"].as_str().unwrap();
    let hour: usize = now[11..13].parse().unwrap();
    json!({"start": format!("{:02}:00", (hour + 8) % 24), "duration": "10h"})
}

#[test]
fn outside_a_guard_s_window_everybody_says_so_in_the_same_words() {
    let stage = Stage::with(1, 1);
    stage.template("one", &json!([]));
    stage.pod("a", "one");
    stage.running("a");
    guard(&stage, "nights", &json!({"windows": [closed_window(&stage)]}));
    stage.rule("v1", "plain", &json!({"driver": DRIVER}), &taint("NoExecute"));
    let condition = blocked(&stage, "plain", "True", "Window");
    let words = "Window: 1 pod not evicted (default/a): no window of DisruptionGuard nights is open.";
    assert_eq!(condition["message"], words);
    let told = stage.until("an event says so", || {
        let told = stage.events("plain", "EvictionBlocked");
        if told.is_empty() { Err("no event".to_owned()) } else { Ok(told) }
    });
    assert_eq!(told, [words], "once");
    stage.until("the metric counts it", || match kept(&stage, "Window").as_str() {
        "1" => Ok(()),
        other => Err(other.to_owned()),
    });
    assert!(stage.pod_now("a").unwrap()["metadata"]["deletionTimestamp"].is_null());
    stage.merge(&format!("{GUARDS}/nights"), &json!({"spec": {"windows": null}}));
    stage.gone("a");
    stage.until("its status says nothing of windows", || {
        let guard = stage.get(&format!("{GUARDS}/nights"));
        if guard["status"]["window"].is_null() { Ok(()) } else { Err(guard["status"].to_string()) }
    });
}

#[test]
fn a_breaker_holds_until_a_person_resets_it_and_says_so_in_its_status() {
    let stage = Stage::with(4, 1);
    stage.template("one", &json!([]));
    stage.pod("a", "one");
    stage.running("a");
    guard(&stage, "fleet", &json!({"breaker": {"maxOutOfService": "25%", "resetAfterSeconds": 3600}}));
    stage.rule("v1", "wide", &json!({"driver": DRIVER}), &taint("NoExecute"));
    let condition = blocked(&stage, "wide", "True", "Breaker");
    assert_eq!(
        condition["message"],
        "Breaker: 1 pod not evicted (default/a): DisruptionGuard fleet is tripped: 4 of 4 devices out of service, 1 permitted."
    );
    let status = stage.until("the guard says so", || {
        let guard = stage.get(&format!("{GUARDS}/fleet"));
        if guard["status"]["breaker"]["tripped"] == true {
            Ok(guard["status"].clone())
        } else {
            Err(guard.to_string())
        }
    });
    let conditions = status["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|one| one["reason"] == "TooManyOutOfService"), "{status}");
    assert!(stage.pod_now("a").unwrap()["metadata"]["deletionTimestamp"].is_null());
    let annotations = json!({"lazaret.dev/breaker-reset": "2999-01-01T00:00:00Z"});
    stage.merge(&format!("{GUARDS}/fleet"), &json!({"metadata": {"annotations": annotations}}));
    stage.gone("a");
}

#[test]
fn a_rule_that_has_expired_does_nothing_and_says_so() {
    let stage = Stage::with(1, 1);
    stage.template("one", &json!([]));
    stage.pod("a", "one");
    stage.running("a");
    stage.create(
        RULES,
        &json!({
            "apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule", "metadata": {"name": "old"},
            "spec": {
                "deviceSelector": {"driver": DRIVER}, "taint": taint("NoExecute"), "expiresAt": "2020-01-01T00:00:00Z",
            },
        }),
    );
    stage.until("its status says so", || {
        let rule = stage.get(&format!("{RULES}/old"));
        let conditions = rule["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let said = conditions.iter().any(|one| one["type"] == "Expired" && one["status"] == "True");
        if said { Ok(()) } else { Err(rule["status"].to_string()) }
    });
    assert!(stage.pod_now("a").unwrap()["metadata"]["deletionTimestamp"].is_null());
    stage.delete("/api/v1/namespaces/default/pods/a");
    stage.gone("a");
    stage.pod("b", "one");
    stage.running("b");
}

#[test]
fn a_namespace_may_ask_for_time_and_a_pod_may_give_it_up() {
    let stage = Stage::with(2, 1);
    let say = |word: &str| json!({"metadata": {"annotations": {"lazaret.dev/eviction": word}}});
    stage.template("one", &json!([]));
    for name in ["a", "b"] {
        stage.pod(name, "one");
        stage.running(name);
    }
    stage.merge("/api/v1/namespaces/default/pods/b", &say("Immediate"));
    // While nothing begins, the status tells when the controller has heard of the namespace.
    guard(&stage, "stop", &json!({"paused": {"reason": "played"}}));
    rule(&stage, "patient", &json!({"deadlineSeconds": 3600}));
    blocked(&stage, "patient", "True", "Paused");
    let kept_is = |wanted: &str| {
        stage.until(&format!("{wanted} pods are kept"), || {
            let found = kept(&stage, "Paused");
            if found == wanted { Ok(()) } else { Err(found) }
        });
    };
    kept_is("2");
    stage.merge("/api/v1/namespaces/default", &say("AllowCompletion"));
    kept_is("1");
    stage.delete(&format!("{GUARDS}/stop"));
    stage.gone("b");
    stage.settle();
    assert!(stage.pod_now("a").unwrap()["metadata"]["deletionTimestamp"].is_null());
    stage.merge("/api/v1/namespaces/default", &say("0"));
    stage.gone("a");
}

/// Both devices are in use: a pod stays where it is until the other one is free, and everybody says so in the same words.
#[test]
fn a_pod_leaves_once_there_is_room_for_its_replacement() {
    let stage = Stage::with(2, 1);
    stage.template("one", &json!([]));
    for name in ["a", "b"] {
        stage.pod(name, "one");
        stage.running(name);
    }
    let (pool, _) = stage.device_of("a");
    let eviction = json!({"mode": "Evict", "capacity": "Wait"});
    let spec = json!({"deviceSelector": {"pool": pool}, "taint": taint("NoExecute"), "eviction": eviction});
    let rule = json!({
        "apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule", "metadata": {"name": "roomy"},
        "spec": spec,
    });
    stage.create(RULES, &rule);
    let condition = blocked(&stage, "roomy", "True", "Capacity");
    let words = condition["message"].as_str().unwrap().to_owned();
    assert!(
        words.starts_with(
            "Capacity: 1 pod not evicted (default/a): no room for the replacement of pod default/a: "
        ),
        "{words}"
    );
    let told = stage.until("an event says so", || {
        let told = stage.events("roomy", "EvictionBlocked");
        if told.is_empty() { Err("no event".to_owned()) } else { Ok(told) }
    });
    assert_eq!(told, [words], "once");
    stage.until("the metric counts it", || match kept(&stage, "Capacity").as_str() {
        "1" => Ok(()),
        other => Err(other.to_owned()),
    });
    stage.delete("/api/v1/namespaces/default/pods/b");
    stage.gone("b");
    stage.gone("a");
    blocked(&stage, "roomy", "False", "NotBlocked");
    assert_eq!(kept(&stage, "Capacity"), "0");
}

#[test]
fn a_rule_gives_notice_and_can_be_taken_back() {
    let stage = Stage::with(1, 1);
    stage.template("one", &json!([]));
    stage.pod("a", "one");
    stage.running("a");
    rule(&stage, "announced", &json!({"noticeSeconds": 3600}));
    let pending = |condition: &Value| condition["reason"] == "PodsPendingEviction";
    stage.condition("announced", "the pod is to leave", pending);
    stage.delete(&format!("{RULES}/announced"));
    rule(&stage, "brief", &json!({"noticeSeconds": 3600}));
    stage.condition("brief", "the pod is to leave", pending);
    assert!(stage.pod_now("a").is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_null()));
    stage.merge(&format!("{RULES}/brief"), &json!({"spec": {"eviction": {"noticeSeconds": 0}}}));
    stage.gone("a");
}

#[test]
fn a_rule_says_how_long_it_waits_for_room_only_if_it_waits() {
    let stage = Stage::with(1, 1);
    let refused = |eviction: Value| {
        let spec =
            json!({"deviceSelector": {"driver": DRIVER}, "taint": taint("NoSchedule"), "eviction": eviction});
        let rule = json!({
            "apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule", "metadata": {"name": "bad"},
            "spec": spec,
        });
        stage.try_request("POST", RULES, "application/json", &rule).unwrap_err()
    };
    for (eviction, expected) in [
        (json!({"capacity": "Sometimes"}), "spec.eviction.capacity"),
        (json!({"capacityTimeoutSeconds": 5}), "needs capacity Wait"),
        (json!({"capacity": "Wait", "capacityTimeoutSeconds": -1}), "must be between 0 and 31536000"),
    ] {
        let said = refused(eviction);
        assert!(said.contains(expected), "{said}");
    }
}
