//! The whole control plane, played from outside: a driver's taint or an administrator's rule goes in, pods move.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod blockable_service;
mod clock;
mod daemons;
mod effects;
mod fence;
mod gates;
mod held_up;
mod holds;
mod node_credentials;
mod permissions;
mod pool_status;
mod protection;
mod quotas;
mod recovery;
mod replacement;
mod restart;
mod rivals;
mod roles;
mod rules;
mod scheduling;
mod services;
mod stage;
mod stories;
mod taint_holds;
mod timed;
mod twice;
mod upkeep;
mod verified;
