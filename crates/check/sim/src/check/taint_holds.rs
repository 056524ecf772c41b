//! A taint of a driver or a patch that reaches more than a guard permits without approval evicts nobody.

use std::collections::BTreeSet;

use lazaret_eviction::Evict;
use lazaret_model::{Approvers, DeviceSelector, DisruptionGuard, Impact, Share, TaintApproval, TaintedBy};

use crate::{
    reference::{self, Cause, Found, Source},
    view::{Named, Seen},
    world::World,
};

/// The taint that is counted with others of its kind; nothing for a rule.
fn kind_of(source: Source<'_>, taint: &lazaret_model::Taint, device: Named<'_>) -> Option<TaintedBy> {
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

impl World {
    /// No pod leaves for nothing but taints that guards hold, as far as the controller has seen.
    pub(super) fn check_taint_holds(&mut self, number: usize, evict: &Evict) {
        let guards = &self.controllers[number].guards;
        if guards.iter().all(|guard| guard.confirm_above.is_none()) {
            return;
        }
        let now = self.controllers[number].clock(self.now);
        let seen = self.seen(number);
        let Some(pod) = seen.pod(&evict.pod).filter(|pod| pod.uid == evict.uid) else { return };
        let causes = reference::causes(seen, pod);
        let due: Vec<&Cause<'_>> = causes.iter().filter(|cause| cause.deadline <= now).collect();
        let holder = |cause: &&Cause<'_>| {
            let kind = kind_of(cause.source, cause.taint, cause.device)?;
            let holder = guards.iter().find(|guard| self.holds_taint(number, guard, &kind))?;
            Some(format!("{kind}, which {} holds", holder.name))
        };
        let holders: Vec<Option<String>> = due.iter().map(holder).collect();
        let Some(held) = holders.iter().cloned().collect::<Option<Vec<String>>>() else { return };
        if let Some(first) = held.first() {
            let detail = format!("{} because of {first}", evict.pod);
            self.violate("a held taint evicts nobody", detail);
        }
    }

    fn holds_taint(&self, number: usize, guard: &DisruptionGuard, kind: &TaintedBy) -> bool {
        let Some(confirm) = guard.confirm_above else { return false };
        let selector = guard.selector.as_ref();
        let total = match confirm.devices {
            Some(Share::Percent(_)) => self.published(number, selector),
            Some(Share::Count(_)) | None => 0,
        };
        let whole = self.taint_impact(number, kind, None);
        let selected = match selector {
            None => whole,
            some => self.taint_impact(number, kind, some),
        };
        let counts = |approval: &TaintApproval| {
            let is_person = approval.by.as_ref().is_some_and(|by| !by.starts_with("system:"));
            approval.taint == *kind
                && approval.seen.covers(whole)
                && (guard.approvers == Approvers::Anyone || is_person)
        };
        selected.devices > 0 && confirm.is_exceeded_by(selected, total) && !guard.approvals.iter().any(counts)
    }

    /// The devices that have a taint, among those that a guard selects, and the pods that it evicts there, as a controller sees it.
    fn taint_impact(&self, number: usize, kind: &TaintedBy, within: Option<&DeviceSelector>) -> Impact {
        let seen = self.seen(number);
        let has = |named: Named<'_>| {
            reference::selects(seen, within, named) && !of_kind(seen, named, kind).is_empty()
        };
        let mut devices = BTreeSet::new();
        for device in 0..self.api.catalog.devices() {
            let id = self.api.catalog.id(u32::try_from(device).unwrap_or(u32::MAX));
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
                        && of_kind(seen, device, kind).iter().any(|found| {
                            reference::deadline(found.taint, None, &result.tolerations).is_some()
                        })
                })
            });
            if hit {
                pods += 1;
                namespaces.insert(pod.key.namespace.clone());
            }
        }
        Impact { pods, namespaces: namespaces.len() as u64, devices: devices.len() as u64 }
    }
}
