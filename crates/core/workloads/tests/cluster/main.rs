//! The controllers against a small model of an API server, with virtual time and faults.
#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub, reason = "tests")]

mod burst;
mod cron_jobs;
mod daemon_sets;
mod deployments;
mod endpoints;
mod jobs;
mod limits;
mod replicas;
mod replication_controllers;
mod selection;
mod silence;
mod stateful_sets;
mod support;
mod terms;
mod upkeep;
