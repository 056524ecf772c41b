//! The roles of the chart are enough, and where they are less that is said.

use std::process::{Child, Command, Stdio};

use lazaret_controllers::Controllers;
use serde_json::{Value, json};

use crate::{
    replica::Replica,
    stage::{DRIVER, OTHERS, PARTS, Stage},
};

fn policy() -> Value {
    json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "TaintReplacementPolicy", "metadata": {"name": "web"},
        "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "automaticReplacementOptions": {
            "taintReplacementTimeSeconds": 0,
            "deviceTaintReplacementOptions": [{"key": "*", "durationInSeconds": 0}],
        }},
    })
}

#[test]
fn the_roles_of_the_chart_are_enough_to_replace_and_to_evict() {
    let stage = Stage::with(OTHERS, PARTS);
    let config = stage.kubeconfig("lazaret-controllers");
    let replica = Replica::start(&config, "a", &["replacement", "eviction"]);
    stage.until("it is ready", || replica.is_ready());
    assert!(replica.get("/readyz").contains("[+]synced/pods ok"), "{}", replica.get("/readyz"));
    stage.workload(2);
    stage.create("/apis/lazaret.dev/v1alpha1/namespaces/default/taintreplacementpolicies", &policy());
    // One node is left for both.
    stage.taint("soft", "node-1", "NoSchedule");
    let on = |stage: &Stage, node: &str| {
        let pods = stage.pods();
        pods.len() == 2
            && pods.iter().all(|pod| pod["spec"]["nodeName"] == node && pod["status"]["phase"] == "Running")
    };
    stage.until("both were replaced", || on(&stage, "node-2"));
    let policies = "/apis/lazaret.dev/v1alpha1/namespaces/default/taintreplacementpolicies";
    stage.until("the status says so", || {
        let status = &stage.list(policies)[0]["status"];
        status["totals"]["inFlight"] == 0 && status["totals"]["selected"] == 2
    });
    stage.request("DELETE", &format!("{policies}/web"), "application/json", &Value::Null).unwrap();
    stage
        .request("DELETE", "/apis/resource.k8s.io/v1/devicetaintrules/soft", "application/json", &Value::Null)
        .unwrap();
    stage.taint("hard", "node-2", "NoExecute");
    stage.until("both were evicted", || on(&stage, "node-1"));
    stage.until("the rule says that it is done", || {
        let rules = stage.list("/apis/resource.k8s.io/v1/devicetaintrules");
        let conditions = rules[0]["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|one| one["type"] == "EvictionInProgress" && one["reason"] == "Completed")
    });
    stage.until("the events are there", || stage.evictions().len() == 2);
    assert_eq!(stage.refused(), Vec::<String>::new());
    assert!(!replica.get("/metrics").contains("lazaret_resource_unreadable{resource=\"pods\"} 1"));
}

#[test]
fn the_roles_of_the_chart_are_enough_to_schedule_and_to_make_claims() {
    let settings = "scheduler.enabled=true,controllers.parts.claims=true,controllers.parts.poolStatus=true";
    let stage = Stage::with(Controllers { eviction: true, ..Controllers::NONE }, &[settings]);
    let controllers = Replica::start(
        &stage.kubeconfig("lazaret-controllers"),
        "c",
        &["claims", "pool-status", "replacement"],
    );
    let scheduler = Replica::start(
        &stage.kubeconfig("lazaret-scheduler"),
        "s",
        &["scheduler", "--scheduler-name", "lazaret"],
    );
    stage.until("both are ready", || controllers.is_ready() && scheduler.is_ready());
    stage.workload_for("lazaret");
    stage.create(
        "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests",
        &json!({"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourcePoolStatusRequest",
            "metadata": {"name": "all"}, "spec": {"driver": DRIVER}}),
    );
    stage.until("pools are told", || {
        let request = &stage.list("/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests")[0];
        request["status"]["conditions"].as_array().is_some_and(|all| !all.is_empty())
    });
    // Claims are given back: reservations, finalizers and the claims themselves.
    stage
        .request("DELETE", "/api/v1/namespaces/default/pods/solo", "application/json", &Value::Null)
        .unwrap();
    stage.until("the claim is gone", || {
        stage.list("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims").is_empty()
    });
    assert_eq!(stage.refused(), Vec::<String>::new());
}

impl Stage {
    /// A pod with a device that another scheduler places.
    fn workload_for(&self, scheduler: &str) {
        self.create(
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
            &json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "one"},
                "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}},
            }),
        );
        self.create(
            "/api/v1/namespaces/default/pods",
            &json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "solo"},
                "spec": {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "c", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
                    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]},
            }),
        );
        self.until("it runs", || self.pods()[0]["status"]["phase"] == "Running");
    }
}

#[test]
fn who_lacks_a_permission_says_so_and_does_the_rest() {
    let stage = Stage::with(OTHERS, &[]);
    // The role without devices: taints of nodes still count.
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/lazaret-controllers-see";
    let rules = json!({"rules": [
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["lazaret.dev"], "resources": ["taintreplacementpolicies"], "verbs": ["get", "list", "watch"]},
    ]});
    stage.request("PATCH", role, "application/merge-patch+json", &rules).unwrap();
    let replica = Replica::start(&stage.kubeconfig("lazaret-controllers"), "a", &["replacement"]);
    stage.create("/apis/lazaret.dev/v1alpha1/namespaces/default/taintreplacementpolicies", &policy());
    stage.until("it says what it cannot read", || {
        replica.get("/metrics").contains("lazaret_resource_unreadable{resource=\"resourceclaims\"} 1")
    });
    stage.until("it is ready all the same", || replica.is_ready());
    stage.until("the policy says so too", || {
        let policies = stage.list("/apis/lazaret.dev/v1alpha1/namespaces/default/taintreplacementpolicies");
        let conditions = policies[0]["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|one| one["type"] == "Degraded" && one["status"] == "True")
    });
}

/// A process that is ended with this.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_roles_of_the_chart_are_enough_for_a_driver_and_a_node_agent() {
    let settings = "drivers.example.enabled=true,nodeAgent.enabled=true";
    let stage = Stage::with(Controllers::default(), &[settings]);
    // The path of a socket is short.
    let root = tempfile::tempdir_in("/tmp").unwrap();
    let start = |words: &[&str], account: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lazaret"));
        command.args(words).args(["--node-name", "node-1", "--kubeconfig"]).arg(stage.kubeconfig(account));
        Other(command.stdout(Stdio::null()).spawn().unwrap())
    };
    let root_text = root.path().to_str().unwrap();
    let cdi = root.path().join("cdi");
    let _agent = start(&["node", "--dra-only", "--root", root_text], "lazaret-node");
    let _driver = start(
        &[
            "driver",
            "example",
            "--driver-name",
            "nic.example.com",
            "--profile",
            "nic",
            "--devices",
            "2",
            "--kubelet-root",
            root_text,
            "--cdi-root",
            cdi.to_str().unwrap(),
        ],
        "lazaret-driver-example",
    );
    let slices = || {
        let all = stage.list("/apis/resource.k8s.io/v1/resourceslices");
        all.into_iter().filter(|slice| slice["spec"]["driver"] == "nic.example.com").collect::<Vec<_>>()
    };
    // An agent that starts removes slices of drivers that have not registered with it, and the driver publishes again.
    stage.until("it has published its devices", || {
        let devices = |slice: &Value| slice["spec"]["devices"].as_array().map(Vec::len);
        slices().iter().map(devices).collect::<Vec<_>>() == [Some(2)]
    });
    stage.until("the agent says in the Node that it reports", || {
        let node = stage.request("GET", "/api/v1/nodes/node-1", "application/json", &Value::Null).unwrap();
        node["metadata"]["annotations"]["lazaret.dev/reports-unprepared"] == "true"
    });
    assert_eq!(stage.refused(), Vec::<String>::new());
}
