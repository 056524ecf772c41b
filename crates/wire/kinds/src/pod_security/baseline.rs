//! The checks of the baseline level.

use std::collections::BTreeSet;

use lazaret_json::Value;

use super::{
    Check, CheckVersion, PodFields, Violation,
    words::{containers, plural, quoted, setters, unique},
};
use crate::value::{has, is_true, list, number, some, text, texts};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "appArmorProfile", versions: &[CheckVersion { minor: 0, check: app_armor }], replaces: None },
    Check {
        id: "capabilities_baseline",
        versions: &[CheckVersion { minor: 0, check: capabilities }],
        replaces: None,
    },
    Check {
        id: "hostNamespaces",
        versions: &[CheckVersion { minor: 0, check: host_namespaces }],
        replaces: None,
    },
    Check {
        id: "hostPathVolumes",
        versions: &[CheckVersion { minor: 0, check: host_paths }],
        replaces: None,
    },
    Check { id: "hostPorts", versions: &[CheckVersion { minor: 0, check: host_ports }], replaces: None },
    Check {
        id: "hostProbesAndHostLifecycle",
        versions: &[CheckVersion { minor: 34, check: hosts }],
        replaces: None,
    },
    Check { id: "privileged", versions: &[CheckVersion { minor: 0, check: privileged }], replaces: None },
    Check {
        id: "procMount",
        versions: &[
            CheckVersion { minor: 0, check: proc_mount },
            CheckVersion { minor: 35, check: |pod| if pod.has_own_users() { None } else { proc_mount(pod) } },
        ],
        replaces: None,
    },
    Check {
        id: "seLinuxOptions",
        versions: &[
            CheckVersion { minor: 0, check: |pod| se_linux(pod, &SE_LINUX_TYPES[..4]) },
            CheckVersion { minor: 31, check: |pod| se_linux(pod, SE_LINUX_TYPES) },
        ],
        replaces: None,
    },
    Check {
        id: "seccompProfile_baseline",
        versions: &[
            CheckVersion { minor: 0, check: seccomp_annotations },
            CheckVersion { minor: 19, check: seccomp },
        ],
        replaces: None,
    },
    Check {
        id: "sysctls",
        versions: &[
            CheckVersion { minor: 0, check: |pod| sysctls(pod, 5) },
            CheckVersion { minor: 27, check: |pod| sysctls(pod, 6) },
            CheckVersion { minor: 29, check: |pod| sysctls(pod, 10) },
            CheckVersion { minor: 32, check: |pod| sysctls(pod, 12) },
            CheckVersion { minor: 37, check: |pod| sysctls(pod, 14) },
        ],
        replaces: None,
    },
    Check {
        id: "windowsHostProcess",
        versions: &[CheckVersion { minor: 0, check: host_process }],
        replaces: None,
    },
];

const CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// The last came with 1.31.
const SE_LINUX_TYPES: &[&str] =
    &["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
/// In the order in which they were allowed.
const SYSCTLS: &[&str] = &[
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_notsent_lowat",
];
const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER_ANNOTATION: &str = "container.seccomp.security.alpha.kubernetes.io/";
/// Profiles of AppArmor and seccomp that protect the node.
pub(super) const PROFILES: &[&str] = &["RuntimeDefault", "Localhost"];

/// The type of an AppArmor profile that does not protect the node.
fn bad_app_armor(holder: &Value) -> Option<&str> {
    let profile = some(&holder["securityContext"], "appArmorProfile")?;
    Some(text(profile, "type")).filter(|kind| !PROFILES.contains(kind))
}

fn app_armor(pod: &PodFields<'_>) -> Option<Violation> {
    let bad = |holder: &Value| bad_app_armor(holder).is_some();
    let values = pod.containers().chain([pod.spec]).filter_map(bad_app_armor);
    let mut values: Vec<String> = unique(values).into_iter().map(str::to_owned).collect();
    let mut who: Vec<String> = setters(bad(pod.spec), &pod.named(bad)).into_iter().collect();
    let good =
        |value: &str| value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
    let annotations: BTreeSet<String> = pod
        .annotations
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| {
            key.starts_with(APP_ARMOR_ANNOTATION) && !good(value.as_str().unwrap_or_default())
        })
        .map(|(key, value)| format!("{key}={:?}", value.as_str().unwrap_or_default()))
        .collect();
    if !annotations.is_empty() {
        who.push(plural("annotation", "annotations", annotations.len()).to_owned());
        values.extend(annotations);
    }
    if who.is_empty() {
        return None;
    }
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len());
    let values = quoted(values.iter().map(String::as_str));
    Some(Violation::new(
        reason,
        format!("{} must not set AppArmor profile type to {values}", who.join(" and ")),
    ))
}

/// Capabilities that are not allowed, of those that a container adds.
fn added(container: &Value) -> impl Iterator<Item = &str> {
    texts(&container["securityContext"]["capabilities"], "add").filter(|name| !CAPABILITIES.contains(name))
}

fn capabilities(pod: &PodFields<'_>) -> Option<Violation> {
    let names = pod.named(|container| added(container).next().is_some());
    let forbidden = unique(pod.containers().flat_map(added));
    (!names.is_empty()).then(|| {
        let detail = format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&names),
            quoted(forbidden)
        );
        Violation::new("non-default capabilities", detail)
    })
}

fn host_namespaces(pod: &PodFields<'_>) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| is_true(pod.spec, field));
    let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
    (!shared.is_empty()).then(|| Violation::new("host namespaces", shared.join(", ")))
}

fn host_paths(pod: &PodFields<'_>) -> Option<Violation> {
    let names = list(pod.spec, "volumes").iter().filter(|volume| has(volume, "hostPath"));
    let names: Vec<&str> = names.map(|volume| text(volume, "name")).collect();
    (!names.is_empty()).then(|| {
        let detail =
            format!("{} {}", plural("volume", "volumes", names.len()), quoted(names.iter().copied()));
        Violation::new("hostPath volumes", detail)
    })
}

fn host_ports(pod: &PodFields<'_>) -> Option<Violation> {
    let on_host = |container: &Value| -> Vec<String> {
        let ports = list(container, "ports").iter().map(|port| number(port, "hostPort"));
        ports.filter(|port| *port != 0).map(|port| port.to_string()).collect()
    };
    let names = pod.named(|container| !on_host(container).is_empty());
    let ports: BTreeSet<String> = pod.containers().flat_map(on_host).collect();
    (!names.is_empty()).then(|| {
        let detail = format!(
            "{} {} {} {}",
            containers(&names),
            plural("uses", "use", names.len()),
            plural("hostPort", "hostPorts", ports.len()),
            ports.iter().cloned().collect::<Vec<_>>().join(", ")
        );
        Violation::new("hostPort", detail)
    })
}

/// Probes and hooks that reach another host than their pod.
fn hosts(pod: &PodFields<'_>) -> Option<Violation> {
    let of = |container: &Value| -> Vec<String> {
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|field| &container[field]);
        let hooks = ["postStart", "preStop"].map(|field| &container["lifecycle"][field]);
        let handlers = probes.into_iter().chain(hooks);
        let hosts =
            handlers.flat_map(|handler| ["httpGet", "tcpSocket"].map(|kind| text(&handler[kind], "host")));
        hosts.filter(|host| !host.is_empty()).map(str::to_owned).collect()
    };
    let names: Vec<&str> = unique(pod.named(|container| !of(container).is_empty())).into_iter().collect();
    let hosts: BTreeSet<String> = pod.containers().flat_map(of).collect();
    (!names.is_empty()).then(|| {
        let detail = format!(
            "{} {} {} {}",
            containers(&names),
            plural("uses", "use", names.len()),
            plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len()),
            quoted(hosts.iter().map(String::as_str))
        );
        Violation::new("probe or lifecycle host", detail)
    })
}

fn privileged(pod: &PodFields<'_>) -> Option<Violation> {
    let names = pod.named(|container| is_true(&container["securityContext"], "privileged"));
    (!names.is_empty()).then(|| {
        let detail = format!("{} must not set securityContext.privileged=true", containers(&names));
        Violation::new("privileged", detail)
    })
}

/// How a container sees `/proc`, if otherwise than usual.
fn bad_proc_mount(container: &Value) -> Option<&str> {
    let kind = some(&container["securityContext"], "procMount")?.as_str()?;
    Some(kind).filter(|kind| *kind != "Default")
}

pub(super) fn proc_mount(pod: &PodFields<'_>) -> Option<Violation> {
    let names = pod.named(|container| bad_proc_mount(container).is_some());
    let kinds = unique(pod.containers().filter_map(bad_proc_mount));
    (!names.is_empty()).then(|| {
        let detail =
            format!("{} must not set securityContext.procMount to {}", containers(&names), quoted(kinds));
        Violation::new("procMount", detail)
    })
}

fn se_linux(pod: &PodFields<'_>, types: &[&str]) -> Option<Violation> {
    let options = |holder: &Value| some(&holder["securityContext"], "seLinuxOptions").cloned();
    let bad = |holder: &Value| {
        options(holder).is_some_and(|options| {
            !types.contains(&text(&options, "type"))
                || ["user", "role"].iter().any(|field| !text(&options, field).is_empty())
        })
    };
    let who = setters(bad(pod.spec), &pod.named(bad))?;
    let all: Vec<Value> = pod.containers().chain([pod.spec]).filter_map(options).collect();
    let wrong = unique(all.iter().map(|options| text(options, "type")).filter(|kind| !types.contains(kind)));
    let mut data = Vec::new();
    if !wrong.is_empty() {
        data.push(format!("{} {}", plural("type", "types", wrong.len()), quoted(wrong)));
    }
    for field in ["user", "role"] {
        if all.iter().any(|options| !text(options, field).is_empty()) {
            data.push(format!("{field} may not be set"));
        }
    }
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {}", data.join("; "));
    Some(Violation::new("seLinuxOptions", detail))
}

/// Where profiles of seccomp stood before they had a field.
fn seccomp_annotations(pod: &PodFields<'_>) -> Option<Violation> {
    let good = |value: &str| {
        ["runtime/default", "docker/default"].contains(&value) || value.starts_with("localhost/")
    };
    let mut keys = vec![SECCOMP_POD_ANNOTATION.to_owned()];
    keys.extend(
        pod.containers()
            .map(|container| format!("{SECCOMP_CONTAINER_ANNOTATION}{}", text(container, "name"))),
    );
    let forbidden: BTreeSet<String> = keys
        .iter()
        .filter_map(|key| Some((key, pod.annotations.get(key.as_str())?.as_str().unwrap_or_default())))
        .filter(|(_, value)| !good(value))
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    (!forbidden.is_empty()).then(|| {
        let word = plural("annotation", "annotations", forbidden.len());
        let all = forbidden.iter().cloned().collect::<Vec<_>>().join(", ");
        Violation::new("seccompProfile", format!("forbidden {word} {all}"))
    })
}

/// The type of a seccomp profile, where there is one.
pub(super) fn seccomp_type(holder: &Value) -> Option<&str> {
    some(&holder["securityContext"], "seccompProfile").map(|profile| text(profile, "type"))
}

pub(super) fn seccomp(pod: &PodFields<'_>) -> Option<Violation> {
    let bad = |holder: &Value| seccomp_type(holder).is_some_and(|kind| !PROFILES.contains(&kind));
    let who = setters(bad(pod.spec), &pod.named(bad))?;
    let kinds = pod.containers().chain([pod.spec]).filter_map(seccomp_type);
    let kinds = unique(kinds.filter(|kind| !PROFILES.contains(kind)));
    let detail = format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(kinds));
    Some(Violation::new("seccompProfile", detail))
}

fn sysctls(pod: &PodFields<'_>, allowed: usize) -> Option<Violation> {
    let names = list(pod.security(), "sysctls").iter().map(|sysctl| text(sysctl, "name"));
    let forbidden: Vec<&str> = names.filter(|name| !SYSCTLS[..allowed].contains(name)).collect();
    (!forbidden.is_empty()).then(|| Violation::new("forbidden sysctls", forbidden.join(", ")))
}

fn host_process(pod: &PodFields<'_>) -> Option<Violation> {
    let bad = |holder: &Value| is_true(&holder["securityContext"]["windowsOptions"], "hostProcess");
    let who = setters(bad(pod.spec), &pod.named(bad))?;
    let detail = format!("{who} must not set securityContext.windowsOptions.hostProcess=true");
    Some(Violation::new("hostProcess", detail))
}
