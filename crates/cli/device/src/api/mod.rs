//! The API server as this command sees it: a few resources, read in pages, watched, changed with preconditions.

mod call;
mod gates;
mod list;
mod served;

pub(crate) use call::{Api, DryRun};
pub(crate) use list::{Item, Scope};
pub(crate) use served::Served;

pub(crate) use lazaret_runtime::{
    CLASSIC_CLAIMS, DISRUPTION_BUDGETS, DISRUPTION_GUARDS, EVENTS, HEALTH_POLICIES, INCIDENTS, NAMESPACES,
    NODES, PODS, REPLACEMENT_POLICIES, RULES, Resource, SIGNALS, TAINT_POLICIES,
};
