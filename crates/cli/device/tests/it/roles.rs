//! The roles in `deploy/` are enough for what they promise, and not for more.

use std::path::Path;

use expect_test::expect;
use lazaret_device::Verdict;
use serde_json::{Value, json};

use crate::support::{Cluster, without_times};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

async fn cluster_with(role: &str) -> Cluster {
    let cluster = Cluster::with_roles().await;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/kubectl-device.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    for document in text.split("\n---\n") {
        let object: Value = serde_saphyr::from_str(document).unwrap();
        cluster.post(ROLES, object).await;
    }
    let binding = json!({
        "metadata": {"name": "ada"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ada@example.com"}],
    });
    cluster.post(BINDINGS, binding).await;
    cluster.fill().await;
    cluster
}

#[tokio::test]
async fn who_may_see_sees_everything_and_changes_nothing() {
    let cluster = cluster_with("kubectl-device-read").await;
    for words in [
        &["list"][..],
        &["describe", "node-1/gpu-0"],
        &["plan", "node-1/gpu-0", "a:NoExecute"],
        &["why", "research/trainer"],
        &["history"],
        &["incidents"],
        &["taint", "node-1/gpu-0", "a:NoSchedule", "--dry-run=client"],
    ] {
        let ran = cluster.run(words).await;
        assert!(ran.verdict.is_ok(), "{words:?}: {ran:?}");
    }
    let refused = cluster.run(&["taint", "node-1/gpu-0", "a:NoSchedule"]).await.error();
    assert!(refused.contains("cannot create resource \"devicetaintrules\""), "{refused}");
    let checked = cluster.run(&["check"]).await;
    assert_eq!(checked.verdict, Ok(Verdict::Yes));
    assert!(
        checked.out.contains("‼ may act on devices: missing: create devicetaintrules"),
        "{}",
        checked.out
    );
}

#[tokio::test]
async fn who_may_act_acts() {
    let cluster = cluster_with("kubectl-device-act").await;
    for words in [
        &["taint", "node-1/gpu-0", "a:NoSchedule"][..],
        &["taint", "node-1/gpu-0", "a=b:NoSchedule", "--overwrite"],
        &["taint", "node-1/gpu-0", "a-"],
        &["report", "node-1/gpu-0", "example.com/fan=loud", "--reason", "heard it"],
        &["drain", "node-2/gpu-0", "--reason", "x", "--yes"],
        &["uncordon", "node-2/gpu-0"],
    ] {
        let ran = cluster.run(words).await;
        assert!(ran.verdict.is_ok(), "{words:?}: {ran:?}");
        assert!(!ran.notes.contains("history"), "{}", ran.notes);
    }
    assert!(cluster.run(&["check"]).await.out.contains("√ may act on devices"));
}

#[tokio::test]
async fn who_may_nothing_is_told_what_is_missing() {
    let cluster = Cluster::with_roles().await;
    let refused = cluster.run(&["list"]).await.error();
    assert!(refused.contains("is forbidden: User \"ada@example.com\" cannot list"), "{refused}");
    assert!(refused.contains("- apiGroups: [\"resource.k8s.io\"]"), "{refused}");
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// May read slices and rules everywhere, but claims and pods in one namespace at most.
async fn cluster_with_one_namespace(namespace: Option<&str>) -> Cluster {
    let cluster = Cluster::with_roles().await;
    let user = json!([{"apiGroup": RBAC, "kind": "User", "name": "ada@example.com"}]);
    let devices = json!({
        "metadata": {"name": "devices"},
        "rules": [{"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices", "deviceclasses", "devicetaintrules", "resourceslicepatches"], "verbs": ["list", "watch"]}],
    });
    cluster.post(ROLES, devices).await;
    let everywhere = json!({"metadata": {"name": "ada"}, "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "devices"}, "subjects": user});
    cluster.post(BINDINGS, everywhere).await;
    if let Some(namespace) = namespace {
        let users = json!({
            "metadata": {"name": "users"},
            "rules": [{"apiGroups": ["", "resource.k8s.io"], "resources": ["pods", "resourceclaims"], "verbs": ["list", "watch"]}],
        });
        let path = format!("/apis/{RBAC}/v1/namespaces/{namespace}");
        cluster.post(&format!("{path}/roles"), users).await;
        let here = json!({"metadata": {"name": "ada"}, "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "users"}, "subjects": user});
        cluster.post(&format!("{path}/rolebindings"), here).await;
    }
    cluster.fill().await;
    cluster
}

#[tokio::test]
async fn who_may_read_claims_of_one_namespace_sees_those_and_knows_what_is_missing() {
    let cluster = cluster_with_one_namespace(Some("research")).await;
    let ran = cluster.run(&["list", "-n", "research"]).await;
    expect![[r#"
        resourceclaims.resource.k8s.io is forbidden: User "ada@example.com" cannot list resource "resourceclaims" in API group "resource.k8s.io" at the cluster scope
        add to a ClusterRole of this user, or ask for it:
          - apiGroups: ["resource.k8s.io"]
            resources: ["resourceclaims"]
            verbs: ["list"]
        not every ResourceClaim is known: those of namespace research are shown
    "#]].assert_eq(&ran.notes);
    expect![[r#"
        NAME                           NODE     MODEL   STATE   TAINTS   HOLDER
        gpu.example.com/node-1/gpu-0   node-1   A100    InUse   <none>   research/trainer
    "#]]
    .assert_eq(&ran.out);
    let ran = cluster.run(&["describe", "node-1/gpu-0", "-n", "research"]).await;
    expect![[r#"
        resourceclaims.resource.k8s.io is forbidden: User "ada@example.com" cannot list resource "resourceclaims" in API group "resource.k8s.io" at the cluster scope
        add to a ClusterRole of this user, or ask for it:
          - apiGroups: ["resource.k8s.io"]
            resources: ["resourceclaims"]
            verbs: ["list"]
        not every ResourceClaim is known: those of namespace research are shown
        pods is forbidden: User "ada@example.com" cannot list resource "pods" in API group "" at the cluster scope
        add to a ClusterRole of this user, or ask for it:
          - apiGroups: [""]
            resources: ["pods"]
            verbs: ["list"]
        not every Pod is known: those of namespace research are shown
        events may not be read with this user: history shows only what is there now
    "#]].assert_eq(&ran.notes);
    let told = ran.out.split("Held by").nth(1).map(without_times);
    expect![[r#"
        :
          claim research/trainer-gpu, pods trainer
        If NoExecute: of the pods that this user may see
          pod research/trainer of Job/trainer would be evicted after 600s
        History:      <none>
    "#]]
    .assert_eq(&told.unwrap_or_default());
}

#[tokio::test]
async fn who_may_read_no_claims_sees_devices_and_does_not_take_them_for_free() {
    let cluster = cluster_with_one_namespace(None).await;
    let ran = cluster.run(&["list"]).await;
    expect![[r#"
        resourceclaims.resource.k8s.io is forbidden: User "ada@example.com" cannot list resource "resourceclaims" in API group "resource.k8s.io" at the cluster scope
        add to a ClusterRole of this user, or ask for it:
          - apiGroups: ["resource.k8s.io"]
            resources: ["resourceclaims"]
            verbs: ["list"]
        not every ResourceClaim is known: none is shown
    "#]].assert_eq(&ran.notes);
    expect![[r#"
        NAME                           NODE     MODEL   STATE     TAINTS                              HOLDER
        gpu.example.com/node-1/gpu-0   node-1   A100    Unknown   <none>                              <unknown>
        gpu.example.com/node-1/gpu-1   node-1   A100    Unknown   gpu.example.com/hot:None (driver)   <unknown>
        gpu.example.com/node-2/gpu-0   node-2   A100    Unknown   <none>                              <unknown>
        gpu.example.com/node-2/gpu-1   node-2   A100    Unknown   <none>                              <unknown>
    "#]].assert_eq(&ran.out);
    let ran = cluster.run(&["describe", "node-1/gpu-0"]).await;
    let told = ran.out.split("Held by").nth(1).map(without_times);
    expect![[r#"
        :      <unknown>
        If NoExecute: <unknown>
        History:      <none>
    "#]]
    .assert_eq(&told.unwrap_or_default());
    let refused = cluster.run(&["taint", "node-1/gpu-0", "a:NoSchedule"]).await.error();
    assert!(refused.contains("cannot list resource \"resourceclaims\""), "{refused}");
}
