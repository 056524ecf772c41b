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

        no room for the replacement of pod research/server: 1 node: request gpu wants 1, 0 of 2 devices suitable (1 in use, 1 about to be used); 1 node: request gpu wants 1, 0 of 2 devices suitable (1 in use, 1 tainted example.com/fan:NoExecute by rule gpu-example-com-fan-noexecute-28a12256), nor for 1 more

        estimated duration: 10m until the last pod is gone

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
          "estimatedSeconds": 630,
          "namespaces": {
            "research": 1
          },
          "pods": [
            {
              "deadline": "2026-01-01T12:10:00Z",
              "devices": [
                "gpu.example.com/node-1/gpu-0"
              ],
              "evictedAfterSeconds": 600,
              "name": "trainer",
              "namespace": "research",
              "node": "node-1",
              "owner": "Job/trainer",
              "position": 1,
              "priority": 0,
              "replacementNode": "node-1",
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

/// The words that the rule would have in its status, and the machine that would write them.
#[tokio::test]
async fn a_plan_says_what_keeps_pods_and_where_there_is_room() {
    let cluster = busy().await;
    let guard = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "stop"},
        "spec": {"paused": {"reason": "audit"}, "deviceSelector": {"pool": "node-2"}},
    });
    cluster.post("/apis/lazaret.dev/v1alpha1/disruptionguards", guard).await;
    let words = ["plan", "gpu.example.com/*/*", "example.com/fan:NoExecute", "--all", "-o", "json"];
    let plan: serde_json::Value = serde_json::from_str(&cluster.run(&words).await.ok()).unwrap();
    let pods: Vec<&serde_json::Value> = plan["pods"].as_array().unwrap().iter().collect();
    let named = |name: &str| *pods.iter().find(|pod| pod["name"] == name).unwrap();
    assert_eq!(named("server")["held"], "Paused");
    assert_eq!(
        (&named("trainer")["held"], &named("trainer")["evictedAfterSeconds"]),
        (&json!(null), &json!(600))
    );
    assert_eq!(
        plan["holds"],
        json!(["Paused: 1 pod not evicted (research/server): DisruptionGuard stop is paused: audit."])
    );
    assert_eq!((&plan["stuck"], &plan["estimatedSeconds"]), (&json!({"Paused": 1}), &json!(null)));
    // Every device would be tainted.
    for name in ["server", "trainer"] {
        let why = named(name)["noRoom"].as_str().unwrap_or_default();
        assert!(why.starts_with(&format!("no room for the replacement of pod research/{name}: ")), "{plan}");
    }
    let shown = cluster.run(&["plan", "node-2/gpu-0", "example.com/fan:NoExecute", "-o", "wide"]).await.ok();
    assert!(shown.contains("at first blocked (Paused): 1 pod not evicted (research/server): DisruptionGuard stop is paused: audit; kubectl device resume stop"), "{shown}");
    assert!(shown.contains("estimated duration: unknown, 1 pod would be kept: 1 by Paused"), "{shown}");
    let row: Vec<&str> =
        shown.lines().find(|line| line.starts_with("research")).unwrap().split_whitespace().collect();
    assert_eq!(row[row.len() - 3..], ["Paused", "node-1", "1"], "{shown}");
}

/// It is noon: the window of the guard opens at two at night.
#[tokio::test]
async fn a_plan_waits_for_the_window_of_a_guard() {
    let cluster = busy().await;
    let guard = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "nights"},
        "spec": {"windows": [{"start": "03:00", "duration": "1h", "timeZone": "Europe/Zurich"}]},
    });
    cluster.post("/apis/lazaret.dev/v1alpha1/disruptionguards", guard).await;
    let words = ["plan", "node-2/gpu-0", "example.com/fan:NoExecute", "-o", "json"];
    let plan: serde_json::Value = serde_json::from_str(&cluster.run(&words).await.ok()).unwrap();
    assert_eq!(
        plan["holds"],
        json!(["Window: 1 pod not evicted (research/server): no window of DisruptionGuard nights is open."])
    );
    assert_eq!(plan["pods"][0]["evictedAfterSeconds"], 14 * 3_600);
    assert_eq!(plan["estimatedSeconds"], 14 * 3_600 + 30);
}

#[tokio::test]
async fn rules_of_a_file_are_planned_with_all_that_they_say() {
    let cluster = busy().await;
    cluster.pod_with_device("other", "node-1", "gpu-1", json!([])).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rule.yaml");
    let rule = |eviction: &str| {
        format!(
            "apiVersion: resource.k8s.io/v1alpha3\nkind: DeviceTaintRule\nmetadata: {{name: firmware}}\nspec:\n  deviceSelector: {{driver: gpu.example.com}}\n  taint: {{key: example.com/firmware, effect: NoExecute}}\n  eviction: {eviction}\n"
        )
    };
    let plan = async |eviction: &str| -> serde_json::Value {
        std::fs::write(&path, rule(eviction)).unwrap();
        let words = ["plan", "-f", path.to_str().unwrap(), "-o", "json"];
        serde_json::from_str(&cluster.run(&words).await.ok()).unwrap()
    };
    let after = |plan: &serde_json::Value| -> Vec<(String, Option<i64>)> {
        let pods = plan["pods"].as_array().unwrap().iter();
        pods.map(|pod| (pod["name"].as_str().unwrap().to_owned(), pod["evictedAfterSeconds"].as_i64()))
            .collect()
    };
    let of = |rows: [(&str, Option<i64>); 3]| rows.map(|(name, at)| (name.to_owned(), at)).to_vec();
    // One at a time, each as long as its grace period.
    let one = plan("{maxConcurrent: 1}").await;
    assert_eq!(after(&one), of([("other", Some(0)), ("server", Some(30)), ("trainer", Some(600))]));
    assert_eq!(one["estimatedSeconds"], 630);
    // It is noon: the window opens at two at night.
    let night = plan("{windows: [{start: \"02:00\", duration: 1h}]}").await;
    // The toleration of the trainer counts from then on.
    assert_eq!(night["estimatedSeconds"], 14 * 3_600 + 630);
    assert!(night["holds"][0].as_str().unwrap().starts_with("Window: 2 pods not evicted"), "{night}");
    // The budget permits none of the server's pods.
    let careful = plan("{mode: Evict}").await;
    assert_eq!(after(&careful), of([("other", Some(0)), ("server", None), ("trainer", Some(600))]));
    assert_eq!(careful["stuck"], json!({"Budget": 1}));
    // There is no device left.
    let roomy = plan("{capacity: Wait}").await;
    assert_eq!(roomy["stuck"], json!({"Capacity": 3}));
    assert!(
        roomy["holds"][0]
            .as_str()
            .unwrap()
            .starts_with("Capacity: 1 pod not evicted (research/other): no room"),
        "{roomy}"
    );
    let error = cluster.run(&["plan", "-f", "/nowhere/rule.yaml"]).await.error();
    assert!(error.starts_with("/nowhere/rule.yaml: "), "{error}");
}
