//! The writes of one machine to one object: one at a time, and none on a state that is known to be old.

use lazaret_model::{Outcome, Text, Timestamp};

use crate::{
    queue::WakeReason,
    retry::{RetryOptions, Setback},
};

/// What stands in the way of the next write.
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
    setback: Setback,
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
        if now < self.setback.until {
            return Ready::At(self.setback.until, WakeReason::Retry);
        }
        Ready::Now
    }

    pub(crate) fn sent(&mut self) {
        self.in_flight = true;
    }

    /// The effect in flight had nothing to do with a version.
    pub(crate) fn answered(&mut self) {
        self.in_flight = false;
    }

    pub(crate) fn landed(
        &mut self,
        now: Timestamp,
        version: &Text,
        outcome: Outcome,
        options: &RetryOptions,
    ) {
        self.in_flight = false;
        match outcome {
            // The object is not as it was when it was written, whoever wrote it.
            Outcome::Done | Outcome::Gone | Outcome::Conflict => {
                self.outdated = Some((version.clone(), now.plus_millis(options.recheck_ms)));
                self.setback = Setback::default();
            }
            Outcome::RetryLater | Outcome::Unknown => self.setback.fail(now, options),
        }
    }

    pub(crate) fn fail(&mut self, now: Timestamp, options: &RetryOptions) {
        self.setback.fail(now, options);
    }

    pub(crate) fn succeed(&mut self) {
        self.setback = Setback::default();
    }
}
