//! Since when no rule has held, over restarts.
//!
//! An incident stores it once the device has been calm for a tenth of `clearAfter`, and drops it at the next match. A controller that is started and finds
//! none counts from its own start: it may clear later than the one before would have, never earlier.

use lazaret_model::{DeviceId, Text, Timestamp};

use crate::{
    Lifecycle,
    incident::Stage,
    machine::{enforces, open_mut},
    policy::Policy,
};

/// Limits of the time after which calm is stored. An incident is written for it twice within that time at most.
const STORED_AFTER_MS: core::ops::RangeInclusive<i64> = 1_000..=60_000;

fn stored_after_ms(policy: &Policy) -> i64 {
    (policy.clear_after_ms / 10).clamp(*STORED_AFTER_MS.start(), *STORED_AFTER_MS.end())
}

impl Lifecycle {
    /// When a rule last held of a policy that makes the device ill, as far as this machine knows or an earlier one stored. A policy that observes does
    /// so only where none that enforces has the incident.
    pub(crate) fn last_match(&self, device: &DeviceId) -> Option<Timestamp> {
        let known = self.devices.get(device)?;
        let incident = self.incidents.get(&known.incident?)?;
        let is_observed = self.is_observed(device);
        let counts = |name: &Text| {
            *name == incident.policy
                || enforces(self, name)
                || is_observed && self.policies.contains_key(name)
        };
        let theirs = known.watchers.iter().filter(|(name, _)| counts(name));
        theirs.filter_map(|(_, watcher)| watcher.last_match).max().max(known.calm_from)
    }

    /// Stores since when a device is calm, or that it is not. When to look again.
    pub(crate) fn note_calm(&mut self, now: Timestamp, device: &DeviceId, is_ill: bool) -> Option<Timestamp> {
        let incident = self.incidents.get(&self.devices.get(device)?.incident?)?;
        let policy = self.policies.get(&incident.policy)?;
        let last = self.last_match(device);
        let (number, stored) = (incident.number, incident.calm_since);
        let since = last.unwrap_or(incident.since);
        let stored_at = since.plus_millis(stored_after_ms(policy));
        let is_awaited = match incident.stage {
            Stage::Suspect | Stage::Quarantined | Stage::Probation => true,
            Stage::Draining | Stage::Repairing => !incident.is_enforced,
            Stage::Cleared | Stage::Abandoned => false,
        };
        let is_void = stored.is_some_and(|stored| is_ill || stored < since);
        let wanted = match stored {
            Some(_) if is_void => None,
            None if is_awaited && !is_ill && stored_at <= now => Some(since),
            Some(_) | None => {
                return (is_awaited && !is_ill && stored.is_none()).then_some(stored_at);
            }
        };
        open_mut(&mut self.incidents, number)?.calm_since = wanted;
        self.record(number);
        (is_void && is_awaited && !is_ill).then_some(stored_at)
    }
}
