//! The only place that reads a clock.

use std::time::{SystemTime, UNIX_EPOCH};

use lazaret_model::Timestamp;

/// Now. Wall time at the start, and from there the runtime's own clock, which is monotonic and which a test can stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: tokio::time::Instant,
    wall: Timestamp,
}

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "this is the clock module")]
    pub(crate) fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        Self { started: tokio::time::Instant::now(), wall }
    }

    pub(crate) fn now(&self) -> Timestamp {
        let since = self.started.elapsed().as_millis();
        self.wall.plus_millis(i64::try_from(since).unwrap_or(i64::MAX))
    }

    /// Waits until then; for ever without one.
    pub(crate) async fn sleep_until(&self, at: Option<Timestamp>) {
        let Some(at) = at else { return std::future::pending().await };
        let left = at.millis_since(self.now()).max(0).unsigned_abs();
        tokio::time::sleep(std::time::Duration::from_millis(left)).await;
    }
}
