//! How replacements end, and the events about it.

use lazaret_invariant::invariant;
use lazaret_model::{ObjectKey, Text, Uid};

use crate::{effect::Severity, machine::Replacement, record::Record, words};

/// How a replacement ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The new pod serves.
    Replaced,
    /// Nothing was done, and there is no reason any more.
    Cancelled,
    /// The old pod is gone, and no other was started.
    Unreplaced,
    /// The old pod and the policy are gone; the new pod is not waited for.
    Unmentioned,
}

impl Replacement {
    /// Tells people that something was done to a pod, once.
    pub(crate) fn announce_begun(&mut self, uid: &Uid) {
        let Some(flight) = self.flights.get_mut(uid) else { return };
        if !core::mem::replace(&mut flight.announced, true) {
            let record = flight.record.clone();
            self.post_event_about(
                &record,
                Severity::Normal,
                "TaintReplacementStarted",
                &words::begun(&record),
            );
        }
    }

    /// Takes a replacement off the list.
    pub(crate) fn end(&mut self, uid: &Uid, ending: Ending) {
        if ending == Ending::Replaced {
            self.announce_begun(uid);
        }
        let Some(flight) = self.flights.remove(uid) else { return };
        self.may_start = true;
        let policy = flight.policy();
        self.touch(&policy);
        if flight.had_copy || flight.evicted || ending == Ending::Replaced {
            self.ended.insert(uid.clone());
        }
        if let Some((_, bound)) = &flight.bound {
            self.successors.insert(bound.clone());
        }
        let record = flight.record;
        match ending {
            Ending::Replaced => {
                self.figures.replaced += 1;
                if let Some(tracker) = self.trackers.get_mut(&policy) {
                    tracker.replaced += 1;
                }
                let new = flight.bound.map_or(Text::default(), |(key, _)| key.name);
                let message = words::replaced(&record, &new);
                self.post_event_about(&record, Severity::Normal, "TaintReplaced", &message);
            }
            Ending::Cancelled => {
                self.figures.cancelled += 1;
                if flight.announced {
                    let message = "not replaced: there is no reason any more";
                    self.post_event_about(&record, Severity::Normal, "TaintReplacementCancelled", message);
                }
            }
            Ending::Unreplaced => {
                self.figures.unreplaced += 1;
                let message = "it is gone, and nobody started another";
                self.post_event_about(&record, Severity::Warning, "TaintReplacementMissing", message);
            }
            Ending::Unmentioned => {}
        }
    }

    pub(crate) fn report_overdue(&mut self, uid: &Uid) {
        let Some(flight) = invariant!(self.flights.get_mut(uid), "an overdue replacement is there") else {
            return;
        };
        flight.overdue = true;
        let (record, policy) = (flight.record.clone(), flight.policy());
        self.figures.overdue += 1;
        if let Some(tracker) = self.trackers.get_mut(&policy) {
            tracker.overdue += 1;
        }
        self.touch(&policy);
        let message = "its replacement is not Ready in time; it keeps its slot and is not begun again";
        self.post_event_about(&record, Severity::Warning, "TaintReplacementOverdue", message);
    }

    pub(crate) fn post_event_about(
        &mut self,
        record: &Record,
        severity: Severity,
        reason: &'static str,
        message: &str,
    ) {
        let policy = ObjectKey::new(record.pod.namespace.clone(), record.policy.clone());
        let uid = self.tables.policies.get(&policy).map(|known| known.policy.uid.clone());
        for note in words::about_record(record, uid.as_ref(), severity, reason, message) {
            self.post_event(note);
        }
    }
}
