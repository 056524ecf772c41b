//! The machine against an API in memory with the controllers, kubelets and schedulers that it counts on, as told. The worlds of the simulator run it
//! with everything that can go wrong.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod again;
mod answers;
mod api;
mod approval;
mod devices;
mod forged;
mod holdings;
mod limits;
mod others;
mod perform;
mod runner;
mod specs;
mod strategies;
mod timers;
mod waiting;
