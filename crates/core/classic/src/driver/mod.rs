//! The vendor's controller: allocates and deallocates what claims of its classes need, and says for which nodes it cannot.
//!
//! Devices may be held for a claim from the call of [`Allocate`] until [`Deallocate`] is done. The rules that keep the finalizer on the
//! claim all that time, although any write may arrive late and the process may restart at any point:
//!
//! 1. Allocate only while the claim names the driver by a write of this term that was acknowledged as done. That write
//!    invalidates every earlier one, so none can remove the finalizer later.
//! 2. Remove the finalizer, and deallocate what is not published, only while the claim does not name the driver. Only a claim that names
//!    the driver is ever published, so no publication can arrive after that.
//! 3. Once [`Deallocate`] was called, the only way on is to call it until it is done: what may be half freed is never published.

mod answers;
mod effect;
mod machine;
mod slot;
mod work;

pub use effect::{
    Allocate, Allocation, Deallocate, DriverCounters, DriverEffectKind, DriverInput, ExamineNodes, Refusal,
    Suitability,
};
pub use machine::{DriverController, DriverOptions};
