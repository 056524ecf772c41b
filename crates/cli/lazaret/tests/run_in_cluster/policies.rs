//! Policies and patches become rules of Kubernetes.

use std::collections::BTreeMap;

use lazaret_controllers::Controllers;
use lazaret_testkit::{Cluster, Features};
use serde_json::{Value, json};

use crate::{
    replica::Replica,
    stage::{DRIVER, OTHERS, PARTS, Stage},
};

/// A policy selects by expression; Kubernetes, played by the controllers in the test's own process, evicts for every NoExecute taint that it sees.
#[test]
fn a_policy_becomes_rules_that_evict_nobody_and_its_pods_leave_at_its_pace() {
    let stage = Stage::with(Controllers { claims: true, eviction: true, ..Controllers::NONE }, &[]);
    let replica = Replica::start(&stage.kubeconfig("lazaret-controllers"), "a", &["policies", "replacement"]);
    stage.until("it is ready", || replica.is_ready());
    // All pods begin on one node.
    stage.taint("elsewhere", "node-2", "NoSchedule");
    // The controllers of the test's process hear of it together with the scheduler.
    stage.until("the rule was heard of", || {
        !stage.list("/apis/resource.k8s.io/v1/devicetaintrules")[0]["status"]["conditions"].is_null()
    });
    stage.workload(4);
    stage
        .request(
            "DELETE",
            "/apis/resource.k8s.io/v1/devicetaintrules/elsewhere",
            "application/json",
            &Value::Null,
        )
        .unwrap();
    let policies = "/apis/lazaret.dev/v1alpha1/devicetaintpolicies";
    let empty = json!({"apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceTaintPolicy", "metadata": {"name": "all"},
        "spec": {"deviceSelector": {}, "taint": {"key": "k", "effect": "NoExecute"}}});
    let refused = stage.request("POST", policies, "application/json", &empty).unwrap_err();
    assert!(refused.contains("an empty selector would select every device"), "{refused}");
    stage.create(
        policies,
        &json!({
            "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceTaintPolicy", "metadata": {"name": "node-1"},
            "spec": {
                "deviceSelector": {"deviceClassName": DRIVER, "pool": "node-1", "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]},
                "taint": {"key": "example.com/out", "effect": "NoExecute", "evictionsPerSecond": 2},
            },
        }),
    );
    let rules = || stage.list("/apis/resource.k8s.io/v1/devicetaintrules");
    stage.until("each device of the node has a rule", || rules().len() == 4);
    stage.until("nobody is left on node-1", || {
        let pods = stage.pods();
        pods.len() == 4
            && pods
                .iter()
                .all(|pod| pod["spec"]["nodeName"] == "node-2" && pod["status"]["phase"] == "Running")
    });
    let policy = || stage.list(policies).remove(0);
    let condition = |kind: &str| {
        let conditions = policy()["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|one| one["type"] == kind).unwrap_or_default()
    };
    stage.until("it says that its devices are idle", || condition("Drained")["status"] == "True");
    assert_eq!(condition("Compiled")["message"], "4 DeviceTaintRules");
    stage.until("its rules keep late pods off", || {
        rules().iter().all(|rule| rule["spec"]["taint"]["effect"] == "NoExecute")
    });
    // The rules name the evicting component: Lazaret, for the policy; Kubernetes evicts none.
    stage.until("its rules say who evicts", || {
        rules().iter().all(|rule| {
            let said = conditions(rule);
            let (status, reason, message) = said.get("EvictionInProgress").cloned().unwrap_or_default();
            (status.as_str(), reason.as_str()) == ("False", "ByPolicy")
                && message == "The DeviceTaintPolicy that controls the rule evicts pods and counts them."
                && rule["status"]["evictions"].is_null()
        })
    });
    stage.until("the events are there", || stage.evictions().len() == 4);
    let evicted = stage.evictions();
    stage.until("the policy counts them", || policy()["status"]["evictions"]["pods"] == 4);
    assert!(evicted.values().all(|times| *times == 1), "{evicted:?}");
    let owner = rules()[0]["metadata"]["ownerReferences"][0].clone();
    assert_eq!((&owner["kind"], &owner["name"]), (&json!("DeviceTaintPolicy"), &json!("node-1")));
    stage.request("DELETE", &format!("{policies}/node-1"), "application/json", &Value::Null).unwrap();
    stage.until("its rules go with it", || rules().is_empty());
    assert_eq!(stage.refused(), Vec::<String>::new());
}

/// Status, reason and message of each condition.
fn conditions(object: &Value) -> BTreeMap<String, (String, String, String)> {
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.iter()
        .map(|one| (text(one, "type"), (text(one, "status"), text(one, "reason"), text(one, "message"))))
        .collect()
}

/// A patch on a cluster whose scheduler does not read patches, under the roles of the chart.
#[test]
fn a_patch_taints_by_rules_and_says_which_attributes_are_not_in_effect() {
    let stage = Stage::with(Controllers { claims: true, eviction: true, ..Controllers::NONE }, &[]);
    let replica = Replica::start(&stage.kubeconfig("lazaret-controllers"), "a", &["policies", "replacement"]);
    stage.until("it is ready", || replica.is_ready());
    stage.workload(4);
    let (patches, policies) =
        ("/apis/lazaret.dev/v1alpha1/resourceslicepatches", "/apis/lazaret.dev/v1alpha1/devicetaintpolicies");
    let rules = || stage.list("/apis/resource.k8s.io/v1/devicetaintrules");
    let patch = |devices: Value| {
        json!({"apiVersion": "lazaret.dev/v1alpha1", "kind": "ResourceSlicePatch", "metadata": {"name": "recall"},
            "spec": {"devices": devices}})
    };
    let taints = json!([
        {"key": "example.com/recalled", "value": "board", "effect": "NoExecute", "evictionsPerSecond": 5},
        {"key": "example.com/seen", "effect": "None"},
    ]);
    for (devices, why) in [
        (json!({"filter": {}, "taints": taints}), "an empty selector would select every device"),
        (json!({"filter": {"driver": DRIVER}}), "the patch changes nothing"),
        (
            json!({"filter": {"driver": DRIVER}, "attributes": {"a": {"int": 1, "bool": true}}}),
            "spec.devices.attributes",
        ),
    ] {
        let refused = stage.request("POST", patches, "application/json", &patch(devices)).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    stage.create(
        patches,
        &patch(json!({
            "filter": {"deviceClassName": DRIVER, "pool": "node-1"}, "taints": taints,
            "attributes": {"example.com/rack": {"string": "7"}}, "capacity": {"memory": {"value": "40Gi"}},
        })),
    );
    stage.until("each taint is on each of four devices", || rules().len() == 8);
    stage.until("nobody is left on node-1", || {
        let pods = stage.pods();
        pods.len() == 4
            && pods
                .iter()
                .all(|pod| pod["spec"]["nodeName"] == "node-2" && pod["status"]["phase"] == "Running")
    });
    stage.until("late pods are kept off", || {
        let of = |rule: &Value| rule["spec"]["taint"]["key"] == "example.com/recalled";
        let all = rules();
        all.iter().filter(|rule| of(rule)).all(|rule| rule["spec"]["taint"]["effect"] == "NoExecute")
    });
    let one =
        || stage.request("GET", &format!("{patches}/recall"), "application/json", &Value::Null).unwrap();
    stage.until("the patch says what it became", || conditions(&one()).len() == 2);
    let said = conditions(&one());
    assert_eq!(said["Compiled"], ("True".into(), "AsSelected".into(), "2 DeviceTaintPolicies".into()));
    assert_eq!((&*said["AttributesApplied"].0, &*said["AttributesApplied"].1), ("False", "DriverPublishes"));
    assert!(said["AttributesApplied"].2.starts_with("not in effect: example.com/rack, memory; "), "{said:?}");
    let made = stage.list(policies);
    assert!(
        made.iter().all(|policy| policy["metadata"]["ownerReferences"][0]["uid"] == one()["metadata"]["uid"])
    );
    stage.request("DELETE", &format!("{patches}/recall"), "application/json", &Value::Null).unwrap();
    stage.until("everything goes with it", || stage.list(policies).is_empty() && rules().is_empty());
    assert!(stage.evictions().values().all(|times| *times == 1), "{:?}", stage.evictions());
    assert_eq!(stage.refused(), Vec::<String>::new());
}

/// Rules are made by creation, which never takes over what is there, and changed by an apply that owns what the policy says and nothing else.
#[test]
fn what_others_wrote_is_never_touched_and_what_they_changed_is_changed_back() {
    let stage = Stage::with(OTHERS, &[]);
    let replica = Replica::start(&stage.kubeconfig("lazaret-controllers"), "a", &["policies", "replacement"]);
    stage.until("it is ready", || replica.is_ready());
    let (policies, rules) =
        ("/apis/lazaret.dev/v1alpha1/devicetaintpolicies", "/apis/resource.k8s.io/v1/devicetaintrules");
    let policy = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceTaintPolicy", "metadata": {"name": "mine"},
        "spec": {"deviceSelector": {"driver": DRIVER, "pool": "node-1"}, "taint": {"key": "example.com/out", "effect": "NoSchedule"}},
    });
    let send =
        |method: &str, path: &str, kind: &str, body: &Value| stage.request(method, path, kind, body).unwrap();
    stage.create(policies, &policy);
    stage.until("it has its rule", || stage.list(rules).len() == 1);
    let name = stage.list(rules)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let rule = format!("{rules}/{name}");
    let get = |path: &str| send("GET", path, "application/json", &Value::Null);
    send("DELETE", &format!("{policies}/mine"), "application/json", &Value::Null);
    stage.until("the rule goes with it", || stage.list(rules).is_empty());

    // Another owner has the name, with the very same spec. A controller that hears late of the policy's end makes the rule once more before it goes.
    let theirs = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": name},
        "spec": policy["spec"]});
    stage.until("the name is free", || stage.request("POST", rules, "application/json", &theirs).is_ok());
    let theirs = get(&rule);
    stage.create(policies, &policy);
    let compiled = || conditions(&get(&format!("{policies}/mine"))).remove("Compiled").unwrap_or_default();
    stage.until("the policy says so", || compiled().1 == "NameTaken");
    assert!(compiled().2.contains(&name), "{:?}", compiled());
    assert_eq!(get(&rule)["metadata"]["resourceVersion"], theirs["metadata"]["resourceVersion"]);
    send("DELETE", &rule, "application/json", &Value::Null);
    stage.until("the name is free and the rule is made", || compiled().1 == "AsSelected");
    assert!(!get(&rule)["metadata"]["ownerReferences"].is_null(), "the rule that is counted is the policy's");

    // A user edits the policy's rule.
    let edit = json!({
        "metadata": {"labels": {"team": "storage"}, "annotations": {"example.com/note": "ask first"}, "finalizers": ["example.com/keep"]},
        "spec": {"taint": {"value": "edited", "effect": "NoExecute"}},
    });
    send("PATCH", &format!("{rule}?fieldManager=somebody"), "application/merge-patch+json", &edit);
    stage.until("what the policy says is back", || {
        let taint = &get(&rule)["spec"]["taint"];
        taint["effect"] == "NoSchedule" && taint["value"].as_str().unwrap_or_default().is_empty()
    });
    let after = get(&rule);
    assert_eq!(after["metadata"]["labels"]["team"], "storage");
    assert_eq!(after["metadata"]["annotations"]["example.com/note"], "ask first");
    assert_eq!(after["metadata"]["finalizers"], json!(["example.com/keep"]));
    let managers = after["metadata"]["managedFields"].as_array().unwrap();
    let of = |name: &str, operation: &str| {
        managers.iter().find(|one| one["manager"] == name && one["operation"] == operation)
    };
    assert!(of("device-taint-policies", "Apply").is_some(), "{managers:?}");
    let left = of("somebody", "Update").unwrap();
    // The server may have set its time when they changed the effect.
    let taint = &left["fieldsV1"]["f:spec"]["f:taint"];
    assert!(
        taint["f:effect"].is_null() && taint["f:value"].is_null(),
        "the taint is the policy's alone: {left}"
    );
    let free = json!({"metadata": {"finalizers": null}});
    send("PATCH", &rule, "application/merge-patch+json", &free);
    assert_eq!(stage.refused(), Vec::<String>::new());
}

/// A status counts rules that are there: without the permission to make them there are none, and the policy says so until there are.
#[test]
fn a_policy_whose_rules_may_not_be_made_says_so_until_they_are() {
    let stage = Stage::with(OTHERS, &[]);
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/lazaret-device-taint-policies";
    let whole = stage.request("GET", role, "application/json", &Value::Null).unwrap()["rules"].clone();
    let is_other =
        |rule: &&Value| !rule["resources"].as_array().unwrap().contains(&json!("devicetaintrules"));
    let less: Vec<&Value> = whole.as_array().unwrap().iter().filter(is_other).collect();
    assert!(less.len() < whole.as_array().unwrap().len(), "{whole}");
    let give = |rules: Value| {
        stage.request("PATCH", role, "application/merge-patch+json", &json!({"rules": rules})).unwrap();
    };
    give(json!(less));
    let replica = Replica::start(&stage.kubeconfig("lazaret-controllers"), "a", &["policies", "replacement"]);
    stage.until("it is ready", || replica.is_ready());
    let policies = "/apis/lazaret.dev/v1alpha1/devicetaintpolicies";
    stage.create(
        policies,
        &json!({
            "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceTaintPolicy", "metadata": {"name": "mine"},
            "spec": {"deviceSelector": {"driver": DRIVER, "pool": "node-1"}, "taint": {"key": "example.com/out", "effect": "NoSchedule"}},
        }),
    );
    let compiled = || conditions(&stage.list(policies)[0]).remove("Compiled").unwrap_or_default();
    stage.until("the policy says anything", || !compiled().0.is_empty());
    let (status, reason, message) = compiled();
    assert_eq!((&*status, &*reason), ("False", "RulesNotWritten"));
    assert!(message.starts_with("0 DeviceTaintRules; 1 could not be written"), "{message}");
    give(whole.clone());
    stage.until("it has its rule", || compiled().1 == "AsSelected");
    assert_eq!(stage.list("/apis/resource.k8s.io/v1/devicetaintrules").len(), 1);
}

/// Kubernetes 1.34 has no DeviceTaintRules in v1: what drivers publish counts, and the process says that this is all.
#[test]
fn a_cluster_without_rules_is_served_as_far_as_that_goes() {
    let release: lazaret_server::Release = "1.34".parse().unwrap();
    let mut features = Features::of(release);
    features.parse("DRADeviceTaints=true").unwrap();
    let stage = Stage::of(Cluster::options().features(features), PARTS);
    let replica = Replica::start(&stage.kubeconfig("lazaret-controllers"), "a", &["eviction", "policies"]);
    stage.until("it is ready", || replica.is_ready());
    let metrics = replica.get("/metrics");
    assert!(metrics.contains("lazaret_resource_unreadable{resource=\"devicetaintrules\"} 1"), "{metrics}");
    stage.until("it leads", || {
        replica.get("/metrics").contains("lazaret_leading{controller=\"device-taint-eviction\"} 1")
    });
}
