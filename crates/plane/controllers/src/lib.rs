//! The cores at work: each module wires one of them to the API.
//!
//! **Invariant.** Decides nothing: news go in, effects come out and are carried out with their preconditions, and what became
//! of them goes back. Must never know which server it talks to.

mod capacity;
mod claims;
mod classic;
mod conditions;
mod content;
mod context;
mod custom;
mod disrupt;
mod effect_log;
mod event;
mod eviction;
mod feed;
mod frozen;
mod guard;
mod header;
mod health;
mod ledger;
mod machine_agent;
mod plane;
mod policies;
mod policy_reviews;
mod pools;
mod preferences;
mod proof;
mod quotas;
mod replacement;
mod rule_reviews;
mod scheduler;
mod slice_patches;
mod telemetry;
mod wire;
mod without_effect;
mod workload_agent;
mod workloads;
mod writer;

pub use feed::Sources;
pub use lazaret_lifecycle::History as IncidentHistory;
pub use lazaret_workloads::{Limits as WorkloadLimits, Selection as WorkloadSelection};
pub use plane::{Controllers, Options, Parts, Plane, Rivals};
pub use policy_reviews::PolicyReviews;
pub use rule_reviews::{RuleReview, RuleReviews};
