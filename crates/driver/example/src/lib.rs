//! A driver of simulated devices, made with the kit. It runs on any node, needs no hardware, and fails on command.
//!
//! It publishes GPUs, network interfaces or FPGAs ([`Shape`]), whole or in parts with shared counters, for one claim or
//! for several that share their capacity, usable at once or after binding conditions. It writes a CDI file for each claim
//! that it prepares, and remembers claims in a file ([`Checkpoint`]), so that a new process knows what the one before it
//! did.
//!
//! Faults ([`Command`]) come by a control socket, one command a line; by `kubectl device fail`, through an annotation of
//! the Node ([`FAIL_ANNOTATION`]); from the start; or by chance with a seed ([`Soak`]): a device has a condition, flaps,
//! vanishes, comes back under another name; calls hang or fail; slices are not written, or stale and incomplete ones are;
//! the service socket sends broken frames; the process ends without cleaning up.
//!
//! [`Fabric`] and [`FabricPlugin`] are another one: the controller of a classic driver, whose devices can be attached to any node, and its plugin on a
//! node.
//!
//! **Invariant.** A prepared device is in a file before kubelet gets the answer. A device is given to one claim at a time,
//! unless it is shared or for administration, and never together with a part of it. A command that is not understood
//! changes nothing, and one that could not be carried out is not listed.

mod binding;
mod checkpoint;
mod clock;
mod command;
mod control;
mod driver;
mod fabric;
mod fabric_parameters;
mod fabric_plugin;
mod faults;
mod orders;
mod slice_faults;
mod soak;
mod state;
mod unit;

pub use checkpoint::Checkpoint;
pub use command::{Call, Command, CommandError, Frames, SliceFault};
pub use control::tell;
pub use driver::{Example, Extras, Options, RunError, start, start_with};
pub use fabric::{DEVICE_ATTRIBUTE, FABRIC_POOL, Fabric, FabricOptions, POOL_ATTRIBUTE};
pub use fabric_plugin::FabricPlugin;
pub use faults::{CommandEffect, Faults, Mode, Order};
pub use orders::FAIL_ANNOTATION;
pub use soak::{FaultKind, Soak, SoakOptions};
pub use unit::{FAILS_ON_COMMAND, Profile, Shape, Unit, pool, units};
