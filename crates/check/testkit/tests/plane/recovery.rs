//! Work that lost its device goes on elsewhere.

use serde_json::{Value, json};

use crate::stage::{DRIVER, Stage, pod_path, taint};

fn template(restart: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "train"}},
        "spec": {
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "work", "image": "work", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        },
    })
}

/// Names of the pods of the workload that run.
fn running(stage: &Stage) -> Vec<String> {
    stage
        .list("/api/v1/namespaces/default/pods?labelSelector=app%3Dtrain")
        .iter()
        .filter(|pod| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null())
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_deployment_and_a_job_go_on_with_healthy_devices_and_the_rule_reports_when_it_is_done() {
    let stage = Stage::with(2, 2);
    stage.template("one", &json!([]));
    stage.create(
        "/apis/apps/v1/namespaces/default/deployments",
        &json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "train"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "train"}}, "template": template("Always")},
        }),
    );
    let two = |stage: &Stage| {
        let names = running(stage);
        if names.len() == 2 { Ok(names) } else { Err(format!("{names:?}")) }
    };
    let before = stage.until("both run", || two(&stage));
    let (pool, device) = stage.device_of(&before[0]);
    stage.rule("v1", "out", &json!({"driver": DRIVER, "pool": pool, "device": device}), &taint("NoExecute"));
    stage.gone(&before[0]);
    let after = stage.until("both run again", || two(&stage));
    for name in &after {
        assert_ne!(stage.device_of(name), (pool.clone(), device.clone()), "{name}");
    }
    let done = stage.condition("out", "says that it is done", |one| {
        one["status"] == "False" && one["reason"] == "Completed"
    });
    assert!(done["message"].as_str().unwrap().contains("1 pod"), "{done}");
    stage.until("the deployment is whole", || {
        let status = stage.get("/apis/apps/v1/namespaces/default/deployments/train")["status"].clone();
        if status["availableReplicas"] == 2 { Ok(()) } else { Err(status.to_string()) }
    });

    stage.create(
        "/apis/batch/v1/namespaces/default/jobs",
        &json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"},
            "spec": {"backoffLimit": 3, "template": {
                "metadata": {"labels": {"app": "job"}, "annotations": {"hollow.lazaret.dev/run-for": "1h"}},
                "spec": template("Never")["spec"],
            }},
        }),
    );
    let of_job = || {
        stage.until("the job's pod runs", || {
            let pods = stage.list("/api/v1/namespaces/default/pods?labelSelector=app%3Djob");
            let running = pods.iter().find(|pod| {
                pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
            });
            running
                .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
                .ok_or_else(|| format!("{} pods", pods.len()))
        })
    };
    let pod = of_job();
    let (pool, device) = stage.device_of(&pod);
    // Two devices are in use, one is out: the last one goes too, until it is brought back.
    stage.rule(
        "v1",
        "job-out",
        &json!({"driver": DRIVER, "pool": pool, "device": device}),
        &taint("NoExecute"),
    );
    stage.gone(&pod);
    stage.delete("/apis/resource.k8s.io/v1/devicetaintrules/job-out");
    // The next pod succeeds.
    stage.merge(&format!("{}/status", pod_path(&of_job())), &json!({"status": {"phase": "Succeeded"}}));
    stage.until("the job is complete", || {
        let status = stage.get("/apis/batch/v1/namespaces/default/jobs/job")["status"].clone();
        if status["succeeded"] == 1 { Ok(()) } else { Err(status.to_string()) }
    });
}
