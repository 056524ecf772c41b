//! Specs of containers, case by case.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::path::{Path, PathBuf};

use crate::support::{UID, World, facts, merge, pod, pod_of, pod_with};
use k8s_openapi::api::core::v1::{Pod, Service};
use lazaret_containers::{Limits, Propagation, Seccomp, UserLookup};
use lazaret_provision::{
    NodeFacts, QosClass, ResolverConfig, SpecError, hosts_file, not_applied, pod_resolver, qos_class,
    sandbox_spec,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn config(message: &str) -> SpecError {
    SpecError { reason: "CreateContainerConfigError", message: message.to_owned() }
}

/// Rows of Kubernetes' own table of expansions: a text, and what it becomes.
const EXPANSIONS: &[(&str, &str)] = &[
    ("$(VAR_A)", "A"),
    ("$(VAR_A)-$(VAR_A)", "A-A"),
    ("$(VAR_A)-1", "A-1"),
    ("___$(VAR_B)___", "___B___"),
    ("___$(VAR_C)", "___C"),
    ("$(VAR_A)_$(VAR_B)_$(VAR_C)", "A_B_C"),
    ("$$(VAR_B)_$(VAR_A)", "$(VAR_B)_A"),
    ("$$(VAR_A)_$$(VAR_B)", "$(VAR_A)_$(VAR_B)"),
    ("f000-$$VAR_A", "f000-$VAR_A"),
    ("foo\\$(VAR_C)bar", "foo\\Cbar"),
    ("foo\\\\$(VAR_C)bar", "foo\\\\Cbar"),
    ("foo\\\\\\\\$(VAR_A)bar", "foo\\\\\\\\Abar"),
    ("$(VAR_A$(VAR_B))", "$(VAR_A$(VAR_B))"),
    ("$(VAR_A$(VAR_B)", "$(VAR_A$(VAR_B)"),
    ("$(VAR_REF)", "$(VAR_A)"),
    ("%%$(VAR_REF)--$(VAR_REF)%%", "%%$(VAR_A)--$(VAR_A)%%"),
    ("foo$(VAR_EMPTY)bar", "foobar"),
    ("foo$(VAR_Awhoops!", "foo$(VAR_Awhoops!"),
    ("f00__(VAR_A)__", "f00__(VAR_A)__"),
    ("$?_boo_$!", "$?_boo_$!"),
    ("$VAR_A", "$VAR_A"),
    ("$(VAR_DNE)", "$(VAR_DNE)"),
    ("$$$$$$(BIG_MONEY)", "$$$(BIG_MONEY)"),
    ("$$$$$$(VAR_A)", "$$$(VAR_A)"),
    ("$$$$$$$(GOOD_ODDS)", "$$$$(GOOD_ODDS)"),
    ("$$$$$$$(VAR_A)", "$$$A"),
    ("$VAR_A)", "$VAR_A)"),
    ("${VAR_A}", "${VAR_A}"),
    ("$(VAR_B)_______$(A", "B_______$(A"),
    ("$(VAR_C)_______$(", "C_______$("),
    ("$(VAR_A)foobarzab$", "Afoobarzab$"),
    ("foo-\\$(VAR_A", "foo-\\$(VAR_A"),
    ("--$($($($($--", "--$($($($($--"),
    ("$($($($($--foo$(", "$($($($($--foo$("),
    ("foo0--$($($($(", "foo0--$($($($("),
    ("$(foo$$var)", "$(foo$$var)"),
    ("\n", "\n"),
    ("$£FOO", "$£FOO"),
    ("prefix-$€-suffix", "prefix-$€-suffix"),
    ("$中文", "$中文"),
];

#[test]
fn references_in_commands_are_replaced() {
    for (text, expected) in EXPANSIONS {
        let pod = pod_of(json!({
            "env": [
                {"name": "VAR_A", "value": "A"},
                {"name": "VAR_B", "value": "B"},
                {"name": "VAR_C", "value": "C"},
                {"name": "VAR_REF", "value": "$$(VAR_A)"},
                {"name": "VAR_EMPTY"},
            ],
            "command": ["run", text],
        }));
        let spec = World::default().describe(&pod, "main").unwrap();
        assert_eq!(spec.command, ["run", *expected], "{text}");
    }
}

#[test]
fn commands_and_arguments_take_the_place_of_the_images() {
    let cases: &[(Value, &[&str])] = &[
        (json!({}), &["/entry", "serve"]),
        (json!({"args": ["-v"]}), &["/entry", "-v"]),
        (json!({"command": ["/run"]}), &["/run"]),
        (json!({"command": ["/run"], "args": ["-v"]}), &["/run", "-v"]),
    ];
    for (container, expected) in cases {
        let spec = World::default().describe(&pod_of(container.clone()), "main").unwrap();
        assert_eq!(spec.command, *expected, "{container}");
    }
    let mut bare = World::default();
    bare.image.config.entrypoint.clear();
    bare.image.config.command.clear();
    let error = bare.describe(&pod_of(json!({})), "main").unwrap_err();
    assert_eq!(
        error,
        SpecError { reason: "CreateContainerError", message: "no command specified".to_owned() }
    );
}

/// The world for a table of variables.
fn world() -> World {
    let mut world = World::default()
        .with_config_map("settings", &[("COLOR", "blue"), ("SIZE", "9"), ("a.b-c", "odd")])
        .with_secret("keys", &[("PASSWORD", b"s3cret"), ("COLOR", b"red")])
        .with_secret("binary", &[("KEY", b"\xff\xfe")])
        .with_volume("files", "/volumes/files", false);
    world.config_maps.insert("denied".to_owned(), Err("configmaps \"denied\" is forbidden".to_owned()));
    world
}

#[test]
fn variables_come_from_everywhere() {
    let from = |name: &str, source: Value| json!([{"name": name, "valueFrom": source}]);
    let cases: Vec<(Value, &[&str])> = vec![
        (json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2"}]}), &["A=1", "B=12"]),
        // Only what stands before counts.
        (json!({"env": [{"name": "B", "value": "$(A)"}, {"name": "A", "value": "1"}]}), &["B=$(A)", "A=1"]),
        (json!({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]}), &["A=12"]),
        (json!({"env": [{"name": "A"}]}), &["A="]),
        (
            json!({"envFrom": [{"configMapRef": {"name": "settings"}}]}),
            &["COLOR=blue", "SIZE=9", "a.b-c=odd"],
        ),
        (
            json!({"envFrom": [{"prefix": "p_", "secretRef": {"name": "keys"}}]}),
            &["p_COLOR=red", "p_PASSWORD=s3cret"],
        ),
        // Later objects win over earlier ones, and single variables over objects.
        (
            json!({"envFrom": [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}}],
                   "env": [{"name": "SIZE", "value": "$(SIZE)0"}]}),
            &["COLOR=red", "SIZE=90", "a.b-c=odd", "PASSWORD=s3cret"],
        ),
        (json!({"envFrom": [{"configMapRef": {"name": "none", "optional": true}}]}), &[]),
        (json!({"envFrom": [{"secretRef": {"name": "none", "optional": true}}]}), &[]),
        (
            json!({"env": from("A", json!({"configMapKeyRef": {"name": "settings", "key": "COLOR"}}))}),
            &["A=blue"],
        ),
        (
            json!({"env": from("A", json!({"secretKeyRef": {"name": "keys", "key": "PASSWORD"}}))}),
            &["A=s3cret"],
        ),
        (
            json!({"env": from("A", json!({"configMapKeyRef": {"name": "settings", "key": "x", "optional": true}}))}),
            &[],
        ),
        (
            json!({"env": from("A", json!({"secretKeyRef": {"name": "none", "key": "x", "optional": true}}))}),
            &[],
        ),
        (
            json!({"env": from("A", json!({"fileKeyRef": {"volumeName": "files", "path": "env", "key": "B"}}))}),
            &["A=two\nlines"],
        ),
        (
            json!({"env": from("A", json!({"fileKeyRef":
                {"volumeName": "files", "path": "env", "key": "EMPTY", "optional": true}}))}),
            &[],
        ),
    ];
    for (container, expected) in cases {
        assert_eq!(world().env(&pod_of(container.clone())).unwrap(), expected, "{container}");
    }
}

#[test]
fn variables_that_cannot_be_had_are_named() {
    let from = |source: Value| json!({"env": [{"name": "A", "valueFrom": source}]});
    let cases: Vec<(Value, &str)> = vec![
        (json!({"envFrom": [{"configMapRef": {"name": "none"}}]}), "configmap \"none\" not found"),
        (json!({"envFrom": [{"secretRef": {"name": "none"}}]}), "secret \"none\" not found"),
        (
            json!({"envFrom": [{"configMapRef": {"name": "denied", "optional": true}}]}),
            "configmaps \"denied\" is forbidden",
        ),
        (
            from(json!({"configMapKeyRef": {"name": "settings", "key": "X"}})),
            "couldn't find key X in ConfigMap shop/settings",
        ),
        (
            from(json!({"secretKeyRef": {"name": "keys", "key": "X"}})),
            "couldn't find key X in Secret shop/keys",
        ),
        (
            from(json!({"secretKeyRef": {"name": "binary", "key": "KEY"}})),
            "key KEY in secret \"binary\" is not UTF-8 and cannot be an environment variable",
        ),
        (from(json!({"fieldRef": {"fieldPath": "status.phase"}})), "field label not supported: status.phase"),
        (
            from(json!({"fieldRef": {"fieldPath": "spec.nodeName['a']"}})),
            "field label does not support subscript: spec.nodeName['a']",
        ),
        (
            from(json!({"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v2"}})),
            "unsupported pod version: v2",
        ),
        (
            from(json!({"resourceFieldRef": {"resource": "limits.gpu"}})),
            "unsupported container resource : limits.gpu",
        ),
        (
            from(json!({"resourceFieldRef": {"resource": "limits.cpu", "containerName": "other"}})),
            "container other not found",
        ),
        (
            from(json!({"fileKeyRef": {"volumeName": "none", "path": "env", "key": "A"}})),
            "cannot find the volume \"none\" referenced by FileKeyRef",
        ),
        (
            from(json!({"fileKeyRef": {"volumeName": "files", "path": "broken", "key": "A"}})),
            "couldn't parse env file",
        ),
        (
            from(json!({"fileKeyRef": {"volumeName": "files", "path": "env", "key": "Z"}})),
            "environment variable key \"Z\" not found in file \"env\"",
        ),
        (json!({"env": [{"name": "A=B", "value": "1"}]}), "\"A=B\" cannot name an environment variable"),
        (json!({"env": [{"name": "A", "value": "1\u{0}"}]}), "the value of A contains a NUL byte"),
    ];
    for (container, message) in cases {
        assert_eq!(world().env(&pod_of(container.clone())).unwrap_err(), config(message), "{container}");
    }
}

#[test]
fn a_few_references_do_not_fill_the_memory() {
    let value = "x".repeat(1 << 20);
    let world = World::default().with_config_map("large", &[("A", &value)]);
    let many = "$(A)".repeat(100_000);
    let pod = pod_of(json!({
        "envFrom": [{"configMapRef": {"name": "large"}}],
        "env": [{"name": "B", "value": many}],
    }));
    let error = world.env(&pod).unwrap_err();
    assert_eq!(error, config("with B, the environment is longer than 4194304 bytes"));
    let pod = pod_of(json!({"envFrom": [{"configMapRef": {"name": "large"}}], "args": [many, "-"]}));
    let error = world.describe(&pod, "main").unwrap_err();
    assert_eq!(error, config("the command is longer than 4194304 bytes"));
}

#[test]
fn a_pod_is_told_of_itself() {
    let cases = [
        ("metadata.name", "web"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", UID),
        ("metadata.labels['app']", "web \"1\""),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['example.com/note']", "a\nb"),
        ("metadata.labels", "app=\"web \\\"1\\\"\"\ntier=\"ü\\u200b\""),
        ("spec.nodeName", "node-1"),
        ("spec.host", "node-1"),
        ("spec.serviceAccountName", "robot"),
        ("status.hostIP", "10.0.0.1"),
        ("status.hostIPs", "10.0.0.1,fd00::1"),
        // The family of the node comes first.
        ("status.podIP", "10.1.0.5"),
        ("status.podIPs", "10.1.0.5,fd01::5"),
    ];
    let world = World { pod_ips: vec!["fd01::5".to_owned(), "10.1.0.5".to_owned()], ..World::default() };
    for (path, expected) in cases {
        let pod = pod_with(
            json!({
                "labels": {"app": "web \"1\"", "tier": "ü\u{200b}"},
                "annotations": {"example.com/note": "a\nb"},
            }),
            json!({"nodeName": "node-1", "serviceAccountName": "robot", "containers": [{
                "name": "main", "image": "app:1",
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": path}}}],
            }]}),
        );
        assert_eq!(world.env(&pod).unwrap(), [format!("A={expected}")], "{path}");
    }
}

#[test]
fn a_container_is_told_what_it_may_use() {
    let resources = json!({
        "requests": {"cpu": "250m", "memory": "100Mi", "ephemeral-storage": "1Gi"},
        "limits": {"cpu": "1500m", "memory": "1Gi", "hugepages-2Mi": "4Mi"},
    });
    let cases = [
        ("requests.cpu", None, "1"),
        ("requests.cpu", Some("1m"), "250"),
        ("limits.cpu", None, "2"),
        ("limits.cpu", Some("100m"), "15"),
        ("requests.memory", None, "104857600"),
        ("requests.memory", Some("1Mi"), "100"),
        ("limits.memory", Some("1G"), "2"),
        ("requests.ephemeral-storage", Some("1Mi"), "1024"),
        // Without a limit of its own it has what the node gives.
        ("limits.ephemeral-storage", Some("1Gi"), "100"),
        ("limits.hugepages-2Mi", Some("1Mi"), "4"),
        ("requests.hugepages-2Mi", None, "0"),
    ];
    for (resource, divisor, expected) in cases {
        let mut selector = json!({"resource": resource});
        if let Some(divisor) = divisor {
            merge(&mut selector, json!({"divisor": divisor}));
        }
        let pod = pod_of(json!({
            "resources": resources,
            "env": [{"name": "A", "valueFrom": {"resourceFieldRef": selector}}],
        }));
        assert_eq!(World::default().env(&pod).unwrap(), [format!("A={expected}")], "{resource} {divisor:?}");
    }
    // The limit of the pod counts before what the node has.
    let pod = pod(json!({
        "resources": {"limits": {"cpu": "3"}},
        "containers": [{"name": "main", "image": "app:1", "env": [
            {"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Gi"}}},
        ]}],
    }));
    assert_eq!(World::default().env(&pod).unwrap(), ["A=3", "B=8"]);
}

fn service(namespace: &str, name: &str, ip: &str, ports: Value) -> Service {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": ip, "ports": ports},
    }))
    .unwrap()
}

#[test]
fn services_are_found_by_variables() {
    let https = json!([{"name": "https", "port": 443}]);
    let services = vec![
        service("default", "kubernetes", "10.96.0.1", https.clone()),
        service("default", "other", "10.96.0.9", https.clone()),
        service(
            "shop",
            "my-db",
            "fd00::9",
            json!([{"port": 5432}, {"name": "m-x", "port": 53, "protocol": "UDP"}]),
        ),
        service("shop", "headless", "None", https.clone()),
        service("shop", "none", "", https),
    ];
    let kubernetes = [
        "KUBERNETES_PORT=tcp://10.96.0.1:443",
        "KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443",
        "KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1",
        "KUBERNETES_PORT_443_TCP_PORT=443",
        "KUBERNETES_PORT_443_TCP_PROTO=tcp",
        "KUBERNETES_SERVICE_HOST=10.96.0.1",
        "KUBERNETES_SERVICE_PORT=443",
        "KUBERNETES_SERVICE_PORT_HTTPS=443",
    ];
    let database = [
        "MY_DB_PORT=tcp://[fd00::9]:5432",
        "MY_DB_PORT_53_UDP=udp://[fd00::9]:53",
        "MY_DB_PORT_53_UDP_ADDR=fd00::9",
        "MY_DB_PORT_53_UDP_PORT=53",
        "MY_DB_PORT_53_UDP_PROTO=udp",
        "MY_DB_PORT_5432_TCP=tcp://[fd00::9]:5432",
        "MY_DB_PORT_5432_TCP_ADDR=fd00::9",
        "MY_DB_PORT_5432_TCP_PORT=5432",
        "MY_DB_PORT_5432_TCP_PROTO=tcp",
        "MY_DB_SERVICE_HOST=fd00::9",
        "MY_DB_SERVICE_PORT=5432",
        "MY_DB_SERVICE_PORT_M_X=53",
    ];
    let world = World { services, ..World::default() };
    let with = |links: Value, env: Value| {
        let mut spec = json!({"containers": [{"name": "main", "image": "app:1", "env": env}]});
        merge(&mut spec, links);
        world.env(&pod(spec)).unwrap()
    };
    assert_eq!(with(json!({"enableServiceLinks": false}), json!([])), kubernetes);
    let mut both = kubernetes.to_vec();
    both.extend(database);
    assert_eq!(with(json!({}), json!([])), both);
    // A variable may name a Service, and takes its place.
    let own = json!([{"name": "URL", "value": "$(MY_DB_SERVICE_HOST)"}, {"name": "MY_DB_SERVICE_HOST", "value": "x"}]);
    let lines = with(json!({}), own);
    assert_eq!(lines[..2], ["URL=fd00::9", "MY_DB_SERVICE_HOST=x"]);
    assert_eq!(lines.iter().filter(|line| line.starts_with("MY_DB_SERVICE_HOST=")).count(), 1);
}

#[test]
fn the_images_variables_come_first_and_lose() {
    let mut world = World::default();
    world.image.config.env = vec!["A=image".to_owned(), "B=image".to_owned(), "PATH=/bin".to_owned()];
    let pod = pod_of(json!({"tty": true, "env": [{"name": "B", "value": "pod"}]}));
    let spec = world.describe(&pod, "main").unwrap();
    assert_eq!(spec.env, ["HOSTNAME=web", "TERM=xterm", "HOME=/root", "A=image", "PATH=/bin", "B=pod"]);
    world.image.config.env.clear();
    let spec = world.describe(&pod_of(json!({})), "main").unwrap();
    let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    assert_eq!(spec.env, ["HOSTNAME=web", path, "HOME=/root"]);
}

#[test]
fn limits_follow_requests_and_limits() {
    let limits = |resources: Value| {
        World::default().describe(&pod_of(json!({"resources": resources})), "main").unwrap().limits
    };
    let none = Limits::default();
    let cases = [
        (json!({}), Limits { cpu_shares: Some(2), oom_score_adjustment: Some(1000), ..none }),
        (
            json!({"requests": {"cpu": "100m", "memory": "1Gi"}}),
            Limits { cpu_shares: Some(102), oom_score_adjustment: Some(900), ..none },
        ),
        // Without a request, the limit is one.
        (
            json!({"limits": {"cpu": "2"}}),
            Limits {
                cpu_shares: Some(2048),
                cpu_quota_us: Some(200_000),
                cpu_period_us: Some(100_000),
                oom_score_adjustment: Some(999),
                ..none
            },
        ),
        (
            json!({"limits": {"cpu": "1m", "memory": "64Mi"}, "requests": {"cpu": "1m", "memory": "64Mi"}}),
            Limits {
                cpu_shares: Some(2),
                cpu_quota_us: Some(1000),
                cpu_period_us: Some(100_000),
                memory: Some(64 << 20),
                oom_score_adjustment: Some(-997),
                ..none
            },
        ),
        (
            json!({"requests": {"cpu": "1000", "memory": "20Gi"}}),
            Limits { cpu_shares: Some(262_144), oom_score_adjustment: Some(3), ..none },
        ),
    ];
    for (resources, expected) in cases {
        assert_eq!(limits(resources.clone()), expected, "{resources}");
    }
}

#[test]
fn sidecars_are_killed_no_earlier_than_what_they_serve() {
    let memory = |amount: &str| json!({"requests": {"memory": amount}});
    let spec = json!({
        "initContainers": [
            {"name": "side", "image": "a", "restartPolicy": "Always", "resources": memory("1Gi")},
            {"name": "first", "image": "a", "resources": memory("1Gi")},
        ],
        "containers": [
            {"name": "main", "image": "a", "resources": memory("5Gi")},
            {"name": "more", "image": "a", "resources": memory("4Gi")},
        ],
    });
    let score = |spec: &Value, name: &str| {
        World::default().describe(&pod(spec.clone()), name).unwrap().limits.oom_score_adjustment
    };
    assert_eq!(score(&spec, "main"), Some(500));
    assert_eq!(score(&spec, "more"), Some(600));
    assert_eq!(score(&spec, "side"), Some(600));
    assert_eq!(score(&spec, "first"), Some(900));
    // The request that only the pod has is divided among its containers: 20 GiB less 10 GiB, over 4.
    let mut with_pod = spec.clone();
    merge(&mut with_pod, json!({"resources": {"requests": {"memory": "18Gi"}}}));
    assert_eq!(score(&with_pod, "main"), Some(300));
    let mut critical = spec;
    merge(&mut critical, json!({"priorityClassName": "system-node-critical"}));
    assert_eq!(score(&critical, "main"), Some(-997));
}

#[test]
fn classes_of_pods() {
    let both = |amount: &str| json!({"cpu": amount, "memory": amount});
    let guaranteed = json!({"requests": both("1"), "limits": both("1")});
    let cases = [
        (json!([{}]), json!({}), QosClass::BestEffort),
        (json!([guaranteed]), json!({}), QosClass::Guaranteed),
        (json!([guaranteed, {}]), json!({}), QosClass::Burstable),
        (json!([{"requests": both("1"), "limits": both("2")}]), json!({}), QosClass::Burstable),
        (json!([{"limits": {"cpu": "1"}, "requests": {"cpu": "1000m"}}]), json!({}), QosClass::Burstable),
        (json!([{"requests": {"cpu": "0"}}]), json!({}), QosClass::BestEffort),
        (json!([{"requests": {"example.com/gpu": "1"}}]), json!({}), QosClass::BestEffort),
        (json!([{}]), guaranteed.clone(), QosClass::Guaranteed),
        (json!([guaranteed]), json!({"requests": {"cpu": "1"}}), QosClass::Burstable),
        (
            json!([{"requests": {"cpu": "1", "memory": "1Ki"}, "limits": {"cpu": "1000m", "memory": "1024"}}]),
            json!({}),
            QosClass::Guaranteed,
        ),
    ];
    for (containers, of_pod, expected) in cases {
        let containers: Vec<Value> = containers
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
            .map(|(at, resources)| json!({"name": format!("c{at}"), "image": "a", "resources": resources}))
            .collect();
        let pod = pod(json!({"containers": containers, "resources": of_pod}));
        assert_eq!(qos_class(&pod), expected, "{containers:?} {of_pod}");
    }
}

#[test]
fn the_sandbox_has_limits_over_all_containers() {
    let limits = |spec: Value| sandbox_spec(&pod(spec), &facts()).unwrap().limits;
    let with = |resources: Value| json!({"name": "c", "image": "a", "resources": resources});
    let none = Limits::default();
    assert_eq!(limits(json!({"containers": [with(json!({}))]})), Limits { cpu_shares: Some(2), ..none });
    let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}});
    let two = json!({"containers": [with(full.clone()), with(full.clone())]});
    let expected = Limits {
        cpu_shares: Some(1024),
        cpu_quota_us: Some(200_000),
        cpu_period_us: Some(100_000),
        memory: Some(2 << 30),
        ..none
    };
    assert_eq!(limits(two), expected);
    // One container without a limit: the pod has none.
    let mixed = json!({"containers": [with(full.clone()), with(json!({"requests": {"cpu": "500m"}}))]});
    assert_eq!(limits(mixed), Limits { cpu_shares: Some(1024), ..none });
    // Unless the pod itself says.
    let own = json!({
        "containers": [with(full), with(json!({}))],
        "resources": {"limits": {"memory": "3Gi"}},
        "overhead": {"memory": "1Gi"},
    });
    assert_eq!(limits(own), Limits { cpu_shares: Some(512), memory: Some(4 << 30), ..none });
    let mut facts = facts();
    facts.pod_pids_max = Some(100);
    let spec = sandbox_spec(&pod_of(json!({})), &facts).unwrap();
    assert_eq!(spec.limits.pids, Some(100));
    assert_eq!(spec.log_directory, PathBuf::from(format!("/var/log/pods/shop_web_{UID}")));
}

#[test]
fn users_and_groups() {
    let identity = |pod_security: Value, security: Value, user: &str| {
        let mut world = World::default();
        world.image.config.user = user.to_owned();
        let pod = pod(json!({
            "securityContext": pod_security,
            "containers": [{"name": "main", "image": "a", "securityContext": security}],
        }));
        world.describe(&pod, "main").map(|spec| (spec.identity.uid, spec.identity.gid, spec.identity.groups))
    };
    let none = || json!({});
    let cases = [
        (none(), none(), "", (0, 0, vec![])),
        (none(), none(), "app", (1000, 1001, vec![7, 8])),
        (json!({"runAsUser": 5}), none(), "app", (5, 0, vec![])),
        (json!({"runAsUser": 5}), json!({"runAsUser": 1000}), "", (1000, 1001, vec![7, 8])),
        (json!({"runAsGroup": 6}), none(), "app", (1000, 6, vec![7, 8])),
        (json!({"runAsGroup": 6}), json!({"runAsGroup": 9}), "app", (1000, 9, vec![7, 8])),
        (
            json!({"fsGroup": 20, "supplementalGroups": [8, 30]}),
            none(),
            "app",
            (1000, 1001, vec![7, 8, 20, 30]),
        ),
        (
            json!({"fsGroup": 20, "supplementalGroups": [30], "supplementalGroupsPolicy": "Strict"}),
            none(),
            "app",
            (1000, 1001, vec![20, 30]),
        ),
        (json!({"runAsNonRoot": true}), none(), "1000", (1000, 1001, vec![7, 8])),
        (json!({"runAsNonRoot": true}), json!({"runAsUser": 5}), "", (5, 0, vec![])),
        (json!({"runAsNonRoot": true}), json!({"runAsNonRoot": false}), "", (0, 0, vec![])),
    ];
    for (of_pod, own, user, expected) in cases {
        let found = identity(of_pod.clone(), own.clone(), user);
        assert_eq!(found.unwrap(), expected, "{of_pod} {own} {user}");
    }
    let end = format!("(pod: \"web_shop({UID})\", container: main)");
    let non_root = || json!({"runAsNonRoot": true});
    let refused = [
        (json!({"runAsUser": 0}), "", format!("container's runAsUser breaks non-root policy {end}")),
        (none(), "", format!("container has runAsNonRoot and image will run as root {end}")),
        (none(), "0:5", format!("container has runAsNonRoot and image will run as root {end}")),
        (
            none(),
            "app",
            format!(
                "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root {end}"
            ),
        ),
        (
            none(),
            "4294967296",
            format!(
                "container has runAsNonRoot and image has an invalid user id (4294967296). (Must be 1-(2147483647)): must be between 0 and 2147483647, inclusive {end}"
            ),
        ),
    ];
    for (own, user, message) in refused {
        assert_eq!(identity(non_root(), own, user).unwrap_err(), config(&message));
    }
    let error = identity(none(), none(), "nobody").unwrap_err();
    assert_eq!(error.reason, "CreateContainerError");
    let error = identity(json!({"runAsUser": -1}), none(), "").unwrap_err();
    assert_eq!(error, config("runAsUser -1 must be between 0 and 2147483647, inclusive"));
}

/// An image whose files only the runtime sees: nothing is looked up here, and nothing is made up.
#[test]
fn users_of_images_that_a_runtime_keeps() {
    let identity = |pod_security: Value, user: &str| {
        let mut world = World::default();
        (world.image.is_opaque, world.image.layers) = (true, Vec::new());
        world.image.config.user = user.to_owned();
        let pod = pod(json!({
            "securityContext": pod_security,
            "containers": [{"name": "main", "image": "a"}],
        }));
        world.describe(&pod, "main").map(|spec| spec.identity)
    };
    let lookup = |user: Option<&str>, gid, with_groups| {
        Some(UserLookup { user: user.map(str::to_owned), gid, with_groups })
    };
    let cases = [
        (json!({}), "", lookup(None, None, true), vec![]),
        (json!({}), "nobody:video", lookup(None, None, true), vec![]),
        (json!({"runAsUser": 5}), "nobody", lookup(Some("5"), None, true), vec![]),
        (json!({"runAsGroup": 6}), "nobody:video", lookup(Some("nobody"), Some(6), true), vec![]),
        (json!({"runAsGroup": 6}), "", lookup(Some("0"), Some(6), true), vec![]),
        (
            json!({"fsGroup": 7, "supplementalGroupsPolicy": "Strict"}),
            "9",
            lookup(None, None, false),
            vec![7],
        ),
    ];
    for (security, user, expected, groups) in cases {
        let found = identity(security.clone(), user).unwrap();
        assert_eq!((found.lookup, found.groups), (expected, groups), "{security} {user}");
    }
    assert!(identity(json!({"runAsNonRoot": true}), "nobody").is_err());
}

#[test]
fn rights_of_containers() {
    let pod = pod_of(json!({"securityContext": {
        "privileged": false, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}, "procMount": "Unmasked",
    }}));
    let mut own_users = pod.clone();
    own_users.spec.as_mut().unwrap().host_users = Some(false);
    let refused = World::default().describe(&pod, "main").unwrap_err();
    assert!(format!("{refused:?}").contains("hostUsers"), "{refused:?}");
    let pod = own_users;
    let security = World::default().describe(&pod, "main").unwrap().security;
    assert!(security.read_only_root && security.unmasked_proc && !security.privileged);
    assert!(!security.allow_privilege_escalation);
    assert_eq!(security.add_capabilities, ["NET_ADMIN"]);
    assert_eq!(security.drop_capabilities, ["ALL"]);
    let plain = World::default().describe(&pod_of(json!({})), "main").unwrap().security;
    assert!(plain.allow_privilege_escalation && !plain.unmasked_proc);
}

/// A server that checks pods never stores these. The node applies them neither to a pod nor to a container that is added later.
#[test]
fn rights_that_no_pod_may_have_are_refused() {
    let rows = [
        (json!({"procMount": "Unmasked"}), json!({}), "procMount Unmasked needs a pod with hostUsers: false"),
        (json!({"procMount": "Unmasked"}), json!({"hostUsers": true}), "procMount Unmasked needs"),
        (
            json!({"allowPrivilegeEscalation": false, "privileged": true}),
            json!({}),
            "privileged: true exclude",
        ),
        (
            json!({"allowPrivilegeEscalation": false, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}),
            json!({}),
            "CAP_SYS_ADMIN exclude",
        ),
        (json!({}), json!({"shareProcessNamespace": true, "hostPID": true}), "hostPID exclude each other"),
    ];
    for (own, of_pod, why) in rows {
        for list in ["containers", "initContainers", "ephemeralContainers"] {
            let mut spec = json!({"containers": [{"name": "other", "image": "a"}]});
            let container = json!({"name": "main", "image": "a", "securityContext": own});
            match spec[list].as_array_mut() {
                Some(others) => others.push(container),
                None => spec[list] = json!([container]),
            }
            merge(&mut spec, of_pod.clone());
            let pod = pod(spec);
            let refused = sandbox_spec(&pod, &facts()).unwrap_err();
            assert!(refused.is_final() && refused.message.contains(why), "{list}: {}", refused.message);
            if own != json!({}) {
                let refused = World::default().describe(&pod, "main").unwrap_err();
                assert!(refused.message.contains(why), "{list}: {}", refused.message);
            }
        }
    }
}

#[test]
fn system_calls_are_filtered_as_asked() {
    let seccomp = |by_default: bool, of_pod: Value, own: Value| {
        let mut world = World::default();
        world.facts.seccomp_default = by_default;
        let pod = pod(json!({"securityContext": of_pod, "containers": [
            {"name": "main", "image": "a", "securityContext": own},
        ]}));
        world.describe(&pod, "main").map(|spec| spec.security.seccomp)
    };
    let profile = |kind: &str| json!({"seccompProfile": {"type": kind}});
    let local = |name: &str| json!({"seccompProfile": {"type": "Localhost", "localhostProfile": name}});
    let none = || json!({});
    assert_eq!(seccomp(false, none(), none()).unwrap(), Seccomp::Unconfined);
    assert_eq!(seccomp(true, none(), none()).unwrap(), Seccomp::RuntimeDefault);
    assert_eq!(seccomp(true, profile("Unconfined"), none()).unwrap(), Seccomp::Unconfined);
    assert_eq!(seccomp(false, profile("RuntimeDefault"), none()).unwrap(), Seccomp::RuntimeDefault);
    assert_eq!(
        seccomp(false, profile("RuntimeDefault"), profile("Unconfined")).unwrap(),
        Seccomp::Unconfined
    );
    let file = Seccomp::File("/var/lib/kubelet/seccomp/a/b.json".into());
    assert_eq!(seccomp(false, none(), local("a/b.json")).unwrap(), file);
    for escape in ["../b", "a/../../b", "/etc/passwd", "a/..", "."] {
        assert!(seccomp(false, none(), local(escape)).is_err(), "{escape}");
    }
    assert_eq!(
        seccomp(false, none(), profile("Localhost")).unwrap_err(),
        config("localhostProfile must be set if seccompProfile type is Localhost.")
    );
    let mut privileged = profile("RuntimeDefault");
    merge(&mut privileged, json!({"privileged": true}));
    assert_eq!(seccomp(true, none(), privileged).unwrap(), Seccomp::Unconfined);
}

#[test]
fn only_safe_kernel_settings_are_made() {
    let with = |facts: &NodeFacts, name: &str, more: Value| {
        let mut spec = json!({
            "containers": [{"name": "main", "image": "a"}],
            "securityContext": {"sysctls": [{"name": name, "value": "1"}]},
        });
        merge(&mut spec, more);
        sandbox_spec(&pod(spec), facts).map(|spec| spec.sysctls)
    };
    let facts = facts();
    let forbidden = |problem: &str| SpecError {
        reason: "SysctlForbidden",
        message: format!("forbidden sysctl: {problem}"),
    };
    let none = || json!({});
    assert_eq!(with(&facts, "net.ipv4.tcp_syncookies", none()).unwrap()["net.ipv4.tcp_syncookies"], "1");
    assert_eq!(with(&facts, "net/ipv4/tcp_syncookies", none()).unwrap()["net.ipv4.tcp_syncookies"], "1");
    for name in ["kernel.msgmax", "net.core.somaxconn", "vm.swappiness", "kernel.panic", ""] {
        let error = with(&facts, name, none()).unwrap_err();
        assert_eq!(error, forbidden(&format!("{name:?} not allowlisted")));
        assert!(error.is_final());
    }
    assert_eq!(
        with(&facts, "net.ipv4.tcp_syncookies", json!({"hostNetwork": true})).unwrap_err(),
        forbidden("\"net.ipv4.tcp_syncookies\" not allowed with host Net enabled")
    );
    assert_eq!(
        with(&facts, "kernel.shm_rmid_forced", json!({"hostIPC": true})).unwrap_err(),
        forbidden("\"kernel.shm_rmid_forced\" not allowed with host IPC enabled")
    );
    let mut old = facts.clone();
    old.kernel = (4, 14);
    assert!(with(&old, "net.ipv4.tcp_rmem", none()).is_err());
    assert!(with(&facts, "net.ipv4.tcp_rmem", none()).is_ok());
    let mut allowed = facts.clone();
    allowed.allowed_unsafe_sysctls =
        vec!["net.core.*".to_owned(), "kernel.msgmax".to_owned(), "vm.swappiness".to_owned()];
    assert!(with(&allowed, "net.core.somaxconn", none()).is_ok());
    assert!(with(&allowed, "kernel.msgmax", none()).is_ok());
    // It is the whole node's, whatever the node allows.
    assert!(with(&allowed, "vm.swappiness", none()).is_err());
}

#[test]
fn names_of_hosts() {
    let long = format!("{}-x", "a".repeat(62));
    let hostname = |name: &str, more: Value| {
        let mut spec = json!({"containers": [{"name": "main", "image": "a"}]});
        merge(&mut spec, more);
        sandbox_spec(&pod_with(json!({"name": name}), spec), &facts()).map(|spec| spec.hostname)
    };
    let some = |name: &str| Some(name.to_owned());
    assert_eq!(hostname("web", json!({})).unwrap(), some("web"));
    assert_eq!(hostname("web", json!({"hostname": "db"})).unwrap(), some("db"));
    assert_eq!(hostname("web", json!({"hostname": "db", "subdomain": "x"})).unwrap(), some("db"));
    let full = json!({"hostname": "db", "subdomain": "x", "setHostnameAsFQDN": true});
    assert_eq!(hostname("web", full).unwrap(), some("db.x.shop.svc.cluster.local"));
    assert_eq!(hostname("web", json!({"setHostnameAsFQDN": true})).unwrap(), some("web"));
    assert_eq!(hostname(&long, json!({})).unwrap(), some(&"a".repeat(62)));
    assert_eq!(hostname("web", json!({"hostNetwork": true})).unwrap(), None);
    assert_eq!(hostname("web", json!({"hostnameOverride": "a.b.c"})).unwrap(), some("a.b.c"));
    for wrong in [json!({"hostname": "A_b"}), json!({"subdomain": "a.b"}), json!({"hostnameOverride": "-"})] {
        assert_eq!(hostname("web", wrong).unwrap_err().reason, "FailedCreatePodSandBox");
    }
    let mut spec = json!({"containers": [{"name": "main", "image": "a"}]});
    merge(&mut spec, json!({"subdomain": "x", "setHostnameAsFQDN": true}));
    let env = World::default().describe(&pod(spec), "main").unwrap().env;
    assert_eq!(env[0], "HOSTNAME=web.x.shop.svc.cluster.local");
    let too_long = json!({"subdomain": "x".repeat(40), "setHostnameAsFQDN": true});
    let message = hostname("web", too_long).unwrap_err().message;
    assert!(
        message.ends_with("is too long (64 characters is the max, 67 characters requested)"),
        "{message}"
    );
}

#[test]
fn what_is_not_here_is_refused_or_named() {
    let refused = |more: Value| {
        let mut spec = json!({"containers": [{"name": "main", "image": "a"}]});
        merge(&mut spec, more);
        sandbox_spec(&pod(spec), &facts()).unwrap_err()
    };
    assert_eq!(refused(json!({"hostUsers": false})).reason, "FailedCreatePodSandBox");
    let app_armor = refused(json!({"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}));
    assert_eq!(app_armor.message, "Cannot enforce AppArmor: AppArmor is not enabled on the host");
    assert_eq!(
        refused(json!({"resources": {"limits": {"memory": "lots"}}})).reason,
        "FailedCreatePodSandBox"
    );
    let pod = pod_of(json!({
        "resources": {"limits": {"hugepages-2Mi": "2Mi"}},
        "securityContext": {"seLinuxOptions": {"level": "s0"}},
    }));
    assert_eq!(not_applied(&pod, "main").unwrap(), ["SELinux options", "limit of huge pages"]);
    assert_eq!(not_applied(&pod_of(json!({})), "main").unwrap(), Vec::<String>::new());
}

/// Pods whose names would be paths.
#[test]
fn names_that_are_paths_are_refused() {
    for (key, name) in [
        ("name", "../../etc"),
        ("name", "a/b"),
        ("namespace", ".."),
        ("uid", "../x"),
        ("uid", ""),
        ("uid", "a\u{0}"),
    ] {
        let mut pod = serde_json::to_value(pod_of(json!({}))).unwrap();
        pod["metadata"][key] = json!(name);
        let pod: Pod = serde_json::from_value(pod).unwrap();
        assert!(sandbox_spec(&pod, &facts()).is_err(), "{key} {name}");
        assert!(World::default().describe(&pod, "main").is_err(), "{key} {name}");
    }
    let odd = pod(json!({"containers": [{"name": "../main", "image": "a"}]}));
    assert!(World::default().describe(&odd, "../main").is_err());
}

fn mount(fields: Value) -> Pod {
    let mut mount = json!({"name": "data", "mountPath": "/data"});
    merge(&mut mount, fields);
    pod_of(
        json!({"env": [{"name": "ID", "value": "7"}, {"name": "UP", "value": ".."}], "volumeMounts": [mount]}),
    )
}

#[test]
fn volumes_are_mounted() {
    let world = World::default().with_volume("data", "/v/data", false).with_volume("conf", "/v/conf", true);
    let one = |fields: Value| {
        let spec = world.describe(&mount(fields), "main").unwrap();
        (spec.mounts[0].source.clone(), spec.mounts[0].read_only, spec.mounts[0].propagation)
    };
    let data = || PathBuf::from("/v/data");
    assert_eq!(one(json!({})), (data(), false, Propagation::Private));
    assert_eq!(one(json!({"readOnly": true})), (data(), true, Propagation::Private));
    assert_eq!(one(json!({"name": "conf"})), ("/v/conf".into(), true, Propagation::Private));
    assert_eq!(one(json!({"subPath": "a/b"})).0, data().join("a/b"));
    assert_eq!(one(json!({"subPathExpr": "x-$(ID)"})).0, data().join("x-7"));
    assert_eq!(one(json!({"mountPropagation": "HostToContainer"})).2, Propagation::FromHost);
    let refused = [
        (json!({"name": "none"}), "cannot find volume \"none\" to mount into container \"main\""),
        (json!({"subPath": "/etc"}), "error SubPath `/etc` must not be an absolute path"),
        (json!({"subPath": "a/../.."}), "unable to provision SubPath `a/../..`: must not contain '..'"),
        (json!({"subPathExpr": "$(UP)/x"}), "unable to provision SubPath `../x`: must not contain '..'"),
        (json!({"subPathExpr": "$(B)/$(A)"}), "missing value for A, B"),
        (json!({"mountPath": "/a/../../etc"}), "invalid container mount point \"/a/../../etc\""),
        (json!({"mountPath": "/"}), "invalid container mount point \"/\""),
        (
            json!({"mountPropagation": "Bidirectional"}),
            "Bidirectional mount propagation is available only to privileged containers",
        ),
        (json!({"mountPropagation": "Maybe"}), "invalid MountPropagation mode: \"Maybe\""),
        (
            json!({"readOnly": true, "recursiveReadOnly": "Enabled"}),
            "failed to resolve recursive read-only mode: volume \"data\" requested recursive read-only mode, but it is not supported by the runtime",
        ),
    ];
    for (fields, message) in refused {
        assert_eq!(world.describe(&mount(fields.clone()), "main").unwrap_err(), config(message), "{fields}");
    }
}

#[test]
fn outer_mounts_come_before_inner_ones_and_own_files_step_aside() {
    let mut world = World::default().with_volume("data", "/v/data", false);
    world.files.hosts = Some("/p/etc-hosts".into());
    world.files.resolver = Some("/p/etc-resolv.conf".into());
    world.files.termination_log = Some("/p/log".into());
    let pod = pod_of(json!({
        "terminationMessagePath": "/dev/termination-log",
        "volumeMounts": [
            {"name": "data", "mountPath": "/a/b/c"},
            {"name": "data", "mountPath": "/a"},
            {"name": "data", "mountPath": "/etc/hosts"},
        ],
    }));
    let spec = world.describe(&pod, "main").unwrap();
    let targets: Vec<&Path> = spec.mounts.iter().map(|mount| mount.target.as_path()).collect();
    let expected = ["/a", "/etc/hosts", "/etc/resolv.conf", "/dev/termination-log", "/a/b/c"];
    assert_eq!(targets, expected.map(Path::new));
    assert_eq!(spec.mounts[1].source, PathBuf::from("/v/data"));
}

#[test]
fn hosts_files() {
    let ips = ["10.1.0.5".to_owned(), "fd01::5".to_owned()];
    let of = |more: Value, ips: &[String]| {
        let mut spec = json!({"containers": [{"name": "main", "image": "a"}]});
        merge(&mut spec, more);
        let facts = NodeFacts { hosts: "127.0.0.1 node\n".to_owned(), ..facts() };
        hosts_file(&pod(spec), &facts, ips)
    };
    let plain = of(json!({}), &ips).unwrap().unwrap();
    assert!(plain.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"), "{plain}");
    assert!(plain.ends_with("\n10.1.0.5\tweb\nfd01::5\tweb\n"), "{plain}");
    let named = of(json!({"hostname": "db", "subdomain": "x"}), &ips).unwrap().unwrap();
    assert!(named.contains("\n10.1.0.5\tdb.x.shop.svc.cluster.local\tdb\n"), "{named}");
    let aliases = json!({"hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a", "b"]}]});
    let aliased = of(aliases, &ips).unwrap().unwrap();
    assert!(aliased.ends_with("\n\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n"), "{aliased}");
    assert_eq!(of(json!({}), &[]).unwrap(), None);
    let host = of(json!({"hostNetwork": true}), &[]).unwrap().unwrap();
    assert_eq!(host, "# Kubernetes-managed hosts file (host network).\n127.0.0.1 node\n");
    let broken = json!({"hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a\n6.6.6.6 bank"]}]});
    assert!(of(broken, &ips).is_err());
}

#[test]
fn resolvers() {
    let host = "# a node\nnameserver 1.1.1.1\nsearch old\nsearch example.com. . corp\noptions rotate ndots:2 ndots:3\n";
    let facts = NodeFacts { resolver: ResolverConfig::parse(host), ..facts() };
    let of = |facts: &NodeFacts, more: Value| {
        let mut spec = json!({"containers": [{"name": "main", "image": "a"}]});
        merge(&mut spec, more);
        pod_resolver(&pod(spec), facts).map(|(config, notes)| (config.text(), notes))
    };
    let cluster = "search shop.svc.cluster.local svc.cluster.local cluster.local example.com corp\nnameserver 10.96.0.10\noptions ndots:5\n";
    let default = "search example.com corp\nnameserver 1.1.1.1\noptions ndots:3 rotate\n";
    let cases = [
        (json!({}), cluster),
        (json!({"dnsPolicy": "ClusterFirst"}), cluster),
        (json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true}), default),
        (json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true}), cluster),
        (json!({"dnsPolicy": "Default"}), default),
        (
            json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["9.9.9.9", "9.9.9.9"], "searches": ["x"],
                "options": [{"name": "ndots", "value": "1"}, {"name": "edns0"}]}}),
            "search x\nnameserver 9.9.9.9\noptions edns0 ndots:1\n",
        ),
        (
            json!({"dnsConfig": {"options": [{"name": "ndots", "value": "1"}], "searches": ["corp", "z"]}}),
            "search shop.svc.cluster.local svc.cluster.local cluster.local example.com corp z\nnameserver 10.96.0.10\noptions ndots:1\n",
        ),
    ];
    for (spec, expected) in cases {
        let (text, notes) = of(&facts, spec.clone()).unwrap();
        assert_eq!(text, expected, "{spec}");
        assert!(notes.is_empty(), "{spec}");
    }
    let missing = NodeFacts { cluster_dns: Vec::new(), ..facts.clone() };
    let (text, notes) = of(&missing, json!({})).unwrap();
    assert_eq!((text.as_str(), notes[0].reason), (default, "MissingClusterDNS"));
    let servers = json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4"]}});
    let (text, notes) = of(&facts, servers).unwrap();
    assert_eq!(text.lines().count(), 3);
    assert_eq!(
        notes[0].message,
        "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 1.0.0.1 1.0.0.2 1.0.0.3"
    );
    let searches: Vec<String> = (0..40).map(|at| format!("domain-{at}")).collect();
    let many = json!({"dnsPolicy": "None", "dnsConfig": {"searches": searches}});
    assert_eq!(of(&facts, many).unwrap().1[0].reason, "DNSConfigForming");
    let broken = json!({"dnsPolicy": "None", "dnsConfig": {"searches": ["a\nnameserver 6.6.6.6"]}});
    assert!(of(&facts, broken).is_err());
}

proptest! {
    /// No text makes expansion fail, and a text without a reference stays as it is.
    #[test]
    fn any_text_can_be_expanded(text in "\\PC{0,64}|[$()A-C]{0,64}") {
        let pod = pod_of(json!({
            "env": [{"name": "A", "value": "1"}, {"name": "V", "value": text}],
            "command": ["run", text],
        }));
        let spec = World::default().describe(&pod, "main").unwrap();
        if !text.contains('$') {
            prop_assert_eq!(&spec.command[1], &text);
        }
        // A reference that is not known stays one: what is left over can be expanded again.
        prop_assert!(spec.command[1].len() <= text.len());
    }

    /// No path to a volume leads a mount out of it, whatever its owner writes.
    #[test]
    fn no_sub_path_leads_out(path in "[./a$()I]{1,24}", expression in any::<bool>()) {
        let field = if expression { "subPathExpr" } else { "subPath" };
        let world = World::default().with_volume("data", "/v/data", false);
        if let Ok(spec) = world.describe(&mount(json!({field: path})), "main") {
            let source = &spec.mounts[0].source;
            prop_assert!(source.starts_with("/v/data"));
            prop_assert!(!source.components().any(|part| part == std::path::Component::ParentDir));
        }
    }

    /// A quantity that is odd in any way is refused or counted, and never a panic.
    #[test]
    fn any_amount_is_refused_or_counted(text in "[0-9.]{0,24}[eEmkMGTPi+-]{0,3}[0-9]{0,6}") {
        let pod = pod_of(json!({"resources": {"limits": {"cpu": text, "memory": text}, "requests": {"memory": text}}}));
        let _ = sandbox_spec(&pod, &facts());
        let _ = World::default().describe(&pod, "main");
    }
}
