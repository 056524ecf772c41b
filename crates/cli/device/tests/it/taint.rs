//! `kubectl device taint`, `fail` and `recover`.

use expect_test::expect;
use lazaret_server::Features;
use serde_json::json;

use crate::support::Cluster;

#[tokio::test]
async fn a_taint_is_set_changed_and_removed_with_one_rule() {
    let cluster = Cluster::small().await;
    let set = ["taint", "gpu.example.com/node-1/gpu-0", "example.com/fan=slow:NoSchedule"];
    expect![[r#"
        gpu.example.com/node-1/gpu-0 tainted example.com/fan=slow:NoSchedule (rule node-1-gpu-0-fan-noschedule-58f28d3b)
    "#]].assert_eq(&cluster.run(&set).await.ok());
    let rules = cluster.rules().await;
    let [(name, spec)] = rules.as_slice() else { panic!("{rules:?}") };
    assert_eq!(
        *spec,
        json!({"deviceSelector": {"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"},
            "taint": {"key": "example.com/fan", "value": "slow", "effect": "NoSchedule"}})
    );
    let rule = cluster.get(&format!("/apis/resource.k8s.io/v1/devicetaintrules/{name}")).await;
    expect![[r#"
        {"app.kubernetes.io/managed-by":"kubectl-device","lazaret.dev/device":"gpu-0","lazaret.dev/driver":"gpu.example.com","lazaret.dev/pool":"node-1","lazaret.dev/set-by":"ada_example.com"}
        {"lazaret.dev/set-by":"ada@example.com"}
    "#]]
        .assert_eq(&format!("{}\n{}\n", rule["metadata"]["labels"], rule["metadata"]["annotations"]));

    expect![[r#"
        rule node-1-gpu-0-fan-noschedule-58f28d3b unchanged
    "#]]
    .assert_eq(&cluster.run(&set).await.ok());
    let other = ["taint", "node-1/gpu-0", "example.com/fan=dead:NoSchedule"];
    expect!["gpu.example.com/node-1/gpu-0 is already tainted example.com/fan=slow:NoSchedule: add --overwrite to change it to example.com/fan=dead:NoSchedule"].assert_eq(&cluster.run(&other).await.error());
    let overwritten =
        cluster.run(&[&other[..], &["--overwrite", "--reason", "it stands still"]].concat()).await.ok();
    expect![[r#"
        gpu.example.com/node-1/gpu-0 now tainted example.com/fan=dead:NoSchedule (rule node-1-gpu-0-fan-noschedule-58f28d3b)
    "#]].assert_eq(&overwritten);
    assert_eq!(cluster.rules().await.len(), 1);

    expect![[r#"
        gpu.example.com/node-1/gpu-0 no longer tainted example.com/fan=dead:NoSchedule (rule node-1-gpu-0-fan-noschedule-58f28d3b deleted)
    "#]].assert_eq(&cluster.run(&["taint", "node-1/gpu-0", "example.com/fan-"]).await.ok());
    assert_eq!(cluster.rules().await, []);
    expect!["gpu.example.com/node-1/gpu-0 has no taint example.com/fan set by kubectl device"]
        .assert_eq(&cluster.run(&["taint", "node-1/gpu-0", "example.com/fan-"]).await.error());
}

#[tokio::test]
async fn a_selection_is_never_wider_than_its_words() {
    let cluster = Cluster::small().await;
    expect![[r#"
        gpu-0 matches 2 devices: name one of them, or add --all for all of them
          gpu.example.com/node-1/gpu-0
          gpu.example.com/node-2/gpu-0"#]]
    .assert_eq(&cluster.run(&["taint", "gpu-0", "a:NoSchedule"]).await.error());
    expect![[r#"
        gpu.example.com/node-1/* matches 2 devices: name one of them, or add --all for all of them
          gpu.example.com/node-1/gpu-0
          gpu.example.com/node-1/gpu-1"#]]
    .assert_eq(&cluster.run(&["taint", "gpu.example.com/node-1/*", "a:NoSchedule"]).await.error());
    expect!["no device given: name devices, or add --all for every device"]
        .assert_eq(&cluster.run(&["taint", "a:NoSchedule"]).await.error());
    assert_eq!(cluster.rules().await, []);

    expect![[r#"
        gpu.example.com/node-1/gpu-0 tainted a:NoSchedule (rule node-1-gpu-0-a-noschedule-4a797de5)
        gpu.example.com/node-2/gpu-0 tainted a:NoSchedule (rule node-2-gpu-0-a-noschedule-2b7176d7)
    "#]]
    .assert_eq(&cluster.run(&["taint", "gpu-0", "a:NoSchedule", "--all"]).await.ok());
    let pool = cluster.run(&["taint", "gpu.example.com/node-2/*", "b:NoSchedule", "--all"]).await.ok();
    expect![[r#"
        gpu.example.com/node-2/* tainted b:NoSchedule (rule node-2-b-noschedule-9cd138bc)
    "#]]
    .assert_eq(&pool);
    expect![[r#"
        gpu.example.com/node-2/gpu-1 has no taint b set by kubectl device
          DeviceTaintRule node-2-b-noschedule-9cd138bc sets it on more devices (gpu.example.com/node-2/*): name all of them, or delete the rule"#]].assert_eq(&cluster.run(&["taint", "node-2/gpu-1", "b-"]).await.error());
    let flagged = cluster.run(&["taint", "--node", "node-2", "c:NoSchedule"]).await.ok();
    expect![[r#"
        gpu.example.com/node-2/gpu-0 tainted c:NoSchedule (rule node-2-gpu-0-c-noschedule-c61beb67)
        gpu.example.com/node-2/gpu-1 tainted c:NoSchedule (rule node-2-gpu-1-c-noschedule-20240596)
    "#]]
    .assert_eq(&flagged);
    let everything = cluster.run(&["taint", "d:None", "--all"]).await.ok();
    expect![[r#"
        */*/* tainted d:None (rule d-none-599dccc2)
    "#]]
    .assert_eq(&everything);
}

#[tokio::test]
async fn what_others_set_is_theirs_to_remove() {
    let cluster = Cluster::small().await;
    expect![[r#"
        gpu.example.com/node-1/gpu-1 has no taint gpu.example.com/hot set by kubectl device
          its driver sets it, in ResourceSlice node-1-gpus: only the driver removes it, when the device is healthy again"#]].assert_eq(&cluster.run(&["taint", "node-1/gpu-1", "gpu.example.com/hot-"]).await.error());
    let foreign = json!({"metadata": {"name": "by-hand"}, "spec": {"deviceSelector": {"pool": "node-1", "device": "gpu-0"}, "taint": {"key": "k", "effect": "NoSchedule"}}});
    cluster.post("/apis/resource.k8s.io/v1/devicetaintrules", foreign).await;
    expect![[r#"
        gpu.example.com/node-1/gpu-0 has no taint k:NoSchedule set by kubectl device
          DeviceTaintRule by-hand sets it, for */node-1/gpu-0, and was not made by kubectl device: kubectl delete devicetaintrule by-hand"#]].assert_eq(&cluster.run(&["taint", "node-1/gpu-0", "k:NoSchedule-"]).await.error());
}

#[tokio::test]
async fn making_pods_leave_needs_a_reason() {
    let cluster = Cluster::small().await;
    expect!["NoExecute evicts pods: add --reason, which is kept with the rule; `kubectl device plan` shows which pods"].assert_eq(&cluster.run(&["taint", "node-1/gpu-0", "a:NoExecute"]).await.error());
    expect![[r#"
        gpu.example.com/node-1/gpu-0 tainted a:NoExecute (rule node-1-gpu-0-a-noexecute-16224e38)
    "#]]
    .assert_eq(&cluster.run(&["taint", "node-1/gpu-0", "a:NoExecute", "--reason", "x"]).await.ok());
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let cluster = Cluster::small().await;
    for mode in ["--dry-run=client", "--dry-run=server"] {
        let printed = cluster.run(&["taint", "node-1/gpu-0", "a:NoSchedule", mode]).await.ok();
        assert!(
            printed.ends_with(if mode.ends_with("client") { "(dry run)\n" } else { "(server dry run)\n" }),
            "{printed}"
        );
    }
    let yaml = cluster.run(&["taint", "node-1/gpu-0", "a:NoSchedule", "--dry-run", "-o", "yaml"]).await.ok();
    expect![[r#"
        apiVersion: resource.k8s.io/v1
        kind: DeviceTaintRule
        metadata:
          annotations:
            lazaret.dev/set-by: ada@example.com
          labels:
            app.kubernetes.io/managed-by: kubectl-device
            lazaret.dev/device: gpu-0
            lazaret.dev/driver: gpu.example.com
            lazaret.dev/pool: node-1
            lazaret.dev/set-by: ada_example.com
          name: node-1-gpu-0-a-noschedule-4a797de5
        spec:
          deviceSelector:
            device: gpu-0
            driver: gpu.example.com
            pool: node-1
          taint:
            effect: NoSchedule
            key: a
    "#]]
    .assert_eq(&yaml);
    assert_eq!(cluster.rules().await, []);
    assert_eq!(cluster.get("/api/v1/events").await["items"], json!([]));
}

#[tokio::test]
async fn a_simulated_driver_is_told_what_fails() {
    let cluster = Cluster::small().await;
    expect![[r#"
        node-1/gpu-0 reported failing
    "#]]
    .assert_eq(&cluster.run(&["fail", "node-1/gpu-0", "--reason", "fan"]).await.ok());
    let node = cluster.get("/api/v1/nodes/node-1").await;
    assert_eq!(
        node["metadata"]["annotations"]["hollow.lazaret.dev/fail"],
        r#"{"gpu-0":{"effect":"NoExecute","reason":"fan"}}"#
    );
    expect![[r#"
        node-1/gpu-0 reported healthy
    "#]]
    .assert_eq(&cluster.run(&["recover", "gpu.example.com/node-1/gpu-0"]).await.ok());
    expect![[r#"
        node-1/gpu-0 already reported healthy
    "#]]
    .assert_eq(&cluster.run(&["recover", "node-1/gpu-0"]).await.ok());
    expect![[r#"
        no device node-9/gpu-0; nearest names:
          gpu.example.com/node-1/gpu-0
          gpu.example.com/node-2/gpu-0
          gpu.example.com/node-1/gpu-1"#]]
    .assert_eq(&cluster.run(&["fail", "node-9/gpu-0"]).await.error());
    expect![[r#"
        gpu-0 matches 2 devices: name one of them
          gpu.example.com/node-1/gpu-0
          gpu.example.com/node-2/gpu-0"#]]
    .assert_eq(&cluster.run(&["fail", "gpu-0"]).await.error());
}

#[tokio::test]
async fn that_history_cannot_be_written_is_only_noted() {
    let features = Features::kubernetes_1_37();
    let cluster = Cluster::with(features, &[], vec!["create events"]).await;
    cluster.fill().await;
    let ran = cluster.run(&["taint", "node-1/gpu-0", "a:NoSchedule"]).await;
    assert!(ran.notes.starts_with("note: history will not show this"), "{}", ran.notes);
    assert_eq!(cluster.rules().await.len(), 1);
}
