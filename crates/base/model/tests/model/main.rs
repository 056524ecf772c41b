//! Guards, windows and approval.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod guards_and_windows;
mod rule_holds;
