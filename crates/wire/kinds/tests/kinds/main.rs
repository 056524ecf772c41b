//! Kinds that are served, and their names.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod rule_signatures;
mod served;
mod taint_signatures;
