//! A driver of NVIDIA GPUs for Dynamic Resource Allocation, made with the kit.
//!
//! It publishes GPUs under the names of NVIDIA's own driver ([`inventory`]), whole or as partitions that are made when a
//! claim is prepared; gives containers their device nodes and the driver's libraries by CDI ([`Host`]); and turns the reports of
//! NVML and the kernel into conditions ([`Signals`]), which the kit makes taints and the health of pods.
//!
//! **Invariant.** A prepared device is in a file before kubelet gets the answer. A GPU or partition is held by one claim at a
//! time, unless for administration. A GPU is reset, split or made whole only while no claim holds it. A condition goes
//! only by its own remedy: a restart of this driver clears nothing.

mod checkpoint;
mod clock;
mod config;
mod doctor;
mod driver;
mod edits;
mod host;
pub mod inventory;
mod kernel_log;
mod monitor;
mod notices;
mod prepare;
mod requests;
mod signals;
mod smi;
mod table;
mod xid;

pub use config::{Config, ConfigError, Interval, Sharing};
pub use doctor::doctor;
pub use driver::{Nvidia, Options, RunError, start};
pub use host::Host;
pub use inventory::Partitions;
pub use requests::{Answer, Request, ask};
pub use signals::{Process, Signal, Signals};
pub use table::{CONDITIONS, table};
pub use xid::{Severity, Xid, xid};

/// The driver's name: that of NVIDIA's own, so that classes and selectors work unchanged.
pub const DRIVER: &str = "gpu.nvidia.com";
