//! Whose turn it is among the pods that can be tried now.
//!
//! Pods go by priority, then by who came first, as in Kubernetes, as long as they are cheap to place. The namespaces of pods that are not
//! stand in line by themselves: while both lines have pods, each gets half of the work, and in the second the namespace goes first that has
//! spent least.

use alloc::collections::{BTreeMap, BTreeSet};
use core::cmp::Reverse;

use lazaret_model::{Text, Timestamp};

/// A decision that costs no more than this part of a turn is not charged: ordinary pods keep the order of Kubernetes.
const FREE_PART: u64 = 10;

/// The highest priority first; of equal ones those whose attempt was not begun, then who came first.
type Entry = (Reverse<i32>, bool, Timestamp, u32);

/// A pod that can be tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) priority: i32,
    /// It goes on with an attempt that was begun.
    pub(crate) goes_on: bool,
    pub(crate) since: Timestamp,
    pub(crate) pod: u32,
}

// DEVIATION(turns-by-namespace): Kubernetes knows one line.
/// The pods that can be tried now.
#[derive(Debug)]
pub(crate) struct Turns {
    /// The units of a turn.
    turn_units: u64,
    cheap: BTreeSet<Entry>,
    costly: BTreeMap<Text, Costly>,
    /// Pods in `costly`.
    costly_pods: usize,
    /// The units that cheap pods spent since the last turn of a costly one.
    since_costly: u64,
}

/// A namespace with pods that are hard to place.
#[derive(Debug, Default)]
struct Costly {
    pods: BTreeSet<Entry>,
    spent: u64,
}

impl Candidate {
    fn entry(&self) -> Entry {
        (Reverse(self.priority), self.goes_on, self.since, self.pod)
    }
}

impl Turns {
    pub(crate) fn new(turn_units: u64) -> Self {
        Self { turn_units, cheap: BTreeSet::new(), costly: BTreeMap::new(), costly_pods: 0, since_costly: 0 }
    }

    pub(crate) fn insert(&mut self, namespace: &Text, candidate: &Candidate) {
        let least = self.least();
        match self.costly.get_mut(namespace) {
            Some(costly) => {
                // A namespace without pods does not catch up on units that others spent meanwhile.
                if costly.pods.is_empty() {
                    costly.spent = costly.spent.max(least);
                }
                self.costly_pods += usize::from(costly.pods.insert(candidate.entry()));
            }
            None => {
                self.cheap.insert(candidate.entry());
            }
        }
    }

    pub(crate) fn remove(&mut self, namespace: &Text, candidate: &Candidate) {
        match self.costly.get_mut(namespace) {
            Some(costly) => self.costly_pods -= usize::from(costly.pods.remove(&candidate.entry())),
            None => {
                self.cheap.remove(&candidate.entry());
            }
        }
    }

    /// Whose turn it is.
    pub(crate) fn first(&self) -> Option<u32> {
        let cheap = self.cheap.first();
        if cheap.is_some() && (self.costly_pods == 0 || self.since_costly < self.turn_units) {
            return cheap.map(|(.., pod)| *pod);
        }
        let waiting = self.costly.values().filter_map(|costly| Some((costly.spent, costly.pods.first()?)));
        waiting.min().map(|(_, (.., pod))| *pod)
    }

    pub(crate) fn len(&self) -> usize {
        self.cheap.len() + self.costly_pods
    }

    /// A decision cost so much, and no pod of its namespace waits.
    pub(crate) fn charge_nobody(&mut self, units: u64) {
        self.since_costly = self.since_costly.saturating_add(units);
    }

    /// A decision about a pod of the namespace, of which these pods wait, cost so much.
    pub(crate) fn charge(&mut self, namespace: &Text, units: u64, pods: &BTreeSet<u32>) {
        let least = self.least();
        if let Some(costly) = self.costly.get_mut(namespace) {
            costly.spent = costly.spent.saturating_add(units);
            self.since_costly = 0;
            return;
        }
        self.since_costly = self.since_costly.saturating_add(units);
        if units <= self.turn_units / FREE_PART {
            return;
        }
        let moved: BTreeSet<Entry> =
            self.cheap.iter().filter(|(.., pod)| pods.contains(pod)).copied().collect();
        self.cheap.retain(|entry| !moved.contains(entry));
        self.costly_pods += moved.len();
        self.costly.insert(namespace.clone(), Costly { pods: moved, spent: least.saturating_add(units) });
    }

    /// The least that a namespace has spent of those whose turn it can be.
    fn least(&self) -> u64 {
        let waiting = self.costly.values().filter(|costly| !costly.pods.is_empty());
        waiting.map(|costly| costly.spent).min().unwrap_or(0)
    }

    /// No pod of the namespace waits any more: what it has spent is forgotten.
    pub(crate) fn forget(&mut self, namespace: &Text) {
        if let Some(costly) = self.costly.remove(namespace) {
            self.costly_pods -= costly.pods.len();
            self.cheap.extend(costly.pods);
        }
    }
}
