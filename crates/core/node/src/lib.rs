//! The DRA side of a node, as kubelet does it: which plugins are registered, which claims are prepared for which pods,
//! and the checkpoint in kubelet's own file format.
//!
//! [`Node`] is the whole of it: a shell gives it pods, registration sockets, connections and health, and the outcomes of its
//! actions; it answers with calls to plugins and to the API, and files to write. Inside, [`Manager`] prepares and
//! unprepares claims. [`checkpoint`] reads and writes `dra_manager_state`, and [`Files`] says how it comes onto a disk.
//!
//! **Invariant.** A pod starts only when every claim of it is prepared, and a claim is unprepared only after its last pod.
//! Claims that a plugin may have prepared are in the checkpoint before the plugin is called, and stay there until it has
//! unprepared them. It must never know how a plugin is reached, or where a file is.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod action;
mod answers;
pub mod checkpoint;
mod claims;
mod crc;
mod effects;
mod error;
mod files;
mod health;
mod machine;
mod mapping;
mod node;
mod plugins;
mod pods;
mod registry;
mod wipes;
mod work;

pub use action::{Action, Call, Input, Life, Outcome, PluginInfo, PodRef, SeenNode, SeenPod};
pub use answers::DEVICES_PER_CLAIM_MAX;
pub use checkpoint::{CheckpointError, ClaimState, DeviceState, DriverState, HeldDevice};
pub use claims::{ClaimId, ClaimKind, ClaimName, ClaimView, PodClaim, PodView};
pub use effects::{Answer, ClaimAnswer, ClassicCall, Effect, Operation};
pub use error::NodeError;
pub use files::{CheckpointFile, Disk, Exchanged, Files, FilesError, Opened, SPARES, Written};
pub use health::{DEVICES_PER_DRIVER_MAX, DeviceHealth, HealthReport, MESSAGE_BYTES_MAX};
pub use machine::Manager;
pub use mapping::{ContainerClaim, ContainerUse, ResourceHealth, ResourceStatus, cdi_ids};
pub use node::Node;
pub use plugins::{Plugin, PluginError, Plugins, choose_health, choose_plugin};
pub use registry::{SOCKETS_MAX, SocketId};
pub use wipes::WIPE_AFTER_MS;

/// Milliseconds since some instant, of a monotonic clock.
pub type Millis = u64;
