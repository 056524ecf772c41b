//! Rules, and taints of drivers and patches, that reach more than a guard permits: they are held until they are approved. Evictions and
//! replacements ask the same functions.

mod reach;
mod refusal;
mod rules;
mod taints;

pub use reach::{Reach, impact, impact_together, measure, reach_of, request_of};
pub(crate) use rules::judged_reach;
pub use rules::{RuleHold, is_exempt};
pub(crate) use taints::kind_of;
pub use taints::{impact_of_patch, taint_hold, taint_reaches};
