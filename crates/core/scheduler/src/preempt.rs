//! Making room by force: which pods of lower priority leave so that a pod can have their place, or their devices.
//!
//! A node is thought of without all pods of lower priority. If the pod fits then, as many of them are let stay as can
//! be, the most important first. The node that costs least is taken. Pods that are leaving anyway cost nothing.

use alloc::{format, string::String, sync::Arc, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_model::Text;

use crate::{
    Pod,
    effect::{EffectKind, EventKind, Evict},
    needs::Needs,
    outbox::Purpose,
    preempt_turns::{Candidate, PreemptionProgress, SavedPreemption},
    state::Scheduler,
    victims::PreemptionResult,
    why::{PendingReason, Verdict},
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
    /// The turn is over: it goes on in the pod's next turn.
    GoesOn,
    /// The budget of the attempt was spent: the number of nodes that were tried, and the number of all nodes.
    Unfinished(usize, usize),
}

impl Scheduler {
    /// Evicts pods for one that fits nowhere, if that helps. It takes what is left of the pod's turn, and goes on in the next one. `spent`: what
    /// the search for a place took of the attempt.
    pub(crate) fn preempt(
        &mut self,
        ix: u32,
        pod: &Pod,
        needs: &Needs,
        (verdict, spent): (&Verdict, u64),
    ) -> Preemption {
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
        let is_current = preemption_goes_on(self, ix, pod).is_some();
        let resumed = self.unfinished.preemptions.resume(ix, is_current);
        let mut progress = resumed.unwrap_or_else(|| {
            PreemptionProgress::begin(self.start + core::mem::take(&mut self.preempt_from), spent)
        });
        let before = (progress.at, self.allocator.spent(), self.allocator.learnt());
        while progress.at < order.len() && progress.candidates.len() < enough {
            let node = order[(progress.from + progress.at) % order.len()];
            let result = self.candidate(ix, pod, needs, node);
            // Without all searches that it takes, more pods would leave than need be.
            if self.allocator.is_out_of_work() {
                match interrupt_preemption(self, ix, pod, verdict, progress, before) {
                    Ok(()) => return Preemption::GoesOn,
                    Err(ended) => progress = ended,
                }
                if progress.candidates.is_empty() {
                    return Preemption::Unfinished(progress.at, order.len());
                }
                break;
            }
            progress.at += 1;
            match result {
                PreemptionResult::Fits(candidate) if candidate.victims.is_empty() => {
                    return Preemption::Waiting("pods that are terminating will make room.");
                }
                PreemptionResult::Fits(candidate) => progress.candidates.push(candidate),
                PreemptionResult::Unhelpful => progress.unhelpful += 1,
                PreemptionResult::NoVictims => progress.helpless += 1,
            }
        }
        let PreemptionProgress { candidates, unhelpful, helpless, .. } = progress;
        let is_there = |candidate: &Candidate| are_there(self, candidate);
        match candidates.into_iter().filter(is_there).min_by_key(Candidate::cost) {
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

/// Why a pod fits nowhere, if that was found in an earlier turn and is still so, and the search for pods to evict goes on.
pub(crate) fn preemption_goes_on<'a>(scheduler: &'a Scheduler, ix: u32, pod: &Pod) -> Option<&'a Verdict> {
    let saved = scheduler.unfinished.preemptions.get(ix)?;
    let causes = PendingReason::of(saved.verdict.clone()).causes();
    let is_current = saved.uid == pod.uid
        && saved.nodes_revision == scheduler.nodes.revision()
        && !scheduler.verdict_cache.has_happened(causes, &saved.happened);
    is_current.then_some(&saved.verdict)
}

/// The turn is over. Gives the progress back where the attempt is over as well. `before`: how far it was when the turn began, and what
/// had been spent and learnt.
fn interrupt_preemption(
    scheduler: &mut Scheduler,
    ix: u32,
    pod: &Pod,
    verdict: &Verdict,
    mut progress: PreemptionProgress,
    before: (usize, u64, u64),
) -> Result<(), PreemptionProgress> {
    let (at, spent, learnt) = before;
    progress.spent = progress.spent.saturating_add(scheduler.allocator.spent() - spent);
    progress.turn_is_over(progress.at > at || scheduler.allocator.learnt() != learnt);
    if progress.spent >= scheduler.options.attempt_units {
        // One node that takes all of it does not keep the others from being looked at.
        let looked_at = progress.from + progress.at.max(1);
        scheduler.preempt_from = looked_at.saturating_sub(scheduler.start);
        return Err(progress);
    }
    let saved = SavedPreemption {
        uid: pod.uid.clone(),
        nodes_revision: scheduler.nodes.revision(),
        happened: scheduler.verdict_cache.happened(),
        verdict: verdict.clone(),
        progress,
    };
    scheduler.unfinished.preemptions.save(ix, saved);
    Ok(())
}

/// Whether the pods that would leave are still on their node, and stay unless they are evicted.
fn are_there(scheduler: &Scheduler, candidate: &Candidate) -> bool {
    let Some(state) = scheduler.nodes.get(candidate.node) else { return false };
    candidate.victims.iter().all(|(ix, pod)| {
        let is_it = |(other, known): &&(u32, Arc<Pod>)| other == ix && known.uid == pod.uid;
        state.pods.iter().find(is_it).is_some_and(|(_, known)| !scheduler.is_leaving(*ix, known))
    })
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
