//! Incidents as they are written: the order of their stages, what explains their taints, and what guards permit.

use std::collections::BTreeSet;

use lazaret_lifecycle::{ChildKind, ChildTarget, Incident, Owner, Stage, Stored, Write, WriteKind};
use lazaret_model::{BreakerUnit, DeviceId, DisruptionGuard, Text, Timestamp};

use crate::{check::protection::unit_of, coverage::Mark, mutant::Mutant, world::World};

/// Which stage may follow which, without a person.
fn may_follow(before: Stage, after: Stage) -> bool {
    match before {
        Stage::Suspect => true,
        Stage::Quarantined => after != Stage::Suspect,
        Stage::Draining | Stage::Repairing | Stage::Probation => {
            !matches!(after, Stage::Suspect | Stage::Quarantined)
        }
        Stage::Abandoned | Stage::Cleared => false,
    }
}

impl World {
    /// Only a leader decides, and only rules that were made for an incident are changed or deleted.
    pub(crate) fn check_health_write(&mut self, number: usize, mut write: Write) -> Write {
        if !self.health.agents[number].turn.leads() {
            self.violate("only a leader decides", format!("health controller {number}: {:?}", write.kind));
        }
        if self.mutant == Some(Mutant::DeleteForeign)
            && let WriteKind::Delete(ChildKind::Rule, _, name, uid) = &mut write.kind
            && let Some(foreign) = self.api.rules.iter().find(|rule| rule.object.name.starts_with("rule-"))
        {
            (*name, *uid) = (foreign.object.name.clone(), foreign.object.uid.clone());
        }
        if let WriteKind::Create(incident) | WriteKind::Record(_, _, incident) = &write.kind {
            self.check_torn_causes(incident);
        }
        if let WriteKind::Run { owner, name, .. } = &write.kind {
            self.check_nothing_is_held(number, owner, name);
        }
        let touched = if let WriteKind::Delete(ChildKind::Rule | ChildKind::Drain, _, name, uid) = &write.kind
        {
            Some((name, uid))
        } else if let WriteKind::Taint { owner, uid: Some(uid), .. } = &write.kind {
            Some((&owner.name, uid))
        } else {
            None
        };
        if let Some((name, uid)) = touched
            && !self.health.owners.contains_key(uid)
        {
            let detail = format!("health controller {number} writes {name}, which was made for no incident");
            self.violate("foreign rules are never touched", detail);
        }
        write
    }

    /// No repair and no validation begins while a guard holds the taint of its incident, as far as its controller has seen.
    fn check_nothing_is_held(&mut self, number: usize, owner: &Owner, name: &Text) {
        let seen = self.seen(number);
        let held = seen.rules().any(|rule| {
            let is_own = self
                .health
                .owners
                .get(&rule.uid)
                .is_some_and(|(of, kind)| of == owner && *kind == ChildKind::Rule);
            is_own && rule.is_held()
        });
        if held {
            self.violate("nothing begins while its taint is held", name.to_string());
        }
    }

    /// Every object is made for an incident that is stored, or was.
    pub(crate) fn check_explained(&mut self, owner: &Owner) {
        if !self.health.stages.contains_key(&owner.uid) {
            let detail = format!("something is made for {}, which was never stored", owner.name);
            self.violate("every taint of an incident is explained", detail);
        }
    }

    pub(crate) fn check_job_made(&mut self, owner: &Owner, name: &Text) {
        let times = self.health.made.entry((owner.uid.clone(), name.clone())).or_default();
        *times += 1;
        let times = *times;
        if times > 1 {
            self.violate("no repair is done twice", format!("{name} is run {times} times"));
        }
    }

    /// An incident is written: its stage follows from the one before, and it says what it waits for.
    pub(crate) fn check_incident_written(&mut self, stored: &Stored, incident: &Incident) {
        self.check_flaps(stored, incident);
        let name = &incident.name;
        let (before, by_person) =
            self.health.stages.get(&stored.uid).copied().unwrap_or((incident.stage, true));
        if before != incident.stage {
            // A policy that only observed is enforced from now on: nothing was done to the device before, and a person wanted that.
            let begins = incident.is_enforced && !stored.incident.is_enforced;
            let is_excused = by_person || begins || self.is_spare(incident);
            if !is_excused && !may_follow(before, incident.stage) {
                let detail = format!("{name}: {before:?} is followed by {:?}", incident.stage);
                self.violate("no stage is left backwards", detail);
            }
            self.health.stages.insert(stored.uid.clone(), (incident.stage, false));
            match incident.stage {
                Stage::Repairing => self.coverage.hit(Mark::IncidentDrained),
                Stage::Cleared => self.coverage.hit(Mark::IncidentCleared),
                Stage::Abandoned => self.coverage.hit(Mark::IncidentAbandoned),
                Stage::Probation => self.coverage.hit(Mark::IncidentProbation),
                Stage::Suspect | Stage::Quarantined | Stage::Draining => {}
            }
        }
        if incident.held.is_some() {
            self.coverage.hit(Mark::IncidentHeld);
        }
        if incident.stage != Stage::Cleared && incident.waits_for.is_empty() {
            let detail = format!("{name} is {:?} and waits for nothing", incident.stage);
            self.violate("an incident is over or says what it waits for", detail);
        }
    }

    /// Whether an incident ends because another keeps its device for a person to decide: of two, which a late write made, one is enough.
    fn is_spare(&self, incident: &Incident) -> bool {
        incident.stage == Stage::Cleared
            && self.health.incidents.values().map(|stored| &stored.incident).any(|other| {
                // Its move to another name may not be written yet.
                let has_hardware = other.hardware.is_some() && other.hardware == incident.hardware;
                let is_same = other.device == incident.device
                    || has_hardware && other.device.driver == incident.device.driver;
                other.stage == Stage::Abandoned && is_same && other.name != incident.name
            })
    }

    /// A machine takes devices out of service: every guard that it has heard of permits it.
    pub(crate) fn check_taken_out(&mut self, number: usize) {
        let now = self.controllers[number].clock(self.now);
        let agent = &self.health.agents[number];
        let is_out = |incident: &&Incident| incident.is_enforced && incident.stage.is_out_of_service();
        let all: Vec<&Incident> = agent.core.lifecycle().incidents().filter(is_out).collect();
        let out: BTreeSet<DeviceId> = all.iter().map(|incident| incident.device.clone()).collect();
        // An incident that has no status yet may have its taint.
        let tainted = self.api.rules.iter().filter_map(|stored| self.health.child(stored.object));
        let tainted = tainted.filter_map(|child| match child.target {
            ChildTarget::Rule { device, effect, .. } => Some(device).filter(|_| *effect != *"None"),
            ChildTarget::Drain { .. } | ChildTarget::Job { .. } | ChildTarget::Claim => None,
        });
        let tainted: BTreeSet<DeviceId> = tainted.collect();
        let was_out = |device: &DeviceId| {
            agent.out.contains(device)
                || tainted.contains(device)
                || self.health.incidents.values().any(|stored| {
                    let incident = &stored.incident;
                    incident.device == *device && incident.is_enforced && incident.stage.is_out_of_service()
                })
        };
        // A device that is out of service by the API counts, although the machine has just decided that it comes back.
        let still_out = self.health.incidents.values().map(|stored| &stored.incident);
        let still_out = still_out.filter(|one| one.is_enforced && one.stage.is_out_of_service());
        let still_out: BTreeSet<DeviceId> = still_out.map(|one| one.device.clone()).collect();
        // A device that a person gave up, or said to be repaired, is out of service, whatever a guard permits.
        let by_person = |incident: &&&Incident| {
            let stored =
                self.health.incidents.get(&incident.name).map(|stored| stored.incident.handled.repaired);
            let is_repaired = incident.handled.repaired.is_some_and(|at| stored != Some(Some(at)));
            incident.handled.abandoned.is_some() || is_repaired
        };
        // It follows its hardware to another name.
        let has_moved = |incident: &Incident| {
            let stored = self.health.incidents.get(&incident.name).map(|stored| &stored.incident);
            stored.is_some_and(|one| is_out(&one) && one.device != incident.device)
        };
        let new = all.iter().filter(|one| !by_person(one) && !was_out(&one.device) && !has_moved(one));
        // A device that is gone with its node counts for others that are gone: they come back together.
        let counts_gone = new.clone().any(|one| one.gone_since.is_some());
        let gone = all.iter().filter(|one| one.gone_since.is_some() && !counts_gone);
        let gone: BTreeSet<DeviceId> = gone.map(|one| one.device.clone()).collect();
        let taken = in_words(new.clone());
        let new: BTreeSet<DeviceId> = new.map(|one| one.device.clone()).collect();
        let exists = |device: &&DeviceId| !gone.contains(*device);
        // A node that a person took out of service in this step is no more out by another of its devices. It does not count against the others:
        // the machine may have heard of the person last.
        let by_persons = all.iter().filter(by_person).map(|incident| incident.device.clone());
        let by_persons: BTreeSet<DeviceId> = by_persons.collect();
        let is_older = |device: &&DeviceId| was_out(device) || by_persons.contains(*device);
        let seen = self.seen(number);
        let mut complaint = None;
        for guard in self.guards_of_health(number).iter().filter(|_| !new.is_empty()) {
            let of = guard.breaker.as_ref().map_or(&BreakerUnit::Devices, |breaker| &breaker.of);
            let (tainted, units) = self.out_of_service(number, guard, of);
            let unit = |device: &DeviceId| unit_of(seen, guard, of, device);
            let new: BTreeSet<String> = new.iter().filter_map(unit).collect();
            let older = out.iter().filter(is_older).filter_map(unit).collect::<BTreeSet<_>>();
            let before = out
                .iter()
                .filter(exists)
                .filter(|device| was_out(device))
                .filter_map(unit)
                .collect::<BTreeSet<_>>();
            let still_out = still_out.iter().filter(exists).filter_map(unit).collect::<BTreeSet<_>>();
            let added =
                new.iter().filter(|unit| !older.contains(*unit) && !still_out.contains(*unit)).count();
            // An incident that is over as the machine has decided, and whose taint was never written, keeps nothing out of service.
            let is_tainted = |unit: &String| tainted.contains(unit);
            let before: BTreeSet<String> =
                before.into_iter().chain(still_out.into_iter().filter(is_tainted)).collect();
            if !new.is_empty() && stops(now, guard) {
                complaint = Some(format!("{} stops, and {new:?} are taken out: {taken}", guard.name));
            }
            let permitted =
                guard.breaker.as_ref().map(|breaker| breaker.max_out_of_service.of(units.len() as u64));
            if let Some(permitted) = permitted.filter(|_| added > 0)
                && (before.len() + added) as u64 > permitted
            {
                complaint = Some(format!(
                    "{} permits {permitted} of {of:?}: {before:?} are out, and {new:?}: {taken}",
                    guard.name
                ));
            }
        }
        self.health.agents[number].out = out;
        if let Some(detail) = complaint {
            self.violate("policies take out no more than guards permit", detail);
        }
    }
}

/// Incidents that take their devices out of service.
fn in_words<'a>(incidents: impl Iterator<Item = &'a &'a Incident>) -> String {
    format!("{:?}", incidents.map(|one| (&one.name, one.stage, &one.device)).collect::<Vec<_>>())
}

/// Whether nothing may begin by a guard.
fn stops(now: Timestamp, guard: &DisruptionGuard) -> bool {
    guard.paused.as_ref().is_some_and(|pause| pause.holds(now))
        || guard.breaker.is_some() && guard.status.tripped
        || !guard.windows.is_empty() && !guard.windows.iter().any(|window| window.is_open(now))
}
