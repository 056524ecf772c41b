//! Which claims hold which devices, and whether one more allocation fits beside them.
//!
//! An API server asks [`Holdings`] right before it writes an allocation. Two claims [`collide`] where a server did not ask; then one [gives way](gives_way).
//!
//! **Invariant.** Of two allocations that [`Holdings::refusal`] lets pass, one after the other, no device is given to both, unless it is shared: then each has
//! its own share, and together they take no more than the device and its pool have. The work for an allocation is in proportion to its devices,
//! and to the devices that are held in the pools with shared counters that it draws from.
//!
//! It must never know how objects are stored, what they look like on the wire, or what time it is.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod collisions;
mod given;
mod holdings;
mod pools;
mod refusal;
#[cfg(test)]
mod tests;

pub use collisions::{Standing, collide, gives_way};
pub use given::Given;
pub use holdings::{Holdings, Reservation};
pub use pools::{DeviceFacts, SliceFacts};
pub use refusal::{Reason, Refusal};
