//! The preparation of a pod before its containers run.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod provision_kept;
mod provision_objects;
mod provision_spec;
mod provision_volumes;
mod support;
