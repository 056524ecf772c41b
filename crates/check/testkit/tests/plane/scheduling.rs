//! Placing pods, end to end: devices that have to be made ready, devices that take of their own node, gangs.

use lazaret_testkit::{Cluster, Features, Plane};
use serde_json::{Value, json};

use crate::stage::{Stage, pod};

const OTHER: &str = "other.example.com";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn stage(gates: &str) -> Stage {
    let mut features = Features::kubernetes_1_37();
    features.parse(gates).unwrap();
    let options = Cluster::options().features(features).serve("scheduling.k8s.io/v1beta1", true);
    Stage::of(options.plane(Plane::simulated(1, 1)), 1)
}

/// A class, and devices of node-1 that belong to it.
fn publish(stage: &Stage, devices: &[Value]) {
    stage.create(
        "/apis/resource.k8s.io/v1/deviceclasses",
        &json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": OTHER},
            "spec": {"selectors": [{"cel": {"expression": format!("device.driver == {OTHER:?}")}}]},
        }),
    );
    stage.create(
        "/apis/resource.k8s.io/v1/resourceslices",
        &json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "other"},
            "spec": {
                "driver": OTHER, "nodeName": "node-1", "devices": devices,
                "pool": {"name": "other", "generation": 1, "resourceSliceCount": 1},
            },
        }),
    );
}

fn claim(stage: &Stage, name: &str) {
    stage.create(
        CLAIMS,
        &json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": OTHER}}]}},
        }),
    );
}

fn add_pod(stage: &Stage, name: &str, claim: &str) {
    stage.create(PODS, &pod(name, &json!({"resourceClaimName": claim})));
}

/// The driver sets a condition of the device of a claim; whether it has one.
fn say(stage: &Stage, name: &str, condition: &str) -> bool {
    let claim = stage.get(&format!("{CLAIMS}/{name}"));
    let result = &claim["status"]["allocation"]["devices"]["results"][0];
    if result.is_null() {
        return false;
    }
    let condition = json!({
        "type": condition, "status": "True", "reason": "Said", "message": "",
        "lastTransitionTime": "2026-03-01T11:00:00Z",
    });
    let device = json!({
        "driver": result["driver"], "pool": result["pool"], "device": result["device"], "conditions": [condition],
    });
    let patch = json!({
        "metadata": {"resourceVersion": claim["metadata"]["resourceVersion"]}, "status": {"devices": [device]},
    });
    let path = format!("{CLAIMS}/{name}/status");
    stage.try_request("PATCH", &path, "application/merge-patch+json", &patch).is_ok()
}

fn message(stage: &Stage, pod: &str) -> String {
    let conditions = stage.pod_now(pod).map(|pod| pod["status"]["conditions"].clone()).unwrap_or_default();
    let conditions = conditions.as_array().cloned().unwrap_or_default();
    let of = conditions.iter().find(|condition| condition["type"] == "PodScheduled");
    of.map_or(String::new(), |condition| condition["message"].as_str().unwrap_or_default().to_owned())
}

/// Twenty at once: what one of them gives back is seen before and after it is answered. None may be forgotten.
#[test]
fn pods_whose_devices_break_get_others() {
    const PODS: usize = 20;
    let stage = stage("");
    let device = |number| {
        json!({
            "name": format!("d-{number}"), "bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"],
        })
    };
    publish(&stage, &(0..PODS).map(device).collect::<Vec<_>>());
    let names: Vec<String> = (0..PODS).map(|number| format!("p-{number}")).collect();
    for name in &names {
        claim(&stage, name);
        add_pod(&stage, name, name);
    }
    for name in &names {
        stage.until("its devices are broken", || {
            say(&stage, name, "Broken").then_some(()).ok_or(String::new())
        });
    }
    for name in &names {
        stage.until(&format!("{name} is bound"), || {
            say(&stage, name, "Ready");
            let pod = stage.pod_now(name).ok_or("gone")?;
            if pod["spec"]["nodeName"] == "node-1" { Ok(()) } else { Err(message(&stage, name)) }
        });
    }
}

#[test]
fn what_devices_take_of_their_node_is_in_the_status_of_the_pod() {
    let stage = stage("DRANodeAllocatableResources=true");
    let taken = json!({
        "cpu": {"mapping": {"deviceMultiplier": "2"}, "overhead": {"perContainer": "100m"}},
        "memory": {"overhead": {"perPod": "1Mi"}},
    });
    publish(&stage, &[json!({"name": "d", "nodeAllocatableResources": taken})]);
    claim(&stage, "c");
    add_pod(&stage, "p", "c");
    let pod = stage.running("p");
    let container = &pod["spec"]["containers"][0]["name"];
    assert_eq!(
        pod["status"]["nodeAllocatableResourceClaimStatuses"],
        json!([{
            "resourceClaimName": "c", "containers": [container],
            "mapping": [{"name": "cpu", "quantity": "2"}],
            "overhead": [{"name": "cpu", "perContainer": "100m"}, {"name": "memory", "perPod": "1Mi"}],
        }]),
        "{pod}"
    );
    add_pod(&stage, "q", "c");
    let expected = "has a mapped device and cannot be shared across pods";
    stage.until("the other waits", || {
        let message = message(&stage, "q");
        if message.contains(expected) { Ok(()) } else { Err(message) }
    });
}

#[test]
fn of_a_gang_that_does_not_fit_nothing_is_placed() {
    let stage = stage("GenericWorkload=true");
    publish(&stage, &[json!({"name": "d-0"})]);
    stage.create(
        "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups",
        &json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
        }),
    );
    for name in ["p-0", "p-1"] {
        claim(&stage, name);
        let mut member = pod(name, &json!({"resourceClaimName": name}));
        member["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
        stage.create(PODS, &member);
    }
    let expected = "pod group is unschedulable, minCount (2) cannot be satisfied";
    stage.until("the gang waits", || {
        let messages = ["p-0", "p-1"].map(|name| message(&stage, name));
        if messages.iter().any(|message| message == expected) { Ok(()) } else { Err(messages.join("; ")) }
    });
    stage.settle();
    let allocated = |claim: &Value| !claim["status"]["allocation"].is_null();
    assert!(!stage.list(CLAIMS).iter().any(allocated), "a device was taken for a gang that does not fit");
    stage.merge(
        "/apis/resource.k8s.io/v1/resourceslices/other",
        &json!({"spec": {"devices": [{"name": "d-0"}, {"name": "d-1"}]}}),
    );
    stage.running("p-0");
    stage.running("p-1");
}
