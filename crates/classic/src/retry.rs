//! Pauses after failures.

use lazaret_model::Timestamp;

/// How long to pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryOptions {
    /// The first pause after a failed effect; each further failure in a row doubles it.
    pub retry_ms_min: i64,
    /// No pause after a failure is longer.
    pub retry_ms_max: i64,
    /// How long to wait until a write that was answered is seen, before looking again.
    pub recheck_ms: i64,
}

impl Default for RetryOptions {
    fn default() -> Self {
        // A watch that is 30 s behind has other problems; one more look costs nothing.
        Self { retry_ms_min: 5, retry_ms_max: 60_000, recheck_ms: 30_000 }
    }
}

impl RetryOptions {
    /// The pause after the `failures`-th failure in a row.
    pub(crate) fn retry_ms(&self, failures: u32) -> i64 {
        let doubled = self.retry_ms_min.saturating_mul(1_i64 << failures.saturating_sub(1).min(40));
        doubled.clamp(0, self.retry_ms_max.max(0))
    }
}

/// Failures in a row, and until when to pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setback {
    failures: u32,
    pub(crate) until: Timestamp,
}

impl Default for Setback {
    fn default() -> Self {
        Self { failures: 0, until: Timestamp::from_millis(i64::MIN) }
    }
}

impl Setback {
    pub(crate) fn fail(&mut self, now: Timestamp, options: &RetryOptions) {
        self.failures = self.failures.saturating_add(1);
        self.until = now.plus_millis(options.retry_ms(self.failures));
    }
}
