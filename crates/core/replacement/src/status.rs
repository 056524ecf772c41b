//! The status of a policy.

use alloc::vec::Vec;

use lazaret_model::{Condition, Text, Timestamp, Uid};

use crate::{finding::Cause, record::Record};

/// Whether something is being replaced, or would be if time had come.
pub const PROGRESSING: &str = "Progressing";
/// Whether too many fault domains are tainted to begin anything new.
pub const BREAKER_TRIPPED: &str = "BreakerTripped";
/// Whether it cannot do what it says, or something went wrong.
pub const DEGRADED: &str = "Degraded";

/// Entries of [`Status::pods`]. The totals count all; a status stays small enough to be written twice a second.
pub const PODS_LISTED_MAX: usize = 200;

/// A policy's status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Which spec it speaks of.
    pub observed_generation: i64,
    /// The pods whose taints are counted, the one that may be replaced first in front.
    pub pods: Vec<PodStatus>,
    /// Replacements in flight.
    pub replacements: Vec<RecordStatus>,
    /// In figures.
    pub totals: Totals,
    /// `Progressing`, `BreakerTripped`, `Degraded`.
    pub conditions: Vec<Condition>,
}

/// One taint of one pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodStatus {
    /// The pod's name.
    pub pod: Text,
    /// Its incarnation.
    pub uid: Uid,
    /// Where it runs.
    pub node: Text,
    /// The taint.
    pub cause: Cause,
    /// `NodeTaintDetected` and so on.
    pub condition: Text,
    /// Since when the taint counts.
    pub since: Timestamp,
    /// The taint has no time: this is when it was first seen.
    pub first_seen: bool,
    /// When the pod is, or was, marked to be replaced.
    pub due: Timestamp,
    /// From when on it may be replaced.
    pub after: Timestamp,
    /// The pod that takes its place.
    pub replacement: Option<Text>,
    /// The condition that it waits for.
    pub message: Text,
}

/// One replacement in flight.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordStatus {
    /// The record of the decision.
    pub record: Record,
    /// The pod that takes its place, as far as it is known.
    pub replacement: Option<Text>,
    /// It did not become Ready in time.
    pub overdue: bool,
}

/// A policy in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Pods that it looks after.
    pub selected: u64,
    /// Of these, with a taint that is counted but not long enough.
    pub detected: u64,
    /// Of these, with a taint that is.
    pub due: u64,
    /// Replacements in flight.
    pub in_flight: u64,
    /// Replacements that came to their end, ever.
    pub replaced: u64,
    /// Replacements that were not Ready in time, ever.
    pub overdue: u64,
    /// Fault domains with pods of this policy.
    pub domains: u64,
    /// Of these, with a taint that is counted.
    pub domains_tainted: u64,
}

impl Status {
    pub(crate) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == *kind)
    }

    pub(crate) fn listed(&self, uid: &Uid, cause: &Cause) -> Option<&PodStatus> {
        self.pods.iter().find(|pod| pod.uid == *uid && pod.cause == *cause)
    }

    /// Whether it says that this is under way. Another replacement of the same pod is none.
    pub(crate) fn has_record(&self, record: &Record) -> bool {
        self.replacements.iter().any(|entry| entry.record == *record)
    }
}
