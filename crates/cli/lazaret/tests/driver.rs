//! `lazaret driver`, as a user runs it beside `lazaret up`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use std::process::{Child, Command};

use serde_json::Value;
use support::{Cluster, wait_until};

const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.driver=example.lazaret.dev";

/// A process that does not outlive its test.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
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
    let mut driver = KilledOnDrop(command.spawn().unwrap());
    let socket = root.path().join("kubelet/plugins_registry/example.lazaret.dev@reg.sock");
    wait_until("the driver listens", || socket.exists());
    cluster.until("four devices are published", |cluster| devices(cluster).len() == 4);
    cluster.until("the first one fails from the start", |cluster| {
        devices(cluster)[0]["taints"][0]["key"] == "example.lazaret.dev/hot"
    });

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

/// A driver that runs beside `lazaret up`.
struct Example<'a> {
    cluster: &'a Cluster,
    root: tempfile::TempDir,
}

impl<'a> Example<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        Self { cluster, root: tempfile::Builder::new().prefix("d").tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> String {
        self.root.path().join(name).to_str().unwrap().to_owned()
    }

    fn start(&self, more: &[&str]) -> KilledOnDrop {
        let words = ["driver", "example", "--driver-name", "example.lazaret.dev", "--node-name", "node-1"];
        let mut command = self.cluster.command(&words);
        command.args(["--devices", "2", "--health-interval-ms", "10", "--recover-after-ms", "1"]);
        command.args(["--kubelet-root", &self.path("kubelet"), "--cdi-root", &self.path("cdi")]);
        let child = KilledOnDrop(command.args(more).spawn().unwrap());
        let socket = self.root.path().join("kubelet/plugins/example.lazaret.dev/control.sock");
        wait_until("the driver listens", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
        child
    }

    fn tell(&self, command: &str) -> std::process::Output {
        let control = self.path("kubelet/plugins/example.lazaret.dev/control.sock");
        self.cluster.command(&["driver", "tell", "--socket", &control, command]).output().unwrap()
    }
}

#[test]
fn a_driver_that_crashed_starts_again_where_it_left_its_sockets() {
    let cluster = Cluster::start(&["--nodes", "1", "--devices", "0"]);
    let example = Example::new(&cluster);
    let mut first = example.start(&["--profile", "fpga", "--partitions", "2"]);
    cluster.until("devices and their parts are published", |cluster| devices(cluster).len() == 6);
    example.tell("crash");
    assert!(!first.0.wait().unwrap().success());
    let registry = example.root.path().join("kubelet/plugins_registry");
    assert_eq!(std::fs::read_dir(&registry).unwrap().count(), 1, "nothing was cleaned up");
    let _second = example.start(&["--soak-seed", "3", "--soak-interval-ms", "500", "--soak-faults", "fail"]);
    cluster.until("another process publishes its own", |cluster| devices(cluster).len() == 2);
    cluster.until("faults come by chance", |cluster| {
        devices(cluster).iter().any(|device| device["taints"].as_array().is_some_and(|list| !list.is_empty()))
    });
}

#[test]
fn kubectl_device_makes_a_driver_fail_and_says_so_when_nobody_listens() {
    let cluster = Cluster::start(&["--nodes", "1", "--devices", "0"]);
    let example = Example::new(&cluster);
    let mut driver = example.start(&[]);
    cluster.until("two devices are published", |cluster| devices(cluster).len() == 2);
    let device = |words: &[&str]| {
        let mut command = cluster.command(&["device"]);
        command.args(words).output().unwrap()
    };
    let failed = device(&["fail", "node-1/gpu-1", "--reason", "fan"]);
    assert!(failed.status.success(), "{failed:?}");
    assert_eq!(String::from_utf8(failed.stdout).unwrap(), "node-1/gpu-1 reported failing\n");
    let taint = &devices(&cluster)[1]["taints"][0];
    assert_eq!((&taint["key"], &taint["value"]), (&"example.lazaret.dev/unhealthy".into(), &"fan".into()));
    let recovered = device(&["recover", "node-1/gpu-1"]);
    assert!(recovered.status.success(), "{recovered:?}");
    assert!(devices(&cluster)[1]["taints"].is_null());
    driver.0.kill().unwrap();
    driver.0.wait().unwrap();
    let ignored = device(&["fail", "node-1/gpu-0", "--timeout", "1s"]);
    assert_eq!(ignored.status.code(), Some(1));
    let text = String::from_utf8(ignored.stderr).unwrap();
    assert!(text.contains("nothing happened to gpu-0. Is the driver running there?"), "{text}");
}
