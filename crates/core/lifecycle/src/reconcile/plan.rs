//! Which writes are missing.

use alloc::{sync::Arc, vec::Vec};

use lazaret_model::{Text, Timestamp};

use super::{
    Child, ChildKind, Owner, Reconciler, Target, WriteKind,
    scene::Scene,
    state::{Queued, child_key},
};
use crate::{
    effect::{Input as CoreInput, JobResult},
    incident::Incident,
    wanted::{Task, Wanted},
};

/// The prefix of the key of an effect on the counts of a policy.
pub(super) const TALLY: &str = "/tally/";
/// Objects of which it is known how often a write failed. Of more only those that wait are.
const RETRIES_MAX: usize = 10_000;

impl Reconciler {
    /// Looks at what may have changed, and queues what is to be done.
    pub(super) fn plan(&mut self, now: Timestamp) {
        self.due_again(now);
        self.touched.extend(self.looks.due(now, self.planned));
        self.touched.extend(self.kept.due(now));
        self.forget_unseen(now);
        while let Some(name) = self.touched.pop_first() {
            self.plan_incident(now, &name);
            self.take_effects();
        }
        self.forget_old(now);
        self.write_tallies(now);
        self.drop_reports(now);
    }

    /// Counts that changed since they were stored.
    fn write_tallies(&mut self, now: Timestamp) {
        let changed = |(policy, version): &(&Text, u64)| self.tallied.get(*policy) != Some(version);
        let changed: Vec<(Text, u64)> = (self.lifecycle.tally_versions())
            .filter(changed)
            .map(|(policy, version)| (policy.clone(), version))
            .collect();
        for (policy, version) in changed {
            let key: Text = alloc::format!("{TALLY}{policy}").into();
            if self.is_free(now, &key) {
                let tallies = self.lifecycle.tallies(&policy, now);
                self.push(key, version, WriteKind::Tally(policy, tallies));
            }
        }
    }

    /// Whether all that was counted is stored.
    fn is_tallied(&self) -> bool {
        self.lifecycle.tally_versions().all(|(policy, version)| self.tallied.get(policy) == Some(&version))
    }

    /// Queues effects whose pause after a failure is over.
    fn due_again(&mut self, now: Timestamp) {
        let due: Vec<Text> =
            self.not_before.iter().filter(|(_, (at, _))| *at <= now).map(|(key, _)| key.clone()).collect();
        if self.not_before.len() > RETRIES_MAX {
            self.not_before.retain(|_, (at, _)| *at != Timestamp::NEVER);
        }
        for key in due {
            let name = key.rsplit('/').next().unwrap_or_default();
            // A job's name is its incident's and a number.
            let owner = name.rsplit_once('-').map_or("", |(owner, _)| owner);
            self.touched.extend([Text::from(name), Text::from(owner)]);
            // How often it failed is known on until it is done.
            if let Some((at, failures)) = self.not_before.get_mut(&key) {
                *at = Timestamp::NEVER;
                if *failures == 0 {
                    self.not_before.remove(&key);
                }
            }
        }
    }

    fn plan_incident(&mut self, now: Timestamp, name: &Text) {
        let written = self.incidents.get(name);
        if let Some((written, pending)) = written.and_then(|one| Some((one, one.pending.clone()?))) {
            let change = written.changes;
            let kind = match &written.uid {
                None => WriteKind::Create(pending),
                Some(uid) => WriteKind::Record(uid.clone(), written.version.clone(), pending),
            };
            self.push_at(now, name.clone(), change, kind);
        }
        let open = self.open(name);
        let (wanted, shown) = match &open {
            Some((_, incident)) => {
                (self.lifecycle.wanted(incident), self.incidents.get(name).map(|written| written.shown))
            }
            None => {
                self.looks.forget(name);
                self.obstacles.remove(name);
                (Wanted::default(), None)
            }
        };
        // Nothing is done for what is not stored yet, and nothing is undone before it is stored that it is over.
        let is_stored = match &open {
            Some((_, incident)) => shown == Some((incident.stage, incident.tries)),
            None => self.incidents.get(name).is_none_or(|written| written.pending.is_none()),
        };
        if is_stored {
            self.plan_children(now, name, open.as_ref(), wanted);
        }
    }

    /// An open incident that was written.
    fn open(&self, name: &Text) -> Option<(Owner, Arc<Incident>)> {
        let written = self.incidents.get(name)?;
        let incident = Arc::clone(self.lifecycle.incident(written.number?)?);
        Some((Owner { name: name.clone(), uid: written.uid.clone()? }, incident))
    }

    fn plan_children(
        &mut self,
        now: Timestamp,
        name: &Text,
        open: Option<&(Owner, Arc<Incident>)>,
        wanted: Wanted,
    ) {
        let children: Vec<Child> = self.children.of(name).to_vec();
        // Effects that wait were decided on an older state.
        self.waiting.remove(&child_key(ChildKind::Rule, name));
        self.waiting.remove(&child_key(ChildKind::Drain, name));
        if let Some((_, incident)) = open {
            self.waiting.remove(&child_key(ChildKind::Job, &incident.task_name()));
        }
        let mut scene = Scene::default();
        for child in children {
            match open.filter(|(owner, _)| child.owner == *owner) {
                Some((owner, incident)) => {
                    self.plan_child(now, (owner, incident), (wanted, &child), &mut scene);
                }
                None => {
                    let over = self.incidents.get(name).and_then(|written| written.over_of(&child));
                    if over.is_some_and(|over| self.kept.keeps(now, name, over)) {
                        continue;
                    }
                    self.delete(now, &child);
                    // An earlier incident of the same name may have left it: its place is taken until it is gone.
                    scene.takes_place(child.target.kind());
                }
            }
        }
        let Some((owner, incident)) = open else { return };
        if let Some(effect) = wanted.quarantine.filter(|_| !scene.has_rule) {
            self.taint(now, owner, incident, effect, None);
        }
        if wanted.drains && !scene.has_drain {
            let (device, taint) = (incident.device.clone(), incident.taint.clone());
            let kind =
                WriteKind::Drain { owner: owner.clone(), device, taint, policy: incident.policy.clone() };
            self.push_at(now, child_key(ChildKind::Drain, name), 0, kind);
        }
        let task = wanted.task.filter(|_| !scene.has_job);
        let may_begin = self.may_begin(now, incident, task, &scene);
        if let Some(task) = task.filter(|_| may_begin) {
            self.run(now, owner, incident, task);
        }
    }

    /// Compares an object of an open incident with what the incident requires.
    fn plan_child(
        &mut self,
        now: Timestamp,
        (owner, incident): (&Owner, &Arc<Incident>),
        (wanted, child): (Wanted, &Child),
        scene: &mut Scene,
    ) {
        match &child.target {
            Target::Rule { device, effect, taint, held } => match wanted.quarantine {
                Some(wanted) if *device == incident.device && child.name == owner.name => {
                    scene.has_rule = true;
                    if **effect != *wanted || *taint != incident.taint {
                        self.taint(now, owner, incident, wanted, Some(child));
                    } else {
                        scene.held = held.clone().unwrap_or_default();
                        scene.rule = Some(child.clone()).filter(|_| held.is_none());
                    }
                }
                Some(_) | None => {
                    scene.has_rule = true;
                    self.delete(now, child);
                }
            },
            Target::Drain { device, taint, held, .. } => {
                let is_right = *device == incident.device && *taint == incident.taint;
                scene.has_drain = true;
                scene.blocked = held.clone();
                if !wanted.drains || !is_right || child.name != owner.name {
                    self.delete(now, child);
                }
            }
            Target::Claim => {
                if wanted.task != Some(Task::Validate) || child.name != incident.task_name() {
                    self.delete(now, child);
                }
            }
            Target::Job { result } => self.plan_job(now, incident, (wanted, child, result.as_ref()), scene),
        }
    }

    fn plan_job(
        &mut self,
        now: Timestamp,
        incident: &Arc<Incident>,
        (wanted, child, result): (Wanted, &Child, Option<&JobResult>),
        scene: &mut Scene,
    ) {
        let is_current = child.name == incident.task_name();
        let is_wanted = wanted.task.is_some() && is_current;
        scene.has_job |= is_wanted;
        if !is_wanted && result.is_none() {
            scene.last = child.name.clone();
        }
        match result {
            // It may have ended while nobody led.
            Some(result) if is_wanted => {
                self.note_task(incident, child);
                self.asked(now, &child.object(), Some(result.clone()));
            }
            None if is_wanted => self.note_task(incident, child),
            // Deleted once its number is stored as used.
            None if is_current && !is_wanted => self.lifecycle.withdraw(incident.number),
            None if !is_wanted => self.delete(now, child),
            Some(_) | None => {}
        }
    }

    /// A Job of ours is there, and it is not stored yet which: a leader before this one made it.
    fn note_task(&mut self, incident: &Incident, child: &Child) {
        if incident.task.is_none() {
            self.obstructed(child.name.clone(), Text::default());
            self.lifecycle.made(incident.number, child.object());
        }
    }

    fn taint(
        &mut self,
        now: Timestamp,
        owner: &Owner,
        incident: &Incident,
        effect: &'static str,
        rule: Option<&Child>,
    ) {
        let kind = WriteKind::Taint {
            owner: owner.clone(),
            device: incident.device.clone(),
            effect,
            taint: incident.taint.clone(),
            uid: rule.map(|rule| rule.uid.clone()),
        };
        self.push_at(now, child_key(ChildKind::Rule, &owner.name), 0, kind);
    }

    fn run(&mut self, now: Timestamp, owner: &Owner, incident: &Arc<Incident>, task: Task) {
        let name = incident.task_name();
        let key = child_key(ChildKind::Job, &name);
        let kind = WriteKind::Run { owner: owner.clone(), name, task, incident: Arc::clone(incident) };
        self.push_at(now, key, 0, kind);
    }

    fn delete(&mut self, now: Timestamp, child: &Child) {
        let kind = child.target.kind();
        let (namespace, name, uid) = (child.namespace.clone(), child.name.clone(), child.uid.clone());
        self.push_at(now, child_key(kind, &name), 0, WriteKind::Delete(kind, namespace, name, uid));
    }

    /// Queues an effect, unless one on the same object is in flight, was just done, or failed a moment ago.
    fn push_at(&mut self, now: Timestamp, key: Text, change: u64, kind: WriteKind) {
        if self.is_free(now, &key) {
            self.push(key, change, kind);
        }
    }

    pub(super) fn is_free(&self, now: Timestamp, key: &Text) -> bool {
        let waits = self.not_before.get(key).is_some_and(|(at, _)| *at > now && *at != Timestamp::NEVER);
        !waits && !self.flying.contains(key)
    }

    /// The newest effect on an object replaces one that waits.
    pub(super) fn push(&mut self, key: Text, change: u64, kind: WriteKind) {
        if self.waiting.insert(key.clone(), Queued { key: key.clone(), change, kind }).is_none() {
            self.queue.push_back(key);
        }
    }

    /// Incidents that have been over for long, and the oldest of too many.
    fn forget_old(&mut self, now: Timestamp) {
        let many = self.over.len().saturating_sub(self.history.incidents_max);
        let is_old = |(at, _): &&(Timestamp, Text)| at.plus_millis(self.history.keep_ms) <= now;
        let old = self.over.iter().take_while(is_old).count();
        let names: Vec<Text> = self.over.iter().take(many.max(old)).map(|(_, name)| name.clone()).collect();
        for name in names {
            // It is not seen as stored yet.
            let Some(uid) = self.incidents.get(&name).and_then(|written| written.uid.clone()) else {
                continue;
            };
            let has_taints = self.children.of(&name).iter().any(|child| child.target.kind() < ChildKind::Job);
            if !has_taints {
                self.push_at(now, name.clone(), 0, WriteKind::Remove(name, uid));
            }
        }
    }

    pub(super) fn raise_reports(&mut self, now: Timestamp) {
        for (report, is_raised) in self.reports.values_mut().filter(|(_, is_raised)| !*is_raised) {
            *is_raised = true;
            self.lifecycle.handle(now, CoreInput::Raised(report.signal.clone()));
        }
    }

    /// A signal that was taken in is deleted once what followed from it is stored.
    fn drop_reports(&mut self, now: Timestamp) {
        let is_settled = |report: &super::Report| {
            let incident = self.lifecycle.incident_of(&report.signal.device);
            let written = incident.and_then(|incident| self.incidents.get(&incident.name));
            incident.is_none() || written.is_some_and(|one| one.uid.is_some() && one.pending.is_none())
        };
        if !self.is_tallied() {
            return;
        }
        let done: Vec<(Text, Text)> = self
            .reports
            .values()
            .filter(|(report, is_raised)| *is_raised && is_settled(report))
            .map(|(report, _)| (report.name.clone(), report.uid.clone()))
            .collect();
        let over = self.alerts.over.iter().map(|(name, uid)| (name.clone(), uid.clone()));
        for (name, uid) in done.into_iter().chain(over.collect::<Vec<_>>()) {
            let key = alloc::format!("/report/{name}").into();
            self.push_at(now, key, 0, WriteKind::DropReport(name, uid));
        }
    }
}
