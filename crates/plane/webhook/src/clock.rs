//! The only place that reads a clock.

use jiff::Timestamp;

/// The time.
#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
