//! NVML, the management library of NVIDIA's driver, found at run time: the same program runs with and without a GPU.
//!
//! Only the parts for a driver of Dynamic Resource Allocation: properties of a GPU ([`Card::facts`]), its state
//! ([`Card::readings`]), its events ([`Events`]), and its partitions ([`Card::partitions`]).
//!
//! **Invariant.** A function that the library does not have is an [`Error`], not a crash. A handle never outlives the
//! library that gave it out. A value that a card does not support is absent, not zero.

mod card;
mod error;
mod events;
mod facts;
mod library;
mod partitions;
mod readings;

pub use card::{Card, ComputeMode};
pub use error::{Error, LoadError};
pub use events::{Event, EventKind, Events};
pub use facts::Facts;
pub use library::{LIBRARY, Nvml};
pub use partitions::{Partition, Placement, Profile};
pub use readings::{Fabric, Readings, RecoveryAction, RemappedRows, Slowdown};
