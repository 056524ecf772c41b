//! From a change of the fleet to new plans.

use alloc::{boxed::Box, sync::Arc, vec::Vec};

use lazaret_fleet::{Changes, EffectiveTaint, Fleet, Held, Origin, PodIx};
use lazaret_model::{Effect, Pod, Timestamp, Toleration};

use crate::{
    Eviction,
    blame::Blame,
    causes::Surroundings,
    deadline::patience,
    effect::{EVENT_REASON, PodEvent},
    pods::Phase,
    reason::{Reason, marks_of},
};

impl Eviction {
    /// Looks again at what changed, and at nothing else.
    pub(crate) fn follow(&mut self, now: Timestamp, fleet: &Fleet, changes: &Changes) {
        self.partial = changes.partial;
        for name in &changes.rules {
            match fleet.rule(name) {
                Some(view) => self.follow_rule(view.rule),
                None => self.rules.remove(name),
            }
        }
        let mut pods = core::mem::take(&mut self.concerned);
        pods.extend_from_slice(&changes.pods);
        for claim in &changes.claims {
            pods.extend(fleet.pods_of_claim(*claim));
        }
        pods.sort_unstable();
        pods.dedup();
        for pod in pods.drain(..) {
            self.evaluate(now, fleet, pod);
        }
        self.concerned = pods;
    }

    fn follow_rule(&mut self, rule: &Arc<lazaret_model::DeviceTaintRule>) {
        let known = self.rules.by_name(&rule.name);
        if let Some(at) = known {
            self.is_being_written(at);
        }
        let known = known.and_then(|at| self.rules.get(at));
        let is_new = known.is_none_or(|state| state.rule.uid != rule.uid);
        let leading = self.leader_since.is_some();
        self.rules.upsert(rule, leading);
        if is_new {
            // Pods that were marked by it may have been seen before it was.
            for at in self.pods.settled() {
                let Some(slot) = self.pods.get(at) else { continue };
                let own = self.counted.contains(&slot.pod.uid);
                for mark in marks_of(&slot.pod).filter(|mark| rule.uid == *mark.uid) {
                    self.rules.see_mark(mark, &slot.pod.uid, own, leading);
                }
            }
        }
    }

    /// Makes the plan of one pod what the fleet says it should be.
    pub(crate) fn evaluate(&mut self, now: Timestamp, fleet: &Fleet, at: PodIx) {
        let pod = fleet.pod(at);
        if let Some(slot) = self.pods.get(at)
            && pod.is_none_or(|pod| pod.uid != slot.pod.uid)
        {
            self.forget(now, at);
        }
        let Some(pod) = pod else { return };
        if pod.deleting_since.is_some() {
            return self.see_terminating(now, at, pod);
        }
        match self.pods.get_mut(at) {
            Some(slot) if slot.phase == Phase::Leaving => {
                slot.pod = pod.clone();
                return;
            }
            // Old news of a pod that is gone already.
            None if self.left.contains(&pod.uid) => {
                self.pods.entry(at, pod).phase = Phase::Leaving;
                return;
            }
            Some(_) | None => {}
        }
        self.found.clear();
        self.found_would.clear();
        // A pod that was not bound uses no device; one that has ended uses none any more.
        if pod.node.is_some() && !pod.phase.is_finished() {
            self.find_reasons(now, fleet, at);
        }
        self.adopt(now, at, pod);
    }

    fn find_reasons(&mut self, now: Timestamp, fleet: &Fleet, at: PodIx) {
        for claim_ix in fleet.claims_of_pod(at) {
            let Some(claim) = fleet.claim(claim_ix) else { continue };
            for held in fleet.held(claim_ix) {
                for taint in held.taints() {
                    match taint.taint.effect {
                        Effect::NoExecute => {
                            if let Some((cause_ix, deadline)) = self.deadline(now, &taint, &held) {
                                let Some(state) = self.causes.get(cause_ix) else { continue };
                                let cause = (cause_ix, &state.cause);
                                self.found.extend(Reason::new(cause, claim, held.result, deadline));
                            }
                        }
                        Effect::None => self.find_would(&taint, &held.result_ref.tolerations),
                        Effect::NoSchedule | Effect::Unknown(_) => {}
                    }
                }
            }
        }
        if self.found.len() > 1 {
            self.found.sort_by(Reason::order);
            // Several shares of one device in one claim are one reason.
            self.found.dedup();
        }
        if self.found_would.len() > 1 {
            self.found_would.sort_unstable();
            self.found_would.dedup();
        }
    }

    /// The cause that a taint is and when its patience ends; `None` if it is tolerated for ever.
    fn deadline(
        &mut self,
        now: Timestamp,
        taint: &EffectiveTaint<'_>,
        held: &Held<'_>,
    ) -> Option<(u32, Timestamp)> {
        let patience = patience(taint.taint, &held.result_ref.tolerations);
        // Checked before the cause is made: one that nobody has would never be forgotten.
        if let Some(time_added) = taint.taint.time_added
            && patience.ends(time_added) == Timestamp::NEVER
        {
            return None;
        }
        if patience.ends(now) == Timestamp::NEVER {
            return None;
        }
        let (rules, origin) = (&self.rules, &taint.origin);
        let rule = || match origin {
            Origin::Rule { name, .. } => rules.by_name(name),
            Origin::Device { .. } | Origin::TaintSlice { .. } | Origin::Patch { .. } => None,
        };
        let mut around = Surroundings {
            now,
            options: &self.options,
            leader_since: self.leader_since,
            paces: &mut self.paces,
        };
        let cause = self.causes.of(taint, held.device, rule, &mut around);
        let since = self.causes.get(cause)?.since;
        Some((cause, patience.ends(since)))
    }

    /// A rule of effect None would make the pod leave if its effect was NoExecute: counted, for the preview in its
    /// status is kept current.
    fn find_would(&mut self, taint: &EffectiveTaint<'_>, tolerations: &[Toleration]) {
        if let Origin::Rule { name, .. } = taint.origin
            && let Some(at) = self.rules.by_name(name)
            && let Some(as_if) = self.rules.get(at).and_then(|state| state.as_if_evicting.as_ref())
            && patience(as_if, tolerations).ends(as_if.time_added.unwrap_or(Timestamp::EPOCH))
                != Timestamp::NEVER
        {
            self.found_would.push(at);
        }
    }

    /// Puts what was found in the place of what was known.
    fn adopt(&mut self, now: Timestamp, at: PodIx, pod: &Arc<Pod>) {
        let idle = self.found.is_empty() && self.found_would.is_empty();
        if idle && self.pods.get(at).is_none() {
            return;
        }
        let slot = self.pods.entry(at, pod);
        slot.pod = pod.clone();
        if *slot.would != self.found_would[..] {
            let new: Box<[u32]> = self.found_would[..].into();
            new.iter().for_each(|rule| self.rules.add_pod(*rule, &pod.key.namespace));
            let old = core::mem::replace(&mut slot.would, new);
            old.iter().for_each(|rule| self.rules.remove_pod(*rule, &pod.key.namespace));
        }
        if *slot.reasons != self.found[..] {
            let new: Arc<[Reason]> = self.found.drain(..).collect();
            let cancelled = new.is_empty() && !pod.phase.is_finished();
            if self.replan(now, at, new) && cancelled {
                self.say_spared(pod);
            }
        }
        self.drop_if_blank(at);
    }

    /// Gives a pod new reasons. Returns whether it was waiting to be evicted and can be said to be spared if the new
    /// ones are none: an eviction that somebody has taken may still happen.
    fn replan(&mut self, now: Timestamp, at: PodIx, reasons: Arc<[Reason]>) -> bool {
        self.unschedule(at, now);
        self.retract(now, at);
        self.link(at, &reasons);
        let spared = reasons.is_empty();
        let old = self.pods.replace_reasons(at, reasons);
        self.unlink(now, at, &old);
        let Some(slot) = self.pods.get_mut(at) else { return false };
        if spared {
            slot.failures = 0;
            slot.not_before = None;
        }
        let waiting = slot.phase == Phase::Waiting;
        self.schedule(at, now);
        waiting && !old.is_empty()
    }

    /// The pod has no reasons any more, or none that matter.
    pub(crate) fn unplan(&mut self, now: Timestamp, at: PodIx) {
        let Some(slot) = self.pods.get_mut(at) else { return };
        let would = core::mem::take(&mut slot.would);
        let namespace = slot.pod.key.namespace.clone();
        would.iter().for_each(|rule| self.rules.remove_pod(*rule, &namespace));
        self.replan(now, at, Arc::default());
    }

    fn link(&mut self, at: PodIx, reasons: &[Reason]) {
        let Some(slot) = self.pods.get(at) else { return };
        for cause in distinct_causes(reasons) {
            self.causes.add_pod(cause);
            if let Some(rule) = self.causes.get(cause).and_then(|state| state.rule) {
                self.rules.add_pod(rule, &slot.pod.key.namespace);
            }
        }
    }

    fn unlink(&mut self, now: Timestamp, at: PodIx, reasons: &[Reason]) {
        let Some(slot) = self.pods.get(at) else { return };
        for cause in distinct_causes(reasons) {
            if let Some(rule) = self.causes.get(cause).and_then(|state| state.rule) {
                self.rules.remove_pod(rule, &slot.pod.key.namespace);
            }
            self.causes.remove_pod(cause, &mut self.paces, now);
        }
    }

    /// The pod is gone.
    fn forget(&mut self, now: Timestamp, at: PodIx) {
        self.unplan(now, at);
        let Some(slot) = self.pods.remove(at) else { return };
        if let Some(blame) = slot.uncertain {
            if let Phase::InFlight(id) = slot.phase {
                self.flights.keep_before(id, *blame);
            } else {
                self.count(&slot.pod.uid, &blame);
            }
        }
        if slot.settled {
            self.pods.unsettle(at);
            marks_of(&slot.pod).for_each(|mark| self.rules.forget_mark(mark.rule, &slot.pod.uid));
        }
    }

    /// The pod is on its way out: it is neither evicted nor counted as pending.
    fn see_terminating(&mut self, now: Timestamp, at: PodIx, pod: &Arc<Pod>) {
        if self.pods.get(at).is_none() && marks_of(pod).next().is_none() {
            return;
        }
        self.pods.entry(at, pod).pod = pod.clone();
        self.unplan(now, at);
        self.settle(at);
    }

    /// Finds out whose eviction a terminating pod is. Waits while one of ours is under way: its outcome will tell.
    pub(crate) fn settle(&mut self, at: PodIx) {
        let leading = self.leader_since.is_some();
        let Some(slot) = self.pods.get_mut(at) else { return };
        if slot.settled || slot.pod.deleting_since.is_none() || matches!(slot.phase, Phase::InFlight(_)) {
            return;
        }
        slot.phase = Phase::Waiting;
        let (pod, uncertain) = (slot.pod.clone(), slot.uncertain.take());
        let marked = marks_of(&pod).next().is_some();
        slot.settled = marked;
        if marked {
            self.pods.mark_settled(at);
            if let Some(blame) = uncertain {
                self.count(&pod.uid, &Blame::of_marks(&pod, blame.decided));
            }
            let own = self.counted.contains(&pod.uid);
            marks_of(&pod).for_each(|mark| self.rules.see_mark(mark, &pod.uid, own, leading));
        }
        self.drop_if_blank(at);
    }

    pub(crate) fn drop_if_blank(&mut self, at: PodIx) {
        if self.pods.get(at).is_some_and(|slot| slot.is_blank()) {
            self.pods.remove(at);
        }
    }

    /// Tells people that a pod need not leave after all, if it is ours to tell.
    pub(crate) fn say_spared(&mut self, pod: &Pod) {
        if self.leader_since.is_some() {
            let message = self.cancelling.clone();
            let event =
                PodEvent { pod: pod.key.clone(), uid: pod.uid.clone(), reason: EVENT_REASON, message };
            self.flights.announce(event, self.options.events_queued_max);
        }
    }
}

/// Each cause once. Almost always there is one reason, and nothing to sort.
fn distinct_causes(reasons: &[Reason]) -> impl Iterator<Item = u32> {
    let single = if let [only] = reasons { Some(only.cause_ix) } else { None };
    let mut several: Vec<u32> =
        if single.is_some() { Vec::new() } else { reasons.iter().map(|reason| reason.cause_ix).collect() };
    several.sort_unstable();
    several.dedup();
    single.into_iter().chain(several)
}
