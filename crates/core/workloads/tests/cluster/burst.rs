//! Work is in proportion to what changed: a large set is not looked at once for each of its pods.

use lazaret_model::Timestamp;
use lazaret_workloads::{Object, Workloads, Write, resource, rules};
use serde_json::{Value, json};

use crate::support::{api::Api, replica_set};

const PODS: usize = 2_000;

/// Carries out all there is to do, and counts it.
fn drain(core: &mut Workloads, api: &mut Api, now: Timestamp) -> (usize, usize) {
    let (mut creates, mut others) = (0, 0);
    loop {
        let effects = core.poll(now);
        if effects.is_empty() {
            return (creates, others);
        }
        for effect in effects {
            match &effect.kind {
                Write::Create { .. } => creates += 1,
                Write::Event(_) => {}
                Write::Patch { .. }
                | Write::Replace { .. }
                | Write::Finalize { .. }
                | Write::Delete { .. }
                | Write::Evict { .. }
                | Write::Confirm { .. }
                | Write::ReadScale { .. } => others += 1,
            }
            let answer = api.carry_out(now, &effect.kind);
            core.acknowledge(now, effect.id, answer);
        }
    }
}

#[test]
fn two_thousand_pods_are_a_few_looks() {
    let mut core = Workloads::new(&[rules::REPLICA_SETS]);
    let mut api = Api::default();
    let mut now = Timestamp::from_secs(1_800_000_000);
    resource::KNOWN.iter().for_each(|resource| core.list(now, resource, Vec::new(), 0));
    let set = api.create(now, &resource::REPLICA_SETS, replica_set("web", PODS as u64)).unwrap();
    core.put(now, Object::parse(&resource::REPLICA_SETS, &set).unwrap());
    let (mut creates, mut others) = (0, 0);
    for _ in 0..20 {
        let (made, rest) = drain(&mut core, &mut api, now);
        creates += made;
        others += rest;
        now = now.plus_millis(20);
    }
    assert_eq!(creates, PODS, "each pod is made once, though no watch has told of any");
    assert!(others <= 12, "{others} writes of status");
    // Each becomes ready by itself, a millisecond after the one before.
    let names: Vec<String> =
        api.all(&resource::PODS).map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    let mut reports = 0;
    for name in names {
        now = now.plus_millis(1);
        let ready = |pod: &mut Value| {
            pod["spec"]["nodeName"] = json!("n");
            pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        };
        let pod = api.change(&resource::PODS, "default", &name, ready).unwrap();
        core.put(now, Object::parse(&resource::PODS, &pod).unwrap());
        reports += drain(&mut core, &mut api, now).1;
    }
    now = now.plus_secs(1);
    reports += drain(&mut core, &mut api, now).1;
    let status = &api.get(&resource::REPLICA_SETS, "default", "web").unwrap()["status"];
    assert_eq!((&status["readyReplicas"], &status["replicas"]), (&json!(PODS), &json!(PODS)));
    assert!(reports <= PODS / 20 + 2, "{reports} writes of status for {PODS} news in two seconds");
}
