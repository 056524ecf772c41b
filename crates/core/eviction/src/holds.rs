//! Rules that reach more than a guard permits without approval: they are held, and a held rule has no effect. Taints that no rule sets: see `taints`.
//!
//! The reach of a rule is counted again when the rule or a guard changes, when the fleet has changed and a pod is about to leave, and otherwise now
//! and then. The leader evicts no pod for a rule that it holds; the taint is gone for all readers when the rule's status says so.

mod taints;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
    vec::Vec,
};
use core::fmt::Write as _;

use lazaret_fleet::{Fleet, Reach, RuleHold, is_exempt, reach_of, request_of};
use lazaret_invariant::invariant;
use lazaret_model::{DeviceSelector, Effect, ObjectKey, Text, Timestamp};

use crate::{
    Eviction,
    block::{Block, Blocked, NAMED_MAX},
    causes::Causes,
    dispatch::Candidate,
    effect::EffectKind,
    guards::{GuardState, Guards},
    reason::due_of,
};
use taints::{HeldTaints, forget_taints, judge_taints};

/// How often rules are looked at again while nobody is about to go.
const JUDGED_EVERY_MS: i64 = 1_000;

/// Why a rule is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The reason of the condition `Held`.
    pub(crate) reason: &'static str,
    /// For people.
    pub(crate) message: Text,
    /// Pods that would be evicted.
    pub(crate) pods: u64,
    /// The first of them by name.
    named: Vec<ObjectKey>,
}

impl Held {
    /// The message of the condition `EvictionBlocked`.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::from(Block::Held.name());
        text.push_str(": ");
        if let Some((first, others)) = self.named.split_first() {
            let pods = if self.pods == 1 { "pod" } else { "pods" };
            // Writing to a string cannot fail.
            let _ = write!(text, "{} {pods} not evicted ({first}", self.pods);
            others.iter().for_each(|pod| {
                let _ = write!(text, ", {pod}");
            });
            if self.pods > self.named.len() as u64 {
                let _ = write!(text, " and {} more", self.pods - self.named.len() as u64);
            }
            text.push_str("): ");
        }
        let _ = write!(text, "{}.", self.message);
        text
    }
}

/// Which rules have to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    /// Rules that changed since they were looked at.
    changed: BTreeSet<u32>,
    /// All of them have to be looked at.
    all: bool,
    /// The revision of the fleet for which all were last looked at, and when.
    judged: Option<(u64, Timestamp)>,
    /// The fleet has changed since.
    stale: bool,
    /// How many rules are held, and how many pods they would evict.
    held: (usize, u64),
    /// Taints that no rule sets.
    taints: HeldTaints,
}

impl Holds {
    /// All rules have to be looked at again.
    pub(crate) fn restart(&mut self) {
        self.all = true;
        (self.judged, self.stale) = (None, false);
    }

    pub(crate) fn rule_changed(&mut self, rule: u32) {
        self.changed.insert(rule);
    }

    /// Whether the fleet has changed since rules were looked at.
    pub(crate) fn are_stale(&self) -> bool {
        self.stale
    }

    /// Whether some rule is held, or a taint that no rule sets.
    pub(crate) fn are_any(&self) -> bool {
        self.held.0 > 0 || self.taints.are_any()
    }

    /// How many pods would be evicted by rules and other taints that are held.
    pub(crate) fn pods(&self) -> u64 {
        self.held.1 + self.taints.pods()
    }

    /// Of changes in parts, the first that makes a pod leave for a taint of no rule comes after the fleet was looked at.
    pub(crate) fn lack_taints(&self, causes: &Causes, guards: &Guards) -> bool {
        causes.are_some_of_no_rule() && !self.taints.are_counted && guards.want_approval()
    }

    /// Whether other taints are held now.
    fn set_taints(&mut self, held: HeldTaints) -> bool {
        let flipped = self.taints.differ(&held);
        self.taints = held;
        flipped
    }

    /// When all rules are looked at again.
    pub(crate) fn next_wake(&self, latest: Timestamp) -> Option<Timestamp> {
        let (_, when) = self.judged.filter(|_| self.stale)?;
        Some(when.plus_millis(JUDGED_EVERY_MS).max(latest.plus_millis(1)))
    }
}

impl Eviction {
    /// Finds out which rules are held.
    pub(crate) fn judge_rules(&mut self, now: Timestamp, fleet: &Fleet) {
        if !self.guards.want_approval() {
            self.holds.changed.clear();
            (self.holds.judged, self.holds.stale) = (None, false);
            if core::mem::take(&mut self.holds.all) || self.holds.are_any() {
                let flips: usize = self
                    .rules
                    .numbers()
                    .into_iter()
                    .map(|at| usize::from(self.set_held(now, at, None)))
                    .sum();
                let is_released = self.holds.set_taints(forget_taints(self.guards.list_mut()));
                self.sum_up_holds(now, flips > 0 || is_released);
            }
            return;
        }
        let revision = fleet.revision();
        let is_fresh = self.holds.judged.is_some_and(|(of, _)| of == revision);
        let is_recent =
            self.holds.judged.is_some_and(|(_, when)| when <= now && now < when.plus_millis(JUDGED_EVERY_MS));
        self.holds.stale = !is_fresh;
        let judges_all = self.holds.all
            || self.holds.lack_taints(&self.causes, &self.guards)
            || (!is_fresh && (!is_recent || self.somebody_may_go(now)));
        let rules =
            if judges_all { self.rules.numbers() } else { self.holds.changed.iter().copied().collect() };
        self.holds.changed.clear();
        if judges_all {
            (self.holds.all, self.holds.stale) = (false, false);
            self.holds.judged = Some((revision, now));
        }
        let mut flipped = false;
        if judges_all {
            let is_known = self.guards.list().iter().any(|guard| !guard.taints.is_empty());
            let (held, events) = if self.causes.are_some_of_no_rule() || is_known {
                judge_taints(now, fleet, self.guards.list_mut(), self.options.trusts_user_names)
            } else {
                (forget_taints(self.guards.list_mut()), Vec::new())
            };
            flipped = self.holds.set_taints(held);
            for event in events {
                self.flights.announce(EffectKind::GuardEvent(event), self.options.events_queued_max);
            }
        }
        if rules.is_empty() && !flipped {
            return;
        }
        let (rules, requests) = self.with_requests(now, fleet, rules);
        for at in rules {
            let held = self.judge(now, fleet, at, &requests);
            flipped |= self.set_held(now, at, held);
        }
        self.sum_up_holds(now, flipped);
    }

    /// These rules and all others that were made by the same requests, and what each request reaches.
    fn with_requests(
        &self,
        now: Timestamp,
        fleet: &Fleet,
        mut rules: Vec<u32>,
    ) -> (Vec<u32>, BTreeMap<Text, Reach>) {
        let mut requests: BTreeMap<Text, Reach> = BTreeMap::new();
        for at in &rules {
            if let Some(request) = self.rules.get(*at).and_then(|state| request_of(&state.rule)) {
                requests.entry(request.id.clone()).or_default();
            }
        }
        if requests.is_empty() {
            return (rules, requests);
        }
        for at in self.rules.numbers() {
            let Some(state) = invariant!(self.rules.get(at), "the number of a rule leads to it") else {
                continue;
            };
            // No request made it.
            let Some(request) = request_of(&state.rule) else { continue };
            let Some(known) = requests.get_mut(&request.id) else { continue };
            rules.push(at);
            if let Some(selector) = self.counted_selector(now, at) {
                known.add_rule(reach_of(fleet, &state.rule, selector));
            }
        }
        requests.values_mut().for_each(Reach::finish);
        rules.sort_unstable();
        rules.dedup();
        (rules, requests)
    }

    /// Which devices a rule selects, if guards may hold it.
    fn counted_selector(&self, now: Timestamp, at: u32) -> Option<&DeviceSelector> {
        let state = self.rules.get(at).filter(|state| !state.retired && !state.is_expired(now))?;
        let blocks = matches!(state.rule.taint.effect, Effect::NoExecute | Effect::NoSchedule);
        state
            .rule
            .selector
            .as_ref()
            .filter(|_| blocks && !is_exempt(&state.rule, self.options.trusts_user_names))
    }

    /// Returns whether it was not held before and is now, or the other way round.
    fn set_held(&mut self, now: Timestamp, at: u32, held: Option<Held>) -> bool {
        let wanted = self.guards.want_approval();
        let Some(state) = invariant!(self.rules.get_mut(at), "the number of a rule leads to it") else {
            return false;
        };
        let changed = state.held.as_deref() != held.as_ref();
        let flipped = state.held.is_some() != held.is_some();
        // Where no status says that it is held, its taint was in force all the time.
        if flipped && held.is_none() && state.rule.is_held() {
            state.begin_to_apply(now);
        }
        if changed {
            state.held = held.map(Box::new);
        }
        if changed || state.hold_is_news(wanted) {
            self.rules.touch(at);
        }
        flipped
    }

    fn sum_up_holds(&mut self, now: Timestamp, flipped: bool) {
        self.holds.held = (0, 0);
        for at in self.rules.numbers() {
            if let Some(held) = self.rules.get(at).and_then(|state| state.held.as_deref()) {
                self.holds.held = (self.holds.held.0 + 1, self.holds.held.1 + held.pods);
            }
        }
        if flipped {
            self.release_guarded(now);
        }
    }

    /// Why a rule is held, if it is.
    fn judge(
        &mut self,
        now: Timestamp,
        fleet: &Fleet,
        at: u32,
        requests: &BTreeMap<Text, Reach>,
    ) -> Option<Held> {
        let selector = self.counted_selector(now, at)?.clone();
        let rule = self.rules.get(at)?.rule.clone();
        let own = reach_of(fleet, &rule, &selector);
        // Rules that were made by one request are counted as one rule.
        let reach = request_of(&rule).and_then(|request| requests.get(&request.id)).unwrap_or(&own);
        let hold = RuleHold::new(fleet, &rule, reach, self.options.trusts_user_names);
        let (reason, why) = self.guards.list_mut().iter_mut().find_map(|state| {
            let guard = Arc::clone(&state.guard);
            hold.refusal(fleet, &guard, |device| state.selects(fleet, device))
        })?;
        let evicts = matches!(rule.taint.effect, Effect::NoExecute);
        let users = own.users.iter().filter(|_| evicts).filter_map(|(pod, _)| fleet.pod(*pod));
        let mut named: Vec<&ObjectKey> = users.map(|pod| &pod.key).collect();
        named.sort_unstable();
        named.dedup();
        let pods = named.len() as u64;
        let named = named.into_iter().take(NAMED_MAX).cloned().collect();
        let message = hold.message(&why);
        Some(Held { reason, message, pods, named })
    }

    /// The block of a pod that is due because of a rule that is held, or of nothing but other taints that are, and until when. The taint of a rule is
    /// gone as soon as the rule's status says so.
    pub(crate) fn held_back(&self, now: Timestamp, candidate: Candidate) -> Option<(Blocked, Timestamp)> {
        if !self.holds.are_any() {
            return None;
        }
        let reasons = &self.pods.get(candidate.pod)?.reasons;
        let by_rule = due_of(reasons, now).iter().find_map(|reason| {
            let rule = self.causes.get(reason.cause_ix)?.rule?;
            let held = self.rules.get(rule)?.held.as_deref()?;
            Some((Blocked { why: Block::Held, message: held.message.clone() }, Timestamp::NEVER))
        });
        by_rule.or_else(|| self.holds.taints.block(now, reasons))
    }
}

impl GuardState {
    /// Whether it wants approval of rules that reach far.
    pub(crate) fn wants_approval(&self) -> bool {
        self.guard.confirm_above.is_some()
    }
}
