//! Answers requests for the status of resource pools, and deletes requests that are old.
//!
//! [`Pools`] is a state machine over the ResourcePoolStatusRequests and ResourceSlices that it receives, and over a
//! [`Fleet`](lazaret_fleet::Fleet) for claims and effective taints. It yields effects: write this status, delete that request.
//!
//! **Invariant.** A request is answered once. A status counts everything that the server had when the request was first seen, and never a
//! pool of which slices are missing: such a request waits until the driver has published the rest. Every write is conditional.
//!
//! It must never know what the API looks like on the wire, how a write is done, or what time it is: `now` comes in.
#![no_std]

extern crate alloc;

mod effect;
mod machine;
mod request;
mod slice;
mod status;
mod views;

pub use effect::{Delete, Effect, EffectKind, SetStatus};
pub use lazaret_machine::{EffectId, Outcome};
pub use machine::{Input, Pools};
pub use request::{COMPLETED_SECONDS_MAX, PENDING_SECONDS_MAX, Progress, Request};
pub use slice::Slice;
pub use status::{Counts, PoolStatus, Status};
pub use views::{CapacityStatus, PartitionStatus, ShareableStatus};
