//! The DRA side of a node, as kubelet does it: which plugins are registered, which claims are prepared for which pods,
//! and the checkpoint in kubelet's own file format.
//!
//! [`Manager`] is the machine: a shell gives it pods with their claims, plugins that come and go, and what became of its
//! effects; it answers with calls to plugins and files to write. [`checkpoint`] reads and writes `dra_manager_state`.
//!
//! **Invariant.** A pod starts only when every claim of it is prepared, and a claim is unprepared only after its last pod.
//! What a plugin may have prepared is in the checkpoint before the plugin is called, and stays there until it has
//! unprepared it. It must never know how a plugin is reached, or where a file is.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod checkpoint;
mod claims;
mod error;
mod machine;
mod mapping;
mod plugins;

pub use checkpoint::{CheckpointError, ClaimState, DeviceState, DriverState};
pub use claims::{ClaimId, ClaimView, PodClaim, PodView};
pub use error::NodeError;
pub use machine::{Answer, ClaimAnswer, Effect, Manager, Operation};
pub use mapping::{ContainerClaim, cdi_ids};
pub use plugins::{Plugin, PluginError, Plugins, choose_health, choose_plugin};
