//! Times as the protocol has them.

use std::time::{Duration, SystemTime};

/// Nanoseconds since 1970.
pub(crate) fn time(nanoseconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
}

#[allow(clippy::disallowed_methods, reason = "this is the clock of this shell")]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}
