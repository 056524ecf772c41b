//! The scheduler against a small API server that carries out its effects, at once or later.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bind;
mod budget;
mod claims;
mod classic;
mod collisions;
mod extended;
mod extended_ready;
mod faults;
mod filters;
mod gone_nodes;
mod groups;
mod holds;
mod node_allocatable;
mod preempt;
mod preempt_budget;
mod queue;
mod regressions;
mod timed;
mod wakes;
mod world;
