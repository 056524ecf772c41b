//! The requests of a kubelet, in the order in which it sends them.

use serde_json::{Value, json};

use super::{
    ACCOUNTS, ATTACHMENTS, CLAIMS, CSI_NODES, LEASES, MAPS, PODS, Row, SECRETS, SLICES, VOLUME_CLAIMS, World,
    lease, mirror, row, slice, token,
};

/// Only what is bound to the node.
const SELECTED: &str = "fieldSelector=spec.nodeName%3Dmine";
const BRIEFLY: &str = "watch=true&timeoutSeconds=1";

pub(super) fn all(world: &World) -> Vec<Row> {
    let mut rows = registration(world);
    rows.extend(reads());
    rows.extend(reports(world));
    rows.extend(pods(world));
    rows
}

fn one(name: &str) -> String {
    format!("fieldSelector=metadata.name%3D{name}")
}

fn get(path: impl Into<String>) -> Row {
    row("read", "GET", path, Value::Null)
}

fn registration(world: &World) -> Vec<Row> {
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "mine", "uid": world.mine_uid}]);
    let csi_node = json!({"metadata": {"name": "mine", "ownerReferences": owner}, "spec": {"drivers": []}});
    let driver =
        json!({"spec": {"drivers": [{"name": "d.example.com", "nodeID": "mine", "topologyKeys": null}]}});
    let labels = json!({"metadata": {"labels": {"kubernetes.io/hostname": "mine", "topology.kubernetes.io/zone": "a", "example.com/rack": "7"}}});
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": null, "lastTransitionTime": null}]}});
    vec![
        get("/api/v1/nodes/mine"),
        get(format!("/api/v1/nodes?{}", one("mine"))),
        get(format!("/api/v1/nodes?{}&{BRIEFLY}", one("mine"))),
        row("label itself", "PATCH", "/api/v1/nodes/mine", labels),
        row("report itself", "PATCH", "/api/v1/nodes/mine/status", ready),
        get(format!("{LEASES}/mine")).absent(),
        row("make its lease", "POST", LEASES, lease("mine")).made(),
        row(
            "renew its lease",
            "MERGE",
            format!("{LEASES}/mine"),
            json!({"spec": {"leaseDurationSeconds": 41}}),
        ),
        get(format!("{CSI_NODES}/mine")).absent(),
        row("make its CSINode", "POST", CSI_NODES, csi_node).made(),
        row("add a driver", "PATCH", format!("{CSI_NODES}/mine"), driver),
        get(format!("{CSI_NODES}/mine")),
    ]
}

fn reads() -> Vec<Row> {
    let paths = [
        format!("/api/v1/pods?{SELECTED}"),
        format!("/api/v1/pods?{SELECTED}&{BRIEFLY}"),
        format!("{PODS}/web"),
        format!("{SECRETS}/web-secret"),
        format!("{SECRETS}?{}", one("web-secret")),
        format!("{SECRETS}?{}&{BRIEFLY}", one("web-secret")),
        format!("{SECRETS}/web-volume-secret"),
        format!("{MAPS}/web-map"),
        format!("{MAPS}?{}&{BRIEFLY}", one("kube-root-ca.crt")),
        format!("{VOLUME_CLAIMS}/web-volume"),
        "/api/v1/persistentvolumes/web-pv".into(),
        format!("{ATTACHMENTS}/web-attachment"),
        format!("{CLAIMS}/web-claim"),
        format!("{ACCOUNTS}/default"),
        "/api/v1/services".into(),
        format!("/api/v1/services?{BRIEFLY}"),
        "/apis/storage.k8s.io/v1/csidrivers".into(),
        format!("{SLICES}?{SELECTED}"),
        format!("{SLICES}?{SELECTED}&{BRIEFLY}"),
        "/api".into(),
        "/apis".into(),
        "/version".into(),
    ];
    paths.into_iter().map(get).collect()
}

fn reports(world: &World) -> Vec<Row> {
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"}, "reason": "Started", "type": "Normal"});
    let access = json!({"spec": {"user": "alice", "resourceAttributes": {"verb": "get", "resource": "nodes", "subresource": "proxy"}}});
    vec![
        row("report its pod", "PATCH", format!("{PODS}/web/status"), json!({"status": {"phase": "Running"}})),
        row(
            "a token for its pod",
            "POST",
            format!("{ACCOUNTS}/default/token"),
            token("web", &world.web_uid, &[]),
        )
        .made(),
        row(
            "report a volume",
            "PATCH",
            format!("{VOLUME_CLAIMS}/web-volume/status"),
            json!({"status": {"capacity": {"storage": "2Gi"}}}),
        ),
        row("publish devices", "POST", SLICES, slice("slice-new", "mine")).made(),
        row(
            "change devices",
            "MERGE",
            format!("{SLICES}/slice-new"),
            json!({"spec": {"pool": {"generation": 2}}}),
        ),
        row("remove devices", "DELETE", format!("{SLICES}/slice-new"), Value::Null),
        row("remove all its devices", "DELETE", format!("{SLICES}?{SELECTED}"), Value::Null),
        row(
            "review a token",
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            json!({"spec": {"token": "x"}}),
        )
        .made(),
        row("review access", "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", access).made(),
        row("tell of its pod", "POST", "/api/v1/namespaces/default/events", event).made(),
        row("tell again", "PATCH", "/api/v1/namespaces/default/events/e", json!({"count": 2})),
    ]
}

fn pods(world: &World) -> Vec<Row> {
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}, "deleteOptions": {"gracePeriodSeconds": 0}});
    vec![
        row("mirror a pod", "POST", PODS, mirror(world)).made(),
        row(
            "report the mirror",
            "PATCH",
            format!("{PODS}/static-mine/status"),
            json!({"status": {"phase": "Running"}}),
        ),
        row("remove the mirror", "DELETE", format!("{PODS}/static-mine"), json!({"gracePeriodSeconds": 0})),
        row("evict its pod", "POST", format!("{PODS}/web/eviction"), eviction).made(),
        get(format!("{SECRETS}/web-secret")).refused("no relationship found"),
    ]
}
