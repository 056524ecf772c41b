//! The command against a server in this process, with objects that the test made.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod approve;
mod approve_taints;
mod cordon;
mod describe;
mod drain;
mod drain_progress;
mod errors;
mod future;
mod gates;
mod guard;
mod installation;
mod list;
mod live;
mod plan;
mod release;
mod roles;
mod selection;
mod support;
mod taint;
mod waits;
mod ways;
mod why;
