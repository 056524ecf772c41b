//! A process that ends in the middle, and two that compete.

use lazaret_controllers::{Options, Parts, Plane as Controllers, Rivals};
use lazaret_runtime::{Client, LeaseOptions, Metrics};
use lazaret_testkit::{Cluster, Plane};
use serde_json::json;

use crate::stage::{DRIVER, Stage, taint};

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("p{number}")).collect()
}

fn paced() -> serde_json::Value {
    let mut paced = taint("NoExecute");
    paced["evictionsPerSecond"] = 10.into();
    paced
}

/// Nobody was told twice to go. A rule's count is written every ten seconds while it works, so who dies without a word
/// takes the last few with it; it is never more than there were.
fn assert_counted(stage: &Stage, names: &[String], done: &serde_json::Value) {
    for name in names {
        let events = stage.events(name, "DeviceTaintManagerEviction");
        assert!(events.len() <= 1, "{name}: {events:?}");
    }
    let count = evicted(done["message"].as_str().unwrap()).unwrap();
    assert!((1..=names.len()).contains(&count), "{done}");
}

/// How many pods a rule says it has evicted.
fn evicted(message: &str) -> Option<usize> {
    message
        .split_whitespace()
        .zip(message.split_whitespace().skip(1))
        .find_map(|(count, what)| if what.starts_with("pod") { count.parse().ok() } else { None })
}

#[test]
fn a_restart_in_the_middle_of_an_eviction_loses_and_repeats_nothing() {
    let mut stage = Stage::of(Cluster::options().durable().plane(Plane::simulated(4, 8)), 4);
    stage.template("one", &json!([]));
    let names = names(30);
    for name in &names {
        stage.pod(name, "one");
    }
    for name in &names {
        stage.running(name);
    }
    stage.rule("v1alpha3", "all", &json!({"driver": DRIVER}), &paced());
    let here = |stage: &Stage| names.iter().filter(|name| stage.pod_now(name).is_some()).count();
    stage.until("the first are gone", || {
        if here(&stage) <= 22 { Ok(()) } else { Err(here(&stage).to_string()) }
    });
    stage.cluster.restart().unwrap();
    stage.until("all are gone", || if here(&stage) == 0 { Ok(()) } else { Err(here(&stage).to_string()) });
    let done = stage.condition("all", "is False with a count", |one| {
        one["status"] == "False" && one["reason"] == "Completed"
    });
    assert_counted(&stage, &names, &done);
}

#[test]
fn when_the_leader_dies_the_other_goes_on_and_both_keep_the_pace() {
    let parts = |eviction: bool| Parts { scheduler: !eviction, controllers: eviction, workloads: eviction };
    let scheduler_only = Options { parts: parts(false), ..Options::default() };
    let plane = Plane::simulated(4, 8).options(scheduler_only);
    let stage = Stage::of(Cluster::options().plane(plane), 4);
    let rival = |identity: &str| Options {
        parts: parts(true),
        rivals: Some(Rivals {
            identity: identity.into(),
            lease: LeaseOptions { duration_ms: 1_500, renew_deadline_ms: 1_000, retry_ms: 200 },
        }),
        ..Options::default()
    };
    let start = |identity: &'static str| {
        let client = Client::new(stage.cluster.client());
        let options = rival(identity);
        stage
            .cluster
            .block_on(async move { Controllers::start(client, Metrics::default(), &options).await.unwrap() })
    };
    let first = start("first");
    let holder = || {
        let lease = stage.try_request(
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/lazaret-controllers",
            "application/json",
            &serde_json::Value::Null,
        );
        lease.map(|lease| lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned())
    };
    stage.until("the first leads", || if holder()? == "first" { Ok(()) } else { Err(String::new()) });
    let second = start("second");
    stage.template("one", &json!([]));
    let names = names(30);
    for name in &names {
        stage.pod(name, "one");
    }
    for name in &names {
        stage.running(name);
    }
    stage.rule("v1alpha3", "all", &json!({"driver": DRIVER}), &paced());
    let here = || names.iter().filter(|name| stage.pod_now(name).is_some()).count();
    stage.until("the first are gone", || if here() <= 22 { Ok(()) } else { Err(here().to_string()) });
    // No farewell: the lease has to run out.
    drop(first);
    stage.until("the second leads", || if holder()? == "second" { Ok(()) } else { Err(holder()?) });
    stage.until("all are gone", || if here() == 0 { Ok(()) } else { Err(here().to_string()) });
    let done = stage.condition("all", "is False with a count", |one| {
        one["status"] == "False" && one["reason"] == "Completed"
    });
    assert_counted(&stage, &names, &done);
    stage.cluster.block_on(second.stop());
}
