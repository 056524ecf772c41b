//! The state of objects, and its changes by news.

use alloc::{boxed::Box, sync::Arc};

use lazaret_machine::{Backoff, EffectId, Outcome};
use lazaret_model::{DeviceId, Text, Timestamp, Uid};

use super::{Acts, Child, ChildKind, Reconciler, Stored, Target, WriteKind, taints::tainted};
use crate::{
    effect::{Input as CoreInput, JobResult, Repair},
    incident::{Incident, Stage, TaskObject},
    policy::Policy,
    wanted::Task,
};

/// A write that was done shows in the watch soon. Until then, or for at most this long, its object is left alone.
const SEEN_WITHIN_MS: i64 = 5_000;
/// Pauses after writes that failed.
const RETRY: Backoff = Backoff::new(500, 60_000);
/// Counts of a policy are written this often at most: they may change with every signal.
const TALLY_EVERY_MS: i64 = 1_000;
/// A request that repairs is looked at this often.
const REQUEST_LOOK_MS: i64 = 5_000;

/// The state of an incident as an object.
#[derive(Debug)]
pub(super) struct Written {
    /// `None`: it was not written yet.
    pub(super) uid: Option<Uid>,
    pub(super) version: Text,
    /// By which the machine knows it, while it is open and this machine leads.
    pub(super) number: Option<u64>,
    /// The next version to write, and how many times it changed.
    pub(super) pending: Option<Arc<Incident>>,
    pub(super) changes: u64,
    /// The stage and the number of tries that are stored.
    pub(super) shown: (Stage, u32),
    /// The same as this machine knows it to be: where another is stored, another machine wrote it.
    pub(super) wrote: (Stage, u32),
    /// As it was last stored, while it is open.
    pub(super) stored: Option<Arc<Incident>>,
    /// `None`: nothing.
    pub(super) acts: Option<Box<Acts>>,
    pub(super) device: DeviceId,
    pub(super) serial: u32,
    /// `None`: it is not over.
    pub(super) over: Option<Box<Over>>,
}

/// The end of an incident.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) since: Timestamp,
    /// The policy by which its device was out of service: as long as its flaps count it is not removed for its age.
    returned_by: Option<Text>,
    /// Its place among those that are over.
    at: Timestamp,
}

impl Written {
    /// The state of an incident that was not written yet.
    fn new(incident: &Incident) -> Self {
        Self {
            uid: None,
            version: Text::default(),
            number: None,
            pending: None,
            changes: 0,
            shown: (incident.stage, incident.tries),
            wrote: (incident.timeline.first().map_or(incident.stage, |entry| entry.stage), 0),
            stored: None,
            acts: None,
            device: incident.device.clone(),
            serial: incident.serial,
            over: None,
        }
    }

    /// Since when an incident is over whose Job this is, which has ended. Its end may not be seen yet.
    pub(super) fn over_of(&self, child: &Child) -> Option<Timestamp> {
        let Target::Job { result: Some(_) } = child.target else { return None };
        let is_own = self.uid.as_ref() == Some(&child.owner.uid);
        let since = self.over.as_ref().map(|over| over.since);
        since.or(self.stored.as_ref().map(|_| Timestamp::NEVER)).filter(|_| is_own)
    }

    fn acts(&self) -> Acts {
        self.acts.as_deref().cloned().unwrap_or_default()
    }
}

/// An effect that waits or is in flight.
#[derive(Debug)]
pub(super) struct Queued {
    /// The key of the effect.
    pub(super) key: Text,
    /// Of [`Written::changes`].
    pub(super) change: u64,
    pub(super) kind: WriteKind,
}

impl Reconciler {
    /// Everything that is known of incidents comes from what is stored.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.leads = true;
        self.not_before.clear();
        self.looks.clear();
        // Effects of an earlier term have ended, and their results were seen.
        while let Some((name, _)) = self.tainting.first_key_value() {
            let name = name.clone();
            self.taint_settled(&name);
        }
        self.lifecycle.handle(now, CoreInput::Begin);
        self.incidents.retain(|_, written| written.uid.is_some());
        self.sort_over();
        let mut open = alloc::vec::Vec::new();
        for (name, written) in &mut self.incidents {
            (written.pending, written.number) = (None, None);
            written.wrote = written.shown;
            match (&written.stored, written.over.as_ref().map(|over| over.since)) {
                (Some(incident), _) => open.push((name.clone(), incident.clone(), written.acts())),
                (None, at) => {
                    self.lifecycle.note_name(name, &written.device, written.serial);
                    self.lifecycle.remember(&written.device, written.serial, at);
                }
            }
        }
        for (name, incident, acts) in open {
            self.adopt(now, &name, &incident, &acts);
        }
        self.tallied.clear();
        for (_, is_raised) in self.reports.values_mut() {
            *is_raised = false;
        }
        self.touched.extend(self.children.incidents().chain(self.incidents.keys()).cloned());
    }

    fn adopt(&mut self, now: Timestamp, name: &Text, incident: &Incident, acts: &Acts) {
        let incident = Incident { number: 0, ..incident.clone() };
        let uid = self.incidents.get(name).and_then(|written| written.uid.as_ref());
        let is_own = |child: &&Child| Some(&child.owner.uid) == uid && tainted(child).is_some();
        let is_tainted = self.children.of(name).iter().any(|child| is_own(&child));
        let Some(number) = self.lifecycle.adopt(now, incident, is_tainted) else {
            self.take_effects();
            return;
        };
        if let Some(written) = self.incidents.get_mut(name) {
            written.number = Some(number);
        }
        self.take_effects();
        self.acts(now, number, acts);
    }

    /// The machine says something new of an incident.
    pub(super) fn pend(&mut self, incident: Arc<Incident>) {
        let name = incident.name.clone();
        let is_open = incident.is_open();
        let written = self.incidents.entry(name.clone()).or_insert_with(|| Box::new(Written::new(&incident)));
        written.number = is_open.then_some(incident.number);
        written.changes += 1;
        written.pending = Some(incident);
        self.touched.insert(name);
    }

    pub(super) fn stored(&mut self, now: Timestamp, stored: Stored) {
        // Incidents that this machine has opened since come first: one may have the same name.
        self.take_effects();
        let Stored { uid, version, mut incident, acts } = stored;
        self.lifecycle.share_incident(&mut incident);
        let name = incident.name.clone();
        // A watch may be behind the answers that this machine got.
        if self.incidents.get(&name).is_some_and(|known| is_older(&version, &known.version)) {
            return;
        }
        if self
            .incidents
            .get(&name)
            .is_some_and(|known| known.uid.as_ref().is_some_and(|known| *known != uid))
        {
            self.forget(now, &name);
        }
        let (is_open, since) = (incident.is_open(), incident.since);
        let mut known = self.incidents.remove(&name);
        self.take_back(&name, known.as_deref_mut(), (incident.stage, incident.tries));
        if let Some(at) = known.as_ref().and_then(|known| Some(known.over.as_ref()?.at)) {
            self.over.remove(&(at, name.clone()));
        }
        if !is_open {
            self.lifecycle.remember_return(&incident);
        }
        let before = known.as_ref().map(|known| known.version.clone()).unwrap_or_default();
        // The machine's incident and the stored one are mostly equal: they are shared.
        let stored = is_open.then(|| self.shared(known.as_deref(), incident.clone()));
        let is_known = known.as_ref().is_some_and(|known| known.number.is_some() || known.pending.is_some());
        let mut written = Written {
            uid: Some(uid),
            version: newer(before, version),
            number: known.as_ref().and_then(|known| known.number),
            changes: known.as_ref().map_or(0, |known| known.changes),
            pending: known.as_mut().and_then(|known| known.pending.take()),
            shown: (incident.stage, incident.tries),
            wrote: match &known {
                Some(known) if is_known => known.wrote,
                Some(_) | None => (incident.stage, incident.tries),
            },
            acts: Some(acts.clone()).filter(|acts| *acts != Acts::default()).map(Box::new),
            device: incident.device.clone(),
            serial: incident.serial,
            stored,
            over: (!is_open).then(|| {
                let was_out = incident.cost.out_of_service_ms > 0;
                Box::new(Over { since, returned_by: was_out.then(|| incident.policy.clone()), at: since })
            }),
        };
        let (number, found) = (written.number, written.stored.clone());
        let over_at = self.over_at(&written);
        if let Some((at, over)) = over_at.zip(written.over.as_mut()) {
            over.at = at;
            self.over.insert((at, name.clone()));
        }
        self.incidents.insert(name.clone(), Box::new(written));
        self.not_before.remove(&name);
        self.touched.insert(name.clone());
        if !self.leads {
            return;
        }
        match (number, found) {
            (Some(number), _) => self.acts(now, number, &acts),
            // Neither this machine nor the one before wrote it.
            (None, Some(incident)) if !is_known => self.adopt(now, &name, &incident, &acts),
            (None, Some(_)) => {}
            (None, None) => {
                let (device, serial) = (self.incidents.get(&name))
                    .map_or_else(Default::default, |one| (Some(one.device.clone()), one.serial));
                if let Some(device) = device {
                    self.lifecycle.remember(&device, serial, Some(since));
                }
            }
        }
    }

    /// Since when an incident counts as over: one whose flaps count for longer than incidents are kept, later by the difference.
    fn over_at(&self, written: &Written) -> Option<Timestamp> {
        let Over { since, returned_by, .. } = &**written.over.as_ref()?;
        let policy = returned_by.as_ref().and_then(|name| self.lifecycle.policy(name));
        let counts_ms = policy.map_or(0, Policy::flaps_count_for_ms);
        Some(since.plus_millis((counts_ms - self.history.keep_ms).max(0)))
    }

    /// Incidents that are over, by the policies that are known now.
    fn sort_over(&mut self) {
        let all = self.incidents.iter();
        self.over = all.filter_map(|(name, written)| Some((self.over_at(written)?, name.clone()))).collect();
        for (at, name) in &self.over {
            if let Some(over) = self.incidents.get_mut(name).and_then(|written| written.over.as_mut()) {
                over.at = *at;
            }
        }
    }

    /// An incident as it is stored, shared with the machine where it says the same.
    fn shared(&self, known: Option<&Written>, mut incident: Incident) -> Arc<Incident> {
        let own = known.and_then(|known| known.number).and_then(|number| self.lifecycle.incident(number));
        incident.number = own.map_or(0, |own| own.number);
        own.filter(|own| ***own == incident).map_or_else(|| Arc::new(incident), Arc::clone)
    }

    /// The stored version is neither the last one written nor in flight: a previous leader wrote it late, and it counts.
    fn take_back(&mut self, name: &Text, known: Option<&mut Written>, stored: (Stage, u32)) {
        let Some(known) = known.filter(|known| known.wrote != stored && !self.flying.contains(name)) else {
            return;
        };
        if !self.leads {
            return;
        }
        if let Some(number) = known.number.take() {
            self.take_effects();
            self.lifecycle.disown(number);
        }
        // Also where this machine has closed it already.
        known.pending = None;
    }

    /// A write came too late. Where a leader before this one was quicker, what it wrote counts.
    fn contested(&mut self, now: Timestamp, name: &Text) {
        let Some(mut known) = self.incidents.remove(name) else { return };
        let stored = known.shown;
        self.take_back(name, Some(&mut *known), stored);
        let found = known.stored.clone().filter(|_| known.number.is_none() && known.pending.is_none());
        let acts = known.acts();
        known.wrote = if known.number.is_none() { stored } else { known.wrote };
        self.incidents.insert(name.clone(), known);
        if let Some(incident) = found.filter(|_| self.leads) {
            self.adopt(now, name, &incident, &acts);
        }
    }

    /// This incarnation is gone. There may be another of the same name.
    pub(super) fn stored_gone(&mut self, now: Timestamp, name: &Text, uid: &Uid) {
        if self.incidents.get(name).is_some_and(|known| known.uid.as_ref() == Some(uid)) {
            self.forget(now, name);
        }
    }

    fn forget(&mut self, now: Timestamp, name: &Text) {
        // Effects of the machine for it are dropped.
        self.take_effects();
        let Some(written) = self.incidents.remove(name) else { return };
        if let Some(over) = &written.over {
            self.over.remove(&(over.at, name.clone()));
        }
        self.not_before.remove(name);
        self.touched.insert(name.clone());
        if let Some(number) = written.number {
            self.lifecycle.handle(now, CoreInput::Forgotten { incident: number });
        }
    }

    pub(super) fn child(&mut self, now: Timestamp, mut child: Child) {
        let place = (child.target.kind(), child.namespace.clone(), child.name.clone());
        self.child_gone(&place);
        self.share_with_incident(&mut child);
        let (owner, target) = (child.owner.clone(), child.target.clone());
        if let Some(device) = tainted(&child) {
            self.lifecycle.limits.note_taint(device, true);
            self.taint_settled(&owner.name);
        }
        self.touched.insert(owner.name.clone());
        let object = child.object();
        self.children.insert(child);
        if !self.leads {
            return;
        }
        match target {
            Target::Rule { .. } | Target::Claim => {}
            Target::Drain { evicted, .. } => {
                if let Some(number) = self.incidents.get(&owner.name).and_then(|written| written.number) {
                    self.lifecycle.handle(now, CoreInput::Evicted { incident: number, pods: evicted });
                }
            }
            Target::Job { result } => self.asked(now, &object, result),
        }
    }

    pub(super) fn child_gone(&mut self, place: &(ChildKind, Text, Text)) {
        self.not_before.remove(&child_key(place.0, &place.2));
        if let Some(gone) = self.children.remove(place) {
            if let Some(device) = tainted(&gone) {
                self.lifecycle.limits.note_taint(device, false);
            }
            self.touched.insert(gone.owner.name);
        }
    }

    /// An object says much that its incident says: that is kept once.
    fn share_with_incident(&mut self, child: &mut Child) {
        let Some((name, written)) = self.incidents.get_key_value(&child.owner.name) else { return };
        for text in [&mut child.owner.name, &mut child.name].into_iter().filter(|text| **text == *name) {
            *text = name.clone();
        }
        if let Some(uid) = written.uid.as_ref().filter(|uid| **uid == child.owner.uid) {
            child.owner.uid = uid.clone();
        }
        let texts = &mut self.lifecycle.texts;
        child.namespace = texts.share(core::mem::take(&mut child.namespace));
        match &mut child.target {
            Target::Rule { device, taint, .. } | Target::Drain { device, taint, .. } => {
                if *device == written.device {
                    *device = written.device.clone();
                }
                texts.share_taint(taint);
            }
            Target::Job { .. } | Target::Claim => {}
        }
        if let Target::Rule { effect, .. } = &mut child.target {
            *effect = texts.share(core::mem::take(effect));
        }
    }

    /// The open incident that a repair or validation of this name is of.
    pub(super) fn number_of_task(&self, task: &Text) -> Option<u64> {
        let (name, _) = task.rsplit_once('-')?;
        self.incidents.get(name)?.number
    }

    /// Whether an object of this name and incarnation was made for the task of an open incident that was begun last.
    #[must_use]
    pub fn is_task(&self, name: &Text, uid: &Uid) -> bool {
        let incident = self.number_of_task(name).and_then(|number| self.lifecycle.incident(number));
        let made = incident.and_then(|incident| incident.task.as_deref());
        made.is_some_and(|made| made.name == *name && made.uid == *uid)
    }

    /// The obstacle of the task of an incident, if there is one.
    pub(super) fn obstructed(&mut self, task: Text, why: Text) {
        let Some((name, _)) = task.rsplit_once('-') else { return };
        let name = Text::from(name);
        if self.incidents.get(&name).is_none_or(|known| known.number.is_none()) {
            return;
        }
        let known = self.obstacles.get(&name).filter(|(of, _)| *of == task);
        if known.map_or("", |(_, why)| &**why) == &*why {
            return;
        }
        if why.is_empty() {
            self.obstacles.remove(&name);
        } else {
            self.obstacles.insert(name.clone(), (task, why));
        }
        self.touched.insert(name);
    }

    /// A repair or validation has ended, or goes on. It counts once it is stored that it was this object that was made for it.
    pub(super) fn asked(&mut self, now: Timestamp, object: &TaskObject, result: Option<JobResult>) {
        let (Some(result), Some((name, _))) = (result, object.name.rsplit_once('-')) else { return };
        let Some(written) = self.incidents.get(name) else { return };
        let stored = written.stored.as_ref().and_then(|stored| stored.task.as_deref());
        let Some(number) = written.number.filter(|_| stored == Some(object)) else { return };
        // It ended by earlier news of the same batch, which is not taken over yet.
        let Some(incident) = self.lifecycle.incident(number) else { return };
        if incident.task_name() != object.name {
            return;
        }
        self.ended(now, number, result);
    }

    /// The server refused the object for good.
    fn not_run(&mut self, now: Timestamp, task: &Text, why: alloc::string::String) {
        let Some(number) = self.number_of_task(task) else { return };
        if self.lifecycle.incident(number).is_some_and(|incident| incident.task_name() == *task) {
            self.ended(now, number, Err(why));
        }
    }

    fn ended(&mut self, now: Timestamp, number: u64, result: JobResult) {
        let Some(incident) = self.lifecycle.incident(number) else { return };
        let heard = match self.lifecycle.wanted(incident).task {
            Some(Task::Repair(step)) => {
                let repair = Repair { step, attempt: incident.attempts };
                CoreInput::Repaired { incident: number, repair, result }
            }
            Some(Task::Validate) => CoreInput::Validated { incident: number, result },
            None => return,
        };
        self.lifecycle.handle(now, heard);
    }

    pub(super) fn acknowledged(
        &mut self,
        now: Timestamp,
        id: EffectId,
        outcome: Outcome,
        (version, uid, refused): (Option<Text>, Option<Uid>, Option<alloc::string::String>),
    ) {
        // Acknowledged before, or sent by a leader before this one.
        let Some(Queued { key, change, kind }) = self.in_flight.land(id) else { return };
        self.taint_answered(now, &kind, outcome);
        self.flying.remove(&key);
        if let WriteKind::Run { owner, .. } = &kind {
            // Made again, it needs another look at its device.
            self.looks.renew(&owner.name);
        }
        let failures = self.not_before.get(&key).map_or(0, |(_, failures)| *failures);
        let is_done = matches!(outcome, Outcome::Done | Outcome::Gone);
        self.touched.insert(kind.incident().unwrap_or_default());
        if let (WriteKind::Run { name, .. }, Some(why)) = (&kind, refused) {
            self.not_run(now, name, why);
        } else if !is_done {
            // Whether it was done or not, what is stored counts: another leader may have been quicker.
            if let WriteKind::Create(incident) | WriteKind::Record(_, _, incident) = &kind {
                self.contested(now, &incident.name);
            }
            let failures = failures.saturating_add(1);
            self.not_before.insert(key, (now.plus_millis(RETRY.after(failures)), failures));
            return;
        }
        match &kind {
            WriteKind::Create(incident) | WriteKind::Record(_, _, incident) => {
                self.not_before.remove(&key);
                let Some(written) = self.incidents.get_mut(&incident.name) else { return };
                if outcome == Outcome::Gone {
                    // It was deleted: the watch tells so.
                    self.not_before.insert(key, (now.plus_millis(RETRY.first_ms), 0));
                    return;
                }
                if let Some(version) = version {
                    written.version = newer(core::mem::take(&mut written.version), version);
                }
                written.uid = written.uid.take().or(uid);
                // A new incident has what it was opened with; its status is still to be written.
                let opened = incident.timeline.first().map_or(incident.stage, |entry| entry.stage);
                let is_status = matches!(kind, WriteKind::Record(..));
                written.shown = if is_status { (incident.stage, incident.tries) } else { (opened, 0) };
                written.wrote = written.shown;
                if change == written.changes && is_status {
                    written.pending = None;
                }
            }
            WriteKind::Tally(policy, _) => {
                if outcome == Outcome::Done {
                    self.tallied.insert(policy.clone(), change);
                }
                self.not_before.insert(key, (now.plus_millis(TALLY_EVERY_MS), 0));
            }
            WriteKind::Run { task: Task::Repair(_), .. } => {
                self.not_before.insert(key, (now.plus_millis(REQUEST_LOOK_MS), 0));
            }
            WriteKind::Run { task: Task::Validate, .. }
            | WriteKind::Taint { .. }
            | WriteKind::Drain { .. }
            | WriteKind::Delete(..)
            | WriteKind::Remove(..)
            | WriteKind::DropReport(..)
            | WriteKind::Broken(..) => {
                self.not_before.insert(key, (now.plus_millis(SEEN_WITHIN_MS), 0));
            }
        }
    }
}

impl WriteKind {
    /// The incident that it is for.
    fn incident(&self) -> Option<Text> {
        match self {
            Self::Create(incident) | Self::Record(_, _, incident) => Some(incident.name.clone()),
            Self::Taint { owner, .. } | Self::Drain { owner, .. } | Self::Run { owner, .. } => {
                Some(owner.name.clone())
            }
            Self::Remove(name, _) => Some(name.clone()),
            Self::Delete(..) | Self::DropReport(..) | Self::Tally(..) | Self::Broken(..) => None,
        }
    }
}

/// The key of an effect on a child.
pub(super) fn child_key(kind: ChildKind, name: &str) -> Text {
    let kind = match kind {
        ChildKind::Rule => "rule",
        ChildKind::Drain => "drain",
        ChildKind::Job => "job",
        ChildKind::Claim => "claim",
    };
    alloc::format!("/{kind}/{name}").into()
}

fn is_older(one: &Text, other: &Text) -> bool {
    let number = |version: &Text| version.parse::<u64>().ok();
    number(one).zip(number(other)).is_some_and(|(one, other)| one < other)
}

/// The newer of two versions: a watch may tell of a write after its answer came.
fn newer(one: Text, other: Text) -> Text {
    if is_older(&other, &one) { one } else { other }
}
