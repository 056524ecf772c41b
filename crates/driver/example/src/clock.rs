//! The only place that reads a clock.

use k8s_openapi::jiff::Timestamp;

/// The time of a condition.
#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
