//! The one place of this crate where time is read.

use std::time::{Instant, SystemTime};

/// A point in time to measure from.
#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Seconds since 1970, to tell runs apart and to renew leases.
#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
