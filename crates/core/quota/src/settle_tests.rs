use alloc::{borrow::ToOwned, string::ToString, vec};

use super::*;

const NOW: Timestamp = Timestamp::from_secs(1_000);

fn quota(text: &str) -> Quota {
    Quota::read(text.as_bytes()).unwrap()
}

struct Seen {
    kind: Counted,
    facts: Facts,
    usage: Usage,
}

fn seen(group: &str, plural: &str, text: &str, classes: &Classes) -> Seen {
    let kind = Counted::of(group, plural).unwrap();
    let facts = Facts::read(&kind, text.as_bytes()).unwrap();
    let usage = Usage::of(&kind, &facts, classes, None);
    Seen { kind, facts, usage }
}

/// The outcome of a write: the usage of each quota, `-` where it stays, or the refusal.
fn outcome(
    quotas: &[Quota],
    old: Option<&Seen>,
    new: Option<&Seen>,
    subresource: &str,
    classes: &Classes,
) -> String {
    let side = |seen: Option<&Seen>| seen.map(|seen| (seen.facts.clone(), seen.usage.clone()));
    let (old_side, new_side) = (side(old), side(new));
    let change = Change {
        kind: &old.or(new).unwrap().kind,
        old: old_side.as_ref().map(|(facts, usage)| (facts, usage)),
        new: new_side.as_ref().map(|(facts, usage)| (facts, usage)),
        subresource,
    };
    match settle(NOW, quotas, &change, classes) {
        Ok(after) => {
            let text = |used: Option<Amounts>| used.map_or_else(|| "-".to_owned(), |used| used.to_string());
            after.into_iter().map(text).collect::<Vec<_>>().join(" ")
        }
        Err(why) => why,
    }
}

fn pod(resources: &str, more: &str) -> Seen {
    let text = format!(r#"{{"spec": {{"containers": [{{"name": "c", "resources": {resources}}}] {more}}}}}"#);
    seen("", "pods", &text, &Classes::default())
}

#[test]
fn a_new_pod_is_charged_refused_or_asked_for_more() {
    let none = Classes::default();
    let compute = quota(
        r#"{"metadata": {"name": "q"}, "spec": {}, "status": {"hard": {"requests.cpu": "2", "limits.memory": "1Gi", "pods": "3"},
            "used": {"requests.cpu": "1500m", "limits.memory": "0", "pods": "2"}}}"#,
    );
    let rows = [
        (
            r#"{"requests": {"cpu": "500m"}, "limits": {"memory": "512Mi"}}"#,
            "limits.memory=512Mi,pods=3,requests.cpu=2",
        ),
        (
            r#"{"requests": {"cpu": "501m"}, "limits": {"memory": "2Gi"}}"#,
            "exceeded quota: q, requested: limits.memory=2Gi,requests.cpu=501m, used: limits.memory=0,requests.cpu=1500m, limited: limits.memory=1Gi,requests.cpu=2",
        ),
        (r#"{"requests": {"cpu": "1m"}}"#, "failed quota: q: must specify limits.memory for: c"),
        ("{}", "failed quota: q: must specify limits.memory for: c; requests.cpu for: c"),
    ];
    for (resources, wanted) in rows {
        assert_eq!(
            outcome(core::slice::from_ref(&compute), None, Some(&pod(resources, "")), "", &none),
            wanted,
            "{resources}"
        );
    }
    let unknown = quota(
        r#"{"metadata": {"name": "q"}, "status": {"hard": {"pods": "3", "count/pods": "3"}, "used": {"pods": "2"}}}"#,
    );
    assert_eq!(
        outcome(&[unknown], None, Some(&pod("{}", "")), "", &none),
        "status unknown for quota: q, resources: count/pods,pods"
    );
    let new = quota(r#"{"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}"#);
    assert_eq!(
        outcome(&[new], None, Some(&pod("{}", "")), "", &none),
        "-",
        "nothing is enforced before it was counted"
    );
}

#[test]
fn scopes_say_which_pods_a_quota_is_about() {
    let none = Classes::default();
    let with = |scopes: &str| {
        quota(&format!(
            r#"{{"metadata": {{"name": "q"}}, "spec": {scopes}, "status": {{"hard": {{"pods": "1"}}, "used": {{"pods": "0"}}}}}}"#
        ))
    };
    let selector = |name: &str, operator: &str, values: &str| {
        format!(
            r#"{{"scopeSelector": {{"matchExpressions": [{{"scopeName": "{name}", "operator": "{operator}", "values": {values}}}]}}}}"#
        )
    };
    let plain = pod("{}", "");
    let deadline = pod("{}", r#", "activeDeadlineSeconds": 5"#);
    let sure = pod(r#"{"requests": {"cpu": "1"}}"#, "");
    let high = pod("{}", r#", "priorityClassName": "high""#);
    let across = pod(
        "{}",
        r#", "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {"namespaceSelector": {}}}]}}"#,
    );
    let rows = [
        (r#"{"scopes": ["Terminating"]}"#.to_owned(), vec![&deadline], vec![&plain]),
        (r#"{"scopes": ["NotTerminating"]}"#.to_owned(), vec![&plain], vec![&deadline]),
        (r#"{"scopes": ["BestEffort"]}"#.to_owned(), vec![&plain], vec![&sure]),
        (r#"{"scopes": ["NotBestEffort"]}"#.to_owned(), vec![&sure], vec![&plain]),
        (r#"{"scopes": ["BestEffort", "Terminating"]}"#.to_owned(), vec![&deadline], vec![&plain]),
        (selector("PriorityClass", "In", r#"["high"]"#), vec![&high], vec![&plain]),
        (selector("PriorityClass", "NotIn", r#"["high"]"#), vec![&plain], vec![&high]),
        (selector("PriorityClass", "Exists", "[]"), vec![&high], vec![&plain]),
        (selector("PriorityClass", "DoesNotExist", "[]"), vec![&plain], vec![&high]),
        (selector("CrossNamespacePodAffinity", "Exists", "[]"), vec![&across], vec![&plain]),
    ];
    for (scopes, about, not_about) in rows {
        for pod in about {
            assert_eq!(outcome(&[with(&scopes)], None, Some(pod), "", &none), "pods=1", "{scopes}");
        }
        for pod in not_about {
            assert_eq!(outcome(&[with(&scopes)], None, Some(pod), "", &none), "-", "{scopes}");
        }
    }
}

#[test]
fn changes_are_charged_by_the_difference_and_what_goes_is_given_back() {
    let none = Classes::default();
    let ports = quota(
        r#"{"metadata": {"name": "q"}, "status": {"hard": {"services": "1", "services.nodeports": "2", "services.loadbalancers": "0"},
            "used": {"services": "1", "services.nodeports": "0", "services.loadbalancers": "0"}}}"#,
    );
    let service = |text: &str| seen("", "services", &format!(r#"{{"spec": {text}}}"#), &none);
    let inside = service(r#"{"type": "ClusterIP", "ports": [{"port": 1}, {"port": 2}]}"#);
    let outside = service(r#"{"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]}"#);
    let balanced = service(
        r#"{"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 1}]}"#,
    );
    let all = core::slice::from_ref(&ports);
    assert_eq!(
        outcome(all, Some(&inside), Some(&outside), "", &none),
        "services=1,services.loadbalancers=0,services.nodeports=2"
    );
    assert_eq!(
        outcome(all, Some(&inside), Some(&balanced), "", &none),
        "exceeded quota: q, requested: services.loadbalancers=1, used: services.loadbalancers=0, limited: services.loadbalancers=0"
    );
    assert_eq!(
        outcome(all, Some(&inside), None, "", &none),
        "services=0,services.loadbalancers=0,services.nodeports=0"
    );
    assert_eq!(
        outcome(all, None, Some(&inside), "", &none),
        "exceeded quota: q, requested: services=1, used: services=1, limited: services=1"
    );

    let storage = quota(
        r#"{"metadata": {"name": "q"}, "status": {"hard": {"requests.storage": "10Gi", "fast.storageclass.storage.k8s.io/requests.storage": "3Gi"},
            "used": {"requests.storage": "1Gi", "fast.storageclass.storage.k8s.io/requests.storage": "1Gi"}}}"#,
    );
    let claim = |size: &str, status: &str| {
        let text = format!(
            r#"{{"spec": {{"storageClassName": "fast", "resources": {{"requests": {{"storage": "{size}"}}}}}}, "status": {status}}}"#
        );
        seen("", "persistentvolumeclaims", &text, &none)
    };
    let all = core::slice::from_ref(&storage);
    assert_eq!(
        outcome(all, Some(&claim("1Gi", "{}")), Some(&claim("2Gi", "{}")), "", &none),
        "fast.storageclass.storage.k8s.io/requests.storage=2Gi,requests.storage=2Gi"
    );
    let grown = claim("1Gi", r#"{"allocatedResources": {"storage": "20Gi"}}"#);
    assert_eq!(
        outcome(all, Some(&claim("1Gi", "{}")), Some(&grown), "status", &none),
        "fast.storageclass.storage.k8s.io/requests.storage=20Gi,requests.storage=20Gi",
        "what a volume has already is charged and not refused"
    );
}

#[test]
fn a_pod_that_ended_counts_by_its_number_alone() {
    let none = Classes::default();
    let both = quota(
        r#"{"metadata": {"name": "q"}, "status": {"hard": {"pods": "1", "count/pods": "1", "cpu": "1"}, "used": {"pods": "1", "count/pods": "1", "cpu": "1"}}}"#,
    );
    let running = pod(r#"{"requests": {"cpu": "1"}}"#, "");
    let text = r#"{"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}, "status": {"phase": "Succeeded"}}"#;
    let ended = seen("", "pods", text, &none);
    assert_eq!(
        outcome(core::slice::from_ref(&both), Some(&running), Some(&ended), "status", &none),
        "count/pods=1,cpu=0,pods=0"
    );
    assert_eq!(outcome(&[both], Some(&ended), None, "", &none), "count/pods=0,cpu=1,pods=1");
}

#[test]
fn claims_are_charged_for_the_devices_of_each_class_that_they_may_get() {
    let mut classes = Classes::default();
    classes.add("gpu", Some("example.com/gpu"));
    let devices = quota(
        r#"{"metadata": {"name": "q"}, "status": {
            "hard": {"gpu.deviceclass.resource.k8s.io/devices": "40", "nic.deviceclass.resource.k8s.io/devices": "4", "requests.example.com/gpu": "40", "count/resourceclaims.resource.k8s.io": "9"},
            "used": {"gpu.deviceclass.resource.k8s.io/devices": "0", "nic.deviceclass.resource.k8s.io/devices": "0", "requests.example.com/gpu": "1", "count/resourceclaims.resource.k8s.io": "0"}}}"#,
    );
    let text = r#"{"spec": {"devices": {"requests": [
        {"name": "a", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}},
        {"name": "b", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
        {"name": "c", "firstAvailable": [{"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}, {"deviceClassName": "nic", "allocationMode": "ExactCount", "count": 4},
            {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 3}]}]}}}"#;
    let claim = seen("resource.k8s.io", "resourceclaims", text, &classes);
    assert_eq!(
        outcome(&[devices], None, Some(&claim), "", &classes),
        "count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=37,nic.deviceclass.resource.k8s.io/devices=4,requests.example.com/gpu=38"
    );
}

#[test]
fn init_containers_and_overhead_count_as_the_scheduler_counts_them() {
    let text = r#"{"spec": {"overhead": {"cpu": "10m"}, "containers": [{"name": "a", "resources": {"requests": {"cpu": "1", "example.com/gpu": "1", "hugepages-2Mi": "4Mi"}}}],
        "initContainers": [{"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "200m"}}}, {"name": "i", "resources": {"requests": {"cpu": "1500m"}}}]}}"#;
    let pod = seen("", "pods", text, &Classes::default());
    let used = pod.usage.at(NOW);
    assert_eq!(used.get("requests.cpu").unwrap().to_string(), "1710m");
    assert_eq!(used.get("requests.example.com/gpu").unwrap().to_string(), "1");
    assert_eq!(used.get("requests.hugepages-2Mi").unwrap().to_string(), "4Mi");
    assert_eq!(used.get("hugepages-2Mi").unwrap().to_string(), "4Mi");
    assert!(used.get("example.com/gpu").is_none());
}
