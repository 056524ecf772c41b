//! The same answers the slow way: everything recomputed from the objects that are there, with plain loops.
//!
//! For tests and the simulator. It shares with the fleet the words of the model, the CEL evaluator and nothing else:
//! no index, no cache, no marks. The two sides are compared by an [`Observation`] of each.

mod observation;
mod world;

pub use observation::{ClaimSeen, DeviceSeen, Numbers, Observation, PoolSeen, RuleSeen};
pub use world::Reference;
