//! Daemon sets against a model of the API server.

use std::collections::BTreeMap;

use lazaret_workloads::{resource, rules};
use serde_json::{Value, json};

use crate::support::{
    rig::{Faults, Pods, Rig},
    template,
};

const ALL: &[lazaret_workloads::Rules] = &[rules::DAEMON_SETS, rules::GARBAGE, rules::POD_GC];

fn daemon_set(rolling: &Value) -> Value {
    json!({
        "metadata": {"name": "gpu", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "gpu"}}, "template": template("gpu"), "revisionHistoryLimit": 1,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        },
    })
}

fn node(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"gpu": "yes"}}, "spec": {}})
}

fn with_nodes(seed: u64, faults: Faults, nodes: usize, set: &Value) -> Rig {
    let mut rig = Rig::new(ALL, seed, faults);
    for number in 0..nodes {
        rig.create(&resource::NODES, node(&format!("n{number}")));
    }
    rig.create(&resource::DAEMON_SETS, set.clone());
    rig
}

fn live(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null()
}

/// The node that a pod is for.
fn target(pod: &Value) -> String {
    let named = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        [0]["matchFields"][0]["values"][0];
    named.as_str().unwrap().to_owned()
}

fn pods_by_node(rig: &Rig) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for pod in rig.api.all(&resource::PODS).filter(|pod| live(pod)) {
        *counts.entry(target(pod)).or_default() += 1;
    }
    counts
}

fn one_each(nodes: &[&str]) -> BTreeMap<String, usize> {
    nodes.iter().map(|node| ((*node).to_owned(), 1)).collect()
}

fn images(rig: &Rig) -> Vec<&str> {
    rig.live_pods().iter().map(|pod| pod["spec"]["containers"][0]["image"].as_str().unwrap()).collect()
}

fn set_image(rig: &mut Rig, image: &str) {
    rig.api.change(&resource::DAEMON_SETS, "default", "gpu", |set| {
        set["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    });
}

fn never_two_on_a_node(rig: &Rig) {
    assert!(pods_by_node(rig).values().all(|count| *count < 2), "{:?}", pods_by_node(rig));
}

#[test]
fn each_node_has_one_pod_that_is_made_for_it() {
    for (seed, faults) in [(1, Faults::NONE), (2, Faults::MANY), (3, Faults::MANY)] {
        let mut rig = with_nodes(seed, faults, 3, &daemon_set(&json!({"maxUnavailable": 1})));
        rig.check = never_two_on_a_node;
        rig.settle(600);
        assert_eq!(pods_by_node(&rig), one_each(&["n0", "n1", "n2"]));
        let pods = rig.live_pods();
        let pod = pods.iter().find(|pod| target(pod) == "n1").unwrap();
        assert_eq!(pod["spec"]["nodeName"], "n1");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "DaemonSet");
        let revisions: Vec<&Value> = rig.api.all(&resource::CONTROLLER_REVISIONS).collect();
        let hash = &revisions[0]["metadata"]["labels"]["controller-revision-hash"];
        assert_eq!((revisions.len(), &pod["metadata"]["labels"]["controller-revision-hash"]), (1, hash));
        let status = &rig.object(&resource::DAEMON_SETS, "gpu")["status"];
        for field in [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "numberAvailable",
            "updatedNumberScheduled",
        ] {
            assert_eq!(status[field], 3, "{field} in {status}");
        }
        assert_eq!((&status["numberMisscheduled"], &status["numberUnavailable"]), (&json!(0), &Value::Null));
        rig.create(&resource::NODES, node("n3"));
        rig.delete(&resource::NODES, "n0", lazaret_workloads::Propagation::Background);
        rig.settle(600);
        assert_eq!(pods_by_node(&rig), one_each(&["n1", "n2", "n3"]));
    }
}

#[test]
fn taints_and_labels_of_nodes_are_followed() {
    let mut set = daemon_set(&json!({"maxUnavailable": 1}));
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"gpu": "yes"});
    let mut rig = with_nodes(4, Faults::MANY, 3, &set);
    rig.settle(600);
    rig.api.change(&resource::NODES, "", "n0", |node| node["metadata"]["labels"]["gpu"] = json!("no"));
    rig.api.change(&resource::NODES, "", "n1", |node| {
        node["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
    });
    rig.settle(600);
    assert_eq!(
        pods_by_node(&rig),
        one_each(&["n1", "n2"]),
        "what is there stays on a node that takes no new pods"
    );
    let status = &rig.object(&resource::DAEMON_SETS, "gpu")["status"];
    assert_eq!((&status["desiredNumberScheduled"], &status["numberMisscheduled"]), (&json!(1), &json!(1)));
    rig.api.change(&resource::NODES, "", "n1", |node| {
        node["spec"]["taints"] = json!([{"key": "k", "effect": "NoExecute"}]);
    });
    rig.settle(600);
    assert_eq!(pods_by_node(&rig), one_each(&["n2"]));
}

fn ready(pod: &Value) -> bool {
    live(pod) && pod["status"]["conditions"][0]["status"] == "True"
}

/// Of four nodes with a pod that works, at most one may be without.
fn at_most_one_down(rig: &Rig) {
    let ready = rig.api.all(&resource::PODS).filter(|pod| ready(pod)).count();
    assert!(ready >= 3, "only {ready} are ready");
    never_two_on_a_node(rig);
}

#[test]
fn an_update_replaces_pods_within_what_may_be_unavailable() {
    for (seed, faults) in [(5, Faults::NONE), (6, Faults::MANY), (7, Faults::MANY)] {
        let mut rig = with_nodes(seed, faults, 4, &daemon_set(&json!({"maxUnavailable": 1})));
        rig.settle(600);
        rig.check = at_most_one_down;
        for image in ["app:2", "app:3"] {
            set_image(&mut rig, image);
            rig.settle(3_000);
            assert_eq!(images(&rig), vec![image; 4]);
        }
        let names = rig.api.all(&resource::CONTROLLER_REVISIONS).count();
        assert_eq!(names, 2, "the template and one before it");
        // Back to an earlier template: its revision becomes the latest.
        set_image(&mut rig, "app:2");
        rig.settle(3_000);
        assert_eq!(images(&rig), vec!["app:2"; 4]);
        assert_eq!(rig.api.all(&resource::CONTROLLER_REVISIONS).count(), 2);
    }
}

/// Each node always has a pod that works, and never three.
fn all_up(rig: &Rig) {
    let mut up = BTreeMap::new();
    for pod in rig.api.all(&resource::PODS).filter(|pod| ready(pod)) {
        *up.entry(target(pod)).or_insert(0) += 1;
    }
    assert_eq!(up.len(), 4, "{up:?}");
    assert!(pods_by_node(rig).values().all(|count| *count < 3));
    let extra = pods_by_node(rig).values().filter(|count| **count == 2).count();
    assert!(extra <= 2, "{extra} nodes with two pods");
}

#[test]
fn an_update_with_surge_leaves_no_node_without_a_pod() {
    for (seed, faults) in [(8, Faults::NONE), (9, Faults::MANY)] {
        let set = daemon_set(&json!({"maxUnavailable": 0, "maxSurge": 2}));
        let mut rig = with_nodes(seed, faults, 4, &set);
        rig.settle(600);
        rig.check = all_up;
        set_image(&mut rig, "app:2");
        rig.settle(3_000);
        assert_eq!(
            (images(&rig), pods_by_node(&rig)),
            (vec!["app:2"; 4], one_each(&["n0", "n1", "n2", "n3"]))
        );
    }
}

#[test]
fn on_delete_waits_for_somebody_to_delete() {
    let mut set = daemon_set(&json!({}));
    set["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    let mut rig = with_nodes(10, Faults::NONE, 2, &set);
    rig.settle(600);
    set_image(&mut rig, "app:2");
    rig.settle(600);
    assert_eq!(images(&rig), ["example.com/main:1"; 2]);
    assert_eq!(rig.object(&resource::DAEMON_SETS, "gpu")["status"]["updatedNumberScheduled"], Value::Null);
    let name = rig.live_pods()[0]["metadata"]["name"].as_str().unwrap().to_owned();
    rig.delete(&resource::PODS, &name, lazaret_workloads::Propagation::Background);
    rig.settle(600);
    let mut images = images(&rig);
    images.sort_unstable();
    assert_eq!(images, ["app:2", "example.com/main:1"]);
}

#[test]
fn two_revisions_of_one_template_become_one_and_no_pod_is_replaced() {
    for (seed, faults) in [(30, Faults::NONE), (31, Faults::MANY), (32, Faults::MANY)] {
        let mut rig = with_nodes(seed, faults, 3, &daemon_set(&json!({"maxUnavailable": 1})));
        rig.settle(600);
        let uids = |rig: &Rig| -> Vec<Value> {
            rig.live_pods().iter().map(|pod| pod["metadata"]["uid"].clone()).collect()
        };
        let before = uids(&rig);
        let mut twin = rig.api.all(&resource::CONTROLLER_REVISIONS).next().unwrap().clone();
        let metadata = &mut twin["metadata"];
        metadata["name"] = json!("gpu-twin");
        metadata["labels"]["controller-revision-hash"] = json!("twin");
        metadata.as_object_mut().unwrap().remove("uid");
        twin["revision"] = json!(2);
        rig.create(&resource::CONTROLLER_REVISIONS, twin);
        rig.settle(600);
        assert_eq!(uids(&rig), before);
        for pod in rig.live_pods() {
            assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], "twin");
        }
        let left: Vec<&Value> = rig.api.all(&resource::CONTROLLER_REVISIONS).collect();
        assert_eq!((left.len(), &left[0]["metadata"]["name"]), (1, &json!("gpu-twin")));
        let status = &rig.object(&resource::DAEMON_SETS, "gpu")["status"];
        assert_eq!(status["updatedNumberScheduled"], 3);
    }
}

#[test]
fn a_revision_whose_name_is_taken_gets_another() {
    let set = daemon_set(&json!({"maxUnavailable": 1}));
    let mut rig = with_nodes(40, Faults::NONE, 1, &set);
    rig.settle(60);
    let taken = rig.api.all(&resource::CONTROLLER_REVISIONS).next().unwrap()["metadata"]["name"].clone();
    for (seed, faults) in [(41, Faults::NONE), (42, Faults::MANY)] {
        let mut rig = with_nodes(seed, faults, 1, &set);
        let other = json!({"spec": {"template": {"$patch": "replace"}}});
        rig.create(
            &resource::CONTROLLER_REVISIONS,
            json!({"metadata": {"name": taken, "namespace": "default"}, "data": other, "revision": 7}),
        );
        rig.settle(600);
        assert_eq!(rig.object(&resource::DAEMON_SETS, "gpu")["status"]["collisionCount"], 1);
        assert_eq!(rig.api.all(&resource::CONTROLLER_REVISIONS).count(), 2);
        let pods = rig.live_pods();
        let hash = pods[0]["metadata"]["labels"]["controller-revision-hash"].as_str().unwrap();
        assert!(pods.len() == 1 && taken != format!("gpu-{hash}"));
    }
}

/// How many pods have gone.
fn gone(rig: &Rig) -> usize {
    rig.api.log.iter().filter(|entry| entry.resource == &resource::PODS && entry.removed).count()
}

#[test]
fn a_pod_that_fails_is_replaced_at_once_and_one_that_fails_again_ever_later() {
    for rolling in [json!({"maxUnavailable": 1}), json!({"maxUnavailable": 0, "maxSurge": 1})] {
        let mut rig = with_nodes(11, Faults::NONE, 1, &daemon_set(&rolling));
        rig.pods = Pods::Fail;
        rig.pass(3);
        assert!(gone(&rig) >= 1, "the first failure is made good at once");
        let before = rig.writes;
        rig.pass(600);
        // After 1, 2, 4, … 256 seconds.
        assert!((8..=11).contains(&gone(&rig)), "{} pods in ten minutes, {rolling}", gone(&rig));
        assert!(rig.writes - before < 100, "{} writes", rig.writes - before);
        rig.restart(ALL);
        let before = gone(&rig);
        rig.pass(200);
        assert!(gone(&rig) <= before + 1, "a restart does not forget how often pods failed");
        rig.pods = Pods::Run;
        rig.settle(2_000);
        assert_eq!(rig.live_pods().len(), 1);
        let name = rig.live_pods()[0]["metadata"]["name"].as_str().unwrap().to_owned();
        rig.pass(1_900);
        let fail = |pod: &mut Value| pod["status"] = json!({"phase": "Failed"});
        rig.api.change(&resource::PODS, "default", &name, fail);
        rig.pass(5);
        let pods = rig.live_pods();
        assert_eq!(pods.len(), 1, "one that ran for half an hour is replaced at once");
        assert_eq!(pods[0]["metadata"]["annotations"]["lazaret.dev/failures-before"], "1");
    }
}

/// Whoever may write pods may write the count of failures: no number of failures makes the set wait longer than its longest pause, and what is no
/// count is none.
#[test]
fn a_forged_count_of_failures_holds_its_own_set_for_a_while() {
    for (seed, forged, at_most_secs) in [(50, "4294967295", 1_000), (51, "99999999999", 10), (52, "many", 10)]
    {
        let mut rig = with_nodes(seed, Faults::NONE, 1, &daemon_set(&json!({"maxUnavailable": 1})));
        rig.settle(60);
        let name = rig.live_pods()[0]["metadata"]["name"].as_str().unwrap().to_owned();
        let fail = |pod: &mut Value| {
            pod["metadata"]["annotations"]["lazaret.dev/failures-before"] = json!(forged);
            pod["status"] = json!({"phase": "Failed"});
        };
        rig.api.change(&resource::PODS, "default", &name, fail);
        rig.pass(at_most_secs);
        let pods = rig.live_pods();
        assert_eq!(pods.len(), 1, "{forged}");
        assert_ne!(pods[0]["metadata"]["name"], json!(name), "{forged}");
    }
}

#[test]
fn a_restart_in_an_update_loses_nothing() {
    for seed in 20..26 {
        let mut rig = with_nodes(seed, Faults::MANY, 4, &daemon_set(&json!({"maxUnavailable": 2})));
        rig.check = never_two_on_a_node;
        rig.settle(600);
        set_image(&mut rig, "app:2");
        for _ in 0..5 {
            rig.pass(2);
            rig.restart(ALL);
        }
        rig.settle(3_000);
        assert_eq!(
            (images(&rig), pods_by_node(&rig)),
            (vec!["app:2"; 4], one_each(&["n0", "n1", "n2", "n3"]))
        );
    }
}
