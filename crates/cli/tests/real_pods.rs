//! Pods that run: `lazaret up --node` and `lazaret node`, as a user runs them. With runc where that works, else as processes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use support::{Cluster, LAZARET, wait_until};

const PODS: &str = "/api/v1/namespaces/default/pods";
const IMAGE: &str = "localhost/busybox:1";
/// A test does not depend on how full a machine is.
const NO_PRESSURE: [&str; 2] =
    ["--eviction-hard", "nodefs.available<0%,nodefs.inodesFree<0%,memory.available<0"];

/// What containers are run with here, and why not with runc.
fn runtime() -> &'static str {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let has_runc = Command::new("runc")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    match is_root && has_runc && Path::new("/bin/busybox").exists() {
        true => "runc",
        false => {
            eprintln!("pods are run as processes of this machine: no root, no runc or no /bin/busybox");
            "processes"
        }
    }
}

/// A directory of a node, which takes what was started from it with it.
struct Root(PathBuf);

impl Drop for Root {
    fn drop(&mut self) {
        let oci = self.0.join("run/runc/oci");
        if let Ok(list) = Command::new("runc").arg("--root").arg(&oci).args(["list", "-q"]).output() {
            for id in String::from_utf8_lossy(&list.stdout).lines() {
                let _ = Command::new("runc").arg("--root").arg(&oci).args(["delete", "--force", id]).status();
            }
        }
        for pid in processes_of(&self.0) {
            let _ = Command::new("kill").args(["-9", &pid]).status();
        }
    }
}

/// Processes that name this directory in their arguments or environment: those of containers, and those beside them.
fn processes_of(root: &Path) -> Vec<String> {
    processes_with(root.to_str().unwrap())
}

/// Processes of containers.
fn containers_of(root: &Path) -> Vec<String> {
    processes_with(&format!("OF_TEST={}", root.display()))
}

fn processes_with(needle: &str) -> Vec<String> {
    let needle = needle.as_bytes();
    let has = |path: PathBuf| {
        fs::read(path).is_ok_and(|text| text.windows(needle.len()).any(|part| part == needle))
    };
    let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let own = std::process::id().to_string();
    let pids = all.filter(|path| has(path.join("cmdline")) || has(path.join("environ")));
    let names = pids.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && *name != own).collect()
}

/// Makes an image of one program.
fn import_image(root: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    if Path::new("/bin/busybox").exists() {
        fs::copy("/bin/busybox", bin.join("busybox")).unwrap();
    }
    for name in ["sh", "sleep", "env", "grep", "sort", "cat"] {
        std::os::unix::fs::symlink("/bin/busybox", bin.join(name)).unwrap();
    }
    let imported = Command::new(LAZARET)
        .args(["node", "image", "import"])
        .arg(folder.path())
        .args(["--name", IMAGE, "--root"])
        .arg(root)
        .output()
        .unwrap();
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
}

fn pod(name: &str, root: &Path, script: &str, restart: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 2,
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "c", "image": IMAGE, "command": ["/bin/sh", "-c", script],
                "env": [{"name": "OF_TEST", "value": root.to_str().unwrap()}],
            }],
        },
    })
}

fn status(cluster: &Cluster, name: &str) -> Value {
    cluster.get(&format!("{PODS}/{name}"))["status"].clone()
}

fn wait_for_phase(cluster: &Cluster, name: &str, phase: &str) {
    cluster.until(&format!("{name} is {phase}"), |cluster| status(cluster, name)["phase"] == phase);
}

struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A claim, a pod that prints its device, a drain that moves it to another device; the first one is unprepared.
#[test]
fn a_pod_prints_its_device_and_is_moved_to_another() {
    let words =
        ["--node", "--driver", "example", "--devices", "2", "--node-name", "here", "--runtime", runtime()];
    let cluster = Cluster::start(&[&words[..], &NO_PRESSURE].concat());
    let root = Root(cluster.folder.path().join("node"));
    wait_until("the node has its directories", || root.0.join("plugins_registry").exists());
    import_image(&root.0);
    cluster.until("the node is ready", |cluster| {
        let node = cluster.try_send("GET", "/api/v1/nodes/here", &Value::Null).unwrap_or_default();
        node["status"]["conditions"].as_array().is_some_and(|conditions| {
            conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        }) && node["spec"]["taints"].is_null()
    });
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/device-env.yaml");
    for document in fs::read_to_string(example).unwrap().split("\n---\n") {
        let mut object: Value = serde_saphyr::from_str(document).unwrap();
        if object["kind"] == "Deployment" {
            let container = &mut object["spec"]["template"]["spec"]["containers"][0];
            container["env"] = json!([{"name": "OF_TEST", "value": root.0.to_str().unwrap()}]);
        }
        let path = match object["kind"].as_str().unwrap() {
            "DeviceClass" => "/apis/resource.k8s.io/v1/deviceclasses",
            "ResourceClaimTemplate" => "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
            _ => "/apis/apps/v1/namespaces/default/deployments",
        };
        cluster.send("POST", path, &object);
    }
    let running = |cluster: &Cluster| {
        let pods = cluster.get(PODS)["items"].clone();
        let pods = pods.as_array().unwrap().iter().filter(|pod| {
            pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
        });
        pods.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).next()
    };
    cluster.until("the pod runs", |cluster| running(cluster).is_some());
    let first = running(&cluster).unwrap();
    let log = |name: &str| cluster.text(&format!("{PODS}/{name}/log"));
    cluster.until("it printed its device", |_| log(&first).contains("_UUID="));
    let device = log(&first);
    let cdi = || fs::read_dir(root.0.join("cdi")).unwrap().count();
    assert_eq!(cdi(), 1);
    let holder = |line: &str| line.split('_').nth(1).map(str::to_owned);
    let number = holder(device.lines().next().unwrap()).unwrap();
    let target = format!("here/gpu-{number}");
    let drained = cluster
        .command(&["device", "drain", &target, "--reason", "a test", "--yes", "--timeout", "2m"])
        .output()
        .unwrap();
    assert!(drained.status.success(), "{}", String::from_utf8_lossy(&drained.stderr));
    cluster.until("another pod runs", |cluster| running(cluster).is_some_and(|name| name != first));
    cluster.until("the first pod is gone", |cluster| !cluster.names(PODS).contains(&first));
    let second = running(&cluster).unwrap();
    cluster.until("it printed its device", |_| log(&second).contains("_UUID="));
    assert_ne!(holder(log(&second).lines().next().unwrap()), Some(number), "another device");
    assert_eq!(cdi(), 1, "the first device is unprepared");
    cluster.send("DELETE", "/apis/apps/v1/namespaces/default/deployments/device-env", &json!({}));
    cluster.until("all pods are gone", |cluster| {
        let is_unprepared = cdi() == 0;
        assert!(!is_unprepared || containers_of(&root.0).is_empty(), "unprepared while its container runs");
        cluster.names(PODS).is_empty()
    });
    assert_eq!(cdi(), 0);
    assert_eq!(fs::read_dir(root.0.join("logs")).unwrap().count(), 0, "no log is left");
}

/// What ran before the agent was restarted runs on, and is not started again; exit codes are in the status.
#[test]
fn containers_outlive_the_agent_and_are_found_again() {
    let cluster = Cluster::start(&[]);
    let folder = tempfile::Builder::new().prefix("n").tempdir().unwrap();
    let root = Root(folder.path().join("k"));
    fs::create_dir(&root.0).unwrap();
    import_image(&root.0);
    let words = ["node", "--node-name", "here", "--node-port", "0", "--runtime", runtime(), "--root"];
    let start = || {
        let mut command = cluster.command(&words);
        command.arg(&root.0).args(NO_PRESSURE).stdout(Stdio::null()).stderr(Stdio::null());
        Ends(command.spawn().unwrap())
    };
    let mut agent = start();
    cluster.until("the node is there", |cluster| {
        cluster.try_send("GET", "/api/v1/nodes/here", &Value::Null).is_ok()
    });
    cluster.send("POST", PODS, &pod("stays", &root.0, "sleep 1000000", "Always"));
    cluster.send(
        "POST",
        PODS,
        &pod("ends", &root.0, "echo last words >/dev/termination-log; exit 3", "Never"),
    );
    wait_for_phase(&cluster, "stays", "Running");
    wait_for_phase(&cluster, "ends", "Failed");
    let ended = status(&cluster, "ends")["containerStatuses"][0]["state"]["terminated"].clone();
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(3), &json!("Error")));
    let container = |cluster: &Cluster| status(cluster, "stays")["containerStatuses"][0].clone();
    let before = container(&cluster);

    assert!(Command::new("kill").args(["-TERM", &agent.0.id().to_string()]).status().unwrap().success());
    assert!(agent.0.wait().unwrap().success());
    assert!(!processes_of(&root.0).is_empty(), "containers run on without the agent");
    agent = start();
    cluster.send("POST", PODS, &pod("later", &root.0, "exit 0", "Never"));
    wait_for_phase(&cluster, "later", "Succeeded");
    let after = container(&cluster);
    assert_eq!(before["containerID"], after["containerID"], "it was not started again");
    assert_eq!(after["restartCount"], 0);

    for name in ["stays", "ends", "later"] {
        cluster.send("DELETE", &format!("{PODS}/{name}"), &json!({}));
    }
    cluster.until("all pods are gone", |cluster| cluster.names(PODS).is_empty());
    assert!(agent.0.try_wait().unwrap().is_none(), "the agent still runs");
    drop(agent);
    wait_until("no process is left", || processes_of(&root.0).is_empty());
}
