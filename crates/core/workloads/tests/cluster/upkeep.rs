//! Budgets, garbage, namespaces, nodes and what else keeps a cluster tidy, against a model of the API server.

use lazaret_workloads::{Object, Propagation, Resource, Rules, resource, rules};
use serde_json::{Value, json};

use crate::support::{
    api::stamp,
    replica_set,
    rig::{Faults, Pods, Rig},
};

fn pod(name: &str, more: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"containers": []}});
    for (name, value) in more.as_object().into_iter().flatten() {
        pod["metadata"][name] = value.clone();
    }
    pod
}

fn owner(resource: &Resource, object: &Value, block: bool) -> Value {
    json!({"apiVersion": resource.api_version(), "kind": resource.kind, "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "blockOwnerDeletion": block})
}

fn config_map(name: &str, owners: &[Value]) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "ownerReferences": owners}})
}

const MAPS: &Resource = &resource::CONFIG_MAPS;

#[test]
fn garbage_goes_when_its_last_owner_has_gone() {
    let mut rig = Rig::new(&[rules::GARBAGE], 1, Faults::MANY);
    let a = rig.create(MAPS, config_map("a", &[]));
    let b = rig.create(MAPS, config_map("b", &[]));
    let both = rig.create(MAPS, config_map("both", &[owner(MAPS, &a, false), owner(MAPS, &b, false)]));
    rig.create(MAPS, config_map("below", &[owner(MAPS, &both, false)]));
    rig.settle(30);
    rig.delete(MAPS, "a", Propagation::Background);
    rig.settle(60);
    let left = &rig.object(MAPS, "both")["metadata"]["ownerReferences"];
    assert_eq!(
        (left.as_array().unwrap().len(), &left[0]["name"]),
        (1, &json!("b")),
        "the dead reference is gone"
    );
    rig.delete(MAPS, "b", Propagation::Background);
    rig.settle(60);
    assert_eq!(rig.api.all(MAPS).count(), 0, "and what hung below goes too");
}

/// The claim controller comes first; two deletions would cost the server twice.
#[test]
fn the_claim_of_a_pod_that_has_gone_is_garbage_two_seconds_later() {
    let mut rig = Rig::new(&[rules::GARBAGE], 7, Faults::NONE);
    let gone = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "gone", "controller": true});
    let claim =
        |name: &str| json!({"metadata": {"name": name, "namespace": "default", "ownerReferences": [gone]}});
    rig.create(&resource::CLAIMS, claim("left"));
    rig.create(&resource::CLAIMS, claim("taken"));
    rig.create(MAPS, claim("map"));
    rig.pass(1);
    assert!(rig.object(MAPS, "map").is_null(), "nobody else looks after it");
    assert!(!rig.object(&resource::CLAIMS, "left").is_null());
    let removals = |rig: &Rig| rig.api.log.iter().filter(|entry| entry.removed).count();
    rig.delete(&resource::CLAIMS, "taken", Propagation::Background);
    rig.settle(30);
    assert!(rig.object(&resource::CLAIMS, "left").is_null());
    assert_eq!(removals(&rig), 3);
}

#[test]
fn an_owner_that_never_was_is_none_and_one_of_unknown_kind_may_be() {
    let mut rig = Rig::new(&[rules::GARBAGE], 2, Faults::NONE);
    let ghost = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "never"});
    let strange = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "w"});
    rig.create(MAPS, config_map("haunted", &[ghost]));
    rig.create(MAPS, config_map("kept", &[strange]));
    rig.create(MAPS, json!({"metadata": {"name": "ghost", "namespace": "default"}}));
    rig.settle(30);
    assert!(rig.object(MAPS, "haunted").is_null(), "another object of the same name is not the owner");
    assert!(!rig.object(MAPS, "kept").is_null());
}

#[test]
fn an_owner_in_another_namespace_is_none() {
    let mut rig = Rig::new(&[rules::GARBAGE], 3, Faults::NONE);
    let far = rig.create(MAPS, json!({"metadata": {"name": "far", "namespace": "other"}}));
    rig.create(MAPS, config_map("near", &[owner(MAPS, &far, false)]));
    rig.create(
        MAPS,
        json!({"metadata": {"name": "beside", "namespace": "other", "ownerReferences": [owner(MAPS, &far, false)]}}),
    );
    rig.settle(30);
    assert!(rig.object(MAPS, "near").is_null());
    assert!(
        rig.api.get(MAPS, "other", "beside").is_some(),
        "who asks from elsewhere cannot hurt the true dependents"
    );
}

#[test]
fn a_foreground_deletion_waits_for_what_blocks_it_even_in_a_circle() {
    let mut rig = Rig::new(&[rules::GARBAGE], 4, Faults::MANY);
    let top = rig.create(MAPS, config_map("top", &[]));
    let mid = rig.create(MAPS, config_map("mid", &[owner(MAPS, &top, true)]));
    rig.create(MAPS, config_map("low", &[owner(MAPS, &mid, true)]));
    rig.api.change(MAPS, "default", "low", |low| low["metadata"]["finalizers"] = json!(["example.com/hold"]));
    rig.delete(MAPS, "top", Propagation::Foreground);
    rig.settle(60);
    assert_eq!(rig.api.all(MAPS).count(), 3, "all wait for the lowest");
    rig.api.change(MAPS, "default", "low", |low| low["metadata"]["finalizers"] = json!([]));
    rig.settle(60);
    assert_eq!(rig.api.all(MAPS).count(), 0);
    let a = rig.create(MAPS, config_map("a", &[]));
    let b = rig.create(MAPS, config_map("b", &[owner(MAPS, &a, true)]));
    rig.api
        .change(MAPS, "default", "a", |a| a["metadata"]["ownerReferences"] = json!([owner(MAPS, &b, true)]));
    rig.settle(30);
    rig.delete(MAPS, "a", Propagation::Foreground);
    rig.settle(60);
    assert_eq!(rig.api.all(MAPS).count(), 0, "a circle comes apart");
}

#[test]
fn a_namespace_goes_after_its_contents() {
    let mut rig = Rig::new(&[rules::NAMESPACES], 5, Faults::MANY);
    rig.create(
        &resource::NAMESPACES,
        json!({"metadata": {"name": "default"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}),
    );
    for number in 0..20 {
        rig.create(&resource::PODS, pod(&format!("p{number}"), &json!({})));
        rig.create(MAPS, config_map(&format!("m{number}"), &[]));
    }
    rig.create(MAPS, json!({"metadata": {"name": "far", "namespace": "other"}}));
    rig.settle(30);
    rig.check = |rig| {
        let gone = rig.api.get(&resource::NAMESPACES, "", "default").is_none();
        let left =
            rig.api.everything().filter(|(_, object)| object["metadata"]["namespace"] == "default").count();
        assert!(!gone || left == 0, "{left} objects are left of a namespace that has gone");
    };
    rig.api.delete(
        rig.now,
        &resource::NAMESPACES,
        &lazaret_workloads::Key::new("", "default"),
        Propagation::Background,
    );
    rig.settle(300);
    assert!(rig.api.get(&resource::NAMESPACES, "", "default").is_none());
    assert!(rig.api.get(MAPS, "other", "far").is_some());
}

#[test]
fn a_namespace_says_what_remains_in_it_and_pods_go_first() {
    let mut rig = Rig::new(&[rules::NAMESPACES], 5, Faults::NONE);
    rig.pods = Pods::Wait;
    rig.create(
        &resource::NAMESPACES,
        json!({"metadata": {"name": "default"}, "spec": {"finalizers": ["kubernetes", "example.com/own"]}, "status": {"phase": "Active"}}),
    );
    rig.create(&resource::PODS, pod("held", &json!({"finalizers": ["example.com/hold"]})));
    for (resource, name) in
        [(&resource::SERVICES, "s"), (&resource::CRON_JOBS, "c"), (&resource::QUOTAS, "q")]
    {
        rig.create(resource, config_map(name, &[]));
    }
    rig.api.change(&resource::SERVICES, "default", "s", |service| {
        service["metadata"]["finalizers"] = json!(["example.com/hold", "example.com/balancer"])
    });
    rig.settle(5);
    let namespaces = &resource::NAMESPACES;
    let key = lazaret_workloads::Key::new("", "default");
    rig.api.delete(rig.now, namespaces, &key, Propagation::Background);
    rig.settle(30);
    let told = |rig: &Rig, name: &str| -> (String, String) {
        let namespace = rig.api.get(namespaces, "", "default").unwrap();
        let conditions = namespace["status"]["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|condition| condition["type"] == name).unwrap();
        (found["status"].as_str().unwrap().to_owned(), found["message"].as_str().unwrap().to_owned())
    };
    assert!(!rig.object(&resource::CRON_JOBS, "c").is_null(), "pods go first");
    rig.api.change(&resource::PODS, "default", "held", |pod| pod["metadata"]["finalizers"] = json!([]));
    rig.settle(30);
    assert!(rig.object(&resource::CRON_JOBS, "c").is_null() && rig.object(&resource::QUOTAS, "q").is_null());
    let remaining = "Some resources are remaining: services. has 1 resource instances";
    assert_eq!(told(&rig, "NamespaceContentRemaining"), ("True".to_owned(), remaining.to_owned()));
    let finalizers = "Some content in the namespace has finalizers remaining: \
        example.com/balancer in 1 resource instances, example.com/hold in 1 resource instances";
    assert_eq!(told(&rig, "NamespaceFinalizersRemaining"), ("True".to_owned(), finalizers.to_owned()));
    assert_eq!(told(&rig, "NamespaceDeletionContentFailure").0, "False");
    let writes = rig.writes;
    rig.settle(60);
    assert_eq!(rig.writes, writes, "what has not changed is not told again");
    rig.api
        .change(&resource::SERVICES, "default", "s", |service| service["metadata"]["finalizers"] = json!([]));
    rig.settle(30);
    let namespace = rig.api.get(namespaces, "", "default").unwrap();
    assert_eq!(namespace["spec"]["finalizers"], json!(["example.com/own"]), "another still holds it");
    assert_eq!(told(&rig, "NamespaceContentRemaining").0, "False");
    assert_eq!(told(&rig, "NamespaceFinalizersRemaining").0, "False");
}

#[test]
fn a_kind_that_is_learned_owns_and_is_owned_until_it_is_forgotten() {
    static NEWER: Resource =
        Resource { group: "example.com", version: "v2", plural: "widgets", kind: "Widget", namespaced: true };
    static WIDGETS: Resource =
        Resource { group: "example.com", version: "v1", plural: "widgets", kind: "Widget", namespaced: true };
    let mut rig = Rig::new(&[rules::GARBAGE], 2, Faults::NONE);
    let strange = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "w"});
    rig.create(MAPS, config_map("kept", &[strange]));
    rig.settle(30);
    assert!(!rig.object(MAPS, "kept").is_null(), "nobody knows of widgets yet");
    rig.core.learn(&WIDGETS);
    rig.core.list(rig.now, &WIDGETS, Vec::new(), rig.api.revision);
    rig.api.change(MAPS, "default", "kept", |map| {
        map["metadata"]["ownerReferences"][0]["controller"] = json!(true)
    });
    rig.settle(30);
    assert!(rig.object(MAPS, "kept").is_null(), "there is no such widget");
    let widget = Object::parse(
        &WIDGETS,
        &json!({"metadata": {"name": "w", "namespace": "default", "uid": "w", "resourceVersion": "1"}}),
    );
    rig.core.put(rig.now, widget.unwrap());
    assert!(rig.core.world().graph().get("w").is_some());
    let owner = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "w"});
    rig.create(MAPS, config_map("owned", &[owner]));
    rig.settle(30);
    // Under another version it is the same widget.
    rig.core.forget(rig.now, &WIDGETS, false);
    assert!(rig.core.world().graph().get("w").is_none());
    rig.core.learn(&NEWER);
    let widget =
        json!({"metadata": {"name": "w", "namespace": "default", "uid": "w", "resourceVersion": "1"}});
    rig.core.put(rig.now, Object::parse(&NEWER, &widget).unwrap());
    rig.settle(30);
    assert!(!rig.object(MAPS, "owned").is_null() && rig.core.world().graph().get("w").is_some());
    // With its definition it goes, and what it owned goes after it.
    rig.core.forget(rig.now, &NEWER, true);
    rig.settle(30);
    assert!(rig.object(MAPS, "owned").is_null());
}

#[test]
fn every_namespace_has_an_account_and_the_certificate() {
    let mut rig = Rig::new(&[rules::SERVICE_ACCOUNTS], 6, Faults::MANY);
    rig.create(&resource::NAMESPACES, json!({"metadata": {"name": "kube-system"}}));
    let source = json!({"metadata": {"name": "kube-root-ca.crt", "namespace": "kube-system"}, "data": {"ca.crt": "one"}});
    rig.create(MAPS, source);
    rig.create(&resource::NAMESPACES, json!({"metadata": {"name": "default"}}));
    rig.settle(60);
    assert!(!rig.object(&resource::SERVICE_ACCOUNTS, "default").is_null());
    assert_eq!(rig.object(MAPS, "kube-root-ca.crt")["data"]["ca.crt"], "one");
    rig.api.change(MAPS, "kube-system", "kube-root-ca.crt", |map| map["data"]["ca.crt"] = json!("two"));
    rig.delete(&resource::SERVICE_ACCOUNTS, "default", Propagation::Background);
    rig.settle(60);
    assert!(!rig.object(&resource::SERVICE_ACCOUNTS, "default").is_null());
    assert_eq!(rig.object(MAPS, "kube-root-ca.crt")["data"]["ca.crt"], "two");
}

#[test]
fn budgets_say_how_many_may_be_disturbed() {
    let rows: &[(Value, u64, [u64; 4])] = &[
        // Budget, pods, and: expected, desired, healthy, allowed.
        (json!({"minAvailable": 2}), 3, [3, 2, 3, 1]),
        (json!({"minAvailable": 5}), 3, [3, 5, 3, 0]),
        (json!({"minAvailable": "50%"}), 5, [5, 3, 5, 2]),
        (json!({"maxUnavailable": 1}), 4, [4, 3, 4, 1]),
        (json!({"maxUnavailable": "30%"}), 5, [5, 3, 5, 2]),
        (json!({"maxUnavailable": "100%"}), 2, [2, 0, 2, 2]),
        (json!({"minAvailable": 0}), 0, [0, 0, 0, 0]),
    ];
    for (limit, replicas, expected) in rows {
        let mut rig = Rig::new(&[rules::REPLICA_SETS, rules::BUDGETS], 7, Faults::NONE);
        let mut spec = limit.clone();
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
        rig.create(
            &resource::BUDGETS,
            json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}),
        );
        rig.create(&resource::REPLICA_SETS, replica_set("web", *replicas));
        rig.settle(60);
        let status = &rig.object(&resource::BUDGETS, "web")["status"];
        let numbers = ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"]
            .map(|name| status[name].as_u64().unwrap());
        assert_eq!(numbers, *expected, "{limit}");
        let reason = if expected[3] > 0 { "SufficientPods" } else { "InsufficientPods" };
        assert_eq!(status["conditions"][0]["reason"], reason, "{limit}");
    }
}

#[test]
fn a_budget_asks_owners_of_other_kinds_how_many_pods_they_want() {
    static SCALED: Resource =
        Resource { group: "example.com", version: "v1", plural: "scaled", kind: "Scaled", namespaced: true };
    static FIXED: Resource =
        Resource { group: "example.com", version: "v1", plural: "fixed", kind: "Fixed", namespaced: true };
    for (kind, fixed) in [(&SCALED, false), (&FIXED, true)] {
        let mut rig = Rig::new(&[rules::BUDGETS], 9, Faults::NONE);
        rig.api.with_scale.push(&SCALED);
        let tell = |rig: &mut Rig| {
            let owner = rig.object(kind, "owner").clone();
            rig.core.put(rig.now, Object::parse(kind, &owner).unwrap());
        };
        rig.core.learn(kind);
        let owner = rig.create(
            kind,
            json!({"metadata": {"name": "owner", "namespace": "default"}, "spec": {"replicas": 4}}),
        );
        let reference = json!({"apiVersion": "example.com/v1", "kind": kind.kind, "name": "owner", "uid": owner["metadata"]["uid"], "controller": true});
        for number in 0..4 {
            let metadata = json!({"name": format!("p{number}"), "namespace": "default", "labels": {"app": "web"}, "ownerReferences": [reference]});
            rig.create(&resource::PODS, json!({"metadata": metadata, "spec": {}}));
        }
        let spec = json!({"maxUnavailable": 2, "selector": {"matchLabels": {"app": "web"}}});
        rig.create(
            &resource::BUDGETS,
            json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}),
        );
        rig.settle(60);
        let unknown = rig.object(&resource::BUDGETS, "web")["status"]["conditions"][0].clone();
        assert_eq!(unknown["message"], "found no controllers for pod \"p0\"", "nobody has heard of it");
        tell(&mut rig);
        rig.settle(60);
        let status = rig.object(&resource::BUDGETS, "web")["status"].clone();
        if fixed {
            assert_eq!(status["conditions"][0]["reason"], "SyncFailed");
            let why = "fixed.example.com does not implement the scale subresource";
            assert_eq!(
                (&status["conditions"][0]["message"], &status["disruptionsAllowed"]),
                (&json!(why), &json!(0))
            );
            continue;
        }
        let numbers = |status: &Value| {
            ["expectedPods", "desiredHealthy", "disruptionsAllowed"]
                .map(|name| status[name].as_u64().unwrap())
        };
        assert_eq!(numbers(&status), [4, 2, 2]);
        let writes = rig.writes;
        rig.pass(60);
        assert_eq!(rig.writes, writes, "it is asked once");
        rig.api.change(kind, "default", "owner", |owner| owner["spec"]["replicas"] = json!(5));
        tell(&mut rig);
        rig.settle(60);
        assert_eq!(
            numbers(&rig.object(&resource::BUDGETS, "web")["status"]),
            [5, 3, 1],
            "and again when it changes"
        );
    }
}

#[test]
fn a_permitted_eviction_counts_until_it_is_overdue() {
    let mut rig = Rig::new(&[rules::REPLICA_SETS, rules::BUDGETS], 8, Faults::NONE);
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    rig.create(
        &resource::BUDGETS,
        json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}),
    );
    rig.create(&resource::REPLICA_SETS, replica_set("web", 3));
    rig.settle(60);
    let name = rig.live_pods()[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let at = stamp(rig.now);
    rig.api.change(&resource::BUDGETS, "default", "web", |budget| {
        budget["status"]["disruptedPods"] = json!({name: at})
    });
    rig.pass(10);
    assert_eq!(rig.object(&resource::BUDGETS, "web")["status"]["disruptionsAllowed"], 1);
    rig.pass(130);
    let status = &rig.object(&resource::BUDGETS, "web")["status"];
    assert_eq!((&status["disruptionsAllowed"], &status["disruptedPods"]), (&json!(2), &Value::Null));
}

const NODE_RULES: &[Rules] = &[rules::NODES, rules::NODE_TAINTS, rules::POD_GC];

fn node(rig: &mut Rig, name: &str) {
    let now = stamp(rig.now);
    let ready =
        json!({"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now});
    rig.create(
        &resource::NODES,
        json!({"metadata": {"name": name}, "spec": {}, "status": {"conditions": [ready]}}),
    );
    rig.create(
        &resource::LEASES,
        json!({"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": {"renewTime": format!("{}", stamp(rig.now).replace('Z', ".000000Z"))}}),
    );
}

fn renew(rig: &mut Rig, name: &str, secs: i64) {
    let end = rig.now.plus_secs(secs);
    while rig.now < end {
        let at = stamp(rig.now).replace('Z', ".000000Z");
        rig.api.change(&resource::LEASES, "kube-node-lease", name, |lease| {
            lease["spec"]["renewTime"] = json!(at)
        });
        rig.pass(10);
    }
}

fn taints(rig: &Rig, name: &str) -> Vec<String> {
    let node = rig.api.get(&resource::NODES, "", name).unwrap();
    let list = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    list.iter()
        .map(|taint| {
            format!(
                "{}:{}",
                taint["key"].as_str().unwrap().trim_start_matches("node.kubernetes.io/"),
                taint["effect"].as_str().unwrap()
            )
        })
        .collect()
}

fn bound_pod(rig: &mut Rig, name: &str, node: &str, tolerations: &Value) {
    let mut object = pod(name, &json!({}));
    object["spec"]["nodeName"] = json!(node);
    object["spec"]["tolerations"] = tolerations.clone();
    object["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    rig.create(&resource::PODS, object);
}

#[test]
fn a_silent_node_is_doubted_tainted_and_left_and_comes_back() {
    let mut rig = Rig::new(NODE_RULES, 9, Faults::NONE);
    rig.pods = Pods::Wait;
    node(&mut rig, "quiet");
    node(&mut rig, "lively");
    bound_pod(&mut rig, "impatient", "quiet", &json!([]));
    let patience = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]);
    bound_pod(&mut rig, "patient", "quiet", &patience);
    bound_pod(&mut rig, "elsewhere", "lively", &json!([]));
    renew(&mut rig, "lively", 40);
    assert_eq!(taints(&rig, "quiet"), Vec::<String>::new(), "not before 50 seconds");
    renew(&mut rig, "lively", 20);
    assert_eq!(taints(&rig, "quiet"), ["unreachable:NoSchedule", "unreachable:NoExecute"]);
    let quiet = rig.api.get(&resource::NODES, "", "quiet").unwrap();
    assert_eq!(quiet["status"]["conditions"][0]["status"], "Unknown");
    assert!(rig.object(&resource::PODS, "impatient").is_null(), "it had no patience");
    let ready = &rig.object(&resource::PODS, "patient")["status"]["conditions"][0];
    assert_eq!((&ready["type"], &ready["status"]), (&json!("Ready"), &json!("False")));
    renew(&mut rig, "lively", 70);
    assert!(rig.object(&resource::PODS, "patient").is_null(), "its patience has ended");
    assert!(!rig.object(&resource::PODS, "elsewhere").is_null());
    assert_eq!(taints(&rig, "lively"), Vec::<String>::new());
    let now = stamp(rig.now);
    rig.api.change(&resource::NODES, "", "quiet", |node| {
        node["status"]["conditions"][0]["status"] = json!("True");
        node["status"]["conditions"][0]["lastHeartbeatTime"] = json!(now);
    });
    renew(&mut rig, "lively", 10);
    assert_eq!(taints(&rig, "quiet"), Vec::<String>::new());
}

#[test]
fn when_no_node_is_ready_nobody_is_driven_out() {
    let mut rig = Rig::new(NODE_RULES, 10, Faults::NONE);
    rig.pods = Pods::Wait;
    node(&mut rig, "only");
    bound_pod(&mut rig, "stays", "only", &json!([]));
    rig.pass(90);
    assert_eq!(taints(&rig, "only"), ["unreachable:NoSchedule"]);
    assert!(!rig.object(&resource::PODS, "stays").is_null());
}

#[test]
fn conditions_and_cordons_become_taints_and_foreign_taints_stay() {
    let mut rig = Rig::new(NODE_RULES, 11, Faults::NONE);
    node(&mut rig, "one");
    rig.api.change(&resource::NODES, "", "one", |node| {
        node["spec"] = json!({"unschedulable": true, "taints": [{"key": "mine", "effect": "NoSchedule"}]});
        node["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .push(json!({"type": "DiskPressure", "status": "True"}));
    });
    renew(&mut rig, "one", 10);
    assert_eq!(
        taints(&rig, "one"),
        ["mine:NoSchedule", "disk-pressure:NoSchedule", "unschedulable:NoSchedule"]
    );
    rig.api.change(&resource::NODES, "", "one", |node| {
        node["spec"]["unschedulable"] = json!(false);
        node["status"]["conditions"][1]["status"] = json!("False");
    });
    renew(&mut rig, "one", 10);
    assert_eq!(taints(&rig, "one"), ["mine:NoSchedule"]);
}

#[test]
fn pods_of_a_node_that_has_gone_go_after_a_while() {
    let mut rig = Rig::new(&[rules::POD_GC], 12, Faults::NONE);
    rig.pods = Pods::Wait;
    node(&mut rig, "gone");
    node(&mut rig, "back");
    bound_pod(&mut rig, "orphan", "gone", &json!([]));
    bound_pod(&mut rig, "lucky", "back", &json!([]));
    rig.pass(5);
    rig.delete(&resource::NODES, "gone", Propagation::Background);
    rig.delete(&resource::NODES, "back", Propagation::Background);
    rig.pass(30);
    assert!(!rig.object(&resource::PODS, "orphan").is_null(), "not before 40 seconds");
    rig.create(&resource::NODES, json!({"metadata": {"name": "back"}}));
    rig.pass(30);
    assert!(rig.object(&resource::PODS, "orphan").is_null());
    assert!(!rig.object(&resource::PODS, "lucky").is_null(), "its node registered anew");
}

#[test]
fn a_mark_that_nothing_follows_is_taken_back() {
    let mut rig = Rig::new(&[rules::STALE_DISRUPTIONS], 14, Faults::NONE);
    rig.pods = Pods::Wait;
    let begin = stamp(rig.now);
    for (name, phase, reason) in
        [("stale", "Running", "x"), ("kubelet", "Running", "TerminationByKubelet"), ("failed", "Failed", "x")]
    {
        let mut made = pod(name, &json!({}));
        let mark = json!({"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": begin});
        made["status"] = json!({"phase": phase, "conditions": [mark]});
        rig.create(&resource::PODS, made);
    }
    let marks = |rig: &Rig| {
        ["stale", "kubelet", "failed"]
            .map(|name| rig.object(&resource::PODS, name)["status"]["conditions"][0]["status"].clone())
    };
    rig.pass(115);
    assert_eq!(marks(&rig), ["True", "True", "True"]);
    rig.pass(10);
    assert_eq!(marks(&rig), ["False", "True", "True"]);
}

#[test]
fn a_pod_that_leaves_without_a_node_goes_after_a_while() {
    let mut rig = Rig::new(&[rules::POD_GC], 13, Faults::NONE);
    rig.pods = Pods::Wait;
    let hold = json!({"finalizers": ["example.com/hold"]});
    rig.create(&resource::PODS, pod("held", &hold));
    rig.delete(&resource::PODS, "held", Propagation::Background);
    rig.pass(15);
    let phase = |rig: &Rig| rig.object(&resource::PODS, "held")["status"]["phase"].clone();
    assert_eq!(phase(&rig), "Pending", "the holder of a finalizer sees it leave first");
    rig.pass(10);
    assert_eq!(phase(&rig), "Failed");
    let before = rig.writes;
    rig.pass(600);
    assert_eq!(rig.writes, before, "deleting it again would change nothing");
    rig.api.change(&resource::PODS, "default", "held", |pod| pod["metadata"]["finalizers"] = json!([]));
    rig.pass(5);
    assert!(rig.object(&resource::PODS, "held").is_null());
}

#[test]
fn pods_that_leave_a_node_out_of_service_go_at_once() {
    let mut rig = Rig::new(&[rules::POD_GC], 15, Faults::NONE);
    rig.pods = Pods::Wait;
    let taint =
        json!({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"});
    for (name, ready, taints) in [
        ("dead", "Unknown", json!([taint])),
        ("silent", "Unknown", json!([])),
        ("well", "True", json!([taint])),
    ] {
        node(&mut rig, name);
        rig.api.change(&resource::NODES, "", name, |node| {
            node["status"]["conditions"][0]["status"] = json!(ready);
            node["spec"]["taints"] = taints.clone();
        });
        for (kind, leaves) in [("leaves", true), ("stays", false)] {
            let mut made = pod(&format!("{kind}-{name}"), &json!({"finalizers": ["example.com/hold"]}));
            made["spec"]["nodeName"] = json!(name);
            rig.create(&resource::PODS, made);
            if leaves {
                rig.delete(&resource::PODS, &format!("{kind}-{name}"), Propagation::Background);
            }
        }
    }
    rig.pass(5);
    let failed: Vec<&str> = rig
        .api
        .all(&resource::PODS)
        .filter(|pod| pod["status"]["phase"] == "Failed")
        .filter_map(|pod| pod["metadata"]["name"].as_str())
        .collect();
    assert_eq!(failed, ["leaves-dead"]);
    let before = rig.writes;
    rig.pass(600);
    assert_eq!(rig.writes, before);
}
