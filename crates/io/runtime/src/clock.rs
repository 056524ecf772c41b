//! The only place that reads a clock.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use lazaret_leader::Instants;
use lazaret_model::{Reading, Timestamp};

/// The longest sleep without reading the clocks, which may be set while a task sleeps.
const LOOK_MS: i64 = 1_000;
/// A task that wakes this much later than it asked to did not run meanwhile, nor did the rest of the process: it was stopped. Much longer than a
/// busy machine keeps a task waiting; shorter than the 50 s after which a node that was not heard of counts as unreachable.
const STALL_MS_MIN: i64 = 30_000;

/// The wall clock and the monotonic clock of the machine. Clones share their eras.
#[derive(Clone, Debug)]
pub struct Clock {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    started: Instant,
    /// By how many milliseconds the wall clock of a test is ahead of the machine's.
    set_ahead_ms: AtomicI64,
    time: Mutex<lazaret_model::Clock>,
}

impl Default for Clock {
    #[allow(clippy::disallowed_methods, reason = "this is the clock module")]
    fn default() -> Self {
        Self {
            shared: Arc::new(Shared {
                started: Instant::now(),
                set_ahead_ms: AtomicI64::new(0),
                time: Mutex::default(),
            }),
        }
    }
}

impl Clock {
    /// The time for a core, and the era that it belongs to.
    #[must_use]
    pub fn read(&self) -> Reading {
        // Read under the lock, so that no older reading comes after a newer one.
        let mut time = self.lock();
        time.read(self.wall().as_millis(), self.monotonic().as_millis())
    }

    /// The time for a core.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.read().now
    }

    /// The time on the machine's wall clock, which may be set at any time.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "this is the clock module")]
    pub fn wall(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
            .plus_millis(self.shared.set_ahead_ms.load(Ordering::Relaxed))
    }

    /// Time since this clock was made, as a timestamp. It cannot be set, and it stands still while the machine is suspended.
    #[must_use]
    pub fn monotonic(&self) -> Timestamp {
        let since = self.shared.started.elapsed();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// Both.
    #[must_use]
    pub fn instants(&self) -> Instants {
        Instants { monotonic: self.monotonic(), wall: self.wall() }
    }

    /// Sets the wall clock forward or back by this much, for whoever has a clone of this clock: what NTP or a person does to the machine's.
    pub fn set_by(&self, ms: i64) {
        self.shared.set_ahead_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Waits until [`Clock::now`] is `at`; for ever without one. Ends early when an era ends: whoever waits must look at everything again.
    pub async fn sleep_until(&self, at: Option<Timestamp>) {
        let Some(at) = at else { return std::future::pending().await };
        let begin = self.read();
        let mut reading = begin;
        while reading.era == begin.era
            && let left @ 1.. = at.millis_since(reading.now)
        {
            let (asked, slept) = (left.min(LOOK_MS), self.monotonic());
            tokio::time::sleep(Duration::from_millis(asked.unsigned_abs())).await;
            if self.monotonic().millis_since(slept) > asked + STALL_MS_MIN {
                self.lock().stalled(begin.era);
            }
            reading = self.read();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, lazaret_model::Clock> {
        self.shared.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_clock_that_is_set_wakes_who_waits_for_an_instant() {
        let clock = Clock::default();
        let hour_ms = 3_600_000;
        for by in [-hour_ms, hour_ms] {
            let begin = clock.read();
            let sleeps = clock.sleep_until(Some(begin.now.plus_millis(3 * hour_ms)));
            // The one who sleeps is asked first.
            tokio::join!(biased; sleeps, async { clock.set_by(by) });
            assert_eq!(clock.read().era, begin.era + 1);
        }
    }

    #[tokio::test]
    async fn who_waits_for_an_instant_wakes_when_it_has_come_and_in_the_same_era() {
        let clock = Clock::default();
        let begin = clock.read();
        clock.sleep_until(Some(begin.now.plus_millis(20))).await;
        let end = clock.read();
        assert!(end.now >= begin.now.plus_millis(20));
        assert_eq!(end.era, begin.era);
    }
}
