//! The pods that the next status of a rule names, and those that may leave once it is stored.

use alloc::vec::Vec;
use core::cmp::Reverse;

use lazaret_fleet::PodIx;
use lazaret_model::{ObjectKey, Timestamp};

use super::{Names, Turn};
use crate::{
    Eviction,
    block::Block,
    causes::Queue,
    effect::Outcome,
    pods::{Phase, Slot},
    rule_state::RuleState,
};

/// A status names at most this many pods.
const NAMED_MAX: usize = 256;
/// A status names at most this many pods of a rule whose pods leave in groups: a group leaves when all of its pods are named.
const NAMED_TOGETHER_MAX: usize = 1_024;
/// However slow the pace, a status names this many pods.
const NAMED_MIN: usize = 16;

impl Eviction {
    /// Whether all rules because of which this pod would leave now name it. One that does not will.
    pub(crate) fn is_named(&mut self, now: Timestamp, at: PodIx) -> bool {
        if !self.options.records_evictions {
            return true;
        }
        let Some(slot) = self.pods.get(at) else { return true };
        let mut is_named = true;
        for reason in slot.reasons.iter().take_while(|reason| slot.ripe_at(reason) <= now) {
            let rule = self.causes.get(reason.cause_ix).and_then(|state| state.rule);
            let Some(rule) = rule else { continue };
            let turn = match self.causes.queue_of(reason.cause_ix) {
                Queue::Line => turn_in_line(slot),
                Queue::Pace(_) => (reason.deadline, 0, Reverse(Timestamp::EPOCH), ObjectKey::default()),
            };
            if let Some(state) = self.rules.get_mut(rule)
                && !state.record.names(at.0, &slot.pod.uid)
            {
                is_named = false;
                state.record.awaiting.insert((turn, at.0));
                self.rules.touch(rule);
            }
        }
        is_named
    }

    /// How many pods a status of this rule names: those that leave until the one after the next is due, by its pace.
    pub(crate) fn named_max(&self, state: &RuleState) -> usize {
        let spec = state.rule.taint.eviction.as_ref();
        if spec.is_some_and(|spec| spec.is_together()) {
            return NAMED_TOGETHER_MAX;
        }
        let own =
            state.rule.taint.evictions_per_second.map(|rate| u32::try_from(rate.max(0)).unwrap_or(u32::MAX));
        let Some(rate) = own.or(self.options.default_evictions_per_second) else { return NAMED_MAX };
        let interval = usize::try_from(self.options.status_interval_ms / 1_000).unwrap_or(1).max(1);
        let leave = (rate as usize).saturating_mul(interval).saturating_add(self.options.burst as usize);
        leave.saturating_mul(2).clamp(NAMED_MIN, NAMED_MAX)
    }

    /// The pods that the next status of a rule names: those whose eviction is under way or in doubt, those that may leave, and then those that
    /// wait for it.
    pub(crate) fn names_of(&mut self, now: Timestamp, rule: u32) -> Names {
        let mut names = Names::default();
        let Some(state) = self.rules.get_mut(rule).filter(|_| self.options.records_evictions) else {
            return names;
        };
        let mut awaiting = core::mem::take(&mut state.record.awaiting);
        let Some(state) = self.rules.get(rule) else { return names };
        for (pod, uid) in &state.record.named {
            let slot = self.pods.get(PodIx(*pod)).filter(|slot| slot.pod.uid == *uid);
            let is_open = slot.is_some_and(|slot| self.may_have_begun(slot, rule));
            if is_open || state.record.inherited.contains(pod) {
                names.pods.insert(*pod, uid.clone());
            }
        }
        names.orphans.clone_from(&state.record.orphans);
        let most = if self.closing { 0 } else { self.named_max(state) };
        while names.pods.len() < most
            && let Some((_, pod)) = awaiting.pop_first()
        {
            if let Some(slot) = self.pods.get(PodIx(pod)).filter(|slot| self.awaits(slot, rule, now)) {
                names.pods.insert(pod, slot.pod.uid.clone());
            }
        }
        if let Some(state) = self.rules.get_mut(rule) {
            state.record.awaiting = awaiting;
        }
        names
    }

    /// Whether the eviction of a pod that a rule names may have begun, or may begin without another status.
    fn may_have_begun(&self, slot: &Slot, rule: u32) -> bool {
        match slot.phase {
            Phase::InFlight(_) | Phase::Leaving => slot.settled.is_none(),
            Phase::Waiting if slot.uncertain.is_some() => true,
            Phase::Waiting => {
                let is_asked_again = slot.blocked.as_ref().map_or(slot.failures > 0, |blocked| {
                    matches!(blocked.why, Block::Budget | Block::Refused)
                });
                !self.closing && self.leaves_because_of(slot, rule) && (slot.active > 0 || is_asked_again)
            }
        }
    }

    /// Whether a pod waits for a rule to name it.
    fn awaits(&self, slot: &Slot, rule: u32, now: Timestamp) -> bool {
        slot.phase == Phase::Waiting
            && slot
                .reasons
                .iter()
                .take_while(|reason| slot.ripe_at(reason) <= now)
                .any(|reason| self.causes.get(reason.cause_ix).is_some_and(|state| state.rule == Some(rule)))
    }

    fn leaves_because_of(&self, slot: &Slot, rule: u32) -> bool {
        let of_rule = |cause: u32| self.causes.get(cause).is_some_and(|state| state.rule == Some(rule));
        slot.reasons.iter().any(|reason| of_rule(reason.cause_ix))
    }

    /// A status was written, or was not: pods that it names may leave.
    pub(crate) fn record_written(&mut self, now: Timestamp, rule: u32, outcome: Outcome) {
        let Some(state) = self.rules.get_mut(rule) else { return };
        let pods = state.record.written(outcome);
        self.look_at_named(now, pods);
    }

    /// The status that is stored names these pods.
    pub(crate) fn names_are_stored(&mut self, now: Timestamp, rule: u32, names: Names) {
        let Some(state) = self.rules.get_mut(rule) else { return };
        let pods = state.record.adopt(names.pods);
        self.look_at_named(now, pods);
    }

    fn look_at_named(&mut self, now: Timestamp, pods: Vec<u32>) {
        for pod in pods {
            if self.pods.get(PodIx(pod)).is_some_and(|slot| slot.active == 0) {
                self.schedule(PodIx(pod), now);
            }
        }
    }
}

fn turn_in_line(slot: &Slot) -> Turn {
    let pod = &slot.pod;
    (Timestamp::EPOCH, pod.priority, Reverse(pod.created.unwrap_or(Timestamp::EPOCH)), pod.key.clone())
}
