//! A rule that reaches more than a guard permits without approval has no effect; a taint of a driver or a patch that does evicts no pod.

use std::{collections::BTreeSet, sync::Arc};

use lazaret_eviction::Evict;
use lazaret_model::{
    Approvers, ConfirmAbove, DeviceSelector, DeviceTaintRule, DisruptionGuard, Effect, Impact, Share, Taint,
    TaintApproval, TaintedBy,
};

use crate::{
    actors::forgers::FORGED_APPROVER,
    check::decide::rule_of,
    reference::{self, Cause, Found, Source},
    view::{Named, Seen},
    world::World,
};

impl World {
    /// No pod leaves because of a rule that is held by a guard that the controller has seen.
    pub(super) fn check_approval(&mut self, number: usize, evict: &Evict) {
        let guards = &self.controllers[number].guards;
        if guards.iter().all(|guard| guard.confirm_above.is_none()) {
            return;
        }
        check_taint_holds(self, number, evict);
        let guards = &self.controllers[number].guards;
        let now = self.controllers[number].clock(self.now);
        let seen = self.seen(number);
        let Some(pod) = seen.pod(&evict.pod).filter(|pod| pod.uid == evict.uid) else { return };
        let causes = reference::causes(seen, pod);
        let due = causes.iter().filter(|cause| cause.deadline <= now);
        let is_over =
            |cause: &&Cause<'_>| cause.taint.eviction.as_ref().is_some_and(|spec| spec.is_expired(now));
        let mut complaint = None;
        for cause in due.filter(|cause| !is_over(cause)) {
            let Some(rule) = seen.rules().find(|rule| Some(&rule.uid) == rule_of(cause.source)) else {
                continue;
            };
            for guard in guards {
                let Some(confirm) = guard.confirm_above else { continue };
                if self.exceeds(number, rule, guard, &confirm) && !self.is_approved(number, rule, guard) {
                    let detail =
                        format!("{} because of {}, which {} holds", evict.pod, rule.name, guard.name);
                    complaint = Some(detail);
                }
            }
        }
        if let Some(detail) = complaint {
            self.violate("a held rule has no effect", detail);
        }
    }

    fn exceeds(
        &self,
        number: usize,
        rule: &DeviceTaintRule,
        guard: &DisruptionGuard,
        confirm: &ConfirmAbove,
    ) -> bool {
        let selector = guard.selector.as_ref();
        let total = match confirm.devices {
            Some(Share::Percent(_)) => self.published(number, selector),
            Some(Share::Count(_)) | None => 0,
        };
        confirm.is_exceeded_by(self.impact(number, rule, selector), total)
    }

    fn is_approved(&self, number: usize, rule: &DeviceTaintRule, guard: &DisruptionGuard) -> bool {
        let Some(review) = &rule.review else { return false };
        let Some(approval) = &review.approval else { return false };
        let differs =
            review.written_by.is_some() && approval.by.is_some() && review.written_by != approval.by;
        let is_person = approval
            .by
            .as_ref()
            .is_none_or(|by| **by != *FORGED_APPROVER && !by.starts_with("system:lazaret:"));
        approval.uid == rule.uid
            && approval.generation == rule.generation
            && approval.covers(self.impact(number, rule, None))
            && (guard.approvers == Approvers::Anyone || differs && is_person)
    }

    /// How many devices are published and selected, as a controller sees it.
    fn published(&self, number: usize, selector: Option<&DeviceSelector>) -> u64 {
        let seen = self.seen(number);
        let selected = |device: &usize| {
            let id = self.api.catalog.id(u32::try_from(*device).unwrap_or(u32::MAX));
            let named = seen.device(&id);
            seen.published(named).is_some() && reference::selects(seen, selector, named)
        };
        (0..self.api.catalog.devices()).filter(selected).count() as u64
    }

    /// The devices and pods that a rule reaches among the devices that a guard selects, as a controller sees it.
    pub(crate) fn impact(
        &self,
        number: usize,
        rule: &DeviceTaintRule,
        within: Option<&DeviceSelector>,
    ) -> Impact {
        let seen = self.seen(number);
        let means = |named: Named<'_>| {
            rule.selector.is_some()
                && reference::selects(seen, rule.selector.as_ref(), named)
                && reference::selects(seen, within, named)
        };
        let mut devices = BTreeSet::new();
        for device in 0..self.api.catalog.devices() {
            let id = self.api.catalog.id(u32::try_from(device).unwrap_or(u32::MAX));
            let named = seen.device(&id);
            if seen.published(named).is_some() && means(named) {
                devices.insert(id);
            }
        }
        devices.extend(seen.held().filter(|id| means(seen.device(id))));
        let (mut pods, mut namespaces) = (0, BTreeSet::new());
        for pod in seen.pods().filter(|pod| reference::may_be_evicted(pod)) {
            let hit = reference::claims(seen, pod).any(|claim| {
                seen.results(claim).any(|(result, device)| {
                    reference::deadline(&rule.taint, None, &result.tolerations).is_some() && means(device)
                })
            });
            if hit && rule.taint.effect.evicts() {
                pods += 1;
                namespaces.insert(pod.key.namespace.clone());
            }
        }
        Impact { pods, namespaces: namespaces.len() as u64, devices: devices.len() as u64 }
    }
}

/// The taint that is counted with others of its kind; nothing for a rule.
fn kind_of(source: Source<'_>, taint: &Taint, device: Named<'_>) -> Option<TaintedBy> {
    match source {
        Source::Rule(..) => None,
        Source::Patch(name, _) => Some(TaintedBy::Patch { name: name.clone() }),
        Source::Device(..) | Source::TaintSlice(..) => Some(TaintedBy::Driver {
            driver: device.id.driver.clone(),
            key: taint.key.clone(),
            value: taint.value.clone(),
        }),
    }
}

/// The taints of a device that are of a kind and evict.
fn of_kind<'a>(seen: Seen<'a>, named: Named<'a>, kind: &TaintedBy) -> Vec<Found<'a>> {
    let mut found = reference::taints(seen, named);
    found.retain(|found| {
        found.taint.effect.evicts() && kind_of(found.source, found.taint, named).as_ref() == Some(kind)
    });
    found
}

/// No pod leaves for nothing but taints that guards hold, as far as the controller has seen.
fn check_taint_holds(world: &mut World, number: usize, evict: &Evict) {
    let guards = &world.controllers[number].guards;
    let now = world.controllers[number].clock(world.now);
    let seen = world.seen(number);
    let Some(pod) = seen.pod(&evict.pod).filter(|pod| pod.uid == evict.uid) else { return };
    let causes = reference::causes(seen, pod);
    let due: Vec<&Cause<'_>> = causes.iter().filter(|cause| cause.deadline <= now).collect();
    let holder = |cause: &&Cause<'_>| {
        let kind = kind_of(cause.source, cause.taint, cause.device)?;
        let holder = guards.iter().find(|guard| holds_taint(world, number, guard, &kind))?;
        Some(format!("{kind}, which {} holds", holder.name))
    };
    let holders: Vec<Option<String>> = due.iter().map(holder).collect();
    let Some(held) = holders.iter().cloned().collect::<Option<Vec<String>>>() else { return };
    if let Some(first) = held.first() {
        let detail = format!("{} because of {first}", evict.pod);
        world.violate("a held taint evicts no pod", detail);
    }
}

/// The guard that holds a taint which makes a replacement controller begin, as far as that controller has seen. A taint that evicts no pod is not
/// held.
pub(super) fn holder_of<'a>(
    world: &World,
    number: usize,
    guards: &'a [Arc<DisruptionGuard>],
    named: Named<'_>,
    found: &Found<'_>,
) -> Option<&'a Arc<DisruptionGuard>> {
    if let Some(uid) = rule_of(found.source) {
        let rule = world.seen(number).rules().find(|rule| rule.uid == *uid)?;
        // It keeps no pod away from a device, so there is nothing to approve.
        if matches!(rule.taint.effect, Effect::None) {
            return None;
        }
        return guards.iter().find(|guard| {
            let exceeds = |confirm| world.exceeds(number, rule, guard, &confirm);
            guard.confirm_above.is_some_and(exceeds) && !world.is_approved(number, rule, guard)
        });
    }
    let kind = kind_of(found.source, found.taint, named).filter(|_| found.taint.effect.evicts())?;
    if taint_impact(world, number, &kind, None).pods == 0 {
        return None;
    }
    guards.iter().find(|guard| holds_taint(world, number, guard, &kind))
}

fn holds_taint(world: &World, number: usize, guard: &DisruptionGuard, kind: &TaintedBy) -> bool {
    let Some(confirm) = guard.confirm_above else { return false };
    let selector = guard.selector.as_ref();
    let total = match confirm.devices {
        Some(Share::Percent(_)) => world.published(number, selector),
        Some(Share::Count(_)) | None => 0,
    };
    let whole = taint_impact(world, number, kind, None);
    let selected = match selector {
        None => whole,
        some => taint_impact(world, number, kind, some),
    };
    let counts = |approval: &TaintApproval| {
        let is_person =
            approval.by.as_ref().is_some_and(|by| **by != *FORGED_APPROVER && !by.starts_with("system:"));
        approval.taint == *kind
            && approval.seen.covers(whole)
            && (guard.approvers == Approvers::Anyone || is_person)
    };
    selected.devices > 0 && confirm.is_exceeded_by(selected, total) && !guard.approvals.iter().any(counts)
}

/// The devices that have a taint, among those that a guard selects, and the pods that it evicts there, as a controller sees it.
fn taint_impact(world: &World, number: usize, kind: &TaintedBy, within: Option<&DeviceSelector>) -> Impact {
    let seen = world.seen(number);
    let has =
        |named: Named<'_>| reference::selects(seen, within, named) && !of_kind(seen, named, kind).is_empty();
    let mut devices = BTreeSet::new();
    for device in 0..world.api.catalog.devices() {
        let id = world.api.catalog.id(u32::try_from(device).unwrap_or(u32::MAX));
        let named = seen.device(&id);
        if seen.published(named).is_some() && has(named) {
            devices.insert(id);
        }
    }
    devices.extend(seen.held().filter(|id| has(seen.device(id))));
    let (mut pods, mut namespaces) = (0, BTreeSet::new());
    for pod in seen.pods().filter(|pod| reference::may_be_evicted(pod)) {
        let hit = reference::claims(seen, pod).any(|claim| {
            seen.results(claim).any(|(result, device)| {
                reference::selects(seen, within, device)
                    && of_kind(seen, device, kind)
                        .iter()
                        .any(|found| reference::deadline(found.taint, None, &result.tolerations).is_some())
            })
        });
        if hit {
            pods += 1;
            namespaces.insert(pod.key.namespace.clone());
        }
    }
    Impact { pods, namespaces: namespaces.len() as u64, devices: devices.len() as u64 }
}
