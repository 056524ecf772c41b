//! The agent as it runs: sockets, files and an API server, with plugins that a test controls.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod classic;
mod health;
mod hostile;
mod kept;
mod lifecycle;
mod plugin;
mod probes;
mod running;
mod runtime;
mod world;
