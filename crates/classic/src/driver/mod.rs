//! The vendor's controller: allocates and deallocates what claims of its classes need, and says for which nodes it cannot.

mod answers;
mod effect;
mod machine;
mod slot;
mod work;

pub use effect::{
    Allocate, Allocation, Deallocate, DriverCounters, DriverEffect, DriverEffectKind, DriverInput,
    ExamineNodes, Refusal, Suitability,
};
pub use machine::{DriverController, DriverOptions};
