//! What is served, and under which names.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod rule_signatures;
mod served;
