//! From a change of the fleet to new plans.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use lazaret_fleet::{Changes, EffectiveTaint, Fleet, Held, Origin, PodIx};
use lazaret_invariant::invariant;
use lazaret_model::{Effect, EvictionPreference, Patience, Taint, Text, Timestamp, Toleration, patience};

use crate::{Eviction, causes::Surroundings, marks::marks_of, pods::Phase, reason::Reason, rules::Put};

impl Eviction {
    /// Looks again at what changed, and at nothing else.
    pub(crate) fn follow(&mut self, now: Timestamp, fleet: &Fleet, changes: &Changes) {
        self.partial = changes.partial;
        let mut begun: Vec<u32> = Vec::new();
        for name in &changes.rules {
            match fleet.rule(name) {
                Some(view) => begun.extend(self.follow_rule(now, fleet, view.rule)),
                None => self.rules.remove(name),
            }
        }
        let round = self.round_of(fleet, changes);
        let mut pods = core::mem::take(&mut self.concerned);
        if !begun.is_empty() {
            // Patience counts from another instant than before.
            let is_of = |reason: &Reason| {
                let rule = self.causes.get(reason.cause_ix).and_then(|state| state.rule);
                rule.is_some_and(|rule| begun.contains(&rule))
            };
            let planned = self.pods.iter().filter(|(_, slot)| slot.reasons.iter().any(is_of));
            let planned: Vec<PodIx> = planned.map(|(at, _)| at).collect();
            pods.extend(planned.into_iter().filter(|at| self.pods.is_first_in(round, *at)));
        }
        for pod in &changes.pods {
            if self.pods.is_first_in(round, *pod) {
                pods.push(*pod);
            }
        }
        for claim in &changes.claims {
            self.look_at_memory(fleet, *claim);
            for pod in fleet.pods_of_claim(*claim) {
                if self.pods.is_first_in(round, pod) {
                    pods.push(pod);
                }
            }
        }
        pods.sort_unstable();
        for pod in &pods {
            self.evaluate(now, fleet, *pod);
        }
        pods.clear();
        self.concerned = pods;
    }

    /// The round that these changes belong to: a new one unless they lead to the revision that the fleet has and that the last changes led to. In one
    /// round no pod is evaluated twice, however many of its claims change one by one.
    fn round_of(&mut self, fleet: &Fleet, changes: &Changes) -> u64 {
        let known = self.round.of == Some(changes.revision) && fleet.revision() == changes.revision;
        if !known {
            self.round.number += 1;
            self.round.of = (fleet.revision() == changes.revision).then_some(changes.revision);
        }
        self.round.number
    }

    /// The number of the rule if it is in force since another instant than was known.
    fn follow_rule(
        &mut self,
        now: Timestamp,
        fleet: &Fleet,
        rule: &Arc<lazaret_model::DeviceTaintRule>,
    ) -> Option<u32> {
        let effective_since = |this: &Self| {
            let at = this.rules.by_name(&rule.name)?;
            Some((at, this.rules.get(at)?.effective_since))
        };
        let before = effective_since(self);
        let known = self.rules.by_name(&rule.name);
        if let Some(at) = known {
            self.is_being_written(at);
        }
        let leading = self.leader_since.is_some();
        let put = self.rules.upsert(now, known, rule, leading);
        if put == Put::StatusOfAnother
            && let Some(at) = known
        {
            self.inherit_names(fleet, &[at]);
        }
        if leading
            && self.guards.want_approval()
            && let Some(at) = self.rules.by_name(&rule.name)
        {
            self.holds.rule_changed(at);
        }
        if put == Put::New {
            // Pods that were marked by it may have been seen before it was.
            for place in 0..self.pods.settled_len() {
                let Some((at, pod, settled)) =
                    invariant!(self.pods.settled_mut(place), "each settled pod has a slot that says so")
                else {
                    continue;
                };
                let own = self.counted.contains(&pod.uid);
                let marks = marks_of(pod).filter(|mark| rule.uid == *mark.uid);
                let rules = marks.filter_map(|mark| self.rules.see_mark(mark, at, own, leading));
                rules.for_each(|rule| settled.add(rule));
            }
        }
        let now = effective_since(self);
        now.filter(|_| before.is_some() && now != before).map(|(at, _)| at)
    }

    /// Makes the plan of one pod what the fleet says it should be.
    pub(crate) fn evaluate(&mut self, now: Timestamp, fleet: &Fleet, at: PodIx) {
        let Some(pod) = fleet.pod(at) else { return self.forget(now, at) };
        if self.pods.get(at).is_some_and(|slot| slot.pod.uid != pod.uid) {
            self.forget(now, at);
        }
        if pod.deleting_since.is_some() {
            return self.see_terminating(now, at, pod);
        }
        // A pod that was not bound uses no device; one that has ended uses none any more.
        // DEVIATION(finished-pods).
        let exposed = pod.node.is_some() && !pod.phase.is_finished() && fleet.uses_tainted(at);
        match self.pods.get(at).map(|slot| slot.phase) {
            Some(Phase::Leaving) => {
                self.pods.entry(at, pod);
                return;
            }
            // Old news of a pod that is gone already.
            None if self.left.contains(&pod.uid) => {
                self.pods.entry(at, pod).phase = Phase::Leaving;
                return;
            }
            // Most pods: nothing makes them leave, and nothing did.
            None if !exposed => return,
            Some(Phase::Waiting | Phase::InFlight(_)) | None => {}
        }
        self.found.clear();
        self.found_would.clear();
        if exposed {
            self.find_reasons(now, fleet, at);
        }
        self.adopt(now, at, pod);
    }

    /// Few pods come here: kept out of the way of those that do not.
    #[inline(never)]
    fn find_reasons(&mut self, now: Timestamp, fleet: &Fleet, at: PodIx) {
        for claim_ix in fleet.claims_of_pod(at) {
            for held in fleet.held(claim_ix) {
                for taint in held.taints() {
                    match taint.taint.effect {
                        Effect::NoExecute => {
                            if let Some((cause_ix, deadline)) = self.deadline(now, &taint, &held)
                                && let Some(state) = self.causes.get(cause_ix)
                                && let Some(claim) = fleet.claim(claim_ix)
                            {
                                let cause = (cause_ix, &state.cause);
                                let granted = match &taint.taint.eviction {
                                    Some(spec) => spec.granted_seconds(self.say_of(fleet, at)),
                                    None => 0,
                                };
                                self.found.extend(Reason::new(cause, claim, held.result, deadline, granted));
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

    /// The eviction setting of a pod, or else of its namespace.
    fn say_of(&self, fleet: &Fleet, at: PodIx) -> EvictionPreference {
        let Some(pod) = invariant!(fleet.pod(at), "the number of a pod leads to it") else {
            return EvictionPreference::default();
        };
        pod.eviction_preference
            .or_else(|| self.preferences.get(&pod.key.namespace).copied())
            .unwrap_or_default()
    }

    /// Takes over the eviction settings of namespaces.
    pub(crate) fn follow_preferences(
        &mut self,
        now: Timestamp,
        fleet: &Fleet,
        preferences: &BTreeMap<Text, EvictionPreference>,
    ) {
        let before = core::mem::replace(&mut self.preferences, preferences.clone());
        for at in self.pods.numbers() {
            let namespace = self.pods.get(at).map(|slot| slot.pod.key.namespace.clone());
            if namespace.is_some_and(|namespace| before.get(&namespace) != preferences.get(&namespace)) {
                self.evaluate(now, fleet, at);
            }
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
        // DEVIATION(missing-time-added): since it was first seen.
        let state = self.causes.get(cause)?;
        let effective = state.rule.and_then(|rule| self.rules.get(rule)?.effective_since);
        let since = state.since.max(effective.unwrap_or(state.since));
        Some((cause, patience_ends(patience, taint.taint, since)))
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
}

/// When patience ends with a taint that is in force since an instant. Time that a pod is given counts while a window is open at first; a pod
/// without any is due at once, and waits for the window.
fn patience_ends(patience: Patience, taint: &Taint, since: Timestamp) -> Timestamp {
    match (&taint.eviction, patience) {
        (Some(spec), Patience::Seconds(1..)) => patience.ends(spec.counts_from(since)),
        (Some(_) | None, _) => patience.ends(since),
    }
}
