//! Pods that do not end, do not answer, or leave very much behind: each goes in its time, with everything, and a neighbour runs on.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed, and says why it could not begin"
)]

mod support;

use std::{fs, net::TcpListener, path::Path};

use serde_json::{Value, json};
use support::{
    Cluster,
    node::{PODS, pod, processes_with, runtime, start_with_node, status, wait_for_phase},
    wait_until,
};

/// Whether pods are kept apart here.
fn is_isolated() -> bool {
    runtime() == "runc"
}

fn add_neighbour(cluster: &Cluster, root: &Path) {
    cluster.send("POST", PODS, &pod("neighbour", root, "sleep 1000000", "Always"));
    wait_for_phase(cluster, "neighbour", "Running");
}

fn check_neighbour(cluster: &Cluster) {
    let container = &status(cluster, "neighbour")["containerStatuses"][0];
    assert_eq!((&container["restartCount"], &container["ready"]), (&json!(0), &json!(true)), "{container}");
}

/// Deletes a pod, and waits until the API and the disk have nothing of it.
fn delete(cluster: &Cluster, root: &Path, name: &str) {
    let uid = cluster.get(&format!("{PODS}/{name}"))["metadata"]["uid"].as_str().unwrap().to_owned();
    cluster.send("DELETE", &format!("{PODS}/{name}"), &json!({}));
    cluster.until("the pod is gone", |cluster| !cluster.names(PODS).contains(&name.to_owned()));
    let places = [root.join("pods").join(&uid), root.join("run/runc/sandboxes").join(&uid)];
    wait_until("nothing of it is left on the disk", || places.iter().all(|place| !place.exists()));
}

/// Events of a pod for a reason.
fn events(cluster: &Cluster, name: &str, reason: &str) -> Vec<Value> {
    let events = cluster.get("/api/v1/namespaces/default/events")["items"].clone();
    let is_one = |event: &Value| event["involvedObject"]["name"] == name && event["reason"] == reason;
    events.as_array().unwrap().iter().filter(|event| is_one(event)).cloned().collect()
}

#[test]
fn a_container_that_ignores_its_end_and_forks_away_leaves_no_process() {
    if !is_isolated() {
        return;
    }
    let (cluster, root) = start_with_node(&[]);
    add_neighbour(&cluster, &root.0);
    // Sessions of their own, without a parent, that ignore every signal they can.
    let away = "trap '' TERM HUP INT; while :; do /bin/busybox sleep 1; done";
    let script = format!(
        "trap '' TERM HUP INT; for i in 1 2 3; do (/bin/busybox setsid sh -c \"{away}\" &) & done; echo away; while :; do sleep 1; done"
    );
    let mut stays = pod("stays", &root.0, &script, "Always");
    // All of its processes have it, and no others.
    let own = json!({"name": "STAYS_OF", "value": root.0.to_str().unwrap()});
    stays["spec"]["containers"][0]["env"].as_array_mut().unwrap().push(own);
    let left = || processes_with(&format!("STAYS_OF={}", root.0.display())).len();
    cluster.send("POST", PODS, &stays);
    wait_for_phase(&cluster, "stays", "Running");
    cluster.until("they forked", |cluster| cluster.text(&format!("{PODS}/stays/log")).contains("away"));
    wait_until("they run", || left() > 3);
    delete(&cluster, &root.0, "stays");
    wait_until("no process of it is left", || left() == 0);
    check_neighbour(&cluster);
}

/// A server that accepts and never says a word, and a program that never ends.
#[test]
fn probes_that_never_answer_fail_in_their_time_and_leave_nothing_behind() {
    if !is_isolated() {
        return;
    }
    let (cluster, root) = start_with_node(&[]);
    add_neighbour(&cluster, &root.0);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let mut asks = pod("asks", &root.0, "sleep 1000000", "Always");
    let container = &mut asks["spec"]["containers"][0];
    // A word that only these processes have.
    let word = format!("1{:09}", std::process::id());
    container["readinessProbe"] = json!({
        "exec": {"command": ["/bin/sh", "-c", format!("sleep {word}")]}, "periodSeconds": 1, "timeoutSeconds": 1,
    });
    container["livenessProbe"] = json!({
        "httpGet": {"host": "127.0.0.1", "port": port}, "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 5,
    });
    cluster.send("POST", PODS, &asks);
    cluster.until("it is started again", |cluster| {
        status(cluster, "asks")["containerStatuses"][0]["restartCount"]
            .as_u64()
            .is_some_and(|count| count > 0)
    });
    cluster.until("events say so", |cluster| {
        let unhealthy = events(cluster, "asks", "Unhealthy");
        let said =
            |part: &str| unhealthy.iter().any(|event| event["message"].as_str().unwrap().contains(part));
        said("Liveness probe failed: ") && said("Readiness probe failed: ")
    });
    // The same failure is one event with a count, and not an event each time; those that differ are ten at most.
    cluster.until("it is counted", |cluster| {
        events(cluster, "asks", "Unhealthy").iter().any(|event| event["count"].as_u64() >= Some(3))
    });
    let events = events(&cluster, "asks", "Unhealthy").len();
    assert!(events <= 10, "{events} events");
    // Eight programs run in a pod at a time, each a shell and what it executes.
    let probes = processes_with(&word).len();
    assert!(probes <= 16, "{probes} processes of probes");
    delete(&cluster, &root.0, "asks");
    wait_until("no probe is left", || processes_with(&word).is_empty());
    check_neighbour(&cluster);
    drop(silent);
}

#[test]
fn a_volume_with_very_many_files_goes_with_its_pod() {
    if !is_isolated() {
        return;
    }
    const FILES: usize = 5_000;
    let (cluster, root) = start_with_node(&[]);
    add_neighbour(&cluster, &root.0);
    // In its volume and in its own root, 2,048 directories in each other, and a name of the greatest length.
    let deep = "c=d; i=0; while [ $i -lt 9 ]; do c=$c/$c; i=$((i+1)); done; \
                i=0; while [ $i -lt 4 ]; do /bin/busybox mkdir -p $c && cd -P $c || exit 1; i=$((i+1)); done";
    let script = format!(
        "i=0; while [ $i -lt {FILES} ]; do : >/v/$i; i=$((i+1)); done; (cd /v; {deep}) || exit 1; (cd /bin; {deep}) || exit 2; \
         : >/v/$(/bin/busybox printf '%0255d' 0); echo full; sleep 1000000"
    );
    let mut fills = pod("fills", &root.0, &script, "Never");
    fills["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    fills["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    cluster.send("POST", PODS, &fills);
    cluster
        .until("the volume is full", |cluster| cluster.text(&format!("{PODS}/fills/log")).contains("full"));
    let uid = cluster.get(&format!("{PODS}/fills"))["metadata"]["uid"].as_str().unwrap().to_owned();
    let volume = root.0.join("pods").join(uid).join("volumes/kubernetes.io~empty-dir/v");
    assert_eq!(fs::read_dir(&volume).unwrap().count(), FILES + 2);
    delete(&cluster, &root.0, "fills");
    check_neighbour(&cluster);
}
