//! `kubectl device list`.

use expect_test::expect;
use lazaret_device::Verdict;

use crate::support::Cluster;

#[tokio::test]
async fn every_device_with_its_state_taints_and_holder() {
    let cluster = Cluster::small().await;
    expect![[r#"
        NAME                           NODE     MODEL   STATE   TAINTS                              HOLDER
        gpu.example.com/node-1/gpu-0   node-1   A100    InUse   <none>                              research/trainer
        gpu.example.com/node-1/gpu-1   node-1   A100    Free    gpu.example.com/hot:None (driver)   <none>
        gpu.example.com/node-2/gpu-0   node-2   A100    Free    <none>                              <none>
        gpu.example.com/node-2/gpu-1   node-2   A100    Free    <none>                              <none>
    "#]].assert_eq(&cluster.run(&["list"]).await.ok());
    expect![[r#"
        NAME                           NODE     MODEL   STATE   TAINTS                              HOLDER                           REASON   SLICE
        gpu.example.com/node-1/gpu-0   node-1   A100    InUse   <none>                              research/trainer-gpu (trainer)   <none>   node-1-gpus
        gpu.example.com/node-1/gpu-1   node-1   A100    Free    gpu.example.com/hot:None (driver)   <none>                           <none>   node-1-gpus
    "#]].assert_eq(&cluster.run(&["list", "-o", "wide", "node-1/*"]).await.ok());
    expect![[r#"
        {
          "apiVersion": "lazaret.dev/v1alpha1",
          "kind": "DeviceList",
          "items": [
            {
              "name": "gpu.example.com/node-1/gpu-0",
              "driver": "gpu.example.com",
              "pool": "node-1",
              "device": "gpu-0",
              "node": "node-1",
              "model": "A100",
              "state": "InUse",
              "holders": [
                {
                  "namespace": "research",
                  "claim": "trainer-gpu",
                  "pods": [
                    "trainer"
                  ]
                }
              ],
              "slice": "node-1-gpus"
            },
            {
              "name": "gpu.example.com/node-1/gpu-1",
              "driver": "gpu.example.com",
              "pool": "node-1",
              "device": "gpu-1",
              "node": "node-1",
              "model": "A100",
              "state": "Free",
              "taints": [
                {
                  "key": "gpu.example.com/hot",
                  "effect": "None",
                  "timeAdded": "2026-01-01T11:00:00Z",
                  "origin": "ResourceSlice",
                  "originName": "node-1-gpus"
                }
              ],
              "slice": "node-1-gpus"
            }
          ]
        }
    "#]]
    .assert_eq(&cluster.run(&["list", "-o", "json", "node-1/gpu-0", "node-1/gpu-1"]).await.ok());
    expect![[r#"
        apiVersion: lazaret.dev/v1alpha1
        kind: DeviceList
        items:
        - name: gpu.example.com/node-2/gpu-0
          driver: gpu.example.com
          pool: node-2
          device: gpu-0
          node: node-2
          model: A100
          state: Free
          slice: node-2-gpus
    "#]]
    .assert_eq(&cluster.run(&["list", "-o", "yaml", "node-2/gpu-0"]).await.ok());
    expect![[r#"
        gpu.example.com/node-1/gpu-0
        gpu.example.com/node-1/gpu-1
        gpu.example.com/node-2/gpu-0
        gpu.example.com/node-2/gpu-1
    "#]]
    .assert_eq(&cluster.run(&["list", "-o", "name"]).await.ok());
}

#[tokio::test]
async fn a_watch_tells_of_each_device_that_became_another() {
    let cluster = Cluster::small().await;
    let change = async {
        cluster.run(&["taint", "node-2/gpu-0", "a:NoSchedule"]).await.ok();
    };
    let changed = |text: &str| text.contains("a:NoSchedule (rule)");
    let printed = cluster.run_until(&["list", "-w", "node-2/*"], changed, change).await;
    expect![[r#"
        NAME                           NODE     MODEL   STATE   TAINTS   HOLDER
        gpu.example.com/node-2/gpu-0   node-2   A100    Free    <none>   <none>
        gpu.example.com/node-2/gpu-1   node-2   A100    Free    <none>   <none>
        gpu.example.com/node-2/gpu-0   node-2   A100    Tainted   a:NoSchedule (rule)   <none>
    "#]]
    .assert_eq(&printed);
}

/// With `DEVICE_LIST_NODES=5000` and `--nocapture` it is a figure as well.
#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "printed, never asserted")]
async fn a_large_fleet_is_read_in_pages() {
    let cluster = Cluster::empty().await;
    let nodes: usize = std::env::var("DEVICE_LIST_NODES").map_or(1101, |text| text.parse().unwrap());
    for node in 0..nodes {
        cluster
            .post(
                "/apis/resource.k8s.io/v1/resourceslices",
                crate::support::slice_of(&format!("node-{node:05}"), 8),
            )
            .await;
    }
    let started = std::time::Instant::now();
    let printed = cluster.run(&["list"]).await.ok();
    println!("{nodes} nodes of 8 devices listed in {:?}", started.elapsed());
    assert_eq!(printed.lines().count(), nodes * 8 + 1);
}

#[tokio::test]
async fn filters_narrow_the_list() {
    let cluster = Cluster::small().await;
    let rows: &[(&[&str], &[&str])] = &[
        (&["--tainted"], &["gpu.example.com/node-1/gpu-1"]),
        (&["--node", "node-2"], &["gpu.example.com/node-2/gpu-0", "gpu.example.com/node-2/gpu-1"]),
        (&["-l", "zone=z1", "gpu-0"], &["gpu.example.com/node-1/gpu-0"]),
        (&["-l", "zone=z1", "--node", "node-2"], &[]),
        (&["--driver", "nic.example.com"], &[]),
        (
            &["--cel", "device.attributes['gpu.example.com'].index == 1"],
            &["gpu.example.com/node-1/gpu-1", "gpu.example.com/node-2/gpu-1"],
        ),
        (&["-n", "research"], &["gpu.example.com/node-1/gpu-0"]),
        (&["-n", "default"], &[]),
        (&["*/node-*/gpu-1", "--tainted"], &["gpu.example.com/node-1/gpu-1"]),
    ];
    for (words, wanted) in rows {
        let words: Vec<&str> = ["list", "-o", "name"].iter().chain(*words).copied().collect();
        let ran = cluster.run(&words).await;
        assert_eq!(ran.verdict, Ok(if wanted.is_empty() { Verdict::No } else { Verdict::Yes }), "{words:?}");
        let printed = ran.out;
        assert_eq!(printed.lines().collect::<Vec<_>>(), *wanted, "{words:?}");
    }
}

#[tokio::test]
async fn an_empty_list_says_why_and_what_may_have_been_meant() {
    let cluster = Cluster::small().await;
    let ran = cluster.run(&["list", "--driver", "gpu.exmple.com"]).await;
    assert_eq!((ran.out.as_str(), ran.verdict), ("", Ok(Verdict::No)));
    expect![[r#"
        No devices found; without this selection there are 4.
        No device has the driver gpu.exmple.com; nearest: gpu.example.com.
    "#]]
    .assert_eq(&ran.notes);
    expect![[r#"
        No devices found: no driver has published any.
    "#]]
    .assert_eq(&Cluster::empty().await.run(&["list"]).await.notes);
}

#[tokio::test]
async fn a_device_that_vanished_while_a_claim_holds_it_is_still_listed() {
    let cluster = Cluster::small().await;
    cluster
        .send("DELETE", "/apis/resource.k8s.io/v1/resourceslices/node-1-gpus", "", &serde_json::Value::Null)
        .await;
    expect![[r#"
        NAME                           NODE     MODEL    STATE        TAINTS   HOLDER
        gpu.example.com/node-1/gpu-0   <none>   <none>   InUse,Gone   <none>   research/trainer
        gpu.example.com/node-2/gpu-0   node-2   A100     Free         <none>   <none>
        gpu.example.com/node-2/gpu-1   node-2   A100     Free         <none>   <none>
    "#]]
    .assert_eq(&cluster.run(&["list", "--driver", "gpu.example.com"]).await.ok());
}

#[tokio::test]
async fn a_table_is_as_wide_as_the_terminal_and_a_wide_one_is_whole() {
    let cluster = Cluster::small().await;
    cluster
        .run(&["taint", "node-1/gpu-0", "example.com/a-taint-with-a-long-key=and-a-value:NoSchedule"])
        .await
        .ok();
    let cluster = cluster.on_terminal(80);
    expect![[r#"
        NAME                           STATE           TAINTS             HOLDER
        gpu.example.com/node-1/gpu-0   InUse,Tainted   example.com/a-t…   research/trainer
        gpu.example.com/node-1/gpu-1   Free            gpu.example.com…   <none>
        gpu.example.com/node-2/gpu-0   Free            <none>             <none>
        gpu.example.com/node-2/gpu-1   Free            <none>             <none>
    "#]]
    .assert_eq(&cluster.run(&["list"]).await.ok());
    let wide = cluster.run(&["list", "-o", "wide", "node-1/gpu-0"]).await.ok();
    assert!(wide.lines().any(|line| line.chars().count() > 200), "{wide}");
    let narrow = cluster.run(&["plan", "node-1/gpu-0", "a:NoExecute"]).await.ok();
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
}
