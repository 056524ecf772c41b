//! Replica sets against a model of the API server.

use crate::support::{
    replica_set,
    rig::{Faults, Rig},
};
use lazaret_workloads::{Propagation, resource, rules};
use serde_json::json;

const BOTH: &[lazaret_workloads::Rules] = &[rules::REPLICA_SETS, rules::GARBAGE];

#[test]
fn as_many_pods_as_asked_for_and_the_status_says_so() {
    let mut rig = Rig::new(BOTH, 1, Faults::NONE);
    rig.create(&resource::REPLICA_SETS, replica_set("web", 3));
    rig.settle(60);
    assert_eq!(rig.live_pods().len(), 3);
    let set = rig.object(&resource::REPLICA_SETS, "web");
    assert_eq!(
        set["status"],
        json!({"replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
            "terminatingReplicas": 0, "observedGeneration": 1})
    );
    let pod = rig.live_pods()[0].clone();
    assert_eq!(pod["metadata"]["generateName"], "web-");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], set["metadata"]["uid"]);
    assert_eq!(rig.api.events.iter().filter(|note| note.reason == "SuccessfulCreate").count(), 3);
}

#[test]
fn scaling_follows() {
    let mut rig = Rig::new(BOTH, 2, Faults::NONE);
    rig.create(&resource::REPLICA_SETS, replica_set("web", 3));
    for replicas in [3, 700, 5, 0, 2] {
        rig.api.change(&resource::REPLICA_SETS, "default", "web", |set| {
            set["spec"]["replicas"] = json!(replicas)
        });
        rig.settle(120);
        assert_eq!(rig.live_pods().len(), replicas);
        assert_eq!(rig.object(&resource::REPLICA_SETS, "web")["status"]["replicas"], replicas);
    }
}

#[test]
fn failed_pods_are_replaced_and_foreign_ones_left_alone() {
    let mut rig = Rig::new(BOTH, 3, Faults::NONE);
    rig.create(&resource::REPLICA_SETS, replica_set("web", 2));
    rig.settle(60);
    let victim = rig.live_pods()[0]["metadata"]["name"].as_str().unwrap().to_owned();
    rig.api.change(&resource::PODS, "default", &victim, |pod| pod["status"]["phase"] = json!("Failed"));
    rig.settle(60);
    assert_eq!(rig.live_pods().len(), 2);
    assert_eq!(rig.api.all(&resource::PODS).count(), 3, "the failed pod stays to be looked at");
}

#[test]
fn loose_pods_are_taken_in_and_relabelled_ones_let_go() {
    let mut rig = Rig::new(BOTH, 4, Faults::NONE);
    rig.create(
        &resource::PODS,
        json!({"metadata": {"name": "stray", "namespace": "default", "labels": {"app": "web"}}, "spec": {"containers": []}}),
    );
    rig.create(&resource::REPLICA_SETS, replica_set("web", 2));
    rig.settle(60);
    let uid = rig.object(&resource::REPLICA_SETS, "web")["metadata"]["uid"].clone();
    assert_eq!(rig.object(&resource::PODS, "stray")["metadata"]["ownerReferences"][0]["uid"], uid);
    assert_eq!(rig.live_pods().len(), 2);
    rig.api
        .change(&resource::PODS, "default", "stray", |pod| pod["metadata"]["labels"]["app"] = json!("debug"));
    rig.settle(60);
    assert!(rig.object(&resource::PODS, "stray")["metadata"]["ownerReferences"].is_null());
    assert_eq!(rig.live_pods().len(), 3);
}

#[test]
fn a_refusal_is_said_and_few_are_tried() {
    let mut rig = Rig::new(BOTH, 5, Faults::NONE);
    rig.api.refuse.insert("pods", "exceeded quota".to_owned());
    rig.create(&resource::REPLICA_SETS, replica_set("web", 300));
    rig.pass(10);
    assert!(rig.writes < 40, "{} writes", rig.writes);
    let condition = rig.object(&resource::REPLICA_SETS, "web")["status"]["conditions"][0].clone();
    assert_eq!((&condition["type"], &condition["status"]), (&json!("ReplicaFailure"), &json!("True")));
    assert_eq!(
        (&condition["reason"], &condition["message"]),
        (&json!("FailedCreate"), &json!("exceeded quota"))
    );
    rig.api.refuse.clear();
    rig.settle(300);
    assert_eq!(rig.live_pods().len(), 300);
    assert!(rig.object(&resource::REPLICA_SETS, "web")["status"]["conditions"].is_null());
}

#[test]
fn pods_of_a_deleted_set_go_with_it_after_it_or_not_at_all() {
    for (how, left) in [(Propagation::Background, 0), (Propagation::Foreground, 0), (Propagation::Orphan, 3)]
    {
        let mut rig = Rig::new(BOTH, 6, Faults::NONE);
        rig.create(&resource::REPLICA_SETS, replica_set("web", 3));
        rig.settle(60);
        rig.delete(&resource::REPLICA_SETS, "web", how);
        rig.check = match how {
            Propagation::Foreground => |rig| {
                let gone = rig.object(&resource::REPLICA_SETS, "web").is_null();
                assert!(
                    !gone || rig.api.all(&resource::PODS).next().is_none(),
                    "the owner waits for its pods"
                );
            },
            Propagation::Background | Propagation::Orphan => |_| {},
        };
        rig.settle(60);
        assert!(rig.object(&resource::REPLICA_SETS, "web").is_null(), "{how:?}");
        assert_eq!(rig.api.all(&resource::PODS).count(), left, "{how:?}");
        assert!(rig.api.all(&resource::PODS).all(|pod| pod["metadata"]["ownerReferences"].is_null()));
    }
}
