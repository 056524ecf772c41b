//! Failures in a row, remembered beyond the pods that failed.
//!
//! A pod that was deleted leaves nothing behind once it is counted: only who saw it knows when it ended. A process that starts
//! later does not, and does not wait for it, as in Kubernetes.

use crate::prelude::*;

/// Failures of one owner's pods since the last success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureRun {
    /// Whose: the next object of the same name begins anew.
    uid: String,
    /// Every failure and success that the owner has counted, as of the last look.
    counted: Counted,
    failures: i32,
    last: Option<Timestamp>,
}

/// How often an owner's pods failed and succeeded in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) failed: i32,
    pub(crate) succeeded: i32,
}

/// Failures since the last success, of pods that are still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Present {
    pub(crate) failures: i32,
    pub(crate) last: Option<Timestamp>,
}

impl FailureRun {
    /// The run of failures after a decision: the one known before, the failures counted since, and the pods that exist.
    pub(crate) fn after(
        known: Option<&Self>,
        now: Timestamp,
        uid: &str,
        counted: Counted,
        present: Present,
    ) -> Self {
        let known = known
            .filter(|known| known.uid == uid && known.counted.succeeded == counted.succeeded)
            .map_or((0, None, counted.failed), |known| (known.failures, known.last, known.counted.failed));
        let (before, last, counted_before) = known;
        let new = counted.failed.saturating_sub(counted_before).max(0);
        // A pod that went before it was seen ended now, as far as is known.
        let unseen = (new > 0 && present.last <= last).then_some(now);
        Self {
            uid: uid.to_owned(),
            counted,
            failures: before.saturating_add(new).max(present.failures),
            last: last.max(present.last).max(unseen),
        }
    }

    /// How many failures there are in a row, and when the last was.
    pub(crate) fn last_of(&self) -> Option<(Timestamp, i32)> {
        self.last.filter(|_| self.failures > 0).map(|last| (last, self.failures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn look(
        known: Option<&FailureRun>,
        secs: i64,
        counted: (i32, i32),
        present: (i32, Option<i64>),
    ) -> FailureRun {
        let counted = Counted { failed: counted.0, succeeded: counted.1 };
        let present = Present { failures: present.0, last: present.1.map(at) };
        FailureRun::after(known, at(secs), "u", counted, present)
    }

    #[test]
    fn what_has_gone_still_counts_until_a_success() {
        let first = look(None, 100, (3, 1), (0, None));
        assert_eq!(first.last_of(), None, "what was before the first look is not known");
        let deleted = look(Some(&first), 110, (4, 1), (1, Some(109)));
        assert_eq!(deleted.last_of(), Some((at(109), 1)));
        let gone = look(Some(&deleted), 111, (4, 1), (0, None));
        assert_eq!(gone.last_of(), Some((at(109), 1)));
        let again = look(Some(&gone), 120, (6, 1), (2, Some(118)));
        assert_eq!(again.last_of(), Some((at(118), 3)));
        let success = look(Some(&again), 130, (6, 2), (0, None));
        assert_eq!(success.last_of(), None);
        let unseen = look(Some(&success), 140, (7, 2), (0, None));
        assert_eq!(unseen.last_of(), Some((at(140), 1)));
    }

    #[test]
    fn failures_that_are_there_count_without_memory() {
        let first = look(None, 100, (5, 0), (2, Some(90)));
        assert_eq!(first.last_of(), Some((at(90), 2)));
        let next = look(Some(&first), 101, (6, 0), (3, Some(100)));
        assert_eq!(next.last_of(), Some((at(100), 3)), "a failure that is there and counted is one");
    }

    #[test]
    fn another_object_of_the_name_begins_anew() {
        let known = look(Some(&look(None, 1, (0, 0), (0, None))), 2, (1, 0), (1, Some(2)));
        let other = FailureRun::after(Some(&known), at(3), "v", Counted::default(), Present::default());
        assert_eq!(other.last_of(), None);
    }
}
