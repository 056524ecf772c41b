//! `kubectl device why`, `history` and `check`.

use expect_test::expect;
use lazaret_device::Verdict;
use serde_json::json;

use crate::support::{Cluster, without_times};

/// A pod that wants two GPUs of a node where one is tainted and the other in use.
async fn waiting() -> Cluster {
    let cluster = Cluster::small().await;
    for device in ["gpu-0", "gpu-1"] {
        let name = format!("node-2/{device}");
        cluster
            .run(&["taint", &name, "example.com/fan:NoSchedule", "--reason", "fan stands still"])
            .await
            .ok();
    }
    let claim = json!({"metadata": {"name": "two"}, "spec": {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": "gpu", "count": 2}}]}}});
    cluster.post("/apis/resource.k8s.io/v1/namespaces/research/resourceclaims", claim).await;
    let pod = json!({"metadata": {"name": "big"}, "spec": {"containers": [{"name": "c", "image": "i"}], "resourceClaims": [{"name": "gpus", "resourceClaimName": "two"}]}});
    cluster.post("/api/v1/namespaces/research/pods", pod).await;
    cluster
}

#[tokio::test]
async fn a_pod_that_waits_is_told_for_what_and_who_is_to_blame() {
    let cluster = waiting().await;
    expect![[r#"
        pod research/big waits for devices that none of 2 nodes can offer
          node node-2:
            claim research/two request gpus wants 2, 0 suitable
              1 tainted example.com/fan:NoSchedule by rule node-2-gpu-0-fan-noschedule-e996067a
              1 tainted example.com/fan:NoSchedule by rule node-2-gpu-1-fan-noschedule-8740e699
          node node-1:
            claim research/two request gpus wants 2, 1 suitable
              1 in use
          taints in the way:
            example.com/fan:NoSchedule from DeviceTaintRule node-2-gpu-0-fan-noschedule-e996067a, set by ada@example.com: fan stands still
            example.com/fan:NoSchedule from DeviceTaintRule node-2-gpu-1-fan-noschedule-8740e699, set by ada@example.com: fan stands still
    "#]].assert_eq(&cluster.run(&["why", "big", "-n", "research"]).await.ok());
    let printed = cluster.run(&["why", "research/big", "-o", "json"]).await.ok();
    let why: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(why["taints"][0]["reason"], "fan stands still");
    assert_eq!(why["taints"][0]["setBy"], "ada@example.com");
}

#[tokio::test]
async fn a_pod_that_runs_hears_what_its_devices_suffer() {
    let cluster = Cluster::small().await;
    cluster.run(&["taint", "node-1/gpu-0", "example.com/fan:NoSchedule"]).await.ok();
    expect![[r#"
        pod research/trainer runs on node node-1 and is not being evicted
          device gpu.example.com/node-1/gpu-0 is tainted example.com/fan:NoSchedule by rule node-1-gpu-0-fan-noschedule-58f28d3b, which evicts no pod
    "#]].assert_eq(&cluster.run(&["why", "trainer", "-n", "research"]).await.ok());
}

#[tokio::test]
async fn a_pod_that_had_to_leave_is_told_by_whom_even_when_it_is_gone() {
    let cluster = Cluster::small().await;
    cluster
        .run(&["taint", "node-1/gpu-0", "example.com/fan:NoExecute", "--reason", "fan stands still"])
        .await
        .ok();
    let rule = cluster.rules().await[0].0.clone();
    let event = json!({
        "metadata": {"name": "trainer.1", "namespace": "research"},
        "involvedObject": {"kind": "Pod", "namespace": "research", "name": "trainer", "uid": "gone"},
        "reason": "DeviceTaintManagerEviction", "type": "Normal", "lastTimestamp": "2026-01-01T11:50:00Z", "source": {"component": "device-taint-eviction"},
        "message": format!("Must leave its device. DeviceTaintRule {rule} (uid 1): taint example.com/fan:NoExecute on device gpu.example.com/node-1/gpu-0."),
    });
    cluster.post("/api/v1/namespaces/research/events", event).await;
    cluster
        .send(
            "DELETE",
            "/api/v1/namespaces/research/pods/trainer",
            "application/json",
            &json!({"gracePeriodSeconds": 0}),
        )
        .await;
    expect![[r#"
        pod research/trainer is gone: it was evicted because of a device taint
          10m ago: Must leave its device. DeviceTaintRule node-1-gpu-0-fan-noexecute-89606d66 (uid 1): taint example.com/fan:NoExecute on device gpu.example.com/node-1/gpu-0.
            example.com/fan:NoExecute from DeviceTaintRule node-1-gpu-0-fan-noexecute-89606d66, set by ada@example.com: fan stands still
    "#]].assert_eq(&cluster.run(&["why", "trainer", "-n", "research"]).await.ok());
    expect![[r#"
        AGE   WHAT                                                                                                                                                                                        BY                      REASON             KEPT
        10m   pod research/trainer evicted (Must leave its device. DeviceTaintRule node-1-gpu-0-fan-noexecute-89606d66 (uid 1): taint example.com/fan:NoExecute on device gpu.example.com/node-1/gpu-0)   device-taint-eviction   <none>             with the event
        0s    gpu.example.com/node-1/gpu-0 tainted example.com/fan:NoExecute (rule node-1-gpu-0-fan-noexecute-89606d66)                                                                                   ada@example.com         fan stands still   with the taint
    "#]].assert_eq(&without_times(&cluster.run(&["history", "node-1/gpu-0"]).await.ok()));
    assert_eq!(without_times(&cluster.run(&["history", "node-2/gpu-0"]).await.ok()), "");
}

#[tokio::test]
async fn a_pod_whose_eviction_is_blocked_hears_by_what_in_the_words_of_the_rule() {
    let cluster = Cluster::small().await;
    cluster.pod_with_device("server", "node-2", "gpu-0", json!([])).await;
    cluster.run(&["taint", "node-2/gpu-0", "example.com/fan:NoExecute", "--reason", "x"]).await.ok();
    let rule = cluster.rules().await[0].0.clone();
    // By the clock of the test, the taint has been there for an hour.
    let path = format!("/apis/resource.k8s.io/v1/devicetaintrules/{rule}");
    let earlier = json!({"spec": {"taint": {"timeAdded": "2026-01-01T11:00:00Z"}}});
    cluster.send("PATCH", &path, "application/merge-patch+json", &earlier).await;
    let path = format!("{path}/status");
    let condition = json!({
        "type": "EvictionBlocked", "status": "True", "reason": "Budget", "lastTransitionTime": "2026-01-01T12:00:00Z",
        "message": "Budget: 1 pod not evicted (research/server): The disruption budget one-server needs 1 healthy pods and has 1 currently.",
    });
    let status = json!({"status": {"conditions": [condition]}});
    cluster.send("PATCH", &path, "application/merge-patch+json", &status).await;
    expect![[r#"
        pod research/server runs on node node-2 and is not being evicted
          eviction by rule node-2-gpu-0-fan-noexecute-9d79fa62 is blocked (Budget): 1 pod not evicted (research/server): The disruption budget one-server needs 1 healthy pods and has 1 currently; it goes on when the disruption budget permits it
          device gpu.example.com/node-2/gpu-0 is tainted example.com/fan:NoExecute by rule node-2-gpu-0-fan-noexecute-9d79fa62, for which it is due to be evicted
    "#]]
    .assert_eq(&cluster.run(&["why", "server", "-n", "research"]).await.ok());
    let printed = cluster.run(&["why", "research/server", "-o", "json"]).await.ok();
    let why: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(why["blocked"][0]["reason"], "Budget");
}

#[tokio::test]
async fn where_the_controller_does_not_say_for_which_taint_the_likely_ones_are_named() {
    let cluster = Cluster::small().await;
    cluster.run(&["taint", "node-1/gpu-0", "a:NoExecute", "--reason", "x"]).await.ok();
    cluster.run(&["taint", "node-1/gpu-0", "a-"]).await.ok();
    let event = json!({
        "metadata": {"name": "trainer.1", "namespace": "research"},
        "involvedObject": {"kind": "Pod", "namespace": "research", "name": "gone", "uid": "gone"},
        "reason": "DeviceTaintManagerEviction", "type": "Normal", "lastTimestamp": "2026-01-01T12:00:01Z", "message": "Marking for deletion",
    });
    cluster.post("/api/v1/namespaces/research/events", event).await;
    expect![[r#"
        pod research/gone is gone: it was evicted because of a device taint
          0s ago: Marking for deletion
          whoever evicted it did not say for which taint; these were set shortly before:
          gpu.example.com/node-1/gpu-0 tainted a:NoExecute (rule node-1-gpu-0-a-noexecute-16224e38)
    "#]]
    .assert_eq(&cluster.run(&["why", "research/gone"]).await.ok());
}

/// A policy whose status says this of pods.
async fn policy(cluster: &Cluster, pods: serde_json::Value) {
    let path = "/apis/lazaret.dev/v1alpha1/namespaces/research/taintreplacementpolicies";
    let policy = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "TaintReplacementPolicy", "metadata": {"name": "storage"},
        "spec": {"podSelector": {}},
    });
    cluster.post(path, policy).await;
    let path = format!("{path}/storage/status");
    cluster.send("PATCH", &path, "application/merge-patch+json", &json!({"status": {"pods": pods}})).await;
}

#[tokio::test]
async fn a_pod_on_a_taint_is_told_what_a_policy_does_about_it() {
    let cluster = Cluster::small().await;
    let line = |pod: &str, condition: &str| {
        json!({
            "pod": pod, "uid": "u", "node": "node-1", "taintKey": "example.org/disconnected", "condition": condition,
            "since": "2026-01-01T11:58:00Z", "due": "2026-01-01T11:59:30Z", "replaceAfter": "2026-01-01T12:00:30Z",
        })
    };
    let mut held = line("held", "NodeTaintReplacing");
    held["replaceAfter"] = "2026-01-01T11:59:59Z".into();
    held["message"] = "held back by a disruption budget".into();
    let mut going = line("going", "DeviceTaintReplacing");
    going["device"] = "gpu.example.com/node-1/gpu-0".into();
    going["replacement"] = "going-r1".into();
    let marked = line("trainer", "NodeTaintReplacing");
    policy(&cluster, json!([line("plain", "NodeTaintDetected"), marked, held, going])).await;
    expect![[r#"
        pod research/plain is to be replaced if the taint stays: node node-1 is tainted example.org/disconnected
          TaintReplacementPolicy storage: NodeTaintDetected, example.org/disconnected on node node-1 has counted for 2m; to be replaced in 30 s at the earliest
    "#]].assert_eq(&cluster.run(&["why", "research/plain"]).await.ok());
    expect![[r#"
        pod research/trainer is to be replaced: node node-1 is tainted example.org/disconnected
          TaintReplacementPolicy storage: NodeTaintReplacing, example.org/disconnected on node node-1 has counted for 2m; to be replaced in 30 s at the earliest
    "#]].assert_eq(&cluster.run(&["why", "research/trainer"]).await.ok());
    expect![[r#"
        pod research/held is to be replaced: node node-1 is tainted example.org/disconnected
          TaintReplacementPolicy storage: NodeTaintReplacing, example.org/disconnected on node node-1 has counted for 2m; to be replaced as soon as its turn comes (held back by a disruption budget)
    "#]].assert_eq(&cluster.run(&["why", "research/held"]).await.ok());
    expect![[r#"
        pod research/going is being replaced: device gpu.example.com/node-1/gpu-0 is tainted example.org/disconnected
          TaintReplacementPolicy storage: DeviceTaintReplacing, example.org/disconnected on device gpu.example.com/node-1/gpu-0 has counted for 2m; going-r1 takes its place
    "#]].assert_eq(&cluster.run(&["why", "research/going"]).await.ok());
}

#[tokio::test]
async fn a_pod_that_was_replaced_is_told_by_what_even_when_it_is_gone() {
    let cluster = Cluster::small().await;
    for (number, reason, message) in [
        (
            1,
            "TaintReplacementStarted",
            "taint k:NoSchedule on node node-1: released from ReplicaSet web, which starts another first",
        ),
        (2, "TaintReplaced", "replaced by web-2"),
    ] {
        let event = json!({
            "metadata": {"name": format!("web-1.{number}"), "namespace": "research"},
            "involvedObject": {"kind": "Pod", "namespace": "research", "name": "web-1", "uid": "gone"},
            "reason": reason, "type": "Normal", "lastTimestamp": format!("2026-01-01T11:50:0{number}Z"), "message": message,
        });
        cluster.post("/api/v1/namespaces/research/events", event).await;
    }
    expect![[r#"
        pod research/web-1 is gone: it was replaced because of a taint
          TaintReplacementStarted: taint k:NoSchedule on node node-1: released from ReplicaSet web, which starts another first
          TaintReplaced: replaced by web-2
    "#]].assert_eq(&cluster.run(&["why", "research/web-1"]).await.ok());
}

#[tokio::test]
async fn a_pod_that_nobody_knows() {
    let cluster = Cluster::small().await;
    expect![[r#"
        no pod research/trainr, and no event about its eviction; nearest names:
          research/trainer"#]]
    .assert_eq(&cluster.run(&["why", "trainr", "-n", "research"]).await.error());
    let plain = json!({"metadata": {"name": "plain"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.post("/api/v1/namespaces/default/pods", plain).await;
    expect!["pod default/plain uses no devices, and no TaintReplacementPolicy applies to it"]
        .assert_eq(&cluster.run(&["why", "plain"]).await.error());
}

#[tokio::test]
async fn history_keeps_what_the_record_tells_of_removed_taints() {
    let cluster = Cluster::small().await;
    cluster.run(&["taint", "node-1/gpu-0", "a:NoSchedule", "--reason", "a test"]).await.ok();
    cluster.run(&["taint", "node-1/gpu-0", "a-"]).await.ok();
    let ran = cluster.run(&["history"]).await;
    expect![[r#"
        AGE   WHAT                                                                                                    BY                REASON   KEPT
        0s    gpu.example.com/node-1/gpu-0 tainted a:NoSchedule (rule node-1-gpu-0-a-noschedule-4a797de5)             ada@example.com   a test   in the record
        0s    gpu.example.com/node-1/gpu-0 no longer tainted a:NoSchedule (rule node-1-gpu-0-a-noschedule-4a797de5)   ada@example.com   <none>   in the record
    "#]].assert_eq(&without_times(&ran.out));
    assert_eq!(ran.notes, "", "the record outlives events: there is nothing to warn of");
    let printed = cluster.run(&["history", "-o", "json"]).await.ok();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&printed).unwrap()["entries"].as_array().unwrap().len(),
        2
    );
}

async fn post_rules_to_look_at(cluster: &Cluster) {
    for (name, spec) in [
        ("everything", json!({"deviceSelector": {}, "taint": {"key": "a", "effect": "None"}})),
        (
            "nothing",
            json!({"deviceSelector": {"pool": "node-9"}, "taint": {"key": "a", "effect": "NoSchedule"}}),
        ),
        (
            "unexplained",
            json!({"deviceSelector": {"pool": "node-1"}, "taint": {"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T11:55:00Z"}}),
        ),
    ] {
        cluster
            .post(
                "/apis/resource.k8s.io/v1/devicetaintrules",
                json!({"metadata": {"name": name}, "spec": spec}),
            )
            .await;
    }
}

#[tokio::test]
async fn what_may_be_wrong_is_found_and_failures_are_an_exit_code() {
    let cluster = Cluster::small().await;
    let ran = cluster.run(&["check"]).await;
    assert_eq!(ran.verdict, Ok(Verdict::Yes));
    expect![[r#"
        api
        ---
        √ the API server answers: v1.37.0+lazaret-0.1.0
        √ resource.k8s.io is served: v1
        √ DeviceTaintRules are served: v1
        √ feature gate DRADeviceTaints: on
        √ feature gate DRADeviceTaintRules: on

        permissions
        -----------
        √ may see devices
        √ may act on devices

        drivers
        -------
        √ drivers have published devices: gpu.example.com
        ‼ nodes of devices exist and are Ready: gpu.example.com/node-1 (node node-1 is not Ready), gpu.example.com/node-2 (node node-2 is not Ready)
            their drivers cannot report: what the slices say may be out of date
        √ pools are complete
        √ pools are valid
        √ devices in use are still published

        devices
        -------
        ‼ drivers report every device healthy: gpu.example.com/node-1/gpu-1 (gpu.example.com/hot:None for 60m)
            `kubectl device describe` shows the taint, `kubectl device drain` takes the device out of service
        √ no ResourceSlicePatch taints a device
        √ every device has an identity of its own
        √ every object could be read

        rules
        -----
        √ every rule selects a device
        √ no rule selects every device
        √ rules can be evaluated
        √ rules that evict pods say why

        tolerations
        -----------
        √ no toleration ends within the hour

        incidents
        ---------
        √ no device has an open incident

        installation
        ------------
        √ the release is one that Lazaret was tried with: 1.37
        √ Lazaret's own kinds are defined
        ‼ clocks agree: this machine is more than a day behind the server
            set the clocks by NTP: taints and tolerations count seconds
        ? components are available: Lazaret's controllers are not installed from its chart
        √ drivers and node agents run on their nodes
        √ pods find the scheduler that they name
        √ admission policies are in force
        √ one process leads
        √ leases are renewed
        √ policies are in effect
        ? one controller evicts pods from tainted devices: no eviction was seen in the events there are

        No failures, 3 warnings.
    "#]].assert_eq(&ran.out);
    post_rules_to_look_at(&cluster).await;
    let ran = cluster.run(&["check"]).await;
    assert_eq!(ran.verdict, Ok(Verdict::Yes));
    let worth_a_look: Vec<&str> = ran.out.lines().filter(|line| line.starts_with('‼')).collect();
    expect![[r#"
        ‼ nodes of devices exist and are Ready: gpu.example.com/node-1 (node node-1 is not Ready), gpu.example.com/node-2 (node node-2 is not Ready)
        ‼ drivers report every device healthy: gpu.example.com/node-1/gpu-1 (gpu.example.com/hot:None for 60m)
        ‼ every rule selects a device: nothing (*/node-9/*)
        ‼ no rule selects every device: everything (a:None)
        ‼ rules that evict pods say why: unexplained
        ‼ no toleration ends within the hour: research/trainer (in 300s)
        ‼ clocks agree: this machine is more than a day behind the server"#]].assert_eq(&worth_a_look.join("\n"));
    let refused = Cluster::with(
        lazaret_server::Features::kubernetes_1_37(),
        &[("resource.k8s.io/v1", false), ("resource.k8s.io/v1beta1", true)],
        vec![],
    )
    .await;
    let ran = refused.run(&["check", "-o", "json"]).await;
    assert_eq!(ran.verdict, Ok(Verdict::No), "{ran:?}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&ran.out).unwrap()["ok"], false);
}

#[tokio::test]
async fn a_pod_with_classic_claims_is_told_how_far_each_is() {
    let cluster = Cluster::small().await;
    let claim = json!({"metadata": {"name": "shared"}, "spec": {"resourceClassName": "acme-gpu"}});
    cluster.post("/apis/cdi.k8s.io/v1alpha1/namespaces/research/resourceclaims", claim).await;
    let claims = json!([
        {"name": "own", "template": {"resourceClassName": "acme-gpu"}},
        {"name": "shared", "classicClaimName": "shared"},
    ]);
    let pod = json!({"metadata": {"name": "fabric"}, "spec": {"containers": [{"name": "c", "image": "i"}], "resourceClaims": claims}});
    cluster.post("/api/v1/namespaces/research/pods", pod).await;
    expect![[r#"
        pod research/fabric waits for its classic claims
          classic claim fabric-own: not found
          classic claim shared: pending, of class acme-gpu
    "#]]
    .assert_eq(&cluster.run(&["why", "fabric", "-n", "research"]).await.ok());
}
