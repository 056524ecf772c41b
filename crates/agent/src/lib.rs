//! The shell of a node's DRA manager.
//!
//! [`Agent::start`] watches a registration directory as kubelet does, talks to the plugins that it finds there, watches the
//! pods of one node, and carries out what [`lazaret_node::Node`] decides: claims are prepared when a pod is bound and
//! unprepared when it ends or goes. It runs no containers. What a runtime would be given is in a file for each pod
//! ([`Options::offers`]).
//!
//! **Invariant.** Decides nothing. What a plugin or a server sends is bounded in bytes, time and rate before anybody looks at it. A
//! checkpoint that is said to be written is on disk, whole.

mod checkpoint;
mod claims;
mod clock;
mod connection;
mod events;
mod follow;
mod metrics;
mod offers;
mod options;
mod pods;
mod registration;
mod registry;
mod shell;
mod steps;
mod writes;

pub use options::{Options, StartError};
pub use shell::Agent;
