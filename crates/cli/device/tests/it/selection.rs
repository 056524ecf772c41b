//! A selection that matches nothing is never a success, whatever the command.

use expect_test::expect;
use lazaret_device::Verdict;
use serde_json::json;

use crate::support::{Cluster, slice_of};

#[tokio::test]
async fn a_name_that_no_device_has_is_an_error_of_every_command() {
    let cluster = Cluster::small().await;
    let commands: &[&[&str]] = &[
        &["list", "nope"],
        &["list", "gpu-0", "nope"],
        &["list", "-o", "json", "nope"],
        &["list", "nope/*"],
        &["describe", "nope"],
        &["taint", "nope", "a:NoSchedule"],
        &["taint", "nope", "a-"],
        &["taint", "--node", "node-1", "nope", "a:NoSchedule"],
        &["plan", "nope", "a:NoExecute"],
        &["drain", "nope", "--reason", "x", "--yes"],
        &["cordon", "nope"],
        &["uncordon", "nope"],
        &["history", "nope"],
        &["history", "gpu.example.com/node-9/gpu-0"],
        &["fail", "nope"],
        &["fail", "node-1/gpu-9"],
        &["fail", "node-9/gpu-0"],
        &["recover", "node-1/gpu-9"],
        &["why", "nope"],
    ];
    for words in commands {
        let refused = cluster.run(words).await.error();
        assert!(refused.contains("no device") || refused.contains("no pod"), "{words:?}: {refused}");
    }
    assert_eq!(cluster.rules().await, []);
    let node = cluster.get("/api/v1/nodes/node-1").await;
    assert_eq!(node["metadata"]["annotations"], json!(null));
}

#[tokio::test]
async fn flags_that_select_nothing_are_an_error_where_something_is_done_and_the_answer_no_where_it_is_asked()
{
    let cluster = Cluster::small().await;
    for flags in
        [["--node", "node-9"], ["--driver", "nope"], ["-l", "zone=z9"], ["--cel", "device.driver == 'x'"]]
    {
        for act in [
            &["taint", "a:NoSchedule"][..],
            &["plan", "a:NoExecute"],
            &["drain", "--reason", "x", "--yes"],
            &["cordon"],
            &["uncordon"],
        ] {
            let words = [act, &flags[..]].concat();
            let refused = cluster.run(&words).await.error();
            assert!(refused.starts_with("no device is selected: "), "{words:?}: {refused}");
        }
        let ran = cluster.run(&["list", flags[0], flags[1]]).await;
        assert_eq!((ran.out.as_str(), ran.verdict), ("", Ok(Verdict::No)), "{flags:?}");
        assert!(
            ran.notes.starts_with("No devices found; without this selection there are 4."),
            "{}",
            ran.notes
        );
    }
    expect![[r#"
        no device is selected: `kubectl device list` takes the same flags; without them it shows 4 devices.
        No device has the node nod-1; nearest: node-1, node-2."#]]
    .assert_eq(&cluster.run(&["cordon", "--node", "nod-1"]).await.error());
    let ran = cluster.run(&["list", "-o", "json", "--tainted", "--node", "node-2"]).await;
    assert_eq!(ran.verdict, Ok(Verdict::No));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&ran.out).unwrap()["items"], json!([]));
    let empty = Cluster::empty().await;
    assert_eq!(empty.run(&["list"]).await.verdict, Ok(Verdict::Yes));
    assert_eq!(empty.run(&["list", "--tainted"]).await.verdict, Ok(Verdict::No));
    assert!(empty.run(&["cordon", "--all"]).await.error().contains("no devices at all"));
}

#[tokio::test]
async fn only_simulated_drivers_report_what_they_are_told() {
    let cluster = Cluster::small().await;
    cluster.post("/api/v1/nodes", json!({"metadata": {"name": "real-1"}})).await;
    cluster.post("/apis/resource.k8s.io/v1/resourceslices", slice_of("real-1", 1)).await;
    expect!["Node real-1 is not simulated: its driver reports the health that it observes, and takes no orders. `kubectl device taint` and `drain` work on every device"].assert_eq(&cluster.run(&["fail", "real-1/gpu-0"]).await.error());
    // The simulated driver ignores an annotation with such a value.
    expect![[r#"--reason "double bit error" becomes the value of the taint, and cannot: a label value consists of letters, digits, '-', '_' and '.', with a letter or digit at both ends"#]]
        .assert_eq(&cluster.run(&["fail", "node-1/gpu-0", "--reason", "double bit error"]).await.error());
}

#[tokio::test]
async fn names_are_completed_from_the_cluster() {
    let cluster = Cluster::small().await;
    cluster.run(&["taint", "node-1/gpu-0", "example.com/fan:NoSchedule"]).await.ok();
    let complete = async |words: &[&str]| cluster.run(&[&["__complete", "--"], words].concat()).await.ok();
    assert_eq!(complete(&["list", "node-1/"]).await, "node-1/gpu-0\nnode-1/gpu-1\n:4\n");
    assert_eq!(
        complete(&["drain", "gpu.example.com/node-2/gpu-0", "gpu.example.com/node-2"]).await,
        "gpu.example.com/node-2/gpu-1\n:4\n"
    );
    assert_eq!(complete(&["cordon", "--node", ""]).await, "node-1\nnode-2\n:4\n");
    assert_eq!(complete(&["list", "--driver="]).await, "--driver=gpu.example.com\n:4\n");
    assert_eq!(complete(&["why", "-n", "research", "tr"]).await, "trainer\n:4\n");
    assert_eq!(complete(&["list", "-n", "res"]).await, "research\n:4\n");
    assert_eq!(complete(&["taint", "node-1/gpu-0", "example"]).await, "example.com/fan:NoSchedule-\n:4\n");
    assert_eq!(complete(&["man", ""]).await, ":0\n");
    assert_eq!(
        complete(&["unc"]).await,
        "uncordon\tBring cordoned or drained devices back into service\n:4\n"
    );
}
