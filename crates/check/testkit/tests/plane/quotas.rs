//! Quotas as a cluster keeps them.

use serde_json::{Value, json};

use crate::stage::Stage;

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn quota(stage: &Stage, hard: &Value) {
    let body = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}});
    stage.create(QUOTAS, &body);
}

fn uses(stage: &Stage, wanted: &Value) {
    stage.until("the quota says what is used", || {
        let status = stage.get(&format!("{QUOTAS}/q"))["status"].clone();
        if status["used"] == *wanted { Ok(()) } else { Err(status.to_string()) }
    });
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]}})
}

#[test]
fn a_quota_counts_what_was_there_before_it_and_follows_what_comes_and_goes() {
    let stage = Stage::with(1, 1);
    stage.until("the certificate is published", || {
        stage.try_request("GET", &format!("{MAPS}/kube-root-ca.crt"), "application/json", &Value::Null)
    });
    stage.create(MAPS, &map("before"));
    stage.create(PODS, &pod("a"));
    quota(&stage, &json!({"configmaps": "3", "pods": "2", "requests.cpu": "1"}));
    uses(&stage, &json!({"configmaps": "2", "pods": "1", "requests.cpu": "100m"}));
    stage.create(MAPS, &map("third"));
    let refused = stage.try_request("POST", MAPS, "application/json", &map("fourth")).unwrap_err();
    assert!(
        refused.contains(
            "exceeded quota: q, requested: configmaps=1, used: configmaps=3, limited: configmaps=3"
        ),
        "{refused}"
    );
    stage.delete(&format!("{MAPS}/before"));
    stage.create(MAPS, &map("fourth"));
    stage.create(PODS, &pod("b"));
    uses(&stage, &json!({"configmaps": "3", "pods": "2", "requests.cpu": "200m"}));
    stage.delete(&format!("{PODS}/a"));
    uses(&stage, &json!({"configmaps": "3", "pods": "1", "requests.cpu": "100m"}));
    // Another limit, and a kind that was not counted before.
    stage.create(
        "/api/v1/namespaces/default/secrets",
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}),
    );
    stage.merge(&format!("{QUOTAS}/q"), &json!({"spec": {"hard": {"secrets": "5", "configmaps": null}}}));
    uses(&stage, &json!({"pods": "1", "requests.cpu": "100m", "secrets": "1"}));
    // A false count that a user writes there is corrected.
    stage.merge(&format!("{QUOTAS}/q/status"), &json!({"status": {"used": {"pods": "0", "secrets": "4"}}}));
    uses(&stage, &json!({"pods": "1", "requests.cpu": "100m", "secrets": "1"}));
}

#[test]
fn a_deployment_that_is_larger_than_the_quota_says_so_and_goes_on_when_there_is_room() {
    let stage = Stage::with(1, 1);
    quota(&stage, &json!({"pods": "2"}));
    uses(&stage, &json!({"pods": "0"}));
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    stage.create(
        "/apis/apps/v1/namespaces/default/replicasets",
        &json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template}}),
    );
    uses(&stage, &json!({"pods": "2"}));
    stage.until("the set says why", || {
        let set = stage.get("/apis/apps/v1/namespaces/default/replicasets/r");
        let text = set["status"]["conditions"].to_string();
        if text.contains("exceeded quota: q") { Ok(()) } else { Err(text) }
    });
    assert_eq!(stage.list(PODS).len(), 2);
    stage.merge(&format!("{QUOTAS}/q"), &json!({"spec": {"hard": {"pods": "3"}}}));
    uses(&stage, &json!({"pods": "3"}));
}

#[test]
fn objects_of_kinds_that_definitions_brought_are_counted() {
    let stage = Stage::with(1, 1);
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]);
    stage.create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        &json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "notes.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "notes", "kind": "Note"}, "versions": versions}}),
    );
    let notes = "/apis/example.com/v1/namespaces/default/notes";
    let note =
        |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": name}});
    stage.until("the kind is served", || stage.try_request("POST", notes, "application/json", &note("a")));
    quota(&stage, &json!({"count/notes.example.com": "1"}));
    uses(&stage, &json!({"count/notes.example.com": "1"}));
    let refused = stage.try_request("POST", notes, "application/json", &note("b")).unwrap_err();
    assert!(refused.contains("exceeded quota: q, requested: count/notes.example.com=1"), "{refused}");
}
