//! Options of the eviction.

use lazaret_machine::Backoff;
use lazaret_model::{SetBack, Taint, Timestamp};

/// Knobs of an [`Eviction`](crate::Eviction). The default follows Kubernetes 1.37: no pace of its own, a status at most
/// every ten seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The pace of a taint that names none. `None`: such a taint is not paced, as in Kubernetes.
    pub default_evictions_per_second: Option<u32>,
    /// How many pods may leave at once before a pace is felt.
    pub burst: u32,
    /// A ceiling over all taints together, with the same burst. `None`: no ceiling.
    pub global_per_second: Option<u32>,
    /// Between two writes of one rule's status while it neither starts nor ends nor has a new spec.
    pub status_interval_ms: i64,
    /// How many evictions may be in flight (emitted, not acknowledged) at a time.
    pub evictions_in_flight_max: usize,
    /// How many status writes may be in flight at a time.
    pub statuses_in_flight_max: usize,
    /// The first pause after a failed effect; each further failure doubles it.
    pub retry_ms_min: i64,
    /// No pause after a failure is longer.
    pub retry_ms_max: i64,
    /// The first pause after a disruption budget refused; each further refusal doubles it.
    pub budget_retry_ms_min: i64,
    /// No pause after a refusal is longer.
    pub budget_retry_ms_max: i64,
    /// How long a pod counts as terminating when nobody knows whether its eviction happened, and it is not seen to be terminating.
    pub doubt_ms_max: i64,
    /// How long a pod is held that is back on a device from which a pod of the same owner was evicted for the same taint; doubled with each
    /// further time. 0: not at all.
    pub brake_ms_min: i64,
    /// No pod is held longer.
    pub brake_ms_max: i64,
    /// How far the clocks of two controllers and the API server may be apart. A taint younger than the leadership by
    /// less than this is taken for one that a predecessor may have worked on.
    pub clock_skew_ms_max: i64,
    /// The clock was set back, by more than that: taints that were there before are no younger for it.
    pub set_back: Option<SetBack>,
    /// Whether it writes the statuses of guards: of several machines over the same guards, one does.
    pub writes_guards: bool,
    /// Whether the server says who wrote and who approved a rule, whatever clients say.
    pub trusts_user_names: bool,
    /// Whether a rule's status names pods before they are evicted because of it, so that the next leader can count them: wanted where statuses
    /// store it.
    pub records_evictions: bool,
    /// How many events may wait to be taken; further ones are dropped, for events are best effort.
    pub events_queued_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            default_evictions_per_second: None,
            burst: 10,
            global_per_second: None,
            status_interval_ms: 10_000,
            // An API server answers a delete in some milliseconds: 64 in flight are thousands a second.
            evictions_in_flight_max: 64,
            statuses_in_flight_max: 16,
            retry_ms_min: 5,
            retry_ms_max: 1_000_000,
            // `kubectl drain` asks again every five seconds.
            budget_retry_ms_min: 1_000,
            budget_retry_ms_max: 30_000,
            // Longer than requests take, and than watches are behind.
            doubt_ms_max: 60_000,
            brake_ms_min: 1_000,
            // As long as Kubernetes waits before it starts a container again that keeps failing.
            brake_ms_max: 300_000,
            clock_skew_ms_max: 2_000,
            set_back: None,
            writes_guards: true,
            trusts_user_names: false,
            records_evictions: false,
            events_queued_max: 4_096,
        }
    }
}

impl Options {
    /// When a taint was set, as the clock shows it now.
    pub(crate) fn set_at(&self, now: Timestamp, taint: &Taint) -> Option<Timestamp> {
        let dated = |time| self.set_back.map_or(time, |set_back| set_back.dated(now, time));
        taint.time_added.map(dated)
    }

    /// How long a pod is held after this many evictions from the same device: 1 s, 2 s, 4 s, … up to the longest.
    #[must_use]
    pub(crate) fn brake_ms(&self, times: u32) -> i64 {
        Backoff::new(self.brake_ms_min, self.brake_ms_max).after(times)
    }

    /// The pause after the `failures`-th refusal of a disruption budget in a row: 1 s, 2 s, 4 s, … up to the longest.
    #[must_use]
    pub(crate) fn budget_retry_ms(&self, failures: u32) -> i64 {
        Backoff::new(self.budget_retry_ms_min, self.budget_retry_ms_max).after(failures)
    }

    /// The pause after the `failures`-th failure in a row: 5 ms, 10 ms, 20 ms, … up to the longest.
    #[must_use]
    pub(crate) fn retry_ms(&self, failures: u32) -> i64 {
        Backoff::new(self.retry_ms_min, self.retry_ms_max).after(failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kubernetes runs eight workers, each waiting for its own delete; here this many deletes are in flight.
    #[test]
    fn config_defaults() {
        let options = Options::default();
        assert_eq!((options.evictions_in_flight_max, options.burst), (64, 10));
        assert_eq!((options.default_evictions_per_second, options.global_per_second), (None, None));
        assert_eq!(options.status_interval_ms, 10_000);
    }

    #[test]
    fn retries_double_up_to_the_longest() {
        let options = Options::default();
        let pauses: alloc::vec::Vec<i64> =
            [1, 2, 3, 10, 18, 19, 60, u32::MAX].map(|n| options.retry_ms(n)).to_vec();
        assert_eq!(pauses, [5, 10, 20, 2_560, 655_360, 1_000_000, 1_000_000, 1_000_000]);
    }
}
