//! The user stories of the enhancement that asks for device taints, played on `lazaret up` with the files of `examples/stories`: each file is applied as
//! it is, in the order of the numbers, and what follows is looked at.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use std::{
    cell::RefCell,
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use support::{Cluster, wait_until};

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const RULES: &str = "/apis/resource.k8s.io/v1/devicetaintrules";
const INCIDENTS: &str = "/apis/lazaret.dev/v1alpha1/deviceincidents";
const MONITOR: &str = "system:serviceaccount:default:gpu-monitor";

/// Where objects of a kind are; those of namespaces in `default`.
fn collection(api_version: &str, kind: &str) -> String {
    let plural = match kind {
        "DeviceClass" => "deviceclasses".to_owned(),
        "DeviceHealthPolicy" => "devicehealthpolicies".to_owned(),
        "ResourceSlicePatch" => "resourceslicepatches".to_owned(),
        other => format!("{}s", other.to_lowercase()),
    };
    let root = if api_version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{api_version}") };
    let namespaced =
        ["Pod", "ConfigMap", "ServiceAccount", "Deployment", "ResourceClaim", "ResourceClaimTemplate"];
    let place = if namespaced.contains(&kind) { "/namespaces/default" } else { "" };
    format!("{root}{place}/{plural}")
}

fn folder(story: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/stories").join(story)
}

/// A story on a control plane of its own.
struct Story {
    cluster: Cluster,
    folder: PathBuf,
    applied: RefCell<BTreeSet<String>>,
}

impl Story {
    fn begin(name: &str, nodes: usize) -> Self {
        let cluster = Cluster::start(&["--nodes", &nodes.to_string(), "--devices", "1"]);
        cluster.until("the nodes are there", |cluster| cluster.names("/api/v1/nodes").len() == nodes);
        // A new cluster makes the account of its pods on its own time.
        cluster.until("pods may be made", |cluster| {
            cluster.names("/api/v1/namespaces/default/serviceaccounts").contains(&"default".to_owned())
        });
        Self { cluster, folder: folder(name), applied: RefCell::default() }
    }

    /// Applies a file, as `kubectl apply --server-side -f` does.
    fn apply(&self, file: &str) {
        let refused = self.try_apply_as(None, file);
        assert_eq!(refused, None, "{file}");
    }

    /// The same as another user; the server's refusal.
    fn try_apply_as(&self, user: Option<&str>, file: &str) -> Option<String> {
        let text = fs::read_to_string(self.folder.join(file)).unwrap();
        self.applied.borrow_mut().insert(file.to_owned());
        for document in text.split("\n---\n") {
            let object: Value = serde_saphyr::from_str(document).unwrap();
            let of = |field: &str| object[field].as_str().unwrap_or_default();
            let name = object["metadata"]["name"].as_str().unwrap();
            let path =
                format!("{}/{name}?fieldManager=story&force=true", collection(of("apiVersion"), of("kind")));
            if let Err(refused) = self.cluster.apply(user, &path, &object) {
                return Some(refused);
            }
        }
        None
    }

    /// Every file of the story was played.
    fn end(self) {
        let files = fs::read_dir(&self.folder).unwrap();
        let files: BTreeSet<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(files, *self.applied.borrow());
    }

    fn pod(&self, name: &str) -> Option<Value> {
        self.cluster.try_send("GET", &format!("{PODS}/{name}"), &Value::Null).ok()
    }

    fn running(&self, name: &str) {
        wait_until(&format!("{name} runs"), || {
            self.pod(name).is_some_and(|pod| pod["status"]["phase"] == "Running")
        });
    }

    fn gone(&self, name: &str) {
        wait_until(&format!("{name} is gone"), || {
            let found = self.cluster.try_send("GET", &format!("{PODS}/{name}"), &Value::Null);
            found.is_err_and(|error| error.contains("not found"))
        });
    }

    /// The scheduler has looked at a pod and says that `reason` keeps it.
    fn waits_for(&self, name: &str, reason: &str) {
        wait_until(&format!("{name} waits because of {reason}"), || {
            let pod = self.pod(name).unwrap_or_default();
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| {
                one["type"] == "PodScheduled"
                    && one["message"].as_str().is_some_and(|text| text.contains(reason))
            })
        });
    }

    /// Pods of a workload that run and are not about to go, with their names.
    fn of(&self, app: &str) -> BTreeSet<String> {
        let pods = self.cluster.get(&format!("{PODS}?labelSelector=app%3D{app}"));
        let stays = |pod: &&Value| {
            pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["phase"] == "Running"
        };
        let pods = pods["items"].as_array().unwrap().iter().filter(stays);
        pods.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    fn until_running(&self, app: &str, count: usize) -> BTreeSet<String> {
        wait_until(&format!("{count} pods of {app} run"), || self.of(app).len() == count);
        self.of(app)
    }

    /// The pool and the device of a pod.
    fn device_of(&self, pod: &str) -> (String, String) {
        let pod = self.pod(pod).unwrap();
        let claim =
            pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"].as_str().unwrap().to_owned();
        let claim = self.cluster.get(&format!("{CLAIMS}/{claim}"));
        let result = &claim["status"]["allocation"]["devices"]["results"][0];
        (result["pool"].as_str().unwrap().to_owned(), result["device"].as_str().unwrap().to_owned())
    }

    /// A condition of a rule, once it satisfies `wanted`.
    fn condition(&self, rule: &str, kind: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut found = Value::Null;
        wait_until(&format!("condition {kind} of {rule}"), || {
            let rule = self.cluster.get(&format!("{RULES}/{rule}"));
            let conditions = rule["status"]["conditions"].as_array().cloned().unwrap_or_default();
            found = conditions.into_iter().find(|one| one["type"] == kind).unwrap_or_default();
            wanted(&found)
        });
        found
    }

    fn delete(&self, path: &str) {
        self.cluster.send("DELETE", path, &Value::Null);
    }

    /// Lets the control plane look at everything once more: what it would do wrongly, it has done then.
    fn settle(&self) {
        let marker = json!({
            "metadata": {"name": "marker"},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]},
        });
        self.cluster.send("POST", PODS, &marker);
        self.running("marker");
        self.delete(&format!("{PODS}/marker"));
        self.gone("marker");
    }

    fn stays(&self, name: &str) {
        self.settle();
        let pod = self.pod(name).unwrap();
        assert!(pod["metadata"]["deletionTimestamp"].is_null(), "{name}: {pod}");
    }
}

fn message(condition: &Value) -> &str {
    condition["message"].as_str().unwrap_or_default()
}

/// A driver informs in its vendor's own words and changes nothing; administrators react step by step; users tolerate at their own risk; the maintainer of
/// the device tolerates the administrator's taint.
#[test]
fn degraded_devices() {
    let story = Story::begin("degraded-devices", 1);
    story.apply("1-driver.yaml");
    story.apply("2-workload.yaml");
    story.running("training");
    story.running("inference");
    story.apply("3-overheated.yaml");
    let health = story.cluster.get("/apis/resource.k8s.io/v1alpha3/resourceslices/node-1-health");
    assert_eq!(health["spec"]["taints"][0]["taint"]["data"]["fan"]["rpm"], 210, "in the vendor's own schema");
    story.stays("training");
    story.apply("4-no-new-pods.yaml");
    story.stays("training");
    story.apply("5-evict.yaml");
    story.gone("training");
    story.stays("inference");
    let done = |one: &Value| one["status"] == "False" && one["reason"] == "Completed";
    assert!(message(&story.condition("degraded", "EvictionInProgress", done)).contains("1 pod"));
    // The device is idle: a pod that does not tolerate the taint does not get it, the pod that resets it does.
    story.apply("2-workload.yaml");
    story.waits_for("training", "tainted example.com/degraded=yes:NoExecute by rule degraded");
    story.apply("6-maintenance.yaml");
    story.running("reset");
    story.delete(&format!("{PODS}/reset"));
    story.gone("reset");
    story.delete(&format!("{RULES}/degraded"));
    story.running("training");
    story.end();
}

/// A monitor beside the driver takes devices offline, with the rights for that and no others: by name, and by unique ID.
#[test]
fn external_health_monitoring() {
    let story = Story::begin("external-health-monitoring", 2);
    story.apply("1-monitor.yaml");
    story.apply("2-workload.yaml");
    let first = story.until_running("training", 1).pop_first().unwrap();
    let (pool, _) = story.device_of(&first);
    let (offline, other) = if pool == "node-1" {
        ("3-by-name.yaml", "4-by-unique-id.yaml")
    } else {
        ("4-by-unique-id.yaml", "3-by-name.yaml")
    };
    assert_eq!(story.try_apply_as(Some(MONITOR), offline), None);
    story.gone(&first);
    let second = story.until_running("training", 1).pop_first().unwrap();
    assert_ne!(story.device_of(&second).0, pool, "it goes on with the other GPU");
    let refused = story.try_apply_as(Some(MONITOR), "2-workload.yaml");
    assert!(refused.is_some_and(|why| why.contains("cannot")), "the monitor may set taints and nothing else");
    assert_eq!(story.try_apply_as(Some(MONITOR), other), None);
    story.gone(&second);
    wait_until("no pod has a GPU", || story.of("training").is_empty());
    for rule in ["voltage", "voltage-by-id"] {
        story.delete(&format!("{RULES}/{rule}"));
    }
    story.until_running("training", 1);
    story.end();
}

/// A rule is planned before it has an effect, is slow enough to be taken back, reports its progress, and leaves no pod behind.
#[test]
fn safe_pod_eviction() {
    let story = Story::begin("safe-pod-eviction", 1);
    story.apply("1-workload.yaml");
    let all = story.until_running("training", 15);
    story.apply("2-preview.yaml");
    let preview = story.condition("all-gpus", "EvictionInProgress", |one| message(one).contains("15 pods"));
    assert_eq!(preview["status"], "False");
    assert!(message(&preview).contains("would be evicted"), "{preview}");
    story.settle();
    assert_eq!(story.of("training"), all, "nobody has left");
    story.apply("3-evict-slowly.yaml");
    // Ten at once, then one a second: the rule is deleted while pods are left.
    let left = || story.of("training").intersection(&all).count();
    wait_until("some have left", || left() < all.len());
    story.delete(&format!("{RULES}/all-gpus"));
    story.until_running("training", 15);
    story.settle();
    let kept = left();
    story.settle();
    assert_eq!(left(), kept, "a rule that is gone evicts nobody");
    story.apply("4-evict-fast.yaml");
    wait_until("nobody is left", || story.of("training").is_empty());
    let done = |one: &Value| one["status"] == "False" && one["reason"] == "Completed";
    let told = story.condition("all-gpus", "EvictionInProgress", done);
    assert!(message(&told).contains("pods evicted since the rule was created"), "{told}");
    // A scheduler that has not seen the taint places a pod all the same.
    story.apply("5-late-pod.yaml");
    let pod = story.pod("late").unwrap();
    let status = json!({"status": {
        "allocation": {"devices": {"results": [{
            "request": "gpu", "driver": "gpu.vendor.example", "pool": "node-1", "device": "gpu-15",
        }]}},
        "reservedFor": [{"resource": "pods", "name": "late", "uid": pod["metadata"]["uid"]}],
    }});
    let claim = story.cluster.get(&format!("{CLAIMS}/late"));
    let mut allocated = claim.clone();
    allocated["status"] = status["status"].clone();
    story.cluster.send("PUT", &format!("{CLAIMS}/late/status"), &allocated);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "late"}, "target": {"kind": "Node", "name": "node-1"},
    });
    story.cluster.send("POST", &format!("{PODS}/late/binding"), &binding);
    story.gone("late");
    story.settle();
    assert!(story.of("training").is_empty(), "no new pod is placed either");
    story.end();
}

/// One device goes offline at a time, and test pods still use it.
#[test]
fn maintenance() {
    let story = Story::begin("maintenance", 1);
    story.apply("1-workload.yaml");
    let both = story.until_running("training", 2);
    let moved: Vec<&String> = both.iter().filter(|pod| story.device_of(pod).1 == "gpu-0").collect();
    let stays: Vec<&String> = both.iter().filter(|pod| story.device_of(pod).1 == "gpu-1").collect();
    assert_eq!((moved.len(), stays.len()), (1, 1));
    story.apply("2-offline.yaml");
    story.gone(moved[0]);
    story.apply("3-test-pod.yaml");
    story.running("test");
    assert_eq!(story.device_of("test").1, "gpu-0");
    story.stays("test");
    story.stays(stays[0]);
    story.delete(&format!("{PODS}/test"));
    story.gone("test");
    story.delete(&format!("{RULES}/offline"));
    story.until_running("training", 2);
    story.end();
}

/// Users decide: one workload goes on in degraded mode, another is scheduled anew.
#[test]
fn degraded_mode_or_scheduled_anew() {
    let story = Story::begin("degraded-mode", 2);
    story.apply("1-workload.yaml");
    let relaxed = story.until_running("relaxed", 1);
    let strict = story.until_running("strict", 1).pop_first().unwrap();
    story.apply("2-second-node.yaml");
    story.apply("3-slow.yaml");
    story.gone(&strict);
    let anew = story.until_running("strict", 1).pop_first().unwrap();
    assert_eq!(story.device_of(&anew), ("node-2".to_owned(), "gpu-2".to_owned()));
    story.settle();
    assert_eq!(story.of("relaxed"), relaxed, "it runs on where it is");
    story.end();
}

/// Health is published without any effect; the administrator may look on first, and act on it later.
#[test]
fn health_information() {
    let story = Story::begin("health-information", 1);
    story.apply("1-driver-and-workload.yaml");
    story.running("training");
    story.apply("2-observe.yaml");
    let stage = || {
        let incidents = story.cluster.get(INCIDENTS);
        let stage = incidents["items"][0]["status"]["stage"].as_str().unwrap_or_default().to_owned();
        (stage, incidents["items"][0]["status"]["enforced"] == true)
    };
    wait_until("the policy has seen it", || stage() == ("Draining".to_owned(), false));
    story.stays("training");
    assert!(story.cluster.names(RULES).is_empty(), "who observes taints nothing");
    story.apply("3-enforce.yaml");
    story.gone("training");
    wait_until("it waits for a repair", || stage() == ("Repairing".to_owned(), true));
    story.end();
}

/// The first form of the enhancement: administrators taint with patches, and priority says which of two counts.
#[test]
fn patched_devices() {
    let story = Story::begin("patched-devices", 1);
    story.apply("1-workload.yaml");
    story.running("training");
    story.apply("2-offline.yaml");
    story.gone("training");
    story.apply("3-tests.yaml");
    story.running("night");
    story.waits_for(
        "monitor",
        "tainted example.com/offline=night-shift:NoExecute by patch offline-by-night-shift",
    );
    let patches = "/apis/resource.k8s.io/v1alpha3/resourceslicepatches";
    story.delete(&format!("{patches}/offline-by-night-shift"));
    story.gone("night");
    story.running("monitor");
    story.delete(&format!("{patches}/offline"));
    story.apply("1-workload.yaml");
    story.running("training");
    story.end();
}

/// Every story that has files is played by a test of its name.
#[test]
fn every_folder_is_a_story() {
    let found = fs::read_dir(folder("")).unwrap();
    let found: BTreeSet<String> = found.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
    let played = [
        "degraded-devices",
        "degraded-mode",
        "external-health-monitoring",
        "health-information",
        "maintenance",
        "patched-devices",
        "safe-pod-eviction",
    ];
    assert_eq!(found, played.map(str::to_owned).into());
}
