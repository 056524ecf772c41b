//! A process that loses the lease and wins it again.

use lazaret_machine::{Machine as _, Outcome, Turn};
use lazaret_model::Timestamp;
use lazaret_workloads::{Effect, Object, Workloads, Write, resource, rules};
use serde_json::json;

use crate::support::replica_set;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_secs(1_000).plus_millis(millis)
}

fn taken(core: &mut Workloads, now: Timestamp) -> Vec<Effect> {
    core.handle(now, &(), Turn::Tick);
    std::iter::from_fn(|| core.poll_effect()).collect()
}

/// Another process led in between and has made the pod.
#[test]
fn a_new_term_sends_no_creation_of_an_earlier_one() {
    let mut set = replica_set("web", 1);
    set["metadata"]["uid"] = json!("u");
    set["metadata"]["resourceVersion"] = json!("1");
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true});
    let pod = json!({"metadata": {
        "name": "web-1", "namespace": "default", "uid": "v", "resourceVersion": "2",
        "labels": {"app": "web"}, "ownerReferences": [owner],
    }});
    for was_sent in [false, true] {
        let mut core = Workloads::new(&[rules::REPLICA_SETS]);
        core.list(at(0), &resource::PODS, Vec::new(), 1);
        let sets = vec![Object::parse(&resource::REPLICA_SETS, &set).unwrap()];
        core.list(at(0), &resource::REPLICA_SETS, sets, 1);
        core.handle(at(0), &(), Turn::BecameLeader);
        core.handle(at(0), &(), Turn::Tick);
        let sent: Vec<Effect> = if was_sent { taken(&mut core, at(0)) } else { Vec::new() };
        core.handle(at(10), &(), Turn::LostLeadership);
        for effect in sent {
            core.handle(at(20), &(), Turn::Acknowledged(effect.id, Outcome::RetryLater.into()));
        }
        core.put(at(30), Object::parse(&resource::PODS, &pod).unwrap());
        core.handle(at(5_000), &(), Turn::BecameLeader);
        let mut all = taken(&mut core, at(5_000));
        all.extend(taken(&mut core, at(6_000)));
        let made = all.iter().filter(|effect| matches!(effect.kind, Write::Create { .. })).count();
        assert_eq!(made, 0, "sent before: {was_sent}");
    }
}
