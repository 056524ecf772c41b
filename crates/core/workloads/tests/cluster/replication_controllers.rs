//! Replication controllers against a model of the API server.

use crate::support::{
    rig::{Faults, Rig},
    template,
};
use lazaret_workloads::{Propagation, resource, rules};
use serde_json::{Value, json};

const BOTH: &[lazaret_workloads::Rules] = &[rules::REPLICATION_CONTROLLERS, rules::GARBAGE];

fn controller(name: &str, replicas: u64) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"app": name}, "template": template(name)},
    })
}

#[test]
fn pods_follow_the_number_and_the_status_says_so() {
    for (seed, faults) in [(1, Faults::NONE), (2, Faults::MANY), (3, Faults::MANY)] {
        let mut rig = Rig::new(BOTH, seed, faults);
        rig.create(&resource::REPLICATION_CONTROLLERS, controller("web", 3));
        for replicas in [3, 5, 1] {
            rig.api.change(&resource::REPLICATION_CONTROLLERS, "default", "web", |controller| {
                controller["spec"]["replicas"] = json!(replicas);
            });
            rig.settle(600);
            assert_eq!(rig.live_pods().len(), replicas, "seed {seed}");
        }
        let made = rig.object(&resource::REPLICATION_CONTROLLERS, "web");
        assert_eq!((&made["status"]["readyReplicas"], &made["status"]["replicas"]), (&json!(1), &json!(1)));
        assert!(made["status"].get("terminatingReplicas").is_none(), "its status has no such field");
        let pod = rig.live_pods()[0];
        let owner = &pod["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["apiVersion"]), (&json!("ReplicationController"), &json!("v1")));
        assert!(rig.api.events.iter().all(|note| note.component == "replication-controller"));
    }
}

#[test]
fn orphaned_pods_stay_and_are_taken_in_by_the_next_one() {
    let mut rig = Rig::new(BOTH, 4, Faults::NONE);
    rig.create(&resource::REPLICATION_CONTROLLERS, controller("web", 2));
    rig.settle(60);
    rig.delete(&resource::REPLICATION_CONTROLLERS, "web", Propagation::Orphan);
    rig.settle(60);
    assert_eq!(rig.live_pods().len(), 2);
    assert!(
        rig.live_pods()
            .iter()
            .all(|pod| pod["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty))
    );
    rig.create(&resource::REPLICATION_CONTROLLERS, controller("web", 2));
    rig.settle(60);
    assert_eq!(rig.api.all(&resource::PODS).count(), 2, "no pod was made anew");
    rig.delete(&resource::REPLICATION_CONTROLLERS, "web", Propagation::Background);
    rig.settle(60);
    assert_eq!(rig.live_pods().len(), 0);
}
