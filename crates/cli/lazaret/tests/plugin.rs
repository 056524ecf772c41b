//! The binary under the names by which kubectl and shells call it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;
#[path = "../../../check/testkit/tests/tools/mod.rs"]
mod tools;

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use support::{Cluster, LAZARET};

/// A folder with the links of README.md, and a path that begins with it.
fn links(cluster: &Cluster) -> String {
    let folder = cluster.folder.path();
    let kubectl = tools::kubectl();
    let lazaret = PathBuf::from(LAZARET);
    for (name, program) in [
        ("kubectl", &kubectl),
        ("kubectl-device", &lazaret),
        ("kubectl_complete-device", &lazaret),
        ("lazaret", &lazaret),
    ] {
        std::os::unix::fs::symlink(program, folder.join(name)).unwrap();
    }
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default())
}

fn shell(cluster: &Cluster, path: &str, script: &str) -> String {
    let mut command = Command::new("bash");
    command.args(["--norc", "--noprofile", "-c", script]).env("PATH", path);
    command.env("KUBECONFIG", cluster.folder.path().join("kubeconfig")).env("HOME", cluster.folder.path());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// Waits until a script prints this. Completion does not wait long for a cluster that is slow, and leaves out what it does not hear.
fn until_said(cluster: &Cluster, path: &str, script: &str, wanted: &str) {
    cluster.until(&format!("{script} prints {wanted:?}"), |cluster| shell(cluster, path, script) == wanted);
}

#[test]
fn kubectl_and_shells_complete_names_from_the_cluster() {
    let cluster = Cluster::start(&["--nodes", "2", "--devices", "2"]);
    let path = links(&cluster);
    cluster.until("devices are published", |cluster| {
        cluster.names("/apis/resource.k8s.io/v1/resourceslices").len() == 2
    });
    let device = "gpu.example.com/node-1/gpu-0\ngpu.example.com/node-1/gpu-1\n";
    // As kubectl's own completion asks: by kubectl_complete-device.
    let script = "kubectl __complete device describe gpu.example.com/node-1 2>/dev/null";
    until_said(&cluster, &path, script, &format!("{device}:4\n"));
    let said = shell(&cluster, &path, "kubectl device list node-2/gpu-0 -o name");
    assert_eq!(said, "gpu.example.com/node-2/gpu-0\n");
    // As bash asks, by the script that the program prints.
    for (program, words) in [("kubectl-device", "list node-1/"), ("lazaret", "device list node-1/")] {
        let completion =
            if program == "lazaret" { "lazaret completion bash" } else { "kubectl-device completion bash" };
        let function = format!("_{}_complete", program.replace('-', "_"));
        let count = words.split(' ').count();
        let script = format!(
            "source <({completion}); COMP_LINE='{program} {words}'; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=({program} {words}); \
             COMP_CWORD={count}; {function}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        until_said(&cluster, &path, &script, "node-1/gpu-0\nnode-1/gpu-1\n");
    }
    // Where no server answers, the shell is not kept waiting and offers no files.
    let nowhere = shell(&cluster, &path, "KUBECONFIG=/nowhere kubectl_complete-device list ''");
    assert_eq!(nowhere, ":4\n");
}

#[test]
fn a_server_listens_on_a_host_name_and_refuses_group_versions_that_do_not_exist() {
    let cluster = Cluster::start_with("localhost:0", &["--nodes", "1", "--devices", "1"]);
    assert_eq!(cluster.names("/api/v1/namespaces/default/pods"), [] as [&str; 0]);
    let refused = |words: &[&str]| {
        let output = Command::new(LAZARET).arg("up").args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let text = refused(&["--data-dir", folder, "--runtime-config", "resource.k8s.io/v1alpha1=true"]);
    assert!(
        text.starts_with("error: --runtime-config: unknown group version \"resource.k8s.io/v1alpha1\": known are api/all, api/ga, api/beta, api/alpha, "),
        "{text}"
    );
    assert!(
        refused(&["--listen", "7443"]).contains("write it as 127.0.0.1:7443, [::1]:7443 or localhost:7443")
    );
    let text = refused(&["--data-dir", folder, "--ephemeral", "--listen", "no-such-host.invalid:0"]);
    assert!(text.contains("look up the host of --listen no-such-host.invalid:0"), "{text}");
}
