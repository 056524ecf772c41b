//! The one place of this crate where time is read.

use std::time::Instant;

/// A point in time to measure from.
#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
