//! A rule that reaches more than a guard permits without approval has no effect.

use std::collections::BTreeSet;

use lazaret_eviction::Evict;
use lazaret_model::{
    Approvers, ConfirmAbove, DeviceSelector, DeviceTaintRule, DisruptionGuard, Impact, Share,
};

use crate::{
    check::decide::rule_of,
    reference::{self, Cause},
    view::Named,
    world::World,
};

impl World {
    /// No pod leaves because of a rule that is held by a guard that the controller has seen.
    pub(super) fn check_approval(&mut self, number: usize, evict: &Evict) {
        let guards = &self.controllers[number].guards;
        if guards.iter().all(|guard| guard.confirm_above.is_none()) {
            return;
        }
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
        approval.uid == rule.uid
            && approval.generation == rule.generation
            && approval.covers(self.impact(number, rule, None))
            && (guard.approvers == Approvers::Anyone || differs)
    }

    /// How many devices are published and selected, as a controller sees it.
    pub(super) fn published(&self, number: usize, selector: Option<&DeviceSelector>) -> u64 {
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
