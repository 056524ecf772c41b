//! The only place that reads a clock.

use std::time::Duration;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff};
use lazaret_node::Millis;
use tokio::time::Instant;

/// Milliseconds since the start, by the runtime's own clock, which is monotonic and which a test can stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    /// Milliseconds since 1970 when it started.
    started_unix: Millis,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let started_unix = Millis::try_from(wall().0.as_millisecond()).unwrap_or(0);
        Self { started: Instant::now(), started_unix }
    }

    pub(crate) fn now(self) -> Millis {
        Millis::try_from(self.started.elapsed().as_millis()).unwrap_or(Millis::MAX)
    }

    /// Milliseconds since 1970, counted on from the start.
    pub(crate) fn unix(self) -> Millis {
        self.started_unix + self.now()
    }

    /// Such a time, as [`Clock::now`] has it.
    pub(crate) fn since_start(self, unix: Millis) -> Millis {
        unix.saturating_sub(self.started_unix)
    }

    /// Waits until then; for ever without one.
    pub(crate) async fn sleep_until(self, at: Option<Millis>) {
        let Some(at) = at else { return std::future::pending().await };
        tokio::time::sleep_until(self.started + Duration::from_millis(at)).await;
    }
}

/// When something happened, as files and runtimes have it.
#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn system() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

/// Milliseconds since 1970, as the API has them.
pub(crate) fn time(unix: Millis) -> Time {
    let millis = i64::try_from(unix).unwrap_or(i64::MAX);
    Time(jiff::Timestamp::from_millisecond(millis).unwrap_or_default())
}

/// The time of an event, for people.
#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn wall() -> Time {
    Time(jiff::Timestamp::now())
}
