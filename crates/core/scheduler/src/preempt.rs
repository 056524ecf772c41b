//! Making room by force: which pods of lower priority leave so that a pod can have their place, or their devices.
//!
//! A node is thought of without all pods of lower priority. If the pod fits then, as many of them are let stay as can
//! be, the most important first. The node that costs least is taken. Pods that are leaving anyway cost nothing.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    sync::Arc,
    vec::Vec,
};
use core::cmp::Reverse;

use lazaret_allocator::TimedTolerations;
use lazaret_fleet as fleet;
use lazaret_invariant::invariant;
use lazaret_model::{ObjectKey, ResourceClaim, Text, Timestamp, Uid};

use crate::{
    Budget, Pod,
    budget::DOUBLINGS_MAX,
    claims,
    devices::{Devices, ExtendedNeed, SearchResult},
    effect::{EffectKind, EventKind, Evict},
    filter::{Filter, Tally},
    needs::Needs,
    nodes::NodeState,
    outbox::Purpose,
    pod_affinity::{AffinityCounts, PodLocations},
    share::ShareIds,
    state::Scheduler,
    terms,
};

/// The number of suitable nodes compared at least, if there are as many.
const CANDIDATES_MIN: usize = 100;
/// Of how many in a hundred nodes.
const CANDIDATES_PERCENT: usize = 10;

/// The result of a preemption.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Preemption {
    /// Pods of this node are evicted.
    Node(Text),
    /// Pods are leaving already.
    Waiting(&'static str),
    /// No pod is evicted, for this reason.
    Nobody(String),
    /// The budget was spent: the number of nodes that were tried, and the number of all nodes.
    Unfinished(usize, usize),
}

/// A node on which the pod would fit, and the pods that would have to leave.
#[derive(Debug)]
struct Candidate {
    node: u32,
    victims: Vec<(u32, Arc<Pod>)>,
    violations: usize,
}

/// The less the better: budgets broken, the highest priority that leaves, all priorities, pods, and the shorter the most
/// important of them have been running.
type Cost = (usize, i32, i64, usize, Reverse<Timestamp>);

impl Candidate {
    fn cost(&self) -> Cost {
        let priority = |pod: &Pod| pod.spec.priority;
        let highest = self.victims.iter().map(|(_, pod)| priority(pod)).max().unwrap_or(i32::MIN);
        // Each counts, be its priority negative.
        let sum = self.victims.iter().map(|(_, pod)| i64::from(priority(pod)) - i64::from(i32::MIN)).sum();
        let important = self.victims.iter().filter(|(_, pod)| priority(pod) == highest);
        let earliest = important.map(|(_, pod)| started(pod)).min().unwrap_or(Timestamp::EPOCH);
        (self.violations, highest, sum, self.victims.len(), Reverse(earliest))
    }
}

fn started(pod: &Pod) -> Timestamp {
    pod.started.unwrap_or(pod.created)
}

impl Scheduler {
    /// Evicts pods for one that fits nowhere, if that helps.
    pub(crate) fn preempt(&mut self, ix: u32, pod: &Pod, needs: &Needs) -> Preemption {
        if !pod.spec.preempts {
            return Preemption::Nobody("not eligible due to preemptionPolicy=Never.".into());
        }
        if self.waits_for_leavers(ix, pod) {
            return Preemption::Waiting("not eligible due to a terminating pod on the nominated node.");
        }
        let order = self.nodes.order().to_vec();
        if self.nodes.lowest_priority().is_none_or(|lowest| lowest >= pod.spec.priority) {
            return Preemption::Nobody(no_victims_message(order.len(), 0, order.len()));
        }
        let enough = (order.len() * CANDIDATES_PERCENT / 100).max(CANDIDATES_MIN);
        let (mut candidates, mut unhelpful, mut helpless) = (Vec::new(), 0, 0);
        self.allocator.allow(self.options.turn_units << DOUBLINGS_MAX);
        let from = core::mem::take(&mut self.preempt_from);
        for at in 0..order.len() {
            if candidates.len() >= enough {
                break;
            }
            let node = order[(self.start + from + at) % order.len()];
            let result = self.candidate(ix, pod, needs, node);
            // Without all searches that it takes, more pods would leave than need be.
            if self.allocator.is_out_of_work() {
                // One that takes all of it does not keep the others from being looked at.
                self.preempt_from = (from + at.max(1)) % order.len();
                if candidates.is_empty() {
                    return Preemption::Unfinished(at, order.len());
                }
                break;
            }
            match result {
                PreemptionResult::Fits(candidate) if candidate.victims.is_empty() => {
                    return Preemption::Waiting("pods that are terminating will make room.");
                }
                PreemptionResult::Fits(candidate) => candidates.push(candidate),
                PreemptionResult::Unhelpful => unhelpful += 1,
                PreemptionResult::NoVictims => helpless += 1,
            }
        }
        match candidates.into_iter().min_by_key(Candidate::cost) {
            Some(candidate) => Preemption::Node(self.evict_for(ix, pod, candidate)),
            None => Preemption::Nobody(no_victims_message(order.len(), unhelpful, helpless)),
        }
    }

    /// Whether pods are leaving for it already.
    fn waits_for_leavers(&self, ix: u32, pod: &Pod) -> bool {
        let nominated = self.pods.get(ix).and_then(|entry| entry.nominated);
        nominated.and_then(|node| self.nodes.get(node)).is_some_and(|state| {
            let lower = |other: &Pod| other.spec.priority < pod.spec.priority;
            state.pods.iter().any(|(other, known)| lower(known) && self.is_leaving(*other, known))
        })
    }

    fn is_leaving(&self, ix: u32, pod: &Pod) -> bool {
        pod.deleting || self.evicting.contains(&ix)
    }

    fn candidate(&mut self, ix: u32, pod: &Pod, needs: &Needs, node: u32) -> PreemptionResult {
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
        self.allocator.spend(of_terms);
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

    fn evict_for(&mut self, ix: u32, pod: &Pod, candidate: Candidate) -> Text {
        let Some(node) = invariant!(
            self.nodes.get(candidate.node).map(|state| state.name.clone()),
            "the number of a node leads to it"
        ) else {
            return Text::default();
        };
        for (victim_ix, victim) in candidate.victims {
            let evict = Evict {
                victim: victim.key.clone(),
                uid: victim.uid.clone(),
                preemptor: pod.key.clone(),
                message: format!("{}: preempting to accommodate a higher priority pod", pod.spec.scheduler)
                    .into(),
                at: self.now,
            };
            self.evicting.insert(victim_ix);
            self.outbox.launch(Purpose::Evict(victim_ix), EffectKind::Evict(evict));
            let message = format!("Preempted by pod {} on node {node}", pod.uid);
            self.post_event(&victim, EventKind::Preempted, &message);
        }
        self.set_nominated(ix, Some(&node));
        node
    }
}

/// The result for one node.
#[derive(Debug)]
enum PreemptionResult {
    /// It fits if these leave.
    Fits(Candidate),
    /// Even without all of lower priority it does not.
    Unhelpful,
    /// No pod there has a lower priority.
    NoVictims,
}

fn no_victims_message(nodes: usize, unhelpful: usize, helpless: usize) -> String {
    let mut reasons = Vec::new();
    if helpless > 0 {
        reasons.push(format!("{helpless} No preemption victims found for incoming pod"));
    }
    if unhelpful > 0 {
        reasons.push(format!("{unhelpful} Preemption is not helpful for scheduling"));
    }
    reasons.sort_unstable();
    format!("0/{nodes} nodes are available: {}.", reasons.join(", "))
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
