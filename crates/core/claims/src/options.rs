//! The options of the machine.

use lazaret_machine::Backoff;

/// Knobs of [`Claims`](crate::Claims).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many effects may be in flight (emitted, not acknowledged) at a time. The entries of one pod start together,
    /// so that there may be as many more as a pod has entries.
    pub in_flight_max: usize,
    /// The first pause after a failed effect; each further failure doubles it.
    pub retry_ms_min: i64,
    /// No pause after a failure is longer.
    pub retry_ms_max: i64,
    /// How long to wait until what was written is seen, or a pod that was confirmed, before looking again.
    pub recheck_ms: i64,
    /// How many pods known to be gone are remembered, at least 512: twice what a claim can name. Others are asked for when a claim still names them.
    pub gone_max: usize,
    /// Whether groups of pods may have claims for all of their pods. Without it, pods of a group get none.
    pub groups: bool,
    /// How many events may wait to be taken; further ones are dropped, for events are best effort.
    pub events_queued_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            // An API server answers a write in some milliseconds: 64 in flight are thousands a second.
            in_flight_max: 64,
            retry_ms_min: 5,
            retry_ms_max: 1_000_000,
            // A watch that is this far behind has other problems; one more look costs nothing.
            recheck_ms: 30_000,
            // An hour of deletions at ten a second.
            gone_max: 36_000,
            groups: false,
            events_queued_max: 1_024,
        }
    }
}

impl Options {
    /// The pause after the `failures`-th failure in a row: 5 ms, 10 ms, 20 ms, … up to the longest.
    pub(crate) fn retry_ms(&self, failures: u32) -> i64 {
        Backoff::new(self.retry_ms_min, self.retry_ms_max).after(failures)
    }
}
