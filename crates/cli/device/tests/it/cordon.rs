//! `kubectl device cordon` and `uncordon`.

use expect_test::expect;
use lazaret_device::Verdict;
use serde_json::{Value, json};

use crate::support::Cluster;

#[tokio::test]
async fn a_device_is_kept_from_new_pods_and_given_back_however_often_it_is_said() {
    let cluster = Cluster::small().await;
    let cordon = ["cordon", "node-1/gpu-0", "--reason", "fan is loud"];
    expect![[r#"
        gpu.example.com/node-1/gpu-0 cordoned (rule node-1-gpu-0-drain-fbe05b95)
    "#]]
    .assert_eq(&cluster.run(&cordon).await.ok());
    let rules = cluster.rules().await;
    assert_eq!(rules[0].1["taint"], json!({"key": "lazaret.dev/drain", "effect": "NoSchedule"}));
    expect![[r#"
        gpu.example.com/node-1/gpu-0 already cordoned (rule node-1-gpu-0-drain-fbe05b95)
    "#]]
    .assert_eq(&cluster.run(&cordon).await.ok());
    expect![[r#"
        gpu.example.com/node-1/gpu-0 uncordoned (rule node-1-gpu-0-drain-fbe05b95 deleted)
    "#]]
    .assert_eq(&cluster.run(&["uncordon", "node-1/gpu-0"]).await.ok());
    assert_eq!(cluster.rules().await, []);
    expect![[r#"
        gpu.example.com/node-1/gpu-0 already uncordoned
    "#]]
    .assert_eq(&cluster.run(&["uncordon", "node-1/gpu-0"]).await.ok());
}

#[tokio::test]
async fn a_cordon_never_weakens_a_drain() {
    let cluster = Cluster::small().await;
    let drain = ["drain", "node-1/gpu-0", "--reason", "x", "--yes", "--wait=false"];
    cluster.run(&drain).await.ok();
    expect![[r#"
        gpu.example.com/node-1/gpu-0 already cordoned (rule node-1-gpu-0-drain-fbe05b95)
        gpu.example.com/node-1/gpu-1 cordoned (rule node-1-gpu-1-drain-f36d7a33)
    "#]]
    .assert_eq(&cluster.run(&["cordon", "--node", "node-1"]).await.ok());
    let effects: Vec<Value> =
        cluster.rules().await.iter().map(|(_, spec)| spec["taint"]["effect"].clone()).collect();
    assert_eq!(effects, ["NoExecute", "NoSchedule"]);
}

#[tokio::test]
async fn a_dry_run_writes_nothing() {
    let cluster = Cluster::small().await;
    for mode in ["--dry-run=client", "--dry-run=server"] {
        let printed = cluster.run(&["cordon", "node-1/gpu-0", mode]).await.ok();
        assert!(printed.ends_with("dry run)\n"), "{printed}");
    }
    assert_eq!(cluster.rules().await, []);
}

#[tokio::test]
async fn programs_read_what_was_done() {
    let cluster = Cluster::small().await;
    let run = async |words: &[&str]| -> Value {
        let ran = cluster.run(words).await;
        assert_eq!(ran.verdict, Ok(Verdict::Yes), "{ran:?}");
        serde_json::from_str(&ran.out).unwrap()
    };
    let item = json!({"device": "gpu.example.com/node-1/gpu-0", "rule": "node-1-gpu-0-drain-fbe05b95", "changed": true});
    assert_eq!(
        run(&["cordon", "node-1/gpu-0", "-o", "json"]).await,
        json!({"apiVersion": "lazaret.dev/v1alpha1", "kind": "CordonResult", "dryRun": false, "items": [item]})
    );
    cluster.run(&["taint", "node-1/gpu-0", "a:NoSchedule"]).await.ok();
    let undone = run(&["uncordon", "node-1/gpu-0", "-o", "json"]).await;
    assert_eq!(undone["items"], json!([item]));
    assert_eq!(
        undone["stillTainted"],
        json!([{"device": "gpu.example.com/node-1/gpu-0", "taint": "a:NoSchedule", "by": "rule node-1-gpu-0-a-noschedule-4a797de5"}])
    );
    let again = run(&["uncordon", "node-1/gpu-0", "-o", "json"]).await;
    assert_eq!(again["items"], json!([{"device": "gpu.example.com/node-1/gpu-0", "changed": false}]));
    assert_eq!(
        run(&["fail", "node-1/gpu-0", "--reason", "ecc", "-o", "json"]).await,
        json!({"apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceReport", "node": "node-1", "device": "gpu-0",
            "reported": "failing", "effect": "NoExecute", "reason": "ecc", "changed": true})
    );
    let recovered = run(&["recover", "node-1/gpu-0", "-o", "json"]).await;
    assert_eq!((&recovered["reported"], &recovered["changed"]), (&json!("healthy"), &json!(true)));
    let drained = run(&["drain", "node-2/gpu-1", "--reason", "x", "--yes", "-o", "json"]).await;
    assert_eq!(drained["kind"], "DrainResult");
    assert_eq!(drained["outcome"], "Drained");
    assert_eq!(drained["devices"], json!(["gpu.example.com/node-2/gpu-1"]));
    assert_eq!(drained["plan"]["taint"], "lazaret.dev/drain:NoExecute");
    let planned = run(&["drain", "node-1/gpu-0", "--reason", "x", "--dry-run", "-o", "json"]).await;
    assert_eq!(
        (&planned["outcome"], &planned["plan"]["pods"][0]["name"]),
        (&json!("DryRun"), &json!("trainer"))
    );
}
