//! Requests of an attacker.

use serde_json::{Value, json};

use super::{
    ACCOUNTS, ATTACHMENTS, CLAIMS, CSI_NODES, LEASES, MAPS, PODS, Row, SECRETS, SLICES, VOLUME_CLAIMS, World,
    lease, mirror, row, slice, token,
};

pub(super) fn all(world: &World) -> [Vec<Row>; 4] {
    [reads(), writes_to_pods(), mirrors(world), other_writes(world)]
}

/// A slice of its own that supersedes those of another's pool.
fn in_pool(name: &str, pool: &str) -> Value {
    let mut slice = slice(name, "mine");
    slice["spec"]["pool"] = json!({"name": pool, "generation": 99, "resourceSliceCount": 1});
    slice
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
        "/api/v1/watch/namespaces/default/secrets/theirs-secret".to_owned(),
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

fn writes_to_pods() -> Vec<Row> {
    let now = json!({"gracePeriodSeconds": 0});
    let running = json!({"status": {"phase": "Failed"}});
    let eviction =
        |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let claims =
        json!({"status": {"resourceClaimStatuses": [{"name": "r", "resourceClaimName": "theirs-claim"}]}});
    let extended = json!({"status": {"extendedResourceClaimStatus": {"resourceClaimName": "theirs-claim", "requestMappings": []}}});
    let itself = "spec.nodeName set to itself";
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
    ]
}

fn mirrors(world: &World) -> Vec<Row> {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut pod = mirror(world);
        change(&mut pod);
        pod
    };
    let itself = "spec.nodeName set to itself";
    let reference = "can not create pods that reference";
    vec![
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
    let unprepared = json!({"metadata": {"annotations": {"lazaret.dev/unprepared": "[]", "lazaret.dev/reports-unprepared": "true"}}});
    vec![
        row("register another node", "POST", "/api/v1/nodes", node("new", json!({}))).refused(elsewhere),
        row("register another node by applying it", "APPLY", "/api/v1/nodes/new?fieldManager=x", node("new", json!({}))).refused(elsewhere),
        row("register under a made-up name", "POST", "/api/v1/nodes", json!({"metadata": {"generateName": "mine"}})).refused(elsewhere),
        row("change another node", "PATCH", "/api/v1/nodes/other", json!({"spec": {"unschedulable": true}})).refused(elsewhere),
        row("say what another node has unprepared", "MERGE", "/api/v1/nodes/other", unprepared.clone()).refused(elsewhere),
        row("say through its status what another node has unprepared", "MERGE", "/api/v1/nodes/other/status", unprepared).refused(elsewhere),
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
        row("publish in another's pool", "POST", SLICES, in_pool("new", "slice-other")).refused("has ResourceSlices of node"),
        row("move its slice to another's pool", "PUT", format!("{SLICES}/slice-mine"), in_pool("slice-mine", "slice-other")).refused("has ResourceSlices of node"),
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
