//! States of sandboxes and containers.

use std::{collections::BTreeMap, path::PathBuf, time::SystemTime};

use crate::{Key, SandboxSpec};

/// A sandbox that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxState {
    /// How the runtime calls it.
    pub id: String,
    /// The spec that it was made from.
    pub spec: SandboxSpec,
    /// Whether its namespaces are held. A sandbox that was stopped, or whose holder died, is not ready.
    pub is_ready: bool,
    /// When it was made.
    pub created_at: SystemTime,
    /// The addresses of the pod. Empty with the host's network.
    pub ips: Vec<String>,
    /// Its containers, those that ended included, until they are removed.
    pub containers: Vec<ContainerState>,
}

/// A container that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerState {
    /// How the runtime calls it.
    pub id: String,
    /// Which it is.
    pub key: Key,
    /// The image, as a person wrote it.
    pub image: String,
    /// Its digest.
    pub image_id: String,
    /// The caller's labels.
    pub labels: BTreeMap<String, String>,
    /// How far it is.
    pub phase: Phase,
    /// Where its output is, in CRI's format.
    pub log: PathBuf,
}

/// How far a container is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It was made and has not been started.
    Created,
    /// It runs.
    Running {
        /// Since when.
        started_at: SystemTime,
        /// Its first process, as the host sees it.
        pid: u32,
    },
    /// It has ended.
    Exited(Exit),
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// When it began; `None` when it never did.
    pub started_at: Option<SystemTime>,
    /// When it ended.
    pub finished_at: SystemTime,
    /// Its exit code; 128 and the signal when a signal ended it, as shells count.
    pub code: i32,
    /// The signal.
    pub signal: Option<i32>,
    /// Whether memory ran out.
    pub is_out_of_memory: bool,
    /// Why it could not be started.
    pub message: Option<String>,
}

/// Resource usage of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time since it began.
    pub cpu_nanoseconds: u64,
    /// Memory that cannot be given back at once.
    pub memory_working_set: u64,
    /// All memory.
    pub memory: u64,
    /// Processes and threads.
    pub pids: u64,
}
