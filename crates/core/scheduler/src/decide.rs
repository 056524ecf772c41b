//! One pod: decided on, sent to its node or given up.

use alloc::{collections::BTreeSet, format, sync::Arc, vec::Vec};

use lazaret_model::{Allocation, Text};

use crate::{
    Claim, Pod,
    budget::Unfinished,
    causes::Cause,
    claims,
    filter::skips_node_operations,
    flight::Flight,
    needs::{AssumedPlacement, Needs, Placement},
    preempt::{Preemption, preemption_goes_on},
    state::{PodEntry, Scheduler},
    turn_limits::DOUBLINGS_MAX,
    why::{ClaimProblem, PendingReason, Refusal, Verdict},
};

/// Time to wait for a claim or a pod that is being created before a condition says that it is missing.
const PATIENCE_MS: i64 = 3_000;
/// How often that may be while claims of other pods are being made: 30 s in all.
const POSTPONED_MAX: u32 = 10;

impl Scheduler {
    /// Decides on a pod that the queue gave out, within the budget of a turn.
    pub(crate) fn take_turn(&mut self, ix: u32) {
        let namespace = self.pods.get(ix).map(|entry| entry.pod.key.namespace.clone());
        let before = self.allocator.spent();
        self.allocator.allow(self.turn_units(ix));
        self.decide(ix);
        let units = self.allocator.spent() - before;
        self.work = self.work.saturating_add(units);
        if let Some(namespace) = namespace {
            self.queue.charge(&namespace, units);
        }
    }

    /// The budget of a turn of a pod: larger when the turns before got no further.
    pub(crate) fn turn_units(&self, ix: u32) -> u64 {
        let begins_anew = |entry: &PodEntry| entry.pod.group.is_some() || !entry.pod.classic.is_empty();
        let preempting = self.unfinished.preemptions.get(ix).map(|saved| saved.progress.stuck);
        let stuck = match (self.unfinished.get(ix), preempting) {
            (Some(unfinished), _) => unfinished.stuck,
            (None, Some(stuck)) => stuck,
            (None, None) if self.pods.get(ix).is_some_and(begins_anew) => {
                self.queue.attempts(ix).saturating_sub(1)
            }
            (None, None) => 0,
        };
        self.options.turn_units.saturating_mul(1 << stuck.min(DOUBLINGS_MAX))
    }

    /// The turn is over before the nodes were all tried: the pod has another, or its attempt is over as well.
    fn turn_is_over(&mut self, ix: u32, pod: &Pod, verdict: Verdict, before: (u64, u64, usize)) {
        let (spent, learnt) = (self.allocator.spent(), self.allocator.learnt());
        let Some(unfinished) = self.unfinished.get_mut(ix) else {
            return self.give_up(ix, pod, Arc::new(PendingReason::of(verdict)), None);
        };
        let (spent_before, learnt_before, tried_before) = before;
        unfinished.spent = unfinished.spent.saturating_add(spent - spent_before);
        if learnt != learnt_before || unfinished.tried() != tried_before {
            unfinished.stuck = 0;
        } else if unfinished.stuck < DOUBLINGS_MAX {
            unfinished.stuck += 1;
        } else {
            unfinished.stuck = 0;
            unfinished.pass_over();
        }
        if unfinished.spent < self.options.attempt_units {
            return self.queue.go_on_later(ix);
        }
        unfinished.spent = 0;
        self.give_up(ix, pod, Arc::new(PendingReason::of(verdict)), None);
    }

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
            Err(problem) => {
                return self.give_up(ix, &pod, Arc::new(PendingReason::of(Verdict::Claims(problem))), None);
            }
        };
        if !needs.claims.is_empty() {
            self.claim_made = self.now;
        }
        if self.negotiates(&pod) {
            if let Err(verdict) = self.decide_classic(ix, &pod, &needs)
                && let Some((why, node)) = self.force(ix, &pod, &needs, verdict, 0)
            {
                self.give_up(ix, &pod, Arc::new(why), node);
            }
            return;
        }
        if let Some(verdict) = preemption_goes_on(self, ix, &pod).cloned() {
            return fits_nowhere(self, ix, &pod, &needs, (verdict, None));
        }
        let nominated = self.pods.get(ix).and_then(|entry| entry.nominated);
        let by_labels = self.nodes.anti_affinity_terms().terms().next().is_some();
        let known = self.verdict_cache.recall(&pod, &needs, by_labels);
        if let Some((why, message)) = known.filter(|_| nominated.is_none()) {
            self.queue.park(self.now, ix, why.causes());
            return self.report(ix, why, &message, None);
        }
        let tried = self.unfinished.get(ix).map_or(0, Unfinished::tried);
        let before = (self.allocator.spent(), self.allocator.learnt(), tried);
        let found = self.find_place(ix, &pod, &needs);
        if let Err(verdict @ Verdict::Unfinished { .. }) = found {
            return self.turn_is_over(ix, &pod, verdict, before);
        }
        let attempt = self.unfinished.end_search(ix);
        match found {
            Ok(placement) => {
                self.unfinished.end(ix);
                let held = self.hold(ix, &pod, placement);
                // Pods with affinity to it, or that wait for an even spread, need not wait until it is bound.
                self.happened(Cause::Neighbours);
                self.send(ix, &pod, held);
            }
            Err(verdict) => fits_nowhere(self, ix, &pod, &needs, (verdict, attempt)),
        }
    }

    /// Makes room by force for a pod that fits nowhere, if that helps; nothing where that goes on in the pod's next turn.
    /// `spent`: the units that the search for a place took in earlier turns.
    fn force(
        &mut self,
        ix: u32,
        pod: &Pod,
        needs: &Needs,
        verdict: Verdict,
        spent: u64,
    ) -> Option<(PendingReason, Option<Text>)> {
        let helps = match &verdict {
            Verdict::Nowhere(nowhere) => nowhere.refusals.keys().any(Refusal::yields_to_preemption),
            Verdict::Gated(_)
            | Verdict::Claims(_)
            | Verdict::Classic(_)
            | Verdict::Failed(_)
            | Verdict::Unfinished { .. } => false,
        };
        let mut why = PendingReason::of(verdict);
        if !helps || !self.options.preemption {
            return Some((why, None));
        }
        match self.preempt(ix, pod, needs, (&why.verdict, spent)) {
            Preemption::Node(node) => return Some((why, Some(node))),
            Preemption::Waiting(message) => {
                why.preemption = Some(message.into());
                let nominated = self.pods.get(ix).and_then(|entry| self.nodes.get(entry.nominated?));
                let node = nominated.map(|state| state.name.clone());
                return Some((why, node));
            }
            Preemption::Nobody(message) => why.preemption = Some(message),
            Preemption::GoesOn => {
                self.queue.go_on_later(ix);
                return None;
            }
            Preemption::Unfinished(tried, nodes) => {
                let message =
                    format!("the budget was spent after {tried} of {nodes} nodes; it goes on from there.");
                why.preemption = Some(message);
                why.retries = true;
            }
        }
        Some((why, None))
    }

    /// Whether other pods of a pod's group use the claim that they have together.
    fn is_used_by_group(&self, claim: &Claim, pod: &Pod) -> bool {
        let key = &claim.claim.key;
        let placed = |user: &u32| self.pods.get(*user).is_some_and(|entry| entry.on.is_some());
        self.claim_cache.sharing(pod, key).is_some() && self.claim_cache.users(key).iter().any(placed)
    }

    /// Everything counts as done from now on; nothing is written yet.
    pub(crate) fn hold(&mut self, ix: u32, pod: &Arc<Pod>, placement: Placement) -> AssumedPlacement {
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
            self.overlay.insert(&extended.planned_claim_uid, &extended.allocation);
        }
        let flight = Flight {
            claims,
            reserving: reserving.clone(),
            extended: placement.extended,
            taken: placement.footprint.map(|footprint| footprint.statuses),
            ..Flight::default()
        };
        self.flights.insert(ix, flight);
        AssumedPlacement { reserving }
    }

    /// The writes follow.
    pub(crate) fn send(&mut self, ix: u32, pod: &Pod, held: AssumedPlacement) {
        self.set_nominated(ix, None);
        held.reserving.iter().for_each(|key| self.write_claim(key));
        match self.flights.get(&ix).and_then(|flight| flight.extended.clone()) {
            Some(extended) => self.make_claim(ix, pod, &extended),
            None => self.proceed(ix),
        }
    }

    // === Giving up ===

    /// Puts a pod back, and says why. `nominated`: others leave that node for it; if none do, no room is kept.
    pub(crate) fn give_up(&mut self, ix: u32, pod: &Pod, why: Arc<PendingReason>, nominated: Option<Text>) {
        // As the status is, or will be once what is being said is written.
        let in_write =
            self.nominated_in_write(ix).or_else(|| pod.nominated.clone()).filter(|node| !node.is_empty());
        let kept = in_write.is_some() || self.pods.get(ix).is_some_and(|entry| entry.nominated.is_some());
        let nominated = match nominated {
            None if kept => {
                self.set_nominated(ix, None);
                Some(Text::default())
            }
            other => other.filter(|node| in_write.as_ref() != Some(node)),
        };
        self.tell_given_twice(pod, &why.verdict);
        self.release_blocking_claims(ix, pod, &why.verdict);
        match why.verdict {
            // Hardly is a pod there, its claims and the rest of its gang follow: nothing worth telling, unless it lasts.
            Verdict::Claims(ref problem) if self.is_expected(ix, problem) => {
                if let Some(entry) = self.pods.get_mut(ix) {
                    entry.why = Some(why.clone());
                }
                return self.queue.postpone(self.now, ix, why.causes(), PATIENCE_MS);
            }
            Verdict::Failed(_) | Verdict::Unfinished { .. } => self.queue.back_off(self.now, ix),
            _ if why.retries => self.queue.back_off(self.now, ix),
            Verdict::Claims(_) | Verdict::Nowhere(_) | Verdict::Classic(_) | Verdict::Gated(_) => {
                self.queue.park(self.now, ix, why.causes());
            }
        }
        let message = why.message().into();
        self.report(ix, why, &message, nominated);
    }

    /// Whether a pod lacks an object that is being created. A claim is while those of other pods are being made: its own has its turn.
    fn is_expected(&self, ix: u32, problem: &ClaimProblem) -> bool {
        let claim = matches!(problem, ClaimProblem::NotMade { .. });
        let gang = matches!(problem, ClaimProblem::GangIncomplete { .. });
        let postponed = self.queue.postponed(ix);
        let others_made = self.now < self.claim_made.plus_millis(PATIENCE_MS);
        let again = claim && others_made && postponed < POSTPONED_MAX;
        (claim || gang) && self.queue.attempts(ix) <= 1 && (postponed == 0 || again)
    }

    /// A claim that only this pod uses may hold devices with which the pod can go nowhere: they are released,
    /// one claim at a time, and the pod is tried again when that is seen.
    fn release_blocking_claims(&mut self, ix: u32, pod: &Pod, verdict: &Verdict) {
        if self.waits_for_binding(ix) {
            return;
        }
        let Ok(claims) = claims::resolve(&self.claim_cache, pod) else { return };
        let blocks = |claim: &Claim| match verdict {
            Verdict::Claims(problem) => problem.reallocatable_claim() == Some(&claim.claim.key),
            Verdict::Nowhere(nowhere) => {
                let is_bound =
                    |given: &Allocation| given.node_selector.is_some() || skips_node_operations(given);
                let bound = claim.claim.allocation.as_deref().is_some_and(is_bound);
                bound && nowhere.claim_elsewhere
            }
            Verdict::Gated(_) | Verdict::Classic(_) | Verdict::Failed(_) | Verdict::Unfinished { .. } => {
                false
            }
        };
        let hindering: Vec<&Arc<Claim>> = claims
            .iter()
            .filter(|claim| claim.claim.allocation.is_some() && self.claim_cache.is_used_only_by(claim, pod))
            .filter(|claim| !self.is_used_by_group(claim, pod))
            .filter(|claim| blocks(claim))
            .collect();
        if !hindering.is_empty() {
            let turn = self.queue.attempts(ix) as usize % hindering.len();
            self.give_back(hindering[turn], pod);
        }
    }
}

/// The pod has no place. With the search for it, if that took several turns.
fn fits_nowhere(
    scheduler: &mut Scheduler,
    ix: u32,
    pod: &Arc<Pod>,
    needs: &Needs,
    (verdict, search): (Verdict, Option<Unfinished>),
) {
    let nominated = scheduler.pods.get(ix).and_then(|entry| entry.nominated);
    let spent = search.as_ref().map_or(0, |search| search.spent);
    let Some((why, node)) = scheduler.force(ix, pod, needs, verdict, spent) else { return };
    // Nodes that were tried in an earlier turn may have changed.
    let changed =
        search.is_some_and(|search| scheduler.verdict_cache.has_happened(why.causes(), &search.happened));
    let why = Arc::new(why);
    if changed && node.is_none() {
        scheduler.give_up(ix, pod, why, None);
        return scheduler.queue.retry(scheduler.now, ix);
    }
    if matches!(why.verdict, Verdict::Nowhere(_)) && node.is_none() && nominated.is_none() {
        scheduler.verdict_cache.remember(pod, needs, &why, &why.message().into());
        return scheduler.give_up(ix, pod, why, None);
    }
    scheduler.give_up(ix, pod, why, node);
}
