//! Classic claims from end to end: the enhancement's objects, an API server with scheduler, controllers and simulated nodes, and a fabric of 64
//! devices whose controller is made with the kit.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod flow;
mod scheduler;
mod stage;
