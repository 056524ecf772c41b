//! Documents as they are written, and as others read them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod like_serde_json;
mod verbatim;
