//! `lazaret run` as the chart starts it: with its service account, whose token is renewed, on a server that goes by roles; two replicas, of which one acts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![allow(
    clippy::print_stderr,
    reason = "what the processes said, and how long it took, is for whoever looks"
)]

mod failover;
mod policies;
mod replica;
mod roles;
mod stage;
#[path = "../../../../check/testkit/tests/tools/mod.rs"]
mod tools;
mod webhook;
