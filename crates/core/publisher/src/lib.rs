//! Which ResourceSlices a driver should have, and how to get there; which taints its devices should have, and since when.
//!
//! Two machines. The inputs of [`Publisher`] are the pools that the driver wants ([`Pool`]) and the slices of the API server; it emits
//! one write after another until both agree: deletes, updates, creates, each with its preconditions. The inputs of [`Health`] are
//! observations of devices; it says which taints and which state each has, by a table ([`HealthTable`]), with a
//! debounce before a taint appears and a recovery time before it goes.
//!
//! **Invariant.** The newest desired state is reached, whatever fails in between: nothing is given up, only delayed. Published
//! devices always have the taints of health: [`compose`] is the only way from pools to slices. A pool that
//! consumers see complete is a state that the driver asked for. It must never know how a slice is sent or who drives it.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod compare;
mod compose;
mod dropped;
mod effect;
mod health;
mod machine;
mod plan;
mod pool;
mod table;
mod validate;

pub use compose::compose;
pub use dropped::{Dropped, Gate};
pub use effect::{Answer, Effect, EffectKind};
pub use health::{Condition, DeviceKey, DeviceState, Health, Observation, Status};
pub use machine::{Problem, Publisher};
pub use pool::{Nodes, Pool, Scope};
pub use table::{HealthRule, HealthTable, TableError};
pub use validate::{PoolError, validate};

/// Devices of one slice. Kubernetes allows 128, but only 64 as soon as one of them has a taint, consumes a counter or has a
/// list as attribute: a slice must not become invalid because a device fails.
pub const DEVICES_PER_SLICE_MAX: usize = 64;
/// Counter sets of one slice.
pub const COUNTER_SETS_PER_SLICE_MAX: usize = 8;
/// Taints of one device.
pub const TAINTS_PER_DEVICE_MAX: usize = 16;
/// Devices of one driver. Kubelet keeps the health of this many.
pub const DEVICES_MAX: usize = 16_384;
