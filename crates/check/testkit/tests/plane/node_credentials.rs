//! Nodes that have no more than their own credentials.

use lazaret_testkit::{Cluster, Plane};
use serde_json::json;

use crate::stage::{Stage, pod_path};

#[test]
fn nodes_do_all_their_work_with_their_own_credentials() {
    let stage = Stage::of(Cluster::options().plane(Plane::simulated(2, 1).node_credentials()), 2);
    stage.until("the nodes are ready and a controller has taken their taints", || {
        let nodes = stage.list("/api/v1/nodes");
        let untainted = nodes.iter().filter(|node| node["spec"]["taints"].is_null()).count();
        (untainted == 2).then_some(()).ok_or_else(|| json!(nodes).to_string())
    });
    stage.template("gpu", &json!([]));
    stage.pod("a", "gpu");
    stage.running("a");
    let (node, device) = stage.device_of("a");
    stage.fail(&node, &device, "NoExecute");
    stage.gone("a");
    stage.recover(&node);
    stage.pod("b", "gpu");
    stage.running("b");
    stage.delete(&pod_path("b"));
    stage.gone("b");
    stage.until("both nodes have their lease", || {
        let leases = stage.list("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases");
        let holders: Vec<&str> =
            leases.iter().filter_map(|lease| lease["spec"]["holderIdentity"].as_str()).collect();
        (holders == ["node-1", "node-2"]).then_some(()).ok_or_else(|| holders.join(", "))
    });
    let metrics = stage.text("/metrics");
    let answered = |code: &str| -> Vec<&str> {
        let counts = metrics.lines().filter(|line| line.starts_with("apiserver_request_total"));
        counts.filter(|line| line.contains(&format!("code=\"{code}\""))).collect()
    };
    assert!(!answered("200").is_empty(), "requests are counted by their code");
    assert!(answered("403").is_empty(), "{:#?}", answered("403"));
}

#[test]
fn a_csi_node_goes_with_its_node() {
    let stage = Stage::with(1, 1);
    let node = stage.create("/api/v1/nodes", &json!({"metadata": {"name": "real"}}));
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "real", "uid": node["metadata"]["uid"]});
    let csi_node = json!({"metadata": {"name": "real", "ownerReferences": [owner]}, "spec": {"drivers": []}});
    stage.create("/apis/storage.k8s.io/v1/csinodes", &csi_node);
    stage.create(
        "/apis/storage.k8s.io/v1/csinodes",
        &json!({"metadata": {"name": "unowned"}, "spec": {"drivers": []}}),
    );
    stage.delete("/api/v1/nodes/real");
    stage.until("the CSINode is gone", || {
        let left = stage.list("/apis/storage.k8s.io/v1/csinodes");
        let names: Vec<&str> = left.iter().filter_map(|one| one["metadata"]["name"].as_str()).collect();
        (names == ["unowned"]).then_some(()).ok_or_else(|| names.join(", "))
    });
}
