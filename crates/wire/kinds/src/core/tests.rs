use lazaret_json::{Value, json};

use crate::testing::{NOW, World, kind, set};

fn pods() -> &'static crate::Kind {
    kind("", "pods")
}

fn pod() -> Value {
    json!({
        "metadata": {"name": "p", "namespace": "default", "creationTimestamp": "2026-03-01T11:00:00Z"},
        "spec": {
            "containers": [{"name": "c", "image": "example.com/i:1", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
        },
    })
}

fn wrong(object: Value) -> Vec<String> {
    World::new().create(pods(), object).wrong()
}

const CONTAINER: &str = "/spec/containers/0";

/// Pods that are wrong, and the fields that Kubernetes 1.37 blames. The same complaint twice is one.
#[test]
fn a_bad_pod_is_refused_where_kubernetes_refuses_it() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("pod_validation/cases.json")).unwrap();
    assert!(cases.len() > 140);
    let mut failed = Vec::new();
    for case in cases {
        let metadata = json!({"name": "p", "namespace": "default", "labels": {"a": "b"}});
        let mut found = wrong(json!({"metadata": metadata, "spec": case["spec"]}));
        found.dedup();
        if json!(found) != case["wrong"] {
            failed.push(format!("{}: found {found:#?}, not {:#}", case["case"], case["wrong"]));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn a_new_pod_gets_what_it_does_not_say() {
    let limited =
        set(&pod(), "/spec/containers/0/resources/limits", json!({"cpu": "1000m", "memory": "1024Mi"}));
    let created = World::new().create(pods(), limited).ok();
    let spec = &created["spec"];
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("securityContext", json!({})),
        ("enableServiceLinks", json!(true)),
        ("priority", json!(0)),
        ("preemptionPolicy", json!("PreemptLowerPriority")),
    ] {
        assert_eq!(spec[field], value, "{field}");
    }
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "IfNotPresent");
    assert_eq!(spec["containers"][0]["resources"]["requests"], json!({"cpu": "1", "memory": "1Gi"}));
    assert_eq!(
        spec["tolerations"],
        json!([
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        ])
    );
    assert_eq!(created["status"], json!({"phase": "Pending", "qosClass": "Guaranteed"}));
    let all = set(&pod(), "/spec/tolerations", json!([{"operator": "Exists"}]));
    assert_eq!(World::new().create(pods(), all).ok()["spec"]["tolerations"], json!([{"operator": "Exists"}]));
    let again = World::new().update(pods(), &created, created.clone()).ok();
    assert_eq!(again, created, "defaults are idempotent");
}

#[test]
fn images_say_when_to_pull() {
    for (image, policy) in [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("host:5000/a", "Always"),
        ("a:1", "IfNotPresent"),
        ("host:5000/a:1", "IfNotPresent"),
        ("a@sha256:0", "IfNotPresent"),
    ] {
        let created = World::new().create(pods(), set(&pod(), "/spec/containers/0/image", json!(image))).ok();
        assert_eq!(created["spec"]["containers"][0]["imagePullPolicy"], policy, "{image}");
    }
}

#[test]
fn quality_of_service() {
    let quality = |resources: Value| {
        let created =
            World::new().create(pods(), set(&pod(), "/spec/containers/0/resources", resources)).ok();
        created["status"]["qosClass"].as_str().unwrap().to_owned()
    };
    assert_eq!(quality(json!({})), "BestEffort");
    assert_eq!(quality(json!({"limits": {"example.com/gpu": "1"}})), "BestEffort");
    assert_eq!(quality(json!({"requests": {"cpu": "1"}})), "Burstable");
    assert_eq!(quality(json!({"limits": {"cpu": "1", "memory": "1"}})), "Guaranteed");
    assert_eq!(
        quality(json!({"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "500m"}})),
        "Burstable"
    );
}

#[test]
fn priorities_come_from_classes() {
    let mut world = World::new();
    let class = json!({"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"});
    world.others.push(("priorityclasses", "high", class));
    let of = |name: &str| set(&pod(), "/spec/priorityClassName", json!(name));
    let created = world.create(pods(), of("high")).ok();
    assert_eq!(
        (&created["spec"]["priority"], &created["spec"]["preemptionPolicy"]),
        (&json!(7), &json!("Never"))
    );
    let system = world.create(pods(), of("system-node-critical")).ok();
    assert_eq!(system["spec"]["priority"], 2_000_001_000);
    assert_eq!(world.create(pods(), of("gone")).wrong(), ["spec.priorityClassName Forbidden"]);
    assert_eq!(
        world.create(pods(), set(&of("high"), "/spec/priority", json!(8))).wrong(),
        ["spec.priority Forbidden"]
    );
}

#[test]
fn pod_claims() {
    assert!(wrong(pod()).is_empty());
    let at = "spec.resourceClaims";
    for (claims, expected) in [
        (json!([{"name": "", "resourceClaimName": "c"}]), vec![format!("{at}[0].name Required")]),
        (json!([{"name": "A", "resourceClaimName": "c"}]), vec![format!("{at}[0].name Invalid")]),
        (json!([{"name": "gpu"}]), vec![format!("{at}[0] Invalid")]),
        (
            json!([{"name": "gpu", "resourceClaimName": "c", "resourceClaimTemplateName": "t"}]),
            vec![format!("{at}[0] Invalid")],
        ),
        (
            json!([{"name": "gpu", "resourceClaimName": "!"}]),
            vec![format!("{at}[0].resourceClaimName Invalid")],
        ),
        (
            json!([{"name": "gpu", "resourceClaimName": "a"}, {"name": "gpu", "resourceClaimName": "b"}]),
            vec![format!("{at}[1].name Duplicate")],
        ),
    ] {
        let object =
            set(&set(&pod(), "/spec/resourceClaims", claims), &format!("{CONTAINER}/resources"), json!({}));
        assert_eq!(wrong(object), expected);
    }
    let at = "spec.containers[0].resources.claims";
    for (references, expected) in [
        (json!([{"name": "gpu", "request": "a"}, {"name": "gpu", "request": "b"}]), vec![]),
        (json!([{"name": "other"}]), vec![format!("{at}[0] NotFound")]),
        (json!([{"name": ""}]), vec![format!("{at}[0] Required")]),
        (json!([{"name": "gpu"}, {"name": "gpu", "request": "a"}]), vec![format!("{at}[1] Duplicate")]),
        (json!([{"name": "gpu", "request": "a"}, {"name": "gpu"}]), vec![format!("{at}[1] Duplicate")]),
        (
            json!([{"name": "gpu", "request": "a"}, {"name": "gpu", "request": "a"}]),
            vec![format!("{at}[1] Duplicate")],
        ),
        (json!([{"name": "gpu", "request": "A"}]), vec![format!("{at}[0].request Invalid")]),
    ] {
        assert_eq!(wrong(set(&pod(), &format!("{CONTAINER}/resources/claims"), references)), expected);
    }
    let mirror = set(&pod(), "/metadata/annotations", json!({"kubernetes.io/config.mirror": "x"}));
    assert_eq!(wrong(mirror), [" Forbidden"]);
}

#[test]
fn pod_validation() {
    let at = "spec.containers[0]";
    for (pointer, value, expected) in [
        ("/spec/containers", json!([]), vec!["spec.containers Required".to_owned()]),
        ("/spec/containers/0/name", json!(""), vec![format!("{at}.name Required")]),
        ("/spec/containers/0/name", json!("A"), vec![format!("{at}.name Invalid")]),
        ("/spec/containers/0/image", json!(""), vec![format!("{at}.image Required")]),
        ("/spec/containers/0/image", json!(" a"), vec![format!("{at}.image Invalid")]),
        (
            "/spec/containers/0/imagePullPolicy",
            json!("x"),
            vec![format!("{at}.imagePullPolicy NotSupported")],
        ),
        (
            "/spec/containers/0/ports",
            json!([{"containerPort": 0}]),
            vec![format!("{at}.ports[0].containerPort Required")],
        ),
        (
            "/spec/containers/0/volumeMounts",
            json!([{"name": "v", "mountPath": "/v"}]),
            vec![format!("{at}.volumeMounts[0].name NotFound")],
        ),
        (
            "/spec/containers/0/resources/limits",
            json!({"cpu": "-1"}),
            vec![
                format!("{at}.resources.limits[cpu] Invalid"),
                format!("{at}.resources.requests[cpu] Invalid"),
            ],
        ),
        ("/spec/restartPolicy", json!("x"), vec!["spec.restartPolicy NotSupported".to_owned()]),
        ("/spec/activeDeadlineSeconds", json!(0), vec!["spec.activeDeadlineSeconds Invalid".to_owned()]),
        ("/spec/nodeSelector", json!({"a b": ""}), vec!["spec.nodeSelector Invalid".to_owned()]),
        (
            "/spec/tolerations",
            json!([{"key": "k", "effect": "x"}]),
            vec!["spec.tolerations[0].effect NotSupported".to_owned()],
        ),
        (
            "/spec/tolerations",
            json!([{"key": "k", "tolerationSeconds": 1}]),
            vec!["spec.tolerations[0].effect Invalid".to_owned()],
        ),
        (
            "/spec/initContainers",
            json!([{"name": "c", "image": "i"}]),
            vec!["spec.initContainers[0].name Duplicate".to_owned()],
        ),
    ] {
        assert_eq!(wrong(set(&pod(), pointer, value)), expected, "{pointer}");
    }
    let gated = set(&pod(), "/spec/schedulingGates", json!([{"name": "example.com/g"}]));
    let created = World::new().create(pods(), gated.clone()).ok();
    assert_eq!(created["status"]["conditions"][0]["reason"], "SchedulingGated");
    assert_eq!(wrong(set(&gated, "/spec/nodeName", json!("n"))), ["spec.nodeName Forbidden"]);
}

#[test]
fn little_of_a_pod_may_change() {
    let old = World::new().create(pods(), pod()).ok();
    let update = |old: &Value, pointer: &str, value: Value| {
        World::new().update(pods(), old, set(old, pointer, value)).wrong()
    };
    assert!(update(&old, "/spec/containers/0/image", json!("other:2")).is_empty());
    assert!(update(&old, "/spec/activeDeadlineSeconds", json!(10)).is_empty());
    assert!(update(&old, "/spec/tolerations/0/tolerationSeconds", json!(5)).is_empty());
    assert_eq!(update(&old, "/spec/nodeName", json!("n")), ["spec Forbidden"]);
    assert_eq!(update(&old, "/spec/containers/0/name", json!("d")), ["spec Forbidden"]);
    assert_eq!(
        update(&old, "/spec/schedulingGates", json!([{"name": "g"}])),
        ["spec.schedulingGates[0].name Forbidden"]
    );
    assert_eq!(
        update(&old, "/spec/containers", json!([])),
        ["spec.containers Forbidden", "spec.containers Required"]
    );
    let bounded = set(&old, "/spec/activeDeadlineSeconds", json!(10));
    assert_eq!(
        update(&bounded, "/spec/activeDeadlineSeconds", json!(11)),
        ["spec.activeDeadlineSeconds Invalid"]
    );
    assert_eq!(
        update(&bounded, "/spec/activeDeadlineSeconds", Value::Null),
        ["spec.activeDeadlineSeconds Invalid"]
    );
    let mut more = old.clone();
    more["spec"]["tolerations"].as_array_mut().unwrap().push(json!({"key": "k", "operator": "Exists"}));
    assert!(World::new().update(pods(), &old, more.clone()).wrong().is_empty());
    assert_eq!(World::new().update(pods(), &more, old.clone()).wrong(), ["spec.tolerations Forbidden"]);
    let gated = set(&old, "/spec/schedulingGates", json!([{"name": "g"}]));
    assert!(update(&gated, "/spec/schedulingGates", json!([])).is_empty());
    assert!(update(&gated, "/spec/nodeSelector", json!({"a": "b"})).is_empty());
    let mut plain = pod();
    plain["spec"]["tolerations"] = json!([]);
    assert!(
        World::new().update(pods(), &old, plain).wrong().is_empty(),
        "what the server added need not be sent"
    );
}

#[test]
fn pod_status() {
    let mut old = World::new().create(pods(), pod()).ok();
    old["status"]["resourceClaimStatuses"] = json!([{"name": "gpu", "resourceClaimName": "p-gpu"}]);
    old["metadata"]["ownerReferences"] = json!([{"name": "o"}]);
    let status = |new: Value| World::new().status(pods(), &old, new);
    let new = json!({"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {}, "status": {"phase": "Running", "podIP": "10.0.0.1"}});
    let written = status(new).ok();
    assert_eq!(written["spec"], old["spec"]);
    assert_eq!(written["metadata"]["labels"], json!({"a": "b"}), "labels may change");
    assert_eq!(written["metadata"]["ownerReferences"], old["metadata"]["ownerReferences"]);
    assert_eq!(written["status"]["qosClass"], "BestEffort");
    assert_eq!(written["status"]["podIPs"], json!([{"ip": "10.0.0.1"}]));
    assert_eq!(written["status"]["resourceClaimStatuses"], old["status"]["resourceClaimStatuses"], "kept");
    let cleared = status(set(&old, "/status/resourceClaimStatuses", json!([]))).ok();
    assert_eq!(cleared["status"]["resourceClaimStatuses"], json!([]), "cleared on purpose");
    let unknown = set(&old, "/status/resourceClaimStatuses", json!([{"name": "other"}]));
    assert_eq!(status(unknown).wrong(), ["status.resourceClaimStatuses[0].name Invalid"]);
    let other = set(&old, "/status/qosClass", json!("Guaranteed"));
    assert_eq!(status(other).wrong(), ["status.qosClass Invalid"]);
    let extended = json!({"resourceClaimName": "x", "requestMappings": [{"containerName": "nope", "resourceName": "r", "requestName": "q"}]});
    assert_eq!(
        status(set(&old, "/status/extendedResourceClaimStatus", extended)).wrong(),
        ["status.extendedResourceClaimStatus.requestMappings[0].containerName NotFound"]
    );
}

#[test]
fn pod_rows() {
    let row = |status: Value| {
        let row = World::new().row(pods(), &set(&pod(), "/status", status));
        row[..3].join(" ")
    };
    let running = json!({"name": "c", "ready": true, "restartCount": 2, "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": "2026-03-01T11:58:00Z"}}});
    assert_eq!(row(json!({"phase": "Pending"})), "Ready=0/1 Status=Pending Restarts=0");
    assert_eq!(
        row(json!({"phase": "Running", "containerStatuses": [running]})),
        "Ready=1/1 Status=Running Restarts=2 (2m ago)"
    );
    let waiting = json!({"name": "c", "state": {"waiting": {"reason": "ErrImagePull"}}});
    assert_eq!(
        row(json!({"phase": "Pending", "containerStatuses": [waiting]})),
        "Ready=0/1 Status=ErrImagePull Restarts=0"
    );
    let failed = json!({"name": "c", "state": {"terminated": {"exitCode": 3}}});
    assert_eq!(
        row(json!({"phase": "Failed", "containerStatuses": [failed]})),
        "Ready=0/1 Status=ExitCode:3 Restarts=0"
    );
    let init = json!({"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}});
    assert_eq!(
        row(json!({"phase": "Pending", "initContainerStatuses": [init]})),
        "Ready=0/1 Status=Init:0/0 Restarts=0"
    );
    let gated =
        json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]});
    assert_eq!(row(gated), "Ready=0/1 Status=SchedulingGated Restarts=0");
    let mut deleting = set(&pod(), "/status", json!({"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]}));
    deleting["metadata"]["deletionTimestamp"] = json!(NOW);
    deleting["spec"]["nodeName"] = json!("n");
    assert_eq!(
        World::new().row(pods(), &deleting),
        [
            "Ready=0/1",
            "Status=Terminating",
            "Restarts=0",
            "Age=60m",
            "IP=10.0.0.1",
            "Node=n",
            "Nominated Node=<none>",
            "Readiness Gates=<none>"
        ]
    );
}

#[test]
fn pods_are_selected_by_their_fields() {
    let object = json!({"spec": {"nodeName": "n", "hostNetwork": true}, "status": {"phase": "Failed", "podIPs": [{"ip": "a"}, {"ip": "b"}]}});
    for (field, value) in [
        ("spec.nodeName", "n"),
        ("spec.host", "n"),
        ("spec.hostNetwork", "true"),
        ("status.phase", "Failed"),
        ("status.podIPs", "a,b"),
    ] {
        assert_eq!(pods().rules.select(&object, field).as_deref(), Some(value));
    }
    assert_eq!(pods().rules.select(&Value::Null, "spec.hostNetwork").as_deref(), Some("false"));
    assert_eq!(pods().rules.select(&object, "spec.priority"), None);
}

#[test]
fn the_first_network_of_a_node_is_that_of_the_list() {
    let nodes = kind("", "nodes");
    for (said, stored) in [
        (json!({"podCIDR": "10.0.0.0/24"}), json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]})),
        (
            json!({"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}),
            json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"]}),
        ),
        (
            json!({"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.0.0/24"]}),
            json!({"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.1.0/24"]}),
        ),
    ] {
        let created = World::new().create(nodes, json!({"metadata": {"name": "n"}, "spec": said})).ok();
        for field in ["podCIDR", "podCIDRs"] {
            assert_eq!(created["spec"][field], stored[field], "{created}");
        }
    }
}

/// The messages are those of Kubernetes 1.37.
#[test]
fn networks_and_features_of_a_node_are_checked() {
    let said = |spec: Value, features: Value| {
        let node = json!({"metadata": {"name": "n"}, "spec": spec, "status": {"declaredFeatures": features}});
        let written = World::new().create(kind("", "nodes"), node);
        written.errors.list().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(said(json!({"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}), json!(["A", "B/c"])).is_empty());
    for (networks, expected) in [
        (
            json!(["x"]),
            r#"spec.podCIDRs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"#,
        ),
        (
            json!(["10.0.0.0/24", "10.0.1.0/24"]),
            r#"spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one CIDR for each IP family"#,
        ),
    ] {
        assert_eq!(said(json!({"podCIDRs": networks}), json!([])), [expected]);
    }
    for (features, expected) in [
        (
            json!(["B", "A"]),
            r#"status.declaredFeatures[1]: Invalid value: "A": list must be sorted alphabetically"#,
        ),
        (json!(["A", "A"]), r#"status.declaredFeatures[1]: Duplicate value: "A""#),
        (
            json!(["a"]),
            r#"status.declaredFeatures[0]: Invalid value: "a": invalid feature name "a": must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"#,
        ),
    ] {
        assert_eq!(said(json!({}), features), [expected]);
    }
}

/// Fields of features that are gone or off, and what an account says of a secret beside its name.
#[test]
fn what_kubernetes_does_not_keep_is_not_kept() {
    let source =
        json!({"configSource": {"configMap": {"name": "c", "namespace": "n", "kubeletConfigKey": "k"}}});
    let node =
        World::new().create(kind("", "nodes"), json!({"metadata": {"name": "n"}, "spec": source})).ok();
    assert_eq!(node["spec"].get("configSource"), None, "{node}");
    let account = json!({"metadata": {"name": "a"}, "secrets": [{"name": "s", "namespace": "n", "kind": "Secret", "uid": "u"}]});
    let account = World::new().create(kind("", "serviceaccounts"), account).ok();
    assert_eq!(account["secrets"], json!([{"name": "s"}]));
    let lease = json!({"metadata": {"name": "l"}, "spec": {"strategy": "OldestEmulationVersion", "preferredHolder": "p", "holderIdentity": "h"}});
    let lease = World::new().create(kind("coordination.k8s.io", "leases"), lease).ok();
    assert_eq!(lease["spec"], json!({"holderIdentity": "h"}));
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pod = World::new().create(pods(), pod).ok();
    let mut status = pod.clone();
    status["status"]["volumeHealth"] = json!([{"name": "v"}]);
    let mount = json!({"name": "v", "mountPath": "/v", "volumeStatus": {"image": {"imageRef": "r"}}});
    status["status"]["containerStatuses"] = json!([{"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "volumeMounts": [mount]}]);
    let written = World::new().status(pods(), &pod, status).ok();
    assert_eq!(written["status"].get("volumeHealth"), None, "{written}");
    assert_eq!(
        written["status"]["containerStatuses"][0]["volumeMounts"],
        json!([{"name": "v", "mountPath": "/v"}])
    );
}

#[test]
fn drivers_and_paths_of_volumes_get_what_they_do_not_say() {
    let driver = json!({"metadata": {"name": "d.example.com"}, "spec": {"attachRequired": false}});
    let created = World::new().create(kind("storage.k8s.io", "csidrivers"), driver).ok();
    assert_eq!(created["spec"]["attachRequired"], false);
    assert_eq!(created["spec"]["podInfoOnMount"], false);
    assert_eq!(created["spec"]["volumeLifecycleModes"], json!(["Persistent"]));
    assert_eq!(created["spec"]["fsGroupPolicy"], "ReadWriteOnceWithFSType");
    let volume = json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}}});
    let created = World::new().create(kind("", "persistentvolumes"), volume).ok();
    assert_eq!(created["spec"]["hostPath"], json!({"path": "/a", "type": ""}));
}

#[test]
fn nodes() {
    let nodes = kind("", "nodes");
    let node = json!({"metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": ""}}, "status": {"capacity": {"cpu": "4", "memory": "1024Mi"}}});
    let created = World::new().create(nodes, node.clone()).ok();
    assert_eq!(created["status"]["allocatable"], json!({"cpu": "4", "memory": "1Gi"}));
    let twice = json!([{"key": "k", "effect": "NoSchedule"}, {"key": "k", "effect": "NoSchedule"}]);
    assert_eq!(
        World::new().create(nodes, set(&node, "/spec/taints", twice)).wrong(),
        ["spec.taints[1] Duplicate"]
    );
    let bad = set(&node, "/spec/taints", json!([{"key": "k", "effect": "x"}]));
    assert_eq!(World::new().create(nodes, bad).wrong(), ["spec.taints[0].effect NotSupported"]);
    let mut status = set(&created, "/status/conditions", json!([{"type": "Ready", "status": "True"}]));
    status["metadata"]["labels"]["zone"] = json!("z");
    status["spec"] = json!({"unschedulable": true});
    let written = World::new().status(nodes, &created, status).ok();
    assert_eq!((&written["spec"], &written["metadata"]["labels"]["zone"]), (&created["spec"], &json!("z")));
    assert_eq!(World::new().row(nodes, &written)[..2], ["Status=Ready", "Roles=worker"]);
    let cordoned = set(&written, "/spec/unschedulable", json!(true));
    assert_eq!(World::new().row(nodes, &cordoned)[0], "Status=Ready,SchedulingDisabled");
    assert_eq!(nodes.rules.select(&cordoned, "spec.unschedulable").as_deref(), Some("true"));
}

#[test]
fn namespaces() {
    let namespaces = kind("", "namespaces");
    let created = World::new().create(namespaces, json!({"metadata": {"name": "n"}})).ok();
    assert_eq!(
        created,
        json!({"metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "n"}}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})
    );
    let updated = World::new()
        .update(namespaces, &created, json!({"metadata": {"name": "n"}, "spec": {"finalizers": []}}))
        .ok();
    assert_eq!(updated["spec"], created["spec"]);
}

#[test]
fn events_have_two_forms() {
    let (core, new) = (kind("", "events"), kind("events.k8s.io", "events"));
    let shown = json!({
        "metadata": {"name": "e", "namespace": "default"}, "eventTime": "2026-03-01T11:59:00.000000Z", "reportingController": "c", "reportingInstance": "i",
        "action": "a", "reason": "Evicted", "type": "Normal", "note": "hello",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}, "series": {"count": 2, "lastObservedTime": "2026-03-01T11:59:30.000000Z"},
    });
    let stored = World::new().create(new, shown.clone()).ok();
    assert_eq!(stored["message"], "hello");
    assert_eq!(stored["involvedObject"]["name"], "p");
    assert_eq!(stored["reportingComponent"], "c");
    let mut back = stored.clone();
    new.rules.to_version(&mut back, "v1");
    assert_eq!(back, shown);
    assert!(new.rules.differs_in(&Value::Null, "v1") && !core.rules.differs_in(&Value::Null, "v1"));
    let old_form = json!({"metadata": {"namespace": "default"}, "involvedObject": {"kind": "Pod"}, "message": "m", "source": {"component": "k"}, "firstTimestamp": NOW, "lastTimestamp": NOW, "count": 3});
    let mut converted = World::new().create(core, old_form.clone()).ok();
    new.rules.to_version(&mut converted, "v1");
    assert_eq!(converted["deprecatedCount"], 3);
    new.rules.from_version(&mut converted, "v1", None);
    assert_eq!(converted, old_form);
    for (selector, value) in
        [("involvedObject.name", "p"), ("reason", "Evicted"), ("source", "c"), ("reportingComponent", "c")]
    {
        assert_eq!(core.rules.select(&stored, selector).as_deref(), Some(value));
    }
    assert_eq!(new.rules.select(&stored, "regarding.kind").as_deref(), Some("Pod"));
    assert_eq!(new.rules.select(&stored, "involvedObject.kind"), None);
    assert_eq!(
        World::new().row(core, &stored),
        [
            "Last Seen=30s",
            "Type=Normal",
            "Reason=Evicted",
            "Object=pod/p",
            "Subobject=",
            "Source=c, i",
            "Message=hello",
            "First Seen=60s",
            "Count=2",
            "Name=e"
        ]
    );
    assert_eq!(World::new().create(new, set(&shown, "/type", json!("Odd"))).wrong(), ["type Invalid"]);
    assert_eq!(
        World::new().create(new, set(&shown, "/regarding/namespace", json!("x"))).wrong(),
        ["regarding.namespace Invalid"]
    );
}

#[test]
fn config_maps_and_secrets() {
    let (maps, secrets) = (kind("", "configmaps"), kind("", "secrets"));
    let world = World::new();
    let map = json!({"metadata": {"name": "m"}, "data": {"a": "1"}, "immutable": true});
    assert_eq!(world.update(maps, &map, set(&map, "/data/a", json!("2"))).wrong(), ["data Forbidden"]);
    assert_eq!(
        world.update(maps, &map, set(&map, "/immutable", json!(false))).wrong(),
        ["immutable Forbidden"]
    );
    assert_eq!(world.create(maps, json!({"data": {"a b": ""}})).wrong(), ["data[a b] Invalid"]);
    assert_eq!(
        world.create(maps, json!({"data": {"a": ""}, "binaryData": {"a": ""}})).wrong(),
        ["data[a] Invalid"]
    );
    assert_eq!(
        world.create(maps, json!({"data": {"a": "x".repeat((1 << 20) + 1)}})).wrong(),
        ["data TooLong"]
    );
    assert_eq!(world.row(maps, &map)[0], "Data=1");
    let secret = world
        .create(secrets, json!({"metadata": {"name": "s"}, "data": {"x": "eA=="}, "stringData": {"y": "fo"}}))
        .ok();
    assert_eq!(
        secret,
        json!({"metadata": {"name": "s"}, "type": "Opaque", "data": {"x": "eA==", "y": "Zm8="}})
    );
    assert_eq!(
        world.update(secrets, &secret, set(&secret, "/type", json!("other"))).wrong(),
        ["type Invalid"]
    );
    assert_eq!(secrets.rules.select(&secret, "type").as_deref(), Some("Opaque"));
}

#[test]
fn services_and_priority_classes() {
    let services = kind("", "services");
    let service =
        json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}});
    let created = World::new().create(services, service.clone()).ok();
    assert_eq!(created["spec"]["ports"][0], json!({"port": 80, "protocol": "TCP", "targetPort": 80}));
    assert_eq!(
        World::new().row(services, &created),
        [
            "Type=ClusterIP",
            "Cluster-IP=<none>",
            "External-IP=<none>",
            "Port(s)=80/TCP",
            "Age=<unknown>",
            "Selector=a=b"
        ]
    );
    assert_eq!(
        World::new().create(services, set(&service, "/spec/ports", json!([]))).wrong(),
        ["spec.ports Required"]
    );
    assert_eq!(
        World::new().create(services, set(&service, "/spec/type", json!("x"))).wrong(),
        ["spec.type NotSupported"]
    );
    let classes = kind("scheduling.k8s.io", "priorityclasses");
    let class = |name: &str, value: i64| {
        World::new().create(classes, json!({"metadata": {"name": name}, "value": value}))
    };
    let high = class("high", 1_000_000_000).ok();
    assert_eq!(class("high", 1_000_000_001).wrong(), ["value Forbidden"]);
    assert_eq!(class("system-mine", 1).wrong(), ["metadata.name Forbidden"]);
    class("system-node-critical", 2_000_001_000).ok();
    assert_eq!(
        World::new().update(classes, &high, set(&high, "/value", json!(3))).wrong(),
        ["value Forbidden"]
    );
}

#[test]
fn a_pod_that_is_held_back_may_choose_its_node_more_narrowly() {
    const TERMS: &str =
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let has = |key: &str| json!({"key": key, "operator": "Exists"});
    let affinity = |terms: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    let held = set(&pod(), "/spec/schedulingGates", json!([{"name": "example.com/wait"}]));
    let free = World::new().create(pods(), held).ok();
    let change = |old: &Value, terms: Value| {
        World::new().update(pods(), old, set(old, "/spec/affinity", affinity(terms))).wrong()
    };
    assert!(change(&free, json!([{"matchExpressions": [has("a")]}])).is_empty());
    let chosen = set(&free, "/spec/affinity", affinity(json!([{"matchExpressions": [has("a")]}])));
    assert!(change(&chosen, json!([{"matchExpressions": [has("a"), has("b")]}])).is_empty());
    assert_eq!(change(&chosen, json!([{"matchExpressions": [has("b")]}])), [format!("{TERMS}[0] Invalid")]);
    let two = json!([{"matchExpressions": [has("a")]}, {"matchExpressions": [has("b")]}]);
    assert_eq!(change(&chosen, two), [format!("{TERMS} Invalid")]);
}

#[test]
fn a_container_that_has_ended_for_good_stays_so() {
    let ended = |code: i64| json!([{"name": "c", "state": {"terminated": {"exitCode": code}}}]);
    let again = json!([{"name": "c", "state": {"running": {}}}]);
    for (policy, code, refused) in
        [("Always", 0, false), ("OnFailure", 1, false), ("OnFailure", 0, true), ("Never", 1, true)]
    {
        let pod = World::new().create(pods(), set(&pod(), "/spec/restartPolicy", json!(policy))).ok();
        let old = set(&pod, "/status/containerStatuses", ended(code));
        let new = set(&pod, "/status/containerStatuses", again.clone());
        let expected: &[&str] = if refused { &["status.containerStatuses[0].state Forbidden"] } else { &[] };
        assert_eq!(World::new().status(pods(), &old, new).wrong(), expected, "{policy} {code}");
    }
}

#[test]
fn keys_of_labels_stand_for_the_values_of_the_pod() {
    let constraint = json!({
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}}, "matchLabelKeys": ["revision", "absent"],
    });
    let term = json!({
        "topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}, "mismatchLabelKeys": ["tenant"],
    });
    let labelled = set(&pod(), "/metadata/labels", json!({"app": "a", "revision": "7", "tenant": "t"}));
    let spread = set(&labelled, "/spec/topologySpreadConstraints", json!([constraint]));
    let required = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let created = World::new().create(pods(), set(&spread, "/spec/affinity", required)).ok();
    assert_eq!(
        created["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"],
        json!([{"key": "revision", "operator": "In", "values": ["7"]}]),
    );
    let terms =
        &created["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(
        terms[0]["labelSelector"]["matchExpressions"],
        json!([{"key": "tenant", "operator": "NotIn", "values": ["t"]}]),
    );
}

#[test]
fn quotas_are_amounts_that_can_be() {
    let quotas = kind("", "resourcequotas");
    let quota = |hard: Value| json!({"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"used": {"pods": "1"}}});
    let rows: &[(Value, &[&str])] = &[
        (json!({"pods": "10", "requests.cpu": "1500m", "count/jobs.batch": "3"}), &[]),
        (json!({"pods": "-1"}), &["spec.hard[pods] Invalid"]),
        (json!({"requests.memory": "-1Gi"}), &["spec.hard[requests.memory] Invalid"]),
        (
            json!({"services": "1500m", "count/jobs.batch": "0.5"}),
            &["spec.hard[count/jobs.batch] Invalid", "spec.hard[services] Invalid"],
        ),
    ];
    for (hard, expected) in rows {
        assert_eq!(World::new().create(quotas, quota(hard.clone())).wrong(), *expected, "{hard}");
    }
    let made = World::new().create(quotas, quota(json!({"pods": "1"}))).ok();
    assert_eq!(made["status"], json!({}), "nobody makes a quota that is used already");
    let used = set(&made, "/status/used/pods", json!("-1"));
    assert_eq!(World::new().status(quotas, &made, used).wrong(), ["status.used[pods] Invalid"]);
}

/// A pod that says which claims it wants, on a server without them: it is a pod like any other, unless it was there before.
#[test]
fn fields_of_features_that_are_off_are_dropped_unless_in_use() {
    let node =
        json!({"metadata": {"name": "n"}, "status": {"declaredFeatures": ["DRAOptionalNodeOperations"]}});
    let class = json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}});
    let (nodes, classes) = (kind("", "nodes"), kind("resource.k8s.io", "deviceclasses"));
    for (gate, kind, object, pointers) in [
        (
            "DynamicResourceAllocation",
            pods(),
            pod(),
            &["/spec/resourceClaims", "/spec/containers/0/resources/claims"][..],
        ),
        ("NodeDeclaredFeatures", nodes, node, &["/status/declaredFeatures"]),
        ("DRAExtendedResource", classes, class, &["/spec/extendedResourceName"]),
    ] {
        let on = World::new().with(gate, true).create(kind, object.clone()).ok();
        let off = World::new().with(gate, false);
        let dropped = off.create(kind, object.clone()).ok();
        let kept = off.update(kind, &on, on.clone()).ok();
        for pointer in pointers {
            assert!(on.pointer(pointer).is_some(), "{gate}: keep {pointer}");
            assert!(dropped.pointer(pointer).is_none(), "{gate}: drop {pointer}");
            assert!(kept.pointer(pointer).is_some(), "{gate}: keep {pointer} that is in use");
        }
    }
}

#[test]
fn the_status_of_a_pod_has_no_fields_of_features_that_are_off_unless_in_use() {
    let status = json!({
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}],
        "extendedResourceClaimStatus": {"resourceClaimName": "extended", "requestMappings": []},
        "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "made"}],
    });
    let bare = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": {}});
    let full = set(&bare, "/status", status.clone());
    for (gate, field) in [
        ("DynamicResourceAllocation", "resourceClaimStatuses"),
        ("DRAExtendedResource", "extendedResourceClaimStatus"),
        ("DRANodeAllocatableResources", "nodeAllocatableResourceClaimStatuses"),
    ] {
        let write = |on: bool, old: &Value| {
            let written = World::new().with(gate, on).status(pods(), old, full.clone()).object;
            written["status"].get(field).is_some()
        };
        assert!(write(true, &bare), "{gate}: keep {field}");
        assert!(!write(false, &bare), "{gate}: drop {field}");
        let using = set(&full, "/spec/resourceClaims", json!([{"name": "gpu", "resourceClaimName": "made"}]));
        assert!(write(false, &using), "{gate}: keep {field} that is in use");
    }
}

/// Node, phase, its own period, the period asked for, and the seconds it may take.
#[test]
fn a_pod_takes_time_to_end_only_where_it_may_run() {
    for (node, phase, own, asked, seconds) in [
        ("n", "Running", None, None, 30),
        ("n", "Pending", Some(5), None, 5),
        ("n", "Running", Some(5), Some(60), 60),
        ("n", "Running", Some(5), Some(0), 0),
        ("n", "Running", None, Some(-1), 1),
        ("n", "Succeeded", Some(5), Some(60), 0),
        ("n", "Failed", None, None, 0),
        ("", "Pending", Some(5), Some(60), 0),
    ] {
        let spec = json!({"nodeName": node, "terminationGracePeriodSeconds": own});
        let pod = json!({"spec": spec, "status": {"phase": phase}});
        assert_eq!(pods().rules.grace_seconds(&pod, asked), seconds, "{pod} {asked:?}");
    }
    assert_eq!(kind("", "configmaps").rules.grace_seconds(&json!({}), Some(60)), 0);
}

#[test]
fn a_namespace_is_held_by_its_content_and_some_are_never_deleted() {
    let rules = &kind("", "namespaces").rules;
    assert!(rules.is_held(&json!({"spec": {"finalizers": ["kubernetes"]}})));
    assert!(!rules.is_held(&json!({"spec": {"finalizers": []}})) && !rules.is_held(&json!({})));
    assert!(rules.refuse_delete("kube-system").is_some() && rules.refuse_delete("mine").is_none());
}

#[test]
fn rules_before_v1_keep_the_conventions_of_their_time() {
    let rules = kind("resource.k8s.io", "devicetaintrules");
    for (version, old) in [("v1", false), ("v1beta2", true), ("v1alpha3", true)] {
        assert_eq!(rules.updates_unconditionally(version), old, "{version}");
        assert_eq!(rules.returns_deleted(version), old, "{version}");
    }
    let slices = kind("resource.k8s.io", "resourceslices");
    assert!(slices.updates_unconditionally("v1") && slices.returns_deleted("v1"));
    let maps = kind("", "configmaps");
    assert!(maps.updates_unconditionally("v1") && !maps.returns_deleted("v1"));
}
