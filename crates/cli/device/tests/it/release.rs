//! Devices whose pod was removed before it ended: what they wait for, and `kubectl device release`.

use serde_json::{Value, json};

use crate::support::Cluster;

const WORDS: &str = "waiting for node node-1 to unprepare gpu.example.com/node-1/gpu-0 for claim research/trainer-gpu, whose pod was \
                     removed before it ended";

/// The node is asked to unprepare what the trainer had, whose claim was removed by hand or not.
async fn waiting(claim_gone: bool) -> Cluster {
    let cluster = Cluster::small().await;
    let claim = "/apis/resource.k8s.io/v1/namespaces/research/resourceclaims/trainer-gpu";
    let uid = cluster.get(claim).await["metadata"]["uid"].clone();
    let at_once = json!({"gracePeriodSeconds": 0});
    cluster.send("DELETE", "/api/v1/namespaces/research/pods/trainer", "application/json", &at_once).await;
    if claim_gone {
        cluster.send("DELETE", claim, "application/json", &Value::Null).await;
    }
    let entry = json!([{
        "claim": "research/trainer-gpu", "uid": uid, "since": "2026-01-01T11:00:00Z",
        "devices": [{"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}],
    }]);
    let annotations = json!({"lazaret.dev/reports-unprepared": "true", "lazaret.dev/awaiting-unprepare": entry.to_string()});
    let patch = json!({"metadata": {"annotations": annotations}});
    cluster.send("PATCH", "/api/v1/nodes/node-1", "application/merge-patch+json", &patch).await;
    cluster
}

async fn asked(cluster: &Cluster) -> Value {
    let node = cluster.get("/api/v1/nodes/node-1").await;
    serde_json::from_str(node["metadata"]["annotations"]["lazaret.dev/awaiting-unprepare"].as_str().unwrap())
        .unwrap()
}

#[tokio::test]
async fn every_command_says_what_is_waited_for_in_the_same_words() {
    for claim_gone in [false, true] {
        let cluster = waiting(claim_gone).await;
        let listed = cluster.run(&["list", "node-1/gpu-0"]).await.ok();
        assert!(listed.contains("research/trainer-gpu (waiting for node node-1 to unprepare)"), "{listed}");
        let wide = cluster.run(&["list", "node-1/gpu-0", "-o", "wide"]).await.ok();
        assert!(wide.contains(WORDS) && wide.contains("InUse"), "{wide}");
        let json: Value =
            serde_json::from_str(&cluster.run(&["list", "node-1/gpu-0", "-o", "json"]).await.ok()).unwrap();
        let expected = json!({
            "node": "node-1", "claim": "research/trainer-gpu", "since": "2026-01-01T11:00:00Z", "message": WORDS,
        });
        assert_eq!(json["items"][0]["awaitingUnprepare"], expected);
        let described = cluster.run(&["describe", "node-1/gpu-0"]).await.ok();
        assert!(described.contains(&format!("Unprepare:    {WORDS}\n")), "{described}");
        // The same note explains a pod that requests more devices than there are.
        let spec = json!({"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 9}}]}});
        let claim = json!({"metadata": {"name": "all"}, "spec": spec});
        cluster.post("/apis/resource.k8s.io/v1/namespaces/research/resourceclaims", claim).await;
        let pod = json!({"metadata": {"name": "next"}, "spec": {
            "containers": [{"name": "c", "image": "i"}], "resourceClaims": [{"name": "gpu", "resourceClaimName": "all"}],
        }});
        cluster.post("/api/v1/namespaces/research/pods", pod).await;
        let why = cluster.run(&["why", "research/next"]).await.ok();
        assert!(why.contains(&format!("\n  {WORDS}\n")), "{why}");
    }
}

#[tokio::test]
async fn a_person_releases_a_device_with_a_reason() {
    let cluster = waiting(true).await;
    let release = ["release", "node-1/gpu-0", "--force", "--reason", "the board was replaced"];
    let tried = cluster.run(&[&release[..], &["--dry-run"]].concat()).await.ok();
    assert_eq!(tried, "gpu.example.com/node-1/gpu-0 released from claim research/trainer-gpu (dry run)\n");
    assert_eq!(asked(&cluster).await[0]["released"], Value::Null);
    let printed = cluster.run(&[&release[..], &["-o", "json"]].concat()).await.ok();
    let result: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(
        (&result["kind"], &result["device"], &result["node"], &result["claims"], &result["changed"]),
        (
            &json!("ReleaseResult"),
            &json!("gpu.example.com/node-1/gpu-0"),
            &json!("node-1"),
            &json!(["research/trainer-gpu"]),
            &json!(true),
        )
    );
    assert_eq!(asked(&cluster).await[0]["released"], "the board was replaced (ada@example.com)");
    // It waits no more.
    let again = cluster.run(&release).await.error();
    assert!(again.contains("is not waiting to be unprepared"), "{again}");
    let listed = cluster.run(&["list", "node-1/gpu-0"]).await.ok();
    assert!(listed.contains("Free"), "{listed}");
}

#[tokio::test]
async fn nothing_is_released_that_does_not_wait_or_without_force_and_reason() {
    let cluster = Cluster::small().await;
    let held = cluster.run(&["release", "node-1/gpu-0", "--force", "--reason", "x"]).await.error();
    assert!(held.contains("gpu.example.com/node-1/gpu-0 is not waiting to be unprepared"), "{held}");
    let empty = cluster.run(&["release", "node-1/gpu-0", "--force", "--reason", " "]).await.error();
    assert!(empty.contains("--reason must not be empty"), "{empty}");
}

#[tokio::test]
async fn a_new_claim_of_the_same_name_does_not_hide_what_the_old_one_had() {
    let cluster = waiting(true).await;
    let spec = json!({"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}});
    let claim = json!({"metadata": {"name": "trainer-gpu"}, "spec": spec});
    cluster.post("/apis/resource.k8s.io/v1/namespaces/research/resourceclaims", claim).await;
    let wide = cluster.run(&["list", "node-1/gpu-0", "-o", "wide"]).await.ok();
    assert!(wide.contains("InUse") && wide.contains(WORDS), "{wide}");
}
