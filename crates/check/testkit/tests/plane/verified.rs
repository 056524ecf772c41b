//! A rule that is seen before the pods that it makes leave.

use serde_json::{Value, json};

use crate::{
    blockable_service::blockable_service,
    rivals,
    stage::{DRIVER, Stage, pod, taint},
};

fn claim(stage: &Stage, name: &str) {
    stage.create(
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
        &json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}},
        }),
    );
}

fn conditions(stage: &Stage, rule: &str) -> Vec<Value> {
    let rule = stage.get(&format!("/apis/resource.k8s.io/v1/devicetaintrules/{rule}"));
    rule["status"]["conditions"].as_array().cloned().unwrap_or_default()
}

/// The controllers' watch of pods stands still while a pod is bound and a rule is made that makes it leave.
#[test]
fn no_rule_says_that_all_is_over_before_its_controller_has_seen_the_pods() {
    let stage = rivals::stage();
    let (client, guard) = blockable_service(&stage, "pods");
    let controllers = rivals::start(&stage, "only", rivals::LONG, client);
    rivals::until_held_by(&stage, "only");
    stage.rule("v1", "nothing", &json!({"driver": DRIVER, "device": "none"}), &taint("NoExecute"));
    stage.condition("nothing", "shows that the controllers work", |one| one["reason"] == "NotStarted");

    guard.block(true);
    let before = guard.watches();
    claim(&stage, "it");
    stage.create("/api/v1/namespaces/default/pods", &pod("a", &json!({"resourceClaimName": "it"})));
    stage.running("a");
    stage.rule("v1", "all", &json!({"driver": DRIVER}), &taint("NoExecute"));
    stage.until("the controllers doubt their view", || {
        assert_eq!(conditions(&stage, "all"), Vec::<Value>::new(), "said without having seen the pod");
        match guard.watches() {
            opened if opened > before => Ok(()),
            opened => Err(format!("{opened} watches")),
        }
    });

    guard.block(false);
    stage.gone("a");
    let done = stage.condition("all", "is False", |one| one["status"] == "False");
    assert_eq!(
        (&done["reason"], &done["message"]),
        (&json!("Completed"), &json!("1 pod evicted since the rule was created."))
    );
    stage.cluster.block_on(controllers.stop());
}
