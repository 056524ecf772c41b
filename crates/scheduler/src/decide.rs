//! One pod: a node and devices for it, or why not.

use alloc::{collections::BTreeSet, string::ToString, sync::Arc, vec::Vec};

use lazaret_allocator::{TimedTolerations, have_timed_tolerations};
use lazaret_model::{Allocation, ObjectKey, ResourceClaim, Text};

use crate::{
    Amounts, Claim, Pod,
    causes::Cause,
    claim_writes::Entry,
    claims,
    devices::{Chosen, Devices, ExtendedNeed, Had},
    extended::{self, Delegated},
    filter::{Filter, Tally, Usable, count, lacks, skips_node_operations},
    flight::{ExtendedClaim, Flight},
    machine::{Alarm, Scheduler},
    neighbours::{Neighbours, Surroundings},
    nodes::NodeState,
    preempt::Preemption,
    ready::{Readiness, readiness},
    score,
    search::{self, Search},
    share::ShareIds,
    shares::{Footprint, Shares},
    why::{ClaimProblem, Refusal, Verdict, Why},
};

/// A claim or a pod that is expected to be made any moment is waited for so long before anything is said about it.
const PATIENCE_MS: i64 = 3_000;
/// How often that may be while claims of other pods are being made: 30 s in all.
const POSTPONED_MAX: u32 = 10;

/// Where a pod goes and what it gets.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) node: Text,
    /// Its claims, each with the devices it is to get if it has none.
    pub(crate) claims: Vec<(Arc<Claim>, Option<Allocation>)>,
    /// The claim to be made for it.
    pub(crate) extended: Option<ExtendedClaim>,
    /// What its claims take of the node.
    pub(crate) footprint: Option<Footprint>,
}

/// A placement that counts and of which nothing is written.
pub(crate) struct Held {
    /// The claims that are to be written.
    reserving: BTreeSet<ObjectKey>,
}

/// A pod's claims, as far as they concern where it can go.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    pub(crate) claims: Vec<Arc<Claim>>,
    /// What claims have already, by claim.
    pub(crate) allocations: Vec<Option<Arc<Allocation>>>,
    /// Resources that devices can stand in for where nodes have none of their own.
    pub(crate) extended: Vec<Text>,
    /// What the claims that have devices already take of the node.
    pub(crate) footprint: Option<Footprint>,
}

impl Needs {
    /// What the claims take of the node beside the pod's requests, as far as is known before a node is chosen.
    pub(crate) fn extra(&self) -> Option<&Amounts> {
        self.footprint.as_ref().map(|footprint| &*footprint.extra)
    }

    /// The allocations of all claims, with those that were found for open ones, in order.
    fn all<'a>(&'a self, found: &'a [Allocation]) -> impl Iterator<Item = (&'a ObjectKey, &'a Allocation)> {
        let mut found = found.iter();
        self.claims.iter().zip(&self.allocations).filter_map(move |(claim, given)| {
            let allocation = match given {
                Some(given) => Some(&**given),
                None => found.next(),
            };
            allocation.map(|allocation| (&claim.claim.key, allocation))
        })
    }

    /// The claims that have nothing yet.
    pub(crate) fn open(&self) -> Vec<Arc<ResourceClaim>> {
        let claims = self.claims.iter().zip(&self.allocations);
        claims.filter(|(_, given)| given.is_none()).map(|(claim, _)| claim.claim.clone()).collect()
    }

    /// Where the others can be used.
    pub(crate) fn usable(&self) -> Usable<'_> {
        Usable::of(self.allocations.iter().flatten().map(|given| &**given))
    }
}

impl Scheduler {
    /// Decides on a pod that the queue gave out.
    pub(crate) fn decide(&mut self, ix: u32) {
        let Some(pod) = self.pods.get(ix).map(|entry| entry.pod.clone()) else {
            return self.queue.leave(ix);
        };
        if let Some(gang) = self.incomplete_gang(&pod) {
            return self.decide_gang(ix, &gang);
        }
        self.decisions += 1;
        let needs = match self.needs(ix, &pod) {
            Ok(needs) => needs,
            Err(problem) => return self.give_up(ix, &pod, Arc::new(Why::of(Verdict::Claims(problem))), None),
        };
        if !needs.claims.is_empty() {
            self.claim_made = self.now;
        }
        if self.negotiates(&pod) {
            if let Err(verdict) = self.decide_classic(ix, &pod, &needs) {
                let (why, node) = self.force(ix, &pod, &needs, verdict);
                self.give_up(ix, &pod, Arc::new(why), node);
            }
            return;
        }
        let nominated = self.pods.get(ix).and_then(|entry| entry.nominated);
        let by_labels = self.nodes.apart().terms().next().is_some();
        let known = self.memo.recall(&pod, &needs, by_labels);
        if let Some((why, message)) = known.filter(|_| nominated.is_none()) {
            self.queue.park(self.now, ix, why.causes());
            return self.report(ix, why, &message, None);
        }
        match self.find_place(ix, &pod, &needs) {
            Ok(placement) => {
                let held = self.hold(ix, &pod, placement);
                // Whoever must be near it, or waits for an even spread, need not wait until it is bound.
                self.happened(Cause::Neighbours);
                self.send(ix, &pod, held);
            }
            Err(verdict) => {
                let (why, node) = self.force(ix, &pod, &needs, verdict);
                if matches!(why.verdict, Verdict::Nowhere(_)) && node.is_none() && nominated.is_none() {
                    let why = Arc::new(why);
                    self.memo.remember(&pod, &needs, &why, &why.message().into());
                    return self.give_up(ix, &pod, why, None);
                }
                self.give_up(ix, &pod, Arc::new(why), node);
            }
        }
    }

    /// Makes room by force for a pod that fits nowhere, if that helps.
    fn force(&mut self, ix: u32, pod: &Pod, needs: &Needs, verdict: Verdict) -> (Why, Option<Text>) {
        let helps = match &verdict {
            Verdict::Nowhere(nowhere) => nowhere.refusals.keys().any(Refusal::yields_to_preemption),
            Verdict::Gated(_) | Verdict::Claims(_) | Verdict::Classic(_) | Verdict::Failed(_) => false,
        };
        let mut why = Why::of(verdict);
        if !helps || !self.options.preemption {
            return (why, None);
        }
        match self.preempt(ix, pod, needs) {
            Preemption::Node(node) => (why, Some(node)),
            Preemption::Waiting(message) => {
                why.preemption = Some(message.into());
                let nominated = self.pods.get(ix).and_then(|entry| self.nodes.get(entry.nominated?));
                let node = nominated.map(|state| state.name.clone());
                (why, node)
            }
            Preemption::Nobody(message) => {
                why.preemption = Some(message);
                (why, None)
            }
        }
    }

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
        if have_timed_tolerations(&needs.open()) {
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
        let around = Surroundings { nodes: &self.nodes, namespaces: &self.namespaces, without: &[] };
        let (neighbours, usable) = (Neighbours::of(pod, around), needs.usable());
        let (delegated, extra) = (&self.delegated, needs.extra());
        let filter = Filter { pod, pod_ix: ix, delegated, neighbours: &neighbours, usable: &usable, extra };
        let mut search = Search::new(&self.nodes, self.start, self.quota(), needs_device, &filter);
        match only {
            Some(node) => search.restrict(node),
            None => search.begin_with(self.pods.get(ix).and_then(|entry| entry.nominated)),
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
            let taken = Taken { shares: &self.shares, pod, needs, delegated };
            match taken.choose(&mut devices, ranked(&scores, &states), &mut search.nowhere.refusals)? {
                Had::On(found) => break Some(found),
                Had::Nowhere(groups) => search.without_devices(groups),
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
            // Of an earlier attempt: whether it would do on the node that is found now, nobody knows.
            if let Some(left) = self.book.made_for(&pod.uid).and_then(|key| self.book.get(key)).cloned() {
                self.delete_claim(ix, left.claim.key.clone(), left.claim.uid.clone());
                return Err(ClaimProblem::BeingFreed(left.claim.key.clone()));
            }
        }
        if let Some(group) = self.book.group(pod)?
            && group.gang.is_some()
            && self.negotiates(pod)
        {
            return Err(ClaimProblem::ClassicInGang(group.key.clone()));
        }
        if pod.claims.is_empty() {
            return Ok(needs);
        }
        needs.claims = claims::resolve(&self.book, pod)?;
        for claim in &needs.claims {
            let key = &claim.claim.key;
            let entry = self.claim_writes.get(key).filter(|entry| entry.uid == claim.claim.uid);
            if entry.is_some_and(|entry| entry.frees(claim.version)) {
                return Err(ClaimProblem::BeingFreed(key.clone()));
            }
            claims::check_room(&self.book, claim, pod, entry.map_or(0, Entry::coming))?;
            let given = self.allocation_of(claim);
            match &given {
                Some(allocation) => {
                    claims::check_taints(&self.fleet, key, allocation, self.now)?;
                    let ready = readiness(claim, allocation, self.now, self.options.binding_timeout_s);
                    if let Readiness::Failed(message) = ready {
                        return Err(ClaimProblem::NotReady { claim: key.clone(), message: message.into() });
                    }
                }
                None => claims::check_classes(claim, &self.fleet.snapshot())?,
            }
            let unclaimed = |entry: &Entry| entry.coming() == 0 && entry.is_seen(claim.version);
            let alone = || entry.is_none_or(unclaimed) && self.book.is_free_but_for(claim, pod);
            if given.as_deref().is_some_and(|given| self.shares.has_mapping(given)) && !alone() {
                return Err(ClaimProblem::NotShareable(key.clone()));
            }
            needs.allocations.push(given);
        }
        needs.footprint = self.shares.footprint(pod, needs.all(&[]))?;
        Ok(needs)
    }

    /// Whether other pods of a pod's group use the claim that they have together.
    fn is_used_by_group(&self, claim: &Claim, pod: &Pod) -> bool {
        let key = &claim.claim.key;
        let placed = |user: &u32| self.pods.get(*user).is_some_and(|entry| entry.on.is_some());
        self.book.sharing(pod, key).is_some() && self.book.users(key).iter().any(placed)
    }

    /// Of how many nodes that would do the best is taken.
    pub(crate) fn quota(&self) -> usize {
        search::sample(self.nodes.order().len(), self.options.sample_percent as usize)
    }

    /// Everything counts as done from now on; nothing is written yet.
    pub(crate) fn hold(&mut self, ix: u32, pod: &Arc<Pod>, placement: Placement) -> Held {
        let extra = placement.footprint.as_ref().map(|footprint| footprint.extra.clone());
        let on = if pod.extra == extra {
            self.nodes.place(&placement.node, ix, pod)
        } else {
            self.nodes.place(&placement.node, ix, &Arc::new(Pod { extra, ..Pod::clone(pod) }))
        };
        self.set_on(ix, Some(on));
        let claims = placement.claims.iter().map(|(claim, _)| claim.claim.key.clone()).collect();
        let mut reserving = BTreeSet::new();
        for (claim, allocation) in placement.claims {
            if self.want_claim(ix, pod, &claim, allocation) {
                reserving.insert(claim.claim.key.clone());
            }
        }
        if let Some(extended) = &placement.extended {
            self.overlay.insert(&extended.stand_in, &extended.allocation);
        }
        let flight = Flight {
            claims,
            reserving: reserving.clone(),
            extended: placement.extended,
            taken: placement.footprint.map(|footprint| footprint.statuses),
            ..Flight::default()
        };
        self.flights.insert(ix, flight);
        Held { reserving }
    }

    /// The writes follow.
    pub(crate) fn send(&mut self, ix: u32, pod: &Pod, held: Held) {
        self.set_nominated(ix, None);
        held.reserving.iter().for_each(|key| self.write_claim(key));
        match self.flights.get(&ix).and_then(|flight| flight.extended.clone()) {
            Some(extended) => self.make_claim(ix, pod, &extended),
            None => self.proceed(ix),
        }
    }

    // === Giving up ===

    /// Puts a pod back, and says why. `nominated`: others leave that node for it; if none do, no room is kept.
    pub(crate) fn give_up(&mut self, ix: u32, pod: &Pod, why: Arc<Why>, nominated: Option<Text>) {
        // As the status is, or will be once what is being said is written.
        let told = self.being_said(ix).or_else(|| pod.nominated.clone()).filter(|node| !node.is_empty());
        let kept = told.is_some() || self.pods.get(ix).is_some_and(|entry| entry.nominated.is_some());
        let nominated = match nominated {
            None if kept => {
                self.set_nominated(ix, None);
                Some(Text::default())
            }
            other => other.filter(|node| told.as_ref() != Some(node)),
        };
        self.free_what_hinders(ix, pod, &why.verdict);
        match why.verdict {
            // Hardly is a pod there, its claims and the rest of its gang follow: nothing worth telling, unless it lasts.
            Verdict::Claims(ref problem) if self.is_expected(ix, problem) => {
                if let Some(entry) = self.pods.get_mut(ix) {
                    entry.why = Some(why.clone());
                }
                return self.queue.postpone(self.now, ix, why.causes(), PATIENCE_MS);
            }
            Verdict::Failed(_) => self.queue.back_off(self.now, ix),
            Verdict::Claims(_) | Verdict::Nowhere(_) | Verdict::Classic(_) | Verdict::Gated(_) => {
                self.queue.park(self.now, ix, why.causes());
            }
        }
        let message = why.message().into();
        self.report(ix, why, &message, nominated);
    }

    /// Whether a pod lacks something that is expected any moment. A claim is while those of other pods are being made: its own has its turn.
    fn is_expected(&self, ix: u32, problem: &ClaimProblem) -> bool {
        let claim = matches!(problem, ClaimProblem::NotMade { .. });
        let gang = matches!(problem, ClaimProblem::GangIncomplete { .. });
        let postponed = self.queue.postponed(ix);
        let others_made = self.now < self.claim_made.plus_millis(PATIENCE_MS);
        let again = claim && others_made && postponed < POSTPONED_MAX;
        (claim || gang) && self.queue.attempts(ix) <= 1 && (postponed == 0 || again)
    }

    /// A claim of the pod that nobody else uses may hold devices with which the pod can go nowhere: they are given
    /// back, one claim at a time, and the pod is tried again when that is seen.
    fn free_what_hinders(&mut self, ix: u32, pod: &Pod, verdict: &Verdict) {
        if let Some(until) = self.pods.get(ix).map(|entry| entry.uncertain_until)
            && self.now < until
        {
            return self.set_alarm(until, Alarm::Retry(ix));
        }
        let Ok(claims) = claims::resolve(&self.book, pod) else { return };
        let hinders = |claim: &Claim| match verdict {
            Verdict::Claims(problem) => problem.would_do_with_others() == Some(&claim.claim.key),
            Verdict::Nowhere(nowhere) => {
                let is_bound =
                    |given: &Allocation| given.node_selector.is_some() || skips_node_operations(given);
                let bound = claim.claim.allocation.as_deref().is_some_and(is_bound);
                bound && nowhere.claim_elsewhere
            }
            Verdict::Gated(_) | Verdict::Classic(_) | Verdict::Failed(_) => false,
        };
        let hindering: Vec<&Arc<Claim>> = claims
            .iter()
            .filter(|claim| claim.claim.allocation.is_some() && self.book.is_free_but_for(claim, pod))
            .filter(|claim| !self.is_used_by_group(claim, pod))
            .filter(|claim| hinders(claim))
            .collect();
        if !hindering.is_empty() {
            let turn = self.queue.attempts(ix) as usize % hindering.len();
            self.give_back(hindering[turn]);
        }
    }
}

/// What the claims of a pod take of nodes, while one is looked for.
struct Taken<'a> {
    shares: &'a Shares,
    pod: &'a Pod,
    needs: &'a Needs,
    delegated: &'a Delegated,
}

impl Taken<'_> {
    /// The first of the nodes that has the devices and what these take of it.
    fn choose<'n>(
        &self,
        devices: &mut Devices<'_>,
        mut nodes: Vec<&'n NodeState>,
        refusals: &mut Tally,
    ) -> Result<Had<(Chosen<'n>, Option<Footprint>)>, Verdict> {
        loop {
            let chosen = match devices.choose(&nodes) {
                Ok(Had::On(chosen)) => chosen,
                Ok(Had::Nowhere(groups)) => return Ok(Had::Nowhere(groups)),
                Err(error) => return Err(Verdict::Failed(error.to_string())),
            };
            let found = self.shares.footprint(self.pod, self.needs.all(&chosen.allocations));
            let Some(footprint) = found.map_err(Verdict::Claims)? else {
                return Ok(Had::On((chosen, None)));
            };
            let short = lacks(chosen.node, self.pod, &footprint.extra, self.delegated);
            if short.is_empty() {
                return Ok(Had::On((chosen, Some(footprint))));
            }
            short.into_iter().for_each(|refusal| count(refusals, refusal));
            nodes.retain(|state| state.name != chosen.node.name);
            if nodes.is_empty() {
                return Ok(Had::Nowhere(Vec::new()));
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
