//! `lazaret bench` on a cluster that is not its own: it measures, and leaves nothing behind.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use serde_json::{Value, json};
use support::{Cluster, interrupt_at};

const EVERYTHING: [&str; 6] = [
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/resource.k8s.io/v1/deviceclasses",
    "/apis/resource.k8s.io/v1/devicetaintrules",
    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
];

/// Everything that a run may leave behind; what the cluster makes for itself, now or later, is no matter.
fn left_behind(cluster: &Cluster) -> Vec<String> {
    let labelled = |path: &&str| cluster.names(&format!("{path}?labelSelector=lazaret.dev/bench"));
    EVERYTHING.iter().flat_map(labelled).collect()
}

fn bench(cluster: &Cluster, words: &[&str]) -> std::process::Command {
    let kubeconfig = cluster.folder.path().join("kubeconfig");
    let mut command = cluster.command(&["bench"]);
    command.args(words).arg("--kubeconfig").arg(kubeconfig);
    command
}

/// A phase of the report.
fn phase<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["phases"].as_array().unwrap().iter().find(|phase| phase["name"] == name).unwrap()
}

#[test]
fn what_is_measured_is_told_and_what_was_made_is_taken_away() {
    let cluster = Cluster::start(&["--nodes", "1", "--devices", "1"]);
    cluster.until("the cluster has its own node", |cluster| {
        cluster.names("/apis/resource.k8s.io/v1/resourceslices").len() == 1
    });
    let words = ["evict", "--nodes", "3", "--devices", "4", "--pods", "10", "--tolerate", "50", "-o", "json"];
    let ran = bench(&cluster, &words).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(
        (&report["what"], &report["nodes"], &report["pods"]),
        (&json!("evict"), &json!(3), &json!(10))
    );
    assert_eq!(phase(&report, "created to running")["count"], 10);
    let left = phase(&report, "rule made to pod deleted");
    // Every hundred has fifty that stay; the first ten have six.
    assert_eq!(left["count"], 4, "{left}");
    let seconds: u64 = left["overTime"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(seconds, 4);
    assert_eq!(left_behind(&cluster), [""; 0]);
    assert_eq!(cluster.names("/api/v1/nodes"), ["node-1"]);

    let folder = cluster.folder.path();
    let (first, second) = (folder.join("a.json"), folder.join("b.json"));
    std::fs::write(&first, &ran.stdout).unwrap();
    std::fs::write(&second, &ran.stdout).unwrap();
    let compared = cluster.command(&["bench", "--compare"]).arg(first).arg(second).output().unwrap();
    let text = String::from_utf8(compared.stdout).unwrap();
    assert!(compared.status.success() && text.contains("rule made to pod deleted: p99"), "{text}");
    assert!(text.contains("1.00×"), "{text}");
}

#[test]
fn ctrl_c_takes_everything_away_too() {
    let cluster = Cluster::start(&[]);
    // So slow that it still runs when it is stopped.
    let words = ["schedule", "--nodes", "2", "--devices", "8", "--pods", "16", "--rate", "1"];
    let child = bench(&cluster, &words).spawn().unwrap();
    // Several may have begun to run by the time that they are counted.
    let ended = interrupt_at(child, "pods running: ");
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("taking away what was made") && told.contains("error: stopped"), "{told}");
    assert_eq!(left_behind(&cluster), [""; 0]);
}

#[test]
fn a_workload_of_kubernetes_runs_by_its_name_and_a_wrong_name_is_helped() {
    let cluster = Cluster::start(&[]);
    let words = ["--workload", "SchedulingWithResourceClaimTemplate/match_fast", "-o", "json"];
    let ran = bench(&cluster, &words).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(phase(&report, "created to bound")["count"], 2);
    let wrong = cluster.command(&["bench", "--workload", "match_fast"]).output().unwrap();
    let told = String::from_utf8(wrong.stderr).unwrap();
    assert!(told.contains("SchedulingWithResourceClaimTemplate/match_fast"), "{told}");
}

#[test]
fn more_nodes_than_there_can_be_are_refused_at_once_with_the_reason() {
    for words in [&["up", "--nodes", "200000"][..], &["bench", "schedule", "--nodes", "200000"]] {
        let told = std::process::Command::new(env!("CARGO_BIN_EXE_lazaret")).args(words).output().unwrap();
        let text = String::from_utf8_lossy(&told.stderr);
        assert!(!told.status.success() && told.stdout.is_empty(), "{words:?}: {told:?}");
        assert!(text.contains("must be at most 131072: each simulated node has 128"), "{words:?}: {text}");
    }
}
