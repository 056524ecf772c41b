//! The files in `deploy/` are those that the program and the chart make; a server accepts them, they live a whole life there and leave nothing behind.
//!
//! `UPDATE_DEPLOY=1` writes the generated files anew: `deploy/crds`, `deploy/lazaret.yaml`, `deploy/chart/files`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "what could not be tested is said")]

mod admission;
mod chart;
mod generated;
mod life;
mod observability;
mod release;
mod render;
#[path = "../support/mod.rs"]
mod support;
#[path = "../../../../check/testkit/tests/tools/mod.rs"]
mod tools;
