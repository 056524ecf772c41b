//! The record of evictions that may have begun: a rule's status names a pod before the pod is evicted because of the rule.
//!
//! A count that is written after the evictions is lost with the process that counted. So a status names, besides the count, the pods whose
//! eviction may have begun and that the count does not have. The next leader counts those of them that are terminating and marked, or gone.
//! One status names many pods, as many as leave until the next status is due: naming costs no write for each pod.

mod inherit;
mod naming;

use alloc::{collections::BTreeMap, collections::BTreeSet, vec::Vec};
use core::cmp::Reverse;

use lazaret_model::{ObjectKey, Timestamp, Uid};

use crate::effect::Outcome;

/// After this many refusals in a row by the server, pods leave without being named: a status that nobody may write keeps no pod.
const REFUSALS_MAX: u32 = 4;

/// The order in which pods are named: as they leave.
type Turn = (Timestamp, i32, Reverse<Timestamp>, ObjectKey);

/// The pods that a status names.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pods: BTreeMap<u32, Uid>,
    /// Pods that are gone while their eviction is in flight.
    orphans: BTreeSet<Uid>,
}

impl Names {
    /// As they stand in the status.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Uid> {
        self.pods.values().chain(&self.orphans)
    }
}

/// The pods that a rule's status names, and those that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Pods that are named in the status that is stored and in the one on its way: they may leave.
    named: BTreeMap<u32, Uid>,
    /// Pods that the status on its way names.
    on_its_way: Option<BTreeMap<u32, Uid>>,
    /// Due pods that no status names. An entry may be older than its pod.
    awaiting: BTreeSet<(Turn, u32)>,
    /// Named pods that are gone while their eviction is in flight.
    orphans: BTreeSet<Uid>,
    /// Those of the named that a predecessor named.
    inherited: BTreeSet<u32>,
    /// Pods leave that no status names.
    pub(crate) is_incomplete: bool,
    /// Writes that the server refused, in a row.
    refusals: u32,
}

impl Record {
    /// Whether an eviction of this pod would be found by the next leader.
    fn names(&self, pod: u32, uid: &Uid) -> bool {
        self.is_incomplete || self.named.get(&pod).is_some_and(|named| named == uid)
    }

    /// Whether a status has to name more pods now. `most`: how many it may name.
    pub(crate) fn is_wanted(&self, most: usize) -> bool {
        self.keeps_pods() && self.on_its_way.is_none() && self.named.len() <= most / 2
    }

    /// Whether pods wait for a status that names them.
    pub(crate) fn keeps_pods(&self) -> bool {
        !self.awaiting.is_empty() && !self.is_incomplete
    }

    /// Whether a predecessor named the pod and nobody found out since what became of it. From now on that is known.
    pub(crate) fn settle_inherited(&mut self, pod: u32) -> bool {
        let is_inherited = self.inherited.remove(&pod);
        if is_inherited {
            self.named.remove(&pod);
        }
        is_inherited
    }

    /// The pod is counted: no later status names it.
    pub(crate) fn settle(&mut self, pod: u32, uid: &Uid) {
        if self.named.get(&pod) == Some(uid) {
            self.named.remove(&pod);
            self.inherited.remove(&pod);
        }
        if let Some(written) = self.on_its_way.as_mut().filter(|written| written.get(&pod) == Some(uid)) {
            written.remove(&pod);
        }
    }

    /// The pod is counted, whatever its number was.
    pub(crate) fn settle_uid(&mut self, uid: &Uid) {
        let number = self.named.iter().find(|(_, named)| *named == uid).map(|(pod, _)| *pod);
        if let Some(pod) = number {
            self.settle(pod, uid);
        }
    }

    /// A write of a status begins that names these.
    pub(crate) fn write(&mut self, names: Names) {
        self.named.retain(|pod, uid| names.pods.get(pod) == Some(uid));
        self.on_its_way = Some(names.pods);
    }

    /// The write was withdrawn: pods that it names wait for the next one.
    pub(crate) fn withdraw(&mut self) {
        self.return_names();
    }

    /// The write has an outcome. Returns the pods that may be looked at again.
    fn written(&mut self, outcome: Outcome) -> Vec<u32> {
        match outcome {
            Outcome::Done => {
                self.refusals = 0;
                self.is_incomplete = false;
                let Some(names) = self.on_its_way.take() else { return Vec::new() };
                self.adopt(names)
            }
            Outcome::Refused => {
                self.refusals = self.refusals.saturating_add(1);
                self.is_incomplete |= self.refusals >= REFUSALS_MAX;
                self.return_names();
                if !self.is_incomplete {
                    return Vec::new();
                }
                core::mem::take(&mut self.awaiting).into_iter().map(|(_, pod)| pod).collect()
            }
            Outcome::Gone | Outcome::Conflict | Outcome::Held | Outcome::RetryLater | Outcome::Unknown => {
                self.refusals = 0;
                self.return_names();
                Vec::new()
            }
        }
    }

    /// The status that is stored names these. Returns those that it did not name before.
    fn adopt(&mut self, names: BTreeMap<u32, Uid>) -> Vec<u32> {
        let before = core::mem::replace(&mut self.named, names);
        self.named.keys().filter(|pod| !before.contains_key(pod)).copied().collect()
    }

    /// Pods that were named in no status that is stored wait again, first of all.
    fn return_names(&mut self) {
        for (pod, uid) in self.on_its_way.take().into_iter().flatten() {
            if self.named.get(&pod) != Some(&uid) {
                self.awaiting.insert((Turn::default(), pod));
            }
        }
    }
}
