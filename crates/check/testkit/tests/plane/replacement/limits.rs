//! How many at a time, and what the metrics say of it.

use lazaret_testkit::{Cluster, Plane};
use serde_json::json;

use super::{PODS, condition};
use crate::stage::Stage;

#[test]
fn never_more_at_once_than_the_limit_even_over_a_restart() {
    let mut stage = Stage::of(Cluster::options().durable().plane(Plane::simulated(8, 1)), 8);
    // One device a node, so one pod a node.
    stage.template("one", &json!([]));
    stage.deployment("web", 5, Some("one"));
    let old: Vec<(String, String, String)> = stage.serving();
    stage.policy("p", &json!({
        "taintReplacementOptions": [{"key": "*", "durationInSeconds": 0}], "taintReplacementTimeSeconds": 0,
    }));
    let nodes: std::collections::BTreeSet<&String> = old.iter().map(|(_, node, _)| node).take(3).collect();
    for node in &nodes {
        stage.taint_node(node, &["example.org/maintenance"]);
    }
    let released = |stage: &Stage| {
        let pods = stage.list(PODS);
        pods.iter()
            .filter(|pod| pod["metadata"]["labels"]["lazaret.dev/replacement"] == "released")
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .count()
    };
    let done = |stage: &Stage| stage.policy_now("p")["status"]["totals"]["replaced"].as_u64().unwrap_or(0);
    stage.until("the first is replaced", || {
        assert!(released(&stage) <= 1);
        if done(&stage) >= 1 { Ok(()) } else { Err(String::new()) }
    });
    stage.cluster.restart().unwrap();
    stage.until("the nodes are empty", || {
        assert!(released(&stage) <= 1);
        let left: usize = nodes.iter().map(|node| stage.on(node).len()).sum();
        if left == 0 && released(&stage) == 0 { Ok(()) } else { Err(format!("{left} left")) }
    });
    let gone = old.iter().filter(|(_, node, _)| nodes.contains(node)).count();
    stage.see("p", "all are counted, each once", |status| status["totals"]["replaced"] == gone);
    stage.until("all serve", || if stage.serving().len() == 5 { Ok(()) } else { Err(String::new()) });
}

#[test]
fn the_breaker_holds_while_too_many_fault_domains_are_tainted() {
    let stage = Stage::with(6, 1);
    // One device a node, so one pod a node.
    stage.template("one", &json!([]));
    stage.deployment("web", 4, Some("one"));
    stage.policy("p", &json!({
        "taintReplacementOptions": [{"key": "*", "durationInSeconds": 0}], "taintReplacementTimeSeconds": 3600,
        "maxFaultDomainsTainted": "25%",
    }));
    stage.see("p", "all pods are looked after", |status| status["totals"]["selected"] == 4);
    let domains = stage.policy_now("p")["status"]["totals"]["faultDomains"].as_u64().unwrap();
    assert!(domains >= 2, "the scheduler spreads");
    let mut nodes: Vec<String> = stage.serving().into_iter().map(|(_, node, _)| node).collect();
    nodes.sort();
    nodes.dedup();
    // Both before the first can be begun.
    for node in &nodes[..2] {
        stage.taint_node(node, &["example.org/power"]);
    }
    let tripped =
        stage.see("p", "the breaker trips", |status| condition(status, "BreakerTripped")["status"] == "True");
    assert_eq!(tripped["totals"]["faultDomainsTainted"], 2);
    stage.until("it is told", || {
        if stage.events("p", "BreakerTripped").is_empty() { Err(String::new()) } else { Ok(()) }
    });
    let breaker = condition(&tripped, "BreakerTripped");
    assert_eq!(breaker["reason"], "TooManyFaultDomains");
    let message = breaker["message"].as_str().unwrap();
    assert!(message.ends_with("more than maxFaultDomainsTainted 25%: nothing new is begun"), "{message}");
    stage.until("it is counted", || match stage.counted("lazaret_replacement_breakers_tripped") {
        1 => Ok(()),
        other => Err(other.to_string()),
    });
    stage.set_options("p", &json!({"taintReplacementTimeSeconds": 0}));
    stage.see("p", "they are due", |status| status["totals"]["due"].as_u64() >= Some(2));
    stage.settle();
    assert_eq!(stage.policy_now("p")["status"]["totals"]["replaced"], 0);
    stage.taint_node(&nodes[0], &[]);
    stage.see("p", "it goes on with one", |status| {
        condition(status, "BreakerTripped")["status"] == "False"
            && status["totals"]["replaced"].as_u64() >= Some(1)
    });
    stage.until("that node is empty", || {
        if stage.on(&nodes[1]).is_empty() { Ok(()) } else { Err(String::new()) }
    });
    stage.until("that is told and counted too", || {
        let tripped = stage.counted("lazaret_replacement_breakers_tripped");
        if tripped == 0 && !stage.events("p", "BreakerReset").is_empty() {
            Ok(())
        } else {
            Err(tripped.to_string())
        }
    });
}

/// A counter of the server's `/metrics`.
fn outcome(name: &str) -> String {
    format!("lazaret_replacements_total{{outcome=\"{name}\"}}")
}

#[test]
fn every_outcome_is_counted_where_the_server_is_scraped() {
    let stage = Stage::with(2, 1);
    stage.deployment("web", 1, None);
    stage.policy("p", &json!({
        "taintReplacementOptions": [{"key": "*", "durationInSeconds": 3600}, {"key": "now", "durationInSeconds": 0}],
        "taintReplacementTimeSeconds": 0,
    }));
    let (old, node, _) = stage.serving().remove(0);
    stage.taint_node(&node, &["later"]);
    stage.until("the taint is counted", || match stage.counted("lazaret_replacement_tainted_pods") {
        1 => Ok(()),
        other => Err(other.to_string()),
    });
    assert_eq!(stage.counted(&outcome("started")), 0);
    stage.taint_node(&node, &["now"]);
    stage.gone(&old);
    stage.until("all is counted", || {
        let counted = ["started", "replaced", "cancelled", "overdue", "refused"]
            .map(|name| stage.counted(&outcome(name)));
        let now = ["lazaret_replacement_tainted_pods", "lazaret_replacements_in_flight"];
        let now = now.map(|name| stage.counted(name));
        if counted == [1, 1, 0, 0, 0] && now == [0, 0] { Ok(()) } else { Err(format!("{counted:?} {now:?}")) }
    });
}
