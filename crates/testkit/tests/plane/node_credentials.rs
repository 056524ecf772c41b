//! Nodes that have no more than their own credentials.

use lazaret_testkit::{Cluster, Plane};
use serde_json::{Value, json};

use crate::stage::{Stage, pod_path};

#[test]
fn nodes_do_all_their_work_with_their_own_credentials() {
    let stage = Stage::of(Cluster::options().plane(Plane::simulated(2, 1).node_credentials()), 2);
    stage.until("the nodes are ready and a controller has taken their taints", || {
        let nodes = stage.list("/api/v1/nodes");
        let untainted = nodes.iter().filter(|node| node["spec"]["taints"].is_null()).count();
        (untainted == 2).then_some(()).ok_or_else(|| json!(nodes).to_string())
    });
    stage.template("gpu", &Value::Null);
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
    for (node, uid) in
        stage.list("/api/v1/nodes").iter().map(|node| (&node["metadata"]["name"], &node["metadata"]["uid"]))
    {
        let name = node.as_str().unwrap();
        let lease =
            stage.get(&format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"));
        assert_eq!(lease["spec"]["holderIdentity"], *node, "{uid}");
    }
    let metrics = stage.text("/metrics");
    let refused: Vec<&str> = metrics
        .lines()
        .filter(|line| line.starts_with("apiserver_request_total") && line.contains(r#"code="403""#))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
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
