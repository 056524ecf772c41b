//! The shell of a node: its DRA manager, and, with [`RunOptions`], everything else that a node does for pods.
//!
//! [`Agent::start`] watches a registration directory as kubelet does, talks to the plugins that it finds there, watches the
//! pods of one node, and carries out what [`lazaret_node::Node`] decides: claims are prepared when a pod is bound and
//! unprepared when it ends or goes. The devices for a runtime are in a file for each pod ([`Options::offers`]).
//!
//! [`Agent::start_with_pods`] runs the pods as well, as [`lazaret_pods::Pods`] decides: images, volumes, sandboxes, containers,
//! probes, statuses and events; it registers the Node, renews its Lease, and serves the node's own API.
//!
//! **Invariant.** Decides nothing. Data from a plugin or a server is bounded in bytes, time and rate before it is read. A
//! checkpoint that is reported as written is on disk, whole.

mod api_words;
mod checkpoint;
mod claims;
mod classic;
mod clock;
mod connection;
mod events;
mod follow;
mod metrics;
mod offers;
mod options;
mod pod_object;
mod pods;
mod registration;
mod registry;
mod run;
mod shell;
mod steps;
mod wall_times;
mod writes;

pub use lazaret_pods::{Signal, SoftThreshold, Threshold, Thresholds};
pub use options::{Options, StartError};
pub use run::{RunOptions, ThresholdError, parse_eviction_hard};
pub use shell::Agent;
