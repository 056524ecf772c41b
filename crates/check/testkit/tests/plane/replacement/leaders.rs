//! The leader changes half-way.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::PODS;
use crate::{rivals, stage::Stage};

fn released(stage: &Stage) -> BTreeSet<String> {
    let pods = stage.list(PODS);
    let marked = pods.iter().filter(|pod| pod["metadata"]["labels"]["lazaret.dev/replacement"] == "released");
    let stay = marked.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    stay.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_next_leader_goes_on_within_the_limit_and_does_nothing_twice() {
    let stage = rivals::stage();
    let first = rivals::start(&stage, "first", rivals::LONG, stage.cluster.client());
    rivals::until_held_by(&stage, "first");
    let second = rivals::start(&stage, "second", rivals::LONG, stage.cluster.client());
    stage.deployment("web", 6, None);
    // There is no room for the new pod until it is given: the first leader ends half-way.
    let (_, node, _) = stage.serving().remove(0);
    let old: BTreeSet<String> = stage.on(&node).into_iter().collect();
    let others: BTreeSet<String> = stage
        .list("/api/v1/nodes")
        .iter()
        .map(|one| one["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    let cordon = |on: bool| {
        for other in others.iter().filter(|other| **other != node) {
            stage.merge(&format!("/api/v1/nodes/{other}"), &json!({"spec": {"unschedulable": on}}));
        }
    };
    cordon(true);
    stage.policy(
        "p",
        &json!({
            "taintReplacementOptions": [{"key": "example.org/maintenance", "durationInSeconds": 0}],
            "taintReplacementTimeSeconds": 0,
        }),
    );
    stage.taint_node(&node, &["example.org/maintenance"]);
    let half_way = stage.until("one is released", || {
        let released = released(&stage);
        if released.len() == 1 { Ok(released) } else { Err(format!("{released:?}")) }
    });
    // An event is sent after the write that it reports.
    for name in &half_way {
        stage.told_of(name, "TaintReplacementStarted");
    }
    // Killed: nothing is said, nothing is given back.
    drop(first);
    rivals::until_held_by(&stage, "second");
    stage.settle_on(&node);
    assert_eq!(released(&stage), half_way, "the limit is one, and that one is under way");
    let record = stage.policy_now("p")["status"]["replacements"].clone();
    assert_eq!(record.as_array().map(Vec::len), Some(1), "{record}");
    cordon(false);
    stage.until("the node is empty", || {
        let released = released(&stage);
        assert!(released.len() <= 1, "{released:?}");
        if stage.on(&node).is_empty() { Ok(()) } else { Err(format!("{released:?}")) }
    });
    stage.see("p", "each is counted once", |status| {
        status["totals"]["replaced"] == old.len() && status["totals"]["inFlight"] == 0
    });
    stage.all_serve(6);
    for name in &old {
        stage.until("it was told", || match stage.events(name, "TaintReplaced").len() {
            1 => Ok(()),
            told => Err(told.to_string()),
        });
        assert_eq!(stage.events(name, "TaintReplacementStarted").len(), 1, "{name} was begun once");
    }
    stage.cluster.block_on(second.stop());
}

impl Stage {
    /// Lets everybody look at everything once more, where no node takes pods: an event of the policy's own will do.
    fn settle_on(&self, node: &str) {
        let generation = |value: &Value| value["metadata"]["generation"].as_i64();
        let before = self.policy_now("p");
        self.merge(
            "/apis/lazaret.dev/v1alpha1/namespaces/default/taintreplacementpolicies/p",
            &json!({"spec": {"automaticReplacementOptions": {"replacementReadySeconds": 601}}}),
        );
        self.see("p", &format!("the new leader has looked at {node}"), |status| {
            status["observedGeneration"].as_i64() > generation(&before)
        });
    }
}
