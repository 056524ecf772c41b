//! The example driver, alone and with the agent's machine.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod agent;
mod example;
