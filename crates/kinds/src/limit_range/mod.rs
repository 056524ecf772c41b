//! Limit ranges: checked, kept, and held against pods and claims for volumes.

mod enforce;
mod rules;
#[cfg(test)]
mod tests;

pub(crate) use enforce::pod_requests;
pub use enforce::{check_claim, check_pod, default_pod};
pub(crate) use rules::LimitRange;
