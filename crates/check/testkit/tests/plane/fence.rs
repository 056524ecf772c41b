//! A new leader with an old view of the world.

use std::collections::BTreeSet;

use serde_json::json;

use crate::{
    blockable_service::blockable_service,
    rivals,
    stage::{DRIVER, Stage, taint},
};

/// Names of the pods that are not being deleted.
fn alive(stage: &Stage) -> BTreeSet<String> {
    let pods = stage.list("/api/v1/namespaces/default/pods");
    let alive = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    alive.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// The first evicts slowly, the rule is withdrawn, the first dies. The second, whose watch of rules has been silent for a
/// while, gets the lease and believes that all the others have to go as well.
#[test]
fn who_gets_the_lease_does_not_go_by_a_rule_that_was_deleted_before() {
    let stage = rivals::stage();
    let first = rivals::start(&stage, "first", rivals::LONG, stage.cluster.client());
    rivals::until_held_by(&stage, "first");
    let (client, guard) = blockable_service(&stage, "devicetaintrules");
    let second = rivals::start(&stage, "second", rivals::LONG, client);
    stage.until("the second watches", || if guard.watches() > 0 { Ok(()) } else { Err("not yet".into()) });
    stage.template("one", &json!([]));
    let names: Vec<String> = (0..30).map(|number| format!("p{number}")).collect();
    names.iter().for_each(|name| stage.pod(name, "one"));
    names.iter().for_each(|name| {
        stage.running(name);
    });
    let mut slow = taint("NoExecute");
    slow["evictionsPerSecond"] = 1.into();
    stage.rule("v1alpha3", "all", &json!({"driver": DRIVER}), &slow);
    stage.until("a burst and one more are gone", || match alive(&stage).len() {
        ..20 => Ok(()),
        left => Err(format!("{left} left")),
    });

    guard.block(true);
    stage.delete("/apis/resource.k8s.io/v1/devicetaintrules/all");
    stage.rule("v1", "nothing", &json!({"driver": DRIVER, "device": "none"}), &taint("NoExecute"));
    stage.condition("nothing", "shows that the first has heard of both", |_| true);
    drop(first);
    let before = guard.watches();
    let left = alive(&stage);
    assert!(!left.is_empty(), "the second has something to do wrong");
    rivals::until_held_by(&stage, "second");
    stage.until("the second doubts its view", || {
        assert_eq!(alive(&stage), left, "evicted by a rule that is gone");
        match guard.watches() {
            opened if opened > before => Ok(()),
            opened => Err(format!("{opened} watches")),
        }
    });
    assert_eq!(alive(&stage), left, "evicted by a rule that is gone");

    guard.block(false);
    let mut left = left;
    let chosen = left.pop_first().unwrap();
    let (pool, device) = stage.device_of(&chosen);
    stage.rule("v1", "one", &json!({"driver": DRIVER, "pool": pool, "device": device}), &taint("NoExecute"));
    stage.gone(&chosen);
    assert_eq!(alive(&stage), left, "evicted by a rule that is gone");
    stage.cluster.block_on(second.stop());
}
