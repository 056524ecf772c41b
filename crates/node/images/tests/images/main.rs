//! Images from files and registries, good ones and hostile ones.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod common;
mod image_hostile;
mod image_import;
mod image_names;
mod image_pull;
