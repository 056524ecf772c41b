//! Signals of attributes, nodes, pods and vanished devices.

use serde_json::{Value, json};

use crate::{
    policies::rewrite_stored,
    support::wait_until,
    up::{DRIVER, INCIDENTS, PODS, POLICIES, RULES, SLICES, Up, texts},
};

/// A slice of a driver that only the test speaks for.
pub(crate) fn slice(devices: &Value) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "own"},
        "spec": {
            "driver": "own.example.com", "nodeName": "node-1", "devices": devices,
            "pool": {"name": "own", "generation": 1, "resourceSliceCount": 1},
        },
    })
}

pub(crate) fn own_device(name: &str, rows: i64) -> Value {
    json!({"name": name, "attributes": {"uuid": {"string": format!("uuid-{name}")}, "remappedRows": {"int": rows}}})
}

fn policy_of_signals() -> Value {
    let rule = |name: &str, when: &str| json!({"name": name, "when": when, "stage": "Quarantined"});
    json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceHealthPolicy", "metadata": {"name": "all"},
        "spec": {"mode": "Enforce", "rules": [
            rule("rows", "signal.key == 'own.example.com/remappedRows' && int(signal.value) > 8"),
            rule("gone", "signal.source == 'Vanished' && signal.value == 'False'"),
            rule("pod", "signal.source == 'Health' && signal.value == 'Unhealthy'"),
            rule("fabric", "signal.source == 'Node' && signal.key == 'FabricDown' && signal.value == 'True' && signal.device == 'c'"),
        ]},
    })
}

#[test]
fn attributes_nodes_pods_and_vanished_devices_give_signals_and_an_incident_follows_the_hardware() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path());
    wait_until("the devices are there", || !up.list(SLICES).is_empty());
    up.send("POST", POLICIES, &policy_of_signals());
    let devices = json!([own_device("a", 0), own_device("b", 0), own_device("c", 0)]);
    up.send("POST", SLICES, &slice(&devices));
    let open = |rule: &str| {
        let mut found = Value::Null;
        wait_until(&format!("there is an incident by rule {rule}"), || {
            let is_it = |one: &Value| one["spec"]["rule"] == rule && one["status"]["stage"] == "Quarantined";
            found = up.list(INCIDENTS).into_iter().find(is_it).unwrap_or_default();
            !found.is_null()
        });
        found
    };
    let change = |devices: &Value| {
        up.send("PATCH", &format!("{SLICES}/own"), &json!({"spec": {"devices": devices}}));
    };
    change(&json!([own_device("a", 9), own_device("b", 0), own_device("c", 0)]));
    let incident = open("rows");
    assert_eq!(
        (&incident["spec"]["device"]["device"], &incident["spec"]["hardwareID"]),
        (&json!("a"), &json!("uuid-a"))
    );
    let tainted = |device: &str| {
        wait_until(&format!("{device} alone is tainted for it"), || {
            let name = &incident["metadata"]["name"];
            let rules = up.list(RULES).into_iter().filter(|rule| rule["metadata"]["name"] == *name);
            rules.map(|rule| rule["spec"]["deviceSelector"]["device"].clone()).eq([json!(device)])
        });
    };
    tainted("a");
    // The same board under another name, and one that is not published any more.
    let mut renamed = own_device("a", 9);
    renamed["name"] = "z".into();
    change(&json!([renamed, own_device("c", 0)]));
    tainted("z");
    wait_until("the incident names it too", || open("rows")["status"]["device"]["device"] == "z");
    assert_eq!(open("gone")["spec"]["device"]["device"], "b");
    let node = "/api/v1/nodes/node-1/status";
    let mut conditions = up.send("GET", "/api/v1/nodes/node-1", &Value::Null)["status"]["conditions"].clone();
    conditions
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "FabricDown", "status": "True", "reason": "Switch"}));
    up.send("PATCH", node, &json!({"status": {"conditions": conditions}}));
    assert_eq!(open("fabric")["spec"]["device"]["device"], "c");
    let device = up.pod("trainer");
    let mut statuses =
        up.send("GET", &format!("{PODS}/trainer"), &Value::Null)["status"]["containerStatuses"].clone();
    let id = format!("{DRIVER}/node-1/{device}");
    statuses[0]["allocatedResourcesStatus"] =
        json!([{"name": "claim:gpu", "resources": [{"resourceID": id, "health": "Unhealthy"}]}]);
    up.send("PATCH", &format!("{PODS}/trainer/status"), &json!({"status": {"containerStatuses": statuses}}));
    assert_eq!(open("pod")["spec"]["device"]["device"], device);
    assert_eq!(up.list(INCIDENTS).len(), 4, "one for each");
    // Deleting an incident brings its device back.
    let name = open("fabric")["metadata"]["name"].as_str().unwrap().to_owned();
    conditions.as_array_mut().unwrap().pop();
    up.send("PATCH", node, &json!({"status": {"conditions": conditions}}));
    up.send("DELETE", &format!("{INCIDENTS}/{name}"), &Value::Null);
    wait_until("its taint is gone", || up.list(RULES).iter().all(|rule| rule["metadata"]["name"] != *name));
}

/// A device with an open incident goes while nothing runs: the next process misses it.
#[test]
fn a_device_that_vanishes_while_nothing_runs_is_missed_by_whoever_starts() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path());
    wait_until("the devices are there", || !up.list(SLICES).is_empty());
    let mut policy = policy_of_signals();
    (policy["spec"]["rules"][1]["stage"], policy["spec"]["clearAfter"]) = ("Drained".into(), "1h".into());
    up.send("POST", POLICIES, &policy);
    let mut own = slice(&json!([own_device("a", 0), own_device("b", 9)]));
    own["spec"]["pool"]["name"] = "node-1".into();
    up.send("POST", SLICES, &own);
    up.until_stage("Quarantined");
    assert_eq!(up.incident()["spec"]["rule"], "rows");
    drop(up);
    rewrite_stored(folder.path(), "resourceslices", "own", |text| {
        let mut slice: Value = serde_json::from_str(&text).unwrap();
        let gone = slice["spec"]["devices"].as_array_mut().unwrap().pop().unwrap();
        assert_eq!(gone["name"], "b");
        slice.to_string()
    });
    let up = Up::start(folder.path());
    wait_until("its incident says so", || {
        let timeline = up.incident()["status"]["timeline"].clone();
        let causes = texts(&timeline, "cause");
        causes.iter().any(|cause| cause.contains("the driver does not publish it any more"))
    });
    assert_eq!(up.list(INCIDENTS).len(), 1, "it is the same incident");
}
