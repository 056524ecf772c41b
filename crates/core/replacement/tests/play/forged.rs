//! Records that nobody of ours wrote: on pods, and in the status of a policy.

use std::sync::Arc;

use lazaret_model::{ObjectKey, Owner, Timestamp};
use lazaret_replacement::{Cause, Input, Mark, Origin, Plan, Pod, Record, RecordStatus, Status};

use crate::{
    api::{key, quick},
    runner::Play,
};

/// As a tenant writes it to have a pod deleted: its owner does not exist, so none is waited for.
fn record_of(pod: &Pod, plan: Plan) -> Record {
    Record {
        policy: "p".into(),
        counted_by: vec!["p".into()],
        pod: pod.key.clone(),
        uid: pod.uid.clone(),
        node: "n0".into(),
        cause: Cause {
            origin: Origin::Node,
            place: "n0".into(),
            key: "a".into(),
            value: "".into(),
            effect: "NoSchedule".into(),
        },
        since: Timestamp::from_secs(1),
        started: Timestamp::from_secs(2),
        lacking: 0,
        plan,
    }
}

fn release() -> Plan {
    let owner =
        Owner { group: "apps".into(), kind: "ReplicaSet".into(), name: "no".into(), uid: "no".into() };
    Plan::Release { owner, label: "x".into() }
}

#[test]
fn a_mark_about_a_pod_elsewhere_is_not_followed() {
    for has_policy in [false, true] {
        for plan in [release(), Plan::Copy { name: "lure".into() }] {
            for is_copy in [false, true] {
                let mut play = Play::with(2, 2);
                if has_policy {
                    play.api.set_policy("p", quick());
                    play.until(6);
                }
                let victim = play.on("n0")[0].clone();
                let record = record_of(&victim, plan.clone());
                let mark = if is_copy { Mark::Copy(record) } else { Mark::Released(record) };
                let tenant = Pod {
                    key: ObjectKey::new("tenant", "lure"),
                    uid: "lure-uid".into(),
                    ready: true,
                    mark: Some(mark),
                    ..Pod::default()
                };
                play.machine.tell(Input::Pod(Arc::new(tenant)));
                play.until(60);
                assert_eq!(play.done, Vec::<String>::new(), "{plan:?} {is_copy}");
                assert_eq!(play.machine.figures().in_flight, 0);
            }
        }
    }
}

#[test]
fn a_policy_replaces_no_pod_of_another_namespace_whatever_its_status_says() {
    let mut play = Play::with(2, 2);
    let victim = play.on("n0")[0].clone();
    play.api.set_policy("p", quick());
    play.until(6);
    let mine = key("p");
    let mut policy = play.api.policies[&mine].clone();
    let record = Record { pod: ObjectKey::new("elsewhere", "a"), ..record_of(&victim, release()) };
    let entry = RecordStatus { record, replacement: None, overdue: false };
    policy.status = Arc::new(Status { replacements: vec![entry], ..Status::clone(&policy.status) });
    play.api.policies.insert(mine, policy);
    play.restart();
    play.until(60);
    assert_eq!(play.machine.figures().in_flight, 0);
    assert_eq!(play.done, Vec::<String>::new());
}
