//! Policies whose verdict was Drained: an incident ends after the repair and the proof of each, whatever became of its leaders and of incidents beside it.

use lazaret_lifecycle::{Incident, Stage, Stored};

use crate::{actors::health_policy::POLICY, coverage::Mark, world::World};

impl World {
    /// An incident is written: who demands a repair from now on, and whether all had theirs where it ends.
    pub(crate) fn check_demands(&mut self, stored: &Stored, incident: &Incident) {
        if incident.is_enforced && matches!(incident.stage, Stage::Draining | Stage::Repairing) {
            self.health.owed.demand(&stored.uid, &incident.policy);
            if incident.demands.iter().any(|demand| demand.is_met) {
                self.coverage.hit(Mark::RepairFollowed);
            }
        }
        for demand in incident.demands.iter().filter(|demand| !demand.is_met) {
            self.health.owed.demand(&stored.uid, &demand.policy);
        }
        if incident.stage != Stage::Cleared || stored.incident.stage == Stage::Cleared {
            return;
        }
        // People answer for all policies, and nobody proves anything to a policy that is gone or that an administrator changed.
        let handled = &incident.handled;
        let is_persons = handled.repaired.is_some() || handled.abandoned.is_some();
        let changed = [Mark::PolicyWritten, Mark::PolicyDeleted, Mark::ModeChanged];
        let is_changed = changed.iter().any(|mark| self.coverage.count(*mark) > 0);
        let mut open = self.health.owed.open(&stored.uid);
        open.retain(|policy| !is_changed || **policy != *POLICY);
        if open.is_empty() || is_persons {
            return;
        }
        let last = incident.timeline.last();
        if last.is_some_and(|entry| entry.cause.contains("another open incident")) {
            return self.health.owed.hand_on(incident, &open, self.health.incidents.values());
        }
        let detail = format!("{} is over, and {open:?} have no proof", incident.name);
        self.violate("each verdict Drained ends with the proof of its policy", detail);
    }
}
