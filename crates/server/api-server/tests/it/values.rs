//! Values are kept in the one form that Kubernetes gives them, in whatever notation they come, and compared as values.

use crate::support::Api;
use lazaret_json::{Value, json};

const RULES: &str = "/apis/resource.k8s.io/v1/devicetaintrules";
const OLDER_RULES: &str = "/apis/resource.k8s.io/v1alpha3/devicetaintrules";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const YAML: &str = "application/yaml";

/// The object as a client writes it that reads times into its own type and writes them with an offset.
fn as_python_writes(value: &Value) -> Value {
    match value {
        Value::String(text) if text.ends_with('Z') && text.contains('T') => {
            format!("{}+00:00", text.as_str().trim_end_matches('Z')).into()
        }
        Value::Object(map) => {
            let mut copy = json!({});
            for (name, value) in map {
                copy[name.as_str()] = as_python_writes(value);
            }
            copy
        }
        Value::Array(items) => items.iter().map(as_python_writes).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => {
            value.clone()
        }
    }
}

fn rule(effect: &str, time: &str) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "example.com/k", "effect": effect, "timeAdded": time}}})
}

#[tokio::test]
async fn a_rule_that_is_read_and_replaced_with_another_effect_gets_a_new_time() {
    let api = Api::start().await;
    for (write, first) in [("PUT", "NoSchedule"), ("PUT", "None")] {
        api.send("DELETE", &format!("{RULES}/r"), "", "").await;
        api.post(RULES, &rule(first, "2020-01-01T00:00:00Z")).await.expect(201);
        let mut read = as_python_writes(&api.get(&format!("{RULES}/r")).await.expect(200));
        assert_eq!(read["spec"]["taint"]["timeAdded"], "2020-01-01T00:00:00+00:00");
        read["spec"]["taint"]["effect"] = "NoExecute".into();
        let stored =
            api.send(write, &format!("{RULES}/r"), "application/json", &read.to_string()).await.expect(200);
        let time = stored["spec"]["taint"]["timeAdded"].as_str().unwrap();
        assert!(time > "2026" && time.ends_with('Z') && time.len() == 20, "{time}");
    }
    // Somebody who gives another time means it.
    let mut read = api.get(&format!("{RULES}/r")).await.expect(200);
    read["spec"]["taint"]["effect"] = "NoSchedule".into();
    read["spec"]["taint"]["timeAdded"] = "2021-01-01T01:00:00.5+01:00".into();
    let stored =
        api.send("PUT", &format!("{RULES}/r"), "application/json", &read.to_string()).await.expect(200);
    assert_eq!(stored["spec"]["taint"]["timeAdded"], "2021-01-01T00:00:00Z");
}

#[tokio::test]
async fn an_object_that_is_read_and_replaced_is_not_changed() {
    let api = Api::start().await;
    api.post(RULES, &rule("NoExecute", "2020-01-01T00:00:00.25+00:00")).await.expect(201);
    let lease = json!({"metadata": {"name": "l"}, "spec": {"renewTime": "2020-01-01T00:00:00.5Z", "acquireTime": "9999-12-31T23:59:59.999999Z"}});
    let lease = api.post(LEASES, &lease).await.expect(201);
    assert_eq!(lease["spec"]["renewTime"], "2020-01-01T00:00:00.500000Z");
    assert_eq!(lease["spec"]["acquireTime"], "9999-12-31T23:59:59.999999Z");
    let deployment = json!({"metadata": {"name": "d", "labels": {}}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
            {"name": "c", "image": "i", "args": [], "resources": {"limits": {"cpu": "1000m"}}, "ports": [{"containerPort": 80, "hostPort": 0, "name": ""}]}]}}}});
    let stored = api.post(DEPLOYMENTS, &deployment).await.expect(201);
    let container = &stored["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["resources"], json!({"limits": {"cpu": "1"}}));
    assert_eq!(container["ports"], json!([{"containerPort": 80, "protocol": "TCP"}]));
    assert!(container.get("args").is_none() && stored["metadata"].get("labels").is_none(), "{stored}");
    for path in
        [format!("{RULES}/r"), format!("{OLDER_RULES}/r"), format!("{LEASES}/l"), format!("{DEPLOYMENTS}/d")]
    {
        let before = api.get(&path).await.expect(200);
        let mut sent = as_python_writes(&before);
        if path.starts_with(DEPLOYMENTS) {
            // As Go writes what is no pointer.
            sent["spec"]["strategy"]["rollingUpdate"]["maxSurge"] = "25%".into();
            sent["status"] = json!({});
            sent["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
        }
        let after = api.send("PUT", &path, "application/json", &sent.to_string()).await.expect(200);
        assert_eq!(after, before, "{path}");
    }
}

#[tokio::test]
async fn labels_are_no_new_generation() {
    let api = Api::start().await;
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu",
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}]}}]}}});
    api.post(CLAIMS, &claim).await.expect(201);
    api.post(RULES, &rule("NoExecute", "2020-01-01T00:00:00Z")).await.expect(201);
    for path in [format!("{RULES}/r")] {
        let before = api.get(&path).await.expect(200);
        let mut sent = as_python_writes(&before);
        sent["metadata"]["labels"] = json!({"a": "b"});
        let after = api.send("PUT", &path, "application/json", &sent.to_string()).await.expect(200);
        assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
        assert_ne!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
        let record = after["metadata"]["managedFields"].to_string();
        assert!(record.contains("f:labels"), "{record}");
    }
}

/// Labels say whose an EndpointSlice is: there they count as contents.
#[tokio::test]
async fn other_labels_of_an_endpoint_slice_are_a_new_generation() {
    let api = Api::start().await;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice = json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": []});
    api.post(slices, &slice).await.expect(201);
    let path = format!("{slices}/s");
    let read = api.get(&path).await.expect(200);
    let put = async |change: &str, value: Value| {
        let mut sent = read.clone();
        sent["metadata"]["resourceVersion"] = Value::Null;
        sent["metadata"][change] = value;
        api.send("PUT", &path, "application/json", &sent.to_string()).await.expect(200)["metadata"]["generation"].clone()
    };
    assert_eq!(put("annotations", json!({"a": "b"})).await, 1);
    assert_eq!(put("labels", json!({})).await, 1);
    assert_eq!(put("labels", json!({"a": "b"})).await, 2);
    assert_eq!(put("labels", json!({"a": "b"})).await, 2);
}

#[tokio::test]
async fn the_status_of_a_claim_that_has_a_time_of_allocation_is_replaced() {
    let api = Api::start().await;
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}});
    api.post(CLAIMS, &claim).await.expect(201);
    let path = format!("{CLAIMS}/c");
    let mut read = api.get(&path).await.expect(200);
    let results = json!([{"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d"}]);
    read["status"] = json!({"allocation": {"allocationTimestamp": "2026-01-01T00:00:00.75Z", "devices": {"results": results}}});
    let put = |value: Value| {
        let path = format!("{path}/status");
        let api = &api;
        async move { api.send("PUT", &path, "application/json", &value.to_string()).await }
    };
    let allocated = put(read).await.expect(200);
    assert_eq!(allocated["status"]["allocation"]["allocationTimestamp"], "2026-01-01T00:00:00Z");
    let mut sent = as_python_writes(&allocated);
    sent["status"]["reservedFor"] = json!([{"resource": "pods", "name": "p", "uid": "u"}]);
    sent["status"]["devices"] = json!([{"driver": "gpu.example.com", "pool": "p", "device": "d", "conditions": [
        {"type": "Ready", "status": "True", "reason": "Ok", "lastTransitionTime": "2026-01-01T02:00:00+02:00"}]}]);
    let stored = put(sent).await.expect(200);
    assert_eq!(stored["status"]["reservedFor"][0]["name"], "p");
    let condition = &stored["status"]["devices"][0]["conditions"][0];
    assert_eq!(condition["message"], "");
    assert_eq!(condition["lastTransitionTime"], "2026-01-01T00:00:00Z");
}

#[tokio::test]
async fn every_notation_and_patch_gives_the_same_form() {
    let api = Api::start().await;
    let path = format!("{RULES}/r");
    let time = |value: &Value| value["spec"]["taint"]["timeAdded"].as_str().unwrap().to_owned();
    let yaml = "metadata: {name: r, labels: {}}\nspec:\n  deviceSelector: {driver: gpu.example.com}\n  taint: {key: example.com/k, effect: NoSchedule, value: '', timeAdded: 2020-01-01T01:00:00.5+01:00}\n";
    let stored = api.send("POST", RULES, YAML, yaml).await.expect(201);
    assert_eq!(time(&stored), "2020-01-01T00:00:00Z");
    assert!(stored["spec"]["taint"].get("value").is_none() && stored["metadata"].get("labels").is_none());
    let merge = |time: &str| json!({"spec": {"taint": {"timeAdded": time}}});
    for (at, kind) in [MERGE, STRATEGIC].into_iter().enumerate() {
        let sent = format!("2020-02-0{}T01:00:00.5+01:00", at + 1);
        let stored = api.patch(&path, kind, &merge(&sent)).await.expect(200);
        assert_eq!(time(&stored), format!("2020-02-0{}T00:00:00Z", at + 1));
        let again = api.patch(&path, kind, &merge(&sent)).await.expect(200);
        assert_eq!(again, stored, "the same time again");
    }
    let patch = json!([{"op": "replace", "path": "/spec/taint/timeAdded", "value": "2020-03-01T01:00:00+01:00"},
        {"op": "add", "path": "/metadata/labels", "value": {"a": null}}]);
    let stored = api.patch(&path, JSON_PATCH, &patch).await.expect(200);
    assert_eq!(
        (time(&stored), &stored["metadata"]["labels"]),
        ("2020-03-01T00:00:00Z".to_owned(), &json!({"a": ""}))
    );
    let mut applied = rule("NoSchedule", "2020-03-01T02:00:00+02:00");
    applied["spec"]["taint"]["value"] = "".into();
    let body = applied.to_string();
    let stored = api.send("PATCH", &format!("{path}?fieldManager=a"), APPLY, &body).await.expect(200);
    assert_eq!(time(&stored), "2020-03-01T00:00:00Z");
    assert!(stored["spec"]["taint"].get("value").is_none(), "{stored}");
    let again = api.send("PATCH", &format!("{path}?fieldManager=a"), APPLY, &body).await.expect(200);
    assert_eq!(again, stored, "nothing is changed by applying it again");
    applied["spec"]["taint"]["timeAdded"] = "2020-03-01T00:00:00.9Z".into();
    let body = applied.to_string();
    api.send("PATCH", &format!("{path}?fieldManager=b"), APPLY, &body).await.expect(200);
}
