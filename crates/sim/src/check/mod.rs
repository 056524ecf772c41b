//! The invariants. A decision is judged by what the controller that made it had been told, through the reference;
//! a write by what the server holds; the rest of the world at rest.

mod claims;
mod compare;
mod decide;
mod pace;
mod rest;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use compare::Moved;

use lazaret_eviction::{EffectId, Outcome};
use lazaret_model::Uid;

/// What the invariants remember.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checker {
    /// By controller and life: what became of the eviction of a pod.
    attempts: BTreeMap<(usize, u64, Uid), Attempt>,
    /// By controller and life: pods that it has heard to be gone or leaving, before its watch tells.
    heard_gone: BTreeSet<(usize, u64, Uid)>,
    /// Pods that a controller's DELETE made leave, and how many leaders there had been by then.
    deleted: BTreeMap<Uid, u64>,
    /// By rule: the pods that left because of it.
    evicted: BTreeMap<Uid, BTreeSet<Uid>>,
    /// By rule: pods whose eviction had an outcome that the controller could not know.
    uncertain: BTreeMap<Uid, BTreeSet<Uid>>,
    paces: pace::Paces,
    ceiling: pace::Paces,
    /// By rule: how often its pace was edited.
    pace_edits: BTreeMap<Uid, (Option<i64>, u64)>,
    rules_seen: usize,
    /// Steps after which something was compared.
    compared: u64,
    holdings: claims::Holdings,
    leaders: u64,
    /// Leaders that ended without a word, or lost the lease.
    abrupt_ends: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    UnderWay(EffectId),
    Over(Outcome),
}

impl Checker {
    pub(crate) fn leader_changed(&mut self) {
        self.leaders += 1;
    }

    /// What a controller had under way when it lost the lease may or may not come to pass.
    pub(crate) fn stepped_down(&mut self, number: usize, life: u64) {
        self.abrupt_ends += 1;
        let of_controller = (number, life, Uid::default())..(number, life + 1, Uid::default());
        for (_, attempt) in self.attempts.range_mut(of_controller) {
            if matches!(attempt, Attempt::UnderWay(_)) {
                *attempt = Attempt::Over(Outcome::Unknown);
            }
        }
    }

    pub(crate) fn crashed(&mut self) {
        self.abrupt_ends += 1;
    }

    pub(crate) fn clock_jumped(&mut self) {
        self.paces.fill();
        self.ceiling.fill();
    }
}

/// The number of evictions that a status message states.
#[must_use]
pub(crate) fn stated_count(message: &str) -> u64 {
    let before = message.split_once(" evicted since ").map_or("", |(before, _)| before);
    before.rsplit(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// The same message, counting one more; for a mutant.
#[must_use]
pub(crate) fn one_more(message: &str) -> String {
    let count = stated_count(message);
    if count == 0 {
        return message.to_owned();
    }
    let plural = if count == 1 { "pod" } else { "pods" };
    message.replace(&format!("{count} {plural} evicted since"), &format!("{} pods evicted since", count + 1))
}

#[cfg(test)]
mod tests {
    use super::{one_more, stated_count};

    #[test]
    fn counts_are_read_from_messages() {
        assert_eq!(
            stated_count(
                "3 pods need to be evicted in 1 namespace. 17 pods evicted since the rule was created."
            ),
            17
        );
        assert_eq!(stated_count("1 pod evicted since the rule was created."), 1);
        assert_eq!(stated_count("3 pods need to be evicted in 1 namespace."), 0);
        assert_eq!(stated_count(&one_more("1 pod evicted since the rule was created.")), 2);
    }
}
