//! How: released, copied, evicted, rebuilt; as budgets permit.

use serde_json::{Value, json};

use super::{PODS, condition, conditions};
use crate::stage::{Stage, pod};

/// Replace at once whatever is tainted, like this.
fn at_once(strategy: &str) -> Value {
    json!({
        "taintReplacementOptions": [{"key": "*", "durationInSeconds": 0}], "taintReplacementTimeSeconds": 0,
        "strategy": strategy,
    })
}

/// A pod with no owner that the policies select.
fn bare(name: &str) -> Value {
    let mut bare = pod(name, &Value::Null);
    bare["metadata"]["labels"]["app"] = "web".into();
    bare["spec"]["resourceClaims"] = Value::Null;
    bare["spec"]["containers"][0]["resources"] = Value::Null;
    bare
}

#[test]
fn a_stateful_set_is_recreated_and_a_bare_pod_gets_a_copy_first() {
    let stage = Stage::with(3, 1);
    let bare = bare("lone");
    stage.create(PODS, &bare);
    stage.create(
        "/apis/apps/v1/namespaces/default/statefulsets",
        &json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
            "spec": {
                "serviceName": "db", "replicas": 1, "selector": {"matchLabels": {"set": "db"}},
                "template": {"metadata": {"labels": {"set": "db", "app": "web"}}, "spec": bare["spec"]},
            },
        }),
    );
    stage.until("both serve", || if stage.serving().len() == 2 { Ok(()) } else { Err(String::new()) });
    stage.policy("p", &json!({
        "taintReplacementOptions": [{"key": "*", "durationInSeconds": 0}], "taintReplacementTimeSeconds": 0,
    }));
    let before = stage.serving();
    let nodes: std::collections::BTreeSet<&String> = before.iter().map(|(_, node, _)| node).collect();
    for node in &nodes {
        stage.taint_node(node, &["example.org/maintenance"]);
    }
    stage.see("p", "both are replaced", |status| status["totals"]["replaced"] == 2);
    let after: Vec<(String, String, String)> = stage.until("both serve again", || {
        if stage.serving().len() == 2 { Ok(stage.serving()) } else { Err(String::new()) }
    });
    assert!(after.iter().all(|(_, node, _)| !nodes.contains(node)), "{after:?}");
    assert_eq!(after[0].0, "db-0");
    assert!(after[1].0.starts_with("lone-r"), "{after:?}");
    stage.gone("lone");
    assert_eq!(stage.told_of("db-0", "TaintReplacementStarted").len(), 1);
}

#[test]
fn a_tainted_device_moves_the_pod_that_holds_it() {
    let stage = Stage::with(2, 2);
    stage.template("one", &json!([]));
    stage.deployment("web", 2, Some("one"));
    stage.policy("p", &json!({
        "deviceTaintReplacementOptions": [{"key": "gpu.example.com/unhealthy", "durationInSeconds": 1}, {"key": "*", "durationInSeconds": 1}],
        "taintReplacementTimeSeconds": 3600,
    }));
    stage.see("p", "both are looked after", |status| status["totals"]["selected"] == 2);
    let (held, other) = (stage.serving()[0].0.clone(), stage.serving()[1].0.clone());
    let (pool, device) = stage.device_of(&held);
    stage.fail(&pool, &device, "NoSchedule");
    let seen = stage.see("p", "the device's taint is seen", |status| !conditions(status).is_empty());
    assert!(seen["pods"][0]["condition"].as_str().unwrap().starts_with("DeviceTaint"), "{seen}");
    assert!(seen["pods"][0]["device"].as_str().unwrap().ends_with(&device), "{seen}");
    assert_eq!(seen["pods"][0]["pod"], held);
    stage.set_options("p", &json!({"taintReplacementTimeSeconds": 1}));
    stage.see("p", "it is replaced", |status| status["totals"]["replaced"] == 1);
    stage.gone(&held);
    let new = stage.until("both serve", || {
        let serving = stage.serving();
        serving
            .iter()
            .map(|(name, ..)| name.clone())
            .find(|name| *name != other)
            .filter(|_| serving.len() == 2)
            .ok_or_else(String::new)
    });
    assert_ne!(stage.device_of(&new), (pool, device));
}

#[test]
fn recreate_evicts_a_replica_sets_pod_when_its_budget_permits() {
    let stage = Stage::with(3, 1);
    stage.deployment("web", 2, None);
    let budget = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    stage.create(
        budget,
        &json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
        }),
    );
    stage.until("the budget is known", || {
        let status = stage.get(&format!("{budget}/web"))["status"].clone();
        if status["expectedPods"] == 2 { Ok(()) } else { Err(status.to_string()) }
    });
    stage.policy("p", &at_once("Recreate"));
    let (old, node, uid) = stage.serving().remove(0);
    let old_ones = stage.on(&node);
    stage.taint_node(&node, &["example.org/maintenance"]);
    let held = stage.see("p", "the budget holds it back", |status| {
        condition(status, "Progressing")["reason"] == "HeldByBudget"
    });
    assert_eq!(held["pods"][0]["message"], "held back by a disruption budget", "{held}");
    assert_eq!((&held["totals"]["inFlight"], &held["totals"]["replaced"]), (&json!(0), &json!(0)));
    stage.settle();
    assert!(stage.serving().iter().any(|(_, _, other)| *other == uid), "nobody was evicted");
    assert_eq!(stage.events(&old, "TaintReplacementStarted").len(), 0, "nothing was begun");
    stage.merge(&format!("{budget}/web"), &json!({"spec": {"maxUnavailable": 1}}));
    stage.see("p", "it is let go", |status| status["totals"]["replaced"] == old_ones.len());
    stage.all_serve(2);
    assert!(stage.on(&node).is_empty());
    let told = stage.told_of(&old, "TaintReplacementStarted");
    assert!(told.len() == 1 && told[0].contains("evicted, ReplicaSet web-"), "{told:?}");
    stage.until("it is counted that one was held", || {
        if stage.counted("lazaret_replacements_total{outcome=\"held\"}") >= 1 {
            Ok(())
        } else {
            Err(String::new())
        }
    });
}

#[test]
fn a_bare_pod_that_is_recreated_waits_as_a_copy_until_the_old_one_is_gone() {
    let stage = Stage::with(2, 1);
    let mut lone = bare("lone");
    // It takes its time to go.
    lone["metadata"]["finalizers"] = json!(["example.com/slow"]);
    lone["metadata"]["annotations"] = json!({"example.com/note": "kept"});
    stage.create(PODS, &lone);
    let (_, node, uid) = stage.all_serve(1).remove(0);
    stage.policy("p", &at_once("Recreate"));
    stage.taint_node(&node, &["example.org/maintenance"]);
    let copy = stage.until("the old one has ended and its copy runs", || {
        let pods = stage.list(PODS);
        let old = pods.iter().find(|pod| pod["metadata"]["uid"] == uid.as_str()).ok_or("gone")?;
        let marked = |pod: &&Value| pod["metadata"]["labels"]["lazaret.dev/replacement"] == "copy";
        let copy = pods.iter().find(marked).ok_or("no copy")?;
        let runs = old["metadata"]["deletionTimestamp"].is_null() || old["status"]["phase"] == "Running";
        let gates = &copy["spec"]["schedulingGates"];
        if runs {
            assert_eq!(*gates, json!([{"name": "lazaret.dev/replacement"}]), "there are never two: {copy}");
        }
        if copy["status"]["phase"] == "Running" { Ok(copy.clone()) } else { Err(gates.to_string()) }
    });
    assert_eq!(copy["metadata"]["annotations"]["example.com/note"], "kept");
    let name = copy["metadata"]["name"].as_str().unwrap();
    let begun = stage.told_of("lone", "TaintReplacementStarted");
    assert!(
        begun.iter().any(|told| told.contains(&format!("its copy {name} starts when it is gone"))),
        "{begun:?}"
    );
    stage.merge(&format!("{PODS}/lone"), &json!({"metadata": {"finalizers": null}}));
    stage.see("p", "it is replaced", |status| status["totals"]["replaced"] == 1);
    let (new, elsewhere, _) = stage.all_serve(1).remove(0);
    assert_eq!(new, name);
    assert_ne!(elsewhere, node);
    stage.gone("lone");
}
