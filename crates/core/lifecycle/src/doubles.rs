//! Two open incidents of one device: one goes on, with what the policies of both demand.

use alloc::{format, sync::Arc, vec::Vec};
use core::cmp::Reverse;

use lazaret_model::{DeviceId, Text, Timestamp};

use crate::{
    Lifecycle,
    demands::demand_beside,
    incident::{Incident, Stage},
    limits::is_out,
    machine::enforces,
    policy::TaintKeyValue,
    stages::{ITSELF, Wish, go_further},
};

impl Lifecycle {
    /// A device has one incident. One that is Abandoned stays open, for only a person ends that; else one that took the device out of service, else
    /// one of a policy that enforces; of two alike the older one.
    pub(crate) fn close_double(&mut self, now: Timestamp, device: &DeviceId, one: u64, other: u64) {
        let rank = |number: u64| {
            self.incidents.get(&number).map(|incident| {
                let is_given_up = incident.stage == Stage::Abandoned;
                (is_given_up, is_out(incident), enforces(self, &incident.policy), Reverse(incident.serial))
            })
        };
        let (kept, closed) = if rank(one) > rank(other) { (one, other) } else { (other, one) };
        let ended = self.incidents.get(&closed).map(Arc::clone);
        self.enter(
            now,
            closed,
            Stage::Cleared,
            "the device has another open incident".into(),
            &ITSELF.into(),
        );
        let calm_of = |number| self.incidents.get(&number).map(|incident| incident.calm_since.unwrap_or(now));
        let calm = ended.as_ref().map(|ended| ended.calm_since.unwrap_or(now)).max(calm_of(kept));
        if let Some(known) = self.devices.get_mut(device) {
            known.incident = Some(kept);
            // The device is calm since it is so by both.
            known.calm_from = known.calm_from.max(calm);
        }
        if let Some(ended) = ended {
            take_over(self, now, kept, &ended);
        }
        // The end of one does not bring the device of the other back.
        self.note_service(kept);
        self.act_again(kept);
    }
}

/// The verdicts of policies in an incident that is closed are carried out in the one that is kept.
fn take_over(lifecycle: &mut Lifecycle, now: Timestamp, kept: u64, ended: &Incident) {
    for wish in wishes(ended) {
        let Some(incident) = lifecycle.incidents.get(&kept) else { return };
        if incident.stage == Stage::Abandoned || !enforces(lifecycle, &wish.policy) {
            continue;
        }
        let is_orphan = !lifecycle.policies.contains_key(&incident.policy);
        let is_drain = wish.stage == Stage::Draining;
        // The result of the closed one was not repaired.
        let is_unproven = incident.stage == Stage::Probation && incident.policy == wish.policy;
        if is_orphan && (is_drain || !is_out(incident)) || wanted_stage(incident) < wish.stage {
            go_further(lifecycle, now, kept, wish);
        } else if is_drain && is_unproven && ended.stage != Stage::Probation {
            lifecycle.enter(now, kept, Stage::Draining, wish.cause, &ITSELF.into());
        } else if is_drain {
            demand_beside(lifecycle, now, kept, wish);
        }
    }
}

/// The stage that an incident is in, or is to pass to as soon as a guard permits it.
fn wanted_stage(incident: &Incident) -> Stage {
    incident.held.as_ref().map_or(incident.stage, |held| held.stage.max(incident.stage))
}

/// The verdicts of an incident that is closed: of the policy that governs it, of the one that a guard holds, and of those that follow.
fn wishes(ended: &Incident) -> Vec<Wish> {
    let cause: Text = format!("incident {} of the same device had its verdict", ended.name).into();
    let wish = |policy: &Text, rule: &Text, taint: &TaintKeyValue, stage| Wish {
        policy: policy.clone(),
        rule: rule.clone(),
        taint: taint.clone(),
        stage,
        cause: cause.clone(),
    };
    // Its repair and its proof are over together.
    let own = ended.stage.min(Stage::Draining);
    let held = ended.held.iter().map(|held| wish(&held.policy, &held.rule, &held.taint, held.stage));
    let open = ended.demands.iter().filter(|demand| !demand.is_met);
    let follow = open.map(|demand| wish(&demand.policy, &demand.rule, &ended.taint, Stage::Draining));
    core::iter::once(wish(&ended.policy, &ended.rule, &ended.taint, own)).chain(held).chain(follow).collect()
}
