//! Nodes that have no more than their own credentials.

use http::Request;
use lazaret_server::{controller_roles, node_user};
use serde_json::{Value, json};

use crate::stage::{Stage, pod_path};

#[test]
fn nodes_do_all_their_work_with_their_own_credentials() {
    let stage = Stage::with(2, 1);
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

/// The code of the answer to a merge patch that a node's own user sends; 200 where it is done.
fn merged_by(stage: &Stage, node: &str, path: &str, patch: &Value) -> u16 {
    let request = Request::patch(path)
        .header("content-type", "application/merge-patch+json")
        .body(patch.to_string().into_bytes())
        .unwrap();
    let client = stage.cluster.client_as(node_user(node));
    match stage.cluster.block_on(async move { client.request::<Value>(request).await }) {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{path}: {error}"),
    }
}

#[test]
fn no_node_writes_what_is_of_another_node() {
    let stage = Stage::with(2, 1);
    stage.template("gpu", &json!([]));
    stage.pod("a", "gpu");
    stage.running("a");
    let (node, _) = stage.device_of("a");
    let other = if node == "node-1" { "node-2" } else { "node-1" };
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}");
    stage.until("the node has its lease", || {
        stage.try_request("GET", &lease, "application/json", &Value::Null)
    });
    let mark = json!({"metadata": {"labels": {"mark": "1"}}});
    let message = json!({"status": {"message": "marked"}});
    let of_the_node = [
        (lease, &mark),
        (format!("/apis/resource.k8s.io/v1/resourceslices/00000-gpu.example.com-{node}"), &mark),
        (format!("/api/v1/nodes/{node}"), &mark),
        (format!("/api/v1/nodes/{node}/status"), &json!({"status": {"daemonEndpoints": {}}})),
        (format!("{}/status", pod_path("a")), &message),
    ];
    for (path, patch) in of_the_node {
        assert_eq!(merged_by(&stage, other, &path, patch), 403, "{other}: {path}");
        assert_eq!(merged_by(&stage, &node, &path, patch), 200, "{node}: {path}");
    }
}

#[test]
fn the_account_of_all_simulated_nodes_writes_nothing_that_is_of_one() {
    let role = controller_roles().iter().find(|role| role.name == "simulated-nodes").unwrap();
    let of_one_node = ["events", "leases", "nodes", "nodes/status", "pods", "pods/status", "resourceslices"];
    let written = role.may.iter().flat_map(|rule| rule["resources"].as_array().unwrap());
    let wrong: Vec<_> = written.filter(|plural| of_one_node.contains(&plural.as_str().unwrap())).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
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
