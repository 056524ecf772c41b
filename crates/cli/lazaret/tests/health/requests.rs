//! A repair by another controller: an object is made for it, watched, and left as it is once it is done.

use serde_json::{Value, json};

use crate::{
    support::wait_until,
    up::{POLICIES, SLICES, Up, policy, texts},
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A board is replaced by a controller that answers in the object; then a Job resets the device, if that did not help.
fn policy_of_requests() -> Value {
    let template = json!({
        "metadata": {"namespace": "default", "labels": {"for": "$(DEVICE)"}},
        "data": {"board": "$(HARDWARE_ID)", "where": "$(DRIVER)/$(POOL)/$(DEVICE) on $(NODE)", "incident": "$(INCIDENT)"},
    });
    let mut policy = policy();
    policy["spec"]["rules"][1]["stage"] = "Drained".into();
    policy["spec"]["repair"]["steps"] = json!([{
        "name": "replace", "timeoutSeconds": 3600,
        "request": {"apiVersion": "v1", "kind": "ConfigMap", "template": template},
        "doneWhen": "has(object.data.phase) && object.data.phase == 'Succeeded'",
    }]);
    policy
}

fn requests(up: &Up) -> Vec<Value> {
    let is_owned = |map: &Value| map["metadata"]["ownerReferences"][0]["kind"] == "DeviceIncident";
    up.list(MAPS).into_iter().filter(is_owned).collect()
}

#[test]
fn a_request_is_made_once_and_the_device_goes_on_when_it_is_done_though_the_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut up = Up::start(folder.path());
    wait_until("the devices are there", || !up.list(SLICES).is_empty());
    up.send("POST", POLICIES, &policy_of_requests());
    up.said(&["report", "node-1/gpu-1", "example.com/fan", "--reason", "it stands still"]);
    let incident = up.until_stage("Repairing");
    wait_until("the request is made", || requests(&up).len() == 1);
    let request = requests(&up).remove(0);
    let (name, data) = (request["metadata"]["name"].as_str().unwrap().to_owned(), &request["data"]);
    assert_eq!(request["metadata"]["labels"]["for"], "gpu-1");
    assert_eq!(data["where"], "gpu.example.com/node-1/gpu-1 on node-1", "{data}");
    assert_eq!(
        (&data["incident"], &data["board"]),
        (&incident["metadata"]["name"], &incident["spec"]["hardwareID"])
    );
    let described = up.said(&["incidents", "node-1/gpu-1"]);
    assert!(described.contains("replace"), "{described}");
    up = up.kill();
    wait_until("it leads again", || !up.list(SLICES).is_empty());
    assert_eq!(up.incident()["status"]["stage"], "Repairing", "nobody has said that it is done");
    up.send("PATCH", &format!("{MAPS}/{name}"), &json!({"data": {"phase": "Succeeded"}}));
    let cleared = up.until_stage("Cleared");
    let stages = ["Draining", "Repairing", "Probation", "Probation", "Cleared"];
    assert_eq!(texts(&cleared["status"]["timeline"], "stage"), stages, "{cleared:#}");
    let causes = texts(&cleared["status"]["timeline"], "cause").join("; ");
    assert!(causes.contains("repair replace is done"), "{causes}");
    let left = requests(&up);
    assert_eq!(
        (left.len(), &left[0]["metadata"]["uid"]),
        (1, &request["metadata"]["uid"]),
        "it is not made again"
    );
}

#[test]
fn a_request_of_a_kind_that_is_not_served_fails_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path());
    wait_until("the devices are there", || !up.list(SLICES).is_empty());
    let mut policy = policy_of_requests();
    policy["spec"]["repair"]["steps"][0]["request"]["kind"] = "Ticket".into();
    up.send("POST", POLICIES, &policy);
    up.said(&["report", "node-1/gpu-1", "example.com/fan", "--reason", "it stands still"]);
    let abandoned = up.until_stage("Abandoned");
    let causes = texts(&abandoned["status"]["timeline"], "cause").join("; ");
    assert!(causes.contains("v1 has no kind Ticket"), "{causes}");
}
