//! Too many fault domains tainted at once: then the fault may be elsewhere, and nothing new is begun.

use alloc::format;

use lazaret_invariant::invariant;
use lazaret_model::{ObjectKey, Text, Timestamp};

use crate::{
    effect::{Note, Severity, Subject},
    flight::ReplacementTracker,
    machine::Replacement,
    policy::Spec,
};

impl ReplacementTracker {
    pub(crate) fn count_in(&mut self, domain: &Text, tainted: bool) {
        let (pods, touched) = self.domains.entry(domain.clone()).or_default();
        *pods += 1;
        if tainted {
            *touched += 1;
            self.domains_tainted += u64::from(*touched == 1);
        }
    }

    pub(crate) fn count_out(&mut self, domain: &Text, tainted: bool) {
        let Some((pods, touched)) =
            invariant!(self.domains.get_mut(domain), "the domain of a counted pod is known")
        else {
            return;
        };
        *pods = pods.saturating_sub(1);
        if tainted {
            *touched = touched.saturating_sub(1);
            self.domains_tainted = self.domains_tainted.saturating_sub(u64::from(*touched == 0));
        }
        if *pods == 0 {
            self.domains.remove(domain);
        }
    }

    /// How many fault domains may be tainted, if there is a limit.
    pub(crate) fn domains_allowed(&self, spec: &Spec) -> Option<u64> {
        spec.max_domains_tainted.map(|share| share.of(self.domains.len()) as u64)
    }
}

impl Replacement {
    /// Trips and resets breakers, and says so.
    pub(crate) fn review_breakers(&mut self, _now: Timestamp) {
        let mut notes = alloc::vec::Vec::new();
        for (key, tracker) in &mut self.trackers {
            if !tracker.dirty {
                continue;
            }
            let Some(known) = invariant!(self.tables.policies.get(key), "a policy that is tracked is known")
            else {
                continue;
            };
            let allowed = known.active().and_then(|spec| tracker.domains_allowed(spec));
            let tripped = allowed.is_some_and(|allowed| tracker.domains_tainted > allowed);
            if tripped == tracker.tripped {
                continue;
            }
            tracker.tripped = tripped;
            self.may_start = true;
            let counted = format!("{} of {} fault domains", tracker.domains_tainted, tracker.domains.len());
            notes.push(note(key, &known.policy.uid, tripped, &counted));
        }
        for note in notes {
            self.post_event(note);
        }
    }
}

fn note(key: &ObjectKey, uid: &Text, tripped: bool, counted: &str) -> Note {
    let (severity, reason, message) = if tripped {
        (
            Severity::Warning,
            "BreakerTripped",
            format!("No new replacements: {counted} are tainted; those under way are finished"),
        )
    } else {
        (Severity::Normal, "BreakerReset", format!("Replacing again: {counted} are tainted"))
    };
    Note {
        about: Subject::Policy,
        key: key.clone(),
        uid: uid.clone(),
        severity,
        reason,
        message: message.into(),
    }
}
