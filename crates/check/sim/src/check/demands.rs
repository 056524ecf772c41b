//! Policies whose verdict was Drained: an incident ends after the repair and the proof of each, whatever became of its leaders and of incidents beside it.

use std::collections::BTreeMap;

use lazaret_lifecycle::{Incident, Owner, Stage, Stored, Task};
use lazaret_model::{Text, Uid};

use crate::{actors::health_policy::POLICY, coverage::Mark, world::World};

/// What policies demanded, and what was done.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    /// By incarnation of an incident and by policy: whether the proof was given since.
    by_incident: BTreeMap<Uid, BTreeMap<Text, bool>>,
    /// By name of a Job that proves: the incarnation of the incident and the policy.
    proofs: BTreeMap<Text, (Uid, Text)>,
}

impl Owed {
    /// A task begins.
    pub(crate) fn note_task(&mut self, job: &Text, owner: &Owner, incident: &Incident, task: Task) {
        if task == Task::Validate {
            self.proofs.insert(job.clone(), (owner.uid.clone(), incident.policy.clone()));
        }
    }

    /// A Job ends well.
    pub(crate) fn note_proof(&mut self, job: &Text) {
        let Some((incident, policy)) = self.proofs.get(job) else { return };
        let demand = self.by_incident.get_mut(incident).and_then(|owed| owed.get_mut(policy));
        demand.into_iter().for_each(|is_met| *is_met = true);
    }

    /// A policy has the verdict Drained, again or for the first time.
    fn demand(&mut self, incident: &Uid, policy: &Text) {
        self.by_incident.entry(incident.clone()).or_default().insert(policy.clone(), false);
    }

    /// The policies that have no proof.
    fn open(&self, incident: &Uid) -> Vec<Text> {
        let owed = self.by_incident.get(incident).into_iter().flatten();
        owed.filter(|(_, is_met)| !**is_met).map(|(policy, _)| policy.clone()).collect()
    }
}

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
            return self.hand_on(incident, &open);
        }
        let detail = format!("{} is over, and {open:?} have no proof", incident.name);
        self.violate("each verdict Drained ends with the proof of its policy", detail);
    }

    /// Of two incidents of one device one is closed: the other has the demands of both.
    fn hand_on(&mut self, ended: &Incident, open: &[Text]) {
        let is_same = |other: &Incident| {
            let has_hardware = other.hardware.is_some() && other.hardware == ended.hardware;
            other.device == ended.device || other.device.driver == ended.device.driver && has_hardware
        };
        let others = self.health.incidents.values().filter(|other| {
            let incident = &other.incident;
            incident.is_open()
                && incident.name != ended.name
                && incident.stage != Stage::Abandoned
                && is_same(incident)
        });
        let others: Vec<Uid> = others.map(|other| other.uid.clone()).collect();
        // Of several it is not known here which one goes on.
        if let [kept] = &others[..] {
            open.iter().for_each(|policy| self.health.owed.demand(kept, policy));
        }
    }
}
