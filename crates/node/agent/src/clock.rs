//! The only place that reads a clock.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff};
use lazaret_node::Millis;
use tokio::time::Instant;

use crate::wall_times::WallTimes;

/// The timeline of this agent: it advances by the runtime's own clock, which is monotonic and which a test can stop. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    started: Instant,
    /// Milliseconds since 1970 when it started.
    started_unix: Millis,
    /// The times of the wall clock, which may be set at any time.
    times: Arc<Mutex<WallTimes>>,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let started_unix = wall_millis();
        let times = WallTimes::new(i64::try_from(started_unix).unwrap_or(i64::MAX));
        Self { started: Instant::now(), started_unix, times: Arc::new(Mutex::new(times)) }
    }

    pub(crate) fn now(&self) -> Millis {
        Millis::try_from(self.started.elapsed().as_millis()).unwrap_or(Millis::MAX)
    }

    /// The timeline in milliseconds since 1970, counted on from the start. Durations are measured by it; what is written for others goes through
    /// [`Clock::wall_of`].
    pub(crate) fn unix(&self) -> Millis {
        let now = self.started_unix + self.now();
        self.times().read(signed(now), signed(wall_millis()));
        now
    }

    /// The time on the wall clock at an instant of the timeline.
    pub(crate) fn wall_of(&self, unix: Millis) -> Millis {
        Millis::try_from(self.times().wall(signed(unix))).unwrap_or(0)
    }

    /// The instant of the timeline at which the wall clock showed this.
    pub(crate) fn instant_of(&self, wall: Millis) -> Millis {
        Millis::try_from(self.times().instant(signed(wall))).unwrap_or(0)
    }

    /// Somebody has set the wall clock.
    #[cfg(test)]
    pub(crate) fn set_to(&self, wall: Millis) {
        self.times().read(signed(self.started_unix + self.now()), signed(wall));
    }

    fn times(&self) -> MutexGuard<'_, WallTimes> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Such a time, as [`Clock::now`] has it.
    pub(crate) fn since_start(&self, unix: Millis) -> Millis {
        unix.saturating_sub(self.started_unix)
    }

    /// Waits until then; for ever without one.
    pub(crate) async fn sleep_until(&self, at: Option<Millis>) {
        let Some(at) = at else { return std::future::pending().await };
        tokio::time::sleep_until(self.started + Duration::from_millis(at)).await;
    }
}

fn signed(millis: Millis) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}

fn wall_millis() -> Millis {
    Millis::try_from(wall().0.as_millisecond()).unwrap_or(0)
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
