//! Waits of pods, drains and incidents: the reason, and how each ends. Commands, refusals and pages take their words from here alone.
//!
//! It goes by facts that statuses state, so that it answers the same in a controller, in a command and, by its [table](rows), on a page.

mod parts;
#[cfg(test)]
mod tests;

use alloc::{format, string::String, vec::Vec};

pub use parts::part_about;

use crate::block::Block;

/// The facts about something that waits.
#[derive(Clone, Copy, Debug)]
pub enum Facts<'a> {
    /// Evictions that are due and do not begin, or pods that do not end: reason and message as in the condition `EvictionBlocked`.
    Eviction {
        /// The reason.
        reason: &'a str,
        /// The message.
        message: &'a str,
    },
    /// An incident that is open.
    Incident(IncidentFacts<'a>),
}

/// An incident that is open, by its status.
#[derive(Clone, Copy, Debug, Default)]
pub struct IncidentFacts<'a> {
    /// `driver/pool/device`.
    pub device: &'a str,
    /// How far it is.
    pub stage: &'a str,
    /// The condition that it waits for, in the words of its controller.
    pub waits_for: &'a str,
    /// Since when.
    pub since: &'a str,
    /// The guard that holds it, and the reason.
    pub held: Option<(&'a str, &'a str)>,
    /// The policy that governs it does not exist.
    pub is_orphan: bool,
}

/// How a wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A person approves what is held.
    Approved,
    /// A person corrects the guard.
    GuardCorrected,
    /// A person resumes the guard.
    GuardResumed,
    /// A person resets the guard's breaker, or it closes.
    GuardReset,
    /// Devices come back into service.
    FewerOut,
    /// A window opens.
    WindowOpens,
    /// A window opens, or a person says that the device is repaired.
    WindowOrRepaired,
    /// There is room for the replacement.
    Room,
    /// The other pods of the group can leave.
    GroupLeaves,
    /// The disruption budget permits it.
    BudgetPermits,
    /// The server permits it.
    ServerPermits,
    /// The finalizer is removed.
    FinalizerRemoved,
    /// A person says that the device is repaired.
    Repaired,
    /// A person says that the device is repaired, or gives it up.
    RepairedOrAbandoned,
    /// By itself, or a person gives the device up.
    ItselfOrAbandoned,
    /// A later version would know.
    Unknown,
}

impl End {
    /// In words, with the command where a person can end it. `{guard}` and `{device}` stand for their names.
    #[must_use]
    pub fn template(self) -> &'static str {
        match self {
            Self::Approved => "it goes on when it is approved",
            Self::GuardCorrected => "correct the deviceSelector of DisruptionGuard {guard}",
            Self::GuardResumed => "kubectl device resume {guard}",
            Self::GuardReset => "kubectl device guard reset {guard} --reason TEXT",
            Self::FewerOut => "it goes on when less is out of service",
            Self::WindowOpens => "it goes on when a window opens",
            Self::WindowOrRepaired => {
                "it goes on when a window opens; to end it now: kubectl device repaired {device}"
            }
            Self::Room => "it goes on when there is room for its replacement",
            Self::GroupLeaves => "it goes on when the other pods of its group can leave",
            Self::BudgetPermits => "it goes on when the disruption budget permits it",
            Self::ServerPermits => "it goes on when the server permits it",
            Self::FinalizerRemoved => "it goes on when the finalizer is removed",
            Self::Repaired => "kubectl device repaired {device}",
            Self::RepairedOrAbandoned => {
                "kubectl device repaired {device}, or kubectl device abandon {device} --reason TEXT"
            }
            Self::ItselfOrAbandoned => {
                "it ends by itself; to give the device up: kubectl device abandon {device} --reason TEXT"
            }
            Self::Unknown => "this version does not know how it ends",
        }
    }

    /// Whether it does not end without a person.
    #[must_use]
    pub fn needs_person(self) -> bool {
        matches!(
            self,
            Self::Approved
                | Self::GuardCorrected
                | Self::GuardResumed
                | Self::GuardReset
                | Self::Repaired
                | Self::RepairedOrAbandoned
        )
    }

    fn words(self, guard: &str, device: &str) -> String {
        self.template().replace("{guard}", guard).replace("{device}", device)
    }
}

/// A wait, and how it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// How it ends.
    pub end: End,
    /// The reason or the condition, in words.
    pub words: String,
    /// The end in words, with the command where a person can end it.
    pub ends: String,
}

impl Wait {
    /// In a line.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{}; {}", self.words.trim_end_matches('.'), self.ends)
    }
}

/// A row of the table of waits: the first that matches counts.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// It is about incidents, and otherwise about evictions.
    pub is_incident: bool,
    /// The reason; `None`: any, or none.
    pub reason: Option<Block>,
    /// Words that follow the name of the guard in the message.
    pub says: &'static str,
    /// The stage of the incident; empty: any.
    pub stage: &'static str,
    /// The policy of the incident does not exist.
    pub is_orphan: bool,
    /// How it ends.
    pub end: End,
}

const NOT_UNDERSTOOD: &str = " is not understood: ";
/// As the controller of incidents begins it.
const POLICY_GONE: &str = "its policy is gone";
const TRIPPED: &str = " is tripped: ";

const fn eviction(reason: Option<Block>, says: &'static str, end: End) -> Row {
    Row { is_incident: false, reason, says, stage: "", is_orphan: false, end }
}

const fn incident(reason: Option<Block>, says: &'static str, end: End) -> Row {
    Row { is_incident: true, reason, says, stage: "", is_orphan: false, end }
}

const fn in_stage(stage: &'static str, end: End) -> Row {
    Row { stage, ..incident(None, "", end) }
}

const ROWS: [Row; 21] = [
    eviction(Some(Block::Held), "", End::Approved),
    eviction(Some(Block::Paused), NOT_UNDERSTOOD, End::GuardCorrected),
    eviction(Some(Block::Paused), "", End::GuardResumed),
    eviction(Some(Block::Breaker), "", End::GuardReset),
    eviction(Some(Block::Window), "", End::WindowOpens),
    eviction(Some(Block::Capacity), "", End::Room),
    eviction(Some(Block::Group), "", End::GroupLeaves),
    eviction(Some(Block::Budget), "", End::BudgetPermits),
    eviction(Some(Block::Refused), "", End::ServerPermits),
    eviction(Some(Block::Finalizer), "", End::FinalizerRemoved),
    eviction(None, "", End::Unknown),
    incident(Some(Block::Paused), NOT_UNDERSTOOD, End::GuardCorrected),
    incident(Some(Block::Paused), "", End::GuardResumed),
    incident(Some(Block::Breaker), TRIPPED, End::GuardReset),
    // Its breaker is not tripped: one more device would be too many.
    incident(Some(Block::Breaker), "", End::FewerOut),
    incident(Some(Block::Window), "", End::WindowOrRepaired),
    in_stage("Abandoned", End::Repaired),
    in_stage("Repairing", End::Repaired),
    in_stage("Cleared", End::Unknown),
    Row { is_orphan: true, ..incident(None, "", End::RepairedOrAbandoned) },
    incident(None, "", End::ItselfOrAbandoned),
];

/// The table by which a wait ends, for programs that cannot call [`wait`].
#[must_use]
pub fn rows() -> &'static [Row] {
    &ROWS
}

/// The wait that these facts mean, and how it ends.
#[must_use]
pub fn wait(facts: &Facts<'_>) -> Wait {
    let Case { reason, message, .. } = Case::of(facts);
    match facts {
        Facts::Eviction { .. } => {
            let end = end_of(facts);
            let message_only = message.strip_prefix(reason).and_then(|rest| rest.strip_prefix(": "));
            let words = format!("blocked ({reason}): {}", message_only.unwrap_or(message));
            Wait { end, words, ends: end.words(guard_in(message).map_or("NAME", |(name, _)| name), "") }
        }
        Facts::Incident(IncidentFacts { device, waits_for, since, held, .. }) => {
            let end = end_of(facts);
            let what = if waits_for.is_empty() { "its controller" } else { *waits_for };
            let since = if since.is_empty() { String::new() } else { format!(" since {since}") };
            let ends = end.words(held.map_or("", |(guard, _)| guard), device);
            Wait { end, words: format!("waits for {what}{since}"), ends }
        }
    }
}

fn end_of(facts: &Facts<'_>) -> End {
    let case = Case::of(facts);
    let found = ROWS.iter().find(|row| case.fits(row));
    found.map_or(End::Unknown, |row| row.end)
}

/// The waits that the message of a condition `EvictionBlocked` sums up, one for each reason.
#[must_use]
pub fn waits_in(message: &str) -> Vec<Wait> {
    let parts = parts::parts(message);
    if parts.is_empty() {
        let reason = message.split_once(": ").map_or("", |(first, _)| first);
        let reason = Block::ALL.into_iter().map(Block::name).find(|name| *name == reason).unwrap_or_default();
        return alloc::vec![wait(&Facts::Eviction { reason, message })];
    }
    parts.into_iter().map(|(why, message)| wait(&Facts::Eviction { reason: why.name(), message })).collect()
}

/// The facts that rows are about.
struct Case<'a> {
    is_incident: bool,
    reason: &'a str,
    message: &'a str,
    stage: &'a str,
    is_orphan: bool,
}

impl<'a> Case<'a> {
    fn of(facts: &Facts<'a>) -> Self {
        match *facts {
            Facts::Eviction { reason, message } => {
                Self { is_incident: false, reason, message, stage: "", is_orphan: false }
            }
            Facts::Incident(IncidentFacts { stage, waits_for, held, is_orphan, .. }) => {
                let reason = held.map_or("", |(_, reason)| reason);
                let is_orphan = is_orphan || waits_for.starts_with(POLICY_GONE);
                Self { is_incident: true, reason, message: waits_for, stage, is_orphan }
            }
        }
    }

    fn fits(&self, row: &Row) -> bool {
        self.is_incident == row.is_incident
            && row.reason.is_none_or(|reason| reason.name() == self.reason)
            && (row.says.is_empty()
                || guard_in(self.message).is_some_and(|(_, rest)| rest.starts_with(row.says)))
            && (row.stage.is_empty() || row.stage == self.stage)
            && (!row.is_orphan || self.is_orphan)
    }
}

/// The first guard that a message names, and what is said about it.
fn guard_in(message: &str) -> Option<(&str, &str)> {
    let (_, rest) = message.split_once("DisruptionGuard ")?;
    let end = rest.find([' ', ':', ';', ',']).unwrap_or(rest.len());
    (end > 0).then(|| rest.split_at(end))
}
