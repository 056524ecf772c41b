//! How a device proves that it is well, and the time that it has for that.

use alloc::{format, string::String};

use lazaret_model::Timestamp;

use crate::{
    Lifecycle,
    incident::Incident,
    policy::{Policy, Recovery},
    stages::waits_for,
};

/// How far the probation of a device is.
#[derive(Debug)]
pub(crate) enum Proof {
    /// It goes on, until then at least.
    Waits(Option<Timestamp>),
    /// Its validation took too long, and why.
    Failed(String),
    /// It was calm for the whole time, and its validation has passed.
    Given,
}

impl Lifecycle {
    /// Looks at an incident in Probation: whether its rules hold now, when one of them last did, and whether something keeps its validation from
    /// beginning.
    pub(crate) fn probation(
        &self,
        now: Timestamp,
        number: u64,
        (is_ill, last, is_kept): (bool, Option<Timestamp>, bool),
    ) -> Proof {
        let incident = self.incidents.get(&number);
        let known = incident.and_then(|incident| Some((incident, self.policies.get(&incident.policy)?)));
        let Some((incident, policy)) = known else { return Proof::Waits(None) };
        let Recovery { probation_ms, validates, validation_timeout_ms, .. } = policy.trust();
        let (since, validates) = (incident.since, validates && !incident.is_validated);
        let is_timed = validates && policy.blocked.is_none() && !is_kept;
        let proof_end = is_timed.then(|| since.plus_millis(validation_timeout_ms));
        if proof_end.is_some_and(|end| now >= end) {
            return Proof::Failed(too_long(policy, incident));
        }
        let calm_end = last.unwrap_or(since).max(since).plus_millis(probation_ms);
        // A signal that lasts through the whole probation is a flap.
        let end = if is_ill { since.plus_millis(probation_ms) } else { calm_end };
        if is_ill || validates || now < end {
            return Proof::Waits([Some(end), proof_end].into_iter().flatten().filter(|end| *end > now).min());
        }
        Proof::Given
    }
}

/// Why a repair or a validation has failed that took its whole time: what kept it from running, where that is known.
pub(crate) fn too_long(policy: &Policy, incident: &Incident) -> String {
    if incident.waits_for == waits_for(policy, incident) {
        return "it took too long".into();
    }
    format!("it took too long: {}", incident.waits_for)
}
