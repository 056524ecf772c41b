//! The work that goes into placing one pod: bounded for each turn and for each attempt, and remembered from one to the next.
//!
//! Work is counted in units, one of which is what a unit of CEL's cost takes, so that equal inputs give equal decisions on every machine. A
//! pod whose turn ends before its nodes were all tried goes on in its next turn where it stopped. In between the inputs are heard, among them
//! that the pod or a claim of it is gone, and the pods of other namespaces have their turns.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use lazaret_model::{ClaimSpec, ResourceClaim, Uid};

use crate::{
    causes::Cause, preempt_turns::SavedPreemptions, search::SavedSearch, turn_limits::REMEMBERED_MAX,
};

/// The units of a turn: some ten milliseconds, about as much as one selector may cost. A pod of another namespace waits for several of them until
/// it runs: before the decision, before its claim is written, and before it is bound.
pub const TURN_UNITS: u64 = 1_000_000;

// DEVIATION(attempt-budget): Kubernetes gives up a node after 10 s by the clock, and begins anew.
/// The units of an attempt: some seconds, after which the pod backs off. Results found until then are kept.
pub const ATTEMPT_UNITS: u64 = 400 * TURN_UNITS;

/// An attempt that is not over.
#[derive(Debug)]
pub(crate) struct Unfinished {
    /// The incarnation of the pod.
    uid: Uid,
    /// The claims for which the pod needs devices.
    claims: Vec<Arc<ClaimSpec>>,
    /// Devices that it tolerates for a time count.
    last_resort: bool,
    /// The nodes that there were.
    nodes_revision: u64,
    search: SavedSearch,
    pub(crate) spent: u64,
    /// Turns in a row that got no further.
    pub(crate) stuck: u32,
    /// How often something of each kind had happened when it was begun.
    pub(crate) happened: [u64; Cause::ALL.len()],
    /// Its place among all that were begun.
    number: u64,
}

/// Which attempt a search belongs to.
pub(crate) struct AttemptId<'a> {
    pub(crate) uid: &'a Uid,
    pub(crate) open: &'a [Arc<ResourceClaim>],
    pub(crate) last_resort: bool,
    pub(crate) nodes_revision: u64,
}

/// The attempts that are not over, by pod.
#[derive(Debug, Default)]
pub(crate) struct UnfinishedAttempts {
    attempts: BTreeMap<u32, Unfinished>,
    begun: u64,
    /// Searches for pods to evict, which follow when a pod fits nowhere.
    pub(crate) preemptions: SavedPreemptions,
}

impl UnfinishedAttempts {
    pub(crate) fn get_mut(&mut self, pod: u32) -> Option<&mut Unfinished> {
        self.attempts.get_mut(&pod)
    }

    pub(crate) fn get(&self, pod: u32) -> Option<&Unfinished> {
        self.attempts.get(&pod)
    }

    /// The attempt is over, or the pod is gone.
    pub(crate) fn end(&mut self, pod: u32) {
        self.attempts.remove(&pod);
        self.preemptions.take(pod);
    }

    /// All nodes were tried.
    pub(crate) fn end_search(&mut self, pod: u32) -> Option<Unfinished> {
        self.attempts.remove(&pod)
    }

    /// Where the attempt stopped, if it is still about the same.
    pub(crate) fn resume(&mut self, pod: u32, id: &AttemptId<'_>) -> Option<SavedSearch> {
        let known = self.attempts.get_mut(&pod)?;
        let same = known.uid == *id.uid
            && known.nodes_revision == id.nodes_revision
            && known.claims.len() == id.open.len()
            && known.claims.iter().zip(id.open).all(|(known, claim)| Arc::ptr_eq(known, &claim.spec));
        if !same {
            self.attempts.remove(&pod);
            return None;
        }
        (known.last_resort == id.last_resort).then(|| core::mem::take(&mut known.search))
    }

    /// Whether the attempt has been through all nodes without a device that it tolerates for a time.
    pub(crate) fn is_last_resort(&self, pod: u32, uid: &Uid) -> bool {
        self.attempts.get(&pod).is_some_and(|known| known.last_resort && known.uid == *uid)
    }

    /// The turn is over.
    pub(crate) fn save(
        &mut self,
        pod: u32,
        id: &AttemptId<'_>,
        search: SavedSearch,
        happened: [u64; Cause::ALL.len()],
    ) {
        if let Some(known) = self.attempts.get_mut(&pod).filter(|known| known.uid == *id.uid) {
            (known.search, known.last_resort, known.nodes_revision) =
                (search, id.last_resort, id.nodes_revision);
            return;
        }
        if self.attempts.len() >= REMEMBERED_MAX {
            let oldest = self.attempts.iter().min_by_key(|(_, known)| known.number).map(|(pod, _)| *pod);
            oldest.and_then(|oldest| self.attempts.remove(&oldest));
        }
        self.begun += 1;
        let claims = id.open.iter().map(|claim| claim.spec.clone()).collect();
        let unfinished = Unfinished {
            uid: id.uid.clone(),
            claims,
            last_resort: id.last_resort,
            nodes_revision: id.nodes_revision,
            search,
            spent: 0,
            stuck: 0,
            happened,
            number: self.begun,
        };
        self.attempts.insert(pod, unfinished);
    }
}

impl Unfinished {
    /// How many nodes were tried.
    pub(crate) fn tried(&self) -> usize {
        self.search.tried()
    }

    /// The node that cannot be decided about is passed over, for this reason.
    pub(crate) fn pass_over(&mut self) {
        self.search.pass_over();
    }
}
