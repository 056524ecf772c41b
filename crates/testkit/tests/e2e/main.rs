//! A server as its clients see it: kube-rs, informers, the official Python client, kubectl. One program, because each that is linked
//! with all of Kubernetes' types costs more to build than to run.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod informers;
mod kube_rs;
mod kubectl;
mod life;
mod metrics;
mod nodes;
mod python;
mod support;
