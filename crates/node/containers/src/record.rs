//! The files that describe sandboxes and containers on disk.

use std::{path::PathBuf, time::SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ContainerSpec, Exit, SandboxSpec};

/// A sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SandboxRecord {
    pub(crate) spec: SandboxSpec,
    pub(crate) created_at: SystemTime,
    /// The namespaces that were made for it: `net`, `ipc`, `uts`, `pid`.
    pub(crate) namespaces: Vec<String>,
    pub(crate) ips: Vec<String>,
    /// The network that it was attached to, and what the plugins answered.
    pub(crate) network: Option<Value>,
    pub(crate) is_stopped: bool,
}

/// A container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ContainerRecord {
    pub(crate) spec: ContainerSpec,
    pub(crate) log: PathBuf,
}

/// Written by a shim when the program was started.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct StartRecord {
    pub(crate) at: SystemTime,
    pub(crate) pid: u32,
    /// In ticks since boot: which process had that id.
    pub(crate) born_at: Option<u64>,
}

/// Written by a shim when the container has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ExitRecord {
    pub(crate) started_at: Option<SystemTime>,
    pub(crate) finished_at: SystemTime,
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) is_out_of_memory: bool,
    pub(crate) message: Option<String>,
}

impl From<ExitRecord> for Exit {
    fn from(record: ExitRecord) -> Self {
        let ExitRecord { started_at, finished_at, code, signal, is_out_of_memory, message } = record;
        Self { started_at, finished_at, code, signal, is_out_of_memory, message }
    }
}

/// The input of a shim.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ShimSpec {
    pub(crate) id: String,
    pub(crate) log: PathBuf,
    pub(crate) tty: bool,
    pub(crate) stdin: bool,
    pub(crate) stdin_once: bool,
    /// The container's cgroup, below those of every controller.
    pub(crate) cgroup: Option<String>,
    pub(crate) engine: Engine,
}

/// The way in which a process is isolated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Engine {
    /// A program with runc's command line.
    Oci {
        /// `runc`, `crun`.
        program: PathBuf,
        /// Its `--root`.
        root: PathBuf,
    },
    /// Namespaces that are made here.
    Namespaces,
    /// None of that.
    Processes,
}

/// The input of a shim that executes a further program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ExecSpec {
    pub(crate) id: String,
    /// The container's directory.
    pub(crate) directory: PathBuf,
    pub(crate) command: Vec<String>,
    pub(crate) tty: bool,
    pub(crate) stdin: bool,
    pub(crate) engine: Engine,
    /// Its first process.
    pub(crate) pid: u32,
}

/// The input of the holder of a sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HoldSpec {
    pub(crate) directory: PathBuf,
    pub(crate) namespaces: Vec<String>,
    pub(crate) hostname: Option<String>,
    pub(crate) sysctls: std::collections::BTreeMap<String, String>,
    /// Bytes of `/dev/shm`; none without one of its own.
    pub(crate) shm_bytes: Option<u64>,
    /// The process that waits for it.
    pub(crate) agent: u32,
}
