//! The objects of a cluster that the stage of an incident requires.

use crate::{
    Lifecycle,
    incident::{Incident, Stage},
};

/// The objects that an incident requires; no others may exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The effect of the taint that tells or keeps new claims away.
    pub quarantine: Option<&'static str>,
    /// Whether its pods leave and none comes back.
    pub drains: bool,
    /// The task that runs for it.
    pub task: Option<Task>,
}

/// A task for an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// The repair step of this number.
    Repair(usize),
    /// The validation.
    Validate,
}

impl Lifecycle {
    /// Whether a task is a request, an object of another controller.
    pub(crate) fn is_request(&self, incident: &Incident, task: Task) -> bool {
        let Task::Repair(step) = task else { return false };
        let policy = self.policies.get(&incident.policy);
        policy.and_then(|policy| policy.steps.get(step)).is_some_and(|step| step.is_request)
    }

    /// The objects that an incident requires.
    #[must_use]
    pub fn wanted(&self, incident: &Incident) -> Wanted {
        let policy = self.policies.get(&incident.policy);
        // Without its policy the device stays as it is, for a person to decide.
        if !incident.is_enforced {
            return Wanted::default();
        }
        // A device that is gone is not repaired, and a validation cannot mean one of two devices with one identity.
        let may_run =
            incident.gone_since.is_none() && (incident.stage != Stage::Probation || incident.twin.is_none());
        let policy = policy.filter(|policy| may_run && policy.blocked.is_none());
        let task = policy.and_then(|policy| match incident.stage {
            Stage::Repairing if incident.step < policy.steps.len() => Some(Task::Repair(incident.step)),
            Stage::Probation if policy.trust().validates && !incident.is_validated => Some(Task::Validate),
            Stage::Repairing
            | Stage::Probation
            | Stage::Suspect
            | Stage::Quarantined
            | Stage::Draining
            | Stage::Cleared
            | Stage::Abandoned => None,
        });
        let (quarantine, drains) = match incident.stage {
            Stage::Suspect => (Some("None"), false),
            Stage::Quarantined => (Some("NoSchedule"), false),
            Stage::Draining | Stage::Repairing | Stage::Probation | Stage::Abandoned => {
                (Some("NoSchedule"), true)
            }
            Stage::Cleared => (None, false),
        };
        Wanted { quarantine, drains, task }
    }
}
