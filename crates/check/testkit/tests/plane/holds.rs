//! Rules that reach more than a guard permits without approval have no effect, for the scheduler neither; and groups of pods.

use http::Request;
use lazaret_server::User;
use lazaret_testkit::{Cluster, Plane};
use serde_json::{Value, json};

use crate::stage::{DRIVER, Stage, taint};

const RULES: &str = "/apis/resource.k8s.io/v1alpha3/devicetaintrules";
const GUARDS: &str = "/apis/lazaret.dev/v1alpha1/disruptionguards";

/// The server names authors, and the controllers go by that, as with `lazaret up`.
fn stage(nodes: usize, devices: usize) -> Stage {
    let mut options = lazaret_controllers::Options::default();
    options.eviction.trusts_user_names = true;
    Stage::of(Cluster::options().plane(Plane::simulated(nodes, devices).options(options)), nodes)
}

fn as_user(stage: &Stage, user: &str, method: &str, path: &str, body: &Value) -> Value {
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(body.to_string().into_bytes())
        .unwrap();
    let groups = vec!["system:masters".into(), "system:authenticated".into()];
    let client = stage.cluster.client_as(User { name: user.into(), groups, ..User::default() });
    stage.cluster.block_on(async move { client.request::<Value>(request).await }).unwrap()
}

fn condition(rule: &Value, kind: &str) -> Value {
    let conditions = rule["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|one| one["type"] == kind).unwrap_or_default()
}

/// The condition `Held` of a rule, once it has this reason and is about the spec as it is.
fn held(stage: &Stage, name: &str, reason: &str) -> Value {
    stage.until(&format!("{name} is {reason}"), || {
        let rule = stage.get(&format!("{RULES}/{name}"));
        let found = condition(&rule, "Held");
        let current = found["observedGeneration"] == rule["metadata"]["generation"];
        if current && found["reason"] == reason { Ok(found) } else { Err(rule.to_string()) }
    })
}

fn confirm(stage: &Stage, confirm_above: &Value) {
    let guard = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "fleet"},
        "spec": {"confirmAbove": confirm_above, "approvers": "Different", "breaker": {"maxOutOfService": "100%"}},
    });
    stage.until("the kind is served", || {
        stage.try_request("GET", GUARDS, "application/json", &Value::Null).map(|_| ())
    });
    stage.create(GUARDS, &guard);
    stage.until("the controller has heard of the guard", || {
        let guard = stage.get(&format!("{GUARDS}/fleet"));
        if guard["status"]["breaker"]["total"].as_u64() > Some(0) { Ok(()) } else { Err(guard.to_string()) }
    });
}

fn rule(name: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule", "metadata": {"name": name},
        "spec": {"deviceSelector": {"driver": DRIVER}, "taint": taint("NoExecute")},
    })
}

fn approval(stage: &Stage, name: &str, pods: u64, devices: u64) -> Value {
    let rule = stage.get(&format!("{RULES}/{name}"));
    let (uid, generation) = (&rule["metadata"]["uid"], &rule["metadata"]["generation"]);
    let text =
        json!({"uid": uid, "generation": generation, "pods": pods, "namespaces": 1, "devices": devices});
    json!({"metadata": {"annotations": {
        "lazaret.dev/approval": text.to_string(), "lazaret.dev/approved-by": "bob", "lazaret.dev/written-by": "eve",
    }}})
}

#[test]
fn a_rule_that_reaches_too_far_has_no_effect_before_another_user_approves_it() {
    let stage = stage(1, 3);
    stage.template("one", &json!([]));
    for name in ["a", "b"] {
        stage.pod(name, "one");
        stage.running(name);
    }
    confirm(&stage, &json!({"pods": 1}));
    let made = as_user(&stage, "ada", "POST", RULES, &rule("wide"));
    assert_eq!(made["metadata"]["annotations"], json!({"lazaret.dev/written-by": "ada"}));
    let said = held(&stage, "wide", "ApprovalRequired");
    let why = "2 pods in 1 namespace on 3 devices; DisruptionGuard fleet wants approval above 1 pods; kubectl device approve wide";
    assert_eq!((said["status"].as_str(), said["message"].as_str()), (Some("True"), Some(why)));
    let blocked = stage.until("it says whom it does not evict", || {
        let found = condition(&stage.get(&format!("{RULES}/wide")), "EvictionBlocked");
        if found["reason"] == "Held" { Ok(found) } else { Err(found.to_string()) }
    });
    let words = format!("Held: 2 pods not evicted (default/a, default/b): {why}.");
    assert_eq!(blocked["message"].as_str(), Some(words.as_str()));
    let told = stage.until("an event says so", || {
        let told = stage.events("wide", "EvictionBlocked");
        if told.is_empty() { Err("no event".to_owned()) } else { Ok(told) }
    });
    assert_eq!(told, [words]);
    stage.until("the metric counts them", || {
        let metrics = stage.text("/metrics");
        let found =
            metrics.lines().find(|line| line.starts_with("lazaret_evictions_blocked{reason=\"Held\"}"));
        if found.is_some_and(|line| line.ends_with(" 2")) { Ok(()) } else { Err(format!("{found:?}")) }
    });
    // The scheduler does not see its taint: a third pod gets the third device.
    stage.pod("c", "one");
    stage.running("c");

    let path = format!("{RULES}/wide");
    as_user(&stage, "ada", "PATCH", &path, &approval(&stage, "wide", 3, 3));
    held(&stage, "wide", "ApproverNotDifferent");
    as_user(&stage, "bob", "PATCH", &path, &approval(&stage, "wide", 2, 3));
    held(&stage, "wide", "ApprovalLapsed");
    let approved = as_user(&stage, "bob", "PATCH", &path, &approval(&stage, "wide", 3, 3));
    assert_eq!(approved["metadata"]["annotations"]["lazaret.dev/approved-by"], "bob");
    assert_eq!(approved["metadata"]["annotations"]["lazaret.dev/written-by"], "ada");
    for name in ["a", "b", "c"] {
        stage.gone(name);
    }
    assert_eq!(held(&stage, "wide", "NotHeld")["status"], "False");
    // The new spec has no approval. No pod is left to be evicted, so that it may take effect.
    as_user(&stage, "bob", "PATCH", &path, &json!({"spec": {"taint": {"value": "other"}}}));
    held(&stage, "wide", "NotHeld");
}

#[test]
fn a_small_rule_takes_effect_at_once_and_a_guard_that_goes_lets_others_do() {
    let stage = stage(1, 2);
    stage.template("one", &json!([]));
    stage.pod("a", "one");
    stage.running("a");
    confirm(&stage, &json!({"devices": 1}));
    as_user(&stage, "ada", "POST", RULES, &rule("wide"));
    held(&stage, "wide", "ApprovalRequired");
    let mut small = rule("small");
    let (_, device) = stage.device_of("a");
    small["spec"]["deviceSelector"]["device"] = device.into();
    as_user(&stage, "ada", "POST", RULES, &small);
    held(&stage, "small", "NotHeld");
    stage.gone("a");
    stage.pod("b", "one");
    stage.running("b");
    stage.delete(&format!("{GUARDS}/fleet"));
    stage.gone("b");
    held(&stage, "wide", "NotHeld");
}

#[test]
fn pods_of_a_group_leave_together() {
    let stage = stage(1, 3);
    stage.template("one", &json!([]));
    let patient =
        json!([{"key": taint("NoExecute")["key"], "operator": "Exists", "tolerationSeconds": 3600}]);
    stage.template("patient", &patient);
    for (name, template) in [("a", "one"), ("b", "patient"), ("alone", "one")] {
        stage.pod(name, template);
        stage.running(name);
    }
    for name in ["a", "b"] {
        let label = json!({"metadata": {"labels": {"lazaret.dev/group": "gang"}}});
        stage.merge(&format!("/api/v1/namespaces/default/pods/{name}"), &label);
    }
    let mut together = rule("together");
    together["spec"]["eviction"] = json!({"groups": "Together"});
    stage.create(RULES, &together);
    stage.gone("alone");
    let blocked = stage.until("the group waits", || {
        let found = condition(&stage.get(&format!("{RULES}/together")), "EvictionBlocked");
        if found["reason"] == "Group" { Ok(found) } else { Err(found.to_string()) }
    });
    assert_eq!(
        blocked["message"],
        "Group: 1 pod not evicted (default/a): pod default/b of the group need not leave yet."
    );
    // It leaves the group, and no pod waits for it any more.
    stage.merge(
        "/api/v1/namespaces/default/pods/b",
        &json!({"metadata": {"labels": {"lazaret.dev/group": null}}}),
    );
    stage.gone("a");
    assert!(stage.pod_now("b").unwrap()["metadata"]["deletionTimestamp"].is_null());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let stage = stage(1, 1);
    let windows = |zone: &str| json!({"windows": [{"start": "02:00", "duration": "1h", "timeZone": zone}]});
    for (eviction, part) in [
        (json!({"groups": "Whole"}), "spec.eviction.groups"),
        (windows("Europe/Atlantis"), "spec.eviction.windows[0].timeZone"),
    ] {
        for (path, version, kind) in [
            (RULES, "resource.k8s.io/v1alpha3", "DeviceTaintRule"),
            ("/apis/lazaret.dev/v1alpha1/devicetaintpolicies", "lazaret.dev/v1alpha1", "DeviceTaintPolicy"),
        ] {
            stage.until("the kind is served", || {
                stage.try_request("GET", path, "application/json", &Value::Null).map(|_| ())
            });
            let mut object = rule("r");
            (object["apiVersion"], object["kind"]) = (version.into(), kind.into());
            object["spec"]["eviction"] = eviction.clone();
            let error = stage.try_request("POST", path, "application/json", &object).unwrap_err();
            assert!(error.contains(part), "{kind}: {error}");
            object["spec"]["eviction"] = windows("Europe/Zurich");
            stage.create(path, &object);
            stage.delete(&format!("{path}/r"));
        }
    }
    for (spec, part) in [
        (json!({"confirmAbove": {}}), "spec.confirmAbove"),
        (json!({"confirmAbove": {"pods": -1}}), "spec.confirmAbove.pods"),
        (json!({"confirmAbove": {"devices": "110%"}}), "spec.confirmAbove.devices"),
        (json!({"approvers": "Nobody"}), "spec.approvers"),
    ] {
        let guard = json!({
            "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "g"}, "spec": spec,
        });
        let error = stage.try_request("POST", GUARDS, "application/json", &guard).unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// A drain of two devices makes a rule for each. A guard counts them as one, and one approval is good for both.
#[test]
fn rules_of_one_request_are_held_and_approved_together() {
    let stage = stage(1, 2);
    stage.template("one", &json!([]));
    for name in ["a", "b"] {
        stage.pod(name, "one");
        stage.running(name);
    }
    confirm(&stage, &json!({"devices": 1}));
    let names = ["a", "b"].map(|pod| {
        let (pool, device) = stage.device_of(pod);
        let request = json!({"id": "drain-1", "evicts": true, "pods": 2, "namespaces": 1, "devices": 2});
        let rule = json!({
            "apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule",
            "metadata": {"name": format!("drain-{device}"), "annotations": {"lazaret.dev/request": request.to_string()}},
            "spec": {"deviceSelector": {"driver": DRIVER, "pool": pool, "device": device}, "taint": taint("NoExecute")},
        });
        as_user(&stage, "ada", "POST", RULES, &rule)["metadata"]["name"].as_str().unwrap().to_owned()
    });
    for name in &names {
        let said = held(&stage, name, "ApprovalRequired");
        let said = said["message"].as_str().unwrap();
        assert!(said.starts_with("2 pods in 1 namespace on 2 devices"), "{said}");
    }
    assert!(stage.pod_now("a").is_some() && stage.pod_now("b").is_some());
    for name in &names {
        let mut approval = approval(&stage, name, 2, 2);
        approval["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .retain(|key, _| key.ends_with("approval"));
        as_user(&stage, "bob", "PATCH", &format!("{RULES}/{name}"), &approval);
    }
    for name in &names {
        held(&stage, name, "NotHeld");
    }
    stage.gone("a");
    stage.gone("b");
}
