//! A health policy sees a device with its ResourceSlicePatches: attributes and taints, by priority, as they come and go.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use serde_json::{Value, json};
use support::{Cluster, wait_until};

const DRIVER: &str = "gpu.example.com";
const POLICIES: &str = "/apis/lazaret.dev/v1alpha1/devicehealthpolicies";
const INCIDENTS: &str = "/apis/lazaret.dev/v1alpha1/deviceincidents";
const PATCHES: &str = "/apis/resource.k8s.io/v1alpha3/resourceslicepatches";

fn policy(name: &str, when: &str) -> Value {
    json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceHealthPolicy", "metadata": {"name": name},
        "spec": {
            "deviceSelector": {"driver": DRIVER}, "clearAfter": "1s", "mode": "Observe",
            "rules": [{"name": name, "when": when, "stage": "Suspect"}],
        },
    })
}

fn patch(name: &str, priority: i64, more: &Value) -> Value {
    let mut devices =
        json!({"filter": {"driver": DRIVER, "pool": "node-1", "device": "gpu-0"}, "priority": priority});
    devices.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({
        "apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceSlicePatch",
        "metadata": {"name": name}, "spec": {"devices": devices},
    })
}

fn rows(count: i64) -> Value {
    json!({"attributes": {"gpu.example.com/remappedRows": {"int": count}}})
}

/// How many incidents of a policy are open and how many are over, and why the newest was opened.
fn incidents(cluster: &Cluster, policy: &str) -> (usize, usize, String) {
    let all = cluster.get(INCIDENTS)["items"].as_array().cloned().unwrap();
    let all: Vec<Value> = all.into_iter().filter(|one| one["spec"]["policy"] == policy).collect();
    let over = all.iter().filter(|one| one["status"]["stage"] == "Cleared").count();
    let cause = all
        .last()
        .map_or_else(String::new, |one| one["spec"]["cause"].as_str().unwrap_or_default().to_owned());
    (all.len() - over, over, cause)
}

#[test]
fn a_policy_sees_what_patches_leave() {
    let gates =
        ["--nodes", "1", "--devices", "2", "--feature-gates", "DRAAdminControlledDeviceAttributes=true"];
    let cluster = Cluster::start(&gates);
    cluster.until("the devices are published", |cluster| {
        !cluster.names("/apis/resource.k8s.io/v1/resourceslices").is_empty()
    });
    let when =
        "signal.source == 'Attribute' && signal.key == 'gpu.example.com/remappedRows' && signal.value == '9'";
    cluster.send("POST", POLICIES, &policy("rows", when));
    cluster.send(
        "POST",
        POLICIES,
        &policy("noise", "signal.source == 'Taint' && signal.key == 'example.com/noisy'"),
    );
    cluster.send("POST", PATCHES, &patch("low", 1, &rows(9)));
    wait_until("the policy sees the attribute of the patch", || {
        let (open, _, cause) = incidents(&cluster, "rows");
        open == 1 && cause.contains("remappedRows is 9")
    });
    // The patch with the higher priority counts.
    cluster.send("POST", PATCHES, &patch("high", 2, &rows(3)));
    wait_until("the attribute has another value", || incidents(&cluster, "rows").0 == 0);
    cluster.send("DELETE", &format!("{PATCHES}/high"), &Value::Null);
    wait_until("the other patch counts again", || {
        let (open, over, _) = incidents(&cluster, "rows");
        (open, over) == (1, 1)
    });
    cluster.send("DELETE", &format!("{PATCHES}/low"), &Value::Null);
    wait_until("without a patch there is no such attribute", || incidents(&cluster, "rows").0 == 0);
    let noisy = json!({"taints": [{"key": "example.com/noisy", "value": "fan", "effect": "None"}]});
    cluster.send("POST", PATCHES, &patch("noise", 1, &noisy));
    wait_until("the policy sees the taint of a patch", || {
        let (open, _, cause) = incidents(&cluster, "noise");
        open == 1 && cause.contains("patch noise says example.com/noisy=fan:None")
    });
    cluster.send("DELETE", &format!("{PATCHES}/noise"), &Value::Null);
    wait_until("the taint is gone", || incidents(&cluster, "noise").0 == 0);
}

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const PODS: &str = "/api/v1/namespaces/default/pods";
const RULES: &str = "/apis/resource.k8s.io/v1alpha3/devicetaintrules";

fn tier(value: &str) -> Value {
    json!({"attributes": {"gpu.example.com/tier": {"string": value}}})
}

fn of_tier(value: &str) -> String {
    format!("device.attributes['{DRIVER}'].tier == '{value}'")
}

/// The output of a command of `kubectl device`; it must succeed.
fn said(cluster: &Cluster, words: &[&str]) -> String {
    let ran = cluster.command(&[&["device"], words].concat()).output().unwrap();
    assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// Which device the claim of a pod has.
fn device_of(cluster: &Cluster, name: &str) -> Value {
    cluster.get(&format!("{CLAIMS}/{name}"))["status"]["allocation"]["devices"]["results"][0]["device"]
        .clone()
}

/// A pod whose claim selects by an attribute that only patches give.
fn make_pod(cluster: &Cluster, name: &str, value: &str) {
    let selectors = json!([{"cel": {"expression": of_tier(value)}}]);
    let claim = json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [
        {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "selectors": selectors}},
    ]}}});
    cluster.send("POST", CLAIMS, &claim);
    let pod = json!({"metadata": {"name": name}, "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
    }});
    cluster.send("POST", PODS, &pod);
}

#[test]
fn scheduler_eviction_and_commands_go_by_the_patch_with_the_highest_priority() {
    let words = [
        "--nodes",
        "1",
        "--devices",
        "2",
        "--feature-gates",
        "DRAAdminControlledDeviceAttributes=true",
        "--runtime-config",
        "resource.k8s.io/v1alpha3=true",
    ];
    let cluster = Cluster::start(&words);
    cluster.until("the devices are published", |cluster| {
        !cluster.names("/apis/resource.k8s.io/v1/resourceslices").is_empty()
    });
    let mut all = patch("all", 0, &tier("plain"));
    all["spec"]["devices"]["filter"] = json!({"driver": DRIVER});
    cluster.send("POST", PATCHES, &all);
    cluster.send("POST", PATCHES, &patch("low", 1, &tier("gold")));
    cluster.send("POST", PATCHES, &patch("high", 2, &tier("scrap")));
    // The scheduler: nothing is gold while the higher priority says scrap.
    make_pod(&cluster, "golden", "gold");
    let why = |cluster: &Cluster| {
        let pod = cluster.get(&format!("{PODS}/golden"));
        pod["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned()
    };
    cluster.until("the pod finds no device", |cluster| why(cluster).contains("nodes are available"));
    assert_eq!(device_of(&cluster, "golden"), Value::Null);
    let described = said(&cluster, &["describe", "node-1/gpu-0"]);
    assert!(described.contains("scrap") && !described.contains("gold"), "{described}");
    cluster.send("DELETE", &format!("{PATCHES}/high"), &Value::Null);
    cluster.until("the pod has the device of the lower patch", |cluster| {
        cluster.get(&format!("{PODS}/golden"))["status"]["phase"] == "Running"
    });
    assert_eq!(device_of(&cluster, "golden"), "gpu-0");
    let json: Value =
        serde_json::from_str(&said(&cluster, &["describe", "node-1/gpu-0", "-o", "json"])).unwrap();
    assert!(json.to_string().contains(r#""gold""#), "{json:#}");
    // Eviction: a rule that selects by an attribute follows the patches, and so does a taint of a patch.
    let rule = json!({"metadata": {"name": "scrap"}, "spec": {
        "deviceSelector": {"driver": DRIVER, "selectors": [{"cel": {"expression": of_tier("scrap")}}]},
        "taint": {"key": "example.com/scrap", "effect": "NoExecute"},
    }});
    cluster.send("POST", RULES, &rule);
    cluster.until("the rule says that nobody has to leave", |cluster| {
        let conditions = cluster.get(&format!("{RULES}/scrap"))["status"]["conditions"].clone();
        conditions.as_array().is_some_and(|all| {
            all.iter().any(|one| one["type"] == "EvictionInProgress" && one["status"] == "False")
        })
    });
    assert_eq!(cluster.get(&format!("{PODS}/golden"))["status"]["phase"], "Running");
    let taints = |value: &str| json!({"taints": [{"key": "example.com/state", "value": value, "effect": "NoSchedule"}]});
    cluster.send("POST", PATCHES, &patch("tainted-low", 1, &taints("low")));
    cluster.send("POST", PATCHES, &patch("tainted-high", 2, &taints("high")));
    cluster.until("commands show the taint that counts", |cluster| {
        let listed = said(cluster, &["describe", "node-1/gpu-0"]);
        listed.contains("example.com/state=high:NoSchedule") && listed.contains("patch tainted-high")
    });
    let listed = said(&cluster, &["describe", "node-1/gpu-0"]);
    assert!(!listed.contains("state=low"), "{listed}");
    cluster.send("POST", PATCHES, &patch("high", 2, &tier("scrap")));
    cluster.until("the pod has to leave", |cluster| !cluster.names(PODS).contains(&"golden".to_owned()));
}
