//! Which devices satisfy these claims on this node: in Kubernetes' order, fast, and if none do, why not.
//!
//! A pure function of a fleet's snapshot, of the allocations in flight on top of it, of a node and of claims. An
//! [`Allocator`] only caches earlier results (compiled selectors, their results for each shape of
//! device, the remaining counters of a pool), all of it bounded, none of it able to change an answer.
//!
//! **Invariant.** With default options the answer is the one that Kubernetes 1.37 gives: the same devices, or no
//! devices, or an error, for the same features. A part of the search is skipped only where Kubernetes would
//! find neither a solution nor an error. Inputs are never changed, and equal inputs give equal answers.
//!
//! It must never know about queues, binding, the API, clocks or randomness: identifiers of shares come from outside.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod allocate;
mod balances;
mod bits;
mod capacity;
mod config;
mod constraint;
mod counters;
mod error;
mod explain;
mod expressions;
mod failed_nodes;
mod features;
mod find;
mod forget;
mod full_nodes;
mod meter;
mod overlay;
mod plan;
mod prune;
mod reachable;
mod result;
mod search;
mod state;
mod timed;
mod values;
mod view;
mod why;

pub use allocate::{Allocator, Answer, Options, Request};
pub use capacity::CapacityError;
pub use error::{AllocateError, ErrorKind, ErrorScope, InRequest, Written};
pub use features::{FeatureError, Features};
pub use find::{Found, NodeGroup, NodeSearch};
pub use overlay::Overlay;
pub use state::OPTIONAL_NODE_OPERATIONS;
pub use timed::{TimedTolerations, have_timed_tolerations};
pub use why::{Conflict, Group, PoolWhy, Reason, RequestWhy, TaintSource, WhyNot};

/// How many devices a claim can hold.
pub const RESULTS_MAX: i64 = 32;

/// The default bound on the steps of a search.
pub const BUDGET_STEPS_DEFAULT: u64 = 200_000;
