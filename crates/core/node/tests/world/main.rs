//! A whole node in a world of its own: pods, claims, plugins, a file and a clock, with faults in all of them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a test looks for one action among many")]

mod answers;
mod classic;
mod disk;
mod faults;
mod kill;
mod registration;
mod script;
