//! `cdi.k8s.io`: classic claims, their classes, and how pods use them.

mod claim;
mod class;
mod errors;
mod pod;
#[cfg(test)]
mod tests;

pub use pod::{convert_patched_pods, convert_pods};

pub(crate) use claim::Claim;
pub(crate) use class::Class;
pub(crate) use pod::{check_feature, check_pod_claim, is_classic};

/// Without it neither the kinds nor classic claims of pods are served.
pub(crate) const FEATURE: &str = "ClassicDRA";

const MODES: &[&str] = &["Immediate", "Delayed"];
const PHASES: &[&str] = &["Pending", "Allocated", "Reallocate"];
