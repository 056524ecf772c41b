//! Pods on tainted nodes and devices are replaced: the design document's policy with seconds for its hours, and what can come
//! in between.

use lazaret_controllers::{Options, Parts, Plane as Controllers};
use lazaret_runtime::{Client, Metrics};
use lazaret_testkit::{Cluster, Plane, User};
use serde_json::{Value, json};

use crate::stage::{Stage, pod};

const POLICIES: &str = "/apis/lazaret.dev/v1alpha1/namespaces/default/taintreplacementpolicies";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// The words of these plays.
impl Stage {
    fn policy(&self, name: &str, options: &Value) {
        self.create(POLICIES, &policy(name, options));
    }

    fn policy_now(&self, name: &str) -> Value {
        self.get(&format!("{POLICIES}/{name}"))
    }

    fn taint_node(&self, node: &str, keys: &[&str]) {
        let taints: Vec<Value> = keys.iter().map(|key| json!({"key": key, "effect": "NoSchedule"})).collect();
        self.merge(&format!("/api/v1/nodes/{node}"), &json!({"spec": {"taints": taints}}));
    }

    /// A deployment whose pods all serve.
    fn deployment(&self, name: &str, replicas: usize, template: Option<&str>) {
        let mut spec = pod(
            name,
            &template.map_or(Value::Null, |name| json!({"resourceClaimTemplateName": name})),
        )["spec"]
            .take();
        if template.is_none() {
            spec["resourceClaims"] = Value::Null;
            spec["containers"][0]["resources"] = Value::Null;
        }
        self.create(
            "/apis/apps/v1/namespaces/default/deployments",
            &json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec},
                },
            }),
        );
        self.until("all pods serve", || {
            let serving = self.serving().len();
            if serving == replicas { Ok(()) } else { Err(serving.to_string()) }
        });
    }

    /// Name, node and UID of each pod that is Ready and stays.
    fn serving(&self) -> Vec<(String, String, String)> {
        let ready = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
                && pod["metadata"]["deletionTimestamp"].is_null()
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let fields = |pod: &Value| {
            let metadata = &pod["metadata"];
            (text(&metadata["name"]), text(&pod["spec"]["nodeName"]), text(&metadata["uid"]))
        };
        self.list(PODS).iter().filter(|pod| ready(pod)).map(fields).collect()
    }

    fn on(&self, node: &str) -> Vec<String> {
        self.serving().into_iter().filter(|(_, at, _)| at == node).map(|(name, ..)| name).collect()
    }

    /// Waits until a policy is as wanted.
    fn see(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until(what, || {
            let policy = self.policy_now(name);
            if wanted(&policy["status"]) {
                Ok(policy["status"].clone())
            } else {
                Err(policy["status"].to_string())
            }
        })
    }
}

fn policy(name: &str, options: &Value) -> Value {
    json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "TaintReplacementPolicy", "metadata": {"name": name},
        "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "automaticReplacementOptions": options},
    })
}

/// The document's options, a second for each twenty minutes.
fn document() -> Value {
    json!({
        "enabled": true,
        "failureDetectionTimeSeconds": 7200,
        "maxConcurrentReplacements": 1,
        "enableNodeFailureDetection": true,
        "taintReplacementOptions": [
            {"key": "example.org/maintenance", "durationInSeconds": 7200},
            {"key": "example.org/disconnected", "durationInSeconds": 3},
            {"key": "*", "durationInSeconds": 2},
        ],
        "taintReplacementTimeSeconds": 2,
    })
}

fn conditions(status: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = status["pods"].as_array().cloned().unwrap_or_default();
    pods.iter().map(|pod| (text(&pod["node"]), text(&pod["taintKey"]), text(&pod["condition"]))).collect()
}

fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    static NONE: Value = Value::Null;
    let all = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().find(|one| one["type"] == kind).unwrap_or(&NONE)
}

fn seconds(status: &Value, from: &str, to: &str) -> f64 {
    let at = |text: &Value| {
        let text = text.as_str().unwrap();
        let clock: Vec<f64> =
            text[11..].trim_end_matches('Z').split(':').map(|part| part.parse().unwrap()).collect();
        clock[0] * 3_600.0 + clock[1] * 60.0 + clock[2]
    };
    (at(&status[to]) - at(&status[from])).rem_euclid(86_400.0)
}

#[test]
fn the_documents_policy_marks_waits_and_replaces_with_the_new_pod_first() {
    let stage = Stage::with(3, 1);
    stage.deployment("web", 3, None);
    stage.policy("p", &document());
    stage.see("p", "three pods are looked after", |status| status["totals"]["selected"] == 3);
    let (old, node, uid) = stage.serving().remove(0);
    let others = stage.on(&node).len() - 1;
    stage.taint_node(&node, &["example.org/disconnected"]);
    stage.see("p", "the taint is seen", |status| {
        conditions(status).iter().any(|(_, _, condition)| condition == "NodeTaintDetected")
    });
    let marked = stage.see("p", "a pod is marked", |status| {
        conditions(status).iter().any(|(_, _, condition)| condition == "NodeTaintReplacing")
    });
    assert_eq!(condition(&marked, "Degraded")["status"], "False", "{marked}");
    let under_way = stage.see("p", "a replacement is recorded", |status| status["totals"]["inFlight"] == 1);
    let record = &under_way["replacements"][0];
    assert!(seconds(record, "since", "started") >= 5.0, "{record}");
    assert_eq!(
        (record["plan"].as_str(), record["label"].as_str()),
        (Some("Release"), Some("pod-template-hash"))
    );
    stage.until("the node is empty", || {
        // The old one serves until the new one does.
        let serving = stage.serving();
        assert!(serving.len() >= 3 || stage.list(PODS).len() >= 3, "{serving:?}");
        if stage.on(&node).is_empty() { Ok(()) } else { Err(format!("{serving:?}")) }
    });
    let done = stage.see("p", "all is done", |status| {
        status["totals"]["replaced"] == others + 1 && status["totals"]["inFlight"] == 0
    });
    assert!(conditions(&done).is_empty(), "{done}");
    assert!(stage.serving().iter().all(|(_, _, other)| *other != uid));
    stage.until("three serve", || if stage.serving().len() == 3 { Ok(()) } else { Err(String::new()) });
    for reason in ["NodeTaintDetected", "NodeTaintReplacing", "TaintReplacementStarted", "TaintReplaced"] {
        stage.until("it was told", || {
            let told = stage.events(&old, reason);
            if told.len() == 1 { Ok(()) } else { Err(format!("{reason}: {told:?}")) }
        });
    }
}

#[test]
fn two_taints_have_their_own_timers_the_wildcard_takes_the_rest_and_what_goes_is_forgotten() {
    let stage = Stage::with(2, 1);
    stage.deployment("web", 1, None);
    let mut options = document();
    options["taintReplacementTimeSeconds"] = 3600.into();
    stage.policy("p", &options);
    let (_, node, uid) = stage.serving().remove(0);
    stage.taint_node(&node, &["example.org/maintenance"]);
    let first = stage.see("p", "the long one is seen", |status| conditions(status).len() == 1);
    // Times have whole seconds.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    stage.taint_node(&node, &["example.org/maintenance", "example.org/other"]);
    let both = stage.see("p", "the other one is marked by the wildcard", |status| {
        conditions(status)
            .iter()
            .any(|(_, key, condition)| key == "example.org/other" && condition == "NodeTaintReplacing")
    });
    assert_eq!(conditions(&both)[1].2, "NodeTaintDetected", "the long one is not due: {both}");
    assert_eq!(both["pods"][1]["since"], first["pods"][0]["since"], "the long one keeps its age");
    assert_ne!(both["pods"][0]["since"], first["pods"][0]["since"], "the short one has its own");
    stage.taint_node(&node, &[]);
    stage.see("p", "all is forgotten", |status| {
        conditions(status).is_empty() && status["totals"]["due"] == 0 && status["totals"]["detected"] == 0
    });
    stage.settle();
    assert_eq!(stage.serving()[0].2, uid, "nobody was replaced");
}

#[test]
fn never_more_at_once_than_the_limit_even_over_a_restart() {
    let mut stage = Stage::of(Cluster::options().durable().plane(Plane::simulated(8, 1)), 8);
    // One device a node, so one pod a node.
    stage.template("one", &json!([]));
    stage.deployment("web", 5, Some("one"));
    let old: Vec<(String, String, String)> = stage.serving();
    stage.policy("p", &json!({
        "taintReplacementOptions": [{"key": "*", "durationInSeconds": 0}], "taintReplacementTimeSeconds": 0,
    }));
    let nodes: std::collections::BTreeSet<&String> = old.iter().map(|(_, node, _)| node).take(3).collect();
    for node in &nodes {
        stage.taint_node(node, &["example.org/maintenance"]);
    }
    let released = |stage: &Stage| {
        let pods = stage.list(PODS);
        pods.iter()
            .filter(|pod| pod["metadata"]["labels"]["lazaret.dev/replacement"] == "released")
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .count()
    };
    let done = |stage: &Stage| stage.policy_now("p")["status"]["totals"]["replaced"].as_u64().unwrap_or(0);
    stage.until("the first is replaced", || {
        assert!(released(&stage) <= 1);
        if done(&stage) >= 1 { Ok(()) } else { Err(String::new()) }
    });
    stage.cluster.restart().unwrap();
    stage.until("the nodes are empty", || {
        assert!(released(&stage) <= 1);
        let left: usize = nodes.iter().map(|node| stage.on(node).len()).sum();
        if left == 0 && released(&stage) == 0 { Ok(()) } else { Err(format!("{left} left")) }
    });
    let gone = old.iter().filter(|(_, node, _)| nodes.contains(node)).count();
    stage.see("p", "all are counted, each once", |status| status["totals"]["replaced"] == gone);
    stage.until("all serve", || if stage.serving().len() == 5 { Ok(()) } else { Err(String::new()) });
}

#[test]
fn the_breaker_holds_while_too_many_fault_domains_are_tainted() {
    let stage = Stage::with(6, 1);
    // One device a node, so one pod a node.
    stage.template("one", &json!([]));
    stage.deployment("web", 4, Some("one"));
    stage.policy("p", &json!({
        "taintReplacementOptions": [{"key": "*", "durationInSeconds": 0}], "taintReplacementTimeSeconds": 1,
        "maxFaultDomainsTainted": "25%",
    }));
    stage.see("p", "all pods are looked after", |status| status["totals"]["selected"] == 4);
    let domains = stage.policy_now("p")["status"]["totals"]["faultDomains"].as_u64().unwrap();
    assert!(domains >= 2, "the scheduler spreads");
    let mut nodes: Vec<String> = stage.serving().into_iter().map(|(_, node, _)| node).collect();
    nodes.sort();
    nodes.dedup();
    // Both at once, before the first could be begun.
    for node in &nodes[..2] {
        stage.taint_node(node, &["example.org/power"]);
    }
    let tripped =
        stage.see("p", "the breaker trips", |status| condition(status, "BreakerTripped")["status"] == "True");
    assert_eq!(tripped["totals"]["faultDomainsTainted"], 2);
    stage.until("it is told", || {
        if stage.events("p", "BreakerTripped").is_empty() { Err(String::new()) } else { Ok(()) }
    });
    stage.see("p", "they are due", |status| status["totals"]["due"].as_u64() >= Some(2));
    stage.settle();
    assert_eq!(stage.policy_now("p")["status"]["totals"]["replaced"], 0);
    stage.taint_node(&nodes[0], &[]);
    stage.see("p", "it goes on with one", |status| {
        condition(status, "BreakerTripped")["status"] == "False"
            && status["totals"]["replaced"].as_u64() >= Some(1)
    });
    stage.until("that node is empty", || {
        if stage.on(&nodes[1]).is_empty() { Ok(()) } else { Err(String::new()) }
    });
}

#[test]
fn a_stateful_set_is_recreated_and_a_bare_pod_gets_a_copy_first() {
    let stage = Stage::with(3, 1);
    let mut bare = pod("lone", &Value::Null);
    bare["metadata"]["labels"]["app"] = "web".into();
    bare["spec"]["resourceClaims"] = Value::Null;
    bare["spec"]["containers"][0]["resources"] = Value::Null;
    stage.create(PODS, &bare);
    stage.create(
        "/apis/apps/v1/namespaces/default/statefulsets",
        &json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
            "spec": {
                "serviceName": "db", "replicas": 1, "selector": {"matchLabels": {"set": "db"}},
                "template": {"metadata": {"labels": {"set": "db", "app": "web"}}, "spec": bare["spec"]},
            },
        }),
    );
    stage.until("both serve", || if stage.serving().len() == 2 { Ok(()) } else { Err(String::new()) });
    stage.policy("p", &json!({
        "taintReplacementOptions": [{"key": "*", "durationInSeconds": 0}], "taintReplacementTimeSeconds": 0,
    }));
    let before = stage.serving();
    let nodes: std::collections::BTreeSet<&String> = before.iter().map(|(_, node, _)| node).collect();
    for node in &nodes {
        stage.taint_node(node, &["example.org/maintenance"]);
    }
    stage.see("p", "both are replaced", |status| status["totals"]["replaced"] == 2);
    let after: Vec<(String, String, String)> = stage.until("both serve again", || {
        if stage.serving().len() == 2 { Ok(stage.serving()) } else { Err(String::new()) }
    });
    assert!(after.iter().all(|(_, node, _)| !nodes.contains(node)), "{after:?}");
    assert_eq!(after[0].0, "db-0");
    assert!(after[1].0.starts_with("lone-r"), "{after:?}");
    stage.gone("lone");
    assert_eq!(stage.events("db-0", "TaintReplacementStarted").len(), 1);
}

#[test]
fn a_tainted_device_moves_the_pod_that_holds_it() {
    let stage = Stage::with(2, 2);
    stage.template("one", &json!([]));
    stage.deployment("web", 2, Some("one"));
    stage.policy("p", &json!({
        "deviceTaintReplacementOptions": [{"key": "gpu.example.com/unhealthy", "durationInSeconds": 1}, {"key": "*", "durationInSeconds": 1}],
        "taintReplacementTimeSeconds": 1,
    }));
    stage.see("p", "both are looked after", |status| status["totals"]["selected"] == 2);
    let (held, other) = (stage.serving()[0].0.clone(), stage.serving()[1].0.clone());
    let (pool, device) = stage.device_of(&held);
    stage.fail(&pool, &device, "NoSchedule");
    let seen = stage.see("p", "the device's taint is seen", |status| !conditions(status).is_empty());
    assert!(seen["pods"][0]["condition"].as_str().unwrap().starts_with("DeviceTaint"), "{seen}");
    assert!(seen["pods"][0]["device"].as_str().unwrap().ends_with(&device), "{seen}");
    assert_eq!(seen["pods"][0]["pod"], held);
    stage.see("p", "it is replaced", |status| status["totals"]["replaced"] == 1);
    stage.gone(&held);
    let new = stage.until("both serve", || {
        let serving = stage.serving();
        serving
            .iter()
            .map(|(name, ..)| name.clone())
            .find(|name| *name != other)
            .filter(|_| serving.len() == 2)
            .ok_or_else(String::new)
    });
    assert_ne!(stage.device_of(&new), (pool, device));
}

#[test]
fn who_may_not_read_nodes_says_so_and_works_for_devices() {
    let parts = |controllers: bool| Parts { scheduler: !controllers, controllers, workloads: controllers };
    let plane = Plane::simulated(2, 2).options(Options { parts: parts(false), ..Options::default() });
    let stage = Stage::of(Cluster::options().plane(plane), 2);
    let all = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let groups = [
        "apps",
        "batch",
        "policy",
        "resource.k8s.io",
        "lazaret.dev",
        "rbac.authorization.k8s.io",
        "apiextensions.k8s.io",
    ];
    stage.create(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "half"},
            "rules": [
                {"apiGroups": groups, "resources": ["*"], "verbs": all},
                {"apiGroups": [""], "resources": ["pods", "pods/status", "pods/eviction", "events"], "verbs": all},
            ],
        }),
    );
    stage.create(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "half"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "half"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "half"}],
        }),
    );
    let client = Client::new(stage.cluster.client_as(User {
        name: "half".into(),
        groups: vec!["system:authenticated".into()],
        ..User::default()
    }));
    let options = Options { parts: Parts { workloads: false, ..parts(true) }, ..Options::default() };
    let half = stage
        .cluster
        .block_on(async move { Controllers::start(client, Metrics::default(), &options).await.unwrap() });
    stage.policy(
        "p",
        &json!({
            "taintReplacementOptions": [{"key": "*", "durationInSeconds": 0}],
            "deviceTaintReplacementOptions": [{"key": "*", "durationInSeconds": 0}],
            "taintReplacementTimeSeconds": 3600,
        }),
    );
    let status =
        stage.see("p", "it says what is missing", |status| condition(status, "Degraded")["status"] == "True");
    let degraded = condition(&status, "Degraded");
    assert_eq!(degraded["reason"], "MissingPermission", "{status}");
    let message = degraded["message"].as_str().unwrap();
    assert!(message.contains("grant get, list and watch on nodes"), "{message}");
    // What it can see it works for.
    stage.template("one", &json!([]));
    let mut lone = pod("lone", &json!({"resourceClaimTemplateName": "one"}));
    lone["metadata"]["labels"]["app"] = "web".into();
    stage.create(PODS, &lone);
    stage.running("lone");
    let (pool, device) = stage.device_of("lone");
    stage.fail(&pool, &device, "NoSchedule");
    let status = stage.see("p", "the device's taint is seen", |status| !conditions(status).is_empty());
    assert_eq!(conditions(&status)[0].2, "DeviceTaintReplacing", "{status}");
    assert_eq!(condition(&status, "Degraded")["status"], "True");
    stage.merge(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/half",
        &json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}),
    );
    stage.see("p", "it sees again", |status| condition(status, "Degraded")["status"] == "False");
    stage.cluster.block_on(half.stop());
}

#[test]
fn a_bad_policy_is_refused_with_its_field_or_says_what_is_wrong() {
    let stage = Stage::with(1, 1);
    let refused = [
        (json!({"taintReplacementOptions": [{"key": "a", "durationInSeconds": -1}]}), "durationInSeconds"),
        (
            json!({"taintReplacementOptions": [{"key": "*", "durationInSeconds": 1}, {"key": "*", "durationInSeconds": 2}]}),
            "taintReplacementOptions[1]",
        ),
        (json!({"maxFaultDomainsTainted": "101%"}), "maxFaultDomainsTainted"),
        (json!({"taintReplacementTimeSeconds": -5}), "taintReplacementTimeSeconds"),
        (json!({"strategy": "Hope"}), "strategy"),
    ];
    for (options, field) in refused {
        let error =
            stage.try_request("POST", POLICIES, "application/json", &policy("bad", &options)).unwrap_err();
        assert!(error.contains(field), "{error}");
    }
    let two = json!({"taintReplacementOptions": [
        {"key": "*", "durationInSeconds": 1}, {"key": "*", "durationInSeconds": 2, "effect": "NoExecute"},
    ]});
    let error = stage.try_request("POST", POLICIES, "application/json", &policy("two", &two)).unwrap_err();
    assert!(error.contains("taintReplacementOptions") && error.contains("only one *"), "{error}");
    stage.policy("nobody", &json!({"taintReplacementOptions": [{"key": "*", "durationInSeconds": 1}]}));
    let status =
        stage.see("nobody", "it is judged", |status| condition(status, "Progressing")["status"] == "False");
    assert_eq!(condition(&status, "Progressing")["reason"], "NothingSelected");
}
