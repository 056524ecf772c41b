//! Limits that guards set on the devices that policies take out of service, counted over the fleet.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_fleet::{DeviceRef, Fleet};
use lazaret_lifecycle::{HeldReason, Limit, Selected};
use lazaret_model::{
    BreakerUnit, DeviceSelector, DisruptionGuard, RecentlyOut, Text, Timestamp, Uid, Unit, Window,
    WindowStatus,
};
use lazaret_runtime::News;

use crate::guard::GuardBook;

/// Devices that are counted for each millisecond that passes between two counts: of 100,000 devices once a second, of few at once. The devices that
/// incidents take out of service are known at any time.
const DEVICES_PER_MS: i64 = 100;

/// The guards, and when they were last counted.
#[derive(Debug, Default)]
pub(super) struct GuardLimits {
    book: GuardBook,
    /// By guard: what was out of service within the windows of their breakers.
    recent: BTreeMap<Uid, RecentlyOut>,
    counted: Option<Counted>,
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    /// The revision of the fleet.
    revision: u64,
    at: Timestamp,
    devices: u64,
    /// A pause ends then, a window opens or closes, or something that was out of service counts no more.
    ends: Option<Timestamp>,
}

impl Counted {
    fn again_at(self) -> Timestamp {
        self.at.plus_millis(i64::try_from(self.devices).unwrap_or(i64::MAX) / DEVICES_PER_MS)
    }
}

impl GuardLimits {
    /// Takes note. Whether it was about guards.
    pub(super) fn hear(&mut self, news: &News) -> bool {
        self.book.hear(news)
    }

    /// Whether a guard limits what policies take out of service.
    pub(super) fn has_limits(&self) -> bool {
        self.book.all().iter().any(|guard| guard.breaker.is_some() || guard.paused.is_some())
    }

    /// The limits, if they are to be told anew. A new leader has them counted at once.
    pub(super) fn count(&mut self, now: Timestamp, fleet: &Fleet, at_once: bool) -> Option<Vec<Limit>> {
        let is_news = core::mem::take(&mut self.book.is_news);
        let is_due = match self.counted {
            None => false,
            Some(last) => {
                let is_stale = last.revision != fleet.revision();
                is_stale && (at_once || last.again_at() <= now) || last.ends.is_some_and(|ends| ends <= now)
            }
        };
        if !is_news && !is_due {
            return None;
        }
        let guards = self.book.all();
        let is_windowed =
            |guard: &DisruptionGuard| guard.breaker.as_ref().is_some_and(|one| one.window_seconds > 0);
        self.recent.retain(|uid, _| guards.iter().any(|guard| guard.uid == *uid && is_windowed(guard)));
        let mut recents = Vec::new();
        let mut limits = Vec::with_capacity(guards.len());
        for guard in &guards {
            let mut limit = limit(now, fleet, guard);
            if let Some(breaker) = guard.breaker.as_ref().filter(|_| is_windowed(guard)) {
                let recent = self.recent.entry(guard.uid.clone()).or_default();
                recent.see(now, breaker.window_seconds, limit.out.clone());
                limit.out.extend(recent.back().cloned());
                recents.extend(recent.ends(breaker.window_seconds).map(|(first, _)| first));
            }
            limits.push(limit);
        }
        let pauses = guards.iter().filter_map(|guard| guard.paused.as_ref()?.until);
        let windows = guards.iter().map(|guard| Window::unchanged_until(&guard.windows, now));
        let windows = windows.filter(|at| *at != Timestamp::NEVER);
        let ends = pauses.chain(windows).chain(recents).filter(|at| *at > now).min();
        let devices = limits.iter().map(|limit| limit.total).sum();
        let counts = guards.iter().any(|guard| guard.breaker.is_some()) || ends.is_some();
        self.counted = counts.then_some(Counted { revision: fleet.revision(), at: now, devices, ends });
        Some(limits)
    }

    /// When to count again, if nothing is heard before.
    pub(super) fn wake(&self, fleet: &Fleet) -> Option<Timestamp> {
        let last = self.counted?;
        let stale = (last.revision != fleet.revision()).then(|| last.again_at());
        [stale, last.ends].into_iter().flatten().min()
    }
}

fn limit(now: Timestamp, fleet: &Fleet, guard: &DisruptionGuard) -> Limit {
    let all = DeviceSelector::default();
    let selection = fleet.selection_of(guard.selector.as_ref().unwrap_or(&all));
    let of = guard.breaker.as_ref().map(|breaker| &breaker.of);
    let selects = match (&guard.selector, of) {
        (_, Some(of @ (BreakerUnit::Nodes | BreakerUnit::FaultDomains { .. }))) => {
            let units = selection.published().filter_map(|device| Some((device.id(), device.unit(of)?)));
            Selected::Units(units.collect())
        }
        (None, _) => Selected::All,
        (Some(selector), _) if selector.by_names_only() => Selected::Names(selector.clone()),
        (Some(_), _) => {
            let published = selection.published().map(DeviceRef::id);
            Selected::Devices(published.chain(selection.unpublished().map(|(device, _)| device)).collect())
        }
    };
    let is_out = |device: &DeviceRef<'_>| device.taints().any(|found| found.taint.effect.blocks_allocation());
    let out: BTreeSet<Unit> = of
        .map(|of| selection.published().filter(is_out).filter_map(|device| device.unit(of)).collect())
        .unwrap_or_default();
    let total = match &selects {
        Selected::Units(units) => units.values().collect::<BTreeSet<_>>().len() as u64,
        Selected::All | Selected::Names(_) | Selected::Devices(_) => selection.published_count() as u64,
    };
    Limit {
        guard: guard.name.clone(),
        selects,
        counts: of.map_or("devices", BreakerUnit::plural),
        window_seconds: guard.breaker.as_ref().map_or(0, |breaker| breaker.window_seconds),
        permitted: guard.breaker.as_ref().map(|breaker| breaker.max_out_of_service.of(total)),
        total,
        out,
        stops: stops(now, guard),
    }
}

/// Why nothing may begin, in the words that the conditions of rules have as well.
fn stops(now: Timestamp, guard: &DisruptionGuard) -> Option<(HeldReason, Text)> {
    let name = &guard.name;
    if let Some(pause) = guard.paused.as_ref().filter(|pause| pause.holds(now)) {
        let message = format!("DisruptionGuard {name} is paused: {}", pause.reason);
        return Some((HeldReason::Paused, message.into()));
    }
    let Some(breaker) = guard.breaker.as_ref().filter(|_| guard.status.tripped) else {
        let is_closed = matches!(guard.window_at(now), Some(WindowStatus::ClosedUntil(_)));
        return is_closed.then(|| (HeldReason::Window, guard.closed_message()));
    };
    let message = format!("DisruptionGuard {name} is tripped: {}", breaker.words(&guard.status));
    Some((HeldReason::Breaker, message.into()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use std::sync::Arc;

    use lazaret_fleet::Input as Told;
    use lazaret_model::{Device, DeviceId, Effect, NodeScope, PoolSpec, ResourceSlice, Taint};
    use lazaret_runtime::{DISRUPTION_GUARDS, Object};
    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    fn guarded(spec: &Value) -> GuardLimits {
        let guard = json!({
            "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard",
            "metadata": {"name": "fleet", "uid": "u", "resourceVersion": "1", "generation": 1}, "spec": spec,
        });
        let mut limits = GuardLimits::default();
        let object = Object::new(&DISRUPTION_GUARDS, guard.to_string()).unwrap();
        assert!(limits.hear(&News::Set(DISRUPTION_GUARDS, Arc::new(object))));
        limits
    }

    /// Two devices, of which these are tainted.
    fn publish(fleet: &mut Fleet, tainted: &[&str]) {
        let device = |name: &str| {
            let taint = Taint { key: "ill".into(), effect: Effect::NoSchedule, ..Taint::default() };
            let taints = if tainted.contains(&name) { vec![taint] } else { Vec::new() };
            Device { name: name.into(), taints, ..Device::default() }
        };
        fleet.apply(Told::Slice(Arc::new(ResourceSlice {
            name: "a".into(),
            driver: "gpu.example.com".into(),
            pool: PoolSpec { name: "node-1".into(), generation: 1, slice_count: 1 },
            nodes: NodeScope::All,
            devices: vec![device("gpu-0"), device("gpu-1")],
            ..ResourceSlice::default()
        })));
    }

    #[test]
    fn what_was_out_of_service_counts_for_the_breaker_s_window() {
        let mut limits = guarded(&json!({"breaker": {"maxOutOfService": 1, "windowSeconds": 60}}));
        let mut fleet = Fleet::default();
        let ill = Unit::Device(DeviceId::new("gpu.example.com", "node-1", "gpu-0"));
        publish(&mut fleet, &["gpu-0"]);
        assert_eq!(limits.count(at(0), &fleet, false).unwrap()[0].out, [ill.clone()].into());
        publish(&mut fleet, &[]);
        let counted = limits.count(at(100), &fleet, true).unwrap();
        assert_eq!((&counted[0].out, counted[0].window_seconds), (&[ill].into(), 60), "it is back since now");
        assert_eq!(limits.wake(&fleet), Some(at(160)));
        assert_eq!(limits.count(at(159), &fleet, true), None);
        assert_eq!(limits.count(at(160), &fleet, true).unwrap()[0].out, [].into());
    }

    #[test]
    fn nothing_begins_outside_a_window_and_it_is_looked_at_when_one_opens_or_closes() {
        let mut limits = guarded(&json!({"windows": [{"start": "00:10", "duration": "5m"}]}));
        let fleet = Fleet::default();
        let stops = |limits: &mut GuardLimits, now| limits.count(now, &fleet, true).unwrap()[0].stops.clone();
        let closed = Some((HeldReason::Window, Text::from("no window of DisruptionGuard fleet is open")));
        assert_eq!((stops(&mut limits, at(0)), limits.wake(&fleet)), (closed.clone(), Some(at(600))));
        assert_eq!((stops(&mut limits, at(600)), limits.wake(&fleet)), (None, Some(at(900))));
        assert_eq!((stops(&mut limits, at(900)), limits.wake(&fleet)), (closed, Some(at(86_400 + 600))));
    }
}
