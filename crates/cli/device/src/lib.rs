//! `kubectl device`: which devices a cluster has, who uses them, why they are out of service; and taking them out and bringing them back, one
//! at a time or many at a pace.
//!
//! Works against any API server that has `resource.k8s.io`, Kubernetes or Lazaret, through its public API alone. [`view`] holds the answers: pure
//! functions of a [`Cluster`](view::Cluster) that was read, and of what time it is. The rest reads pages, prints, and writes DeviceTaintRules.
//!
//! **Invariant.** Nothing is changed that was not shown first or asked for by name: a selection never grows wider than its words, every write has a
//! precondition, and a rule that this command did not make is never edited by it. The state of a device and the effect of a rule are computed by the
//! controllers' own cores.
//!
//! It must never know how a server stores objects, nor decide what a controller decides.

#[cfg(feature = "client")]
mod api;
#[cfg(feature = "client")]
mod args;
#[cfg(feature = "client")]
mod clock;
#[cfg(feature = "client")]
mod commands;
#[cfg(feature = "client")]
mod complete;
#[cfg(feature = "client")]
mod connect;
#[cfg(feature = "client")]
mod console;
#[cfg(feature = "client")]
mod error;
#[cfg(feature = "client")]
mod guard_args;
#[cfg(feature = "client")]
mod health_args;
#[cfg(feature = "client")]
mod live_args;
#[cfg(feature = "client")]
mod output;
#[cfg(feature = "client")]
mod span;
#[cfg(feature = "client")]
mod taint_args;
pub mod view;

#[cfg(feature = "client")]
pub use args::{Args, command};
#[cfg(feature = "client")]
pub use commands::{Session, completion_script, man_pages, run, screen};
#[cfg(feature = "client")]
pub use complete::complete;
#[cfg(feature = "client")]
pub use connect::connect;
#[cfg(feature = "client")]
pub use console::Console;
#[cfg(feature = "client")]
pub use error::Error;

/// How a command ended, when it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Done, or the answer is yes.
    Yes,
    /// The command worked and the answer is no: a check that failed, a drain that was stopped.
    No,
}
