//! The same answers the slow way: everything recomputed from the objects that are there, with plain loops.
//!
//! For tests and the simulator. It shares with the fleet the words of the model, the CEL evaluator and nothing else:
//! no index, no cache, no marks. What is compared is an [`Observation`]; both sides can give one.

mod observation;
mod world;

pub use observation::{ClaimSeen, DeviceSeen, Numbers, Observation, PoolSeen, RuleSeen};
pub use world::Reference;
