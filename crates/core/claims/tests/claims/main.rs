//! Claims from templates, and what becomes of them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod faults;
mod groups;
mod tables;
mod world;
