//! Classic claims on a machine that runs pods: `lazaret up --node` with `lazaret driver fabric`, as a user runs them. With runc where that works, else
//! as processes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use support::{
    Cluster,
    node::{IMAGE, KilledOnDrop, PODS, containers_of, start_with_node},
    wait_until,
};

const CLAIMS: &str = "/apis/cdi.k8s.io/v1alpha1/namespaces/default/resourceclaims";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// Both containers print their devices, and then that they have.
const PRINT: &str = "env | grep -E '^(FABRIC|GPU)_' | sort; echo done; sleep 1000000";

fn documents(file: &str) -> Vec<Value> {
    let path = format!("{}/../../../examples/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).unwrap();
    text.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

fn fabric(cluster: &Cluster, root: &Path) -> KilledOnDrop {
    let mut command = cluster.command(&["driver", "fabric", "--devices", "4", "--kubelet-root"]);
    command.arg(root).arg("--cdi-root").arg(root.join("cdi"));
    KilledOnDrop(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// A pod with a classic and a structured claim. Claims are named as the enhancement writes them.
fn deployment(root: &Path) -> Value {
    let container = |name: &str, claims: Value| {
        json!({
            "name": name, "image": IMAGE, "command": ["/bin/sh", "-c", PRINT], "resources": {"claims": claims},
            "env": [{"name": "OF_TEST", "value": root.to_str().unwrap()}],
        })
    };
    let template = json!({"resourceClassName": "fabric", "parameters": {"memory": "2Gi"}});
    let spec = json!({
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": false,
        "resourceClaims": [
            {"name": "card", "template": template},
            {"name": "gpu", "resourceClaimTemplateName": "one-gpu"},
        ],
        "containers": [container("both", json!(["card", "gpu"])), container("none", json!([]))],
    });
    let labels = json!({"app": "both"});
    json!({
        "metadata": {"name": "both"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    })
}

/// The pod that runs and is not to go.
fn running(cluster: &Cluster) -> Option<String> {
    let pods = cluster.get(PODS)["items"].clone();
    let mut pods =
        pods.as_array().unwrap().iter().filter(|pod| {
            pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
        });
    pods.next().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
}

fn log(cluster: &Cluster, pod: &str, container: &str) -> String {
    let path = format!("{PODS}/{pod}/log?container={container}");
    cluster.until("the container printed its environment", |cluster| cluster.text(&path).contains("done"));
    cluster.text(&path)
}

fn device(cluster: &Cluster, pod: &str) -> String {
    let claim = cluster.get(&format!("{CLAIMS}/{pod}-card"));
    claim["status"]["attributes"]["device"].as_str().unwrap().to_owned()
}

/// The test plan of the enhancement: parameters of class and claim are environment variables in the container. And beyond it: the device is tainted,
/// the pod leaves, and the next one gets another device.
#[test]
fn a_pod_with_a_classic_and_a_structured_claim_sees_both_and_leaves_when_the_classic_device_is_tainted() {
    let (cluster, root) = start_with_node(&["--driver", "example", "--devices", "2"]);
    let driver = fabric(&cluster, &root.0);
    cluster.send("POST", "/apis/cdi.k8s.io/v1alpha1/resourceclasses", &documents("fabric.yaml")[0]);
    let structured = documents("device-env.yaml");
    cluster.send("POST", "/apis/resource.k8s.io/v1/deviceclasses", &structured[0]);
    let templates = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
    cluster.send("POST", templates, &structured[1]);
    cluster.send("POST", DEPLOYMENTS, &deployment(&root.0));
    cluster.until("the pod runs", |cluster| running(cluster).is_some());
    let first = running(&cluster).unwrap();
    let claim = cluster.get(&format!("{CLAIMS}/{first}-card"));
    let (ill, uid) = (device(&cluster, &first), claim["metadata"]["uid"].as_str().unwrap());
    let printed = log(&cluster, &first, "both");
    for line in [
        format!("FABRIC_DEVICE={ill}"),
        format!("FABRIC_RESOURCE_CLAIM={uid}"),
        "FABRIC_MEMORY=2Gi".to_owned(),
        "FABRIC_SPEED=400G".to_owned(),
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line}: {printed}");
    }
    assert!(printed.contains("_UUID="), "the structured device too: {printed}");
    assert_eq!(log(&cluster, &first, "none").trim(), "done", "a container that names no claim has no device");
    let cdi = || fs::read_dir(root.0.join("cdi")).unwrap().count();
    assert_eq!(cdi(), 2);

    let selector = json!({"driver": "fabric.example.com", "pool": "fabric", "device": ill});
    let taint = json!({"key": "example.com/ill", "effect": "NoExecute"});
    let rule = json!({"metadata": {"name": "ill"}, "spec": {"deviceSelector": selector, "taint": taint}});
    cluster.send("POST", "/apis/resource.k8s.io/v1/devicetaintrules", &rule);
    cluster.until("another pod runs", |cluster| running(cluster).is_some_and(|name| name != first));
    cluster.until("the first pod is gone", |cluster| !cluster.names(PODS).contains(&first));
    let second = running(&cluster).unwrap();
    let well = device(&cluster, &second);
    assert_ne!(well, ill);
    assert!(log(&cluster, &second, "both").contains(&format!("FABRIC_DEVICE={well}\n")));
    // The first device is free by now, and still not given to the next pod.
    cluster.until("the first claim is gone", |cluster| cluster.names(CLAIMS) == [format!("{second}-card")]);
    cluster.send("DELETE", &format!("{PODS}/{second}"), &json!({}));
    cluster.until("a third pod runs", |cluster| running(cluster).is_some_and(|name| name != second));
    let third = running(&cluster).unwrap();
    assert_ne!(device(&cluster, &third), ill, "its device is tainted");

    cluster.send("DELETE", &format!("{DEPLOYMENTS}/both"), &json!({}));
    cluster.until("all pods are gone", |cluster| {
        let is_unprepared = cdi() == 0;
        assert!(!is_unprepared || containers_of(&root.0).is_empty(), "unprepared while its container runs");
        cluster.names(PODS).is_empty()
    });
    assert_eq!(cdi(), 0);
    cluster.until("all claims are gone", |cluster| cluster.names(CLAIMS).is_empty());
    let state = root.0.join("plugins/fabric.example.com/fabric.json");
    let state: Value = serde_json::from_slice(&fs::read(state).unwrap()).unwrap();
    assert_eq!(state["attached"], json!({}));
    drop(driver);
}

/// A driver and its fabric that restart have lost nothing: the claim keeps its device, and is unprepared by the new process.
#[test]
fn a_fabric_that_restarts_keeps_what_is_attached() {
    // The node looks for CDI files where the example driver writes them.
    let (cluster, root) = start_with_node(&["--driver", "example", "--devices", "1"]);
    let mut driver = fabric(&cluster, &root.0);
    for document in documents("fabric.yaml") {
        let is_pod = document["kind"] == "Pod";
        let path = if is_pod { PODS } else { "/apis/cdi.k8s.io/v1alpha1/resourceclasses" };
        cluster.send("POST", path, &document);
    }
    cluster.until("the pod runs", |cluster| running(cluster).is_some());
    let before = device(&cluster, "fabric-user");
    assert!(log_of_example(&cluster).contains(&format!("FABRIC_DEVICE={before}\n")));
    let socket = root.0.join("plugins_registry/fabric.example.com@cls.sock");
    assert!(Command::new("kill").args(["-TERM", &driver.0.id().to_string()]).status().unwrap().success());
    assert!(driver.0.wait().unwrap().success());
    assert!(!socket.exists());
    driver = fabric(&cluster, &root.0);
    wait_until("the plugin is back", || socket.exists());
    // One more claim does not get the same device.
    let claim = json!({
        "metadata": {"name": "more"}, "spec": {"resourceClassName": "fabric", "allocationMode": "Immediate"},
    });
    cluster.send("POST", CLAIMS, &claim);
    cluster.until("it is allocated", |cluster| {
        cluster.get(&format!("{CLAIMS}/more"))["status"]["phase"] == "Allocated"
    });
    let more = cluster.get(&format!("{CLAIMS}/more"))["status"]["attributes"]["device"].clone();
    assert_ne!(more, json!(before));
    cluster.send("DELETE", &format!("{PODS}/fabric-user"), &json!({}));
    cluster.until("the pod and its claim are gone", |cluster| {
        cluster.names(PODS).is_empty() && cluster.names(CLAIMS) == ["more"]
    });
    assert_eq!(fs::read_dir(root.0.join("cdi")).unwrap().count(), 0);
    drop(driver);
}

fn log_of_example(cluster: &Cluster) -> String {
    let path = format!("{PODS}/fabric-user/log");
    cluster.until("the container printed its environment", |cluster| {
        cluster.text(&path).contains("FABRIC_SPEED=400G\n")
    });
    cluster.text(&path)
}
