//! The only place that reads a clock.

use jiff::Timestamp;

/// What time it is.
#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
