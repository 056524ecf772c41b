//! The controllers of a cluster: replicas, rollouts, jobs, endpoints, budgets, garbage, namespaces, nodes.
//!
//! Each controller is two pure functions, [`Rules`]: which keys a change concerns, and what to do about a key. One
//! [`Controller`] machine runs any of them: it queues keys, carries writes through to their end, and puts what came of
//! them into the [`World`], from which all decisions are made. [`Workloads`] is all of them over one world.
//!
//! **Invariant.** A decision depends on the world, the key and the time, never on the order of news. Every write names
//! the object that it means by UID, or makes one whose name is fixed beforehand: doing it twice does it once. A key
//! whose writes are in flight is not decided again until they have ended and the world knows their results. Work is in
//! proportion to what changed; every queue, burst and memory of the past has a limit.
//!
//! It must never know how objects are fetched or written, or what time it is: `now` comes in.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod budgets;
mod claim;
mod classic_claims;
mod controller;
mod cron_jobs;
mod daemon_sets;
mod deployments;
mod effect;
mod endpoints;
mod failure_run;
mod flight;
mod garbage;
mod graph;
mod history;
mod jobs;
mod key;
mod lean;
mod limits;
mod meta;
mod names;
mod namespaces;
mod node_taints;
mod nodes;
mod object;
mod pod_gc;
mod pod_index;
mod pods;
mod portion;
mod prelude;
mod queue;
mod rank;
mod replica_sets;
mod replication_controllers;
pub mod resource;
mod scales;
mod selection;
mod selector;
mod service_accounts;
mod stale_disruptions;
mod stateful_sets;
mod table;
mod tolerate;
mod workloads;
mod world;
mod writes;

pub use controller::{Context, Controller, Plan, Rules};
pub use effect::{Answer, Effect, EventType, Note, PatchKind, Propagation, Write};
pub use failure_run::FailureRun;
pub use graph::{Graph, Node};
pub use key::Key;
pub use limits::Limits;
pub use object::{Object, TYPED};
pub use queue::Queue;
pub use resource::Resource;
pub use selection::Selection;
pub use table::Table;
pub use workloads::{ALL, Workloads};
pub use world::{Change, World};

/// The controllers, one by one.
pub mod rules {
    pub use crate::{
        budgets::RULES as BUDGETS, cron_jobs::RULES as CRON_JOBS, daemon_sets::RULES as DAEMON_SETS,
        deployments::RULES as DEPLOYMENTS, endpoints::mirror::RULES as MIRRORED_SLICES,
        endpoints::slices::RULES as ENDPOINT_SLICES, endpoints::whole::RULES as ENDPOINTS,
        garbage::RULES as GARBAGE, jobs::RULES as JOBS, namespaces::RULES as NAMESPACES,
        node_taints::RULES as NODE_TAINTS, nodes::RULES as NODES, pod_gc::RULES as POD_GC,
        replica_sets::RULES as REPLICA_SETS, replication_controllers::RULES as REPLICATION_CONTROLLERS,
        service_accounts::RULES as SERVICE_ACCOUNTS, stale_disruptions::RULES as STALE_DISRUPTIONS,
        stateful_sets::RULES as STATEFUL_SETS,
    };
}
