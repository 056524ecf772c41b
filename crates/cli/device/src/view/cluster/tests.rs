use lazaret_model::ObjectKey;
use serde_json::{Value, json};

use super::Cluster;

fn rule(name: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": name, "uid": "r"},
        "spec": {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}},
        "status": {"conditions": [{"type": "Drained", "status": "True"}]},
    })
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "n", "uid": "p", "labels": {"app": "a"}},
        "spec": {"nodeName": "x", "resourceClaims": [{"name": "c", "resourceClaimName": "c"}], "containers": []},
    })
}

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": "o"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn budget(name: &str, allowed: i64) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "n", "uid": "b"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}}, "status": {"disruptionsAllowed": allowed},
    })
}

fn cluster(objects: &[Value]) -> Cluster {
    let mut cluster = Cluster::default();
    objects.iter().for_each(|object| cluster.set(&object.to_string()));
    assert!(cluster.unreadable.is_empty(), "{:?}", cluster.unreadable);
    cluster
}

#[test]
fn objects_of_one_name_are_forgotten_each_alone() {
    let all = [rule("same"), pod("same"), node("same"), budget("same", 1)];
    for gone in &all {
        let mut cluster = cluster(&all);
        cluster.gone(&gone.to_string());
        let key = ObjectKey::new("n", "same");
        let there = [
            ("DeviceTaintRule", cluster.rules.contains_key("same")),
            ("DeviceTaintRule", cluster.drained.contains_key("same")),
            ("Pod", cluster.pods.contains_key(&key)),
            ("Node", cluster.nodes.contains_key("same")),
            ("PodDisruptionBudget", cluster.budgets.contains_key(&key)),
        ];
        for (kind, is_there) in there {
            assert_eq!(is_there, gone["kind"] != kind, "{kind} after a {} went", gone["kind"]);
        }
    }
}

#[test]
fn a_budget_counts_once_and_as_it_is_now() {
    let mut cluster = cluster(&[pod("p"), budget("b", 1), budget("b", 0)]);
    let key = ObjectKey::new("n", "p");
    assert_eq!(cluster.budgets_of(&key), [("b", 0)]);
    cluster.relist("PodDisruptionBudget", [budget("c", 2).to_string()].iter().map(String::as_str));
    assert_eq!(cluster.budgets_of(&key), [("c", 2)]);
}
