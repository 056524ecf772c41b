//! Taints that no rule sets: of drivers and of patches. One that reaches more than a guard permits without approval stays in force, for schedulers to
//! obey, and evicts no pod.
//!
//! They are counted on the fleet as a whole, not on pods that were evaluated: the first pods leave before the last ones are.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};

use lazaret_fleet::{EffectiveTaint, Fleet, Origin, PodIx, Presence};
use lazaret_model::{
    DeviceId, DeviceSelector, DisruptionGuard, Effect, Impact, TaintHold, TaintedBy, Text, Timestamp,
};

use super::{
    reach::{Reach, devices_of, leaves, measure},
    refusal::{Approved, refusal},
};
use crate::{
    block::{Block, Blocked},
    effect::GuardEvent,
    guards::GuardState,
    patience,
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

/// The same for a taint of a device.
fn kind_of(effective: &EffectiveTaint<'_>, device: &DeviceId) -> Option<TaintedBy> {
    let taint = effective.taint;
    if !matches!(taint.effect, Effect::NoExecute) {
        return None;
    }
    match effective.origin {
        Origin::Rule { .. } => None,
        Origin::Patch { name, .. } => Some(TaintedBy::Patch { name: name.clone() }),
        Origin::Device { .. } | Origin::TaintSlice { .. } => Some(TaintedBy::Driver {
            driver: device.driver.clone(),
            key: taint.key.clone(),
            value: taint.value.clone(),
        }),
    }
}

/// How far each taint reaches that no rule sets. Costs all devices and all claims: asked only where such a taint makes a pod leave, or is approved.
fn reaches(fleet: &Fleet) -> BTreeMap<TaintedBy, Reach> {
    let mut found: BTreeMap<TaintedBy, Reach> = BTreeMap::new();
    for device in fleet.selection_of(&DeviceSelector::default()).published() {
        let mut taints = device.taints().peekable();
        if taints.peek().is_none() {
            continue;
        }
        let id = device.id();
        for taint in taints.filter_map(|taint| kind_of(&taint, &id)) {
            found.entry(taint).or_default().devices.push(id.clone());
        }
    }
    for (claim, _) in fleet.claims() {
        for held in fleet.held(claim) {
            for effective in held.taints() {
                let Some(kind) = kind_of(&effective, held.device) else { continue };
                let reach = found.entry(kind).or_default();
                if held.presence != Presence::Published {
                    reach.devices.push(held.device.clone());
                }
                let patience = patience(effective.taint, &held.result_ref.tolerations);
                if patience.ends(Timestamp::EPOCH) == Timestamp::NEVER {
                    continue;
                }
                let pods = fleet.pods_of_claim(claim).filter(|at| leaves(fleet, *at));
                reach.users.extend(pods.map(|pod| (pod, held.device.clone())));
            }
        }
    }
    for reach in found.values_mut() {
        reach.devices.sort_unstable();
        reach.devices.dedup();
    }
    found
}

/// How much a patch reaches: the devices that it gives a taint of effect NoExecute, and the pods that those evict.
#[must_use]
pub fn impact_of_patch(fleet: &Fleet, name: &str) -> Impact {
    let reach = reaches(fleet).remove(&TaintedBy::Patch { name: name.into() });
    reach.map_or_else(Impact::default, |reach| measure(fleet, &reach, |_| true))
}

/// The taints of drivers and patches that guards hold, and an event for each that was not held for that reason before.
pub(super) fn judge_taints(
    now: Timestamp,
    fleet: &Fleet,
    guards: &mut [GuardState],
    trusts_user_names: bool,
) -> (HeldTaints, Vec<GuardEvent>) {
    let found = reaches(fleet);
    let (mut messages, mut pods, mut events) = (BTreeMap::new(), BTreeSet::<PodIx>::new(), Vec::new());
    for guard in guards {
        let before = core::mem::take(&mut guard.taints);
        for (taint, reach) in &found {
            let known = before.get(taint);
            let Some(hold) = judge(now, fleet, guard, taint, reach, known, trusts_user_names) else {
                continue;
            };
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

/// The hold of a guard on a taint: nothing if it is on no device that the guard selects, or if it needs no approval and has none.
fn judge(
    now: Timestamp,
    fleet: &Fleet,
    state: &mut GuardState,
    taint: &TaintedBy,
    reach: &Reach,
    known: Option<&TaintHold>,
    trusts_user_names: bool,
) -> Option<TaintHold> {
    let confirm = state.guard.confirm_above?;
    let impact = measure(fleet, reach, |_| true);
    let selected = match &state.guard.selector {
        None => impact,
        Some(_) => measure(fleet, reach, |device| state.selects(fleet, device)),
    };
    if selected.devices == 0 {
        return None;
    }
    let guard = &*state.guard;
    let since = known.map_or(now, |known| known.since);
    let approved = approval(fleet, guard, taint, since, trusts_user_names);
    let exceeds = confirm.is_exceeded_by(selected, devices_of(fleet, guard, &confirm));
    // One that was approved stays known, so that its approval is for the same taint when it grows.
    if !exceeds && (known.is_none() || approved.is_none()) {
        return None;
    }
    let command = taint.approve_command();
    let refusal = if exceeds { refusal(guard, &confirm, impact, approved.as_ref(), &command) } else { None };
    let (reason, why) = refusal.unwrap_or((TaintHold::NOT_HELD, String::from("approved")));
    let message = format!("{taint}: {impact}; {why}").into();
    Some(TaintHold { taint: taint.clone(), since, impact, reason: reason.into(), message })
}

fn approval<'a>(
    fleet: &'a Fleet,
    guard: &'a DisruptionGuard,
    taint: &TaintedBy,
    since: Timestamp,
    trusts_user_names: bool,
) -> Option<Approved<'a>> {
    match taint {
        TaintedBy::Patch { name } => Approved::patch(fleet.patch(name)?.patch, trusts_user_names),
        TaintedBy::Driver { .. } => {
            let is_it = |one: &&lazaret_model::TaintApproval| one.taint == *taint && one.since == since;
            Some(Approved::taint(guard.approvals.iter().find(is_it)?, trusts_user_names))
        }
    }
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
