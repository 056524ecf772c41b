//! Objects from the wire, and back.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod allocation;
mod decode;
mod known;
mod load;
mod outline;
mod rule_protection;
