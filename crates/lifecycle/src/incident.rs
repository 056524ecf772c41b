//! Incidents: one device's trouble from the first signal to the end.

use alloc::vec::Vec;

use lazaret_model::{DeviceId, Text, Timestamp};

/// Entries of a timeline. Older ones are folded into a count; the first stays.
pub const TIMELINE_MAX: usize = 32;

/// How far an incident is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The device is looked at more closely.
    Suspect,
    /// It is not given to new claims.
    Quarantined,
    /// Its pods leave.
    Draining,
    /// It is being repaired, or waits for it.
    Repairing,
    /// It has to prove that it is well.
    Probation,
    /// It is well. The end.
    Cleared,
    /// Nobody tries any more; a person decides.
    Abandoned,
}

impl Stage {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Suspect => "Suspect",
            Self::Quarantined => "Quarantined",
            Self::Draining => "Draining",
            Self::Repairing => "Repairing",
            Self::Probation => "Probation",
            Self::Cleared => "Cleared",
            Self::Abandoned => "Abandoned",
        }
    }

    /// Whether the device is not given to new claims.
    #[must_use]
    pub fn is_out_of_service(self) -> bool {
        !matches!(self, Self::Suspect | Self::Cleared)
    }
}

/// One device's trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Counted from one in the order in which they were opened.
    pub number: u64,
    /// The device, under the name that it has now.
    pub device: DeviceId,
    /// What stays the same when the device is renamed.
    pub hardware: Option<Text>,
    /// The policy that opened it.
    pub policy: Text,
    /// The rule that took it furthest.
    pub rule: Text,
    /// How far it is.
    pub stage: Stage,
    /// Since when.
    pub since: Timestamp,
    /// What it waits for, in words; empty when nothing is to be waited for.
    pub waits_for: Text,
    /// The repair step that runs, or is next.
    pub step: usize,
    /// How often all steps were tried in vain.
    pub attempts: u32,
    /// When it came back in vain, the newest last.
    pub flaps: Vec<Timestamp>,
    /// Whether its validation has passed, in this probation.
    pub is_validated: bool,
    /// Whether a person has seen it.
    pub acknowledged_by: Option<Text>,
    /// What happened, the newest last.
    pub timeline: Vec<Entry>,
    /// Entries that were folded away, after the first.
    pub folded: u32,
    /// When each stage was first reached.
    pub times: Times,
}

/// One line of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// The stage afterwards.
    pub stage: Stage,
    /// Why.
    pub cause: Text,
    /// Who: a policy, or a person.
    pub actor: Text,
}

/// When each stage was first reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The first signal.
    pub detected: Option<Timestamp>,
    /// The first rule that held.
    pub decided: Option<Timestamp>,
    /// Nobody used it any more.
    pub drained: Option<Timestamp>,
    /// A repair had been done.
    pub repaired: Option<Timestamp>,
    /// It was well.
    pub cleared: Option<Timestamp>,
}

impl Incident {
    /// Whether it is still going on.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.stage != Stage::Cleared
    }

    pub(crate) fn note(&mut self, at: Timestamp, cause: impl Into<Text>, actor: &Text) {
        if self.timeline.len() >= TIMELINE_MAX {
            self.timeline.remove(1);
            self.folded = self.folded.saturating_add(1);
        }
        let entry = Entry { at, stage: self.stage, cause: cause.into(), actor: actor.clone() };
        self.timeline.push(entry);
    }
}
