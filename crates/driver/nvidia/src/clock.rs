//! The only place that reads a clock.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff};

/// The time of day, for people.
#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn wall() -> Time {
    Time(jiff::Timestamp::now())
}

/// Now. Wall time at the start, and from there a monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    wall_ms: i64,
}

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "this is the clock module")]
    pub(crate) fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), wall_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX) }
    }

    /// In milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> i64 {
        let since = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.wall_ms.saturating_add(since)
    }
}
