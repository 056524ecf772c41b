//! A server as its clients see it: kube-rs, informers, the official Python client, kubectl, the types of the dashboard. One program, because each that is linked
//! with all of Kubernetes' types costs more to build than to run.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod informers;
mod kube_rs;
mod kubectl;
mod life;
mod metrics;
mod nodes;
mod page_types;
mod python;
mod support;
#[path = "../tools/mod.rs"]
mod tools;
