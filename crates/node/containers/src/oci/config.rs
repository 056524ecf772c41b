//! The whole of it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Architecture, capabilities, devices, mounts, seccomp};
use crate::{ContainerSpec, Limits, Propagation, RuntimeError, SandboxSpec, Seccomp};

/// Paths of `/proc` and `/sys` that tell of the host, or change it.
const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];
const READ_ONLY: &[&str] = &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Facts beyond a container's spec: its paths, and the abilities of this machine.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The root file system.
    pub(crate) rootfs: PathBuf,
    /// Namespaces of the sandbox, by OCI's kinds (`network`, `ipc`, `uts`, `pid`).
    pub(crate) namespaces: Vec<(&'static str, PathBuf)>,
    pub(crate) shm: Option<PathBuf>,
    pub(crate) cgroup: Option<String>,
    pub(crate) has_cgroup_v2: bool,
    /// The lowest value of `oom_score_adj` that this process may give.
    pub(crate) oom_score_floor: i32,
    /// For which machine system calls can be filtered; none when they cannot.
    pub(crate) seccomp: Option<Architecture>,
}

/// The OCI spec of a container, before CDI.
///
/// # Errors
/// When a seccomp file cannot be read.
pub(crate) fn config(
    sandbox: &SandboxSpec,
    spec: &ContainerSpec,
    place: &Place,
) -> Result<Value, RuntimeError> {
    let privileged = spec.security.privileged;
    let mut linux = json!({
        "namespaces": namespaces(sandbox, place),
        "resources": resources(&spec.limits, place, privileged),
        "rootfsPropagation": root_propagation(spec),
    });
    if let Some(cgroup) = &place.cgroup {
        linux["cgroupsPath"] = json!(cgroup);
    }
    if privileged {
        linux["devices"] = json!(devices::host_nodes());
    } else if !spec.security.unmasked_proc {
        linux["maskedPaths"] = json!(MASKED);
        linux["readonlyPaths"] = json!(READ_ONLY);
    }
    let process = process(sandbox, spec, place);
    if let Some(filter) = filter(spec, place, &process)? {
        linux["seccomp"] = filter;
    }
    Ok(json!({
        "ociVersion": "1.0.2",
        "process": process,
        "root": {"path": place.rootfs, "readonly": spec.security.read_only_root},
        "mounts": mounts::of(spec, place.shm.as_deref()),
        "linux": linux,
    }))
}

fn process(sandbox: &SandboxSpec, spec: &ContainerSpec, place: &Place) -> Value {
    let capabilities = capabilities::of(&spec.security, capabilities::held());
    let working_directory = match &spec.working_directory {
        path if path.as_os_str().is_empty() => Path::new("/"),
        path => path,
    };
    let mut process = json!({
        "terminal": spec.tty,
        "user": {"uid": spec.identity.uid, "gid": spec.identity.gid, "additionalGids": spec.identity.groups},
        "args": spec.command,
        "env": environment(sandbox, spec),
        "cwd": working_directory,
        "capabilities": {"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
        "noNewPrivileges": !spec.security.allow_privilege_escalation && !spec.security.privileged,
    });
    if let Some(wanted) = spec.limits.oom_score_adjustment {
        process["oomScoreAdj"] = json!(wanted.clamp(-1_000, 1_000).max(place.oom_score_floor));
    }
    process
}

fn environment(sandbox: &SandboxSpec, spec: &ContainerSpec) -> Vec<String> {
    let mut all = vec![PATH.to_owned()];
    if spec.tty {
        all.push("TERM=xterm".into());
    }
    all.extend(sandbox.hostname.as_ref().map(|name| format!("HOSTNAME={name}")));
    // Later ones win, at the place of the first.
    for variable in &spec.env {
        let name = variable.split('=').next().unwrap_or_default();
        let same = all.iter().position(|other| other.split('=').next() == Some(name));
        match same {
            Some(at) => all[at].clone_from(variable),
            None => all.push(variable.clone()),
        }
    }
    all
}

fn namespaces(sandbox: &SandboxSpec, place: &Place) -> Vec<Value> {
    let mut all = vec![json!({"type": "mount"})];
    if !sandbox.namespaces.host_pid && !sandbox.namespaces.shared_pid {
        all.push(json!({"type": "pid"}));
    }
    if place.has_cgroup_v2 {
        all.push(json!({"type": "cgroup"}));
    }
    all.extend(place.namespaces.iter().map(|(kind, path)| json!({"type": kind, "path": path})));
    all
}

fn resources(limits: &Limits, place: &Place, privileged: bool) -> Value {
    let mut all = json!({"devices": devices::rules(privileged)});
    if let Some(bytes) = limits.memory {
        // No swap beyond the limit.
        all["memory"] = json!({"limit": bytes, "swap": bytes});
        if place.has_cgroup_v2 {
            // As kubelet has it: when one process is killed for memory, so is the container.
            all["unified"] = json!({"memory.oom.group": "1"});
        }
    }
    if let Some(pids) = limits.pids {
        all["pids"] = json!({"limit": pids});
    }
    let mut cpu = json!({});
    if let Some(shares) = limits.cpu_shares {
        cpu["shares"] = json!(shares.max(2));
    }
    if let Some(quota) = limits.cpu_quota_us {
        cpu["quota"] = json!(quota);
        cpu["period"] = json!(limits.cpu_period_us.unwrap_or(100_000));
    }
    if cpu != json!({}) {
        all["cpu"] = cpu;
    }
    all
}

/// A mount travels no further than the root's own propagation allows.
fn root_propagation(spec: &ContainerSpec) -> &'static str {
    let has = |wanted| spec.mounts.iter().any(|mount| mount.propagation == wanted);
    if has(Propagation::Both) {
        "rshared"
    } else if has(Propagation::FromHost) {
        "rslave"
    } else {
        "rprivate"
    }
}

fn filter(spec: &ContainerSpec, place: &Place, process: &Value) -> Result<Option<Value>, RuntimeError> {
    let Some(architecture) = place.seccomp.filter(|_| !spec.security.privileged) else { return Ok(None) };
    match &spec.security.seccomp {
        Seccomp::Unconfined => Ok(None),
        Seccomp::RuntimeDefault => {
            let held = process["capabilities"]["bounding"].as_array().map(Vec::as_slice).unwrap_or_default();
            let held: Vec<&str> = held.iter().filter_map(Value::as_str).collect();
            Ok(Some(seccomp::profile(architecture, &held)))
        }
        Seccomp::File(path) => {
            let filter = crate::layout::read(path)?;
            filter.map(Some).ok_or_else(|| {
                RuntimeError::NotPossible(format!("seccomp profile {} is not there", path.display()))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, RootFs, Security};

    fn spec() -> ContainerSpec {
        let key = Key { pod_uid: "u".into(), name: "c".into(), attempt: 0 };
        ContainerSpec::new(key, RootFs::Directory("/r".into()), vec!["/bin/true".into()])
    }

    fn place() -> Place {
        Place {
            rootfs: "/r".into(),
            namespaces: vec![("network", "/ns/net".into())],
            shm: Some("/shm".into()),
            cgroup: Some("/lazaret/u/c-0".into()),
            has_cgroup_v2: false,
            oom_score_floor: 0,
            seccomp: Some(Architecture::X86_64),
        }
    }

    #[test]
    fn a_container_that_asks_for_nothing_gets_the_least() {
        let made = config(&SandboxSpec::default(), &spec(), &place()).unwrap();
        assert_eq!(made["process"]["noNewPrivileges"], true);
        assert_eq!(made["process"]["cwd"], "/");
        assert_eq!(made["linux"]["resources"]["devices"][0], json!({"allow": false, "access": "rwm"}));
        assert_eq!(made["linux"]["maskedPaths"].as_array().unwrap().len(), MASKED.len());
        assert!(made["linux"].get("seccomp").is_none());
        assert!(made["linux"]["namespaces"].as_array().unwrap().contains(&json!({"type": "pid"})));
    }

    #[test]
    fn later_variables_win_and_a_path_is_always_there() {
        let spec = ContainerSpec { env: vec!["A=1".into(), "PATH=/x".into(), "A=2=3".into()], ..spec() };
        let made = config(&SandboxSpec::default(), &spec, &place()).unwrap();
        assert_eq!(made["process"]["env"], json!(["PATH=/x", "A=2=3"]));
    }

    #[test]
    fn a_mount_of_the_caller_replaces_the_one_that_everybody_has() {
        let mount = crate::Mount { target: "/dev/shm".into(), tmpfs: Some(1_024), ..crate::Mount::default() };
        let spec = ContainerSpec { mounts: vec![mount], ..spec() };
        let made = config(&SandboxSpec::default(), &spec, &place()).unwrap();
        let shm: Vec<_> = made["mounts"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|mount| mount["destination"] == "/dev/shm")
            .collect();
        assert_eq!(shm.len(), 1);
        assert_eq!(shm[0]["type"], "tmpfs");
    }

    #[test]
    fn a_score_below_the_floor_is_raised_to_it() {
        let limits = Limits { oom_score_adjustment: Some(-997), ..Limits::default() };
        let made = config(&SandboxSpec::default(), &ContainerSpec { limits, ..spec() }, &place()).unwrap();
        assert_eq!(made["process"]["oomScoreAdj"], 0);
    }

    #[test]
    fn a_privileged_container_is_not_filtered_nor_masked() {
        let security = Security { privileged: true, seccomp: Seccomp::RuntimeDefault, ..Security::default() };
        let made = config(&SandboxSpec::default(), &ContainerSpec { security, ..spec() }, &place()).unwrap();
        assert!(made["linux"].get("maskedPaths").is_none());
        assert!(made["linux"].get("seccomp").is_none());
        assert_eq!(made["linux"]["resources"]["devices"], json!([{"allow": true, "access": "rwm"}]));
        assert_eq!(made["process"]["noNewPrivileges"], false);
    }
}
