//! `resource.k8s.io`: devices, claims for them, and what taints them.

mod allocation;
mod authorization;
mod capacity;
mod cel;
mod claim;
mod claim_spec;
mod class;
mod common;
mod compile_budget;
mod device;
mod patch;
pub(crate) mod pool_status;
mod rule;
mod slice;
mod superset;
mod template;
#[cfg(test)]
mod tests;

pub(crate) use claim::Claim;
pub(crate) use class::Class;
pub(crate) use patch::Patch;
pub(crate) use pool_status::PoolStatusRequest;
pub(crate) use rule::{Rule, windows};
pub(crate) use slice::Slice;
pub(crate) use template::Template;
