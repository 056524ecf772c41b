//! The API server as this command sees it: a few resources, read in pages, watched, changed with preconditions.

mod call;
mod gates;
mod list;
mod resource;
mod served;
mod watch;

pub(crate) use call::{Api, DryRun};
pub(crate) use list::{Item, Scope};
pub(crate) use resource::{
    CLASSIC_CLAIMS, DISRUPTION_GUARDS, EVENTS, INCIDENTS, NODES, PODS, REPLACEMENT_POLICIES, Resource,
    SIGNALS, TAINT_POLICIES,
};
pub(crate) use served::Served;
pub(crate) use watch::Change;
