//! Stateful sets against a model of the API server.

use lazaret_workloads::{Propagation, resource, rules};
use serde_json::{Value, json};

use crate::support::{
    api::Logged,
    rig::{Faults, Pods, Rig},
    template,
};

const ALL: &[lazaret_workloads::Rules] = &[rules::STATEFUL_SETS, rules::GARBAGE];

fn stateful_set(replicas: u64, policy: &str) -> Value {
    json!({
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            "replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template("db"),
            "podManagementPolicy": policy, "revisionHistoryLimit": 1,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        },
    })
}

fn names(rig: &Rig) -> Vec<String> {
    rig.live_pods().iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn images(rig: &Rig) -> Vec<String> {
    rig.live_pods()
        .iter()
        .map(|pod| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned())
        .collect()
}

fn set_image(rig: &mut Rig, image: &str) {
    rig.api.change(&resource::STATEFUL_SETS, "default", "db", |set| {
        set["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    });
}

fn ready(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["conditions"][0]["status"] == "True"
}

/// In an ordered set no pod starts before those before it are up: at most one pod of the set is not.
fn one_at_a_time(rig: &Rig) {
    let down = rig.api.all(&resource::PODS).filter(|pod| !ready(pod)).count();
    assert!(down <= 1, "{down} pods are down at once");
}

#[test]
fn pods_have_numbers_and_come_in_order() {
    for (policy, faults) in
        [("OrderedReady", Faults::NONE), ("OrderedReady", Faults::MANY), ("Parallel", Faults::MANY)]
    {
        let mut rig = Rig::new(ALL, 1, faults);
        if policy == "OrderedReady" {
            rig.check = one_at_a_time;
        }
        rig.create(&resource::STATEFUL_SETS, stateful_set(4, policy));
        rig.settle(300);
        assert_eq!(names(&rig), ["db-0", "db-1", "db-2", "db-3"]);
        let pod = rig.object(&resource::PODS, "db-2");
        assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "2");
        assert_eq!(pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"], "db-2");
        assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("db-2"), &json!("db")));
        let status = &rig.object(&resource::STATEFUL_SETS, "db")["status"];
        assert_eq!((&status["readyReplicas"], &status["currentReplicas"]), (&json!(4), &json!(4)));
        assert_eq!(status["currentRevision"], status["updateRevision"]);
        assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], status["updateRevision"]);
        rig.api.change(&resource::STATEFUL_SETS, "default", "db", |set| set["spec"]["replicas"] = json!(1));
        rig.settle(300);
        assert_eq!(names(&rig), ["db-0"]);
    }
}

#[test]
fn a_pod_that_failed_comes_back_under_its_name() {
    let mut rig = Rig::new(ALL, 2, Faults::NONE);
    rig.create(&resource::STATEFUL_SETS, stateful_set(3, "OrderedReady"));
    rig.settle(60);
    let old = rig.object(&resource::PODS, "db-1")["metadata"]["uid"].clone();
    rig.api.change(&resource::PODS, "default", "db-1", |pod| pod["status"] = json!({"phase": "Failed"}));
    rig.settle(60);
    assert_eq!(names(&rig), ["db-0", "db-1", "db-2"]);
    assert_ne!(rig.object(&resource::PODS, "db-1")["metadata"]["uid"], old);
}

#[test]
fn updates_go_from_the_top_down_to_the_partition() {
    let mut rig = Rig::new(ALL, 3, Faults::MANY);
    rig.create(&resource::STATEFUL_SETS, stateful_set(4, "OrderedReady"));
    rig.settle(300);
    rig.check = one_at_a_time;
    rig.api.change(&resource::STATEFUL_SETS, "default", "db", |set| {
        set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(2);
    });
    set_image(&mut rig, "example.com/main:2");
    rig.settle(300);
    let (old, new) = ("example.com/main:1", "example.com/main:2");
    assert_eq!(images(&rig), [old, old, new, new]);
    let status = rig.object(&resource::STATEFUL_SETS, "db")["status"].clone();
    assert_eq!((&status["updatedReplicas"], &status["currentReplicas"]), (&json!(2), &json!(2)));
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    // Beneath the partition the old template comes back.
    rig.check = |_| {};
    rig.api.change(&resource::PODS, "default", "db-0", |pod| pod["status"] = json!({"phase": "Failed"}));
    rig.settle(300);
    assert_eq!(images(&rig), [old, old, new, new]);
    rig.api.change(&resource::STATEFUL_SETS, "default", "db", |set| {
        set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(0);
    });
    rig.settle(300);
    assert_eq!(images(&rig), [new; 4]);
    let status = &rig.object(&resource::STATEFUL_SETS, "db")["status"];
    assert_eq!(status["currentRevision"], status["updateRevision"]);
}

#[test]
fn a_pod_that_failed_does_not_end_an_update() {
    let mut rig = Rig::new(ALL, 3, Faults::NONE);
    rig.create(&resource::STATEFUL_SETS, stateful_set(2, "Parallel"));
    rig.settle(120);
    rig.api.change(&resource::STATEFUL_SETS, "default", "db", |set| {
        set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(1);
    });
    set_image(&mut rig, "example.com/main:2");
    rig.settle(120);
    // A finalizer holds it: for a while there is only one pod that counts, and that is new.
    rig.api.change(&resource::PODS, "default", "db-0", |pod| {
        pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
        pod["status"] = json!({"phase": "Failed"});
    });
    rig.settle(120);
    let status = &rig.object(&resource::STATEFUL_SETS, "db")["status"];
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    rig.api.change(&resource::PODS, "default", "db-0", |pod| pod["metadata"]["finalizers"] = json!([]));
    rig.settle(120);
    assert_eq!(images(&rig), ["example.com/main:1", "example.com/main:2"]);
}

#[test]
fn history_is_kept_and_cut() {
    let mut rig = Rig::new(ALL, 4, Faults::NONE);
    rig.create(&resource::STATEFUL_SETS, stateful_set(2, "Parallel"));
    for version in 1..6 {
        set_image(&mut rig, &format!("example.com/main:{version}"));
        rig.settle(120);
    }
    assert_eq!(rig.api.all(&resource::CONTROLLER_REVISIONS).count(), 2, "the current one and one of history");
    set_image(&mut rig, "example.com/main:4");
    rig.settle(120);
    assert_eq!(rig.api.all(&resource::CONTROLLER_REVISIONS).count(), 2, "an earlier template is found again");
    assert_eq!(images(&rig), ["example.com/main:4"; 2]);
}

#[test]
fn whatever_goes_wrong_the_places_are_filled() {
    for seed in 0..60 {
        let mut rig = Rig::new(ALL, seed, Faults::MANY);
        let policy = if rig.rng.percent(50) { "Parallel" } else { "OrderedReady" };
        let replicas = 1 + rig.rng.below(6);
        rig.create(&resource::STATEFUL_SETS, stateful_set(replicas, policy));
        rig.pass(4);
        rig.pods = Pods::Fail;
        rig.pass(1);
        rig.pods = Pods::Run;
        set_image(&mut rig, "example.com/main:2");
        if rig.rng.percent(30) {
            rig.restart(ALL);
        }
        rig.settle(900);
        let wanted: Vec<String> = (0..replicas).map(|number| format!("db-{number}")).collect();
        assert_eq!(names(&rig), wanted, "seed {seed}");
        assert!(images(&rig).iter().all(|image| image == "example.com/main:2"), "seed {seed}");
    }
}

fn with_claims(replicas: u64, policy: &str, retention: (&str, &str)) -> Value {
    let mut set = stateful_set(replicas, policy);
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data", "labels": {"own": "1"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}]);
    let (scaled, deleted) = retention;
    set["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenScaled": scaled, "whenDeleted": deleted});
    set["spec"]["template"]["spec"]["volumes"] =
        json!([{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]);
    set
}

fn claims(rig: &Rig) -> Vec<String> {
    rig.api
        .all(&resource::VOLUME_CLAIMS)
        .map(|claim| claim["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// No pod is there before its claim.
fn claims_first(rig: &Rig) {
    for pod in rig.api.all(&resource::PODS) {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let made = rig.api.get(&resource::VOLUME_CLAIMS, "default", &format!("data-{name}")).is_some();
        assert!(made || !pod["metadata"]["deletionTimestamp"].is_null(), "{name} has no claim");
    }
}

#[test]
fn each_pod_has_its_claim_which_outlives_it() {
    for (policy, faults) in [("OrderedReady", Faults::NONE), ("Parallel", Faults::MANY)] {
        let mut rig = Rig::new(ALL, 7, faults);
        rig.check = claims_first;
        rig.create(&resource::STATEFUL_SETS, with_claims(3, policy, ("Retain", "Retain")));
        rig.settle(300);
        assert_eq!(claims(&rig), ["data-db-0", "data-db-1", "data-db-2"], "{policy}");
        let claim = rig.object(&resource::VOLUME_CLAIMS, "data-db-1");
        assert_eq!(claim["metadata"]["labels"], json!({"app": "db", "own": "1"}));
        assert_eq!(claim["metadata"].get("ownerReferences"), None);
        let volumes = &rig.object(&resource::PODS, "db-1")["spec"]["volumes"];
        let own = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}});
        assert_eq!(*volumes, json!([own, {"name": "tmp", "emptyDir": {}}]));
        rig.api.change(&resource::STATEFUL_SETS, "default", "db", |set| set["spec"]["replicas"] = json!(1));
        rig.settle(120);
        assert_eq!((names(&rig).len(), claims(&rig).len()), (1, 3));
        rig.delete(&resource::STATEFUL_SETS, "db", lazaret_workloads::Propagation::Background);
        rig.settle(120);
        assert_eq!((names(&rig).len(), claims(&rig).len()), (0, 3));
    }
}

#[test]
fn claims_go_with_their_pod_or_with_the_set_if_the_set_says_so() {
    for (retention, scaled, deleted) in
        [(("Delete", "Retain"), 1, 1), (("Retain", "Delete"), 3, 0), (("Delete", "Delete"), 1, 0)]
    {
        let mut rig = Rig::new(ALL, 8, Faults::NONE);
        rig.create(&resource::STATEFUL_SETS, with_claims(3, "OrderedReady", retention));
        rig.settle(300);
        let made = rig.api.log.iter().filter(|entry| entry.resource == &resource::VOLUME_CLAIMS);
        let first = made.map(|entry| &entry.object["metadata"]["ownerReferences"]).next().unwrap();
        assert_eq!(first.is_array(), retention.1 == "Delete", "the owner is there from the beginning");
        rig.api.change(&resource::STATEFUL_SETS, "default", "db", |set| set["spec"]["replicas"] = json!(1));
        rig.settle(120);
        assert_eq!((names(&rig).len(), claims(&rig).len()), (1, scaled), "{retention:?}");
        rig.api.change(&resource::STATEFUL_SETS, "default", "db", |set| set["spec"]["replicas"] = json!(3));
        rig.settle(120);
        assert_eq!((names(&rig).len(), claims(&rig).len()), (3, 3), "{retention:?}");
        rig.delete(&resource::STATEFUL_SETS, "db", lazaret_workloads::Propagation::Background);
        rig.settle(120);
        let left = if deleted == 0 { 0 } else { 3 };
        assert_eq!((names(&rig).len(), claims(&rig).len()), (0, left), "{retention:?}");
    }
}

#[test]
fn a_claim_of_somebody_else_is_left_alone() {
    let mut rig = Rig::new(ALL, 9, Faults::NONE);
    let owner = json!({"apiVersion": "example.com/v1", "kind": "Backup", "name": "b", "uid": "b", "controller": true});
    rig.create(
        &resource::VOLUME_CLAIMS,
        json!({"metadata": {"name": "data-db-0", "namespace": "default", "ownerReferences": [owner]}}),
    );
    rig.create(&resource::STATEFUL_SETS, with_claims(1, "OrderedReady", ("Delete", "Delete")));
    rig.settle(120);
    assert_eq!(names(&rig), ["db-0"]);
    assert_eq!(
        rig.object(&resource::VOLUME_CLAIMS, "data-db-0")["metadata"]["ownerReferences"],
        json!([owner])
    );
}

#[test]
fn a_set_that_waits_for_its_pods_to_go_makes_no_revision() {
    let mut rig = Rig::new(ALL, 1, Faults::NONE);
    rig.create(&resource::STATEFUL_SETS, stateful_set(3, "Parallel"));
    rig.settle(60);
    let before = rig.api.log.len();
    rig.delete(&resource::STATEFUL_SETS, "db", Propagation::Foreground);
    rig.settle(300);
    let made = |logged: &&Logged| *logged.resource == resource::CONTROLLER_REVISIONS && !logged.removed;
    assert_eq!(rig.api.log[before..].iter().filter(made).count(), 0);
    assert_eq!(rig.object(&resource::STATEFUL_SETS, "db"), &Value::Null);
}
