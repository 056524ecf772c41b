//! `kubectl device describe`.

use expect_test::expect;

use crate::support::{Cluster, without_times};

#[tokio::test]
async fn everything_about_one_device() {
    let cluster = Cluster::small().await;
    cluster
        .run(&["taint", "node-1/gpu-0", "example.com/fan=slow:NoSchedule", "--reason", "fan stands still"])
        .await
        .ok();
    let printed = cluster.run(&["describe", "gpu.example.com/node-1/gpu-0"]).await.ok();
    expect![[r#"
        Name:         gpu.example.com/node-1/gpu-0
        Driver:       gpu.example.com
        Pool:         node-1
        Device:       gpu-0
        Node:         node-1
        Model:        A100
        State:        InUse,Tainted
        Slice:        node-1-gpus
        Attributes:
          driverVersion: 1.2.3
          index:         0
          model:         A100
        Capacity:
          memory: 40Gi
        Taints:
          example.com/fan=slow:NoSchedule
            From:    DeviceTaintRule node-1-gpu-0-fan-noschedule-58f28d3b
            Since:   SOME ago
            Set by:  ada@example.com
            Reason:  fan stands still
        Held by:
          claim research/trainer-gpu, pods trainer
        If NoExecute:
          pod research/trainer of Job/trainer would be evicted after 600s
        History:
          SOME ago: gpu.example.com/node-1/gpu-0 tainted example.com/fan=slow:NoSchedule (rule node-1-gpu-0-fan-noschedule-58f28d3b) by ada@example.com: fan stands still
    "#]].assert_eq(&without_times(&printed));
    expect![[r#"
        Name:         gpu.example.com/node-1/gpu-1
        Driver:       gpu.example.com
        Pool:         node-1
        Device:       gpu-1
        Node:         node-1
        Model:        A100
        State:        Free
        Slice:        node-1-gpus
        Attributes:
          driverVersion: 1.2.3
          index:         1
          model:         A100
        Capacity:
          memory: 40Gi
        Taints:
          gpu.example.com/hot:None
            From:    ResourceSlice node-1-gpus
            Since:   60m ago
        Held by:      <none>
        If NoExecute: no pod would be evicted
        History:
          60m ago: gpu.example.com/node-1/gpu-1 tainted gpu.example.com/hot:None by its driver
    "#]]
    .assert_eq(&cluster.run(&["describe", "node-1/gpu-1"]).await.ok());
}

#[tokio::test]
async fn programs_read_attributes_with_their_types() {
    let cluster = Cluster::small().await;
    let printed = cluster.run(&["describe", "node-1/gpu-1", "-o", "json"]).await.ok();
    let described: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(
        described["attributes"],
        serde_json::json!({"model": {"string": "A100"}, "index": {"int": 1}, "driverVersion": {"version": "1.2.3"}})
    );
    assert_eq!(described["capacity"], serde_json::json!({"memory": {"value": "40Gi"}}));
}
