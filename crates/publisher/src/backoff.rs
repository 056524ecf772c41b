//! How long to wait after failures.

use lazaret_model::Timestamp;

/// The first pause after a failure. Doubled with each that follows.
const PAUSE_MS_MIN: i64 = 200;
/// After failures that pass: a server that restarts is back within this.
pub(crate) const PASSING_MS_MAX: i64 = 30_000;
/// After a refusal: somebody has to change something first.
pub(crate) const REFUSED_MS_MAX: i64 = 300_000;

/// Failures in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backoff {
    failures: u32,
    until: Option<Timestamp>,
}

impl Backoff {
    pub(crate) fn fail(&mut self, now: Timestamp, longest_ms: i64) {
        let pause = PAUSE_MS_MIN.saturating_mul(1 << self.failures.min(20)).min(longest_ms);
        self.failures = self.failures.saturating_add(1);
        self.until = Some(now.plus_millis(pause));
    }

    pub(crate) fn until(&self) -> Option<Timestamp> {
        self.until
    }

    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// What was refused was another thing: the next one need not wait.
    pub(crate) fn try_now(&mut self) {
        self.until = None;
    }
}
