//! Specs of sandboxes and containers.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

/// An amount of memory or disk.
pub type Bytes = u64;

/// Which container of which pod. The attempt is the count of restarts before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The UID of the pod.
    pub pod_uid: String,
    /// The name of the container in the pod.
    pub name: String,
    /// 0 for the first.
    pub attempt: u32,
}

/// A sandbox: the settings that the containers of a pod share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// The UID of the pod; there is one sandbox for it at a time.
    pub pod_uid: String,
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub name: String,
    /// The name that the pod sees as its own. `None` with the host's network.
    pub hostname: Option<String>,
    /// Which namespaces are the host's.
    pub namespaces: Namespaces,
    /// Kernel settings of the pod.
    pub sysctls: BTreeMap<String, String>,
    /// Limits over all containers.
    pub limits: Limits,
    /// Where the log files of the containers are: `DIRECTORY/NAME/ATTEMPT.log`, as kubelet has them.
    pub log_directory: PathBuf,
    /// The caller's labels, returned in [`crate::SandboxState`]. The runtime only keeps them.
    pub labels: BTreeMap<String, String>,
}

/// Which namespaces a pod has of the host, or shares among its containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespaces {
    /// `hostNetwork`.
    pub host_network: bool,
    /// `hostPID`.
    pub host_pid: bool,
    /// `hostIPC`.
    pub host_ipc: bool,
    /// `shareProcessNamespace`.
    pub shared_pid: bool,
}

/// A container to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerSpec {
    /// Its pod, name and attempt.
    pub key: Key,
    /// The root file system.
    pub root: RootFs,
    /// The program and its arguments; never empty.
    pub command: Vec<String>,
    /// `NAME=VALUE`, in order; later ones win. Those of CDI come after them.
    pub env: Vec<String>,
    /// Where the program starts.
    pub working_directory: PathBuf,
    /// Mounts, in order.
    pub mounts: Vec<Mount>,
    /// Qualified names of devices, `VENDOR/CLASS=DEVICE`.
    pub cdi_devices: Vec<String>,
    /// User and groups.
    pub identity: Identity,
    /// Privileges and confinement.
    pub security: Security,
    /// How much it may use.
    pub limits: Limits,
    /// Whether it has a terminal.
    pub tty: bool,
    /// Whether its input can be attached to. Without it, the input is empty.
    pub stdin: bool,
    /// Whether its input ends with the first attachment.
    pub stdin_once: bool,
    /// The signal that asks it to stop: `SIGTERM` when there is none.
    pub stop_signal: Option<String>,
    /// The image, as a person wrote it; for [`crate::ContainerState`].
    pub image: String,
    /// The digest of the image.
    pub image_id: String,
    /// The caller's labels, returned by [`crate::Runtime::list`]. The runtime only keeps them.
    pub labels: BTreeMap<String, String>,
}

impl ContainerSpec {
    /// A container that is given nothing else.
    #[must_use]
    pub fn new(key: Key, root: RootFs, command: Vec<String>) -> Self {
        Self {
            key,
            root,
            command,
            env: Vec::new(),
            working_directory: PathBuf::new(),
            mounts: Vec::new(),
            cdi_devices: Vec::new(),
            identity: Identity::default(),
            security: Security::default(),
            limits: Limits::default(),
            tty: false,
            stdin: false,
            stdin_once: false,
            stop_signal: None,
            image: String::new(),
            image_id: String::new(),
            labels: BTreeMap::new(),
        }
    }
}

/// The file system at `/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootFs {
    /// Layers of an image, the topmost first, each an unpacked directory that is never written to. The runtime puts a
    /// writable one of its own on top, and removes it with the container.
    Layers(Vec<PathBuf>),
    /// A directory as it is, the container's own or, for plain processes, `/`.
    Directory(PathBuf),
}

/// One mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// A file or directory of the host. For a file system of its own, empty.
    pub source: PathBuf,
    /// Where it is in the container. No link in the root file system leads it out of there.
    pub target: PathBuf,
    /// Whether it cannot be written to.
    pub read_only: bool,
    /// How mounts below it travel.
    pub propagation: Propagation,
    /// `tmpfs` with this limit, instead of `source`.
    pub tmpfs: Option<Bytes>,
}

/// How mounts travel between the host and a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    /// Not at all.
    #[default]
    Private,
    /// From the host.
    FromHost,
    /// Both ways.
    Both,
}

/// User and groups of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its further groups.
    pub groups: Vec<u32>,
    /// Where only the runtime sees the files of the image: what it looks up there. The user and group above are not known then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lookup: Option<UserLookup>,
}

/// A user that the runtime finds in the files of the image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserLookup {
    /// A name or a number. `None`: the user of the image, and its group.
    pub user: Option<String>,
    /// The group instead of the user's own.
    pub gid: Option<u32>,
    /// Whether the groups that the image has the user in are added to the further groups.
    pub with_groups: bool,
}

/// Privileges and confinement of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Security {
    /// All capabilities and devices, nothing masked.
    pub privileged: bool,
    /// Capabilities beyond the runtime's default set, `NET_ADMIN`; `ALL` for all.
    pub add_capabilities: Vec<String>,
    /// Capabilities taken away; `ALL` for all. An added capability wins.
    pub drop_capabilities: Vec<String>,
    /// Whether `/` cannot be written to.
    pub read_only_root: bool,
    /// Whether a program may gain rights that its parent does not have.
    pub allow_privilege_escalation: bool,
    /// Which system calls are filtered.
    pub seccomp: Seccomp,
    /// `procMount: Unmasked`.
    pub unmasked_proc: bool,
}

/// Which system calls are filtered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seccomp {
    /// None.
    #[default]
    Unconfined,
    /// Those of the runtime's own list.
    RuntimeDefault,
    /// Those of a file in the OCI form.
    File(PathBuf),
}

/// How much may be used. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The share of processor time, relative to others; 1,024 for one processor.
    pub cpu_shares: Option<u64>,
    /// Microseconds of processor time in each `cpu_period_us`.
    pub cpu_quota_us: Option<i64>,
    /// 100,000 as a rule.
    pub cpu_period_us: Option<u64>,
    /// Memory.
    pub memory: Option<Bytes>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Which program is killed first when memory is short: -1,000 to 1,000.
    pub oom_score_adjustment: Option<i32>,
}
