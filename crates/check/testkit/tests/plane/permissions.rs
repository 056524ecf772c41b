//! The permissions of the controllers of claims and evictions are enough: none of their requests is refused.

use lazaret_controllers::{Options, Parts, Plane as Controllers};
use lazaret_runtime::{Client, Metrics};
use lazaret_testkit::{Cluster, Plane, User};
use serde_json::{Value, json};

use crate::stage::{DRIVER, Stage, taint};

const READ: [&str; 3] = ["get", "list", "watch"];

/// The rights of the controllers alone.
fn role() -> Value {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "controllers"},
        "rules": [
            rule("resource.k8s.io", &["deviceclasses", "devicetaintrules", "resourceclaimtemplates", "resourceslices", "resourceslicepatches"], &READ),
            rule("resource.k8s.io", &["devicetaintrules/status"], &["patch"]),
            rule("resource.k8s.io", &["resourceclaims"], &["get", "list", "watch", "create", "patch", "update", "delete"]),
            rule("resource.k8s.io", &["resourceclaims/status"], &["patch", "update"]),
            rule("", &["pods"], &["get", "list", "watch", "delete"]),
            rule("", &["pods/status"], &["patch", "update"]),
            rule("", &["events"], &["create", "patch"]),
            rule("lazaret.dev", &["devicetaintpolicies", "disruptionguards", "resourceslicepatches", "taintreplacementpolicies"], &READ),
            rule("lazaret.dev", &["devicehealthpolicies", "deviceincidents", "devicesignals"], &READ),
            rule("lazaret.dev", &["marks"], &["write"]),
            rule("batch", &["jobs"], &READ),
            rule("", &["nodes", "namespaces"], &READ),
        ],
    })
}

#[test]
fn controllers_evict_and_free_claims_with_the_rights_of_a_role() {
    let options = |controllers: bool| Options {
        parts: Parts { scheduler: !controllers, controllers, workloads: !controllers },
        ..Options::default()
    };
    let stage = Stage::of(Cluster::options().plane(Plane::simulated(1, 2).options(options(false))), 1);
    stage.take_taints_of_nodes();
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    stage.create(&format!("{roles}/clusterroles"), &role());
    stage.create(
        &format!("{roles}/clusterrolebindings"),
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "controllers"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "controllers"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "controllers"}],
        }),
    );
    let user =
        User { name: "controllers".into(), groups: vec!["system:authenticated".into()], ..User::default() };
    let client = Client::new(stage.cluster.client_as(user));
    let _controllers = stage.cluster.block_on(async move {
        Controllers::start(client, Metrics::default(), &options(true)).await.unwrap()
    });

    stage.template("one", &json!([]));
    stage.pod("a", "one");
    stage.running("a");
    let (pool, device) = stage.device_of("a");
    stage.rule("v1", "out", &json!({"driver": DRIVER, "pool": pool, "device": device}), &taint("NoExecute"));
    stage.gone("a");
    let done = |one: &Value| one["status"] == "False" && one["reason"] == "Completed";
    stage.condition("out", "says that it is done", done);
    stage.until("its claim is gone", || {
        let left = stage.list("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims");
        left.is_empty().then_some(()).ok_or_else(|| format!("{left:?}"))
    });
    stage.until("there is an event", || {
        let events = stage.events("a", "DeviceTaintManagerEviction");
        if events.is_empty() { Err("none".to_owned()) } else { Ok(()) }
    });
    let metrics = stage.text("/metrics");
    let refused: Vec<String> = metrics
        .lines()
        .filter(|line| line.starts_with("apiserver_request_total") && line.contains("code=\"403\""))
        .map(str::to_owned)
        .collect();
    assert_eq!(refused, Vec::<String>::new());
    // One that is opened anew may be there before the old one has ended.
    stage.until("the scheduler's process and the controllers' have one watch each", || {
        let metrics = stage.text("/metrics");
        let of_rules = metrics.lines().filter(|line| {
            line.starts_with("apiserver_longrunning_requests{") && line.contains("\"devicetaintrules\"")
        });
        let watches: f64 =
            of_rules.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum();
        if watches == 2.0 { Ok(()) } else { Err(watches.to_string()) }
    });
}
