//! A process that ends in the middle, and two that compete.

use lazaret_testkit::{Cluster, Plane};
use serde_json::json;

use crate::{
    rivals, rules,
    stage::{DRIVER, Stage, taint},
};

/// Pods that run, with a device each.
fn run_pods(stage: &Stage, count: usize) -> Vec<String> {
    stage.template("one", &json!([]));
    let names: Vec<String> = (0..count).map(|number| format!("p{number}")).collect();
    for name in &names {
        stage.pod(name, "one");
    }
    for name in &names {
        stage.running(name);
    }
    names
}

fn paced() -> serde_json::Value {
    let mut paced = taint("NoExecute");
    paced["evictionsPerSecond"] = 10.into();
    paced
}

/// No pod was evicted twice, and each is counted, or the rule says that there may have been more: a count is written every ten seconds while a rule
/// works, so a leader that dies takes what it counted since then with it.
fn assert_counted(stage: &Stage, names: &[String]) {
    for name in names {
        let events = stage.events(name, "DeviceTaintManagerEviction");
        assert!(events.len() <= 1, "{name}: {events:?}");
    }
    let rule = stage.get("/apis/resource.k8s.io/v1alpha3/devicetaintrules/all");
    let count = &rule["status"]["evictions"];
    let (pods, all) = (count["pods"].as_u64().unwrap(), names.len() as u64);
    assert!(pods == all || (1..all).contains(&pods) && count["atLeast"] == true, "{rule}");
}

#[test]
fn a_restart_in_the_middle_of_an_eviction_evicts_each_pod_once_and_counts_it_or_says_so() {
    let mut stage = Stage::of(Cluster::options().durable().plane(Plane::simulated(4, 8)), 4);
    let names = run_pods(&stage, 30);
    stage.rule("v1alpha3", "all", &json!({"driver": DRIVER}), &paced());
    let here = |stage: &Stage| names.iter().filter(|name| stage.pod_now(name).is_some()).count();
    stage.until("the first are gone", || {
        if here(&stage) <= 22 { Ok(()) } else { Err(here(&stage).to_string()) }
    });
    stage.cluster.restart().unwrap();
    stage.until("all are gone", || if here(&stage) == 0 { Ok(()) } else { Err(here(&stage).to_string()) });
    stage.condition("all", "is False with a count", |one| {
        one["status"] == "False" && one["reason"] == "Completed"
    });
    assert_counted(&stage, &names);
}

#[test]
fn when_the_leader_dies_the_other_goes_on_and_both_keep_the_pace() {
    let stage = rivals::stage();
    let first = rivals::start(&stage, "first", rivals::SHORT, stage.cluster.client());
    rivals::until_held_by(&stage, "first");
    let second = rivals::start(&stage, "second", rivals::SHORT, stage.cluster.client());
    let names = run_pods(&stage, 30);
    stage.rule("v1alpha3", "all", &json!({"driver": DRIVER}), &paced());
    let here = || names.iter().filter(|name| stage.pod_now(name).is_some()).count();
    stage.until("the first are gone", || if here() <= 22 { Ok(()) } else { Err(here().to_string()) });
    // No farewell: the lease has to run out.
    drop(first);
    rivals::until_held_by(&stage, "second");
    stage.until("all are gone", || if here() == 0 { Ok(()) } else { Err(here().to_string()) });
    stage.condition("all", "is False with a count", |one| {
        one["status"] == "False" && one["reason"] == "Completed"
    });
    assert_counted(&stage, &names);
    stage.cluster.block_on(second.stop());
}

#[test]
fn a_leader_that_ends_in_good_order_takes_no_count_with_it() {
    let stage = rivals::stage();
    let first = rivals::start(&stage, "first", rivals::LONG, stage.cluster.client());
    rivals::until_held_by(&stage, "first");
    let names = run_pods(&stage, 20);
    stage.rule("v1alpha3", "all", &json!({"driver": DRIVER}), &paced());
    let here = || names.iter().filter(|name| stage.pod_now(name).is_some()).count();
    // They go without a trace but for the count, which is written every ten seconds and at the end.
    stage.until("some more are gone", || if here() <= 6 { Ok(()) } else { Err(here().to_string()) });
    stage.cluster.block_on(first.stop());
    let said = stage.condition("all", "is what the first left behind", |_| true);
    let left = names.len() - here();
    assert!(said["message"].as_str().unwrap().contains(&format!("{left} pods evicted since")), "{said}");
    let second = rivals::start(&stage, "second", rivals::LONG, stage.cluster.client());
    let all = format!("{} pods evicted since", names.len());
    stage.condition("all", "counts each once", |one| one["message"].as_str().unwrap().contains(&all));
    stage.cluster.block_on(second.stop());
}

/// The slice of a device in use goes, then the process ends. A rule that selects by what the device was like reaches its pod all the same.
#[test]
fn a_rule_by_expression_reaches_a_device_whose_slice_went_before_the_restart() {
    let mut stage = Stage::of(Cluster::options().durable().plane(Plane::simulated(1, 1)), 1);
    rules::vanishing(&stage);
    stage.delete("/apis/resource.k8s.io/v1/resourceslices/vanishing");
    let path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/it";
    let said = stage.until("the claim says what its device was like", || {
        let claim = stage.get(path);
        let said = claim["metadata"]["annotations"]["lazaret.dev/last-published"].as_str().map(str::to_owned);
        said.ok_or_else(|| claim["metadata"].to_string())
    });
    let expected = json!([{
        "driver": "other.example.com", "pool": "node-1", "device": "d",
        "attributes": {"model": {"string": "old"}},
    }]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&said).unwrap(), expected);
    stage.cluster.restart().unwrap();
    stage.running("a");
    let expression = "device.attributes[\"other.example.com\"].model == \"old\"";
    let selector = json!({"selectors": [{"cel": {"expression": expression}}]});
    stage.rule("v1alpha3", "old", &selector, &taint("NoExecute"));
    stage.gone("a");
}

/// As long as a slice has the device, the claim need not say it.
#[test]
fn a_claim_says_nothing_of_a_device_that_is_published_again() {
    let stage = Stage::with(1, 1);
    rules::vanishing(&stage);
    let said = || {
        let claim = stage.get("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/it");
        claim["metadata"]["annotations"]["lazaret.dev/last-published"].is_string()
    };
    assert!(!said());
    stage.delete("/apis/resource.k8s.io/v1/resourceslices/vanishing");
    stage.until("the claim says it", || if said() { Ok(()) } else { Err("not yet".into()) });
    rules::publish_vanishing(&stage);
    stage.until("the claim does not say it any more", || if said() { Err("still".into()) } else { Ok(()) });
}
