//! Whether a pod still needs its claims.

use core::hash::Hash;

use hashbrown::HashMap;
use lazaret_machine::Recent;
use lazaret_model::{Pod, Timestamp, Uid};
use rustc_hash::FxBuildHasher;

use crate::{
    Claims,
    holder::{Holder, HolderKind},
};

/// The state of one incarnation of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It runs or may run.
    Needed,
    /// It was confirmed and not seen yet: to be looked at again at this time.
    NeededUntil(Timestamp),
    /// It will never run again, or never will.
    Done,
    /// It exists no more.
    Gone,
    /// Nothing is known: it may be too new.
    Unknown,
}

/// Answers about pods that were not seen, or about the nodes on which pods were lost.
#[derive(Debug)]
pub(crate) struct Confirmations<K = Uid> {
    /// Known to exist no more.
    pub(crate) gone: Recent<K>,
    /// Questions about pods that a claim names and that were not seen. Old answers are dropped when their number has doubled.
    asked: HashMap<K, Asked, FxBuildHasher>,
    sweep_at: usize,
}

/// Below this many there is nothing to gain from sweeping.
const ASKED_MIN: usize = 1_024;

#[derive(Clone, Copy, Debug)]
enum Asked {
    InFlight { failures: u32 },
    Lives { until: Timestamp },
    RetryAt { at: Timestamp, failures: u32 },
}

/// The next step for a pod of which nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inquiry {
    /// Ask.
    Ask,
    /// The answer is on its way.
    Wait,
    /// The last attempt failed; ask again then.
    AskAt(Timestamp),
}

impl<K: Clone + Eq + Hash> Confirmations<K> {
    pub(crate) fn new(gone_max: usize) -> Self {
        Self { gone: Recent::new(gone_max), asked: HashMap::default(), sweep_at: ASKED_MIN }
    }

    /// [`Inquiry::Ask`] is said once: whoever hears it has to ask.
    pub(crate) fn inquire(&mut self, key: &K, now: Timestamp) -> Inquiry {
        let failures = match self.asked.get(key) {
            Some(Asked::InFlight { .. }) => return Inquiry::Wait,
            Some(Asked::RetryAt { at, .. }) if *at > now => return Inquiry::AskAt(*at),
            Some(Asked::RetryAt { failures, .. }) => *failures,
            Some(Asked::Lives { .. }) | None => 0,
        };
        self.sweep(now);
        self.asked.insert(key.clone(), Asked::InFlight { failures });
        Inquiry::Ask
    }

    pub(crate) fn lives(&mut self, key: &K, until: Timestamp) {
        self.asked.insert(key.clone(), Asked::Lives { until });
    }

    pub(crate) fn is_gone(&mut self, key: &K) {
        self.asked.remove(key);
        self.gone.insert(key.clone());
    }

    /// It has been seen: it need not be confirmed any more.
    pub(crate) fn seen(&mut self, key: &K) {
        if !self.asked.is_empty() {
            self.asked.remove(key);
        }
    }

    /// No answer came. `retry` gives the pause after a number of failures.
    pub(crate) fn failed(&mut self, key: &K, now: Timestamp, retry: impl FnOnce(u32) -> i64) {
        let failures = match self.asked.get(key) {
            Some(Asked::InFlight { failures } | Asked::RetryAt { failures, .. }) => {
                failures.saturating_add(1)
            }
            Some(Asked::Lives { .. }) | None => 1,
        };
        let at = now.plus_millis(retry(failures));
        self.asked.insert(key.clone(), Asked::RetryAt { at, failures });
    }

    /// Answers to old questions will not be heard.
    pub(crate) fn forget_questions(&mut self) {
        self.asked.clear();
    }

    pub(crate) fn questions(&self) -> usize {
        self.asked.len()
    }

    fn sweep(&mut self, now: Timestamp) {
        if self.asked.len() < self.sweep_at {
            return;
        }
        self.asked.retain(|_, asked| match asked {
            Asked::InFlight { .. } => true,
            Asked::Lives { until: at } | Asked::RetryAt { at, .. } => *at > now,
        });
        self.sweep_at = ASKED_MIN.max(self.asked.len() * 2);
    }
}

impl Claims {
    /// The state of this incarnation of a pod or group.
    pub(crate) fn standing(&self, holder: &Holder, now: Timestamp) -> Standing {
        let uid = &holder.uid;
        if self.confirmations.gone.contains(uid) {
            return Standing::Gone;
        }
        let done = match holder.kind {
            HolderKind::Pod => {
                let pod = self.tables.pods.get(&holder.key).map(|slot| &slot.pod);
                pod.filter(|pod| pod.uid == *uid).map(|pod| is_done(pod))
            }
            // As long as there is a group, a pod of it may come.
            HolderKind::Group => {
                let group = self.tables.groups.get(&holder.key).map(|slot| &slot.group);
                group.filter(|group| group.uid == *uid).map(|_| false)
            }
        };
        match done {
            Some(true) => Standing::Done,
            Some(false) => Standing::Needed,
            // DEVIATION(confirmed-owners): of the two incarnations either may be the newer one.
            None => match self.confirmations.asked.get(uid) {
                Some(Asked::Lives { until }) if *until > now => Standing::NeededUntil(*until),
                Some(_) | None => Standing::Unknown,
            },
        }
    }
}

/// Whether it is certain that none of its containers run, or ever will.
pub(crate) fn is_done(pod: &Pod) -> bool {
    pod.phase.is_finished() || (pod.deleting_since.is_some() && pod.node.is_none())
}

/// Whether the pod may still begin to use a claim.
pub(crate) fn wants_claims(pod: &Pod) -> bool {
    pod.deleting_since.is_none() && !pod.phase.is_finished()
}

#[cfg(test)]
mod tests {
    use lazaret_model::PodPhase;

    use super::*;

    #[test]
    fn done_pods_will_not_run() {
        // phase, being deleted, has a node; done; wants claims
        let cases = [
            (PodPhase::Pending, false, false, false, true),
            (PodPhase::Pending, false, true, false, true),
            (PodPhase::Pending, true, false, true, false),
            (PodPhase::Pending, true, true, false, false),
            (PodPhase::Running, false, true, false, true),
            (PodPhase::Running, true, true, false, false),
            (PodPhase::Unknown, false, true, false, true),
            (PodPhase::Succeeded, false, true, true, false),
            (PodPhase::Failed, false, false, true, false),
            (PodPhase::Failed, true, true, true, false),
        ];
        for (phase, deleting, bound, done, wants) in cases {
            let pod = Pod {
                phase,
                deleting_since: deleting.then_some(Timestamp::EPOCH),
                node: bound.then(|| "node".into()),
                ..Pod::default()
            };
            assert_eq!((is_done(&pod), wants_claims(&pod)), (done, wants), "{phase:?} {deleting} {bound}");
        }
    }
}
