//! How long to wait after failures.

use lazaret_model::Timestamp;

/// More doublings than these are never counted: they exceed any longest pause.
const DOUBLINGS_MAX: u32 = 40;

/// Pauses that double from the first to the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first_ms: i64,
    /// No pause is longer.
    pub longest_ms: i64,
}

impl Backoff {
    /// From the first to the longest.
    #[must_use]
    pub const fn new(first_ms: i64, longest_ms: i64) -> Self {
        Self { first_ms, longest_ms }
    }

    /// The pause after this many failures in a row, one or more.
    #[must_use]
    pub fn after(self, failures: u32) -> i64 {
        let doubled = self.first_ms.saturating_mul(1 << failures.saturating_sub(1).min(DOUBLINGS_MAX));
        doubled.clamp(0, self.longest_ms.max(0))
    }

    /// The same, for cores whose instants are unsigned milliseconds.
    #[must_use]
    pub fn millis_after(self, failures: u32) -> u64 {
        self.after(failures).unsigned_abs()
    }
}

/// Failures in a row of one thing, and until when it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    failures: u32,
    until: Option<Timestamp>,
}

impl Retry {
    /// It failed at `now`.
    pub fn fail(&mut self, now: Timestamp, backoff: Backoff) {
        self.failures = self.failures.saturating_add(1);
        self.until = Some(now.plus_millis(backoff.after(self.failures)));
    }

    /// Until when it waits; may be over.
    #[must_use]
    pub const fn until(&self) -> Option<Timestamp> {
        self.until
    }

    /// Whether it may be tried at `now`.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// It may be tried at once; the next failure counts on.
    pub fn try_now(&mut self) {
        self.until = None;
    }
}
