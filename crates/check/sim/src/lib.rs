//! A seeded world that tries to prove the fleet, the eviction, the incidents, the claim controller, the scheduler, the workload controllers, the
//! replacement of pods and the kubelets wrong: drivers, users, an administrator, the kubelets, and two processes that compete for a lease and run the
//! other cores, around a
//! model of the API server, in virtual time, with every fault that a seed can think of.
//!
//! **Invariant.** The same seed gives the same world, step by step: one thread, own randomness, no clock, nothing
//! iterated in hash order. The decisions of the machines under test are judged by a [`reference`] that shares no code with
//! them but the words of `model`.
//!
//! It knows every core that it proves and no shell. Nothing of the product depends on it.

pub mod api;
pub mod coverage;
pub mod mutant;
pub mod palette;
pub mod queue;
pub mod reference;
pub mod rng;
pub mod scenario;
pub mod shrink;
pub mod view;
pub mod world;

mod actors;
mod catalog;
mod check;
mod numbers;
mod population;
mod record;

pub use coverage::{Coverage, Mark};
pub use mutant::Mutant;
pub use population::Runner;
pub use scenario::{Limits, Scenario};
pub use shrink::shrink;
pub use world::{Outcome, Violation, run};
