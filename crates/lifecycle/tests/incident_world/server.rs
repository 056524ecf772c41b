//! The effect of a write when it arrives, and the properties that it must have.

use lazaret_lifecycle::{Acts, Child, ChildKind, ChildTarget, Incident, Owner, Stage, Stored, WriteKind};
use lazaret_machine::Outcome;
use lazaret_model::Text;

use super::{
    objects::{Event, Mutant, set_taint_key, taint_key},
    world::World,
};

impl World {
    pub(super) fn perform(&mut self, kind: &WriteKind) -> (Outcome, Option<Text>, Option<Text>) {
        let late = if self.api.is_late { "late " } else { "" };
        self.note(match kind {
            WriteKind::Create(one) | WriteKind::Record(_, _, one) => {
                let held = one.held.as_ref().map(|held| held.stage);
                format!("{late}write {} {:?} enforced {} held {held:?}", one.name, one.stage, one.is_enforced)
            }
            WriteKind::Taint { owner, effect, .. } => format!("{late}taint {} {effect}", owner.name),
            WriteKind::Delete(kind, _, name, _) => format!("{late}delete {kind:?} {name}"),
            WriteKind::Remove(..)
            | WriteKind::Drain { .. }
            | WriteKind::Run { .. }
            | WriteKind::DropReport(..)
            | WriteKind::Tally(..)
            | WriteKind::Broken(..) => format!("{late}other"),
        });
        match kind {
            WriteKind::Create(incident) => self.create(incident),
            WriteKind::Record(uid, version, incident) => self.record(uid, version, incident),
            WriteKind::Remove(name, uid) => {
                if self.api.incidents.get(name).is_some_and(|stored| stored.uid == *uid) {
                    self.delete_incident(name);
                }
                (Outcome::Done, None, None)
            }
            WriteKind::Taint { owner, device, effect, taint, uid } => {
                self.explained(owner, "taint");
                let is_held =
                    self.api.incidents.get(&owner.name).is_some_and(|stored| stored.incident.held.is_some());
                let is_wrong = self.mutant == Mutant::TaintsWhatIsHeld && is_held;
                let target = ChildTarget::Rule {
                    device: device.clone(),
                    effect: if is_wrong { "NoSchedule" } else { *effect }.into(),
                    taint: taint.clone(),
                };
                (self.taint(owner, target, uid.as_ref()), None, None)
            }
            WriteKind::Drain { owner, device, taint, .. } => {
                self.explained(owner, "drain");
                let target = ChildTarget::Drain { device: device.clone(), taint: taint.clone(), evicted: 0 };
                (self.api.make(owner.clone(), owner.name.clone(), target), None, None)
            }
            WriteKind::Run { owner, name, incident, .. } => {
                self.explained(owner, "job");
                let stored = self.api.incidents.get(&owner.name).filter(|stored| stored.uid == owner.uid);
                if stored.is_some_and(|stored| stored.incident.tries < incident.tries) {
                    self.broken = Some(format!("{name} runs before its incident says so"));
                }
                let outcome = self.api.make(owner.clone(), name.clone(), ChildTarget::Job { result: None });
                (outcome, None, None)
            }
            WriteKind::Delete(kind, _, name, uid) => {
                self.delete(*kind, name, uid);
                (Outcome::Done, None, None)
            }
            WriteKind::DropReport(..) if self.mutant == Mutant::KeepsReports => (Outcome::Done, None, None),
            WriteKind::DropReport(name, _) => {
                self.api.reports.remove(name);
                self.api.log.push(Event::ReportGone(name.clone()));
                (Outcome::Done, None, None)
            }
            WriteKind::Tally(_, tallies) => {
                self.api.tallies.clone_from(tallies);
                (Outcome::Done, None, None)
            }
            WriteKind::Broken(..) => panic!("every expression can be evaluated"),
        }
    }

    pub(super) fn taint(&mut self, owner: &Owner, target: ChildTarget, uid: Option<&Text>) -> Outcome {
        let place = (ChildKind::Rule, owner.name.clone());
        match (uid, self.api.children.get(&place)) {
            (None, _) => self.api.make(owner.clone(), owner.name.clone(), target),
            (Some(uid), Some(there)) if there.uid == *uid => {
                let mut changed = Child { target, ..there.clone() };
                if let (Mutant::ForgetsTaintKeys, Some(key)) = (self.mutant, taint_key(there)) {
                    set_taint_key(&mut changed, key);
                }
                self.api.set_child(changed);
                Outcome::Done
            }
            (Some(_), _) => Outcome::Gone,
        }
    }

    pub(super) fn delete(&mut self, kind: ChildKind, name: &Text, uid: &Text) {
        if self.mutant == Mutant::DeletesForeign && kind == ChildKind::Rule {
            self.api.foreign.clear();
        }
        let place = (kind, name.clone());
        let is_it = self.api.children.get(&place).is_some_and(|there| there.uid == *uid);
        let is_stopped = self.mutant == Mutant::HoldsRecovery && self.api.guard.is_tripped;
        if is_it && !is_stopped && self.mutant != Mutant::KeepsTaints {
            self.api.children.remove(&place);
            self.api.log.push(Event::ChildGone(kind, name.clone()));
        }
    }

    pub(super) fn create(&mut self, incident: &Incident) -> (Outcome, Option<Text>, Option<Text>) {
        if self.api.incidents.contains_key(&incident.name) {
            return (Outcome::Conflict, None, None);
        }
        let (uid, version) = (self.api.version(), self.api.version());
        if self.mutant == Mutant::LosesNewIncidents {
            return (Outcome::Done, Some(version), Some(uid));
        }
        let mut opened = incident.clone();
        opened.timeline.truncate(1);
        (opened.stage, opened.tries, opened.since) = (opened.timeline[0].stage, 0, opened.timeline[0].at);
        let stored =
            Stored { uid: uid.clone(), version: version.clone(), incident: opened, acts: Acts::default() };
        self.stages.insert(incident.name.clone(), (stored.incident.stage, false));
        self.api.set_incident(stored);
        (Outcome::Done, Some(version), Some(uid))
    }

    pub(super) fn record(
        &mut self,
        uid: &Text,
        version: &Text,
        incident: &Incident,
    ) -> (Outcome, Option<Text>, Option<Text>) {
        let Some(stored) = self.api.incidents.get(&incident.name).cloned() else {
            return (Outcome::Gone, None, None);
        };
        if stored.uid != *uid || stored.version != *version {
            return (Outcome::Conflict, None, None);
        }
        let next = self.api.version();
        let mut incident = incident.clone();
        if self.mutant == Mutant::StepsBack && incident.stage == Stage::Repairing {
            incident.stage = Stage::Suspect;
        }
        if self.mutant == Mutant::HoldsInSilence && incident.held.is_some() {
            incident.waits_for = Text::default();
        }
        if self.mutant == Mutant::KeepsDoubles && is_double(&incident) {
            return (Outcome::Done, Some(version.clone()), None);
        }
        if self.mutant == Mutant::LosesRecords && incident.stage != Stage::Draining {
            return (Outcome::Done, Some(version.clone()), None);
        }
        let (before, by_person) = self.stages.get(&incident.name).copied().unwrap_or((incident.stage, true));
        if before != incident.stage {
            // A policy that only observed is enforced from now on: nothing was done to the device before, and a person wanted that.
            let begins = incident.is_enforced && !stored.incident.is_enforced;
            // Of two that a person is to end one is enough.
            let is_spare = is_double(&incident) && self.is_abandoned_by_another(&incident);
            if !by_person && !begins && !is_spare && !may_follow(before, incident.stage) {
                self.broken = Some(format!("{before:?} is followed by {:?}", incident.stage));
            }
            self.stages.insert(incident.name.clone(), (incident.stage, false));
        }
        if incident.stage != Stage::Cleared && incident.waits_for.is_empty() {
            self.broken = Some(format!("{:?} waits for nothing", incident.stage));
        }
        self.seen.insert(incident.stage.name());
        if incident.held.is_some() {
            self.seen.insert("held");
        }
        self.api.set_incident(Stored { version: next.clone(), incident, ..stored });
        (Outcome::Done, Some(next), None)
    }

    /// Whether another incident keeps the device of this one for a person to decide.
    pub(super) fn is_abandoned_by_another(&self, incident: &Incident) -> bool {
        self.api.incidents.values().map(|stored| &stored.incident).any(|other| {
            other.stage == Stage::Abandoned && other.device == incident.device && other.name != incident.name
        })
    }

    /// Every object is made for an incident that is stored.
    pub(super) fn explained(&mut self, owner: &Owner, what: &str) {
        let is_there = self.api.incidents.get(&owner.name).is_some_and(|stored| stored.uid == owner.uid);
        // A person may have deleted it meanwhile, or its time was over: then it is taken back.
        if !is_there && !self.stages.contains_key(&owner.name) {
            self.broken = Some(format!("a {what} for {}, which was never stored", owner.name));
        }
    }

    pub(super) fn delete_incident(&mut self, name: &Text) {
        if let Some(stored) = self.api.incidents.remove(name) {
            self.api.log.push(Event::IncidentGone(name.clone(), stored.uid));
        }
    }
}

/// Whether an incident is closed because its device has another.
fn is_double(incident: &Incident) -> bool {
    incident.stage == Stage::Cleared
        && incident.timeline.last().is_some_and(|entry| entry.cause.contains("another open incident"))
}

/// Which stage may follow which, without a person.
fn may_follow(before: Stage, after: Stage) -> bool {
    match before {
        Stage::Suspect => true,
        Stage::Quarantined => !matches!(after, Stage::Suspect),
        Stage::Draining => !matches!(after, Stage::Suspect | Stage::Quarantined),
        Stage::Repairing => !matches!(after, Stage::Suspect | Stage::Quarantined),
        Stage::Probation => !matches!(after, Stage::Suspect | Stage::Quarantined),
        Stage::Abandoned | Stage::Cleared => false,
    }
}
