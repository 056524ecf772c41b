//! `kubectl device approve`, and what `why` says of a rule that is held.

use serde_json::{Value, json};

use crate::support::Cluster;

const RULES: &str = "/apis/resource.k8s.io/v1/devicetaintrules";
const GUARDS: &str = "/apis/lazaret.dev/v1alpha1/disruptionguards";

/// A cluster whose guard wants approval of what evicts anybody, and a rule for all devices.
async fn cluster() -> Cluster {
    let cluster = Cluster::small().await;
    cluster.pod_with_device("server", "node-2", "gpu-0", json!([])).await;
    let guard = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "fleet"},
        "spec": {"confirmAbove": {"pods": 0}, "approvers": "Different"},
    });
    cluster.post(GUARDS, guard).await;
    let rule = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": "wide"},
        "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "example.com/fan", "effect": "NoExecute"}},
    });
    cluster.post(RULES, rule).await;
    cluster
}

async fn rule(cluster: &Cluster) -> Value {
    cluster.send("GET", &format!("{RULES}/wide"), "application/json", &Value::Null).await
}

#[tokio::test]
async fn it_shows_what_the_rule_does_and_approves_that() {
    let cluster = cluster().await;
    let before = rule(&cluster).await;
    assert_eq!(before["metadata"]["annotations"], json!({"lazaret.dev/written-by": "admin"}));
    let shown = cluster.run(&["approve", "wide", "--dry-run"]).await.ok();
    assert!(shown.starts_with("example.com/fan:NoExecute on "), "{shown}");
    assert!(shown.contains("research") && shown.contains("DeviceTaintRule wide approved for "), "{shown}");
    assert_eq!(rule(&cluster).await, before, "nothing is written");
    let said = cluster.run(&["approve", "wide", "--reason", "announced", "-o", "json"]).await.ok();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["kind"], &said["of"]), (&json!("ApproveResult"), &json!("DeviceTaintRule")));
    assert!(said["pods"].as_u64() > Some(0) && said["devices"].as_u64() > Some(0), "{said}");
    let approved = rule(&cluster).await;
    let annotations = &approved["metadata"]["annotations"];
    assert_eq!(annotations["lazaret.dev/approved-by"], "ada@example.com");
    let approval: Value =
        serde_json::from_str(annotations["lazaret.dev/approval"].as_str().unwrap()).unwrap();
    assert_eq!(approval["uid"], before["metadata"]["uid"]);
    assert_eq!(approval["generation"], before["metadata"]["generation"]);
    assert_eq!(approval["reason"], "announced");
    for count in ["pods", "namespaces", "devices"] {
        assert_eq!(approval[count], said[count], "{count}");
    }
    assert_eq!(approved["metadata"]["generation"], before["metadata"]["generation"], "the spec is the same");
    let error = cluster.run(&["approve", "nothing"]).await.error();
    assert_eq!(error, "DeviceTaintRule nothing not found");
}

/// The author of the rule tries first, with the same words, and is refused.
#[tokio::test]
async fn a_second_user_approves_with_the_words_of_the_first() {
    let cluster = cluster().await.with_user("admin");
    let words = ["approve", "wide", "-o", "json"];
    let refused = cluster.run_by_the_clock(&words).await;
    assert!(refused.out.contains("\"refusal\""), "{}", refused.out);
    let cluster = cluster.with_user("bob@example.com");
    let approved = cluster.run_by_the_clock(&words).await.ok();
    assert!(!approved.contains("\"refusal\""), "{approved}");
    assert_eq!(rule(&cluster).await["metadata"]["annotations"]["lazaret.dev/approved-by"], "bob@example.com");
}

#[tokio::test]
async fn a_pod_hears_that_a_rule_which_would_evict_it_is_held() {
    let cluster = cluster().await;
    let generation = rule(&cluster).await["metadata"]["generation"].clone();
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": "True", "reason": reason, "message": message,
            "observedGeneration": generation, "lastTransitionTime": "2026-01-01T12:00:00Z",
        })
    };
    let words = "1 pod not evicted (research/server): DisruptionGuard fleet wants approval above 0 pods";
    let message = format!("Held: {words}.");
    let status = json!({"status": {"conditions": [
        condition("Held", "ApprovalRequired", "words"), condition("EvictionBlocked", "Held", &message),
    ]}});
    cluster.send("PATCH", &format!("{RULES}/wide/status"), "application/merge-patch+json", &status).await;
    let why = cluster.run(&["why", "-n", "research", "server"]).await.ok();
    assert!(
        why.contains(&format!(
            "eviction by rule wide is blocked (Held): {words}; it goes on when it is approved"
        )),
        "{why}"
    );
    assert!(why.contains("DeviceTaintRule wide would evict it and is held"), "{why}");
}

/// A command over several devices is one request: its rules say so, and one approval is for all of them.
#[tokio::test]
async fn rules_of_one_request_are_approved_together() {
    let cluster = Cluster::small().await;
    cluster.run(&["cordon", "node-1/gpu-0", "node-1/gpu-1", "--reason", "boards"]).await.ok();
    let listed = cluster.get(RULES).await;
    let rules = listed["items"].as_array().unwrap();
    let annotation = |rule: &Value, name: &str| -> Value {
        serde_json::from_str(rule["metadata"]["annotations"][name].as_str().unwrap_or("null")).unwrap()
    };
    let requests: Vec<Value> = rules.iter().map(|rule| annotation(rule, "lazaret.dev/request")).collect();
    assert_eq!((requests.len(), &requests[0]), (2, &requests[1]));
    assert_eq!((&requests[0]["devices"], &requests[0]["evicts"]), (&json!(2), &json!(false)));
    let name = rules[0]["metadata"]["name"].as_str().unwrap();
    let said = cluster.run(&["approve", name]).await.ok();
    let wanted = "with 1 other of the same request approved for 0 pods in 0 namespaces on 2 devices";
    assert!(said.contains(wanted), "{said}");
    for rule in cluster.get(RULES).await["items"].as_array().unwrap() {
        let approval = annotation(rule, "lazaret.dev/approval");
        assert_eq!((&approval["devices"], &approval["request"]), (&json!(2), &requests[0]["id"]), "{rule}");
        assert_eq!(approval["uid"], rule["metadata"]["uid"]);
    }
    // One device is no request.
    cluster.run(&["cordon", "node-2/gpu-0"]).await.ok();
    let alone = cluster.get(RULES).await;
    let alone = alone["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|rule| rule["spec"]["deviceSelector"]["pool"] == "node-2");
    assert_eq!(alone.map(|rule| annotation(rule, "lazaret.dev/request")).collect::<Vec<_>>(), [Value::Null]);
}

/// A guard that is not understood keeps everything: the report has a failed row for it.
#[tokio::test]
async fn the_check_names_a_guard_that_is_not_understood() {
    let cluster = Cluster::small().await;
    let guard = |name: &str, selector: Value| {
        json!({
            "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": name},
            "spec": {"deviceSelector": selector, "confirmAbove": {"pods": 5}},
        })
    };
    cluster.post(GUARDS, guard("fleet", json!({"driver": "gpu.example.com"}))).await;
    let checked = cluster.run(&["check"]).await;
    assert!(checked.out.contains("√ every DisruptionGuard is understood"), "{}", checked.out);
    cluster.post(GUARDS, guard("lost", json!({"deviceClassName": "gone.example.com"}))).await;
    let checked = cluster.run(&["check"]).await;
    let row = "× DisruptionGuard lost is not understood: device class gone.example.com does not exist\n    correct its";
    assert!(checked.out.contains(row), "{}", checked.out);
    assert_eq!(checked.verdict, Ok(lazaret_device::Verdict::No));
}
