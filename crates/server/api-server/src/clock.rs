//! The one place of this crate where time is read.

use std::time::Instant;

/// Now, by the machine's clock.
#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// A point in time to measure from.
#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}
