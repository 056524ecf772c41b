//! The only place that reads a clock.

use std::time::Duration;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff};
use lazaret_node::Millis;
use tokio::time::Instant;

/// Milliseconds since the start, by the runtime's own clock: nobody can set it, and a test can stop it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    pub(crate) fn now(self) -> Millis {
        Millis::try_from(self.started.elapsed().as_millis()).unwrap_or(Millis::MAX)
    }

    /// Waits until then; for ever without one.
    pub(crate) async fn sleep_until(self, at: Option<Millis>) {
        let Some(at) = at else { return std::future::pending().await };
        tokio::time::sleep_until(self.started + Duration::from_millis(at)).await;
    }
}

/// The time of an event, for people.
#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn wall() -> Time {
    Time(jiff::Timestamp::now())
}
