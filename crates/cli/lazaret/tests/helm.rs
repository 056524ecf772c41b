//! A chart as `helm create` makes it is installed, tested, upgraded, rolled back and uninstalled, and Helm waits for each step.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;
#[path = "../../../check/testkit/tests/tools/mod.rs"]
mod tools;

use std::process::Command;

use support::Cluster;

/// Longer than a slow machine takes for any step.
const TIMEOUT: &str = "--timeout=170s";

/// The output of Helm. It keeps everything in the cluster's folder.
fn helm(cluster: &Cluster, words: &[&str]) -> String {
    let folder = cluster.folder.path();
    let mut command = Command::new(tools::helm());
    command.args(words).current_dir(folder).env("KUBECONFIG", folder.join("kubeconfig"));
    for home in ["HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(home, folder.join("helm"));
    }
    tools::run(&mut command)
}

#[test]
fn a_chart_lives_a_whole_life() {
    let cluster = Cluster::start(&["--nodes", "2"]);
    helm(&cluster, &["create", "demo"]);
    let deployment = "/apis/apps/v1/namespaces/default/deployments/web-demo";
    // Helm looks at the replica set, whose deployment follows it; and it is content with more than it asked for.
    let ready = |replicas: i64| {
        cluster.until("the deployment says that its replicas are ready", |cluster| {
            let status = &cluster.get(deployment)["status"];
            status["readyReplicas"] == replicas && status["replicas"] == replicas
        });
    };
    helm(&cluster, &["install", "web", "demo", "--wait", TIMEOUT]);
    ready(1);
    let service = cluster.get("/api/v1/namespaces/default/services/web-demo");
    assert!(service["spec"]["clusterIP"].as_str().unwrap().starts_with("10."), "{service}");
    cluster.until("its endpoints are known", |cluster| {
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name=web-demo";
        let slice = &cluster.get(slices)["items"][0];
        slice["endpoints"][0]["conditions"]["ready"] == true && slice["ports"][0]["port"] == 80
    });
    let said = helm(&cluster, &["test", "web", TIMEOUT]);
    assert!(said.contains("Phase:          Succeeded"), "{said}");
    helm(
        &cluster,
        &["upgrade", "web", "demo", "--set", "replicaCount=3,service.type=NodePort", "--wait", TIMEOUT],
    );
    ready(3);
    let opened = cluster.get("/api/v1/namespaces/default/services/web-demo");
    assert_eq!(opened["spec"]["clusterIP"], service["spec"]["clusterIP"]);
    assert!(opened["spec"]["ports"][0]["nodePort"].as_i64().unwrap() >= 30_000, "{opened}");
    helm(&cluster, &["rollback", "web", "1", "--wait", TIMEOUT]);
    ready(1);
    let closed = cluster.get("/api/v1/namespaces/default/services/web-demo");
    assert_eq!(closed["spec"]["ports"][0].get("nodePort"), None, "{closed}");
    helm(&cluster, &["uninstall", "web", "--wait", TIMEOUT]);
    assert_eq!(cluster.names("/apis/apps/v1/namespaces/default/deployments"), Vec::<String>::new());
    assert_eq!(cluster.names("/api/v1/namespaces/default/services"), ["kubernetes"]);
    cluster.until("nothing is left", |cluster| {
        let pods = cluster.names("/api/v1/namespaces/default/pods");
        let slices = cluster.names("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices");
        // The pod of the chart's own test stays, to be looked at.
        pods.iter().all(|name| name.ends_with("test-connection")) && slices == ["kubernetes"]
    });
}
