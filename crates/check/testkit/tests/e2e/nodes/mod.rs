//! A node's client certificate over TLS: what an attacker tries who has stolen it, and what a kubelet needs.

mod attacks;
mod kubelet;

use http::Request;
use kube::Client;
use lazaret_testkit::Cluster;
use serde_json::{Value, json};

use crate::support::{connect, connect_with};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const VOLUME_CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

/// One request and the answer that it gets: code, and a part of the message where it is refused.
struct Row {
    what: &'static str,
    method: &'static str,
    path: String,
    body: Value,
    code: u16,
    says: &'static str,
}

fn row(what: &'static str, method: &'static str, path: impl Into<String>, body: Value) -> Row {
    Row { what, method, path: path.into(), body, code: 200, says: "" }
}

impl Row {
    fn made(self) -> Self {
        Self { code: 201, ..self }
    }

    fn absent(self) -> Self {
        Self { code: 404, ..self }
    }

    fn refused(self, says: &'static str) -> Self {
        Self { code: 403, says, ..self }
    }
}

async fn send(client: &Client, method: &str, path: &str, body: &Value) -> (u16, String) {
    let kind = match method {
        "PATCH" => "application/strategic-merge-patch+json",
        "MERGE" => "application/merge-patch+json",
        "APPLY" => "application/apply-patch+yaml",
        _ => "application/json",
    };
    let method = if matches!(method, "MERGE" | "APPLY") { "PATCH" } else { method };
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let created = method == "POST";
    match client.request_text(request.body(bytes).unwrap()).await {
        Ok(text) => (if created { 201 } else { 200 }, text),
        Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
        Err(other) => panic!("{method} {path}: {other}"),
    }
}

async fn check(client: &Client, rows: &[Row]) {
    for Row { what, method, path, body, code, says } in rows {
        let (found, text) = send(client, method, path, body).await;
        assert_eq!(found, *code, "{what}: {method} {path}: {text}");
        assert!(text.contains(says), "{what}: {text}");
    }
}

/// The administrator's objects, with UIDs as the server gave them.
struct World {
    web_uid: String,
    theirs_uid: String,
    mine_uid: String,
}

fn pod(name: &str, node: &str) -> Value {
    let named = |what: &str| format!("{name}-{what}");
    json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": named("map")}}]}],
            "volumes": [
                {"name": "s", "secret": {"secretName": named("secret")}},
                {"name": "v", "persistentVolumeClaim": {"claimName": named("volume")}},
            ],
            "resourceClaims": [{"name": "r", "resourceClaimName": named("claim")}],
        },
    })
}

fn slice(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
        "spec": {"driver": "x.example.com", "nodeName": node, "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "gpu-0"}]},
    })
}

fn lease(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"holderIdentity": name, "leaseDurationSeconds": 40}})
}

async fn prepare(admin: &Client) -> World {
    let post = async |path: &str, object: Value| {
        let (code, text) = send(admin, "POST", path, &object).await;
        assert_eq!(code, 201, "{path}: {text}");
        let made: Value = serde_json::from_str(&text).unwrap();
        made["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let mine_uid = post("/api/v1/nodes", json!({"metadata": {"name": "mine"}})).await;
    post("/api/v1/nodes", json!({"metadata": {"name": "other"}})).await;
    let mut uids = Vec::new();
    for (name, node) in [("web", "mine"), ("theirs", "other")] {
        uids.push(post(PODS, pod(name, node)).await);
        let named = |what: &str| format!("{name}-{what}");
        for secret in [named("secret"), named("volume-secret")] {
            post(SECRETS, json!({"metadata": {"name": secret}, "stringData": {"k": "v"}})).await;
        }
        post(MAPS, json!({"metadata": {"name": named("map")}})).await;
        let claim = json!({"metadata": {"name": named("volume")}, "spec": {"volumeName": named("pv"), "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        post(VOLUME_CLAIMS, claim).await;
        let volume = json!({"metadata": {"name": named("pv")}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "default", "name": named("volume")},
            "csi": {"driver": "d", "volumeHandle": "h", "nodeStageSecretRef": {"namespace": "default", "name": named("volume-secret")}},
        }});
        post("/api/v1/persistentvolumes", volume).await;
        post(CLAIMS, json!({"metadata": {"name": named("claim")}, "spec": {"devices": {}}})).await;
        let attachment = json!({"metadata": {"name": named("attachment")}, "spec": {"attacher": "d", "nodeName": node, "source": {"persistentVolumeName": named("pv")}}});
        post(ATTACHMENTS, attachment).await;
    }
    post(PODS, json!({"metadata": {"name": "loose"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}))
        .await;
    post(SECRETS, json!({"metadata": {"name": "unreferenced"}})).await;
    post(ACCOUNTS, json!({"metadata": {"name": "privileged"}})).await;
    post("/apis/storage.k8s.io/v1/csidrivers", json!({"metadata": {"name": "d"}, "spec": {}})).await;
    post(LEASES, lease("other")).await;
    post(CSI_NODES, json!({"metadata": {"name": "other"}, "spec": {"drivers": []}})).await;
    for (name, node) in [("slice-mine", "mine"), ("slice-other", "other")] {
        post(SLICES, slice(name, node)).await;
    }
    let theirs_uid = uids.pop().unwrap();
    World { web_uid: uids.pop().unwrap(), theirs_uid, mine_uid }
}

fn mirror(world: &World) -> Value {
    json!({
        "metadata": {
            "name": "static-mine",
            "annotations": {"kubernetes.io/config.mirror": "hash"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "mine", "uid": world.mine_uid, "controller": true}],
        },
        "spec": {"nodeName": "mine", "containers": [{"name": "c", "image": "i"}]},
    })
}

fn token(pod: &str, uid: &str, audiences: &[&str]) -> Value {
    json!({"spec": {"audiences": audiences, "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}}})
}

#[tokio::test]
async fn a_stolen_node_certificate_reaches_nothing_of_others() {
    let cluster = Cluster::start();
    let admin = connect(&cluster).await;
    let world = prepare(&admin).await;
    let node = connect_with(&cluster.kubeconfig_as("system:node:mine", "system:nodes")).await;
    let revision = cluster.server().store().revision();
    for rows in attacks::all(&world) {
        check(&node, &rows).await;
        assert_eq!(cluster.server().store().revision(), revision, "nothing was written");
    }
}

#[tokio::test]
async fn a_kubelet_may_do_all_that_it_has_to() {
    let cluster = Cluster::start();
    let admin = connect(&cluster).await;
    let world = prepare(&admin).await;
    let node = connect_with(&cluster.kubeconfig_as("system:node:mine", "system:nodes")).await;
    check(&node, &kubelet::all(&world)).await;
    // The collection that it removed was its own.
    let (_, text) = send(&admin, "GET", SLICES, &Value::Null).await;
    let slices: Value = serde_json::from_str(&text).unwrap();
    let left: Vec<&str> = slices["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|slice| slice["metadata"]["name"].as_str())
        .collect();
    assert_eq!(left, ["slice-other"]);
    // A node that is not there yet registers itself.
    let newcomer = connect_with(&cluster.kubeconfig_as("system:node:new", "system:nodes")).await;
    let object = json!({"metadata": {"name": "new", "labels": {"kubernetes.io/os": "linux"}}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
    let rows = [
        row("look for itself", "GET", "/api/v1/nodes/new", Value::Null).absent(),
        row("register itself", "POST", "/api/v1/nodes", object).made(),
    ];
    check(&newcomer, &rows).await;
}

#[tokio::test]
async fn a_certificate_in_the_group_of_nodes_that_names_no_node_reaches_nothing() {
    let cluster = Cluster::start();
    let admin = connect(&cluster).await;
    prepare(&admin).await;
    for name in ["system:node:", "mine", "system:nodes:mine"] {
        let nobody = connect_with(&cluster.kubeconfig_as(name, "system:nodes")).await;
        for path in
            [format!("{SECRETS}/web-secret"), "/api/v1/nodes".to_owned(), "/api/v1/services".to_owned()]
        {
            let (code, text) = send(&nobody, "GET", &path, &Value::Null).await;
            assert_eq!(code, 403, "{name} {path}: {text}");
        }
    }
    // The name alone is not enough either.
    let impostor = connect_with(&cluster.kubeconfig_as("system:node:mine", "people")).await;
    assert_eq!(send(&impostor, "GET", &format!("{SECRETS}/web-secret"), &Value::Null).await.0, 403);
}
