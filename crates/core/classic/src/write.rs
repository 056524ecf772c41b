//! The writes of one machine to one object: one at a time, and none on a state that is known to be old.

use lazaret_machine::{Backoff, Outcome, Retry};
use lazaret_model::{Text, Timestamp};

use crate::queue::WakeReason;

/// Pauses after effects that failed.
pub(crate) const RETRY: Backoff = Backoff::new(5, 60_000);
/// How long to wait until a write that was done is seen. A watch that is 30 s behind has other problems; one more look costs nothing.
pub(crate) const RECHECK_MS: i64 = 30_000;

/// Whether the next effect may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    Now,
    InFlight,
    /// Not before this instant, unless news come.
    At(Timestamp, WakeReason),
}

#[derive(Debug, Default)]
pub(crate) struct Writer {
    in_flight: bool,
    /// The version that is known to be outdated, and until when to wait for a newer one.
    outdated: Option<(Text, Timestamp)>,
    retry: Retry,
}

impl Writer {
    pub(crate) fn ready(&self, now: Timestamp, version: &Text) -> Ready {
        if self.in_flight {
            return Ready::InFlight;
        }
        if let Some((outdated, until)) = &self.outdated
            && outdated == version
            && now < *until
        {
            return Ready::At(*until, WakeReason::Recheck);
        }
        match self.retry.until() {
            Some(until) if now < until => Ready::At(until, WakeReason::Retry),
            Some(_) | None => Ready::Now,
        }
    }

    pub(crate) fn sent(&mut self) {
        self.in_flight = true;
    }

    /// A call was answered, which has nothing to do with a version.
    pub(crate) fn answered(&mut self, now: Timestamp, succeeded: bool) {
        self.in_flight = false;
        if succeeded {
            self.retry = Retry::default();
        } else {
            self.retry.fail(now, RETRY);
        }
    }

    /// A write to this version was answered.
    pub(crate) fn landed(&mut self, now: Timestamp, version: &Text, outcome: Outcome) {
        self.in_flight = false;
        match outcome {
            // The object is not as it was when it was written, whichever client wrote it.
            Outcome::Done | Outcome::Gone | Outcome::Conflict => {
                self.outdated = Some((version.clone(), now.plus_millis(RECHECK_MS)));
                self.retry = Retry::default();
            }
            Outcome::Refused | Outcome::Held | Outcome::RetryLater | Outcome::Unknown => {
                self.retry.fail(now, RETRY);
            }
        }
    }
}
