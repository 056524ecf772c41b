//! Limits that guards set on the devices that policies take out of service, counted over the fleet.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    sync::Arc,
    vec::Vec,
};

use lazaret_fleet::{Fleet, UnclearDevices};
use lazaret_lifecycle::{HeldReason, Limit, Selected};
use lazaret_model::{
    BreakerUnit, DeviceSelector, DisruptionGuard, RecentlyOut, Stop, Text, Timestamp, Uid, Unit, Window,
};

/// Devices that are counted for each millisecond that passes between two counts: of 100,000 devices once a second, of few at once. The devices that
/// incidents take out of service are known at any time.
const DEVICES_PER_MS: i64 = 100;

/// The guards, and when they were last counted.
#[derive(Debug, Default)]
pub struct GuardLimits {
    guards: Vec<Arc<DisruptionGuard>>,
    /// They have changed since.
    is_news: bool,
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
    /// These are all guards from now on.
    pub fn set(&mut self, guards: Vec<Arc<DisruptionGuard>>) {
        self.is_news |= guards != self.guards;
        self.guards = guards;
    }

    /// This process begins to lead: what came back a short time ago is what the statuses of guards say, whatever a view that was behind has shown.
    pub fn begin(&mut self) {
        self.recent.clear();
        self.is_news = true;
    }

    /// Whether a guard limits what policies take out of service.
    #[must_use]
    pub fn has_limits(&self) -> bool {
        self.guards.iter().any(|guard| guard.breaker.is_some() || guard.paused.is_some())
    }

    /// The limits, if they are to be told anew. A new leader has them counted at once.
    pub fn count(&mut self, now: Timestamp, fleet: &Fleet, at_once: bool) -> Option<Vec<Limit>> {
        let is_due = self.counted.is_some_and(|last| {
            let is_stale = last.revision != fleet.revision();
            let is_set_back = now < last.at;
            is_stale && (at_once || is_set_back || last.again_at() <= now)
                || last.ends.is_some_and(|ends| ends <= now)
        });
        if !core::mem::take(&mut self.is_news) && !is_due {
            return None;
        }
        let guards = &self.guards;
        let is_windowed =
            |guard: &DisruptionGuard| guard.breaker.as_ref().is_some_and(|one| one.window_seconds > 0);
        self.recent.retain(|uid, _| guards.iter().any(|guard| guard.uid == *uid && is_windowed(guard)));
        let mut recents = Vec::new();
        let mut limits = Vec::with_capacity(guards.len());
        for guard in guards {
            let inherit = || RecentlyOut::inherit(&guard.status);
            let mut recent =
                is_windowed(guard).then(|| self.recent.entry(guard.uid.clone()).or_insert_with(inherit));
            let limit = limit(now, fleet, guard, recent.as_deref_mut());
            let ends = recent.and_then(|recent| recent.ends(limit.window_seconds));
            recents.extend(ends.map(|(first, _)| first));
            limits.push(limit);
            limits.extend(unclear_limit(fleet, guard));
        }
        let pauses = guards.iter().filter_map(|guard| guard.paused.as_ref()?.until);
        let windows = guards.iter().map(|guard| Window::unchanged_until(&guard.windows, now));
        let windows = windows.filter(|at| *at != Timestamp::NEVER);
        let ends = pauses.chain(windows).chain(recents).filter(|at| *at > now).min();
        let devices = limits.iter().map(|limit| limit.total).sum();
        // Names stand for what they name, whatever is published.
        let is_of_fleet = |limit: &Limit| {
            limit.permitted.is_some() || matches!(limit.selects, Selected::Devices(_) | Selected::Units(_))
        };
        let counts = limits.iter().any(is_of_fleet) || ends.is_some();
        self.counted = counts.then_some(Counted { revision: fleet.revision(), at: now, devices, ends });
        Some(limits)
    }

    /// When to count again, if nothing is heard before.
    #[must_use]
    pub fn wake(&self, fleet: &Fleet) -> Option<Timestamp> {
        let last = self.counted?;
        let stale = (last.revision != fleet.revision()).then(|| last.again_at());
        [stale, last.ends].into_iter().flatten().min()
    }
}

fn limit(now: Timestamp, fleet: &Fleet, guard: &DisruptionGuard, recent: Option<&mut RecentlyOut>) -> Limit {
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
            let published = selection.published().map(|device| device.id());
            Selected::Devices(published.chain(selection.unpublished().map(|(device, _)| device)).collect())
        }
    };
    let out = selection.published().filter(|device| device.is_out_of_service());
    let mut out: BTreeSet<Unit> =
        of.map(|of| out.filter_map(|device| device.unit(of)).collect()).unwrap_or_default();
    let (units, total) = match &selects {
        Selected::Units(units) => {
            let units: BTreeSet<&Unit> = units.values().collect();
            let total = units.len();
            (units, total)
        }
        Selected::All | Selected::Names(_) | Selected::Devices(_) => {
            (BTreeSet::new(), selection.published_count())
        }
    };
    let (total, window_seconds) = (total as u64, guard.breaker.as_ref().map_or(0, |one| one.window_seconds));
    let mut unnamed = 0;
    if let Some(recent) = recent {
        recent.see(now, window_seconds, out.clone());
        let is_there = |unit: &&Unit| match unit {
            Unit::Device(id) => fleet.device(id).is_some(),
            Unit::Node(_) | Unit::FaultDomain(_) | Unit::Pool(_) => units.contains(unit),
        };
        out.extend(recent.back().filter(is_there).cloned());
        unnamed = recent.inherited().min(total.saturating_sub(out.len() as u64));
    }
    Limit {
        guard: guard.name.clone(),
        selects,
        counts: of.map_or("devices", BreakerUnit::plural),
        window_seconds,
        permitted: guard.breaker.as_ref().map(|breaker| breaker.max_out_of_service.of(total)),
        total,
        out,
        unnamed,
        stops: stops(now, guard),
    }
}

/// The devices on which a guard is not understood: nothing begins there, whatever the guard says.
fn unclear_limit(fleet: &Fleet, guard: &DisruptionGuard) -> Option<Limit> {
    let reach = fleet.guard_reach(guard);
    let selects = match reach.unclear()? {
        UnclearDevices::Named(selector) => Selected::Names(selector.clone()),
        UnclearDevices::These(devices) => Selected::Devices(devices.clone()),
    };
    let problem = reach.problem().map(|problem| format!("{problem}")).unwrap_or_default();
    let message = guard.stop_message(Stop::NotUnderstood, &guard.status, &problem);
    Some(Limit {
        guard: guard.name.clone(),
        selects,
        counts: "devices",
        window_seconds: 0,
        permitted: None,
        total: 0,
        out: BTreeSet::new(),
        unnamed: 0,
        stops: Some((HeldReason::Paused, message)),
    })
}

/// Why nothing may begin, in the words that the conditions of rules have as well.
fn stops(now: Timestamp, guard: &DisruptionGuard) -> Option<(HeldReason, Text)> {
    let stop = guard.stop(now, guard.status.tripped, guard.window_at(now))?;
    let reason = match stop {
        Stop::NotUnderstood | Stop::Paused => HeldReason::Paused,
        Stop::Breaker => HeldReason::Breaker,
        Stop::Window => HeldReason::Window,
    };
    Some((reason, guard.stop_message(stop, &guard.status, "")))
}
