//! Logs, exec, attach, cp and port-forward: kubectl, the API server and the node's API together, with a runtime that is played.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "tasks of a test end with its runtime")]

mod attacks;
mod direct;
mod played;
#[path = "../../../../check/testkit/tests/tools/mod.rs"]
mod tools;
mod with_kubectl;
mod world;
