//! When: the document's policy, timers of their own, the wildcard, what goes is forgotten.

use serde_json::Value;

use super::{PODS, condition, conditions, document};
use crate::stage::Stage;

fn seconds(status: &Value, from: &str, to: &str) -> f64 {
    let at = |text: &Value| {
        let text = text.as_str().unwrap();
        let clock: Vec<f64> =
            text[11..].trim_end_matches('Z').split(':').map(|part| part.parse().unwrap()).collect();
        clock[0] * 3_600.0 + clock[1] * 60.0 + clock[2]
    };
    (at(&status[to]) - at(&status[from])).rem_euclid(86_400.0)
}

#[test]
fn the_documents_policy_marks_waits_and_replaces_with_the_new_pod_first() {
    let stage = Stage::with(3, 1);
    stage.held_deployment("web", 3);
    stage.policy("p", &document());
    stage.see("p", "three pods are looked after", |status| status["totals"]["selected"] == 3);
    let (old, node, uid) = stage.serving().remove(0);
    let others = stage.on(&node).len() - 1;
    // That the taint was detected and the pod marked before is in the events below.
    stage.taint_node(&node, &["example.org/disconnected"]);
    let under_way = stage.see("p", "a replacement is recorded", |status| status["totals"]["inFlight"] == 1);
    assert_eq!(condition(&under_way, "Degraded")["status"], "False", "{under_way}");
    let record = &under_way["replacements"][0];
    assert!(seconds(record, "since", "started") >= 5.0, "{record}");
    assert_eq!(
        (record["plan"].as_str(), record["label"].as_str()),
        (Some("Release"), Some("pod-template-hash"))
    );
    stage.until("the node is empty", || {
        stage.release();
        // The old one serves until the new one does.
        let serving = stage.serving();
        assert!(serving.len() >= 3 || stage.list(PODS).len() >= 3, "{serving:?}");
        if stage.on(&node).is_empty() { Ok(()) } else { Err(format!("{serving:?}")) }
    });
    let done = stage.see("p", "all is done", |status| {
        status["totals"]["replaced"] == others + 1 && status["totals"]["inFlight"] == 0
    });
    assert!(conditions(&done).is_empty(), "{done}");
    assert!(stage.serving().iter().all(|(_, _, other)| *other != uid));
    stage.until("three serve", || if stage.serving().len() == 3 { Ok(()) } else { Err(String::new()) });
    for reason in ["NodeTaintDetected", "NodeTaintReplacing", "TaintReplacementStarted", "TaintReplaced"] {
        stage.until("it was told", || {
            let told = stage.events(&old, reason);
            if told.len() == 1 { Ok(()) } else { Err(format!("{reason}: {told:?}")) }
        });
    }
}

#[test]
fn two_taints_have_their_own_timers_the_wildcard_takes_the_rest_and_what_goes_is_forgotten() {
    let stage = Stage::with(2, 1);
    stage.deployment("web", 1, None);
    let mut options = document();
    options["taintReplacementTimeSeconds"] = 3600.into();
    stage.policy("p", &options);
    let (_, node, uid) = stage.serving().remove(0);
    stage.taint_node(&node, &["example.org/maintenance"]);
    let first = stage.see("p", "the long one is seen", |status| conditions(status).len() == 1);
    // Times have whole seconds.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    stage.taint_node(&node, &["example.org/maintenance", "example.org/other"]);
    let both = stage.see("p", "the other one is marked by the wildcard", |status| {
        conditions(status)
            .iter()
            .any(|(_, key, condition)| key == "example.org/other" && condition == "NodeTaintReplacing")
    });
    assert_eq!(conditions(&both)[1].2, "NodeTaintDetected", "the long one is not due: {both}");
    assert_eq!(both["pods"][1]["since"], first["pods"][0]["since"], "the long one keeps its age");
    assert_ne!(both["pods"][0]["since"], first["pods"][0]["since"], "the short one has its own");
    stage.taint_node(&node, &[]);
    stage.see("p", "all is forgotten", |status| {
        conditions(status).is_empty() && status["totals"]["due"] == 0 && status["totals"]["detected"] == 0
    });
    stage.settle();
    assert_eq!(stage.serving()[0].2, uid, "nobody was replaced");
}
