//! The pods that would have to leave a node: all of lower priority, less those that can be let stay, the most important first.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};
use core::cmp::Reverse;

use lazaret_allocator::TimedTolerations;
use lazaret_fleet as fleet;
use lazaret_invariant::invariant;
use lazaret_model::{ObjectKey, ResourceClaim, Uid};

use crate::{
    Budget, Pod, claims,
    devices::{Devices, ExtendedNeed, SearchResult},
    filter::{Filter, Tally},
    needs::Needs,
    nodes::NodeState,
    pod_affinity::{AffinityCounts, PodLocations},
    preempt_turns::{Candidate, started},
    share::ShareIds,
    state::Scheduler,
    terms,
};

/// The units that it takes to think of a node with or without a pod.
const UNITS_PER_POD: u64 = 10;

/// The result for one node.
#[derive(Debug)]
pub(crate) enum PreemptionResult {
    /// It fits if these leave.
    Fits(Candidate),
    /// Even without all of lower priority it does not.
    Unhelpful,
    /// No pod there has a lower priority.
    NoVictims,
}

impl Scheduler {
    /// Whether a pod is on its way out already.
    pub(crate) fn is_leaving(&self, ix: u32, pod: &Pod) -> bool {
        pod.deleting || self.evicting.contains(&ix)
    }

    /// The pods that have to leave a node so that the pod fits there, and no more of them than that.
    pub(crate) fn candidate(&mut self, ix: u32, pod: &Pod, needs: &Needs, node: u32) -> PreemptionResult {
        let Some(state) = invariant!(self.nodes.get(node), "the number of a node leads to it") else {
            return PreemptionResult::Unhelpful;
        };
        // Those that are being bound are not there yet; they can be evicted when they are.
        let lower = state.pods.iter().filter(|(other, known)| {
            known.spec.priority < pod.spec.priority
                && known.node.is_some()
                && !self.flights.contains_key(other)
        });
        let (leaving, mut victims): (Vec<_>, Vec<_>) =
            lower.cloned().partition(|(other, known)| self.is_leaving(*other, known));
        if leaving.is_empty() && victims.is_empty() {
            return PreemptionResult::NoVictims;
        }
        let fits = |scheduler: &mut Self, gone: &[(u32, Arc<Pod>)]| {
            let without: Vec<(u32, Arc<Pod>)> = leaving.iter().chain(gone).cloned().collect();
            scheduler.fits_without(ix, pod, needs, node, without)
        };
        if !fits(self, &victims) {
            return PreemptionResult::Unhelpful;
        }
        victims.sort_by_key(|(other, known)| (Reverse(known.spec.priority), started(known), *other));
        let violating = violating(&victims, &self.budgets);
        // Those that a budget protects are let stay first.
        let (protected, others): (Vec<_>, Vec<_>) =
            victims.iter().cloned().partition(|(other, _)| violating.contains(other));
        for (candidate, _) in protected.iter().chain(&others) {
            let rest: Vec<_> = victims.iter().filter(|(other, _)| other != candidate).cloned().collect();
            if fits(self, &rest) {
                victims = rest;
            }
        }
        let violations = victims.iter().filter(|(other, _)| violating.contains(other)).count();
        PreemptionResult::Fits(Candidate { node, victims, violations })
    }

    /// Whether a pod would fit on a node without some of the pods there.
    fn fits_without(
        &mut self,
        ix: u32,
        pod: &Pod,
        needs: &Needs,
        node: u32,
        without: Vec<(u32, Arc<Pod>)>,
    ) -> bool {
        let mut left_out: Vec<u32> = without.iter().map(|(other, _)| *other).collect();
        left_out.sort_unstable();
        let Some(state) = invariant!(
            self.nodes.get(node).map(|state| state.without(&left_out)),
            "the number of a node leads to it"
        ) else {
            return false;
        };
        let Ok(of_terms) = terms::units(pod, &self.nodes) else { return false };
        self.allocator
            .spend(of_terms.saturating_add(UNITS_PER_POD * (state.pods.len() + left_out.len()) as u64));
        let around = PodLocations { nodes: &self.nodes, namespaces: &self.namespaces, without: &left_out };
        let (pod_affinity, usable) = (AffinityCounts::of(pod, around), needs.usable());
        let (delegated, extra) = (&self.delegated, needs.extra());
        let filter =
            Filter { pod, pod_ix: ix, delegated, pod_affinity: &pod_affinity, usable: &usable, extra };
        if !filter.admits(&state, &mut Tally::new()) {
            return false;
        }
        let with_devices = !needs.extended.is_empty() || needs.allocations.iter().any(Option::is_none);
        !with_devices || self.has_devices_without(pod, needs, &state, &without)
    }

    // DEVIATION(preemption-frees-devices): Kubernetes never makes a pod leave for its devices.
    /// Whether a node would have the devices without some pods: as if their claims were released.
    fn has_devices_without(
        &mut self,
        pod: &Pod,
        needs: &Needs,
        state: &NodeState,
        without: &[(u32, Arc<Pod>)],
    ) -> bool {
        let freed = self.claims_of(without);
        for claim in &freed {
            let given_back = ResourceClaim { allocation: None, ..ResourceClaim::clone(claim) };
            self.fleet.apply(fleet::Input::Claim(Arc::new(given_back)));
        }
        let (snapshot, open) = (self.fleet.snapshot(), needs.open());
        let mut devices = Devices {
            allocator: &mut self.allocator,
            snapshot: &snapshot,
            overlay: &self.overlay,
            open: &open,
            extended: ExtendedNeed { pod, resources: &needs.extended, delegated: &self.delegated },
            prefer_healthy: false,
            timed_tolerations: TimedTolerations::LastUntilOver(self.now),
            ids: ShareIds::new(&pod.uid, self.now, self.decisions),
        };
        let found = matches!(devices.choose(&[state]), Ok(SearchResult::On(_)));
        for claim in freed {
            self.fleet.apply(fleet::Input::Claim(claim));
        }
        self.fleet.take_changes();
        found
    }

    /// The claims that only these pods use.
    fn claims_of(&self, pods: &[(u32, Arc<Pod>)]) -> Vec<Arc<ResourceClaim>> {
        let uids: BTreeSet<&Uid> = pods.iter().map(|(_, pod)| &pod.uid).collect();
        let keys: BTreeSet<ObjectKey> = pods.iter().flat_map(|(_, pod)| claims::claim_keys(pod)).collect();
        let claims = keys.iter().filter_map(|key| self.claim_cache.get(key)).map(|known| known.claim.clone());
        let is_theirs = |claim: &Arc<ResourceClaim>| {
            claim.allocation.is_some()
                && claim.reserved_for.iter().all(|consumer| uids.contains(&consumer.uid))
        };
        claims.filter(is_theirs).collect()
    }
}

/// Those of the pods, in order, that a budget does not let leave any more.
fn violating(pods: &[(u32, Arc<Pod>)], budgets: &BTreeMap<ObjectKey, Arc<Budget>>) -> BTreeSet<u32> {
    let mut left: BTreeMap<&ObjectKey, i64> =
        budgets.iter().map(|(key, budget)| (key, budget.allowed)).collect();
    let mut violating = BTreeSet::new();
    for (ix, pod) in pods {
        let covers = |budget: &Budget| {
            budget.key.namespace == pod.key.namespace
                && !budget.leaving.contains(&pod.key.name)
                && budget.selector.as_ref().is_some_and(|s| !s.is_empty() && s.matches(&pod.labels))
        };
        for budget in budgets.values().filter(|budget| covers(budget)) {
            let allowed = left.entry(&budget.key).or_insert(0);
            *allowed -= 1;
            if *allowed < 0 {
                violating.insert(*ix);
            }
        }
    }
    violating
}
