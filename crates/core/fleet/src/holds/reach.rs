//! How far a rule reaches: devices that it taints, and pods that it evicts.

use alloc::{collections::BTreeSet, sync::Arc, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_model::{
    ConfirmAbove, DeviceId, DeviceSelector, DeviceTaintRule, DisruptionGuard, Effect, Impact, Pod,
    RuleRequest, Share, Taint, Timestamp, patience,
};

use crate::{Fleet, PodIx};

/// Devices and pods that a rule, or a taint, reaches.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// Devices that have the taint.
    pub devices: Vec<DeviceId>,
    /// Pods that would be evicted, with the device.
    pub users: Vec<(PodIx, DeviceId)>,
    /// How many rules of a request are counted.
    pub rules: usize,
}

impl Reach {
    /// One more rule of the same request.
    pub fn add_rule(&mut self, more: Self) {
        self.devices.extend(more.devices);
        self.users.extend(more.users);
        self.rules += 1;
    }

    /// Each device once, when all rules are in.
    pub fn finish(&mut self) {
        self.devices.sort_unstable();
        self.devices.dedup();
    }
}

/// How much a rule reaches, whether it is held or not: the devices that it taints, and the pods that it evicts.
#[must_use]
pub fn impact(fleet: &Fleet, rule: &DeviceTaintRule) -> Impact {
    // DEVIATION(absent-selector): it selects no device.
    let Some(selector) = &rule.selector else { return Impact::default() };
    measure(fleet, &reach_of(fleet, rule, selector), |_| true)
}

/// How much these rules reach together.
#[must_use]
pub fn impact_together<'a>(fleet: &Fleet, rules: impl Iterator<Item = &'a DeviceTaintRule>) -> Impact {
    let mut all = Reach::default();
    for rule in rules {
        // It selects no device.
        let Some(selector) = &rule.selector else { continue };
        all.add_rule(reach_of(fleet, rule, selector));
    }
    all.finish();
    measure(fleet, &all, |_| true)
}

/// The request that a rule was made by.
#[must_use]
pub fn request_of(rule: &DeviceTaintRule) -> Option<&RuleRequest> {
    rule.review.as_ref()?.request.as_ref()
}

/// How many devices a guard selects, if a limit is a part of them.
pub(super) fn devices_of(fleet: &Fleet, guard: &DisruptionGuard, confirm: &ConfirmAbove) -> u64 {
    if !matches!(confirm.devices, Some(Share::Percent(_))) {
        return 0;
    }
    let all = DeviceSelector::default();
    fleet.selection_of(guard.selector.as_ref().unwrap_or(&all)).published_count() as u64
}

/// The devices that a rule taints, and the pods that it evicts.
#[must_use]
pub fn reach_of(fleet: &Fleet, rule: &DeviceTaintRule, selector: &DeviceSelector) -> Reach {
    let selection = fleet.selection_of(selector);
    let published = selection.published().map(|device| device.id());
    let devices = published.chain(selection.unpublished().map(|(device, _)| device)).collect();
    let mut users = Vec::new();
    let will_evict = request_of(rule).is_some_and(|request| request.evicts);
    if matches!(rule.taint.effect, Effect::NoExecute) || will_evict {
        for selected in selection.held() {
            let Some(claim) = invariant!(
                fleet.claim(selected.claim),
                "a selected device is in the allocation of its claim"
            ) else {
                continue;
            };
            let results = claim.allocation.as_ref().map_or(&[][..], |given| &given.results);
            let Some(result) = invariant!(
                results.get(selected.result),
                "a selected device is in the allocation of its claim"
            ) else {
                continue;
            };
            let taint = Taint { effect: Effect::NoExecute, ..rule.taint.clone() };
            if patience(&taint, &result.tolerations).ends(Timestamp::EPOCH) == Timestamp::NEVER {
                continue;
            }
            let pods = fleet.pods_of_claim(selected.claim).filter(|at| leaves(fleet, *at));
            users.extend(pods.map(|pod| (pod, result.device.clone())));
        }
    }
    Reach { devices, users, rules: 0 }
}

/// Whether a pod that does not tolerate a taint would be evicted because of it.
pub(super) fn leaves(fleet: &Fleet, at: PodIx) -> bool {
    let uses =
        |pod: &Arc<Pod>| pod.node.is_some() && !pod.phase.is_finished() && pod.deleting_since.is_none();
    fleet.pod(at).is_some_and(uses)
}

/// How much is reached of the devices that somebody selects.
#[must_use]
pub fn measure(fleet: &Fleet, reach: &Reach, mut selects: impl FnMut(&DeviceId) -> bool) -> Impact {
    let devices = reach.devices.iter().filter(|device| selects(device)).count() as u64;
    let (mut pods, mut namespaces) = (BTreeSet::new(), BTreeSet::new());
    for (pod, device) in &reach.users {
        if selects(device)
            && let Some(found) = fleet.pod(*pod)
        {
            pods.insert(*pod);
            namespaces.insert(&found.key.namespace);
        }
    }
    Impact { pods: pods.len() as u64, namespaces: namespaces.len() as u64, devices }
}
