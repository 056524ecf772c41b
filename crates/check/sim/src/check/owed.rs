//! The demands of policies: by incident, and whether the repair and the proof of each were given.

use std::collections::BTreeMap;

use lazaret_lifecycle::{Incident, Owner, Stage, Stored, Task};
use lazaret_model::{Text, Uid};

/// The demands of policies, and those that were met.
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
    pub(crate) fn demand(&mut self, incident: &Uid, policy: &Text) {
        self.by_incident.entry(incident.clone()).or_default().insert(policy.clone(), false);
    }

    /// The policies that have no proof.
    pub(crate) fn open(&self, incident: &Uid) -> Vec<Text> {
        let owed = self.by_incident.get(incident).into_iter().flatten();
        owed.filter(|(_, is_met)| !**is_met).map(|(policy, _)| policy.clone()).collect()
    }

    /// Of two incidents of one device one is closed: the other one has the demands of both.
    pub(crate) fn hand_on<'a>(
        &mut self,
        ended: &Incident,
        open: &[Text],
        incidents: impl Iterator<Item = &'a Stored>,
    ) {
        let is_same = |other: &Incident| {
            let has_hardware = other.hardware.is_some() && other.hardware == ended.hardware;
            other.device == ended.device || other.device.driver == ended.device.driver && has_hardware
        };
        let others = incidents.filter(|other| {
            let incident = &other.incident;
            incident.is_open()
                && incident.name != ended.name
                && incident.stage != Stage::Abandoned
                && is_same(incident)
        });
        let others: Vec<Uid> = others.map(|other| other.uid.clone()).collect();
        // Of several it is not known here which one goes on.
        if let [kept] = &others[..] {
            open.iter().for_each(|policy| self.demand(kept, policy));
        }
    }
}
