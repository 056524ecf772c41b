//! Taints that no rule sets: of drivers and of patches. One that reaches more than a guard permits without approval stays in force, for schedulers to
//! obey, and neither evicts nor replaces a pod.
//!
//! They are counted on the fleet as a whole, not on pods that were evaluated: the first pods leave before the last ones are.

use alloc::{collections::BTreeMap, format, string::String};

use lazaret_model::{
    DeviceId, DeviceSelector, DisruptionGuard, Effect, Impact, TaintApproval, TaintHold, TaintedBy,
    Timestamp, patience,
};

use super::{
    reach::{Reach, devices_of, leaves, measure},
    refusal::{Approved, refusal},
};
use crate::{EffectiveTaint, Fleet, Origin, Presence};

/// With which others a taint of a device is counted; nothing for a rule, and for one that evicts no pod.
#[must_use]
pub(crate) fn kind_of(effective: &EffectiveTaint<'_>, device: &DeviceId) -> Option<TaintedBy> {
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
#[must_use]
pub fn taint_reaches(fleet: &Fleet) -> BTreeMap<TaintedBy, Reach> {
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
    let reach = taint_reaches(fleet).remove(&TaintedBy::Patch { name: name.into() });
    reach.map_or_else(Impact::default, |reach| measure(fleet, &reach, |_| true))
}

/// The hold of a guard on a taint: nothing if it is on no device that the guard selects, or if it needs no approval and has none.
/// `selects`: whether the guard is about a device, or may be. `known`: the hold as it was last seen.
pub fn taint_hold(
    now: Timestamp,
    fleet: &Fleet,
    guard: &DisruptionGuard,
    selects: impl FnMut(&DeviceId) -> bool,
    (taint, reach): (&TaintedBy, &Reach),
    known: Option<&TaintHold>,
    trusts_user_names: bool,
) -> Option<TaintHold> {
    let confirm = guard.confirm_above?;
    let impact = measure(fleet, reach, |_| true);
    let selected = match &guard.selector {
        None => impact,
        Some(_) => measure(fleet, reach, selects),
    };
    if selected.devices == 0 {
        return None;
    }
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
            let is_it = |one: &&TaintApproval| one.taint == *taint && one.since == since;
            Some(Approved::taint(guard.approvals.iter().find(is_it)?, trusts_user_names))
        }
    }
}
