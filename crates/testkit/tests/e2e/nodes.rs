//! A node's client certificate over TLS: what an attacker tries who has stolen it, and what a kubelet needs.

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

/// What an administrator made, with UIDs as the server gave them.
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
        "spec": {"driver": "x.example.com", "nodeName": node, "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}, "devices": []},
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

fn reads() -> Vec<Row> {
    let unrelated = "no relationship found between node 'mine' and this object";
    let mut rows = Vec::new();
    for path in [
        format!("{SECRETS}/unreferenced"),
        format!("{SECRETS}/theirs-secret"),
        format!("{SECRETS}/theirs-volume-secret"),
        format!("{SECRETS}?fieldSelector=metadata.name=theirs-secret"),
        format!("{SECRETS}?fieldSelector=metadata.name=theirs-secret&watch=true"),
        format!("/api/v1/watch/namespaces/default/secrets/theirs-secret"),
        format!("{MAPS}/theirs-map"),
        format!("{PODS}/theirs"),
        format!("{PODS}/loose"),
        format!("{VOLUME_CLAIMS}/theirs-volume"),
        "/api/v1/persistentvolumes/theirs-pv".to_owned(),
        format!("{CLAIMS}/theirs-claim"),
        format!("{ATTACHMENTS}/theirs-attachment"),
        format!("{SLICES}/slice-other"),
        format!("{ACCOUNTS}/privileged"),
    ] {
        rows.push(row("read what belongs to others", "GET", path, Value::Null).refused(unrelated));
    }
    for path in [
        SECRETS.to_owned(),
        "/api/v1/secrets".to_owned(),
        format!("{SECRETS}?fieldSelector=metadata.name!=x"),
        format!("{SECRETS}?fieldSelector=type=Opaque"),
        format!("{SECRETS}?watch=true"),
        "/api/v1/watch/secrets".to_owned(),
        "/api/v1/secrets?fieldSelector=metadata.name=web-secret".to_owned(),
        MAPS.to_owned(),
        PODS.to_owned(),
        "/api/v1/pods?fieldSelector=spec.nodeName=other".to_owned(),
        "/api/v1/pods?fieldSelector=spec.nodeName!=mine".to_owned(),
        "/api/v1/pods?fieldSelector=spec.host=mine".to_owned(),
        "/api/v1/pods?labelSelector=spec.nodeName=mine".to_owned(),
        "/api/v1/pods?watch=true".to_owned(),
        "/api/v1/nodes".to_owned(),
        "/api/v1/nodes/other".to_owned(),
        "/api/v1/nodes?fieldSelector=metadata.name=other".to_owned(),
        CLAIMS.to_owned(),
        SLICES.to_owned(),
        format!("{SLICES}?fieldSelector=spec.nodeName=other"),
        format!("{SLICES}?fieldSelector=spec.nodeName=other&fieldSelector=spec.nodeName=mine"),
        LEASES.to_owned(),
        format!("{LEASES}/other"),
        format!("{CSI_NODES}/other"),
        CSI_NODES.to_owned(),
        ATTACHMENTS.to_owned(),
        format!("{PODS}/theirs/log"),
        "/api/v1/namespaces".to_owned(),
        "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(),
        "/metrics".to_owned(),
    ] {
        rows.push(row("read what is not for nodes", "GET", path, Value::Null).refused(""));
    }
    rows
}

fn writes_to_pods(world: &World) -> Vec<Row> {
    let now = json!({"gracePeriodSeconds": 0});
    let running = json!({"status": {"phase": "Failed"}});
    let eviction =
        |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let with = |change: &dyn Fn(&mut Value)| {
        let mut pod = mirror(world);
        change(&mut pod);
        pod
    };
    let claims =
        json!({"status": {"resourceClaimStatuses": [{"name": "r", "resourceClaimName": "theirs-claim"}]}});
    let extended = json!({"status": {"extendedResourceClaimStatus": {"resourceClaimName": "theirs-claim", "requestMappings": []}}});
    let itself = "spec.nodeName set to itself";
    let reference = "can not create pods that reference";
    vec![
        row("delete another's pod", "DELETE", format!("{PODS}/theirs"), now.clone()).refused(itself),
        row("delete a pod of nobody", "DELETE", format!("{PODS}/loose"), now).refused(itself),
        row("delete all pods", "DELETE", PODS, Value::Null).refused(""),
        row("delete all its pods", "DELETE", format!("{PODS}?fieldSelector=spec.nodeName=mine"), Value::Null)
            .refused(""),
        row("evict another's pod", "POST", format!("{PODS}/theirs/eviction"), eviction("theirs"))
            .refused(itself),
        row(
            "evict another's pod by its own's name",
            "POST",
            format!("{PODS}/theirs/eviction"),
            eviction("web"),
        )
        .refused(""),
        row("end another's pod", "PATCH", format!("{PODS}/theirs/status"), running.clone()).refused(itself),
        row("end a pod of nobody", "PATCH", format!("{PODS}/loose/status"), running).refused(itself),
        row(
            "relabel its pod",
            "PATCH",
            format!("{PODS}/web/status"),
            json!({"metadata": {"labels": {"app": "theirs"}}}),
        )
        .refused("labels"),
        row("give its pod a claim", "PATCH", format!("{PODS}/web/status"), claims)
            .refused("cannot update resource claim statues"),
        row("give its pod an extended claim", "PATCH", format!("{PODS}/web/status"), extended)
            .refused("extended resource claim"),
        row("change its pod", "PATCH", format!("{PODS}/web"), json!({"metadata": {"labels": {"a": "b"}}}))
            .refused(""),
        row(
            "bind a pod to itself",
            "POST",
            format!("{PODS}/loose/binding"),
            json!({"target": {"name": "mine"}}),
        )
        .refused(""),
        row("make a pod", "POST", PODS, with(&|pod| pod["metadata"]["annotations"] = json!({})))
            .refused("can only create mirror pods"),
        row("make a mirror elsewhere", "POST", PODS, with(&|pod| pod["spec"]["nodeName"] = "other".into()))
            .refused(itself),
        row(
            "make a mirror without owner",
            "POST",
            PODS,
            with(&|pod| pod["metadata"]["ownerReferences"] = json!([])),
        )
        .refused("owner reference set to itself"),
        row(
            "make a mirror of another uid",
            "POST",
            PODS,
            with(&|pod| pod["metadata"]["ownerReferences"][0]["uid"] = "x".into()),
        )
        .refused("UID mismatch"),
        row(
            "make a mirror with a secret",
            "POST",
            PODS,
            with(&|pod| {
                pod["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "unreferenced"}}])
            }),
        )
        .refused(reference),
        row(
            "make a mirror with an account",
            "POST",
            PODS,
            with(&|pod| pod["spec"]["serviceAccountName"] = "privileged".into()),
        )
        .refused(reference),
        row(
            "make a mirror with a claim",
            "POST",
            PODS,
            with(&|pod| {
                pod["spec"]["resourceClaims"] = json!([{"name": "r", "resourceClaimName": "theirs-claim"}])
            }),
        )
        .refused(reference),
        row(
            "make a mirror, dry run",
            "POST",
            format!("{PODS}?dryRun=All"),
            with(&|pod| pod["spec"]["nodeName"] = "other".into()),
        )
        .refused(itself),
    ]
}

fn other_writes(world: &World) -> Vec<Row> {
    let node = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
    let elsewhere = "is not allowed to modify node";
    let restricted = json!({"node-restriction.kubernetes.io/zone": "secure"});
    let role = json!({"node-role.kubernetes.io/control-plane": ""});
    let taints = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
    let tokens = format!("{ACCOUNTS}/default/token");
    vec![
        row("register another node", "POST", "/api/v1/nodes", node("new", json!({}))).refused(elsewhere),
        row("register another node by applying it", "APPLY", "/api/v1/nodes/new?fieldManager=x", node("new", json!({}))).refused(elsewhere),
        row("register under a made-up name", "POST", "/api/v1/nodes", json!({"metadata": {"generateName": "mine"}})).refused(elsewhere),
        row("change another node", "PATCH", "/api/v1/nodes/other", json!({"spec": {"unschedulable": true}})).refused(elsewhere),
        row("report another node", "PATCH", "/api/v1/nodes/other/status", json!({"status": {"phase": "x"}})).refused(elsewhere),
        row("delete another node", "DELETE", "/api/v1/nodes/other", Value::Null).refused(""),
        row("delete all nodes", "DELETE", "/api/v1/nodes", Value::Null).refused(""),
        row("label itself as secure", "PATCH", "/api/v1/nodes/mine", json!({"metadata": {"labels": restricted}})).refused("is not allowed to modify labels"),
        row("label itself through its status", "PATCH", "/api/v1/nodes/mine/status", json!({"metadata": {"labels": role}})).refused("is not allowed to modify labels"),
        row("taint itself", "PATCH", "/api/v1/nodes/mine", taints).refused("is not allowed to modify taints"),
        row("remove its taints", "MERGE", "/api/v1/nodes/mine", json!({"spec": {"taints": []}})).refused("is not allowed to modify taints"),
        row("take another lease", "PATCH", format!("{LEASES}/other"), json!({"spec": {"holderIdentity": "mine"}})).refused("same name"),
        row("make another lease", "POST", LEASES, lease("new")).refused("same name"),
        row("delete another lease", "DELETE", format!("{LEASES}/other"), Value::Null).refused("same name"),
        row("delete all leases", "DELETE", LEASES, Value::Null).refused(""),
        row("take a controller's lease", "POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", lease("mine")).refused("kube-node-lease"),
        row("make another CSINode", "POST", CSI_NODES, json!({"metadata": {"name": "new"}, "spec": {"drivers": []}})).refused("same name"),
        row("delete another CSINode", "DELETE", format!("{CSI_NODES}/other"), Value::Null).refused("same name"),
        row("publish another's slice", "POST", SLICES, slice("new", "other")).refused("same NodeName"),
        row("publish a slice of all nodes", "POST", SLICES, {
            let mut slice = slice("new", "");
            slice["spec"]["allNodes"] = true.into();
            slice["spec"].as_object_mut().unwrap().remove("nodeName");
            slice
        }).refused("same NodeName"),
        row("change another's slice", "PUT", format!("{SLICES}/slice-other"), slice("slice-other", "mine")).refused("no relationship"),
        row("delete another's slice", "DELETE", format!("{SLICES}/slice-other"), Value::Null).refused("no relationship"),
        row("delete all slices", "DELETE", SLICES, Value::Null).refused("nodeName field selector"),
        row("delete another's slices", "DELETE", format!("{SLICES}?fieldSelector=spec.nodeName=other"), Value::Null).refused("nodeName field selector"),
        row("delete slices by driver", "DELETE", format!("{SLICES}?fieldSelector=spec.driver=x.example.com"), Value::Null).refused("nodeName field selector"),
        row("a token of nobody's", "POST", &tokens, json!({"spec": {}})).refused("not bound to a pod"),
        row("a token of another's pod", "POST", &tokens, token("theirs", &world.theirs_uid, &[])).refused("different node"),
        row("a token of a pod that was", "POST", &tokens, token("web", "old", &[])).refused("does not match the UID"),
        row("a token of an account that none of its pods has", "POST", format!("{ACCOUNTS}/privileged/token"), token("web", &world.web_uid, &[])).refused("no relationship"),
        row("a token for another audience", "POST", &tokens, token("web", &world.web_uid, &["vault"])).refused("is not authorized to request tokens"),
        row("tokens for two audiences", "POST", &tokens, token("web", &world.web_uid, &["a", "b"])).refused("0 or 1 audiences"),
        row("change a volume claim", "PATCH", format!("{VOLUME_CLAIMS}/web-volume"), json!({"metadata": {"labels": {"a": "b"}}})).refused(""),
        row("bind a volume claim", "PATCH", format!("{VOLUME_CLAIMS}/web-volume/status"), json!({"status": {"phase": "Lost"}})).refused("status.phase"),
        row("report another's volume claim", "PATCH", format!("{VOLUME_CLAIMS}/theirs-volume/status"), json!({"status": {"capacity": {"storage": "1"}}})).refused("no relationship"),
        row("change a secret of its pod", "PATCH", format!("{SECRETS}/web-secret"), json!({"metadata": {"labels": {"a": "b"}}})).refused("can only read"),
        row("make a secret", "POST", SECRETS, json!({"metadata": {"name": "new"}})).refused("can only read"),
        row("allocate a claim", "PATCH", format!("{CLAIMS}/web-claim/status"), json!({"status": {}})).refused("can only get"),
        row("bind a role to itself", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", json!({
            "metadata": {"name": "x"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
        })).refused(""),
    ]
}

#[tokio::test]
async fn a_stolen_node_certificate_reaches_nothing_of_others() {
    let cluster = Cluster::start();
    let admin = connect(&cluster).await;
    let world = prepare(&admin).await;
    let node = connect_with(&cluster.kubeconfig_as("system:node:mine", "system:nodes")).await;
    let revision = cluster.server().store().revision();
    for rows in [reads(), writes_to_pods(&world), other_writes(&world)] {
        check(&node, &rows).await;
        assert_eq!(cluster.server().store().revision(), revision, "nothing was written");
    }
}

/// Before and after the node is registered, then its pods, its devices, what it asks, and its own pods.
fn kubelet(world: &World) -> Vec<Row> {
    let selected = "fieldSelector=spec.nodeName%3Dmine";
    let briefly = "watch=true&timeoutSeconds=1";
    let one = |name: &str| format!("fieldSelector=metadata.name%3D{name}");
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "mine", "uid": world.mine_uid}]);
    let csi_node = json!({"metadata": {"name": "mine", "ownerReferences": owner}, "spec": {"drivers": []}});
    let driver =
        json!({"spec": {"drivers": [{"name": "d.example.com", "nodeID": "mine", "topologyKeys": null}]}});
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"}, "reason": "Started", "type": "Normal"});
    let access = json!({"spec": {"user": "alice", "resourceAttributes": {"verb": "get", "resource": "nodes", "subresource": "proxy"}}});
    let labels = json!({"metadata": {"labels": {"kubernetes.io/hostname": "mine", "topology.kubernetes.io/zone": "a", "example.com/rack": "7"}}});
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": null, "lastTransitionTime": null}]}});
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}, "deleteOptions": {"gracePeriodSeconds": 0}});
    let get = |path: String| row("read", "GET", path, Value::Null);
    let mut rows = vec![
        get("/api/v1/nodes/mine".into()),
        get(format!("/api/v1/nodes?{}", one("mine"))),
        get(format!("/api/v1/nodes?{}&{briefly}", one("mine"))),
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
    ];
    for path in [
        format!("/api/v1/pods?{selected}"),
        format!("/api/v1/pods?{selected}&{briefly}"),
        format!("{PODS}/web"),
        format!("{SECRETS}/web-secret"),
        format!("{SECRETS}?{}", one("web-secret")),
        format!("{SECRETS}?{}&{briefly}", one("web-secret")),
        format!("{SECRETS}/web-volume-secret"),
        format!("{MAPS}/web-map"),
        format!("{MAPS}?{}&{briefly}", one("kube-root-ca.crt")),
        format!("{VOLUME_CLAIMS}/web-volume"),
        "/api/v1/persistentvolumes/web-pv".into(),
        format!("{ATTACHMENTS}/web-attachment"),
        format!("{CLAIMS}/web-claim"),
        format!("{ACCOUNTS}/default"),
        "/api/v1/services".into(),
        format!("/api/v1/services?{briefly}"),
        "/apis/storage.k8s.io/v1/csidrivers".into(),
        format!("{SLICES}?{selected}"),
        format!("{SLICES}?{selected}&{briefly}"),
        "/api".into(),
        "/apis".into(),
        "/version".into(),
    ] {
        rows.push(get(path));
    }
    rows.extend([
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
        row("remove all its devices", "DELETE", format!("{SLICES}?{selected}"), Value::Null),
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
    ]);
    rows
}

#[tokio::test]
async fn a_kubelet_may_do_all_that_it_has_to() {
    let cluster = Cluster::start();
    let admin = connect(&cluster).await;
    let world = prepare(&admin).await;
    let node = connect_with(&cluster.kubeconfig_as("system:node:mine", "system:nodes")).await;
    check(&node, &kubelet(&world)).await;
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
