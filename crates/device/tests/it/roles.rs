//! The roles in `deploy/` are enough for what they promise, and not for more.

use std::path::Path;

use lazaret_device::Verdict;
use serde_json::{Value, json};

use crate::support::Cluster;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

async fn cluster_with(role: &str) -> Cluster {
    let cluster = Cluster::with_roles().await;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubectl-device.yaml");
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
