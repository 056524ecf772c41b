//! Servers on which a feature gate of device taints is off: what it turns off is shown as having no effect, and no rule is written that does nothing.

use expect_test::expect;
use lazaret_device::Verdict;
use lazaret_server::Features;
use serde_json::{Value, json};

use crate::support::{Cluster, without_times};

const TAINTS_OFF: &str = "DRADeviceTaints=false,DRADeviceTaintRules=false";
const RULES_OFF: &str = "DRADeviceTaintRules=false";
const SLICE: &str = "/apis/resource.k8s.io/v1/resourceslices/node-2-gpus";

/// The small cluster with a rule of NoExecute for `gpu-0` of `node-1`, which a pod uses, and a driver's NoSchedule on both devices of `node-2`, written while
/// everything was on; then started again with these gates.
async fn cluster_with(gates: &str) -> Cluster {
    let cluster = Cluster::small().await;
    cluster.run(&["taint", "node-1/gpu-0", "fan:NoExecute", "--reason", "loud"]).await.ok();
    let mut slice = cluster.get(SLICE).await;
    for device in 0..2 {
        slice["spec"]["devices"][device]["taints"] =
            json!([{"key": "ecc", "effect": "NoSchedule", "timeAdded": "2026-01-01T11:00:00Z"}]);
    }
    cluster.send("PUT", SLICE, "application/json", &slice).await;
    let mut features = Features::kubernetes_1_37();
    features.parse(gates).unwrap();
    cluster.restarted(features, &[], vec![])
}

#[tokio::test]
async fn without_taints_every_device_can_be_had() {
    let cluster = cluster_with(TAINTS_OFF).await;
    let ran = cluster.run(&["list"]).await;
    expect![[r#"
        NAME                           NODE     MODEL   STATE   TAINTS                                         HOLDER
        gpu.example.com/node-1/gpu-0   node-1   A100    InUse   fan:NoExecute (rule, no effect)                research/trainer
        gpu.example.com/node-1/gpu-1   node-1   A100    Free    gpu.example.com/hot:None (driver, no effect)   <none>
        gpu.example.com/node-2/gpu-0   node-2   A100    Free    ecc:NoSchedule (driver, no effect)             <none>
        gpu.example.com/node-2/gpu-1   node-2   A100    Free    ecc:NoSchedule (driver, no effect)             <none>
    "#]].assert_eq(&ran.out);
    expect![[r#"
        feature gate DRADeviceTaints is off on this server: device taints have no effect
    "#]]
    .assert_eq(&ran.notes);
    let listed: Value = serde_json::from_str(&cluster.run(&["list", "-o", "json"]).await.ok()).unwrap();
    assert_eq!(listed["items"][0]["state"], "InUse");
    assert_eq!(listed["items"][0]["taints"][0]["noEffect"], "feature gate DRADeviceTaints is off");
    let described = cluster.run(&["describe", "node-1/gpu-0"]).await.ok();
    expect![[r#"
        Name:         gpu.example.com/node-1/gpu-0
        Driver:       gpu.example.com
        Pool:         node-1
        Device:       gpu-0
        Node:         node-1
        Model:        A100
        State:        InUse
        Slice:        node-1-gpus
        Attributes:
          driverVersion: 1.2.3
          index:         0
          model:         A100
        Capacity:
          memory: 40Gi
        Taints:
          fan:NoExecute
            From:    DeviceTaintRule node-1-gpu-0-fan-noexecute-847a5f01
            Since:   SOME ago
            Effect:  none, because feature gate DRADeviceTaints is off
            Set by:  ada@example.com
            Reason:  loud
        Held by:
          claim research/trainer-gpu, pods trainer
        If NoExecute: no pod would be evicted, because feature gate DRADeviceTaints is off
        History:
          SOME ago: gpu.example.com/node-1/gpu-0 tainted fan:NoExecute (rule node-1-gpu-0-fan-noexecute-847a5f01) by ada@example.com: loud (no effect: feature gate DRADeviceTaints is off)
    "#]].assert_eq(&without_times(&described));
    let why = cluster.run(&["why", "research/trainer"]).await.ok();
    expect![[r#"
        pod research/trainer runs on node node-1 and is not being evicted
          device gpu.example.com/node-1/gpu-0 is tainted fan:NoExecute by rule node-1-gpu-0-fan-noexecute-847a5f01, which has no effect because feature gate DRADeviceTaints is off
    "#]].assert_eq(&why);
    let plan = cluster.run(&["plan", "node-1/gpu-0", "a:NoExecute"]).await.ok();
    expect![[r#"
        a:NoExecute on 1 device: 1 claim in 1 namespace, 0 of 1 pod would be evicted
        a rule with this taint would have no effect: feature gate DRADeviceTaints is off

        DEVICE                         NODE     STATE
        gpu.example.com/node-1/gpu-0   node-1   InUse

        NAMESPACE   POD       NODE     OWNER         PRIORITY   TOLERATES   EVICTED   BUDGET
        research    trainer   node-1   Job/trainer   0          600s        never     <none>
    "#]]
    .assert_eq(&plan);
    let history = cluster.run(&["history", "node-2/gpu-0"]).await.ok();
    expect![[r#"
        AGE   WHAT                                                              BY           REASON   KEPT
        60m   gpu.example.com/node-2/gpu-0 tainted ecc:NoSchedule (no effect)   its driver   <none>   with the taint
    "#]].assert_eq(&history);
}

#[tokio::test]
async fn without_rules_the_taints_of_drivers_stay_in_force() {
    let cluster = cluster_with(RULES_OFF).await;
    let ran = cluster.run(&["list"]).await;
    expect![[r#"
        NAME                           NODE     MODEL   STATE     TAINTS                              HOLDER
        gpu.example.com/node-1/gpu-0   node-1   A100    InUse     fan:NoExecute (rule, no effect)     research/trainer
        gpu.example.com/node-1/gpu-1   node-1   A100    Free      gpu.example.com/hot:None (driver)   <none>
        gpu.example.com/node-2/gpu-0   node-2   A100    Tainted   ecc:NoSchedule (driver)             <none>
        gpu.example.com/node-2/gpu-1   node-2   A100    Tainted   ecc:NoSchedule (driver)             <none>
    "#]].assert_eq(&ran.out);
    expect![[r#"
        feature gate DRADeviceTaintRules is off on this server: DeviceTaintRules have no effect
    "#]]
    .assert_eq(&ran.notes);
    let described = cluster.run(&["describe", "node-1/gpu-0"]).await.ok();
    // A driver's taint would evict the pod.
    assert!(
        described.contains("    Effect:  none, because feature gate DRADeviceTaintRules is off\n"),
        "{described}"
    );
    assert!(described.contains("would be evicted after 600s"), "{described}");
    let checked = cluster.run(&["check"]).await;
    assert_eq!(checked.verdict, Ok(Verdict::No));
    let about: Vec<&str> = checked
        .out
        .lines()
        .filter(|line| ["gate", "healthy", "toleration", "turn it on"].iter().any(|word| line.contains(word)))
        .filter(|line| !line.contains("clocks"))
        .collect();
    expect![[r#"
        √ feature gate DRADeviceTaints: on
        × feature gate DRADeviceTaintRules: off, so DeviceTaintRules have no effect
            turn it on in API server, scheduler and controller manager
        ‼ drivers report every device healthy: gpu.example.com/node-1/gpu-1 (gpu.example.com/hot:None for 60m), gpu.example.com/node-2/gpu-0 (ecc:NoSchedule for 60m), gpu.example.com/node-2/gpu-1 (ecc:NoSchedule for 60m)
        tolerations
        √ no toleration ends within the hour"#]].assert_eq(&about.join("\n"));
}

/// A pod that waits for a tainted device does not wait for the taint once that has no effect.
#[tokio::test]
async fn a_taint_without_effect_is_no_reason_to_wait() {
    for (gates, waits) in [("", true), (TAINTS_OFF, false)] {
        let cluster = cluster_with(gates).await;
        cluster
            .post(
                "/apis/resource.k8s.io/v1/namespaces/research/resourceclaims",
                json!({"metadata": {"name": "two"}, "spec": {"devices": {"requests": [
                    {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 2}}]}}}),
            )
            .await;
        cluster
            .post(
                "/api/v1/namespaces/research/pods",
                json!({"metadata": {"name": "big"}, "spec": {"containers": [{"name": "c", "image": "i"}],
                    "resourceClaims": [{"name": "gpu", "resourceClaimName": "two"}]}}),
            )
            .await;
        let why = cluster.run(&["why", "research/big"]).await.ok();
        assert_eq!(why.contains("tainted ecc:NoSchedule"), waits, "{gates}: {why}");
        assert_eq!(
            why.contains("waits, but not for devices: node node-2 has all that it asks for"),
            !waits,
            "{gates}: {why}"
        );
    }
}

#[tokio::test]
async fn no_rule_is_written_that_does_nothing() {
    for (gates, gate) in [(RULES_OFF, "DRADeviceTaintRules"), (TAINTS_OFF, "DRADeviceTaints")] {
        let cluster = cluster_with(gates).await;
        let before = cluster.rules().await;
        for words in [
            &["drain", "node-1/gpu-0", "--reason", "x", "--yes"][..],
            &["drain", "node-1/gpu-0", "--reason", "x", "--dry-run=client"],
            &["cordon", "node-1/gpu-1"],
            &["taint", "node-1/gpu-1", "a:NoSchedule"],
        ] {
            let refused = cluster.run(words).await.error();
            let wanted = format!(
                "nothing was written: the feature gate {gate} is off on this server (it runs v1.37.0+lazaret-0.1.0), so a DeviceTaintRule has no effect; turn the gate on in API server, scheduler and controller manager"
            );
            assert_eq!(refused, wanted, "{words:?}");
        }
        assert_eq!(cluster.rules().await, before);
        // Existing taints can be removed.
        cluster.run(&["taint", "node-1/gpu-0", "fan-"]).await.ok();
        assert_eq!(cluster.rules().await, []);
    }
}

#[tokio::test]
async fn a_drained_device_is_brought_back_while_rules_are_off() {
    let cluster = Cluster::small().await;
    cluster.run(&["cordon", "node-2/gpu-0"]).await.ok();
    let mut features = Features::kubernetes_1_37();
    features.parse(RULES_OFF).unwrap();
    let cluster = cluster.restarted(features, &[], vec![]);
    let ran = cluster.run(&["uncordon", "node-2/gpu-0"]).await;
    assert_eq!(
        ran.out,
        "gpu.example.com/node-2/gpu-0 uncordoned (rule node-2-gpu-0-drain-7a10a023 deleted)\n"
    );
    assert_eq!(cluster.rules().await, []);
}

/// A user who may not read the gates gets a note where the release has them off by default, and sees taints as the objects have them.
#[tokio::test]
async fn gates_that_may_not_be_read_are_unknown() {
    let cluster = cluster_with("").await;
    let features = Features::of("1.36".parse().unwrap());
    let cluster = cluster.restarted(features, &[("resource.k8s.io/v1beta2", true)], vec!["get /metrics"]);
    let ran = cluster.run(&["list", "--tainted"]).await;
    assert!(ran.out.contains("fan:NoExecute (rule) "), "{}", ran.out);
    expect![[r#"
        the server does not say whether feature gate DRADeviceTaintRules is on: this user may not read /metrics; it is off by default in 1.36, and then DeviceTaintRules have no effect
    "#]].assert_eq(&ran.notes);
    let checked = cluster.run(&["check"]).await;
    let about: Vec<&str> = checked.out.lines().filter(|line| line.contains("feature gate")).collect();
    expect![[r#"
        ? feature gate DRADeviceTaints: unknown, because this user may not read /metrics
        ? feature gate DRADeviceTaintRules: unknown, because this user may not read /metrics"#]]
    .assert_eq(&about.join("\n"));
    let cluster = cluster.restarted(Features::kubernetes_1_37(), &[], vec!["get /metrics"]);
    let ran = cluster.run(&["list", "--tainted"]).await;
    assert!(ran.verdict.is_ok());
    assert_eq!(ran.notes, "", "on by default: nothing to say");
}
