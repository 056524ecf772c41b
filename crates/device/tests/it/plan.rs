//! `kubectl device plan`.

use expect_test::expect;
use lazaret_device::Verdict;
use serde_json::json;

use crate::support::Cluster;

async fn busy() -> Cluster {
    let cluster = Cluster::small().await;
    cluster.pod_with_device("server", "node-2", "gpu-0", json!([])).await;
    cluster.pod_with_device("monitor", "node-2", "gpu-1", json!([{"operator": "Exists"}])).await;
    cluster
        .post(
            "/apis/policy/v1/namespaces/research/poddisruptionbudgets",
            json!({"metadata": {"name": "one-server"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "server"}}}}),
        )
        .await;
    cluster
}

#[tokio::test]
async fn who_would_leave_when_and_against_which_budget() {
    let cluster = busy().await;
    let words = ["plan", "gpu.example.com/*/*", "example.com/fan:NoExecute", "--all"];
    expect![[r#"
        example.com/fan:NoExecute on 4 devices: 3 claims in 1 namespace, 2 of 3 pods would be evicted

        DEVICE                         NODE     STATE
        gpu.example.com/node-1/gpu-0   node-1   InUse
        gpu.example.com/node-1/gpu-1   node-1   Free
        gpu.example.com/node-2/gpu-0   node-2   InUse
        gpu.example.com/node-2/gpu-1   node-2   InUse

        NAMESPACE   POD       NODE     OWNER         PRIORITY   TOLERATES   EVICTED   BUDGET
        research    server    node-2   Job/server    0          no          at once   one-server (0 allowed)
        research    trainer   node-1   Job/trainer   0          600s        in 600s   <none>
        research    monitor   node-2   Job/monitor   0          forever     never     <none>

        1 pod of research would be evicted although disruption budget one-server allows 0: eviction by taint ignores budgets
    "#]].assert_eq(&cluster.run(&words).await.ok());
    expect![[r#"
        a:NoSchedule on 1 device: 1 claim in 1 namespace, 0 of 1 pod would be evicted

        DEVICE                         NODE     STATE
        gpu.example.com/node-1/gpu-0   node-1   InUse

        NAMESPACE   POD       NODE     OWNER         PRIORITY   TOLERATES   EVICTED   BUDGET
        research    trainer   node-1   Job/trainer   0          600s        never     <none>
    "#]]
    .assert_eq(&cluster.run(&["plan", "node-1/gpu-0", "a:NoSchedule"]).await.ok());
    expect![[r#"
        a:NoExecute on 1 device: 0 claims in 0 namespaces, 0 of 0 pods would be evicted

        DEVICE                         NODE     STATE
        gpu.example.com/node-1/gpu-1   node-1   Free
    "#]]
    .assert_eq(&cluster.run(&["plan", "node-1/gpu-1", "a:NoExecute"]).await.ok());
    let printed = cluster.run(&["plan", "node-1/gpu-0", "a:NoExecute", "-o", "json"]).await.ok();
    let mut plan: serde_json::Value = serde_json::from_str(&printed).unwrap();
    plan["pods"][0]["uid"] = "UID".into();
    expect![[r#"
        {
          "claims": [
            "research/trainer-gpu"
          ],
          "devices": [
            {
              "name": "gpu.example.com/node-1/gpu-0",
              "node": "node-1",
              "state": "InUse"
            }
          ],
          "effect": "NoExecute",
          "namespaces": {
            "research": 1
          },
          "pods": [
            {
              "deadline": "2026-01-01T12:10:00Z",
              "devices": [
                "gpu.example.com/node-1/gpu-0"
              ],
              "name": "trainer",
              "namespace": "research",
              "node": "node-1",
              "owner": "Job/trainer",
              "position": 1,
              "priority": 0,
              "tolerationSeconds": 600,
              "uid": "UID"
            }
          ],
          "taint": "a:NoExecute",
          "tolerating": []
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&plan).unwrap());
    assert_eq!(cluster.rules().await, []);
    let wide = cluster.run(&["plan", "gpu.example.com/*/*", "a:NoExecute", "--all", "-o", "wide"]).await.ok();
    let places: Vec<Vec<&str>> = wide
        .lines()
        .filter(|line| line.starts_with("research"))
        .map(|line| line.split_whitespace().collect())
        .map(|words: Vec<&str>| vec![words[1], words[words.len() - 1]])
        .collect();
    assert_eq!(places.len(), 3, "{wide}");
    assert!(places.contains(&vec!["monitor", "<none>"]), "{wide}");
    let mut numbers: Vec<&str> = places.iter().map(|row| row[1]).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, ["1", "2", "<none>"], "{wide}");
}

#[tokio::test]
async fn a_plan_can_be_compared_with_the_one_before() {
    let cluster = busy().await;
    let words = ["plan", "gpu.example.com/node-2/*", "a:NoExecute", "--all", "--diff"];
    let ran = cluster.run(&words).await;
    assert!(ran.notes.starts_with("no earlier plan"), "{}", ran.notes);
    let ran = cluster.run(&words).await;
    assert_eq!((ran.out.as_str(), ran.verdict), ("nothing changed since the last plan\n", Ok(Verdict::Yes)));
    let gone = "/api/v1/namespaces/research/pods/server";
    cluster.send("DELETE", gone, "application/json", &json!({"gracePeriodSeconds": 0})).await;
    let ran = cluster.run(&words).await;
    assert_eq!(ran.verdict, Ok(Verdict::No));
    let (line, _uid) = ran.out.split_once(" (").unwrap();
    assert_eq!(line, "- pod research/server");
}

#[tokio::test]
async fn there_is_nothing_to_plan_in_removing_a_taint() {
    expect!["removing a taint evicts no pod: there is nothing to plan"]
        .assert_eq(&busy().await.run(&["plan", "node-1/gpu-0", "a-"]).await.error());
}
