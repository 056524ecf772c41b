//! Taints that no rule sets: of drivers and of patches. One that reaches more than a guard permits without approval stays in force, for schedulers to
//! obey, and evicts no pod.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    sync::Arc,
    vec::Vec,
};

use lazaret_fleet::{Fleet, PodIx, taint_hold, taint_reaches};
use lazaret_model::{DeviceId, Impact, TaintHold, TaintedBy, Text, Timestamp};

use crate::{
    block::{Block, Blocked},
    effect::GuardEvent,
    guards::GuardState,
    reason::{Reason, Source, due_of},
};

/// Taints that some guard holds, and how many pods they would evict.
#[derive(Debug, Default)]
pub(crate) struct HeldTaints {
    messages: BTreeMap<TaintedBy, Text>,
    pods: u64,
    /// They were counted on the fleet as it is.
    pub(super) are_counted: bool,
}

impl HeldTaints {
    pub(super) fn are_any(&self) -> bool {
        !self.messages.is_empty()
    }

    pub(super) fn pods(&self) -> u64 {
        self.pods
    }

    /// Whether other taints are held than those.
    pub(super) fn differ(&self, others: &Self) -> bool {
        !self.messages.keys().eq(others.messages.keys())
    }

    fn message(&self, reason: &Reason) -> Option<&Text> {
        self.messages.get(&tainted_by(reason)?)
    }

    /// The block of a pod that is due for nothing but taints that are held, and until when no other reason is due.
    pub(super) fn block(&self, now: Timestamp, reasons: &[Reason]) -> Option<(Blocked, Timestamp)> {
        if !self.are_any() {
            return None;
        }
        let due = due_of(reasons, now);
        let mut message = None;
        for reason in due {
            // It may leave for another reason.
            message = message.or(Some(self.message(reason)?));
        }
        let until = reasons.get(due.len()).map_or(Timestamp::NEVER, |reason| reason.deadline);
        Some((Blocked { why: Block::Held, message: message?.clone() }, until))
    }
}

/// The taint that is counted with others of its kind; nothing for a rule.
fn tainted_by(reason: &Reason) -> Option<TaintedBy> {
    let taint = &reason.cause.taint;
    match &reason.cause.source {
        Source::Rule { .. } => None,
        Source::Patch { name, .. } => Some(TaintedBy::Patch { name: name.clone() }),
        Source::Device { .. } | Source::TaintSlice { .. } => Some(TaintedBy::Driver {
            driver: reason.device().driver.clone(),
            key: taint.key.clone(),
            value: taint.value.clone(),
        }),
    }
}

/// The taints of drivers and patches that guards hold, and an event for each that was not held for that reason before.
pub(super) fn judge_taints(
    now: Timestamp,
    fleet: &Fleet,
    guards: &mut [GuardState],
    trusts_user_names: bool,
) -> (HeldTaints, Vec<GuardEvent>) {
    let found = taint_reaches(fleet);
    let (mut messages, mut pods, mut events) = (BTreeMap::new(), BTreeSet::<PodIx>::new(), Vec::new());
    for guard in guards {
        let before = core::mem::take(&mut guard.taints);
        let this = Arc::clone(&guard.guard);
        for (taint, reach) in &found {
            let known = before.get(taint);
            let selects = |device: &DeviceId| guard.selects(fleet, device);
            let hold = taint_hold(now, fleet, &this, selects, (taint, reach), known, trusts_user_names);
            let Some(hold) = hold else { continue };
            if hold.is_held() {
                messages.entry(taint.clone()).or_insert_with(|| hold.message.clone());
                pods.extend(reach.users.iter().map(|(pod, _)| *pod));
                if known.is_none_or(|known| known.reason != hold.reason) {
                    events.push(event(guard, &hold));
                }
            }
            guard.taints.insert(taint.clone(), hold);
        }
    }
    (HeldTaints { messages, pods: pods.len() as u64, are_counted: true }, events)
}

/// No guard wants approval, or no such taint makes a pod leave.
pub(super) fn forget_taints(guards: &mut [GuardState]) -> HeldTaints {
    guards.iter_mut().for_each(|guard| guard.taints.clear());
    HeldTaints::default()
}

fn event(state: &GuardState, hold: &TaintHold) -> GuardEvent {
    let Impact { pods, .. } = hold.impact;
    let kept = if pods == 1 { "pod" } else { "pods" };
    GuardEvent {
        guard: state.guard.name.clone(),
        uid: state.guard.uid.clone(),
        message: format!("{}: {pods} {kept} not evicted: {}.", Block::Held.name(), hold.message).into(),
    }
}
