//! CDI: files that are read, and edits that are applied.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod cdi_apply;
mod cdi_files;
