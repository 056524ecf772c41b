//! Tolerations that end, with an owner that makes its pods anew: evicted once, and not put back.

use serde_json::{Value, json};

use crate::stage::{DRIVER, Stage, taint};

const NAMESPACE: &str = "/apis/apps/v1/namespaces/default/replicasets";

/// A replica set with one pod, which tolerates everything for two seconds.
fn replica_set(stage: &Stage) {
    stage.template("while", &json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2}]));
    let mut pod = crate::stage::pod("unused", &json!({"resourceClaimTemplateName": "while"}));
    pod["metadata"] = json!({"labels": {"app": "looping"}});
    stage.create(
        NAMESPACE,
        &json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "looping"},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": "looping"}},
                "template": {"metadata": pod["metadata"], "spec": pod["spec"]},
            },
        }),
    );
}

/// The only pod of the set that is not going, once it satisfies `wanted`.
fn pod_of_set(stage: &Stage, what: &str, wanted: impl Fn(&Value) -> bool) -> String {
    stage.until(what, || {
        let pods = stage.list("/api/v1/namespaces/default/pods?labelSelector=app%3Dlooping");
        let mut here = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        match here.next() {
            Some(pod) if wanted(pod) => Ok(pod["metadata"]["name"].as_str().unwrap().to_owned()),
            other => Err(format!("{other:?}")),
        }
    })
}

fn evictions(stage: &Stage) -> String {
    let metrics = stage.text("/metrics");
    let name = "device_taint_eviction_controller_pod_deletions_total ";
    metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("none").to_owned()
}

#[test]
fn a_pod_is_not_put_back_onto_the_device_that_it_had_to_leave() {
    for devices in [2, 1] {
        let stage = Stage::with(1, devices);
        replica_set(&stage);
        let runs = |pod: &Value| pod["status"]["phase"] == "Running";
        let first = pod_of_set(&stage, "the first pod runs", runs);
        let (pool, device) = stage.device_of(&first);
        stage.rule(
            "v1",
            "out",
            &json!({"driver": DRIVER, "pool": pool, "device": device}),
            &taint("NoExecute"),
        );
        stage.gone(&first);
        if devices == 2 {
            let second = pod_of_set(&stage, "its successor runs", runs);
            assert_ne!(stage.device_of(&second).1, device);
        } else {
            let waits =
                |pod: &Value| pod.to_string().contains("tainted example.com/maintenance=planned:NoExecute");
            pod_of_set(&stage, "its successor waits and says why", waits);
        }
        stage.settle();
        assert_eq!(evictions(&stage), "1", "with {devices} devices");
    }
}
