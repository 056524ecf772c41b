//! The trait that every runtime has.

use std::{fmt, path::PathBuf, pin::Pin, time::Duration};

use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, oneshot, watch},
};

use crate::{ContainerSpec, Limits, SandboxSpec, SandboxState, Usage};

/// An answer that takes a while.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, RuntimeError>> + Send + 'a>>;

/// Bytes both ways.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// A container runtime. Ids are the runtime's own, as its answers name them.
pub trait Runtime: fmt::Debug + Send + Sync {
    /// `runc`, `crun`, `namespaces`, `processes`, or what a CRI runtime calls itself: `containerd`, `cri-o`.
    fn name(&self) -> &str;

    /// The version of what keeps the containers: a CRI runtime's, or our own.
    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    /// The settings that would not be applied, each a short text for a person ("memory limit"). Usually empty.
    fn not_applied(&self, sandbox: &SandboxSpec, container: &ContainerSpec) -> Vec<String>;

    /// Makes the sandbox of a pod, or finds it.
    fn run_sandbox(&self, spec: SandboxSpec) -> Answer<'_, SandboxState>;

    /// Kills what still runs in it, and lets go of its namespaces and addresses.
    fn stop_sandbox<'a>(&'a self, id: &'a str) -> Answer<'a, ()>;

    /// Removes it with everything that it has: containers, mounts, cgroups. Log files stay.
    fn remove_sandbox<'a>(&'a self, id: &'a str) -> Answer<'a, ()>;

    /// Makes a container, or finds it by its key.
    fn create<'a>(&'a self, sandbox: &'a str, spec: ContainerSpec) -> Answer<'a, String>;

    /// Starts it.
    fn start<'a>(&'a self, id: &'a str) -> Answer<'a, ()>;

    /// Asks it to stop by its signal and kills it when the time is over; answers when it has ended.
    fn stop<'a>(&'a self, id: &'a str, grace: Duration) -> Answer<'a, ()>;

    /// Removes it, after killing it if need be. Its log file stays.
    fn remove<'a>(&'a self, id: &'a str) -> Answer<'a, ()>;

    /// Everything that there is.
    fn list(&self) -> Answer<'_, Vec<SandboxState>>;

    /// A number that grows whenever something of [`Runtime::list`] may have changed by itself: a container ended.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Runs a program in a container that runs.
    fn exec<'a>(&'a self, id: &'a str, exec: Exec) -> Answer<'a, Running>;

    /// Connects to the input and output of a container that runs.
    fn attach<'a>(&'a self, id: &'a str) -> Answer<'a, Attached>;

    /// Begins a new log file: the old one was moved away.
    fn reopen_log<'a>(&'a self, id: &'a str) -> Answer<'a, ()>;

    /// A connection to a TCP port of the pod, on its own loopback address.
    fn connect<'a>(&'a self, sandbox: &'a str, port: u16) -> Answer<'a, Box<dyn Connection>>;

    /// Current resource usage of a container.
    fn usage<'a>(&'a self, id: &'a str) -> Answer<'a, Usage>;

    /// Changes how much a container that runs, and its pod as a whole, may use. No limit takes one away.
    fn update<'a>(&'a self, _id: &'a str, _own: Limits, _of_pod: Limits) -> Answer<'a, ()> {
        let runtime = self.name().to_owned();
        Box::pin(async move {
            Err(RuntimeError::Unsupported {
                runtime,
                what: "limits that change while a container runs".to_owned(),
            })
        })
    }

    /// Where what a container writes to its own root is kept on this machine; `None` where only the runtime knows.
    fn writable_directory(&self, _id: &str) -> Option<PathBuf> {
        None
    }
}

/// A program to run in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exec {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Whether it has a terminal. Its errors are then part of its output.
    pub tty: bool,
    /// Whether it has an input.
    pub stdin: bool,
    /// It is killed after this long, and what it wrote may come only at its end. Without it, its streams are there while it runs.
    pub limit: Option<Duration>,
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// A program that runs in a container. It is killed when this is dropped.
pub struct Running {
    /// Its streams.
    pub streams: Attached,
    /// Its exit code, once.
    pub exit: oneshot::Receiver<Result<i32, RuntimeError>>,
}

/// The streams of a program. Each is there when the program has it.
pub struct Attached {
    /// Its standard input.
    pub stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Its standard output.
    pub stdout: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Its standard error; none with a terminal.
    pub stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Sizes of its terminal.
    pub resize: Option<mpsc::Sender<Resize>>,
}

impl fmt::Debug for Running {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Running").finish_non_exhaustive()
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Attached").finish_non_exhaustive()
    }
}

/// Why a runtime did not do it.
#[derive(Debug, Error)]
pub enum RuntimeError {
    /// There is no such sandbox or container.
    #[error("{0} is not there")]
    NotFound(String),
    /// It is not in a state in which this can be done.
    #[error("{0}")]
    NotPossible(String),
    /// The program cannot be started: it is not there, or may not be run.
    #[error("{0}")]
    CannotRun(String),
    /// This runtime does not do this at all.
    #[error("the runtime {runtime} does not support {what}")]
    Unsupported {
        /// The runtime.
        runtime: String,
        /// The operation that was requested.
        what: String,
    },
    /// The runtime, or the system under it, failed.
    #[error("{0}")]
    Failed(String),
}
