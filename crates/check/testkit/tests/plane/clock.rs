//! A clock that is set while the control plane works.

use lazaret_testkit::{Clock, Cluster, Plane};
use serde_json::{Value, json};

use crate::stage::{DRIVER, Stage, taint};

const HOUR_MS: i64 = 3_600_000;
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/web";

fn stage(clock: &Clock) -> Stage {
    Stage::of(Cluster::options().plane(Plane::simulated(4, 8).clock(clock.clone())), 4)
}

fn deployment(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    })
}

fn until_ready(stage: &Stage, replicas: u32) {
    stage.until(&format!("{replicas} replicas are ready"), || {
        let found = stage.get(DEPLOYMENT);
        if found["status"]["readyReplicas"] == replicas { Ok(()) } else { Err(found["status"].to_string()) }
    });
}

/// Evictions at a pace are in progress when the clock is set back by an hour. They go on, none twice; a Deployment is made and scaled meanwhile.
#[test]
fn a_clock_that_is_set_back_stops_neither_evictions_nor_deployments() {
    let clock = Clock::default();
    let stage = stage(&clock);
    stage.template("one", &json!([]));
    let names: Vec<String> = (0..30).map(|number| format!("p{number}")).collect();
    names.iter().for_each(|name| stage.pod(name, "one"));
    names.iter().for_each(|name| {
        stage.running(name);
    });
    let mut paced = taint("NoExecute");
    paced["evictionsPerSecond"] = 5.into();
    stage.rule("v1alpha3", "all", &json!({"driver": DRIVER}), &paced);
    let here = || names.iter().filter(|name| stage.pod_now(name).is_some()).count();
    stage.until("the first are gone", || match here() {
        ..=18 => Ok(()),
        left => Err(format!("{left} left")),
    });

    clock.set_by(-HOUR_MS);
    stage.create("/apis/apps/v1/namespaces/default/deployments", &deployment(2));
    until_ready(&stage, 2);
    stage.merge(DEPLOYMENT, &json!({"spec": {"replicas": 4}}));
    until_ready(&stage, 4);
    stage.until("all are gone", || match here() {
        0 => Ok(()),
        left => Err(format!("{left} left")),
    });
    for name in &names {
        let events = stage.events(name, "DeviceTaintManagerEviction");
        assert!(events.len() <= 1, "{name}: {events:?}");
    }
}

/// Leases of nodes seem an hour old when the clock is set forward by an hour, and are not: no node is taken for lost.
#[test]
fn a_clock_that_is_set_forward_loses_no_node() {
    let clock = Clock::default();
    let stage = stage(&clock);
    stage.create("/apis/apps/v1/namespaces/default/deployments", &deployment(2));
    until_ready(&stage, 2);
    clock.set_by(HOUR_MS);
    stage.merge(DEPLOYMENT, &json!({"spec": {"replicas": 4}}));
    until_ready(&stage, 4);
    stage.settle();
    for node in stage.list("/api/v1/nodes") {
        let ready =
            node["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Ready");
        assert_eq!(ready.unwrap()["status"], "True", "{node}");
        assert!(node["spec"]["taints"].as_array().is_none_or(Vec::is_empty), "{node}");
    }
}
