//! Kernel settings of a pod: which are safe for its neighbours.

use std::collections::BTreeMap;

use crate::{NodeFacts, SpecError, pod::PodView};

/// Settings that a pod has for itself and that harm no other, with the kernel that has them so.
const SAFE: &[(&str, (u32, u32))] = &[
    ("kernel.shm_rmid_forced", (0, 0)),
    ("net.ipv4.ip_local_port_range", (0, 0)),
    ("net.ipv4.tcp_syncookies", (0, 0)),
    ("net.ipv4.ping_group_range", (0, 0)),
    ("net.ipv4.ip_unprivileged_port_start", (0, 0)),
    ("net.ipv4.ip_local_reserved_ports", (3, 16)),
    ("net.ipv4.tcp_keepalive_time", (4, 5)),
    ("net.ipv4.tcp_fin_timeout", (4, 6)),
    ("net.ipv4.tcp_keepalive_intvl", (4, 5)),
    ("net.ipv4.tcp_keepalive_probes", (4, 5)),
    ("net.ipv4.tcp_rmem", (4, 15)),
    ("net.ipv4.tcp_wmem", (4, 15)),
    ("net.ipv4.tcp_slow_start_after_idle", (4, 15)),
    ("net.ipv4.tcp_notsent_lowat", (4, 6)),
];

/// The settings of a pod, all of them allowed.
pub(crate) fn of_pod(view: &PodView<'_>, facts: &NodeFacts) -> Result<BTreeMap<String, String>, SpecError> {
    let mut all = BTreeMap::new();
    for sysctl in view.security().and_then(|pod| pod.sysctls.as_ref()).into_iter().flatten() {
        let name = normalized(&sysctl.name);
        check(&name, view, facts).map_err(|problem| {
            SpecError::refused("SysctlForbidden", format!("forbidden sysctl: {problem}"))
        })?;
        all.insert(name, sysctl.value.clone());
    }
    Ok(all)
}

fn check(name: &str, view: &PodView<'_>, facts: &NodeFacts) -> Result<(), String> {
    let is_safe = SAFE.iter().any(|(safe, since)| *safe == name && facts.kernel >= *since);
    let is_allowed = || {
        facts.allowed_unsafe_sysctls.iter().map(|pattern| normalized(pattern)).any(|pattern| {
            match pattern.split_once('*') {
                Some((prefix, _)) => name.starts_with(prefix),
                None => name == pattern,
            }
        })
    };
    let namespace = namespace(name);
    if !(is_safe || is_allowed()) || namespace.is_none() || name.contains("..") {
        return Err(format!("{name:?} not allowlisted"));
    }
    let spec = view.spec;
    let is_hosts = match namespace {
        Some("IPC") => spec.host_ipc.unwrap_or(false),
        Some("Net") => spec.host_network.unwrap_or(false),
        Some("User") => spec.host_users.unwrap_or(true),
        Some(_) | None => false,
    };
    match namespace {
        Some(namespace) if is_hosts => Err(format!("{name:?} not allowed with host {namespace} enabled")),
        Some(_) | None => Ok(()),
    }
}

/// Which kind of namespace has a setting for itself; none when all pods share it.
fn namespace(name: &str) -> Option<&'static str> {
    match name {
        "kernel.domainname" => Some("UTS"),
        "kernel.sem"
        | "kernel.shmall"
        | "kernel.shmmax"
        | "kernel.shmmni"
        | "kernel.shm_rmid_forced"
        | "kernel.msgmax"
        | "kernel.msgmnb"
        | "kernel.msgmni" => Some("IPC"),
        _ if name.starts_with("net.") => Some("Net"),
        _ if name.starts_with("fs.mqueue.") => Some("IPC"),
        _ if name.starts_with("user.") => Some("User"),
        _ => None,
    }
}

/// With dots between its parts: `net/ipv4/conf/eno2.100/rp_filter` is `net.ipv4.conf.eno2/100.rp_filter`.
fn normalized(name: &str) -> String {
    match name.find(['.', '/']).map(|at| name.as_bytes()[at]) {
        Some(b'/') => name
            .chars()
            .map(|letter| match letter {
                '.' => '/',
                '/' => '.',
                other => other,
            })
            .collect(),
        Some(_) | None => name.to_owned(),
    }
}
