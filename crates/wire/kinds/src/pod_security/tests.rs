use lazaret_json::{Value, json};

use super::*;
use crate::Errors;

fn level(text: &str) -> LevelVersion {
    let (level, version) = text.split_once(':').unwrap();
    let labels = json!({"pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/enforce-version": version});
    let mut errors = Errors::new();
    let policy = Policy::of(&labels, &mut errors);
    assert!(errors.is_empty(), "{:?}", errors.list());
    policy.enforce
}

fn said(text: &str, spec: &Value) -> String {
    details(&violations(level(text), &Value::Null, spec, Release::NEWEST))
}

/// As `kubectl run` makes it.
fn plain() -> Value {
    json!({"containers": [{"name": "a", "image": "i"}], "securityContext": {}})
}

#[test]
fn a_plain_pod_is_not_restricted_and_is_told_all_that_is_missing() {
    assert_eq!(said("baseline:latest", &plain()), "");
    assert_eq!(
        said("restricted:latest", &plain()),
        r#"allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#
    );
    let good = json!({"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "a", "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]});
    assert_eq!(said("restricted:latest", &good), "");
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn each_check_is_put_as_kubernetes_puts_it() {
    let with = |field: &str, value: Value| {
        let mut spec = plain();
        spec[field] = value;
        spec
    };
    let container =
        |value: Value| json!({"containers": [{"name": "a", "securityContext": value}, {"name": "b"}]});
    let rows = [
        ("baseline:v1.0", with("hostNetwork", json!(true)), "host namespaces (hostNetwork=true)"),
        (
            "baseline:latest",
            with("volumes", json!([{"name": "v", "hostPath": {"path": "/"}}])),
            r#"hostPath volumes (volume "v")"#,
        ),
        (
            "restricted:v1.0",
            with("volumes", json!([{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "nfs": {}}])),
            r#"restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs"), runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)"#,
        ),
        (
            "baseline:latest",
            container(json!({"privileged": true})),
            r#"privileged (container "a" must not set securityContext.privileged=true)"#,
        ),
        (
            "baseline:latest",
            container(json!({"capabilities": {"add": ["SYS_ADMIN", "CHOWN"]}})),
            r#"non-default capabilities (container "a" must not include "SYS_ADMIN" in securityContext.capabilities.add)"#,
        ),
        (
            "baseline:latest",
            json!({"containers": [{"name": "a", "ports": [{"hostPort": 80}, {"hostPort": 443}]}]}),
            r#"hostPort (container "a" uses hostPorts 443, 80)"#,
        ),
        (
            "baseline:latest",
            json!({"containers": [{"name": "a", "livenessProbe": {"httpGet": {"host": "h"}}}]}),
            r#"probe or lifecycle host (container "a" uses probe or lifecycle host "h")"#,
        ),
        (
            "baseline:v1.33",
            json!({"containers": [{"name": "a", "livenessProbe": {"httpGet": {"host": "h"}}}]}),
            "",
        ),
        (
            "baseline:latest",
            container(json!({"procMount": "Unmasked"})),
            r#"procMount (container "a" must not set securityContext.procMount to "Unmasked")"#,
        ),
        (
            "baseline:latest",
            with("securityContext", json!({"seLinuxOptions": {"type": "t", "user": "u"}})),
            r#"seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "t"; user may not be set)"#,
        ),
        (
            "baseline:latest",
            with("securityContext", json!({"seccompProfile": {"type": "Unconfined"}})),
            r#"seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")"#,
        ),
        (
            "baseline:v1.26",
            with("securityContext", json!({"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]})),
            "forbidden sysctls (net.ipv4.ip_local_reserved_ports)",
        ),
        (
            "baseline:v1.27",
            with("securityContext", json!({"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]})),
            "",
        ),
        (
            "baseline:latest",
            with("securityContext", json!({"windowsOptions": {"hostProcess": true}})),
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
        (
            "baseline:latest",
            with("securityContext", json!({"appArmorProfile": {"type": "Unconfined"}})),
            r#"forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")"#,
        ),
        (
            "restricted:v1.7",
            with("securityContext", json!({"runAsNonRoot": false, "runAsUser": 0})),
            "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)",
        ),
    ];
    for (level, spec, wanted) in rows {
        assert_eq!(said(level, &spec), wanted, "{level}: {spec}");
    }
}

#[test]
fn root_is_allowed_to_pods_with_users_of_their_own() {
    let mut own = plain();
    own["hostUsers"] = false.into();
    own["securityContext"] = json!({"runAsUser": 0});
    assert!(!said("restricted:latest", &own).contains("runAs"), "users of its own");
    assert!(said("restricted:v1.34", &own).contains("runAsUser=0 (pod must not set runAsUser=0)"));
}

#[test]
fn labels_say_what_is_enforced_noted_and_warned_of() {
    let policy = |labels: Value| {
        let mut errors = Errors::new();
        let policy = Policy::of(&labels, &mut errors);
        let errors: Vec<String> = errors.list().iter().map(ToString::to_string).collect();
        (format!("{} {} {}", policy.enforce, policy.audit, policy.warn), errors.join("; "))
    };
    let rows = [
        (json!({}), "privileged:latest privileged:latest privileged:latest", ""),
        (
            json!({"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/enforce-version": "v1.30"}),
            "baseline:v1.30 privileged:latest baseline:v1.30",
            "",
        ),
        (
            json!({"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "privileged"}),
            "baseline:latest privileged:latest privileged:latest",
            "",
        ),
        (
            json!({"pod-security.kubernetes.io/enforce": "all"}),
            "restricted:latest privileged:latest privileged:latest",
            r#"metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "all": must be one of privileged, baseline, restricted"#,
        ),
        (
            json!({"pod-security.kubernetes.io/audit-version": "1.30"}),
            "privileged:latest privileged:latest privileged:latest",
            r#"metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: "1.30": must be "latest" or "v1.x""#,
        ),
    ];
    for (labels, wanted, wrong) in rows {
        assert_eq!(policy(labels.clone()), (wanted.to_owned(), wrong.to_owned()), "{labels}");
    }
}
