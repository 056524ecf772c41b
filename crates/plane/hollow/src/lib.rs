//! Nodes and a driver that are not there: a fleet to play with, over the public API like real ones.
//!
//! Three machines, pure and without a clock: [`Kubelet`] of the crate `kubelet` registers nodes, renews their leases, and lets pods bound to them
//! start, end and go; [`Driver`] publishes the devices of each node and taints those that are said to fail. Which do
//! fail is written in an annotation of the Node ([`failures`]), so whoever may write nodes can play with it. [`start`]
//! runs them on a [`Hub`]: one watch of pods, claims, nodes and slices, however many nodes there are. [`Volumes`] binds claims of volumes
//! to volumes that store nothing.
//!
//! **Invariant.** No container runs, no device is touched. All actions follow from the objects and the time: a process that begins anew takes over
//! the pods of the one before it, and what is prepared for them, which each Node says. The number of effects in flight has a limit.
//!
//! It must never know how a pod was placed, what a claim was given, or which server it talks to.

mod annotations;
mod checkpoint;
mod driver;
mod effect;
mod event;
pub mod failures;
mod kubelet;
mod node;
mod node_json;
mod options;
mod pod;
mod pod_json;
mod requests;
mod shell;
mod slice_json;
mod volumes;

pub use annotations::{EXIT_CODE, FAIL, PREPARED, RUN_FOR, STOP_AFTER, UNPREPARE_AFTER};
pub use driver::Driver;
pub use effect::Effect;
pub use node::HollowNode;
pub use options::{HollowOptions, OptionsError, parse_device_count, parse_node_count};
pub use shell::{CONTROLLER, NodeClients, start, start_with};
pub use volumes::{SeenClaim, SeenVolume, Volumes};

#[cfg(doc)]
use {lazaret_kubelet::Kubelet, lazaret_runtime::Hub};
