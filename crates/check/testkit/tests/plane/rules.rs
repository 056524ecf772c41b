//! The effects of an administrator's rules.

use serde_json::{Value, json};

use crate::stage::{DRIVER, Stage, taint};

/// A driver that is not simulated.
const VANISHING: &str = "other.example.com";

/// Two pods on two nodes; the name of the one that holds the device to be tainted comes first.
fn two(stage: &Stage) -> (String, String) {
    stage.template("one", &json!([]));
    stage.pod("a", "one");
    stage.pod("b", "one");
    stage.running("a");
    stage.running("b");
    stage.device_of("a")
}

/// The prefix of the identifiers of a node's devices.
fn uuid_of(stage: &Stage, pool: &str) -> String {
    let slices = stage.list("/apis/resource.k8s.io/v1/resourceslices");
    let slice = slices.iter().find(|slice| slice["spec"]["nodeName"] == pool).unwrap();
    slice["spec"]["devices"][0]["attributes"]["uuid"]["string"].as_str().unwrap().to_owned()
}

fn stays(stage: &Stage, pod: &str) {
    stage.settle();
    assert!(stage.pod_now(pod).unwrap()["metadata"]["deletionTimestamp"].is_null(), "{pod}");
}

#[test]
fn a_rule_by_name_moves_only_who_holds_that_device() {
    let stage = Stage::with(2, 1);
    let (pool, device) = two(&stage);
    stage.rule("v1", "out", &json!({"driver": DRIVER, "pool": pool, "device": device}), &taint("NoExecute"));
    stage.gone("a");
    stays(&stage, "b");
    let done = |one: &Value| one["status"] == "False" && one["reason"] == "Completed";
    let condition = stage.condition("out", "says that it is done", done);
    assert!(condition["message"].as_str().unwrap().contains("1 pod"), "{condition}");
    let rule = stage.until("the device is idle", || {
        let rule = stage.get("/apis/resource.k8s.io/v1alpha3/devicetaintrules/out");
        let conditions = rule["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let idle = conditions.iter().any(|one| one["type"] == "Drained" && one["status"] == "True");
        if idle { Ok(rule) } else { Err(rule["status"].to_string()) }
    });
    assert_eq!(rule["status"]["evictions"]["pods"], 1, "{rule}");
    assert_eq!(rule["status"]["evictions"]["atLeast"], false, "{rule}");
    let stable = stage.get("/apis/resource.k8s.io/v1/devicetaintrules/out");
    assert_eq!(stable["status"]["evictions"], Value::Null, "v1 has no such field");
}

#[test]
fn a_rule_by_class_and_a_rule_by_expression() {
    let stage = Stage::with(2, 1);
    let (pool, _) = two(&stage);
    let expression =
        format!("device.attributes[\"{DRIVER}\"].uuid.startsWith(\"{}\")", uuid_of(&stage, &pool));
    let by_cel = json!({"selectors": [{"cel": {"expression": expression}}]});
    stage.rule("v1alpha3", "by-cel", &by_cel, &taint("NoExecute"));
    stage.gone("a");
    stays(&stage, "b");
    stage.rule("v1alpha3", "by-class", &json!({"deviceClassName": DRIVER}), &taint("NoExecute"));
    stage.gone("b");
}

#[test]
fn previewed_with_effect_none_then_enforced_then_deleted_half_way() {
    let stage = Stage::with(2, 24);
    stage.template("one", &json!([]));
    let names: Vec<String> = (0..48).map(|n| format!("p{n}")).collect();
    for name in &names {
        stage.pod(name, "one");
    }
    for name in &names {
        stage.running(name);
    }
    let mut slow = taint("None");
    slow["evictionsPerSecond"] = 1.into();
    stage.rule("v1alpha3", "all", &json!({"driver": DRIVER}), &slow);
    let preview = stage
        .condition("all", "previews", |one| one["message"].as_str().is_some_and(|m| m.contains("48 pods")));
    assert_eq!(preview["status"], "False", "{preview}");
    let here = || names.iter().filter(|name| stage.pod_now(name).is_some()).count();
    assert_eq!(here(), 48);
    stage.merge(
        "/apis/resource.k8s.io/v1alpha3/devicetaintrules/all",
        &json!({"spec": {"taint": {"effect": "NoExecute"}}}),
    );
    // The burst is ten; the rest would take longer than any machine needs to delete the rule.
    stage.until("the burst is gone", || if here() <= 38 { Ok(()) } else { Err(here().to_string()) });
    stage.delete("/apis/resource.k8s.io/v1/devicetaintrules/all");
    stage.settle();
    let left = here();
    assert!(left > 0, "the rule went half-way, and all pods with it");
    stage.settle();
    assert_eq!(here(), left);
}

#[test]
fn tolerations_for_ever_and_for_a_while() {
    let stage = Stage::with(1, 3);
    stage.template("never", &json!([]));
    stage.template("ever", &json!([{"operator": "Exists"}]));
    stage.template("while", &json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2}]));
    for name in ["never", "ever", "while"] {
        stage.pod(name, name);
        stage.running(name);
    }
    stage.rule("v1", "all", &json!({"driver": DRIVER}), &taint("NoExecute"));
    stage.gone("never");
    stage.gone("while");
    stays(&stage, "ever");
    // No eviction was early: the rule's own time of the taint and two seconds.
    let rule = stage.get("/apis/resource.k8s.io/v1/devicetaintrules/all");
    assert!(rule["spec"]["taint"]["timeAdded"].is_string());
}

#[test]
fn all_who_share_a_claim_leave_together() {
    let stage = Stage::with(1, 1);
    stage.create(
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
        &json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "shared"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}},
        }),
    );
    for name in ["a", "b"] {
        let pod = crate::stage::pod(name, &json!({"resourceClaimName": "shared"}));
        stage.create("/api/v1/namespaces/default/pods", &pod);
        stage.running(name);
    }
    stage.rule("v1", "all", &json!({"driver": DRIVER}), &taint("NoExecute"));
    stage.gone("a");
    stage.gone("b");
    stage.until("the claim is free", || {
        let claim = stage.get("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/shared");
        if claim["status"]["reservedFor"].as_array().is_none_or(Vec::is_empty) {
            Ok(())
        } else {
            Err(claim["status"].to_string())
        }
    });
}

#[test]
fn a_pod_with_an_extended_resource_leaves_like_any_other() {
    let stage = Stage::with(1, 1);
    stage.merge(
        &format!("/apis/resource.k8s.io/v1/deviceclasses/{DRIVER}"),
        &json!({"spec": {"extendedResourceName": "example.com/gpu"}}),
    );
    let mut pod = crate::stage::pod("a", &Value::Null);
    pod["spec"]["resourceClaims"] = Value::Null;
    pod["spec"]["containers"][0]["resources"] =
        json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}});
    stage.create("/api/v1/namespaces/default/pods", &pod);
    let running = stage.running("a");
    assert!(running["status"]["extendedResourceClaimStatus"]["resourceClaimName"].is_string(), "{running}");
    stage.rule("v1", "all", &json!({"driver": DRIVER}), &taint("NoExecute"));
    stage.gone("a");
}

/// A driver whose slice comes and goes by hand, and a pod `a` that runs on its only device, by the claim `it`.
pub(crate) fn vanishing(stage: &Stage) {
    let other = VANISHING;
    stage.create(
        "/apis/resource.k8s.io/v1/deviceclasses",
        &json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "other"},
            "spec": {"selectors": [{"cel": {"expression": format!("device.driver == '{other}'")}}]},
        }),
    );
    publish_vanishing(stage);
    stage.create(
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
        &json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "it"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "other"}}]}},
        }),
    );
    stage.create(
        "/api/v1/namespaces/default/pods",
        &crate::stage::pod("a", &json!({"resourceClaimName": "it"})),
    );
    stage.running("a");
}

/// The slice of that driver.
pub(crate) fn publish_vanishing(stage: &Stage) {
    stage.create(
        "/apis/resource.k8s.io/v1/resourceslices",
        &json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "vanishing"},
            "spec": {
                "driver": VANISHING, "nodeName": "node-1",
                "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "d", "attributes": {"model": {"string": "old"}}}],
            },
        }),
    );
}

#[test]
fn a_slice_that_vanished_does_not_hide_its_devices_from_a_rule() {
    let stage = Stage::with(1, 1);
    vanishing(&stage);
    stage.delete("/apis/resource.k8s.io/v1/resourceslices/vanishing");
    stays(&stage, "a");
    let expression = format!("device.attributes[\"{VANISHING}\"].model == \"old\"");
    stage.rule(
        "v1alpha3",
        "old",
        &json!({"selectors": [{"cel": {"expression": expression}}]}),
        &taint("NoExecute"),
    );
    stage.gone("a");
}

#[test]
fn a_rule_of_v1_has_no_pace_of_its_own() {
    let stage = Stage::with(2, 8);
    stage.template("one", &json!([]));
    let names: Vec<String> = (0..16).map(|n| format!("p{n}")).collect();
    names.iter().for_each(|name| stage.pod(name, "one"));
    names.iter().for_each(|name| drop(stage.running(name)));
    stage.rule("v1", "all", &json!({"driver": DRIVER}), &taint("NoExecute"));
    names.iter().for_each(|name| stage.gone(name));
    let rule = stage.get("/apis/resource.k8s.io/v1alpha3/devicetaintrules/all");
    assert!(rule["spec"]["taint"]["evictionsPerSecond"].is_null(), "{rule}");
}
