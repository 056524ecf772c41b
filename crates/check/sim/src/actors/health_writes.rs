//! The effects of writes by health controllers, the limits that guards set them, and the actions of people on incidents.

use std::sync::Arc;

use lazaret_lifecycle::{
    Acts, Child, ChildKind, ChildTarget, Cost, Incident, Input as CoreInput, Notice, Owner, Stage, Stored,
    TaintKeyValue, WriteKind,
};
use lazaret_machine::Outcome;
use lazaret_model::{
    DeviceId, DeviceSelector, DeviceTaintRule, DisruptionGuard, Effect, EvictionMode, EvictionSpec,
    GroupMode, Taint, Text, Timestamp, Uid,
};

use crate::{
    actors::health::{HealthAgent, HealthEvent, HealthStep, Reply},
    api::wall,
    coverage::Mark,
    mutant::Mutant,
    palette,
    world::{Step, World},
};

/// A job takes at most this long.
const JOB_MS_MAX: u64 = 5_000;
/// After this time a pod of a drained device is deleted whatever its budget says.
const DRAIN_DEADLINE_S: i64 = 15;

/// In as many of a thousand looks a mutant hears what guards permit.
const LATE_LIMITS_PERMILLE: u64 = 50;

const DONE: Reply = (Outcome::Done, None, None);

/// The name of the rule that drains: both kinds of objects are rules here.
pub(crate) fn rule_name(kind: ChildKind, incident: &Text) -> Text {
    if kind == ChildKind::Drain { format!("{incident}.drain").into() } else { incident.clone() }
}

impl World {
    pub(crate) fn health_perform(&mut self, kind: &WriteKind) -> Reply {
        match kind {
            WriteKind::Create(incident) => self.create_incident(incident),
            WriteKind::Record(uid, version, incident) => self.record_incident(uid, version, incident),
            WriteKind::Remove(name, uid) => {
                self.coverage.hit(Mark::IncidentRemoved);
                self.remove_incident(name, uid);
                DONE
            }
            WriteKind::Taint { owner, device, effect, taint, uid } => {
                let effect = if *effect == "None" { Effect::None } else { Effect::NoSchedule };
                (self.write_taint(owner, ChildKind::Rule, device, (effect, taint), uid.as_ref()), None, None)
            }
            WriteKind::Drain { owner, device, taint, .. } => (
                self.write_taint(owner, ChildKind::Drain, device, (Effect::NoExecute, taint), None),
                None,
                None,
            ),
            WriteKind::Run { owner, name, incident, task } => {
                self.health.owed.note_task(name, owner, incident, *task);
                // Asked for once more, it does not begin again.
                if !self.health.jobs.contains_key(name) {
                    self.check_run_is_stored(owner, incident);
                    self.check_device_is_idle(owner, incident);
                }
                (self.run_job(owner, name), None, None)
            }
            WriteKind::Delete(ChildKind::Job, _, name, uid) => {
                if self.health.jobs.get(name).is_some_and(|job| job.uid == *uid) {
                    self.remove_job(name);
                }
                DONE
            }
            WriteKind::Delete(kind, _, name, uid) => {
                self.delete_taint(&rule_name(*kind, name), uid);
                DONE
            }
            WriteKind::Tally(policy, _) if self.health.policy_named(policy).is_none() => {
                (Outcome::Gone, None, None)
            }
            WriteKind::Tally(policy, tallies) => {
                self.health.tallies.insert(policy.clone(), tallies.clone());
                DONE
            }
            WriteKind::DropReport(name, uid) => {
                let is_it = self.health.reports.get(name).is_some_and(|report| report.uid == *uid);
                if is_it && self.mutant != Some(Mutant::KeepReports) {
                    self.health.reports.remove(name);
                    self.health_tell(HealthEvent::ReportGone(name.clone()));
                }
                DONE
            }
            WriteKind::Broken(..) => DONE,
        }
    }

    pub(super) fn version(&mut self) -> Text {
        self.health.versions += 1;
        self.health.versions.to_string().into()
    }

    pub(super) fn store_incident(&mut self, stored: Stored) {
        let Incident { name, device, stage, policy, rule, waits_for, demands, timeline, .. } =
            &stored.incident;
        let cause = timeline.last().map_or("", |entry| &*entry.cause);
        let late = if self.health.is_late { "late " } else { "" };
        self.say(format_args!(
            "{late}incident {name} of {device}: {stage:?} by {policy}/{rule} since {:?}, waits for {waits_for:?}, demands {demands:?}; {cause}",
            stored.incident.since
        ));
        self.health_tell(HealthEvent::Incident(Box::new(stored.clone())));
        self.health.incidents.insert(stored.incident.name.clone(), stored);
    }

    /// A new incident has what it was opened with; its status is written apart.
    fn create_incident(&mut self, incident: &Incident) -> Reply {
        if self.health.incidents.contains_key(&incident.name) {
            return (Outcome::Conflict, None, None);
        }
        self.coverage.hit(Mark::IncidentOpened);
        let (uid, version) = (self.api.new_uid(), self.version());
        if self.mutant == Some(Mutant::LoseNewIncidents) {
            return (Outcome::Done, Some(version), Some(uid));
        }
        let mut opened = incident.clone();
        opened.timeline.truncate(1);
        let first = opened.timeline.first();
        (opened.stage, opened.since) =
            first.map_or((opened.stage, opened.since), |entry| (entry.stage, entry.at));
        opened = Incident {
            waits_for: Text::default(),
            tries: 0,
            is_enforced: false,
            flaps: Vec::new(),
            calm_since: None,
            gone_since: None,
            twin: None,
            cost: Cost::default(),
            held: None,
            demands: Box::default(),
            ..opened
        };
        self.health.stages.insert(uid.clone(), (opened.stage, false));
        let acts = Acts::default();
        self.store_incident(Stored { uid: uid.clone(), version: version.clone(), incident: opened, acts });
        (Outcome::Done, Some(version), Some(uid))
    }

    fn record_incident(&mut self, uid: &Uid, version: &Text, incident: &Incident) -> Reply {
        let Some(stored) = self.health.incidents.get(&incident.name).cloned() else {
            return (Outcome::Gone, None, None);
        };
        if stored.uid != *uid || stored.version != *version {
            return (Outcome::Conflict, None, None);
        }
        self.check_demands(&stored, incident);
        let mut incident = incident.clone();
        match self.mutant {
            Some(Mutant::StepBack) if incident.stage == Stage::Repairing => incident.stage = Stage::Suspect,
            Some(Mutant::SilentIncidents) if incident.stage == Stage::Quarantined => {
                incident.waits_for = Text::default();
            }
            Some(Mutant::SilentHolds) if incident.held.is_some() => incident.waits_for = Text::default(),
            Some(Mutant::RunUnrecorded) => incident.tries = stored.incident.tries,
            Some(Mutant::ForgetFlaps) => incident.flaps.clear(),
            Some(_) | None => {}
        }
        if self.is_lost(&incident) {
            return (Outcome::Done, Some(version.clone()), None);
        }
        self.check_incident_written(&stored, &incident);
        let version = self.version();
        self.store_incident(Stored { version: version.clone(), incident: incident.clone(), ..stored });
        if self.mutant == Some(Mutant::ClearAbandoned) && incident.stage == Stage::Abandoned {
            return self.record_incident(uid, &version, &Incident { stage: Stage::Cleared, ..incident });
        }
        (Outcome::Done, Some(version), None)
    }

    /// Whether a mutant says that this is written, and it is not.
    fn is_lost(&self, incident: &Incident) -> bool {
        match self.mutant {
            Some(Mutant::HoldRecovery) => {
                !self.health.kept_guards.is_empty() && incident.stage == Stage::Cleared
            }
            Some(Mutant::LoseRecords) => incident.stage != Stage::Draining,
            Some(Mutant::KeepDoubles) => {
                let last = incident.timeline.last();
                last.is_some_and(|entry| entry.cause.contains("another open incident"))
            }
            Some(_) | None => false,
        }
    }

    pub(super) fn remove_incident(&mut self, name: &Text, uid: &Uid) {
        if self.health.incidents.get(name).is_some_and(|stored| stored.uid == *uid) {
            self.health.incidents.remove(name);
            self.health_tell(HealthEvent::IncidentGone(name.clone(), uid.clone()));
        }
    }

    /// Makes a rule for an incident, or changes the one of this incarnation.
    fn write_taint(
        &mut self,
        owner: &Owner,
        kind: ChildKind,
        device: &DeviceId,
        (effect, taint): (Effect, &TaintKeyValue),
        uid: Option<&Uid>,
    ) -> Outcome {
        self.check_explained(owner);
        let held =
            self.health.incidents.get(&owner.name).is_some_and(|stored| stored.incident.held.is_some());
        let effect = match self.mutant {
            Some(Mutant::TaintHeld) if held && effect == Effect::None => Effect::NoSchedule,
            Some(_) | None => effect,
        };
        let name = rule_name(kind, &owner.name);
        let known = self.api.rules.get(&name).map(|stored| stored.object.uid.clone());
        if let Some(uid) = uid {
            if known.as_ref() != Some(uid) {
                return Outcome::Gone;
            }
            let review = self.review();
            let keeps_key = matches!(self.mutant, Some(Mutant::KeepTaintKey | Mutant::ForgetTaintKeys));
            self.api.edit_rule(self.now, &name, |rule| {
                rule.taint.effect = effect;
                rule.taint.value = taint.value.clone();
                if !keeps_key {
                    rule.taint.key = taint.key.clone();
                }
                rule.review = review;
            });
            self.note_taint(&name);
            return Outcome::Done;
        }
        if let Some(known) = known {
            let is_ours = self.health.owners.get(&known).is_some_and(|(of, _)| of == owner);
            return if is_ours { Outcome::Done } else { Outcome::Conflict };
        }
        let uid = self.api.new_uid();
        self.health.owners.insert(uid.clone(), (owner.clone(), kind));
        let at = wall(self.now).truncated_to_secs();
        let eviction = (kind == ChildKind::Drain && self.config.protected != 0).then(|| self.drain_spec());
        let rule = DeviceTaintRule {
            name,
            uid,
            generation: 1,
            created: Some(at),
            selector: Some(DeviceSelector {
                driver: Some(device.driver.clone()),
                pool: Some(device.pool.clone()),
                device: Some(device.device.clone()),
                ..DeviceSelector::default()
            }),
            taint: Taint {
                key: taint.key.clone(),
                value: taint.value.clone(),
                effect,
                time_added: Some(at),
                eviction,
                ..Taint::default()
            },
            review: self.review(),
            ..DeviceTaintRule::default()
        };
        let name = rule.name.clone();
        self.api.rules.put(&mut self.api.versions, rule);
        self.note_taint(&name);
        Outcome::Done
    }

    /// The taint of a rule was written.
    fn note_taint(&mut self, name: &Text) {
        if let Some(rule) = self.api.rules.get(name) {
            self.health.tainted.insert(rule.object.uid.clone(), rule.version);
        }
    }

    /// Budgets are asked until the deadline; in some worlds groups leave together.
    fn drain_spec(&self) -> Arc<EvictionSpec> {
        let groups = if self.config.seed.is_multiple_of(3) { GroupMode::Together } else { GroupMode::Apart };
        Arc::new(EvictionSpec {
            mode: EvictionMode::EvictThenDelete,
            deadline_seconds: Some(DRAIN_DEADLINE_S),
            groups,
            ..EvictionSpec::default()
        })
    }

    fn delete_taint(&mut self, name: &Text, uid: &Uid) {
        let is_it = self.api.rules.get(name).is_some_and(|stored| stored.object.uid == *uid);
        if is_it && self.mutant != Some(Mutant::KeepTaints) {
            self.api.rules.remove(&mut self.api.versions, name);
        }
    }

    pub(super) fn remove_job(&mut self, name: &Text) {
        self.health.jobs.remove(name);
        self.health_tell(HealthEvent::JobGone(name.clone()));
    }

    fn run_job(&mut self, owner: &Owner, name: &Text) -> Outcome {
        self.check_explained(owner);
        if let Some(there) = self.health.jobs.get(name) {
            return if there.owner == *owner { Outcome::Done } else { Outcome::Conflict };
        }
        let uid = self.api.new_uid();
        if !self.health.is_late {
            self.check_job_made(owner, name);
        }
        let (namespace, target) = (Text::default(), ChildTarget::Job { result: None });
        let job = Child { namespace, name: name.clone(), uid: uid.clone(), owner: owner.clone(), target };
        self.health.jobs.insert(name.clone(), job.clone());
        self.health_tell(HealthEvent::Job(job));
        let ends = self.now + self.health.rng.below(JOB_MS_MAX);
        self.push(ends, Step::Health(Box::new(HealthStep::JobEnds(name.clone(), uid))));
        Outcome::Done
    }

    /// The guards that count for policies: when faults have ended evictions go on, and in some worlds policies may still not take anything out of
    /// service. Steps that end incidents go on all the same.
    pub(crate) fn guards_of_health(&self, number: usize) -> Vec<Arc<DisruptionGuard>> {
        let mut guards = self.controllers[number].guards.clone();
        guards.extend(self.health.kept_guards.iter().cloned());
        guards
    }

    pub(crate) fn hear_limits(&mut self, number: usize, now: Timestamp, at_once: bool) {
        let is_late =
            self.mutant == Some(Mutant::LateLimits) && !self.health.rng.chance(LATE_LIMITS_PERMILLE);
        if is_late || self.mutant == Some(Mutant::IgnoreLimits) {
            return;
        }
        let mut guards = self.guards_of_health(number);
        if self.mutant == Some(Mutant::IgnoreGuardWindows) {
            guards.iter_mut().for_each(|guard| Arc::make_mut(guard).windows.clear());
        }
        let HealthAgent { core, fleet, limits, .. } = &mut self.health.agents[number];
        limits.set(guards);
        if let Some(limits) = limits.count(now, fleet, at_once) {
            core.handle(now, Notice::Core(CoreInput::Limits(limits)));
        }
    }

    /// Faults end. In every other world nothing more may be taken out of service by policies.
    pub(crate) fn keep_guards_for_health(&mut self) {
        if self.config.healed == 0 || self.config.seed.is_multiple_of(2) {
            return;
        }
        let mut guard =
            DisruptionGuard { name: "kept".into(), uid: "kept".into(), ..DisruptionGuard::default() };
        if self.config.seed % 4 == 1 {
            guard.paused = Some(lazaret_model::Pause { reason: "played".into(), until: None });
        } else {
            guard.windows = vec![palette::closed_window()];
        }
        self.health.kept_guards = vec![Arc::new(guard)];
        self.health.agents.iter_mut().for_each(|agent| agent.is_told = true);
    }
}
