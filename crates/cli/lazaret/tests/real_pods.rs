//! Pods that run: `lazaret up --node` and `lazaret node`, as a user runs them. With runc where that works, else as processes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use std::{
    fs,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use support::{
    Cluster,
    node::{
        IMAGE, KilledOnDrop, NO_PRESSURE, PODS, Root, containers_of, import_image, pod, processes_of,
        runtime, start_with_node, status, wait_for_phase,
    },
    wait_until,
};

/// A claim, a pod that prints its device, a drain that moves it to another device; the first one is unprepared.
#[test]
fn a_pod_prints_its_device_and_is_moved_to_another() {
    let (cluster, root) = start_with_node(&["--driver", "example", "--devices", "2"]);
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/device-env.yaml");
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
    wait_until("no log is left", || fs::read_dir(root.0.join("logs")).unwrap().count() == 0);
}

/// Containers that ran before the agent was restarted run on, and are not started again; exit codes are in the status.
#[test]
fn containers_outlive_the_agent_and_are_found_again() {
    let cluster = Cluster::start(&[]);
    let folder = tempfile::Builder::new().prefix("n").tempdir().unwrap();
    let root = Root(folder.path().join("k"), None);
    fs::create_dir(&root.0).unwrap();
    import_image(&root.0);
    let words = ["node", "--node-name", "here", "--node-port", "0", "--runtime", runtime(), "--root"];
    let start = || {
        let mut command = cluster.command(&words);
        command.arg(&root.0).args(NO_PRESSURE).stdout(Stdio::null()).stderr(Stdio::null());
        KilledOnDrop(command.spawn().unwrap())
    };
    let mut agent = start();
    cluster.until("the node is there", |cluster| {
        cluster.try_send("GET", "/api/v1/nodes/here", &Value::Null).is_ok()
    });
    let environment = fs::read(format!("/proc/{}/environ", agent.0.id())).unwrap();
    let environment = String::from_utf8_lossy(&environment).into_owned();
    assert!(environment.contains("MIMALLOC_PURGE_DELAY=0\0"), "what it frees is given back at once");
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

/// A pod to be written back: its status may be written by the node at the same time.
fn without_version(cluster: &Cluster, name: &str) -> Value {
    let mut pod = cluster.get(&format!("{PODS}/{name}"));
    pod["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    pod
}

/// As `kubectl debug POD --image` does it.
#[test]
fn an_ephemeral_container_is_added_to_a_pod_that_runs() {
    let (cluster, root) = start_with_node(&[]);
    cluster.send("POST", PODS, &pod("p", &root.0, "sleep 1000000", "Always"));
    wait_for_phase(&cluster, "p", "Running");
    let path = format!("{PODS}/p/ephemeralcontainers");
    let mut object = without_version(&cluster, "p");
    object["spec"]["ephemeralContainers"] = json!([{
        "name": "debugger", "image": IMAGE, "command": ["/bin/sh", "-c", "echo looking; exit 5"],
        "terminationMessagePolicy": "File",
    }]);
    cluster.send("PUT", &path, &object);
    cluster.until("it ran", |cluster| {
        let state = &status(cluster, "p")["ephemeralContainerStatuses"][0]["state"];
        state["terminated"]["exitCode"] == 5
    });
    cluster.until("its log can be read", |cluster| {
        cluster.text(&format!("{PODS}/p/log?container=debugger")) == "looking\n"
    });
    let container = &status(&cluster, "p")["containerStatuses"][0];
    assert_eq!((&container["restartCount"], &container["ready"]), (&json!(0), &json!(true)));
}

/// Every file of the image that it is, and none that can be written to.
#[test]
fn an_image_is_a_volume_that_nobody_writes_to() {
    if runtime() != "runc" {
        return;
    }
    let (cluster, root) = start_with_node(&[]);
    let script = "echo /i/bin/s*; (echo >/i/new) 2>/dev/null || echo refused; cat /part/seq >/dev/null && echo part; sleep 1000000";
    let mut reads = pod("reads", &root.0, script, "Never");
    reads["spec"]["volumes"] = json!([{"name": "i", "image": {"reference": IMAGE}}]);
    reads["spec"]["containers"][0]["volumeMounts"] = json!([
        {"name": "i", "mountPath": "/i"}, {"name": "i", "mountPath": "/part", "subPath": "bin"},
    ]);
    cluster.send("POST", PODS, &reads);
    let log = |cluster: &Cluster| cluster.text(&format!("{PODS}/reads/log"));
    cluster.until("it looked", |cluster| log(cluster).contains("part"));
    let said = log(&cluster);
    assert!(
        said.contains("/i/bin/seq /i/bin/sh /i/bin/sleep /i/bin/sort\n") && said.contains("refused\n"),
        "{said}"
    );
    let mut lacks = pod("lacks", &root.0, "sleep 1000000", "Never");
    let absent = json!({"reference": "localhost/absent:1", "pullPolicy": "Never"});
    lacks["spec"]["volumes"] = json!([{"name": "i", "image": absent}]);
    lacks["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "i", "mountPath": "/i"}]);
    cluster.send("POST", PODS, &lacks);
    let text = "MountVolume.SetUp failed for volume \"i\" : ErrImageNeverPull: Container image \"localhost/absent:1\" is not present with pull policy of Never";
    cluster.until("an event says what is missing", |cluster| {
        let events = cluster.get("/api/v1/namespaces/default/events")["items"].clone();
        events
            .as_array()
            .unwrap()
            .iter()
            .any(|event| event["reason"] == "FailedMount" && event["message"] == text)
    });
    for name in ["reads", "lacks"] {
        cluster.send("DELETE", &format!("{PODS}/{name}"), &json!({}));
    }
    cluster.until("all pods are gone", |cluster| cluster.names(PODS).is_empty());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let below = root.0.join("pods");
    assert!(!mounts.contains(below.to_str().unwrap()), "nothing is mounted any more");
}

/// The reason of the status is the answer, as kubelet's is.
#[test]
fn a_log_that_is_not_there_is_refused_with_the_reason() {
    let (cluster, root) = start_with_node(&[]);
    let mut waits = pod("waits", &root.0, "true", "Never");
    waits["spec"]["containers"][0]["image"] = json!("localhost/absent:1");
    waits["spec"]["containers"][0]["imagePullPolicy"] = json!("Never");
    let name = waits["spec"]["containers"][0]["name"].as_str().unwrap().to_owned();
    cluster.send("POST", PODS, &waits);
    let why = format!("container \"{name}\" in pod \"waits\" is waiting to start: ErrImageNeverPull");
    cluster.until("the log is refused with the reason", |cluster| {
        let answer = cluster.try_send("GET", &format!("{PODS}/waits/log"), &json!(null));
        answer.is_err_and(|error| error.contains(&why))
    });
}

/// `kubectl port-forward` names no container: a port is the pod's, whichever of its containers run.
#[test]
fn ports_of_a_pod_with_several_containers_can_be_forwarded() {
    let (cluster, root) = start_with_node(&[]);
    let mut two = pod("two", &root.0, "sleep 1000000", "Always");
    let mut other = two["spec"]["containers"][0].clone();
    other["name"] = json!("other");
    two["spec"]["containers"].as_array_mut().unwrap().push(other);
    cluster.send("POST", PODS, &two);
    wait_for_phase(&cluster, "two", "Running");
    // A pod that is found is asked for over a websocket, which this request is not.
    let asked = |name: &str| {
        let path = format!("/api/v1/nodes/here/proxy/portForward/default/{name}");
        cluster.try_send("GET", &path, &Value::Null).unwrap_err()
    };
    cluster.until("the pod is found", |_| asked("two").contains("Upgrade request required"));
    assert!(asked("none").contains("not found in namespace"), "{}", asked("none"));
}

/// The kernel's limits of a container, in bytes and in microseconds of each 100,000.
fn limits_of(root: &std::path::Path, uid: &str) -> (String, String) {
    let instance = fs::read_to_string(root.join("run/runc/instance")).unwrap();
    let pod = format!("{}/{uid}", instance.trim().trim_matches('"'));
    let read = |paths: [&str; 2]| {
        let paths = paths.map(|path| path.replace("POD", &pod));
        let text = paths.iter().find_map(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        text.split_whitespace().next().unwrap_or_default().to_owned()
    };
    let memory = read([
        "/sys/fs/cgroup/memory/lazaret/POD/c-0/memory.limit_in_bytes",
        "/sys/fs/cgroup/lazaret/POD/c-0/memory.max",
    ]);
    let quota = read([
        "/sys/fs/cgroup/cpu/lazaret/POD/c-0/cpu.cfs_quota_us",
        "/sys/fs/cgroup/lazaret/POD/c-0/cpu.max",
    ]);
    (memory, quota)
}

/// As `kubectl patch pod POD --subresource resize` does it.
#[test]
fn a_pod_is_resized_while_it_runs() {
    if runtime() != "runc" {
        return;
    }
    let (cluster, root) = start_with_node(&[]);
    let mut sized = pod("p", &root.0, "sleep 1000000", "Always");
    let resources = |cpu: &str, memory: &str| {
        let amounts = json!({"cpu": cpu, "memory": memory});
        json!({"requests": amounts, "limits": amounts})
    };
    sized["spec"]["containers"][0]["resources"] = resources("100m", "32Mi");
    cluster.send("POST", PODS, &sized);
    wait_for_phase(&cluster, "p", "Running");
    let uid = cluster.get(&format!("{PODS}/p"))["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(limits_of(&root.0, &uid), ((32 << 20).to_string(), "10000".to_owned()));
    for (cpu, memory, bytes, quota) in
        [("200m", "64Mi", 64 << 20, "20000"), ("150m", "48Mi", 48 << 20, "15000")]
    {
        let mut object = without_version(&cluster, "p");
        object["spec"]["containers"][0]["resources"] = resources(cpu, memory);
        cluster.send("PUT", &format!("{PODS}/p/resize"), &object);
        cluster.until("the status says so", |cluster| {
            let status = status(cluster, "p");
            let waits = status["conditions"].as_array().unwrap().iter().any(|condition| {
                condition["type"].as_str().is_some_and(|kind| kind.starts_with("PodResize"))
            });
            let container = &status["containerStatuses"][0];
            container["resources"] == resources(cpu, memory)
                && container["allocatedResources"] == resources(cpu, memory)["requests"]
                && !waits
        });
        assert_eq!(limits_of(&root.0, &uid), (bytes.to_string(), quota.to_owned()));
    }
    assert_eq!(status(&cluster, "p")["containerStatuses"][0]["restartCount"], 0);
}

/// The metrics API that `kubectl top` reads.
#[test]
fn what_nodes_and_pods_use_is_served() {
    let (cluster, root) = start_with_node(&[]);
    cluster.send("POST", PODS, &pod("busy", &root.0, "while :; do :; done", "Always"));
    cluster.send("POST", PODS, &pod("idle", &root.0, "sleep 1000000", "Always"));
    wait_for_phase(&cluster, "busy", "Running");
    wait_for_phase(&cluster, "idle", "Running");
    let groups = cluster.get("/apis")["groups"].clone();
    assert!(groups.as_array().unwrap().iter().any(|group| group["name"] == "metrics.k8s.io"));
    let base = "/apis/metrics.k8s.io/v1beta1";
    let cpu = |usage: &Value| -> u64 {
        usage["cpu"].as_str().and_then(|text| text.strip_suffix('n')?.parse().ok()).unwrap_or(0)
    };
    cluster.until("the busy pod is seen to be busy", |cluster| {
        let list = cluster.get(&format!("{base}/namespaces/default/pods"));
        let items = list["items"].as_array().unwrap();
        let of = |name: &str| {
            let found = items.iter().find(|item| item["metadata"]["name"] == name);
            found.map(|item| cpu(&item["containers"][0]["usage"]))
        };
        // A hundredth of a processor, on a machine that is busy with other things.
        of("busy").zip(of("idle")).is_some_and(|(busy, idle)| busy > 10_000_000 && idle < busy)
    });
    let nodes = cluster.get(&format!("{base}/nodes"));
    assert_eq!(
        (&nodes["kind"], &nodes["items"][0]["metadata"]["name"]),
        (&json!("NodeMetricsList"), &json!("here"))
    );
    let memory = nodes["items"][0]["usage"]["memory"].as_str().unwrap().strip_suffix("Ki").unwrap();
    assert!(memory.parse::<u64>().unwrap() > 1_024, "{memory}");
    let one = cluster.get(&format!("{base}/namespaces/default/pods/idle"));
    assert_eq!((&one["kind"], &one["containers"][0]["name"]), (&json!("PodMetrics"), &json!("c")));
    assert!(cluster.try_send("GET", &format!("{base}/nodes/none"), &Value::Null).is_err());
    assert!(cluster.try_send("DELETE", &format!("{base}/nodes/here"), &json!({})).is_err());
}
