//! The next step of each replacement. It follows from the objects alone, so that a machine that knows only
//! them goes on where another one ended.

use alloc::{sync::Arc, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_model::{ObjectKey, Timestamp, Uid};

use crate::{
    effect::EffectKind,
    ending::Ending,
    flight::Flight,
    machine::{InFlight, Replacement, Step},
    objects::Pod,
    record::Plan,
};

/// The next step of a replacement.
enum Next {
    /// Wait, for this must happen first.
    Wait(&'static str),
    /// Send this effect.
    Do(Step, EffectKind),
    /// End the replacement.
    End(Ending),
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
        let Some(flight) = invariant!(self.flights.get(uid), "a replacement that is advanced is there")
        else {
            return;
        };
        // A step that was not taken yet is decided again: on newer news another may be right, or none.
        let may_decide = match flight.step {
            Some(id) => self.effects.is_waiting(id),
            None => flight.not_before <= now,
        };
        if !may_decide {
            return;
        }
        let bound = self.bind(flight);
        let alone = bound.is_none() && self.tables.pod(&flight.record.pod, &flight.record.uid).is_none();
        if let Some(flight) = self.flights.get_mut(uid) {
            flight.alone_since = alone.then(|| flight.alone_since.unwrap_or(now));
        }
        let Some(flight) = invariant!(self.flights.get(uid), "a replacement that is advanced is there")
        else {
            return;
        };
        let next = match self.next(flight, bound.as_deref()) {
            Next::Wait(_) if self.is_unmentioned(flight, bound.as_deref()) => Next::End(Ending::Unmentioned),
            next @ (Next::Wait(_) | Next::Do(..) | Next::End(_)) => next,
        };
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
            Next::Wait(note) => {
                self.withdraw_step(uid);
                self.note(uid, note);
            }
            Next::Do(kind, effect) => self.step(uid, kind, effect),
            Next::End(ending) => {
                self.withdraw_step(uid);
                self.end(uid, ending);
            }
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
        if old.is_none() && bound.is_none() && (self.has_timed_out(flight) || self.owner_is_gone(flight)) {
            return Next::End(Ending::Unreplaced);
        }
        if old.is_some() && bound.is_none() { Next::Wait("the old pod terminates") } else { waiting(bound) }
    }

    fn step(&mut self, uid: &Uid, kind: Step, effect: EffectKind) {
        let Some(flight) = invariant!(self.flights.get_mut(uid), "a replacement that is advanced is there")
        else {
            return;
        };
        flight.relieved |= kind == Step::Delete;
        let step = InFlight::Step { uid: uid.clone(), kind };
        let waiting = flight.step.and_then(|id| Some((self.effects.waiting_mut(id)?, id)));
        if let Some((waiting, id)) = waiting {
            *waiting = effect;
            if let Some(there) = self.effects.get_mut(id) {
                *there = step;
            }
        } else {
            flight.step = Some(self.effects.launch(step, effect));
        }
    }

    /// A step that was not taken yet is not wanted any more.
    fn withdraw_step(&mut self, uid: &Uid) {
        if let Some(id) = self.flights.get_mut(uid).and_then(|flight| flight.step.take()) {
            self.effects.withdraw(id);
        }
    }

    pub(crate) fn note(&mut self, uid: &Uid, note: &str) {
        let Some(flight) = invariant!(self.flights.get_mut(uid), "a replacement that is advanced is there")
        else {
            return;
        };
        if flight.note != *note {
            flight.note = note.into();
            let policy = flight.policy();
            self.touch(&policy);
        }
    }

    pub(crate) fn touch(&mut self, policy: &ObjectKey) {
        if let Some(tracker) = self.trackers.get_mut(policy) {
            tracker.dirty = true;
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
