//! A node and devices for a pod.

use alloc::{string::ToString, sync::Arc, vec::Vec};

use lazaret_allocator::{TimedTolerations, have_timed_tolerations};
use lazaret_fleet::{SliceState, Snapshot};
use lazaret_model::{Allocation, NodeScope, Text};

use crate::{
    Claim, Pod,
    budget::AttemptId,
    claim_writes::Entry,
    claims,
    devices::{Chosen, Devices, ExtendedNeed, SearchResult},
    extended::{self, ClassesByResource},
    filter::{Filter, Tally, count, lacks},
    needs::{Needs, Placement},
    nodes::NodeState,
    pod_affinity::{AffinityCounts, PodLocations},
    ready::{Readiness, readiness},
    score,
    search::{self, SavedSearch, Search},
    share::ShareIds,
    shares::{Footprint, Shares},
    state::Scheduler,
    terms,
    why::{ClaimProblem, Verdict},
};

impl Scheduler {
    /// A place that the pod can keep if there is one; otherwise one whose devices it tolerates for a time.
    pub(crate) fn find_place(&mut self, ix: u32, pod: &Pod, needs: &Needs) -> Result<Placement, Verdict> {
        self.find_place_among(ix, pod, needs, None)
    }

    /// The same on this node alone.
    pub(crate) fn find_place_on(
        &mut self,
        ix: u32,
        pod: &Pod,
        needs: &Needs,
        node: u32,
    ) -> Result<Placement, Verdict> {
        self.find_place_among(ix, pod, needs, Some(node))
    }

    fn find_place_among(
        &mut self,
        ix: u32,
        pod: &Pod,
        needs: &Needs,
        only: Option<u32>,
    ) -> Result<Placement, Verdict> {
        let began = self.unfinished.is_last_resort(ix, &pod.uid) && only.is_none();
        if !began && have_timed_tolerations(&needs.open()) {
            match self.find_place_with(ix, pod, needs, TimedTolerations::Ignored, only) {
                Err(Verdict::Nowhere(_)) => {}
                found => return found,
            }
        }
        self.find_place_with(ix, pod, needs, TimedTolerations::LastUntilOver(self.now), only)
    }

    fn find_place_with(
        &mut self,
        ix: u32,
        pod: &Pod,
        needs: &Needs,
        timed_tolerations: TimedTolerations,
        only: Option<u32>,
    ) -> Result<Placement, Verdict> {
        let open = needs.open();
        let with_devices = !open.is_empty() || !needs.extended.is_empty();
        let snapshot = if with_devices { self.count_devices() } else { self.counted.clone() };
        // Where a node has extended resources of its own it needs no device.
        let needs_device = needs.extended.is_empty() && search::needs_device_of_node(&open, &snapshot);
        let of_terms = terms::units(pod, &self.nodes).map_err(Verdict::Failed)?;
        self.allocator.charge(of_terms);
        let around = PodLocations { nodes: &self.nodes, namespaces: &self.namespaces, without: &[] };
        let (pod_affinity, usable) = (AffinityCounts::of(pod, around), needs.usable());
        let (delegated, extra) = (&self.delegated, needs.extra());
        let filter =
            Filter { pod, pod_ix: ix, delegated, pod_affinity: &pod_affinity, usable: &usable, extra };
        let attempt = AttemptId {
            uid: &pod.uid,
            open: &open,
            last_resort: timed_tolerations != TimedTolerations::Ignored,
            nodes_revision: self.nodes.revision(),
        };
        let remembers = with_devices && only.is_none() && !self.rehearsing;
        let saved = if remembers { self.unfinished.resume(ix, &attempt) } else { None };
        let start = saved.as_ref().map_or(self.start, SavedSearch::start);
        let mut search = Search::new(&self.nodes, start, self.quota(), needs_device, &filter);
        match (only, saved) {
            (Some(node), _) => search.restrict(node),
            (None, Some(saved)) => search.resume(saved),
            (None, None) => search.try_first(self.pods.get(ix).and_then(|entry| entry.nominated)),
        }
        let mut devices = Devices {
            allocator: &mut self.allocator,
            snapshot: &snapshot,
            overlay: &self.overlay,
            open: &open,
            extended: ExtendedNeed { pod, resources: &needs.extended, delegated: &self.delegated },
            prefer_healthy: self.options.prefer_healthy,
            timed_tolerations,
            ids: ShareIds::new(&pod.uid, self.now, self.decisions),
        };
        let chosen: Option<(Chosen<'_>, Option<Footprint>)> = loop {
            let batch = search.next_batch(&filter);
            if batch.is_empty() {
                break None;
            }
            let states: Vec<&NodeState> = batch.iter().filter_map(|&node| self.nodes.get(node)).collect();
            let scores = score::scores(pod, around, &states, self.options.packing);
            if !with_devices {
                let bare = best(&scores).map(|at| Chosen::bare(states[at]));
                break bare.map(|bare| (bare, needs.footprint.clone()));
            }
            let taken = ClaimAmounts { shares: &self.shares, pod, needs, delegated };
            match taken.choose(&mut devices, ranked(&scores, &states), &mut search.nowhere.refusals)? {
                SearchResult::On(found) => break Some(found),
                SearchResult::Nowhere(groups) => search.without_devices(groups),
                SearchResult::Unfinished(groups, left) => {
                    let left = left.iter().filter_map(|name| self.nodes.find(name)).collect();
                    let (saved, verdict) = search.stop(groups, left, self.options.backoff_ms_max);
                    if remembers {
                        self.unfinished.save(ix, &attempt, saved, self.verdict_cache.happened());
                    }
                    return Err(verdict);
                }
            }
        };
        let next = (self.start + search.visited()) % self.nodes.order().len().max(1);
        let Some((chosen, footprint)) = chosen else {
            let nowhere = search.nowhere(&filter);
            self.start = next;
            return Err(Verdict::Nowhere(nowhere));
        };
        self.start = next;
        let (node, extended) = (chosen.node.name.clone(), chosen.extended);
        Ok(Placement { node, claims: pair(needs, chosen.allocations), extended, footprint })
    }

    /// The pod's claims, if they let it be placed anywhere.
    pub(crate) fn needs(&mut self, ix: u32, pod: &Pod) -> Result<Needs, ClaimProblem> {
        let mut needs = Needs::default();
        if !pod.spec.containers.is_empty() {
            needs.extended = extended::wanted(pod, &self.delegated);
            // It may run with the claim of that attempt, seen or not.
            if !needs.extended.is_empty() && self.waits_for_binding(ix) {
                return Err(ClaimProblem::MayBeBound);
            }
            // Of an earlier attempt: it may not fit the node that is found now.
            if let Some(left) =
                self.claim_cache.made_for(&pod.uid).and_then(|key| self.claim_cache.get(key)).cloned()
            {
                self.delete_claim(ix, left.claim.key.clone(), left.claim.uid.clone());
                return Err(ClaimProblem::BeingFreed(left.claim.key.clone()));
            }
        }
        if let Some(group) = self.claim_cache.group(pod)?
            && group.gang.is_some()
            && self.negotiates(pod)
        {
            return Err(ClaimProblem::ClassicInGang(group.key.clone()));
        }
        if pod.claims.is_empty() {
            return Ok(needs);
        }
        needs.claims = claims::resolve(&self.claim_cache, pod)?;
        for claim in &needs.claims {
            let key = &claim.claim.key;
            let entry = self.claim_writes.get(key).filter(|entry| entry.uid == claim.claim.uid);
            if entry.is_some_and(|entry| entry.frees(claim.version)) {
                return Err(ClaimProblem::BeingFreed(key.clone()));
            }
            claims::check_room(&self.claim_cache, claim, pod, entry.map_or(0, Entry::coming))?;
            let given = self.allocation_of(claim);
            match &given {
                Some(allocation) => {
                    claims::check_taints(&self.fleet, key, allocation, self.now)?;
                    self.check_given_once(ix, claim, pod)?;
                    let ready = readiness(claim, allocation, self.now, self.options.binding_timeout_s);
                    if let Readiness::Failed(message) = ready {
                        return Err(ClaimProblem::NotReady { claim: key.clone(), message: message.into() });
                    }
                }
                None => claims::check_classes(claim, &self.fleet.snapshot())?,
            }
            let unclaimed = |entry: &Entry| entry.coming() == 0 && entry.is_seen(claim.version);
            let alone = || entry.is_none_or(unclaimed) && self.claim_cache.is_used_only_by(claim, pod);
            if given.as_deref().is_some_and(|given| self.shares.has_mapping(given)) && !alone() {
                return Err(ClaimProblem::NotShareable(key.clone()));
            }
            needs.allocations.push(given);
        }
        needs.footprint = self.shares.footprint(pod, needs.all(&[]))?;
        Ok(needs)
    }

    /// The number of suitable nodes of which the best is taken.
    fn quota(&self) -> usize {
        search::sample(self.nodes.order().len(), self.options.sample_percent as usize)
    }

    /// The fleet as it is now, with the free devices of nodes counted. Costs what changed.
    fn count_devices(&mut self) -> Arc<Snapshot> {
        let snapshot = self.fleet.snapshot();
        if !Arc::ptr_eq(&snapshot, &self.counted) {
            for name in snapshot.changed_nodes(&self.counted) {
                if let Some(state) = self.nodes.find(name).and_then(|ix| self.nodes.get_mut(ix)) {
                    state.devices_free = devices_free(&snapshot, name);
                }
            }
            self.counted = snapshot.clone();
        }
        snapshot
    }
}

fn devices_free(snapshot: &Snapshot, node: &Text) -> usize {
    let is_own = |slice: &&Arc<SliceState>| matches!(slice.nodes(), NodeScope::Node(name) if name == node);
    let free =
        |slice: &Arc<SliceState>| slice.len().saturating_sub(slice.in_use_bits().count_ones() as usize);
    let slices = snapshot.pools_of_node(node).flat_map(|pool| &pool.slices);
    slices.filter(is_own).map(free).sum()
}

/// The amounts that the claims of a pod take of nodes, during a search.
struct ClaimAmounts<'a> {
    shares: &'a Shares,
    pod: &'a Pod,
    needs: &'a Needs,
    delegated: &'a ClassesByResource,
}

impl ClaimAmounts<'_> {
    /// The first of the nodes that has the devices and what these take of it.
    fn choose<'n>(
        &self,
        devices: &mut Devices<'_>,
        mut nodes: Vec<&'n NodeState>,
        refusals: &mut Tally,
    ) -> Result<SearchResult<(Chosen<'n>, Option<Footprint>)>, Verdict> {
        loop {
            let chosen = match devices.choose(&nodes) {
                Ok(SearchResult::On(chosen)) => chosen,
                Ok(SearchResult::Nowhere(groups)) => return Ok(SearchResult::Nowhere(groups)),
                Ok(SearchResult::Unfinished(groups, left)) => {
                    return Ok(SearchResult::Unfinished(groups, left));
                }
                Err(error) => return Err(Verdict::Failed(error.to_string())),
            };
            let found = self.shares.footprint(self.pod, self.needs.all(&chosen.allocations));
            let Some(footprint) = found.map_err(Verdict::Claims)? else {
                return Ok(SearchResult::On((chosen, None)));
            };
            let short = lacks(chosen.node, self.pod, &footprint.extra, self.delegated);
            if short.is_empty() {
                return Ok(SearchResult::On((chosen, Some(footprint))));
            }
            short.into_iter().for_each(|refusal| count(refusals, refusal));
            nodes.retain(|state| state.name != chosen.node.name);
            if nodes.is_empty() {
                return Ok(SearchResult::Nowhere(Vec::new()));
            }
        }
    }
}

/// Gives each open claim its allocation, in order.
fn pair(needs: &Needs, allocations: Vec<Allocation>) -> Vec<(Arc<Claim>, Option<Allocation>)> {
    let mut allocations = allocations.into_iter();
    let claims = needs.claims.iter().zip(&needs.allocations);
    claims
        .map(|(claim, given)| (claim.clone(), if given.is_some() { None } else { allocations.next() }))
        .collect()
}

/// The place of the best; among equals the first.
fn best(scores: &[i64]) -> Option<usize> {
    (0..scores.len()).max_by_key(|&at| (scores[at], core::cmp::Reverse(at)))
}

/// The nodes, best first; equals in the order in which they came.
pub(crate) fn ranked<'a>(scores: &[i64], states: &[&'a NodeState]) -> Vec<&'a NodeState> {
    let mut order: Vec<usize> = (0..states.len()).collect();
    order.sort_by_key(|&at| core::cmp::Reverse(scores[at]));
    order.into_iter().map(|at| states[at]).collect()
}
