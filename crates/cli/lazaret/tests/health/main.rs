//! Devices that fall ill and get well again on `lazaret up`, by a policy, whatever happens to the process meanwhile; and every command about it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod commands;
mod flaps;
mod people;
mod policies;
mod requests;
mod rights;
mod signals;
#[path = "../support/mod.rs"]
mod support;
mod up;
