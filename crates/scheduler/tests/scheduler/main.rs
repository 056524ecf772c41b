//! The scheduler against a small API server that does what it is told, at once or not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bind;
mod claims;
mod classic;
mod extended;
mod faults;
mod filters;
mod groups;
mod holds;
mod node_allocatable;
mod preempt;
mod property;
mod queue;
mod timed;
mod wakes;
mod world;
