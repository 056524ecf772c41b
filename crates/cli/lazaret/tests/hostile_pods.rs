//! Pods that take more than their share: each goes, or is held, with a text that says why, and a neighbour runs on.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed, and says why it could not begin"
)]

mod support;

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use support::{
    Cluster,
    node::{
        KilledOnDrop, NO_PRESSURE, PODS, Root, condition, containers_of, import_image, pod, runtime,
        start_with_node, status, wait_for_phase,
    },
    wait_until,
};

/// Whether pods are kept apart here. Without that, a hostile pod would take what is this machine's.
fn is_isolated() -> bool {
    runtime() == "runc"
}

/// A pod beside the hostile one, which counts.
fn add_neighbour(cluster: &Cluster, root: &Path) {
    let script = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.2; done";
    cluster.send("POST", PODS, &pod("neighbour", root, script, "Always"));
    wait_for_phase(cluster, "neighbour", "Running");
}

/// It counts on, and was never started again.
fn check_neighbour(cluster: &Cluster) {
    let count = |cluster: &Cluster| -> u64 {
        let log = cluster.text(&format!("{PODS}/neighbour/log?tailLines=1"));
        log.trim().parse().unwrap_or(0)
    };
    let before = count(cluster);
    cluster.until("the neighbour goes on", |cluster| count(cluster) > before);
    let container = &status(cluster, "neighbour")["containerStatuses"][0];
    assert_eq!((&container["restartCount"], &container["ready"]), (&json!(0), &json!(true)));
}

fn is_evicted(cluster: &Cluster, name: &str, text: &str) {
    wait_for_phase(cluster, name, "Failed");
    let status = status(cluster, name);
    assert_eq!(status["reason"], "Evicted", "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains(text), "{message}");
    let is_one = |event: &Value| event["reason"] == "Evicted" && event["involvedObject"]["name"] == name;
    cluster.until("an event says it", |cluster| {
        let events = cluster.get("/api/v1/namespaces/default/events")["items"].clone();
        events.as_array().unwrap().iter().any(is_one)
    });
}

#[test]
fn a_pod_that_writes_more_than_it_may_is_evicted_and_its_room_is_free() {
    if !is_isolated() {
        return;
    }
    let (cluster, root) = start_with_node(&[]);
    add_neighbour(&cluster, &root.0);
    let write =
        |path: &str| format!("dd if=/dev/zero of={path}/x bs=1024k count=4 2>/dev/null; sleep 1000000");
    let mut volume = pod("volume", &root.0, &write("/scratch"), "Always");
    volume["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {"sizeLimit": "2Mi"}}]);
    volume["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "scratch", "mountPath": "/scratch"}]);
    let mut own = pod("own", &root.0, &write("/bin"), "Always");
    own["spec"]["containers"][0]["resources"] = json!({"limits": {"ephemeral-storage": "2Mi"}});
    let mut log = pod("log", &root.0, "seq 1 500000; sleep 1000000", "Always");
    log["spec"]["containers"][0]["resources"] = json!({"limits": {"ephemeral-storage": "3Mi"}});
    for pod in [&volume, &own, &log] {
        cluster.send("POST", PODS, pod);
    }
    is_evicted(&cluster, "volume", "Usage of EmptyDir volume \"scratch\" exceeds the limit \"2Mi\". ");
    let limit = "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ";
    is_evicted(&cluster, "own", limit);
    is_evicted(
        &cluster,
        "log",
        "Pod ephemeral local storage usage exceeds the total limit of containers 3Mi. ",
    );
    cluster.until("nothing of them is left on the disk", |cluster| {
        let uid = |name: &str| cluster.get(&format!("{PODS}/{name}"))["metadata"]["uid"].clone();
        ["volume", "own", "log"].iter().all(|name| {
            let uid = uid(name);
            let uid = uid.as_str().unwrap();
            let log = root.0.join("logs").join(format!("default_{name}_{uid}"));
            let places = [root.0.join("pods").join(uid), root.0.join("run/runc/sandboxes").join(uid), log];
            places.iter().all(|place| !place.exists())
        })
    });
    check_neighbour(&cluster);
    assert_eq!(condition(&cluster, "here", "DiskPressure")["status"], "False");
}

#[test]
fn a_pod_that_eats_memory_or_forks_without_end_is_held_by_its_limit() {
    if !is_isolated() {
        return;
    }
    const PIDS: usize = 40;
    let (cluster, root) = start_with_node(&["--pod-max-pids", &PIDS.to_string()]);
    add_neighbour(&cluster, &root.0);
    let mut eats = pod("eats", &root.0, "tail /dev/zero", "Never");
    eats["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": "24Mi"}});
    cluster.send("POST", PODS, &eats);
    // It has an end, in case the limit does not hold.
    let script = "i=0; while [ $i -lt 400 ]; do sleep 1000000 & i=$((i+1)); done; wait";
    cluster.send("POST", PODS, &pod("forks", &root.0, script, "Never"));
    wait_for_phase(&cluster, "eats", "Failed");
    let ended = status(&cluster, "eats")["containerStatuses"][0]["state"]["terminated"].clone();
    assert_eq!((&ended["reason"], &ended["exitCode"]), (&json!("OOMKilled"), &json!(137)), "{ended}");
    cluster.until("it cannot fork any more", |cluster| {
        cluster.text(&format!("{PODS}/forks/log")).contains("can't fork")
    });
    // The neighbour has two, and so has a sandbox.
    let processes = containers_of(&root.0).len();
    assert!(processes <= PIDS + 10, "{processes} processes");
    check_neighbour(&cluster);
    cluster.send("DELETE", &format!("{PODS}/forks"), &json!({}));
    cluster.until("it is gone", |cluster| !cluster.names(PODS).contains(&"forks".to_owned()));
    check_neighbour(&cluster);
}

#[test]
fn a_log_without_end_is_cut_into_few_files() {
    if !is_isolated() {
        return;
    }
    let (cluster, root) = start_with_node(&[]);
    add_neighbour(&cluster, &root.0);
    let script = "while :; do seq 1 200000; sleep 0.3; done";
    cluster.send("POST", PODS, &pod("talks", &root.0, script, "Always"));
    wait_for_phase(&cluster, "talks", "Running");
    let uid = cluster.get(&format!("{PODS}/talks"))["metadata"]["uid"].as_str().unwrap().to_owned();
    let folder = root.0.join("logs").join(format!("default_talks_{uid}/c"));
    let files = || -> Vec<(String, u64)> {
        let all = fs::read_dir(&folder).into_iter().flatten().flatten();
        all.filter_map(|file| Some((file.file_name().into_string().ok()?, file.metadata().ok()?.len())))
            .collect()
    };
    let mut seen = std::collections::BTreeSet::new();
    wait_until("old files go", || {
        let files = files();
        assert!(files.len() <= 5, "{files:?}");
        seen.extend(files.into_iter().map(|(name, _)| name));
        seen.len() > 6
    });
    // A file that has just begun may have none.
    cluster.until("its last lines can be read", |cluster| {
        cluster.text(&format!("{PODS}/talks/log?tailLines=3")).lines().count() == 3
    });
    check_neighbour(&cluster);
}

#[test]
fn a_link_in_a_volume_leads_nowhere_outside_of_it() {
    if !is_isolated() {
        return;
    }
    let (cluster, root) = start_with_node(&[]);
    add_neighbour(&cluster, &root.0);
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "of the host\n").unwrap();
    let target = outside.path().to_str().unwrap();
    let mut linked = pod("linked", &root.0, "cat /x/secret; sleep 1000000", "Never");
    let spec = &mut linked["spec"];
    spec["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    spec["initContainers"] = json!([{
        "name": "makes-link", "image": support::node::IMAGE, "command": ["/bin/ln", "-s", target, "/v/out"],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }]);
    spec["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/x", "subPath": "out"}]);
    cluster.send("POST", PODS, &linked);
    cluster.until("its container is refused", |cluster| {
        let waiting = status(cluster, "linked")["containerStatuses"][0]["state"]["waiting"].clone();
        ["CreateContainerConfigError", "CreateContainerError"]
            .iter()
            .any(|reason| waiting["reason"] == **reason)
    });
    assert!(!cluster.text(&format!("{PODS}/linked/log?container=c")).contains("of the host"));
    // A link that the program itself follows ends in its own root.
    let script = format!("ln -s {target} /scratch/out; cat /scratch/out/secret; echo read; sleep 1000000");
    let mut follows = pod("follows", &root.0, &script, "Never");
    follows["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    follows["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/scratch"}]);
    cluster.send("POST", PODS, &follows);
    let log = |cluster: &Cluster| cluster.text(&format!("{PODS}/follows/log"));
    cluster.until("it tried", |cluster| log(cluster).contains("read"));
    assert!(!log(&cluster).contains("of the host"));
    check_neighbour(&cluster);
}

/// The node is short of memory from its first observation on: no machine has 99 % free.
#[test]
fn a_node_that_is_short_of_memory_evicts_pods_and_takes_no_more() {
    let cluster = Cluster::start(&[]);
    let folder = tempfile::Builder::new().prefix("n").tempdir().unwrap();
    let root = Root(folder.path().join("k"), None);
    fs::create_dir(&root.0).unwrap();
    import_image(&root.0);
    let words = ["node", "--node-name", "here", "--node-port", "0", "--runtime", runtime(), "--root"];
    let start = |thresholds: &[&str]| {
        let mut command = cluster.command(&words);
        command.arg(&root.0).args(thresholds).stdout(Stdio::null()).stderr(Stdio::null());
        KilledOnDrop(command.spawn().unwrap())
    };
    let mut agent = start(&NO_PRESSURE);
    let sleeps = |name: &str, priority: &str| {
        let mut pod = pod(name, &root.0, "sleep 1000000", "Always");
        pod["spec"]["nodeName"] = "here".into();
        if !priority.is_empty() {
            pod["spec"]["priorityClassName"] = priority.into();
        }
        pod
    };
    cluster.send("POST", PODS, &sleeps("any", ""));
    cluster.send("POST", PODS, &sleeps("critical", "system-node-critical"));
    wait_for_phase(&cluster, "any", "Running");
    wait_for_phase(&cluster, "critical", "Running");
    assert!(Command::new("kill").args(["-TERM", &agent.0.id().to_string()]).status().unwrap().success());
    assert!(agent.0.wait().unwrap().success());

    agent = start(&["--eviction-hard", "memory.available<99%"]);
    is_evicted(&cluster, "any", "The node was low on resource: memory. Threshold quantity: ");
    let target = status(&cluster, "any")["conditions"].clone();
    let is_target = |condition: &Value| {
        condition["type"] == "DisruptionTarget" && condition["reason"] == "TerminationByKubelet"
    };
    assert!(target.as_array().unwrap().iter().any(is_target), "{target}");
    cluster.until("the Node says so", |cluster| {
        let pressure = condition(cluster, "here", "MemoryPressure");
        let message = pressure["message"].as_str().unwrap_or_default().to_owned();
        pressure["status"] == "True"
            && pressure["reason"] == "KubeletHasInsufficientMemory"
            && message.contains("memory.available is ")
            && message.contains(", below the threshold ")
    });
    cluster.send("POST", PODS, &sleeps("late", ""));
    wait_for_phase(&cluster, "late", "Failed");
    let message = status(&cluster, "late")["message"].clone();
    assert_eq!(message, "Pod was rejected: The node had condition: [MemoryPressure]. ");
    let container = &status(&cluster, "critical")["containerStatuses"][0];
    assert_eq!((&container["restartCount"], &container["ready"]), (&json!(0), &json!(true)));
    for name in ["any", "critical", "late"] {
        cluster.send("DELETE", &format!("{PODS}/{name}"), &json!({}));
    }
    cluster.until("all pods are gone", |cluster| cluster.names(PODS).is_empty());
    drop(agent);
}
