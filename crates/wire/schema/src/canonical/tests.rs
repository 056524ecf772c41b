use super::*;
use crate::builtin;

fn settled(shape: &str, mut value: Value, form: Form) -> Value {
    let ty = builtin().find(shape).unwrap();
    canonical(builtin(), ty, &mut value, None, form);
    let once = value.clone();
    canonical(builtin(), ty, &mut value, None, form);
    assert_eq!(value, once, "what has its form keeps it");
    value
}

/// A type, what a client sends, and what is kept.
fn cases() -> Vec<(&'static str, Value, Value)> {
    let taint =
        |time: &str| json!({"spec": {"taint": {"key": "k", "effect": "NoExecute", "timeAdded": time}}});
    let lease = |time: &str| json!({"spec": {"renewTime": time}});
    vec![
        ("resource/v1.DeviceTaintRule", taint("2026-01-02T15:04:05+00:00"), taint("2026-01-02T15:04:05Z")),
        ("resource/v1.DeviceTaintRule", taint("2026-01-02T16:04:05.9+01:00"), taint("2026-01-02T15:04:05Z")),
        ("resource/v1.DeviceTaintRule", taint("9999-12-31T23:59:59Z"), taint("9999-12-31T23:59:59Z")),
        (
            "resource/v1.DeviceTaintRule",
            taint("0001-01-01T00:00:00Z"),
            json!({"spec": {"taint": {"key": "k", "effect": "NoExecute", "timeAdded": null}}}),
        ),
        ("coordination/v1.Lease", lease("2026-01-02T15:04:05.1+00:00"), lease("2026-01-02T15:04:05.100000Z")),
        ("coordination/v1.Lease", lease("9999-12-31T23:59:59.999999Z"), lease("9999-12-31T23:59:59.999999Z")),
        (
            "core/v1.Node",
            json!({"status": {"capacity": {"cpu": "1000m", "memory": "1024Mi", "pods": 110, "x": null}}}),
            json!({"status": {"capacity": {"cpu": "1", "memory": "1Gi", "pods": "110", "x": "0"}}}),
        ),
        (
            "core/v1.Secret",
            json!({"data": {"a": "YW\nJj", "b": "YR==", "c": null, "d": ""}, "type": "", "stringData": {}}),
            json!({"data": {"a": "YWJj", "b": "YQ==", "c": "", "d": ""}}),
        ),
        (
            "core/v1.ConfigMap",
            json!({"metadata": {"labels": {}, "annotations": {"a": ""}, "generateName": ""}, "data": {}, "immutable": false}),
            json!({"metadata": {"annotations": {"a": ""}}, "immutable": false}),
        ),
        (
            "core/v1.Container",
            json!({"image": "", "args": [null, ""], "tty": false, "ports": [], "env": [{"name": "A", "value": ""}]}),
            json!({"name": "", "args": ["", ""], "env": [{"name": "A"}]}),
        ),
        (
            "resource/v1.ResourceClaimStatus",
            json!({"devices": [{"driver": "d", "pool": "p", "device": "x", "conditions": [{"type": "T", "status": "True"}]}]}),
            json!({"devices": [{"driver": "d", "pool": "p", "device": "x",
                "conditions": [{"type": "T", "status": "True", "reason": "", "message": ""}]}]}),
        ),
        (
            "core/v1.ServicePort",
            json!({"port": 80, "nodePort": 0, "targetPort": "80"}),
            json!({"port": 80, "targetPort": "80"}),
        ),
        (
            "authentication/v1.TokenRequestSpec",
            json!({"audiences": [], "expirationSeconds": 0}),
            json!({"audiences": [], "expirationSeconds": 0}),
        ),
        (
            "core/v1.PodSpec",
            json!({"hostUsers": false, "hostNetwork": false, "securityContext": {}, "priority": 0}),
            json!({"hostUsers": false, "securityContext": {}, "priority": 0}),
        ),
        (
            "autoscaling/v2.HPAScalingRules",
            json!({"tolerance": "0.10", "policies": []}),
            json!({"tolerance": "100m"}),
        ),
    ]
}

#[test]
fn an_object_is_kept_as_go_would_write_it() {
    for (shape, sent, kept) in cases() {
        assert_eq!(settled(shape, sent.clone(), Form::Whole), kept, "{shape} {sent}");
    }
}

#[test]
fn what_is_applied_keeps_its_fields_and_has_their_values() {
    let sent = json!({"metadata": {"labels": {}}, "spec": {"nodeName": "", "tolerations": [{"tolerationSeconds": 0, "value": ""}],
        "containers": [{"resources": {"limits": {"cpu": "1000m"}}}], "volumes": [null]}});
    let kept = json!({"metadata": {"labels": {}}, "spec": {"nodeName": "", "tolerations": [{"tolerationSeconds": 0, "value": ""}],
        "containers": [{"resources": {"limits": {"cpu": "1"}}}], "volumes": [null]}});
    assert_eq!(settled("core/v1.Pod", sent, Form::Applied), kept);
}

#[test]
fn what_is_shared_with_the_known_is_not_copied() {
    let known = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": ""}});
    let mut value = known.clone();
    let pod = builtin().find("core/v1.Pod").unwrap();
    value["metadata"]["annotations"] = json!({});
    canonical(builtin(), pod, &mut value, Some(&known), Form::Whole);
    assert!(value["spec"].is(&known["spec"]) && value["metadata"]["labels"].is(&known["metadata"]["labels"]));
    assert_eq!(value["metadata"], json!({"labels": {"a": "b"}}));
}

#[test]
fn any_json_at_all_can_be_asked_about() {
    for wrong in [
        json!([]),
        json!("x"),
        json!({"spec": [], "status": 1, "metadata": {"labels": [1], "creationTimestamp": {}}}),
    ] {
        for (_, ty) in builtin().names() {
            let mut value = wrong.clone();
            canonical(builtin(), ty, &mut value, None, Form::Whole);
            assert!(alike(builtin(), ty, &wrong, &wrong));
        }
    }
}

#[test]
fn what_says_the_same_is_alike_and_nothing_else_is() {
    let alike = |shape: &str, a: Value, b: Value| {
        let ty = builtin().find(shape).unwrap();
        let one = alike(builtin(), ty, &a, &b);
        assert_eq!(one, alike(builtin(), ty, &b, &a), "{a} {b}");
        one
    };
    let deployment = |spec: Value| json!({"spec": spec});
    assert!(alike(
        "apps/v1.Deployment",
        deployment(json!({"strategy": {}, "replicas": 1})),
        deployment(json!({"replicas": 1}))
    ));
    assert!(alike(
        "core/v1.PodSpec",
        json!({"containers": [{"name": "a", "resources": {}}]}),
        json!({"containers": [{"name": "a"}]})
    ));
    assert!(alike("rbac/v1.ClusterRole", json!({"rules": []}), json!({})));
    assert!(!alike("resource/v1.DeviceTaintRuleSpec", json!({"deviceSelector": {}}), json!({})), "a pointer");
    assert!(!alike("core/v1.PodSpec", json!({"priority": 0}), json!({})), "a pointer");
    assert!(!alike("core/v1.ConfigMap", json!({"data": {"a": ""}}), json!({"data": {}})));
    assert!(!alike("core/v1.Container", json!({"args": [""]}), json!({"args": []})));
}
