//! Gangs: pods of a group of which at least a given number are placed together, or none.
//!
//! All waiting pods of the gang are placed tentatively, one after the other, each as if those before it were bound. If
//! enough of them have a place, all that have one are sent there; otherwise every placement is undone.

use alloc::{sync::Arc, vec::Vec};
use core::cmp::Reverse;

use lazaret_model::{ObjectKey, PodGroup};

use crate::{
    Pod,
    causes::Cause,
    needs::AssumedPlacement,
    queue::Place,
    state::Scheduler,
    why::{ClaimProblem, PendingReason, Verdict},
};

/// Bound on the pods of a gang that are placed together: one decision must end before the next input is handled.
const GANG_PODS_MAX: usize = 1_024;

/// A gang of which too few pods have a place.
pub(crate) struct Gang {
    key: ObjectKey,
    /// How many must have one.
    wanted: usize,
    /// How many have one.
    placed: usize,
}

/// The result of placing some pods tentatively.
#[derive(Default)]
struct TentativePlacements {
    placed: Vec<(u32, Arc<Pod>, AssumedPlacement)>,
    refused: Vec<(u32, Arc<Pod>, Verdict)>,
    /// Not looked at: enough could not be placed any more.
    left: Vec<(u32, Arc<Pod>)>,
}

impl Scheduler {
    /// The gang of a pod, unless enough of its pods have a place.
    pub(crate) fn incomplete_gang(&self, pod: &Pod) -> Option<Gang> {
        let PodGroup { key, gang, .. } = self.claim_cache.group(pod).ok()??;
        let wanted = (*gang)? as usize;
        let is_placed = |pod: &&u32| self.pods.get(**pod).is_some_and(|entry| entry.on.is_some());
        let placed = self.claim_cache.members(key).iter().filter(is_placed).count();
        (placed < wanted).then(|| Gang { key: key.clone(), wanted, placed })
    }

    /// Decides on all waiting pods of a gang; the queue gave out `first`.
    pub(crate) fn decide_gang(&mut self, first: u32, gang: &Gang) {
        let there = gang.placed + self.count_waiting(gang);
        let missing = gang.wanted - gang.placed;
        let group = gang.key.clone();
        if there < gang.wanted {
            // The other pods are decided on when the gang is complete.
            return self.refuse(first, ClaimProblem::GangIncomplete { group, there, wanted: gang.wanted });
        }
        if missing > GANG_PODS_MAX {
            return self.refuse(first, ClaimProblem::GangTooLarge { group, most: GANG_PODS_MAX });
        }
        let pods = self.waiting_members(first, gang);
        self.rehearsing = true;
        let mut found = self.place_tentatively(pods, missing);
        let mut again = None;
        if found.placed.len() < missing {
            let placed: Vec<(u32, Arc<Pod>)> = self.take_back(&mut found.placed);
            // A pod without a place comes first: it may need devices that another took without needing them.
            if found.refused.iter().any(|(_, _, verdict)| matches!(verdict, Verdict::Nowhere(_))) {
                let refused = found.refused.iter().map(|(pod_ix, pod, _)| (*pod_ix, pod.clone()));
                let order = refused.chain(placed.iter().cloned()).chain(found.left.iter().cloned()).collect();
                again = Some(self.place_tentatively(order, missing));
            }
            found.left.extend(placed);
        }
        let found = match again {
            Some(mut again) if again.placed.len() < missing => {
                self.take_back(&mut again.placed);
                found
            }
            Some(again) => again,
            None => found,
        };
        self.rehearsing = false;
        self.bind_or_give_up(gang, found);
    }

    /// How many pods of a gang wait and can be tried.
    fn count_waiting(&self, gang: &Gang) -> usize {
        let waits = |ix: &&u32| {
            let unplaced = self.pods.get(**ix).is_some_and(|entry| entry.on.is_none());
            unplaced && self.queue.place(**ix).is_some_and(|(place, _)| place != Place::Gated)
        };
        self.claim_cache.members(&gang.key).iter().filter(waits).count()
    }

    /// The pods of a gang that can be tried now, the most important first. Those that wait for an event or for a pause
    /// to end are among them: the others need them.
    fn waiting_members(&mut self, first: u32, gang: &Gang) -> Vec<(u32, Arc<Pod>)> {
        let mut pods: Vec<(u32, Arc<Pod>)> = Vec::new();
        for ix in self.claim_cache.members(&gang.key).to_vec() {
            if ix != first && (pods.len() >= GANG_PODS_MAX || !self.queue.take(self.now, ix)) {
                continue;
            }
            pods.extend(self.pods.get(ix).map(|entry| (ix, entry.pod.clone())));
        }
        pods.sort_by_key(|(ix, pod)| (Reverse(pod.spec.priority), *ix));
        pods
    }

    /// Places pods tentatively until `missing` are placed and all were tried, or enough cannot be placed any more.
    fn place_tentatively(&mut self, pods: Vec<(u32, Arc<Pod>)>, missing: usize) -> TentativePlacements {
        let mut found = TentativePlacements::default();
        let all = pods.len();
        for (ix, pod) in pods {
            if all - found.refused.len() < missing {
                found.left.push((ix, pod));
                continue;
            }
            self.decisions += 1;
            let needs = self.needs(ix, &pod).map_err(Verdict::Claims);
            match needs.and_then(|needs| self.find_place(ix, &pod, &needs)) {
                Ok(placement) => {
                    let held = self.hold(ix, &pod, placement);
                    found.placed.push((ix, pod, held));
                }
                Err(verdict) => found.refused.push((ix, pod, verdict)),
            }
        }
        found
    }

    /// These placements were not yet sent: they are undone.
    fn take_back(&mut self, placed: &mut Vec<(u32, Arc<Pod>, AssumedPlacement)>) -> Vec<(u32, Arc<Pod>)> {
        let mut pods = Vec::with_capacity(placed.len());
        for (ix, pod, _) in placed.drain(..).rev() {
            self.abandon(ix);
            self.remove_pod_from_node(ix);
            pods.push((ix, pod));
        }
        pods.reverse();
        pods
    }

    // DEVIATION(gang-placement): Kubernetes also makes pods leave for a gang.
    fn bind_or_give_up(&mut self, gang: &Gang, found: TentativePlacements) {
        if !found.placed.is_empty() {
            // Pods with affinity to them, or that wait for an even spread, need not wait until they are bound.
            self.happened(Cause::Neighbours);
        }
        for (ix, pod, held) in found.placed {
            self.send(ix, &pod, held);
        }
        for (ix, pod, verdict) in found.refused {
            self.give_up(ix, &pod, Arc::new(PendingReason::of(verdict)), None);
        }
        for (ix, _) in found.left {
            self.refuse(ix, ClaimProblem::GangUnplaceable { wanted: gang.wanted });
        }
    }

    fn refuse(&mut self, ix: u32, problem: ClaimProblem) {
        if let Some(pod) = self.pods.get(ix).map(|entry| entry.pod.clone()) {
            self.give_up(ix, &pod, Arc::new(PendingReason::of(Verdict::Claims(problem))), None);
        }
    }
}
