//! The loop that runs a core: what it hears, does, survives and limits.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod bounded_writes;
mod busy;
mod late_listeners;
mod late_renewals;
mod replies;
mod restarts;
mod room;
mod size;
mod streaming_lists;
mod views;
