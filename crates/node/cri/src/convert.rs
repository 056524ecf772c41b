//! Our words in the protocol's, and back. Pure.

use std::path::{Path, PathBuf};

use lazaret_containers::{
    ContainerSpec, ContainerState, Exit, Key, Limits, Mount, Namespaces, Phase, Propagation, RootFs,
    RuntimeError, SandboxSpec, Seccomp, UserLookup,
};
use serde::{Deserialize, Serialize};

use crate::{clock::time, proto};

/// Marks our own sandboxes and containers, and holds all that we want to find again.
pub(crate) const SANDBOX_ANNOTATION: &str = "lazaret.dev/sandbox";
pub(crate) const CONTAINER_ANNOTATION: &str = "lazaret.dev/container";
/// Labels as a kubelet sets them, so that other tools show whose a container is.
pub(crate) const POD_UID_LABEL: &str = "io.kubernetes.pod.uid";
/// Whose pod it is.
pub(crate) const NODE_LABEL: &str = "lazaret.dev/node";
pub(crate) const POD_NAME_LABEL: &str = "io.kubernetes.pod.name";
pub(crate) const POD_NAMESPACE_LABEL: &str = "io.kubernetes.pod.namespace";
pub(crate) const CONTAINER_NAME_LABEL: &str = "io.kubernetes.container.name";

/// Paths hidden from a container, as in Kubernetes.
const MASKED_PATHS: &[&str] = &[
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
/// Paths that a container cannot write to.
const READ_ONLY_PATHS: &[&str] = &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Facts of a container that are needed later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerFacts {
    pub(crate) key: Key,
    pub(crate) image: String,
    pub(crate) image_id: String,
    pub(crate) labels: std::collections::BTreeMap<String, String>,
    /// Whether its input can be attached to.
    #[serde(default)]
    pub(crate) stdin: bool,
    #[serde(default)]
    pub(crate) tty: bool,
}

/// `cgroup_parent` is the group of the pod, or empty where the runtime chooses one.
pub(crate) fn sandbox_config(
    spec: &SandboxSpec,
    cgroup_parent: String,
) -> Result<proto::PodSandboxConfig, RuntimeError> {
    let labels = [
        (POD_UID_LABEL, &spec.pod_uid),
        (POD_NAME_LABEL, &spec.name),
        (POD_NAMESPACE_LABEL, &spec.namespace),
    ];
    Ok(proto::PodSandboxConfig {
        metadata: Some(proto::PodSandboxMetadata {
            name: spec.name.clone(),
            uid: spec.pod_uid.clone(),
            namespace: spec.namespace.clone(),
            attempt: 0,
        }),
        hostname: spec.hostname.clone().unwrap_or_default(),
        log_directory: text(&spec.log_directory)?,
        labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value.clone())).collect(),
        annotations: [(SANDBOX_ANNOTATION.to_owned(), json(spec)?)].into(),
        linux: Some(proto::LinuxPodSandboxConfig {
            cgroup_parent,
            security_context: Some(proto::LinuxSandboxSecurityContext {
                namespace_options: Some(namespaces(spec.namespaces)),
                privileged: false,
                seccomp: Some(profile(proto::PROFILE_RUNTIME_DEFAULT, "")),
            }),
            sysctls: spec.sysctls.clone(),
        }),
    })
}

pub(crate) fn container_config(
    sandbox: &SandboxSpec,
    spec: &ContainerSpec,
) -> Result<proto::ContainerConfig, RuntimeError> {
    if matches!(spec.root, RootFs::Directory(_)) {
        return Err(unsupported("a root directory in place of an image"));
    }
    let kept = ContainerFacts {
        key: spec.key.clone(),
        image: spec.image.clone(),
        image_id: spec.image_id.clone(),
        labels: spec.labels.clone(),
        stdin: spec.stdin,
        tty: spec.tty,
    };
    let labels = [
        (POD_UID_LABEL, &sandbox.pod_uid),
        (POD_NAME_LABEL, &sandbox.name),
        (POD_NAMESPACE_LABEL, &sandbox.namespace),
        (CONTAINER_NAME_LABEL, &spec.key.name),
    ];
    // The digest says exactly which image was found before.
    let image = if spec.image_id.is_empty() { &spec.image } else { &spec.image_id };
    Ok(proto::ContainerConfig {
        metadata: Some(proto::ContainerMetadata { name: spec.key.name.clone(), attempt: spec.key.attempt }),
        image: Some(proto::ImageSpec {
            image: image.clone(),
            user_specified_image: spec.image.clone(),
            ..proto::ImageSpec::default()
        }),
        command: spec.command.clone(),
        working_dir: text(&spec.working_directory)?,
        envs: spec.env.iter().map(|pair| variable(pair)).collect(),
        mounts: spec.mounts.iter().map(mount).collect::<Result<_, _>>()?,
        labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value.clone())).collect(),
        annotations: [(CONTAINER_ANNOTATION.to_owned(), json(&kept)?)].into(),
        log_path: log_path(&spec.key),
        stdin: spec.stdin,
        stdin_once: spec.stdin_once,
        tty: spec.tty,
        linux: Some(proto::LinuxContainerConfig {
            resources: Some(resources(&spec.limits)),
            security_context: Some(security(sandbox, spec)?),
        }),
        cdi_devices: spec.cdi_devices.iter().map(|name| proto::CdiDevice { name: name.clone() }).collect(),
        stop_signal: spec.stop_signal.as_deref().and_then(signal).unwrap_or(0),
    })
}

/// Settings that the protocol cannot express. Limits over all containers are set on the group of the pod where there is one.
pub(crate) fn not_applied(sandbox: &SandboxSpec, spec: &ContainerSpec, has_pod_group: bool) -> Vec<String> {
    let mut missing = Vec::new();
    // Shares only say who comes first when processors are short, and each container has its own.
    let Limits { memory, pids, cpu_quota_us, .. } = sandbox.limits;
    if !has_pod_group && (memory.is_some() || pids.is_some() || cpu_quota_us.is_some()) {
        missing.push("limits over all containers of the pod".to_owned());
    }
    if spec.limits.pids.is_some() {
        missing.push("limit of processes".to_owned());
    }
    if spec.stop_signal.as_deref().is_some_and(|name| signal(name).is_none()) {
        missing.push("stop signal".to_owned());
    }
    for mount in spec.mounts.iter().filter(|mount| mount.tmpfs.is_some()) {
        missing.push(format!("tmpfs at {}", mount.target.display()));
    }
    if matches!(spec.root, RootFs::Directory(_)) {
        missing.push("root directory in place of an image".to_owned());
    }
    missing
}

fn security(
    sandbox: &SandboxSpec,
    spec: &ContainerSpec,
) -> Result<proto::LinuxContainerSecurityContext, RuntimeError> {
    let security = &spec.security;
    let is_masked = !security.privileged && !security.unmasked_proc;
    let paths = |paths: &[&str]| {
        if is_masked { paths.iter().map(|path| (*path).to_owned()).collect() } else { Vec::new() }
    };
    let seccomp = match &security.seccomp {
        Seccomp::Unconfined => profile(proto::PROFILE_UNCONFINED, ""),
        Seccomp::RuntimeDefault => profile(proto::PROFILE_RUNTIME_DEFAULT, ""),
        Seccomp::File(path) => profile(proto::PROFILE_LOCALHOST, &text(path)?),
    };
    let identity = &spec.identity;
    // Without a lookup, the groups of the image are among the further groups already.
    let lookup = identity.lookup.clone().unwrap_or_else(|| UserLookup {
        user: Some(identity.uid.to_string()),
        gid: Some(identity.gid),
        with_groups: false,
    });
    let number = |value: u32| proto::Int64Value { value: value.into() };
    let uid = lookup.user.as_ref().and_then(|user| user.parse::<u32>().ok());
    Ok(proto::LinuxContainerSecurityContext {
        capabilities: Some(proto::Capability {
            add_capabilities: security.add_capabilities.clone(),
            drop_capabilities: security.drop_capabilities.clone(),
        }),
        privileged: security.privileged,
        namespace_options: Some(namespaces(sandbox.namespaces)),
        run_as_user: uid.map(number),
        run_as_username: lookup.user.filter(|_| uid.is_none()).unwrap_or_default(),
        run_as_group: lookup.gid.map(number),
        readonly_rootfs: security.read_only_root,
        supplemental_groups: identity.groups.iter().map(|group| i64::from(*group)).collect(),
        supplemental_groups_policy: if lookup.with_groups {
            proto::GROUPS_MERGE
        } else {
            proto::GROUPS_STRICT
        },
        no_new_privs: !security.allow_privilege_escalation && !security.privileged,
        masked_paths: paths(MASKED_PATHS),
        readonly_paths: paths(READ_ONLY_PATHS),
        seccomp: Some(seccomp),
    })
}

fn namespaces(namespaces: Namespaces) -> proto::NamespaceOption {
    let mode = |is_host: bool, otherwise: i32| if is_host { proto::NAMESPACE_NODE } else { otherwise };
    let pid = if namespaces.shared_pid { proto::NAMESPACE_POD } else { proto::NAMESPACE_CONTAINER };
    proto::NamespaceOption {
        network: mode(namespaces.host_network, proto::NAMESPACE_POD),
        pid: mode(namespaces.host_pid, pid),
        ipc: mode(namespaces.host_ipc, proto::NAMESPACE_POD),
        target_id: String::new(),
    }
}

pub(crate) fn resources(limits: &Limits) -> proto::LinuxContainerResources {
    let signed = |value: Option<u64>| value.map_or(0, |value| i64::try_from(value).unwrap_or(i64::MAX));
    proto::LinuxContainerResources {
        cpu_period: signed(limits.cpu_period_us),
        cpu_quota: limits.cpu_quota_us.unwrap_or(0),
        cpu_shares: signed(limits.cpu_shares),
        memory_limit_in_bytes: signed(limits.memory),
        oom_score_adj: limits.oom_score_adjustment.unwrap_or(0).into(),
        ..proto::LinuxContainerResources::default()
    }
}

fn mount(mount: &Mount) -> Result<proto::Mount, RuntimeError> {
    if mount.tmpfs.is_some() {
        return Err(unsupported("tmpfs mounts"));
    }
    Ok(proto::Mount {
        container_path: text(&mount.target)?,
        host_path: text(&mount.source)?,
        readonly: mount.read_only,
        propagation: match mount.propagation {
            Propagation::Private => proto::PROPAGATION_PRIVATE,
            Propagation::FromHost => proto::PROPAGATION_HOST_TO_CONTAINER,
            Propagation::Both => proto::PROPAGATION_BIDIRECTIONAL,
        },
    })
}

fn variable(pair: &str) -> proto::KeyValue {
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    proto::KeyValue { key: key.to_owned(), value: value.as_bytes().to_vec() }
}

fn profile(profile_type: i32, file: &str) -> proto::SecurityProfile {
    proto::SecurityProfile { profile_type, localhost_ref: file.to_owned() }
}

/// Below the log directory of the sandbox, as kubelet has it.
pub(crate) fn log_path(key: &Key) -> String {
    format!("{}/{}.log", key.name, key.attempt)
}

/// The numbers of signals in the protocol, in its order.
fn signal(name: &str) -> Option<i32> {
    const NAMES: &[&str] = &[
        "ABRT", "ALRM", "BUS", "CHLD", "CLD", "CONT", "FPE", "HUP", "ILL", "INT", "IO", "IOT", "KILL",
        "PIPE", "POLL", "PROF", "PWR", "QUIT", "SEGV", "STKFLT", "STOP", "SYS", "TERM", "TRAP", "TSTP",
        "TTIN", "TTOU", "URG", "USR1", "USR2", "VTALRM", "WINCH", "XCPU", "XFSZ", "RTMIN",
    ];
    let upper = name.to_ascii_uppercase();
    let short = upper.strip_prefix("SIG").unwrap_or(&upper);
    NAMES.iter().position(|known| *known == short).and_then(|at| i32::try_from(at + 1).ok())
}

/// How far a container is.
pub(crate) fn phase(status: &proto::ContainerStatus, pid: u32) -> Phase {
    match status.state {
        proto::CONTAINER_CREATED => Phase::Created,
        proto::CONTAINER_RUNNING => Phase::Running { started_at: time(status.started_at), pid },
        _ => Phase::Exited(Exit {
            started_at: (status.started_at > 0).then(|| time(status.started_at)),
            finished_at: time(status.finished_at),
            code: status.exit_code,
            signal: (status.exit_code > 128 && status.exit_code < 128 + 65).then(|| status.exit_code - 128),
            is_out_of_memory: status.reason == "OOMKilled",
            message: (!status.message.is_empty()).then(|| status.message.clone()),
        }),
    }
}

/// The facts kept with a container: nothing if it is not ours.
///
/// # Errors
/// When they cannot be read: it may be ours, and run.
pub(crate) fn kept(status: &proto::ContainerStatus) -> Result<Option<ContainerFacts>, RuntimeError> {
    read(&status.annotations, CONTAINER_ANNOTATION, &format!("container {}", status.id))
}

/// One of ours, or nothing.
///
/// # Errors
/// When it cannot be read whose it is.
pub(crate) fn container_state(
    status: &proto::ContainerStatus,
    pid: u32,
) -> Result<Option<ContainerState>, RuntimeError> {
    let Some(kept) = kept(status)? else { return Ok(None) };
    Ok(Some(ContainerState {
        id: status.id.clone(),
        key: kept.key,
        image: kept.image,
        image_id: kept.image_id,
        labels: kept.labels,
        phase: phase(status, pid),
        log: PathBuf::from(&status.log_path),
    }))
}

/// The spec kept with a sandbox: nothing if it is not ours.
///
/// # Errors
/// When it cannot be read: containers of ours may run in it.
pub(crate) fn sandbox_spec(sandbox: &proto::PodSandbox) -> Result<Option<SandboxSpec>, RuntimeError> {
    read(&sandbox.annotations, SANDBOX_ANNOTATION, &format!("sandbox {}", sandbox.id))
}

fn read<T: serde::de::DeserializeOwned>(
    annotations: &std::collections::BTreeMap<String, String>,
    name: &str,
    whose: &str,
) -> Result<Option<T>, RuntimeError> {
    let Some(text) = annotations.get(name) else { return Ok(None) };
    let unreadable = |error| {
        RuntimeError::Failed(format!(
            "{whose} has an annotation {name} that cannot be read ({error}): it counts as running until it is removed"
        ))
    };
    serde_json::from_str(text).map(Some).map_err(unreadable)
}

fn text(path: &Path) -> Result<String, RuntimeError> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| RuntimeError::NotPossible(format!("the path {} is no UTF-8", path.display())))
}

fn json(value: &impl Serialize) -> Result<String, RuntimeError> {
    serde_json::to_string(value).map_err(|error| RuntimeError::Failed(error.to_string()))
}

pub(crate) fn unsupported(what: &str) -> RuntimeError {
    RuntimeError::Unsupported { runtime: "cri".to_owned(), what: what.to_owned() }
}
