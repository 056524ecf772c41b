//! A driver as it is shipped: a pod on each node.

use serde_json::{Value, json};

use crate::stage::Stage;

const SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const PODS: &str = "/api/v1/namespaces/default/pods?labelSelector=app%3Ddriver";

/// The nodes and images of the pods that run, in the order of the nodes.
fn running(stage: &Stage) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = stage.get(PODS);
    let mut pods: Vec<(String, String)> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|pod| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null())
        .map(|pod| (text(&pod["spec"]["nodeName"]), text(&pod["spec"]["containers"][0]["image"])))
        .collect();
    pods.sort();
    pods
}

fn until_all_run(stage: &Stage, image: &str) {
    let wanted: Vec<(String, String)> =
        (1..=3).map(|number| (format!("node-{number}"), image.to_owned())).collect();
    stage.until(&format!("{image} runs on each node"), || {
        let found = running(stage);
        if found == wanted { Ok(()) } else { Err(format!("{found:?}")) }
    });
}

#[test]
fn a_daemon_set_runs_on_each_node_and_is_updated_there() {
    let stage = Stage::with(3, 1);
    stage.create(
        SETS,
        &json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "driver"},
            "spec": {
                "selector": {"matchLabels": {"app": "driver"}},
                "template": {"metadata": {"labels": {"app": "driver"}}, "spec": {"containers": [{"name": "c", "image": "driver:1"}]}},
            },
        }),
    );
    until_all_run(&stage, "driver:1");
    let template =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "driver:2"}]}}}});
    stage.merge(&format!("{SETS}/driver"), &template);
    until_all_run(&stage, "driver:2");
    stage.until("its status says so", || {
        let status = stage.get(&format!("{SETS}/driver"))["status"].clone();
        let done = status["updatedNumberScheduled"] == 3 && status["numberAvailable"] == 3;
        if done && status["observedGeneration"] == 2 { Ok(()) } else { Err(status.to_string()) }
    });
    stage.delete(&format!("{SETS}/driver"));
    stage.until("its pods go with it", || {
        let found = running(&stage);
        if found.is_empty() { Ok(()) } else { Err(format!("{found:?}")) }
    });
}
