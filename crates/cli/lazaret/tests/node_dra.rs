//! `lazaret node --dra-only`, as a user runs it beside `lazaret up` and `lazaret driver example`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use std::process::{Child, Command};

use serde_json::json;
use support::{Cluster, wait_until};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A process that does not outlive its test.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A node, a driver, and a scheduler that gives a pod a device: the pod's devices are prepared, and unprepared when it is
/// deleted.
#[test]
fn a_pod_gets_its_device_and_gives_it_back() {
    let cluster = Cluster::start(&[]);
    let root = tempfile::Builder::new().prefix("n").tempdir().unwrap();
    let path = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    let amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    let ready = json!({"type": "Ready", "status": "True"});
    let status = json!({"conditions": [ready], "capacity": amounts, "allocatable": amounts});
    let mut node = cluster.send("POST", "/api/v1/nodes", &json!({"metadata": {"name": "n"}}));
    node["status"] = status;
    // A controller writes it too, at the same time.
    node["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    cluster.send("PUT", "/api/v1/nodes/n/status", &node);

    let mut command = cluster.command(&["node", "--dra-only", "--node-name", "n", "--root", &path("k")]);
    let mut agent = KilledOnDrop(command.spawn().unwrap());
    let words =
        ["driver", "example", "--driver-name", "gpu.example.com", "--node-name", "n", "--devices", "1"];
    let mut command = cluster.command(&words);
    command.args(["--kubelet-root", &path("k"), "--cdi-root", &path("cdi")]);
    wait_until("the agent has made its directories", || root.path().join("k/plugins_registry").exists());
    let _driver = KilledOnDrop(command.spawn().unwrap());

    let expression = json!({"cel": {"expression": "device.driver == 'gpu.example.com'"}});
    let class = json!({"metadata": {"name": "gpu"}, "spec": {"selectors": [expression]}});
    cluster.send("POST", "/apis/resource.k8s.io/v1/deviceclasses", &class);
    let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu"}});
    let template =
        json!({"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": [request]}}}});
    cluster.send("POST", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates", &template);
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        },
    });
    let pod = cluster.send("POST", PODS, &pod);
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let offer = root.path().join("k/dra_pods").join(format!("{uid}.json"));
    wait_until("the device is prepared", || offer.exists());
    cluster.until("its health is shown", |cluster| {
        let pod = cluster.get(&format!("{PODS}/p"));
        let shown = &pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"][0];
        shown["name"] == "claim:gpu" && shown["resources"][0]["health"] == "Healthy"
    });
    assert_eq!(std::fs::read_dir(path("cdi")).unwrap().count(), 1);
    cluster.send("DELETE", &format!("{PODS}/p"), &json!({}));
    cluster.until("the pod is gone", |cluster| cluster.names(PODS).is_empty());
    assert!(!offer.exists());
    assert_eq!(std::fs::read_dir(path("cdi")).unwrap().count(), 0, "unprepared before the pod was gone");

    let killed = Command::new("kill").args(["-TERM", &agent.0.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert!(agent.0.wait().unwrap().success());
}
