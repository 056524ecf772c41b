//! A machine that runs pods, as a user has it: with runc where that works, else as processes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use super::{Cluster, LAZARET, wait_until};

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const IMAGE: &str = "localhost/busybox:1";
/// A test does not depend on how full a machine is.
pub(crate) const NO_PRESSURE: [&str; 2] =
    ["--eviction-hard", "nodefs.available<0%,nodefs.inodesFree<0%,memory.available<0"];
/// Programs of the image.
const APPLETS: [&str; 12] =
    ["sh", "sleep", "env", "grep", "sort", "cat", "dd", "tail", "head", "tr", "ln", "seq"];

/// The container runtime of these tests; prints why it is not runc.
pub(crate) fn runtime() -> &'static str {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let has_runc = Command::new("runc")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    match is_root && has_runc && Path::new("/bin/busybox").exists() {
        true => "runc",
        false => {
            let why = "pods are run as processes of this machine: no root, no runc or no /bin/busybox";
            lazaret_missing::not_run("isolation of pods", "runc", why);
            "processes"
        }
    }
}

/// A directory of a node, which takes what was started from it with it: first the process that starts pods again.
pub(crate) struct Root(pub(crate) PathBuf, pub(crate) Option<u32>);

impl Drop for Root {
    fn drop(&mut self) {
        if let Some(agent) = self.1 {
            let _ = Command::new("kill").args(["-9", &agent.to_string()]).status();
        }
        let oci = self.0.join("run/runc/oci");
        if let Ok(list) = Command::new("runc").arg("--root").arg(&oci).args(["list", "-q"]).output() {
            for id in String::from_utf8_lossy(&list.stdout).lines() {
                let _ = Command::new("runc").arg("--root").arg(&oci).args(["delete", "--force", id]).status();
            }
        }
        for pid in processes_of(&self.0) {
            let _ = Command::new("kill").args(["-9", &pid]).status();
        }
        for mount in mounts_below(&self.0) {
            let _ = Command::new("umount").arg("--lazy").arg(&mount).status();
        }
    }
}

/// The mounts below this directory, the last one first.
fn mounts_below(root: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let places = table.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    let mut below: Vec<PathBuf> = places.filter(|place| place.starts_with(root)).collect();
    below.reverse();
    below
}

/// Processes that name this directory in their arguments or environment: those of containers, and those beside them.
pub(crate) fn processes_of(root: &Path) -> Vec<String> {
    processes_with(root.to_str().unwrap())
}

/// Processes of containers.
pub(crate) fn containers_of(root: &Path) -> Vec<String> {
    processes_with(&format!("OF_TEST={}", root.display()))
}

pub(crate) fn processes_with(needle: &str) -> Vec<String> {
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
pub(crate) fn import_image(root: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    if Path::new("/bin/busybox").exists() {
        fs::copy("/bin/busybox", bin.join("busybox")).unwrap();
    }
    for name in APPLETS {
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

pub(crate) fn pod(name: &str, root: &Path, script: &str, restart: &str) -> Value {
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

pub(crate) fn status(cluster: &Cluster, name: &str) -> Value {
    cluster.get(&format!("{PODS}/{name}"))["status"].clone()
}

pub(crate) fn wait_for_phase(cluster: &Cluster, name: &str, phase: &str) {
    cluster.until(&format!("{name} is {phase}"), |cluster| status(cluster, name)["phase"] == phase);
}

/// The condition of a Node.
pub(crate) fn condition(cluster: &Cluster, node: &str, kind: &str) -> Value {
    let node = cluster.try_send("GET", &format!("/api/v1/nodes/{node}"), &Value::Null).unwrap_or_default();
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

/// `lazaret up --node` with an image, ready for pods.
pub(crate) fn start_with_node(words: &[&str]) -> (Cluster, Root) {
    let first = ["--node", "--node-name", "here", "--runtime", runtime()];
    let cluster = Cluster::start(&[&first[..], &NO_PRESSURE, words].concat());
    let root = Root(cluster.folder.path().join("node"), Some(cluster.process.id()));
    wait_until("the node has its directories", || root.0.join("plugins_registry").exists());
    import_image(&root.0);
    cluster.until("the node is ready", |cluster| {
        let node = cluster.try_send("GET", "/api/v1/nodes/here", &Value::Null).unwrap_or_default();
        condition(cluster, "here", "Ready")["status"] == "True" && node["spec"]["taints"].is_null()
    });
    (cluster, root)
}

/// A process that ends with this.
pub(crate) struct KilledOnDrop(pub(crate) Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
