//! Missing permissions, and invalid specs.

use lazaret_controllers::{Options, Parts, Plane as Controllers, Rivals};
use lazaret_runtime::{Client, Metrics};
use lazaret_testkit::{Cluster, Plane, User};
use serde_json::json;

use super::{PODS, POLICIES, condition, conditions, policy};
use crate::{
    rivals,
    stage::{Stage, pod},
};

#[test]
fn who_may_not_read_nodes_says_so_and_works_for_devices() {
    let parts = |controllers: bool| Parts { scheduler: !controllers, controllers, workloads: controllers };
    let plane = Plane::simulated(2, 2).options(Options { parts: parts(false), ..Options::default() });
    let stage = Stage::of(Cluster::options().plane(plane), 2);
    stage.take_taints_of_nodes();
    let all = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let groups = [
        "apps",
        "batch",
        "policy",
        "resource.k8s.io",
        "lazaret.dev",
        "coordination.k8s.io",
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
                {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create"]},
                {"apiGroups": ["lazaret.dev"], "resources": ["marks"], "verbs": ["write"]},
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
    // With a lease, as on a cluster of others: who cannot read something leads all the same.
    let options = Options {
        parts: Parts { workloads: false, ..parts(true) },
        rivals: Some(Rivals { identity: "half".into(), lease: rivals::LONG }),
        ..Options::default()
    };
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
    // It works for the taints that it can see.
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
        (json!({"maxFaultDomainsTainted": -1}), "maxFaultDomainsTainted"),
        (json!({"failureDetectionTimeSeconds": -5}), "failureDetectionTimeSeconds"),
        (json!({"maxConcurrentReplacements": -1}), "maxConcurrentReplacements"),
        (
            json!({"deviceTaintReplacementOptions": [{"key": "a", "durationInSeconds": -1}]}),
            "durationInSeconds",
        ),
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
    let mut nobody = policy("values", &json!({}));
    nobody["spec"]["podSelector"] = json!({"matchExpressions": [{"key": "app", "operator": "In"}]});
    let error = stage.try_request("POST", POLICIES, "application/json", &nobody).unwrap_err();
    assert!(
        error.contains("spec.podSelector.matchExpressions[0]") && error.contains("need values"),
        "{error}"
    );
    stage.policy("nobody", &json!({"taintReplacementOptions": [{"key": "*", "durationInSeconds": 1}]}));
    let status =
        stage.see("nobody", "it is judged", |status| condition(status, "Progressing")["status"] == "False");
    assert_eq!(condition(&status, "Progressing")["reason"], "NothingSelected");
}
