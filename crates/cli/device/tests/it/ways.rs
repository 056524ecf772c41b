//! Every way in which an installation can be wrong, one change each to one that is well: the check names it, and says what mends it.

use std::collections::BTreeSet;

use lazaret_device::view::{Check, CheckState, Installation, Webhook, installation};
use lazaret_model::Timestamp;
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T12:00:00Z";
/// The required number of ways that are distinguished.
const WAYS_MIN: usize = 20;

fn now() -> Timestamp {
    lazaret_api::parse_time(NOW).unwrap()
}

fn labels(component: &str) -> Value {
    json!({"app.kubernetes.io/name": "lazaret", "app.kubernetes.io/component": component, "app.kubernetes.io/version": "1.0.0"})
}

fn definition() -> Value {
    json!({
        "metadata": {"name": "a.lazaret.dev", "annotations": {"lazaret.dev/schema": "1"}},
        "spec": {"versions": [{"name": "v1", "served": true}]},
        "status": {"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": "True"}]},
    })
}

fn deployment(namespace: &str) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": "lazaret-controllers", "labels": labels("controllers")},
        "spec": {"replicas": 2},
        "status": {"readyReplicas": 2, "conditions": [{"type": "Available", "status": "True"}]},
    })
}

fn lease(namespace: &str, renewed: &str) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": "lazaret-controllers"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 1, "renewTime": renewed},
    })
}

/// An eviction by Lazaret, which names itself as the instance too, or by Kubernetes.
fn eviction(instance: &str, time: &str) -> Value {
    json!({
        "reason": "DeviceTaintManagerEviction", "reportingComponent": "device-taint-eviction",
        "reportingInstance": instance, "lastTimestamp": time,
    })
}

/// Everything is as it should be.
fn well() -> Installation {
    let admission = (
        vec![json!({"metadata": {"name": "rule-selects"}})],
        vec![json!({"spec": {"policyName": "rule-selects"}})],
    );
    let webhook =
        Webhook { name: "hook".into(), is_trusted: true, has_endpoints: Some(true), answers: Some(true) };
    Installation {
        minor: 37,
        program: "1.0.0",
        wanted: vec![("a.lazaret.dev".into(), "1".into())],
        definitions: Some(vec![definition()]),
        deployments: Some(vec![deployment("one")]),
        daemon_sets: Some(vec![json!({
            "metadata": {"namespace": "one", "name": "driver"},
            "status": {"numberReady": 3, "desiredNumberScheduled": 3},
        })]),
        pods: Some(Vec::new()),
        waiting: Some(Vec::new()),
        admission: Some(admission),
        webhooks: Some(vec![webhook]),
        roles_missing: Some(Vec::new()),
        refused: Some(Vec::new()),
        leases: Some(vec![lease("one", NOW)]),
        policies: Some(vec![json!({"metadata": {"name": "p"}})]),
        events: Some(vec![eviction("device-taint-eviction", NOW)]),
        server_time: Some(now()),
    }
}

/// A policy whose condition says that less is done than it asks for.
fn policy(kind: &str, status: &str) -> Option<Vec<Value>> {
    let condition = json!({"type": kind, "status": status, "message": "why"});
    Some(vec![json!({"metadata": {"name": "p"}, "status": {"conditions": [condition]}})])
}

fn first(values: &mut Option<Vec<Value>>) -> &mut Value {
    &mut values.as_mut().unwrap()[0]
}

/// A change, and the finding: state, and a part of the detail.
type Way = (fn(&mut Installation), CheckState, &'static str);

const WAYS: &[Way] = &[
    (|facts| facts.minor = 33, CheckState::Failed, "1.33"),
    (|facts| facts.minor = 38, CheckState::Warning, "1.38"),
    (|facts| facts.definitions = Some(Vec::new()), CheckState::Warning, "(missing)"),
    (
        |facts| first(&mut facts.definitions)["metadata"]["deletionTimestamp"] = NOW.into(),
        CheckState::Failed,
        "(being deleted)",
    ),
    (
        |facts| first(&mut facts.definitions)["status"]["conditions"] = json!([]),
        CheckState::Failed,
        "(not established)",
    ),
    (
        |facts| {
            first(&mut facts.definitions)["metadata"]["annotations"]["lazaret.dev/schema"] = "0".into();
        },
        CheckState::Warning,
        "(of another version of Lazaret)",
    ),
    (
        |facts| first(&mut facts.definitions)["status"]["storedVersions"] = json!(["v0", "v1"]),
        CheckState::Failed,
        "(holds objects in a version that is not served)",
    ),
    (
        |facts| {
            // The lease is as new as the server's clock.
            facts.server_time = Some(now().plus_millis(-7_000));
            *first(&mut facts.leases) = lease("one", "2026-01-01T11:59:53Z");
        },
        CheckState::Warning,
        "this machine is 7s ahead of the server",
    ),
    (
        |facts| *first(&mut facts.leases) = lease("one", "2026-01-01T12:00:09Z"),
        CheckState::Warning,
        "the holder of lease one/lazaret-controllers is 9s ahead of the server",
    ),
    (
        |facts| first(&mut facts.deployments)["status"] = json!({"readyReplicas": 1}),
        CheckState::Failed,
        "(1 of 2 ready)",
    ),
    (
        |facts| {
            first(&mut facts.deployments)["metadata"]["labels"]["app.kubernetes.io/version"] = "0.9.0".into();
        },
        CheckState::Warning,
        "(0.9.0)",
    ),
    (
        |facts| facts.deployments.as_mut().unwrap().push(deployment("two")),
        CheckState::Failed,
        "two/lazaret-controllers",
    ),
    (
        |facts| first(&mut facts.deployments)["spec"]["replicas"] = 1.into(),
        CheckState::Warning,
        "one/lazaret-controllers",
    ),
    (
        |facts| facts.refused = Some(vec![("one/a".into(), "watch pods".into())]),
        CheckState::Failed,
        "one/a may not watch pods",
    ),
    (
        |facts| facts.roles_missing = Some(vec!["kubectl-device-read"]),
        CheckState::Warning,
        "kubectl-device-read",
    ),
    (
        |facts| facts.leases.as_mut().unwrap().push(lease("two", NOW)),
        CheckState::Failed,
        "two/lazaret-controllers",
    ),
    (
        |facts| *first(&mut facts.leases) = lease("one", "2026-01-01T11:00:00Z"),
        CheckState::Warning,
        "last renewed 3600s ago",
    ),
    (
        |facts| first(&mut facts.daemon_sets)["status"]["numberReady"] = 1.into(),
        CheckState::Failed,
        "one/driver (1 of 3 nodes)",
    ),
    (
        |facts| facts.waiting = Some(vec![json!({"metadata": {"namespace": "a", "name": "b"}})]),
        CheckState::Failed,
        "a/b",
    ),
    (|facts| facts.admission.as_mut().unwrap().1.clear(), CheckState::Warning, "rule-selects"),
    (|facts| facts.policies = policy("Degraded", "True"), CheckState::Warning, "p (why)"),
    (|facts| facts.policies = policy("Compiled", "False"), CheckState::Warning, "p (why)"),
    (|facts| facts.policies = policy("Accepted", "False"), CheckState::Warning, "p (why)"),
    (|facts| facts.policies = policy("AttributesApplied", "False"), CheckState::Warning, "p (why)"),
    (
        |facts| {
            let hook = &mut facts.webhooks.as_mut().unwrap()[0];
            (hook.answers, hook.is_trusted) = (Some(false), false);
        },
        CheckState::Failed,
        "(it has no caBundle)",
    ),
    (
        |facts| {
            let hook = &mut facts.webhooks.as_mut().unwrap()[0];
            (hook.answers, hook.has_endpoints) = (Some(false), Some(false));
        },
        CheckState::Failed,
        "(no pod of its Service is ready)",
    ),
    (
        |facts| facts.webhooks.as_mut().unwrap()[0].answers = Some(false),
        CheckState::Failed,
        "(the API server gets no answer)",
    ),
    (
        |facts| facts.events.as_mut().unwrap().push(eviction("kube-controller-manager", NOW)),
        CheckState::Warning,
        "Lazaret evicted pods (1) and so did Kubernetes' controller manager (1)",
    ),
];

fn wrong(facts: &Installation) -> Vec<Check> {
    let is_wrong = |check: &Check| matches!(check.state, CheckState::Warning | CheckState::Failed);
    installation(facts, now()).into_iter().filter(is_wrong).collect()
}

#[test]
fn each_way_in_which_an_installation_is_wrong_is_found_alone_and_with_its_mend() {
    assert_eq!(wrong(&well()), Vec::new());
    let mut told = BTreeSet::new();
    for (break_it, state, detail) in WAYS {
        let mut facts = well();
        break_it(&mut facts);
        let found = wrong(&facts);
        let [one] = found.as_slice() else { panic!("{detail}: {found:?}") };
        assert_eq!((one.state, one.detail.contains(detail)), (*state, true), "{detail}: {one:?}");
        assert!(!one.hint.is_empty(), "no mend: {one:?}");
        told.insert(format!("{}: {}", one.name, one.detail));
    }
    assert!(told.len() >= WAYS_MIN, "{} ways: {told:#?}", told.len());
}
