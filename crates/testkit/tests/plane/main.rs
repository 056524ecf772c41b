//! The whole control plane, played from outside: a driver's taint or an administrator's rule goes in, pods move.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod clock;
mod effects;
mod fence;
mod gates;
mod node_credentials;
mod recovery;
mod replacement;
mod restart;
mod rivals;
mod rules;
mod scheduling;
mod stage;
mod timed;
mod upkeep;
