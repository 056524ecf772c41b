//! `kubectl device drain` and `uncordon`, with a controller that the test plays.

use std::time::Duration;

use expect_test::expect;
use lazaret_device::Verdict;
use serde_json::{Value, json};

use crate::support::Cluster;

/// Deletes a pod once the rule of a drain says NoExecute, and lets another of the same owner run.
async fn play_controllers(cluster: &Cluster, pod: &str, device: &str) {
    loop {
        let rules = cluster.rules().await;
        let evicts = |(_, spec): &(String, Value)| {
            spec["taint"]["effect"] == "NoExecute" && spec["deviceSelector"]["device"] == device
        };
        if rules.iter().any(evicts) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let path = format!("/api/v1/namespaces/research/pods/{pod}");
    cluster.send("DELETE", &path, "application/json", &json!({"gracePeriodSeconds": 0})).await;
    cluster.pod_with_device(&format!("{pod}-2"), "node-2", "gpu-0", json!([])).await;
    let path = format!("/api/v1/namespaces/research/pods/{pod}-2/status");
    cluster
        .send("PATCH", &path, "application/merge-patch+json", &json!({"status": {"phase": "Running"}}))
        .await;
}

#[tokio::test]
async fn a_device_is_closed_emptied_and_brought_back() {
    let cluster = Cluster::small().await;
    let words = ["drain", "node-1/gpu-0", "--reason", "fan stands still", "--yes", "--timeout", "5m"];
    let (ran, ()) = tokio::join!(cluster.run(&words), play_controllers(&cluster, "trainer", "gpu-0"));
    assert_eq!(ran.verdict, Ok(Verdict::Yes), "{ran:?}");
    expect![[r#"
        lazaret.dev/drain:NoExecute on 1 device: 1 claim in 1 namespace, 1 of 1 pod would be evicted

        DEVICE                         NODE     STATE
        gpu.example.com/node-1/gpu-0   node-1   InUse

        NAMESPACE   POD       NODE     OWNER         PRIORITY   TOLERATES   EVICTED   BUDGET
        research    trainer   node-1   Job/trainer   0          600s        in 600s   <none>

        estimated duration: 10m until the last pod is gone

        gpu.example.com/node-1/gpu-0 tainted lazaret.dev/drain:NoSchedule (rule node-1-gpu-0-drain-fbe05b95)
        gpu.example.com/node-1/gpu-0 now tainted lazaret.dev/drain:NoExecute (rule node-1-gpu-0-drain-fbe05b95)
        pod research/trainer gone after 0s
        pod research/trainer replaced by research/trainer-2 on node node-2
        1 device drained: 1 pod gone, 1 replaced
    "#]].assert_eq(&ran.out);
    expect![[r#"
        undo: kubectl device uncordon gpu.example.com/node-1/gpu-0
    "#]]
    .assert_eq(&ran.notes);
    expect![[r#"
        gpu.example.com/node-1/gpu-0 uncordoned (rule node-1-gpu-0-drain-fbe05b95 deleted)
    "#]]
    .assert_eq(&cluster.run(&["uncordon", "node-1/gpu-0"]).await.ok());
    assert_eq!(cluster.rules().await, []);
}

#[tokio::test]
async fn devices_go_one_after_the_other_and_a_drain_that_takes_too_long_says_who_is_left() {
    let cluster = Cluster::small().await;
    cluster.pod_with_device("server", "node-1", "gpu-1", json!([])).await;
    let words = [
        "drain",
        "--node",
        "node-1",
        "--reason",
        "x",
        "--yes",
        "--evictions-per-second",
        "1",
        "--timeout",
        "10m",
    ];
    let is_late = |out: &str| {
        let emptied = out.contains("gpu.example.com/node-1/gpu-1 now tainted lazaret.dev/drain:NoExecute");
        emptied && out.contains("pod research/trainer gone")
    };
    let (ran, ()) =
        tokio::join!(cluster.run_until_late(&words, is_late), play_controllers(&cluster, "trainer", "gpu-0"));
    expect![[r#"
        timed out: these pods are still there, and the taint stays:
          research/server
        undo: kubectl device uncordon gpu.example.com/node-1/gpu-0 gpu.example.com/node-1/gpu-1"#]]
    .assert_eq(&ran.verdict.unwrap_err());
    let effects: Vec<Value> =
        cluster.rules().await.iter().map(|(_, spec)| spec["taint"]["effect"].clone()).collect();
    assert_eq!(effects, ["NoExecute", "NoExecute"]);
}

#[tokio::test]
async fn nothing_happens_before_somebody_said_yes() {
    let cluster = Cluster::small().await;
    let words = ["drain", "node-1/gpu-0", "--reason", "x"];
    let ran = cluster.run(&words).await;
    expect![
        "drain 1 device, evicting 1 pod? standard input is not a terminal, so nobody can be asked: add --yes"
    ]
    .assert_eq(&ran.verdict.unwrap_err());
    let cluster = cluster.answering("n\n");
    let ran = cluster.run(&words).await;
    expect![[r#"
        drain 1 device, evicting 1 pod? [y/N] 
        nothing was changed"#]]
    .assert_eq(&format!("{}\n{}", ran.notes, ran.verdict.unwrap_err()));
    let ran = cluster.run(&[&words[..], &["--dry-run"]].concat()).await;
    assert!(ran.out.ends_with("nothing was changed (dry run)\n"), "{}", ran.out);
    assert_eq!(cluster.rules().await, []);
}

#[tokio::test]
async fn who_does_not_wait_is_told_what_is_left_to_do() {
    let cluster = Cluster::small().await.answering("yes\n");
    let ran = cluster.run(&["drain", "node-1/gpu-0", "--reason", "x", "--wait=false"]).await;
    assert!(ran.out.ends_with("1 device draining: 0 pods gone, 1 to go\n"), "{}", ran.out);
}

#[tokio::test]
async fn a_server_that_knows_a_pace_is_told_it() {
    let served = [("resource.k8s.io/v1alpha3", true)];
    let cluster = Cluster::with(lazaret_server::Features::kubernetes_1_37(), &served, vec![]).await;
    cluster.fill().await;
    let words =
        ["drain", "node-1/gpu-0", "--reason", "x", "--yes", "--wait=false", "--evictions-per-second", "3"];
    cluster.run(&words).await.ok();
    let rules = cluster.get("/apis/resource.k8s.io/v1alpha3/devicetaintrules").await;
    assert_eq!(rules["items"][0]["spec"]["taint"]["evictionsPerSecond"], 3);
}

/// Whatever the server, a drain of two devices with a slow pace empties the second one only when the pods of the first had their time.
#[tokio::test]
async fn one_drain_has_one_pace_on_every_server() {
    for served in [&[][..], &[("resource.k8s.io/v1alpha3", true)]] {
        let cluster = Cluster::with(lazaret_server::Features::kubernetes_1_37(), served, vec![]).await;
        cluster.fill().await;
        cluster.pod_with_device("server", "node-1", "gpu-1", json!([])).await;
        let words = ["drain", "--node", "node-1", "--reason", "x", "--yes", "--timeout", "1s"];
        let words = [&words[..], &["--evictions-per-second", "0.001"]].concat();
        let ran = cluster.run_by_the_clock(&words).await;
        assert!(ran.verdict.unwrap_err().starts_with("timed out: "), "{}", ran.out);
        let effects: Vec<Value> =
            cluster.rules().await.iter().map(|(_, spec)| spec["taint"]["effect"].clone()).collect();
        assert_eq!(effects, ["NoExecute", "NoSchedule"], "{served:?}");
    }
}

/// The condition of the rule of a drain, as a controller sets it.
async fn set_drained(cluster: &Cluster, status: &str) {
    loop {
        let rules = cluster.rules().await;
        let evicting = rules.iter().find(|(_, spec)| spec["taint"]["effect"] == "NoExecute");
        if let Some((name, _)) = evicting {
            let condition = json!({"type": "Drained", "status": status, "reason": "Test", "message": "",
                "lastTransitionTime": "2026-01-01T12:00:00Z"});
            let path = format!("/apis/resource.k8s.io/v1/devicetaintrules/{name}/status");
            let patch = json!({"status": {"conditions": [condition]}});
            cluster.send("PATCH", &path, "application/merge-patch+json", &patch).await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_drain_waits_for_the_condition_where_the_controller_sets_one() {
    let words = ["drain", "node-1/gpu-0", "--reason", "x", "--yes", "--timeout", "10m"];
    let cluster = Cluster::small().await;
    let play = async {
        set_drained(&cluster, "False").await;
        play_controllers(&cluster, "trainer", "gpu-0").await;
    };
    let is_late = |out: &str| out.contains("pod research/trainer replaced by");
    let (ran, ()) = tokio::join!(cluster.run_until_late(&words, is_late), play);
    expect![[r#"
        timed out: pods are gone, but 1 device not reported Drained
        undo: kubectl device uncordon gpu.example.com/node-1/gpu-0"#]]
    .assert_eq(&ran.verdict.unwrap_err());
    let cluster = Cluster::small().await;
    let play = async {
        set_drained(&cluster, "False").await;
        play_controllers(&cluster, "trainer", "gpu-0").await;
        set_drained(&cluster, "True").await;
    };
    let (ran, ()) = tokio::join!(cluster.run(&words[..5]), play);
    assert_eq!(ran.verdict, Ok(Verdict::Yes), "{ran:?}");
}

#[tokio::test]
async fn pods_that_nothing_runs_in_place_of_are_named_with_the_schedulers_reason() {
    let cluster = Cluster::small().await;
    let play = async {
        set_drained(&cluster, "True").await;
        let owner =
            cluster.get("/api/v1/namespaces/research/pods/trainer").await["metadata"]["ownerReferences"]
                .clone();
        let pod = json!({"metadata": {"name": "trainer-2", "ownerReferences": owner}, "spec": {
            "containers": [{"name": "c", "image": "i"}], "resourceClaims": [{"name": "gpu", "resourceClaimName": "none"}]}});
        cluster.post("/api/v1/namespaces/research/pods", pod).await;
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/2 nodes are available: 2 cannot allocate all claims."});
        let path = "/api/v1/namespaces/research/pods/trainer-2/status";
        let patch = json!({"status": {"phase": "Pending", "conditions": [condition]}});
        cluster.send("PATCH", path, "application/merge-patch+json", &patch).await;
        // Last: whoever has heard of it has heard of the other.
        let path = "/api/v1/namespaces/research/pods/trainer";
        cluster.send("DELETE", path, "application/json", &json!({"gracePeriodSeconds": 0})).await;
    };
    let words = ["drain", "node-1/gpu-0", "--reason", "x", "--yes", "--timeout", "10m"];
    let is_late = |out: &str| out.contains("pod research/trainer gone");
    let (ran, ()) = tokio::join!(cluster.run_until_late(&words, is_late), play);
    assert_eq!(ran.verdict, Ok(Verdict::No), "{ran:?}");
    assert!(
        ran.out.ends_with(
            "1 device drained: 1 pod gone, 1 Pending\n\
             pod research/trainer-2 is Pending: 0/2 nodes are available: 2 cannot allocate all claims.\n"
        ),
        "{}",
        ran.out
    );
}

#[tokio::test]
async fn progress_is_a_line_that_is_written_over_on_a_terminal() {
    let cluster = Cluster::small().await.on_terminal(100);
    let words = ["drain", "node-1/gpu-0", "--reason", "x", "--yes", "--grace", "1h", "--timeout", "1s"];
    let ran = cluster.run_by_the_clock(&words).await;
    assert!(ran.verdict.is_err());
    let line = ran.notes.split("\r\u{1b}[K").find(|line| line.contains("elapsed"));
    assert!(
        line.is_some_and(|line| line.contains("s elapsed: grace period: pods are evicted in ")),
        "{:?}",
        ran.notes
    );
    let cluster = Cluster::small().await;
    let ran = cluster.run_by_the_clock(&words).await;
    assert!(!ran.notes.contains('\r'), "{:?}", ran.notes);
}
