//! A new leader takes over the replacements that the objects record.

use alloc::{sync::Arc, vec::Vec};

use lazaret_fleet::Fleet;
use lazaret_model::{ObjectKey, Timestamp};

use crate::{
    flight::{Flight, ReplacementTracker},
    machine::Replacement,
    objects::Pod,
    record::{Mark, Record},
};

impl Replacement {
    /// Takes up the replacements in flight that the objects record, and all timers.
    pub(crate) fn resume(&mut self, now: Timestamp, fleet: &Fleet) {
        for (key, known) in &self.tables.policies {
            let urgent = !known.policy.status.replacements.is_empty();
            self.trackers.insert(
                key.clone(),
                ReplacementTracker { urgent, ..ReplacementTracker::resume(&known.policy.status) },
            );
            // A policy replaces pods of its namespace alone, whatever its status says.
            let is_of_policy =
                |record: &Record| record.pod.namespace == key.namespace && record.policy == key.name;
            for entry in known.policy.status.replacements.iter().filter(|entry| is_of_policy(&entry.record)) {
                let mut flight = Flight::new(Arc::new(entry.record.clone()));
                flight.overdue = entry.overdue;
                // A copy that was there and is gone was deleted by a user.
                flight.had_copy = entry.record.plan.copy().is_some() && entry.replacement.is_some();
                // The leader before may have sent the first step, whose result is not in the cache yet.
                flight.unsure_until = now.plus_millis(2 * self.options.settle_ms);
                flight.bound = entry.replacement.as_ref().and_then(|name| {
                    let pod = self.tables.pods.get(&ObjectKey::new(key.namespace.clone(), name.clone()))?;
                    (pod.uid != entry.record.uid).then(|| (pod.key.clone(), pod.uid.clone()))
                });
                flight.announced = true;
                self.flights.insert(entry.record.uid.clone(), flight);
            }
        }
        let keys: Vec<ObjectKey> = self.tables.pods.keys().cloned().collect();
        for key in &keys {
            self.evaluate(now, fleet, key, true);
        }
        self.may_start = true;
    }

    /// A pod that carries the mark of an unknown replacement: it is brought to its end.
    pub(crate) fn adopt_marked(&mut self, pod: &Arc<Pod>) {
        let Some(mark) = &pod.mark else { return };
        let record = mark.record();
        if !is_about(pod, mark) {
            return;
        }
        if self.flights.contains_key(&record.uid) || self.is_old_news(pod, mark) {
            return;
        }
        // A pod that has ended may lie around for long after its replacement.
        let stays = |old: &Pod| !old.deleting && !old.finished;
        let unfinished = match mark {
            Mark::Released(_) => pod.uid == record.uid && stays(pod),
            Mark::Copy(_) => {
                pod.gated || self.tables.pod(&record.pod, &record.uid).is_some_and(|old| stays(old))
            }
        };
        if unfinished {
            let mut flight = Flight::new(Arc::new(record.clone()));
            flight.announced = true;
            if let Some(tracker) = self.trackers.get_mut(&flight.policy()) {
                tracker.dirty = true;
            }
            self.flights.insert(record.uid.clone(), flight);
        }
    }

    /// Whether this leader has brought to its end what a pod carries the mark of. Not if the pod is a copy that it did not know: a write that was late
    /// made it after the one before it was deleted.
    fn is_old_news(&self, pod: &Pod, mark: &Mark) -> bool {
        let is_known = match mark {
            Mark::Released(_) => true,
            Mark::Copy(_) => pod.deleting || self.successors.contains(&pod.uid),
        };
        is_known && self.ended.contains(&mark.record().uid)
    }
}

/// Whether a mark is about the pod that has it, in its namespace.
fn is_about(pod: &Pod, mark: &Mark) -> bool {
    let record = mark.record();
    match mark {
        Mark::Released(_) => pod.key == record.pod && pod.uid == record.uid,
        Mark::Copy(_) => {
            record.plan.copy() == Some(&pod.key.name) && pod.key.namespace == record.pod.namespace
        }
    }
}
