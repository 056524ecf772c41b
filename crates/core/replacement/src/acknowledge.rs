//! Handles the answers to effects.

use alloc::sync::Arc;

use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use crate::{
    effect::{EffectId, Outcome, Reply},
    ending::Ending,
    machine::{Replacement, Step},
    news::is_older,
    objects::Pod,
    policy::Policy,
    record::Plan,
    tables::KnownPolicy,
};

impl Replacement {
    pub(crate) fn acknowledge_step(&mut self, now: Timestamp, uid: &Uid, kind: Step, reply: Reply) {
        let settle = if self.shows(uid, kind) { now } else { now.plus_millis(self.options.settle_ms) };
        let Some(flight) = self.flights.get_mut(uid) else { return };
        flight.step = None;
        let policy = flight.policy();
        let why = reply.why.unwrap_or_default();
        match reply.outcome {
            Outcome::Done => {
                flight.failures = 0;
                // The news of it will come; until then nothing is done on old ones.
                flight.not_before = settle;
                flight.evicted |= kind == Step::Evict;
                if let Some(tracker) = self.trackers.get_mut(&policy) {
                    tracker.dirty |= tracker.refusal.take().is_some();
                }
                self.announce_begun(uid);
                if kind == Step::Delete {
                    self.take_for_deleted(uid);
                    self.end(uid, Ending::Replaced);
                }
            }
            Outcome::Gone | Outcome::Conflict => {
                flight.failures += 1;
                let failures = flight.failures;
                self.retry(now, uid, failures);
            }
            Outcome::Held => self.hold(now, uid, &why),
            Outcome::Refused => {
                flight.failures += 1;
                let failures = flight.failures;
                self.figures.refused += 1;
                self.note(uid, &why);
                if let Some(tracker) = self.trackers.get_mut(&policy) {
                    tracker.refusal = Some(why);
                    tracker.dirty = true;
                }
                self.retry(now, uid, failures.max(4));
            }
            Outcome::RetryLater | Outcome::Unknown => {
                if reply.outcome == Outcome::Unknown {
                    flight.unsure_until = now.plus_millis(2 * self.options.settle_ms);
                }
                flight.failures += 1;
                let failures = flight.failures;
                self.retry(now, uid, failures);
            }
        }
    }

    /// Whether the news of a step came before its answer.
    fn shows(&self, uid: &Uid, kind: Step) -> bool {
        let Some(record) = self.flights.get(uid).map(|flight| &flight.record) else { return false };
        let old = self.tables.pod(&record.pod, uid);
        let name = record.plan.copy().map(|name| ObjectKey::new(record.pod.namespace.clone(), name.clone()));
        let copy = name.and_then(|name| self.tables.pods.get(&name));
        match kind {
            Step::Release => old.is_none_or(|old| old.mark_is_released()),
            Step::Copy => copy.is_some(),
            Step::Ungate => copy.is_none_or(|copy| !copy.gated),
            Step::Evict | Step::Delete => old.is_none_or(|old| old.deleting),
        }
    }

    /// The old pod was deleted: until the news of it come it is not to be listed, or begun with, once more.
    fn take_for_deleted(&mut self, uid: &Uid) {
        let Some(record) = self.flights.get(uid).map(|flight| flight.record.clone()) else { return };
        if let Some(old) = self.tables.pod(&record.pod, uid) {
            let old = Pod { deleting: true, ..Pod::clone(old) };
            self.tables.set_pod(Arc::new(old));
            self.concerned.insert(record.pod.clone());
        }
    }

    fn retry(&mut self, now: Timestamp, uid: &Uid, failures: u32) {
        let pause = self.pause(failures);
        if let Some(flight) = self.flights.get_mut(uid) {
            flight.not_before = now.plus_millis(pause);
        }
    }

    /// A budget says no. Nothing was done yet, so the slot goes to the next one and this pod comes again later; unless its
    /// copy exists already, or an eviction may have been sent whose answer was lost.
    fn hold(&mut self, now: Timestamp, uid: &Uid, why: &Text) {
        let Some(flight) = self.flights.get_mut(uid) else { return };
        self.figures.held += 1;
        let until = now.plus_millis(self.options.budget_ms);
        match flight.record.plan {
            Plan::Evict { .. } if !flight.may_have_begun() => {
                let (pod, policy) = (flight.record.pod.clone(), flight.policy());
                self.flights.remove(uid);
                self.touch_selecting(&pod);
                self.held.insert(pod, until);
                self.touch(&policy);
                self.may_start = true;
            }
            Plan::Evict { .. } | Plan::Release { .. } | Plan::Copy { .. } | Plan::Rebuild { .. } => {
                flight.not_before = until;
                self.note(uid, why);
            }
        }
    }

    pub(crate) fn acknowledge_status(
        &mut self,
        now: Timestamp,
        policy: &ObjectKey,
        effect: EffectId,
        reply: Reply,
    ) {
        let (interval, pause) = (self.options.status_ms, |this: &Self, failures| this.pause(failures));
        let Some(tracker) = self.trackers.get_mut(policy) else { return };
        let Some((_, status)) = tracker.writing.take_if(|(id, _)| *id == effect) else { return };
        match reply.outcome {
            Outcome::Done => {
                tracker.failures = 0;
                tracker.not_before = now.plus_millis(interval);
                let Some(known) = self.tables.policies.get_mut(policy) else { return };
                let version = reply.written.map_or_else(|| known.policy.version.clone(), |one| one.version);
                // The news of a later write may have come before this answer.
                if !is_older(&version, &known.policy.version) {
                    let written = Policy { version, status: status.clone(), ..Policy::clone(&known.policy) };
                    *known = KnownPolicy::new(Arc::new(written));
                }
                for entry in &status.replacements {
                    let flight = self.flights.get_mut(&entry.record.uid);
                    if let Some(flight) = flight.filter(|flight| *flight.record == entry.record) {
                        flight.recorded = known.policy.status.has_record(&entry.record);
                    }
                }
            }
            Outcome::Gone
            | Outcome::Conflict
            | Outcome::Held
            | Outcome::Refused
            | Outcome::RetryLater
            | Outcome::Unknown => {
                tracker.dirty = true;
                tracker.failures += 1;
                let failures = tracker.failures;
                let at = now.plus_millis(pause(self, failures));
                if let Some(tracker) = self.trackers.get_mut(policy) {
                    tracker.not_before = at;
                }
            }
        }
    }
}
