//! Writing the status of rules: at once when an eviction starts or ends or the spec is new, otherwise now and then.

use alloc::vec::Vec;

use lazaret_fleet::Fleet;
use lazaret_invariant::invariant;
use lazaret_model::{Condition, DeviceTaintRule, Effect, Text, Timestamp, Uid};

use crate::{
    Eviction,
    effect::{EffectKind, Outcome, RuleEvent, RuleStatus, SetRuleStatus},
    flights::Flight,
    rule_state::RuleState,
    status::{self, Facts},
    verified::{Verified, says_that_all_is_over},
};

/// A status that waits to be taken is worded anew when only its numbers change if the rule makes no more pods leave than this. To count
/// the devices of many again for each pod that goes would take longer than all else.
const COUNTED_ANEW_MAX: u64 = 256;

impl Eviction {
    /// Writes each status that has to change and may.
    pub(crate) fn write_statuses(&mut self, now: Timestamp, fleet: &Fleet) {
        let dirty = self.rules.take_dirty(now);
        for &at in &dirty {
            if self.flights.statuses >= self.options.statuses_in_flight_max {
                self.rules.touch(at);
                continue;
            }
            let told_soon = |state: &RuleState| state.pods > COUNTED_ANEW_MAX && state.is_about_to_be_told();
            if !self.closing && self.rules.get(at).is_some_and(told_soon) {
                // Looked at again when it is acknowledged.
                continue;
            }
            if self.is_being_written(at) {
                // Looked at again when it is acknowledged.
                continue;
            }
            let Some(state) = invariant!(self.rules.get(at), "the number of a rule leads to it") else {
                continue;
            };
            let urgent = state.is_urgent()
                || state.record.is_wanted(self.named_max(state))
                || state.expiry_is_news(now)
                || state.hold_is_news(self.guards.want_approval())
                || (state.may_be_drained()
                    && !state.is_held()
                    && state.was_drained() != is_idle(fleet, &state.rule));
            match self.may_write_at(state, urgent, now) {
                Some(later) => self.rules.set_timer(at, Some(later)),
                None => self.write_status(now, fleet, at),
            }
        }
        self.rules.give_back(dirty);
    }

    /// Whether somebody is writing this status. A write that nobody has taken yet is withdrawn: it is old news.
    pub(crate) fn is_being_written(&mut self, at: u32) -> bool {
        let Some(state) = invariant!(self.rules.get_mut(at), "the number of a rule leads to it") else {
            return false;
        };
        let Some((id, _)) = state.status.in_flight else { return false };
        let retractable = self.flights.is_retractable(id);
        if retractable {
            self.flights.land(id);
            state.status.in_flight = None;
            state.status.looked = None;
            state.status.wanted -= 1;
            state.record.withdraw();
        }
        !retractable
    }

    /// When a status may be written, if not now.
    fn may_write_at(&self, state: &RuleState, urgent: bool, now: Timestamp) -> Option<Timestamp> {
        let after_failure = state.status.not_before.filter(|at| *at > now);
        if after_failure.is_some() || urgent || self.closing {
            return after_failure;
        }
        let known = state.status.known.as_ref().and_then(|status| status.condition.last_transition);
        // An instant in the future comes from another clock.
        let last = state.status.looked.or(known)?.min(now);
        let next = last.plus_millis(self.options.status_interval_ms);
        (next > now).then_some(next)
    }

    fn write_status(&mut self, now: Timestamp, fleet: &Fleet, at: u32) {
        self.rules.set_timer(at, None);
        let mut blocked = self.blocked_condition(at);
        let mut expired = self.expired_condition(now, at);
        let mut held = self.held_condition(at);
        let names = self.names_of(now, at);
        let evicting = in_order(&names);
        let Some(state) = invariant!(self.rules.get_mut(at), "the number of a rule leads to it") else {
            return;
        };
        state.status.looked = Some(now);
        if state.begins_by(held.as_ref(), expired.as_ref()) {
            state.begin_to_apply(now);
        }
        let facts = facts(fleet, state);
        let mut condition = status::condition(&state.rule, &facts);
        let mut drained = status::drained(&state.rule, &facts);
        if let Some(known) = &state.status.known {
            // Where counts are stored, whether they are exact is, too; a count of none has no words.
            let as_exact =
                state.rule.evictions.is_none() || known.evictions.at_least == facts.evicted.at_least;
            let as_named = known.evicting == evicting && known.evictions.complete == facts.evicted.complete;
            if as_exact
                && (as_named || state.rule.evictions.is_none() && evicting.is_empty())
                && status::says_the_same(&known.condition, &condition)
                && status::says_the_same(&known.drained, &drained)
                && status::both_say_the_same(known.blocked.as_ref(), blocked.as_ref())
                && status::both_say_the_same(known.expired.as_ref(), expired.as_ref())
                && status::both_say_the_same(known.held.as_ref(), held.as_ref())
            {
                // The stored status names them.
                return self.names_are_stored(now, at, names);
            }
            // The instant of a condition is when its status changed; that of the first is also when it was last written.
            drained.last_transition =
                known.drained.last_transition.filter(|_| known.drained.status == drained.status);
            keep_transition(&mut blocked, known.blocked.as_ref());
            keep_transition(&mut expired, known.expired.as_ref());
            keep_transition(&mut held, known.held.as_ref());
        }
        for condition in [&mut blocked, &mut expired, &mut held].into_iter().flatten() {
            condition.last_transition.get_or_insert(now);
        }
        condition.last_transition = Some(state.stamp(now));
        drained.last_transition.get_or_insert(now);
        let (evictions, effective_since) = (state.count(now), state.begins.or(state.effective_since));
        let mut said =
            RuleStatus { condition, drained, blocked, expired, held, evictions, evicting, effective_since };
        if state.verified != Verified::Yes {
            self.views.want(at);
            if !state.is_held() && says_that_all_is_over(&state.rule, &said) {
                if !self.closing {
                    return;
                }
                // The counts must not be lost, and there is no time left to verify them.
                status::leave_open(&mut said);
                if state.status.known.as_ref().is_some_and(|known| status::says_all_of(known, &said)) {
                    return;
                }
            }
        }
        state.status.wanted += 1;
        state.record.write(names);
        let (rule, uid) = (state.rule.name.clone(), state.rule.uid.clone());
        let flight = Flight::Status { rule: at, uid: uid.clone() };
        let write = SetRuleStatus { rule, uid, status: said.clone() };
        let id = self.flights.launch(flight, EffectKind::SetRuleStatus(write));
        state.status.in_flight = Some((id, said));
    }

    /// The condition about blocked pods; `None` for a rule that never blocked any.
    fn blocked_condition(&self, at: u32) -> Option<Condition> {
        let state = self.rules.get(at)?;
        match state.blocked_by() {
            Some(why) => Some(status::blocked(&state.rule, Some((why, self.describe_blocked(at))))),
            None => {
                let said = |status: &RuleStatus| status.blocked.is_some();
                let was = state.status.known.as_ref().is_some_and(said)
                    || state
                        .rule
                        .conditions
                        .iter()
                        .any(|condition| condition.kind == status::EVICTION_BLOCKED);
                was.then(|| status::blocked(&state.rule, None))
            }
        }
    }

    /// The condition about its expiry; `None` for a rule that never expired.
    fn expired_condition(&self, now: Timestamp, at: u32) -> Option<Condition> {
        let state = self.rules.get(at)?;
        let is_expired = state.is_expired(now);
        let was = state.status.known.as_ref().is_some_and(|known| known.expired.is_some())
            || state.rule.conditions.iter().any(|condition| condition.kind == DeviceTaintRule::EXPIRED);
        (is_expired || was).then(|| status::expired(&state.rule, is_expired))
    }

    /// The condition about whether it is held; `None` for a rule that never was, where no guard wants approval.
    fn held_condition(&self, at: u32) -> Option<Condition> {
        let state = self.rules.get(at)?;
        let says = state.says_whether_held(self.guards.want_approval());
        says.then(|| status::held(&state.rule, state.held.as_deref()))
    }

    /// Tells people once for each reason that pods are kept.
    fn announce_blocked(&mut self, at: u32) {
        let Some(state) = invariant!(self.rules.get_mut(at), "the number of a rule leads to it") else {
            return;
        };
        let said = state.status.written.as_ref().and_then(|status| status.blocked.as_ref());
        let reason = status::blocked_reason(said);
        if reason == state.status.announced.as_deref() {
            return;
        }
        let event = said.filter(|_| reason.is_some()).map(|condition| RuleEvent {
            rule: state.rule.name.clone(),
            uid: state.rule.uid.clone(),
            message: condition.message.clone(),
        });
        state.status.announced = reason.map(Text::from);
        if let Some(event) = event {
            self.flights.announce(EffectKind::RuleEvent(event), self.options.events_queued_max);
        }
    }

    pub(crate) fn acknowledge_status(&mut self, now: Timestamp, at: u32, uid: &Uid, outcome: Outcome) {
        let Some(state) = self.rules.get_mut(at).filter(|state| state.rule.uid == *uid) else { return };
        let Some((_, said)) = state.status.in_flight.take() else { return };
        match outcome {
            Outcome::Done => {
                state.status.known = Some(said.clone());
                state.status.written = Some(said);
                state.status.failures = 0;
                state.status.not_before = None;
            }
            Outcome::Gone
            | Outcome::Conflict
            | Outcome::Refused
            | Outcome::Held
            | Outcome::RetryLater
            | Outcome::Unknown => {
                if outcome == Outcome::Unknown {
                    state.status.known = None;
                }
                state.status.failures = state.status.failures.saturating_add(1);
                let mut pause = self.options.retry_ms(state.status.failures);
                if state.record.keeps_pods() {
                    pause = pause.min(self.options.status_interval_ms);
                }
                state.status.not_before = Some(now.plus_millis(pause));
                state.status.looked = None;
            }
        }
        self.rules.touch(at);
        self.record_written(now, at, outcome);
        if outcome == Outcome::Done {
            self.announce_blocked(at);
        }
    }
}

/// The instant of a condition is when its status changed.
fn keep_transition(condition: &mut Option<Condition>, known: Option<&Condition>) {
    if let (Some(condition), Some(known)) = (condition, known) {
        condition.last_transition = known.last_transition.filter(|_| known.status == condition.status);
    }
}

/// Whether no claim holds a device that the rule selects.
fn is_idle(fleet: &Fleet, rule: &DeviceTaintRule) -> bool {
    fleet.rule_selection(&rule.name).held().next().is_none()
}

/// The facts for a rule's status. The counts of pods are at hand; those of devices are looked up in the fleet.
fn facts(fleet: &Fleet, state: &RuleState) -> Facts {
    let rule = &state.rule;
    let selection = fleet.rule_selection(&rule.name);
    let mut facts = Facts {
        pods: state.pods,
        namespaces: state.namespaces(),
        evicted: state.count(Timestamp::EPOCH),
        in_use: !state.may_be_drained() && matches!(rule.taint.effect, Effect::NoExecute)
            || !is_idle(fleet, rule),
        by_policy: rule.is_compiled && state.count(Timestamp::EPOCH).pods == 0,
        held: state.is_held(),
        problem: selection.problem().map(|problem| alloc::format!("{problem}")),
        ..Facts::default()
    };
    match rule.taint.effect {
        Effect::None => {
            facts.published = selection.published_count();
            facts.allocated = selection.held().count();
            facts.from_memory = selection.from_memory_count();
        }
        // Its status speaks of pods, not of devices.
        Effect::NoExecute => facts.from_memory = selection.from_memory_count(),
        Effect::NoSchedule | Effect::Unknown(_) => {}
    }
    facts
}

/// Names of pods in an order that is the same for every machine: each numbers pods in its own.
fn in_order(names: &crate::record::Names) -> Vec<Uid> {
    let mut ordered: Vec<Uid> = names.iter().cloned().collect();
    ordered.sort_unstable();
    ordered
}
