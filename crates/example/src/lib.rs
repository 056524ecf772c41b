//! A driver of simulated GPUs, made with the kit. It runs on any node, needs no hardware, and fails on command.
//!
//! It publishes GPUs ([`Gpu`]), writes a CDI file for each claim that it prepares, and remembers claims in a file
//! ([`Checkpoint`]), so that a new process knows what the one before it did. Faults come by a control socket, one command a
//! line ([`Command`]): a GPU has a condition, flaps, vanishes, comes back under another name; calls hang or fail; the
//! process ends without cleaning up.
//!
//! **Invariant.** What is prepared is in a file before kubelet hears of it. A GPU is given to one claim at a time, unless
//! for administration. A command that is not understood changes nothing.

mod checkpoint;
mod control;
mod driver;
mod faults;
mod gpu;

pub use checkpoint::{Checkpoint, CheckpointError};
pub use control::tell;
pub use driver::{Example, Options, RunError, start};
pub use faults::{Call, Command, CommandError, Faults, Mode};
pub use gpu::{Gpu, gpus};
