//! What is to be done next about each replacement. It follows from the objects alone, so that a machine that knows only
//! them goes on where another one ended.

use alloc::{sync::Arc, vec::Vec};

use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use crate::{
    effect::{EffectKind, Severity},
    flight::Flight,
    machine::{Replacement, Source, Step, UnderWay},
    objects::Pod,
    record::{Mark, Plan},
    words,
};

/// What is to be done next.
enum Next {
    /// Nothing, for this must happen first.
    Wait(&'static str),
    /// This.
    Do(Step, EffectKind),
    /// Nothing any more.
    End(Ending),
}

/// How long the owner of a pod may take to start another, where no policy says.
const READY_SECS: i64 = 600;

/// How a replacement ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The new pod serves.
    Replaced,
    /// Nothing was done, and there is no reason any more.
    Cancelled,
    /// The old pod is gone, and nobody started another.
    Unreplaced,
}

impl Replacement {
    pub(crate) fn advance_all(&mut self, now: Timestamp) {
        let uids: Vec<Uid> = self.flights.keys().cloned().collect();
        for uid in uids {
            self.advance(now, &uid);
        }
    }

    fn advance(&mut self, now: Timestamp, uid: &Uid) {
        let Some(flight) = self.flights.get(uid) else { return };
        let overdue = !flight.overdue && self.deadline_of(flight).is_some_and(|deadline| deadline <= now);
        if overdue {
            self.report_overdue(uid);
        }
        let Some(flight) = self.flights.get(uid) else { return };
        if flight.step.is_some() || flight.not_before > now {
            return;
        }
        let bound = self.bind(flight);
        let alone = bound.is_none() && self.tables.pod(&flight.record.pod, &flight.record.uid).is_none();
        if let Some(flight) = self.flights.get_mut(uid) {
            flight.alone_since = alone.then(|| flight.alone_since.unwrap_or(now));
        }
        let Some(flight) = self.flights.get(uid) else { return };
        let next = self.next(flight, bound.as_deref());
        let bound = bound.map(|pod| (pod.key.clone(), pod.uid.clone()));
        let seen_copy = flight.had_copy || (bound.is_some() && flight.record.plan.copy().is_some());
        let (policy, changed) = (flight.policy(), flight.bound != bound);
        if let Some(flight) = self.flights.get_mut(uid) {
            (flight.bound, flight.had_copy) = (bound, seen_copy);
        }
        if changed {
            self.touch(&policy);
        }
        match next {
            Next::Wait(note) => self.note(uid, note),
            Next::Do(kind, effect) => self.step(uid, kind, effect),
            Next::End(ending) => self.end(uid, ending),
        }
    }

    fn next(&self, flight: &Flight, bound: Option<&Pod>) -> Next {
        let record = &flight.record;
        let old = self.tables.pod(&record.pod, &record.uid).filter(|old| !old.finished);
        match &record.plan {
            Plan::Release { owner, label } => match old.filter(|old| !old.deleting) {
                Some(old) if old.is_owned_by(&owner.uid) => self.first(flight, || {
                    let (version, owner, label) = (old.version.clone(), owner.uid.clone(), label.clone());
                    let effect = EffectKind::Release { version, owner, label, record: record.clone() };
                    (Step::Release, effect)
                }),
                old => self.relieved(flight, old, bound),
            },
            Plan::Evict { .. } => match old {
                Some(old) if !old.deleting && !flight.evicted => {
                    self.first(flight, || (Step::Evict, evict(old)))
                }
                old => self.followed(flight, old, bound),
            },
            Plan::Copy { name } | Plan::Rebuild { name } => {
                let gated = matches!(record.plan, Plan::Rebuild { .. });
                match (bound, old) {
                    (None, None) => {
                        Next::End(if flight.had_copy { Ending::Unreplaced } else { Ending::Cancelled })
                    }
                    (None, Some(_)) if flight.had_copy && self.is_wanted(flight) => {
                        Next::Wait("its copy is gone; nothing more is done while the taint is there")
                    }
                    (None, Some(_)) if flight.had_copy => Next::End(Ending::Cancelled),
                    (None, Some(old)) if old.deleting => Next::Wait("it is being deleted by somebody else"),
                    (None, Some(_)) => self.first(flight, || {
                        let effect = EffectKind::Copy { name: name.clone(), gated, record: record.clone() };
                        (Step::Copy, effect)
                    }),
                    (Some(copy), old) if gated => rebuild(copy, old, flight),
                    (Some(copy), old) => succeed(copy, old.filter(|old| !old.deleting)),
                }
            }
        }
    }

    /// The first step: only what is recorded, and only while there is a reason.
    fn first(&self, flight: &Flight, step: impl FnOnce() -> (Step, EffectKind)) -> Next {
        if !self.is_wanted(flight) {
            return if flight.unsure_until > self.now {
                Next::Wait("nobody knows yet whether it was begun")
            } else {
                Next::End(Ending::Cancelled)
            };
        }
        if !flight.recorded {
            return Next::Wait("to be recorded");
        }
        let (kind, effect) = step();
        Next::Do(kind, effect)
    }

    /// Released: the old pod goes when the new one serves, or when its owner wants no other.
    fn relieved(&self, flight: &Flight, old: Option<&Arc<Pod>>, bound: Option<&Pod>) -> Next {
        match old {
            Some(old) if self.is_served(flight, bound) => Next::Do(Step::Delete, delete(old)),
            Some(_) => waiting(bound),
            None => self.followed(flight, None, bound),
        }
    }

    /// The old pod leaves or has left: the end is when the new one serves.
    fn followed(&self, flight: &Flight, old: Option<&Arc<Pod>>, bound: Option<&Pod>) -> Next {
        if old.is_none_or(|old| old.deleting) && self.is_served(flight, bound) {
            return Next::End(Ending::Replaced);
        }
        if old.is_none() && bound.is_none() && (self.is_forsaken(flight) || self.owner_is_gone(flight)) {
            return Next::End(Ending::Unreplaced);
        }
        if old.is_some() && bound.is_none() { Next::Wait("the old pod terminates") } else { waiting(bound) }
    }

    /// Whether the old pod's place is taken. A replica set's pods are alike, so they are counted: as many serve as it
    /// wants, but for those that younger replacements wait for and those that were broken before.
    fn is_served(&self, flight: &Flight, bound: Option<&Pod>) -> bool {
        let Some(owner) = flight.record.plan.owner() else { return bound.is_some_and(Pod::serves) };
        let Some(set) = self.tables.replica_sets.get(&owner.uid) else {
            return bound.is_some_and(Pod::serves) || self.owner_is_gone(flight);
        };
        let serving = self.tables.pods_of(&owner.uid).filter(|pod| pod.serves()).count();
        let rank = |flight: &Flight| (flight.record.started, flight.record.uid.clone());
        // A new pod is the oldest replacement's; only younger ones may still wait for theirs.
        let others = self.flights.values().filter(|other| {
            rank(other) > rank(flight)
                && !other.relieved
                && other.record.plan.owner().is_some_and(|other| other.uid == owner.uid)
                && self.has_let_go(other, &owner.uid)
        });
        serving + others.count() + flight.record.lacking as usize >= set.replicas as usize
    }

    /// Whether a due taint still asks for it.
    fn is_wanted(&self, flight: &Flight) -> bool {
        let record = &flight.record;
        let watch = self.watches.get(&record.pod).filter(|watch| watch.uid == record.uid);
        watch.and_then(|watch| watch.ripe_for(&record.policy)).is_some_and(|after| after <= self.now)
    }

    /// The pod that takes the old one's place.
    fn bind(&self, flight: &Flight) -> Option<Arc<Pod>> {
        let record = &flight.record;
        let Some(owner) = record.plan.owner() else {
            let key = ObjectKey::new(record.pod.namespace.clone(), record.plan.copy()?.clone());
            let copy = self.tables.pods.get(&key).filter(|pod| !pod.deleting)?;
            let ours = matches!(&copy.mark, Some(Mark::Copy(mark)) if mark.uid == record.uid);
            return ours.then(|| copy.clone());
        };
        if !self.has_let_go(flight, &owner.uid) {
            return None;
        }
        let usable = |pod: &Pod| !pod.deleting && (!pod.finished || pod.succeeded) && pod.uid != record.uid;
        if owner.kind == "StatefulSet" {
            // It gives the old name to the new pod.
            return self.tables.pods.get(&record.pod).filter(|pod| usable(pod)).cloned();
        }
        if let Some((key, uid)) = &flight.bound
            && let Some(pod) =
                self.tables.pod(key, uid).filter(|pod| usable(pod) && pod.is_owned_by(&owner.uid))
        {
            return Some(pod.clone());
        }
        let taken = |pod: &Pod| {
            let others = self.flights.values().filter(|other| other.record.uid != record.uid);
            self.has_ended(&pod.uid)
                || others.filter_map(|other| other.bound.as_ref()).any(|(_, uid)| *uid == pod.uid)
        };
        let is_new = |pod: &Pod| match &flight.before {
            Some(before) => !before.contains(&pod.uid),
            // The API keeps whole seconds.
            None => pod.created >= record.started.truncated_to_secs(),
        };
        let pods = self.tables.pods_of(&owner.uid);
        let new = pods.filter(|pod| usable(pod) && is_new(pod) && !taken(pod));
        new.min_by_key(|pod| (!pod.serves(), pod.created, pod.key.clone())).cloned()
    }

    /// Whether the owner has reason to start another.
    fn has_let_go(&self, flight: &Flight, owner: &Uid) -> bool {
        let record = &flight.record;
        self.tables.pod(&record.pod, &record.uid).is_none_or(|old| old.deleting || !old.is_owned_by(owner))
    }

    /// Only of replica sets is it known.
    fn owner_is_gone(&self, flight: &Flight) -> bool {
        flight.record.plan.owner().is_some_and(|owner| {
            owner.kind == "ReplicaSet"
                && owner.group == "apps"
                && !self.barred.contains_key(&Source::ReplicaSets)
                && !self.tables.replica_sets.contains_key(&owner.uid)
        })
    }

    /// When a replacement should be Ready; after that, when a pod is given up that nobody starts again.
    pub(crate) fn deadline_of(&self, flight: &Flight) -> Option<Timestamp> {
        let since = if flight.overdue { flight.alone_since? } else { flight.record.started };
        Some(since.plus_secs(self.ready_secs(flight)?))
    }

    fn is_forsaken(&self, flight: &Flight) -> bool {
        let patience = self.ready_secs(flight).unwrap_or(READY_SECS);
        flight.alone_since.is_some_and(|since| since.plus_secs(patience) <= self.now)
    }

    fn ready_secs(&self, flight: &Flight) -> Option<i64> {
        Some(self.tables.policies.get(&flight.policy())?.policy.spec.as_ref().ok()?.ready_secs)
    }

    fn step(&mut self, uid: &Uid, kind: Step, effect: EffectKind) {
        let id = self.emit(effect);
        self.under_way.insert(id, UnderWay::Step { uid: uid.clone(), kind });
        let Some(flight) = self.flights.get_mut(uid) else { return };
        flight.step = Some(id);
        flight.relieved |= kind == Step::Delete;
        if !core::mem::replace(&mut flight.announced, true) {
            let record = flight.record.clone();
            self.tell_about(&record, Severity::Normal, "TaintReplacementStarted", &words::begun(&record));
        }
    }

    /// Takes a replacement off the list.
    pub(crate) fn end(&mut self, uid: &Uid, ending: Ending) {
        let Some(flight) = self.flights.remove(uid) else { return };
        self.may_start = true;
        let policy = flight.policy();
        self.touch(&policy);
        if flight.had_copy || flight.evicted || ending == Ending::Replaced {
            self.remember_ended(uid.clone());
        }
        if let Some((_, bound)) = &flight.bound {
            self.remember_ended(bound.clone());
        }
        let record = flight.record;
        match ending {
            Ending::Replaced => {
                self.figures.replaced += 1;
                if let Some(overseer) = self.overseers.get_mut(&policy) {
                    overseer.replaced += 1;
                }
                let new = flight.bound.map_or(Text::default(), |(key, _)| key.name);
                let by = if new.is_empty() { "its owner wants no other" } else { &*new };
                self.tell_about(
                    &record,
                    Severity::Normal,
                    "TaintReplaced",
                    &alloc::format!("replaced by {by}"),
                );
            }
            Ending::Cancelled => {
                self.figures.cancelled += 1;
                if flight.announced {
                    let message = "not replaced: there is no reason any more";
                    self.tell_about(&record, Severity::Normal, "TaintReplacementCancelled", message);
                }
            }
            Ending::Unreplaced => {
                self.figures.unreplaced += 1;
                let message = "it is gone, and nobody started another";
                self.tell_about(&record, Severity::Warning, "TaintReplacementMissing", message);
            }
        }
    }

    fn report_overdue(&mut self, uid: &Uid) {
        let Some(flight) = self.flights.get_mut(uid) else { return };
        flight.overdue = true;
        let (record, policy) = (flight.record.clone(), flight.policy());
        self.figures.overdue += 1;
        if let Some(overseer) = self.overseers.get_mut(&policy) {
            overseer.overdue += 1;
        }
        self.touch(&policy);
        let message = "its replacement is not Ready in time; it keeps its slot and is not begun again";
        self.tell_about(&record, Severity::Warning, "TaintReplacementOverdue", message);
    }

    pub(crate) fn note(&mut self, uid: &Uid, note: &str) {
        let Some(flight) = self.flights.get_mut(uid) else { return };
        if flight.note != *note {
            flight.note = note.into();
            let policy = flight.policy();
            self.touch(&policy);
        }
    }

    pub(crate) fn touch(&mut self, policy: &ObjectKey) {
        if let Some(overseer) = self.overseers.get_mut(policy) {
            overseer.dirty = true;
        }
    }

    pub(crate) fn tell_about(
        &mut self,
        record: &crate::record::Record,
        severity: Severity,
        reason: &'static str,
        message: &str,
    ) {
        let policy = ObjectKey::new(record.pod.namespace.clone(), record.policy.clone());
        let uid = self.tables.policies.get(&policy).map(|known| known.policy.uid.clone());
        for note in words::about_record(record, uid.as_ref(), severity, reason, message) {
            self.say(note);
        }
    }
}

fn waiting(bound: Option<&Pod>) -> Next {
    Next::Wait(if bound.is_some() { "the new pod is not Ready yet" } else { "no new pod is there yet" })
}

/// A copy that may start at once: the old pod goes when it serves.
fn succeed(copy: &Pod, old: Option<&Arc<Pod>>) -> Next {
    match old {
        Some(old) if copy.serves() => Next::Do(Step::Delete, delete(old)),
        None if copy.serves() => Next::End(Ending::Replaced),
        Some(_) | None => waiting(Some(copy)),
    }
}

/// A copy that may start when the old pod is gone.
fn rebuild(copy: &Pod, old: Option<&Arc<Pod>>, flight: &Flight) -> Next {
    match old {
        Some(old) if !old.deleting && !flight.evicted => Next::Do(Step::Evict, evict(old)),
        Some(_) => Next::Wait("the old pod terminates"),
        None if copy.gated => {
            let (pod, uid) = (copy.key.clone(), copy.uid.clone());
            Next::Do(Step::Ungate, EffectKind::Ungate { pod, uid })
        }
        None if copy.serves() => Next::End(Ending::Replaced),
        None => waiting(Some(copy)),
    }
}

fn evict(pod: &Pod) -> EffectKind {
    EffectKind::Evict { pod: pod.key.clone(), uid: pod.uid.clone() }
}

fn delete(pod: &Pod) -> EffectKind {
    EffectKind::Delete { pod: pod.key.clone(), uid: pod.uid.clone() }
}
