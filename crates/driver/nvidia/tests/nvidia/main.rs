//! The driver on cards that a double of NVML plays.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod cards;
mod trouble;
mod world;
