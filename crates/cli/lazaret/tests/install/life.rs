//! Installed, upgraded, rolled back, removed: nothing is left behind.

use std::{
    collections::BTreeSet,
    io::Write,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    render::{CRDS, deploy, forget_own_kinds, helm_in, lazaret},
    support::Cluster,
    tools,
};

/// Longer than a slow machine takes for any step.
const TIMEOUT: &str = "--timeout=170s";

/// All objects there are, but for those that a cluster makes and forgets by itself.
fn all_objects(cluster: &Cluster) -> BTreeSet<String> {
    let mut versions = vec![("/api/v1".to_owned(), "v1".to_owned())];
    for group in cluster.get("/apis")["groups"].as_array().unwrap() {
        let version = group["preferredVersion"]["groupVersion"].as_str().unwrap().to_owned();
        versions.push((format!("/apis/{version}"), version));
    }
    let mut found = BTreeSet::new();
    for (path, _) in versions {
        for resource in cluster.get(&path)["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            let lists = resource["verbs"].as_array().unwrap().contains(&json!("list"));
            if !lists || ["events", "leases", "controllerrevisions"].contains(&name) {
                continue;
            }
            let list = cluster.get(&format!("{path}/{name}"));
            for item in list["items"].as_array().unwrap() {
                let metadata = &item["metadata"];
                let namespace = metadata["namespace"].as_str().unwrap_or_default();
                found.insert(format!("{path}/{name} {namespace}/{}", metadata["name"].as_str().unwrap()));
            }
        }
    }
    found
}

fn helm(cluster: &Cluster, words: &[&str]) -> String {
    let folder = cluster.folder.path();
    let mut command = helm_in(folder);
    tools::run(command.args(words).current_dir(folder).env("KUBECONFIG", folder.join("kubeconfig")))
}

/// A cluster that Lazaret is installed into.
fn foreign_cluster() -> Cluster {
    let cluster = Cluster::start(&["--nodes", "2"]);
    cluster.until("nodes are there", |cluster| {
        cluster.names("/apis/resource.k8s.io/v1/resourceslices").len() == 2
    });
    // The own objects of a cluster exist before the added ones are counted.
    cluster.until("every namespace has its account and its certificate", |cluster| {
        cluster.names("/api/v1/namespaces").iter().all(|namespace| {
            let has = |plural: &str, name: &str| {
                cluster
                    .names(&format!("/api/v1/namespaces/{namespace}/{plural}"))
                    .iter()
                    .any(|one| one == name)
            };
            has("serviceaccounts", "default") && has("configmaps", "kube-root-ca.crt")
        })
    });
    forget_own_kinds(&cluster);
    cluster
}

#[test]
fn helm_installs_upgrades_rolls_back_and_leaves_nothing() {
    let cluster = foreign_cluster();
    let before = all_objects(&cluster);
    let chart = deploy("chart").canonicalize().unwrap();
    let chart = chart.to_str().unwrap();
    let place = ["--namespace", "lazaret-system", "--wait", TIMEOUT];
    let run = |words: &[&str]| helm(&cluster, &[words, &place[..]].concat());
    run(&["install", "lazaret", chart, "--create-namespace", "--set", "crds.keep=false"]);
    let deployments = "/apis/apps/v1/namespaces/lazaret-system/deployments";
    let ready = |name: &str, replicas: i64| {
        cluster.until("its replicas are ready", |cluster| {
            cluster.get(&format!("{deployments}/{name}"))["status"]["readyReplicas"] == replicas
        });
    };
    ready("lazaret-controllers", 2);
    assert_eq!(
        cluster.names(CRDS),
        [
            "devicehealthpolicies.lazaret.dev",
            "deviceincidents.lazaret.dev",
            "devicesignals.lazaret.dev",
            "devicetaintpolicies.lazaret.dev",
            "disruptionguards.lazaret.dev",
            "resourceslicepatches.lazaret.dev",
            "taintreplacementpolicies.lazaret.dev",
        ]
    );
    let more = "crds.keep=false,scheduler.enabled=true,drivers.example.enabled=true,drivers.example.deviceClass=false,nodeAgent.enabled=true,controllers.replicas=3";
    run(&["upgrade", "lazaret", chart, "--set", more]);
    ready("lazaret-controllers", 3);
    ready("lazaret-scheduler", 2);
    assert_eq!(
        cluster.names("/apis/apps/v1/namespaces/lazaret-system/daemonsets"),
        ["lazaret-driver-example", "lazaret-node"]
    );
    run(&["rollback", "lazaret", "1"]);
    assert_eq!(cluster.names(deployments), ["lazaret-controllers"]);
    ready("lazaret-controllers", 2);
    helm(&cluster, &["uninstall", "lazaret", "--namespace", "lazaret-system", "--wait", TIMEOUT]);
    cluster.send("DELETE", "/api/v1/namespaces/lazaret-system", &Value::Null);
    cluster.until("nothing is left", |cluster| all_objects(cluster) == before);
}

fn kubectl(cluster: &Cluster, words: &[&str], input: &str) -> String {
    let folder = cluster.folder.path();
    let mut command = Command::new(tools::kubectl());
    command.args(words).env("KUBECONFIG", folder.join("kubeconfig")).env("HOME", folder);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{words:?}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn one_command_installs_and_the_same_one_removes() {
    let cluster = foreign_cluster();
    let before = all_objects(&cluster);
    let manifest = lazaret(&["install", "--namespace", "gpu-ops"]);
    let applied = kubectl(&cluster, &["apply", "-f", "-"], &manifest);
    assert!(applied.contains("deployment.apps/lazaret-controllers created"), "{applied}");
    let again = kubectl(&cluster, &["apply", "-f", "-"], &manifest);
    // kubectl replaces the selector of a budget as a whole, and calls that a change although none comes of it.
    let is_unchanged =
        |line: &str| line.ends_with(" unchanged") || line.starts_with("poddisruptionbudget.policy/");
    assert!(again.lines().all(is_unchanged), "{again}");
    cluster.until("its replicas are ready", |cluster| {
        let path = "/apis/apps/v1/namespaces/gpu-ops/deployments/lazaret-controllers";
        cluster.get(path)["status"]["readyReplicas"] == 2
    });
    kubectl(&cluster, &["delete", "--ignore-not-found", "-f", "-"], &manifest);
    cluster.until("nothing is left", |cluster| all_objects(cluster) == before);
}
