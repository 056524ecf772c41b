//! `kubectl device approve` of taints that no rule sets, and what `why`, `check` and `guard list` say of them.

use lazaret_device::Verdict;
use serde_json::{Value, json};

use crate::support::Cluster;

const GUARDS: &str = "/apis/lazaret.dev/v1alpha1/disruptionguards";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const COMMAND: &str =
    "kubectl device approve --driver gpu.example.com --taint gpu.example.com/health=failed:NoExecute";
const SINCE: &str = "2026-01-01T11:00:00.123000Z";

/// A cluster whose guard holds the taint that a driver has put on a device in use.
async fn cluster(approvers: &str) -> Cluster {
    let cluster = Cluster::small().await;
    cluster.pod_with_device("server", "node-2", "gpu-0", json!([])).await;
    let listed = cluster.get(SLICES).await;
    let slices = listed["items"].as_array().unwrap();
    let slice = slices.iter().find(|slice| slice["spec"]["pool"]["name"] == "node-2").unwrap();
    let mut devices = slice["spec"]["devices"].clone();
    devices[0]["taints"] = json!([{
        "key": "gpu.example.com/health", "value": "failed", "effect": "NoExecute",
        "timeAdded": "2026-01-01T11:00:00Z",
    }]);
    let name = slice["metadata"]["name"].as_str().unwrap();
    let patch = json!({"spec": {"devices": devices}});
    cluster.send("PATCH", &format!("{SLICES}/{name}"), "application/merge-patch+json", &patch).await;
    let guard = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "fleet"},
        "spec": {"confirmAbove": {"pods": 0}, "approvers": approvers},
    });
    cluster.post(GUARDS, guard).await;
    let held = json!({"status": {"held": [{
        "driver": "gpu.example.com", "key": "gpu.example.com/health", "value": "failed", "since": SINCE,
        "pods": 1, "namespaces": 1, "devices": 1, "reason": "ApprovalRequired",
        "message": format!("taint of the driver: 1 pod; {COMMAND}"),
    }]}});
    let path = format!("{GUARDS}/fleet/status");
    cluster.send("PATCH", &path, "application/merge-patch+json", &held).await;
    cluster
}

fn words(command: &str) -> Vec<&str> {
    command.split(' ').skip(2).collect()
}

async fn approvals(cluster: &Cluster) -> Value {
    let guard = cluster.get(&format!("{GUARDS}/fleet")).await;
    let text = guard["metadata"]["annotations"]["lazaret.dev/taint-approvals"].as_str();
    serde_json::from_str(text.unwrap_or("null")).unwrap()
}

#[tokio::test]
async fn the_command_that_is_named_approves_the_taint_of_a_driver() {
    let cluster = cluster("Different").await;
    let shown = cluster.run(&[&words(COMMAND)[..], &["--dry-run"]].concat()).await.ok();
    let wanted = "taint gpu.example.com/health=failed:NoExecute of driver gpu.example.com approved for 1 pod in 1 namespace on 1 device";
    assert!(shown.starts_with(wanted), "{shown}");
    assert_eq!(approvals(&cluster).await, Value::Null, "nothing is written");
    let said = cluster.run(&[&words(COMMAND)[..], &["--reason", "seen", "-o", "json"]].concat()).await.ok();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&said["kind"], &said["of"], &said["guards"], &said["pods"]),
        (&json!("ApproveResult"), &json!("DriverTaint"), &json!(["fleet"]), &json!(1))
    );
    assert_eq!(
        approvals(&cluster).await,
        json!([{
            "driver": "gpu.example.com", "key": "gpu.example.com/health", "value": "failed", "since": SINCE,
            "pods": 1, "namespaces": 1, "devices": 1, "reason": "seen",
            "at": "2026-01-01T12:00:00.000000Z", "by": "ada@example.com",
        }])
    );
}

#[tokio::test]
async fn a_second_user_approves_a_taint_with_the_words_of_the_first() {
    let mut cluster = cluster("Anyone").await;
    for user in ["ada@example.com", "bob@example.com"] {
        cluster = cluster.with_user(user);
        cluster.run_by_the_clock(&words(COMMAND)).await.ok();
        assert_eq!(approvals(&cluster).await[0]["by"], user);
    }
}

#[tokio::test]
async fn a_taint_that_no_guard_holds_is_not_approved() {
    let cluster = cluster("Anyone").await;
    let approve = |taint: &'static str| ["approve", "--driver", "gpu.example.com", "--taint", taint];
    let error = cluster.run(&approve("other:NoExecute")).await.error();
    assert!(error.starts_with("no DisruptionGuard holds taint other:NoExecute"), "{error}");
    assert!(error.contains(COMMAND), "{error}");
    let error = cluster.run(&approve("other:NoSchedule")).await.error();
    assert!(error.contains("evicts no pod: write KEY=VALUE:NoExecute"), "{error}");
}

/// The four places name the taint and the command.
#[tokio::test]
async fn why_check_and_guard_list_name_the_command() {
    let cluster = cluster("Anyone").await;
    let why = cluster.run(&["why", "-n", "research", "server"]).await.ok();
    assert!(why.contains("is blocked (Held): taint of the driver: 1 pod; kubectl device approve"), "{why}");
    assert!(why.contains("for which it is due to be evicted"), "{why}");
    let checked = cluster.run(&["check"]).await.out;
    assert!(
        checked.contains("‼ taint gpu.example.com/health=failed:NoExecute of driver gpu.example.com evicts no pod before it is approved"),
        "{checked}"
    );
    assert!(checked.contains(&format!("    {COMMAND}\n")), "{checked}");
    let listed = cluster.run(&["guard", "list"]).await.ok();
    assert!(listed.contains(&format!("guard fleet holds taint of the driver: 1 pod; {COMMAND}")), "{listed}");
    let listed: Value =
        serde_json::from_str(&cluster.run(&["guard", "list", "-o", "json"]).await.ok()).unwrap();
    assert_eq!(listed["items"][0]["held"][0]["approve"], COMMAND);
}

#[tokio::test]
async fn the_author_of_a_rule_does_not_approve_it() {
    let cluster = cluster("Different").await;
    cluster.run(&["cordon", "node-1/gpu-0", "--reason", "boards"]).await.ok();
    let rules = cluster.get("/apis/resource.k8s.io/v1/devicetaintrules").await;
    let name = rules["items"][0]["metadata"]["name"].as_str().unwrap();
    let said = cluster.run(&["approve", name]).await;
    assert_eq!(said.verdict, Ok(Verdict::No), "{said:?}");
    let wanted = "is not approved: DisruptionGuard fleet wants approval by another user than ada@example.com, who wrote it: ask one to run this command";
    assert!(said.out.contains(wanted), "{}", said.out);
}

#[tokio::test]
async fn a_patch_is_approved_by_its_name() {
    let cluster = Cluster::with(
        lazaret_server::Features::kubernetes_1_37(),
        &[("resource.k8s.io/v1alpha3", true)],
        vec![],
    )
    .await;
    cluster.fill().await;
    let guard = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "fleet"},
        "spec": {"confirmAbove": {"devices": 0}, "approvers": "Different"},
    });
    cluster.post(GUARDS, guard).await;
    let patches = "/apis/resource.k8s.io/v1alpha3/resourceslicepatches";
    let patch = json!({
        "apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceSlicePatch", "metadata": {"name": "fix"},
        "spec": {"devices": {
            "filter": {"driver": "gpu.example.com"}, "taints": [{"key": "a", "effect": "NoExecute"}],
        }},
    });
    let made = cluster.post(patches, patch).await;
    assert_eq!(made["metadata"]["annotations"], json!({"lazaret.dev/written-by": "admin"}));
    let said = cluster.run(&["approve", "fix", "-o", "json"]).await.ok();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["of"], &said["devices"]), (&json!("ResourceSlicePatch"), &json!(4)), "{said}");
    let approved = cluster.get(&format!("{patches}/fix")).await;
    let annotations = &approved["metadata"]["annotations"];
    assert_eq!(annotations["lazaret.dev/approved-by"], "ada@example.com");
    let approval: Value =
        serde_json::from_str(annotations["lazaret.dev/approval"].as_str().unwrap()).unwrap();
    assert_eq!((&approval["uid"], &approval["devices"]), (&made["metadata"]["uid"], &json!(4)));
}
