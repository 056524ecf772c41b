//! `lazaret driver`, as a user runs it beside `lazaret up`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use std::process::{Child, Command};

use serde_json::Value;
use support::{Cluster, wait_until};

const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.driver=example.lazaret.dev";

/// A process that does not outlive its test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn devices(cluster: &Cluster) -> Vec<Value> {
    let slices = cluster.get(SLICES);
    let slices = slices["items"].as_array().unwrap().iter();
    slices.flat_map(|slice| slice["spec"]["devices"].as_array().cloned().unwrap_or_default()).collect()
}

#[test]
fn the_example_publishes_fails_on_command_and_leaves_no_socket() {
    let cluster = Cluster::start(&["--nodes", "1", "--devices", "0"]);
    let root = tempfile::Builder::new().prefix("d").tempdir().unwrap();
    let path = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    let words = ["driver", "example", "--driver-name", "example.lazaret.dev", "--node-name", "node-1"];
    let mut command = cluster.command(&words);
    command.args(["--devices", "4", "--health-interval-ms", "10", "--recover-after-ms", "1"]);
    command.args([
        "--kubelet-root",
        &path("kubelet"),
        "--cdi-root",
        &path("cdi"),
        "--fault",
        "fail gpu-0 hot",
    ]);
    let mut driver = Ends(command.spawn().unwrap());
    let socket = root.path().join("kubelet/plugins_registry/example.lazaret.dev@reg.sock");
    wait_until("the driver listens", || socket.exists());
    cluster.until("four devices are published", |cluster| devices(cluster).len() == 4);
    assert_eq!(devices(&cluster)[0]["taints"][0]["key"], "example.lazaret.dev/hot");

    let control = path("kubelet/plugins/example.lazaret.dev/control.sock");
    let tell = |words: &[&str]| {
        let mut command = cluster.command(&["driver", "tell", "--socket", &control]);
        command.args(words).output().unwrap()
    };
    let told = tell(&["fail gpu-1 lost", "list"]);
    assert!(told.status.success());
    assert_eq!(String::from_utf8(told.stdout).unwrap(), "ok\nfail gpu-0 hot\nfail gpu-1 lost\n");
    cluster.until("it is tainted", |cluster| devices(cluster)[1]["taints"][0]["effect"] == "NoExecute");
    let wrong = tell(&["explode"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("not understood"));

    let killed = Command::new("kill").args(["-TERM", &driver.0.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert!(driver.0.wait().unwrap().success());
    for directory in ["kubelet/plugins_registry", "kubelet/plugins/example.lazaret.dev"] {
        let left = std::fs::read_dir(root.path().join(directory)).unwrap().flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
    assert_eq!(devices(&cluster).len(), 4, "another instance may take over");
}
