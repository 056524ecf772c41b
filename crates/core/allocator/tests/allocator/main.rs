//! The allocator's answers, case by case.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "in a test that is how to fail"
)]

mod agreement;
mod behaviour;
mod dsl;
mod hostile;
mod random;
mod reference;
mod render;
mod table;
mod turns;
