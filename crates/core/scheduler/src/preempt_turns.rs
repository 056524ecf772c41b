//! A search for pods to evict that takes more than a turn: it goes on where it stopped, within the budget of the pod's attempt.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::cmp::Reverse;

use lazaret_model::{Timestamp, Uid};

use crate::{
    Pod,
    causes::Cause,
    turn_limits::{DOUBLINGS_MAX, REMEMBERED_MAX},
    why::Verdict,
};

/// A node on which the pod would fit, and the pods that would have to leave.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) node: u32,
    pub(crate) victims: Vec<(u32, Arc<Pod>)>,
    pub(crate) violations: usize,
}

/// The less the better: budgets broken, the highest priority that leaves, all priorities, pods, and the shorter the most
/// important of them have been running.
pub(crate) type Cost = (usize, i32, i64, usize, Reverse<Timestamp>);

impl Candidate {
    pub(crate) fn cost(&self) -> Cost {
        let priority = |pod: &Pod| pod.spec.priority;
        let highest = self.victims.iter().map(|(_, pod)| priority(pod)).max().unwrap_or(i32::MIN);
        // Each counts, be its priority negative.
        let sum = self.victims.iter().map(|(_, pod)| i64::from(priority(pod)) - i64::from(i32::MIN)).sum();
        let important = self.victims.iter().filter(|(_, pod)| priority(pod) == highest);
        let earliest = important.map(|(_, pod)| started(pod)).min().unwrap_or(Timestamp::EPOCH);
        (self.violations, highest, sum, self.victims.len(), Reverse(earliest))
    }
}

/// Since when a pod runs, or waits for that.
pub(crate) fn started(pod: &Pod) -> Timestamp {
    pod.started.unwrap_or(pod.created)
}

/// How far a search through the nodes is.
#[derive(Debug, Default)]
pub(crate) struct PreemptionProgress {
    /// The place among the nodes where it began.
    pub(crate) from: usize,
    /// How many nodes were looked at since.
    pub(crate) at: usize,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) unhelpful: usize,
    pub(crate) helpless: usize,
    /// The units that the attempt took, over all of its turns and with the search for a place.
    pub(crate) spent: u64,
    /// Turns in a row that got no further.
    pub(crate) stuck: u32,
}

impl PreemptionProgress {
    /// `spent`: what the search for a place took.
    pub(crate) fn begin(from: usize, spent: u64) -> Self {
        Self { from, spent, ..Self::default() }
    }

    /// The nodes have changed, or what the pod lacks may be there: it looks at nodes again, from where it was, on the same budget.
    fn begin_again(self) -> Self {
        Self { stuck: self.stuck, ..Self::begin(self.from + self.at, self.spent) }
    }

    /// The turn is over. `got_further`: nodes were looked at, or something was learnt about the next one.
    pub(crate) fn turn_is_over(&mut self, got_further: bool) {
        if got_further {
            self.stuck = 0;
        } else if self.stuck < DOUBLINGS_MAX {
            self.stuck += 1;
        } else {
            // No turn decides about this node.
            self.stuck = 0;
            self.at += 1;
            self.unhelpful += 1;
        }
    }
}

/// A search that goes on in the pod's next turn.
#[derive(Debug)]
pub(crate) struct SavedPreemption {
    /// The incarnation of the pod.
    pub(crate) uid: Uid,
    /// The nodes that there were.
    pub(crate) nodes_revision: u64,
    /// How often something of each kind had happened when the pod was found to fit nowhere.
    pub(crate) happened: [u64; Cause::ALL.len()],
    /// Why it fits nowhere.
    pub(crate) verdict: Verdict,
    pub(crate) progress: PreemptionProgress,
}

/// The searches that are not over, by pod.
#[derive(Debug, Default)]
pub(crate) struct SavedPreemptions {
    saved: BTreeMap<u32, (u64, SavedPreemption)>,
    number: u64,
}

impl SavedPreemptions {
    pub(crate) fn get(&self, pod: u32) -> Option<&SavedPreemption> {
        self.saved.get(&pod).map(|(_, saved)| saved)
    }

    pub(crate) fn take(&mut self, pod: u32) -> Option<SavedPreemption> {
        self.saved.remove(&pod).map(|(_, saved)| saved)
    }

    /// Where the search goes on; `is_current`: nothing that matters to it has changed since.
    pub(crate) fn resume(&mut self, pod: u32, is_current: bool) -> Option<PreemptionProgress> {
        let SavedPreemption { progress, .. } = self.take(pod)?;
        Some(if is_current { progress } else { progress.begin_again() })
    }

    /// The turn is over. Beyond a number of searches, the oldest begins from the start.
    pub(crate) fn save(&mut self, pod: u32, saved: SavedPreemption) {
        if self.saved.len() >= REMEMBERED_MAX && !self.saved.contains_key(&pod) {
            let oldest = self.saved.iter().min_by_key(|(_, (number, _))| *number).map(|(pod, _)| *pod);
            oldest.and_then(|oldest| self.saved.remove(&oldest));
        }
        self.number += 1;
        self.saved.insert(pod, (self.number, saved));
    }
}
