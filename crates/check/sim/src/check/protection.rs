//! The protection of pods: budgets, deadlines, and how many may be terminating at a time.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_eviction::{Evict, Manner};
use lazaret_model::{
    Breaker, BreakerUnit, DeviceId, DisruptionGuard, EvictionMode, NodeScope, Pod, Timestamp, Uid,
};

use crate::{
    actors::budgets::permits,
    check::decide::rule_of,
    coverage::Mark,
    palette::Traits,
    reference::{self, Cause},
    view::Seen,
    world::World,
};

/// By which request a cause wants pods to leave.
fn mode_of(cause: &Cause<'_>) -> EvictionMode {
    cause.taint.eviction.as_ref().map_or(EvictionMode::Delete, |spec| spec.mode)
}

/// Names of devices, nodes or fault domains.
type Units = BTreeSet<String>;

/// The units that a leader counted as out of service whenever it let a pod go, by guard and generation: they count for the breaker's window.
pub(crate) type WatchedBreakers = BTreeMap<(Uid, i64), BTreeMap<String, Timestamp>>;

/// The number that counts as out of service: units that are, and that were within the window when a pod left.
fn counted(
    watched: &mut WatchedBreakers,
    (guard, breaker): (&DisruptionGuard, &Breaker),
    now: Timestamp,
    out: Units,
    all: &Units,
) -> u64 {
    let seen = watched.entry((guard.uid.clone(), guard.generation)).or_default();
    seen.retain(|unit, at| at.plus_secs(breaker.window_seconds) > now && all.contains(unit));
    seen.extend(out.into_iter().map(|unit| (unit, now)));
    seen.len() as u64
}

/// The unit of a device for a guard that selects it.
pub(super) fn unit_of(
    seen: Seen<'_>,
    guard: &DisruptionGuard,
    of: &BreakerUnit,
    id: &DeviceId,
) -> Option<String> {
    let named = seen.device(id);
    if !reference::selects(seen, guard.selector.as_ref(), named) {
        return None;
    }
    let nodes = || Some(&seen.published(named)?.0.nodes);
    match of {
        BreakerUnit::Devices => Some(id.to_string()),
        BreakerUnit::Nodes => {
            if let NodeScope::Node(node) = nodes()? {
                Some(node.to_string())
            } else {
                None
            }
        }
        BreakerUnit::FaultDomains { attribute } => {
            let nodes = nodes()?;
            let traits = reference::Patched::of(seen, named);
            let value = traits.as_ref().and_then(|one| one.attribute(&id.driver, attribute));
            Some(match (value, nodes) {
                (Some(value), _) => format!("domain {value:?}"),
                (None, NodeScope::Node(node)) => format!("node {node}"),
                (None, _) => format!("pool {}/{}", id.driver, id.pool),
            })
        }
    }
}

/// Whether the time is over that a rule gives a pod to leave without being deleted.
pub(super) fn is_overdue(pod: &Pod, cause: &Cause<'_>, now: Timestamp) -> bool {
    let say = pod.eviction_preference.unwrap_or_default();
    let spec = cause.taint.eviction.as_ref();
    let left = spec.and_then(|spec| Some(spec.deadline_seconds? - i64::from(spec.granted_seconds(say))));
    mode_of(cause) == EvictionMode::EvictThenDelete
        && left.is_some_and(|seconds| cause.deadline.plus_secs(seconds) <= now)
}

impl World {
    /// A pod whose rules all ask budgets is deleted without asking only after a deadline.
    pub(super) fn check_manner(&mut self, number: usize, evict: &Evict) {
        let now = self.controllers[number].clock(self.now);
        let seen = self.seen(number);
        let Some(pod) = seen.pod(&evict.pod).filter(|pod| pod.uid == evict.uid) else { return };
        let causes = reference::causes(seen, pod);
        let is_over =
            |cause: &Cause<'_>| cause.taint.eviction.as_ref().is_some_and(|spec| spec.is_expired(now));
        let mut due = causes.iter().filter(|cause| cause.deadline <= now && !is_over(cause));
        let permitted = match evict.manner {
            Manner::Delete => due.any(|cause| mode_of(cause) == EvictionMode::Delete),
            Manner::Evict => due.any(|cause| mode_of(cause) != EvictionMode::Delete),
            Manner::DeleteOverdue => causes.iter().any(|cause| is_overdue(&pod, cause, now)),
        };
        if !permitted {
            let detail = format!("{} goes by {:?}: {:?}", evict.pod, evict.manner, evict.reasons);
            self.violate("budgets are asked before the deadline", detail);
        }
        let life = self.controllers[number].life;
        let asked = self.checker.asked.get(&(number, life, evict.uid.clone()));
        if evict.manner == Manner::DeleteOverdue && asked.is_none() {
            let detail = format!("{} goes by {:?}: {:?}", evict.pod, evict.manner, evict.reasons);
            self.violate("budgets are asked before a pod is deleted past them", detail);
        }
        if evict.manner == Manner::DeleteOverdue {
            self.coverage.hit(Mark::DeletedOverdue);
        }
    }

    /// A disruption budget refused to let a pod go.
    pub(crate) fn note_refused(&mut self, number: usize, pod: &Uid) {
        let key = (number, self.controllers[number].life, pod.clone());
        self.checker.asked.entry(key).or_insert(self.now);
    }

    /// Some rule for which a pod goes has an open window, or needs none.
    pub(super) fn check_windows(&mut self, number: usize, evict: &Evict) {
        let now = self.controllers[number].clock(self.now);
        let seen = self.seen(number);
        let Some(pod) = seen.pod(&evict.pod).filter(|pod| pod.uid == evict.uid) else { return };
        let is_closed = |cause: &Cause<'_>| {
            let windows = cause.taint.eviction.as_ref().map_or(&[][..], |spec| &spec.windows);
            !windows.is_empty() && windows.iter().all(|window| !window.is_open(now))
        };
        let causes = reference::causes(seen, pod);
        let mut due = causes.iter().filter(|cause| cause.deadline <= now).peekable();
        if due.peek().is_some() && due.all(is_closed) {
            self.violate("nothing begins outside a window", format!("{}: {:?}", evict.pod, evict.reasons));
        }
    }

    /// Some rule for which a pod goes has room for one more that is terminating.
    pub(super) fn check_room(&mut self, number: usize, evict: &Evict) {
        let now = self.controllers[number].clock(self.now);
        let seen = self.seen(number);
        let Some(pod) = seen.pod(&evict.pod).filter(|pod| pod.uid == evict.uid) else { return };
        let limit = |cause: &Cause<'_>| {
            let most = cause.taint.eviction.as_ref().and_then(|spec| spec.max_concurrent);
            most.zip(rule_of(cause.source).cloned())
        };
        let causes = reference::causes(seen, pod);
        let limits: Vec<Option<(u32, Uid)>> =
            causes.iter().filter(|cause| cause.deadline <= now).map(limit).collect();
        let full = |(most, rule): &(u32, Uid)| self.terminating_by(rule, &evict.uid) >= *most as usize;
        if !limits.is_empty() && limits.iter().all(|limit| limit.as_ref().is_some_and(full)) {
            let detail = format!("{} is one too many: {limits:?}", evict.pod);
            self.violate("no more than allowed are terminating", detail);
        }
        if limits.iter().any(Option::is_some) {
            self.coverage.hit(Mark::Limited);
        }
    }

    /// How many others are terminating because of a rule.
    fn terminating_by(&self, rule: &Uid, besides: &Uid) -> usize {
        let Some(evicted) = self.checker.evicted.get(rule) else { return 0 };
        let leaving = self.api.pods.iter().filter(|stored| stored.object.deleting_since.is_some());
        leaving.filter(|stored| evicted.contains(&stored.object.uid) && stored.object.uid != *besides).count()
    }

    /// No pod leaves while a guard that the controller has seen is paused or has no open window, or while more is out of service than its breaker
    /// permits.
    pub(super) fn check_guards(&mut self, number: usize, evict: &Evict) {
        let now = self.controllers[number].clock(self.now);
        let seen = self.seen(number);
        let Some(pod) = seen.pod(&evict.pod).filter(|pod| pod.uid == evict.uid) else { return };
        let causes = reference::causes(seen, pod);
        let mut complaint = None;
        let mut watched = self.controllers[number].breakers.clone();
        for guard in &self.controllers[number].guards {
            let is_unclear = |cause: &&Cause<'_>| {
                cause.deadline <= now && reference::is_unclear(seen, guard.selector.as_ref(), cause.device)
            };
            if let Some(cause) = causes.iter().find(is_unclear) {
                let detail = format!("{} on {:?} by {}", evict.pod, cause.device, guard.name);
                complaint = Some(("a guard that is not understood keeps everything", detail));
            }
            let selects = |cause: &&Cause<'_>| {
                cause.deadline <= now && reference::selects(seen, guard.selector.as_ref(), cause.device)
            };
            let Some(cause) = causes.iter().find(selects) else { continue };
            if guard.paused.as_ref().is_some_and(|pause| pause.holds(now)) {
                complaint = Some(("nothing begins while paused", format!("{} by {}", evict.pod, guard.name)));
            }
            if !guard.windows.is_empty() && !guard.windows.iter().any(|window| window.is_open(now)) {
                let detail = format!("{} by {}", evict.pod, guard.name);
                complaint = Some(("nothing begins outside a guard's window", detail));
            }
            let Some(breaker) = guard.breaker.as_ref().filter(|_| guard.reset_at.is_none()) else { continue };
            let (out, all) = self.out_of_service(number, guard, &breaker.of);
            let (out, total) = (counted(&mut watched, (guard, breaker), now, out, &all), all.len() as u64);
            if out > breaker.max_out_of_service.of(total) {
                let detail =
                    format!("{} for {:?}: {out} of {total} are out of service", evict.pod, cause.device);
                complaint = Some(("the breaker holds", detail));
            }
        }
        self.controllers[number].breakers = watched;
        if let Some((invariant, detail)) = complaint {
            self.violate(invariant, detail);
        }
    }

    /// How much of what a guard selects has a taint that keeps claims away, as a controller sees it, and how much there is.
    pub(super) fn out_of_service(
        &self,
        number: usize,
        guard: &DisruptionGuard,
        of: &BreakerUnit,
    ) -> (Units, Units) {
        let seen = self.seen(number);
        let (mut all, mut out) = (BTreeSet::new(), BTreeSet::new());
        for device in 0..self.api.catalog.devices() {
            let id = self.api.catalog.id(u32::try_from(device).unwrap_or(u32::MAX));
            let named = seen.device(&id);
            if seen.published(named).is_none() {
                continue;
            }
            let Some(unit) = unit_of(seen, guard, of, &id) else { continue };
            if reference::taints(seen, named).iter().any(|found| found.taint.effect.blocks_allocation()) {
                out.insert(unit.clone());
            }
            all.insert(unit);
        }
        (out, all)
    }

    /// The eviction API let a pod go: the status of its budget permits it.
    pub(super) fn check_budget(&mut self, evict: &Evict) {
        let stored = self.api.pods.get(&evict.pod).map(|stored| stored.object);
        let Some(budget) = stored.and_then(|pod| self.budget_of(pod)) else { return };
        if evict.manner == Manner::Evict && !permits(budget) {
            let detail = format!("{}: {}", evict.pod, budget["status"]);
            self.violate("a budget is never violated", detail);
        }
    }
}
