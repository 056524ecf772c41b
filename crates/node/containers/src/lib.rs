//! Runtimes for the containers of pods.
//!
//! [`Runtime`] is the one trait that a node's agent speaks to. A pod is a sandbox, which holds the namespaces that its
//! containers share, and containers in it. The caller decides which containers run when; a runtime starts and stops them, and reports
//! the outcome.
//!
//! **Invariant.** A container that was started is found again by [`Runtime::list`] after the caller was restarted, and goes on running
//! meanwhile, its output and its exit code included. Creating an object that exists is no error, and neither is removing one that
//! is gone. Settings that a runtime cannot apply are named by [`Runtime::not_applied`] before anything runs, never left out silently.
//! It must never know Kubernetes' API.

mod cgroup;
mod clock;
mod cni;
mod groups;
mod layout;
mod local;
mod log_file;
mod mounts;
mod oci;
mod options;
mod overlay;
mod port;
mod probe;
mod process;
mod protocol;
mod record;
mod runtime;
mod shim;
mod signal;
mod spec;
mod state;
mod tree;

pub use groups::PodGroups;
pub use log_file::{append_to_log, make_log_directory, open_log};
pub use options::Options;
pub use port::connect_in;
pub use probe::{Choice, ProbeReport, probe};
pub use runtime::{Answer, Attached, Connection, Exec, Resize, Running, Runtime, RuntimeError};
pub use shim::shim_main;
pub use spec::{
    Bytes, ContainerSpec, Identity, Key, Limits, Mount, Namespaces, Propagation, RootFs, SandboxSpec,
    Seccomp, Security, UserLookup,
};
pub use state::{ContainerState, Exit, Phase, SandboxState, Usage};
