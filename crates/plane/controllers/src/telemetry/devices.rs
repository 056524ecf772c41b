//! How many devices there are, by driver, state and effect: the numbers of the dashboard, for Grafana.

use std::collections::BTreeMap;

use lazaret_fleet::{Fleet, Presence};
use lazaret_model::{DeviceId, Effect, Timestamp};
use lazaret_runtime::Metrics;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
};

/// Devices are counted this long after something changed, at the soonest.
const PAUSE_MILLIS_MIN: i64 = 2_000;
/// And this much later for each device, so that counting is never much of the work: a hundred thousand devices are counted every 102 seconds.
const PAUSE_MILLIS_PER_DEVICE: i64 = 1;

/// Series at most: a few hundred drivers.
const SERIES_MAX: usize = 2_000;
const OTHER_DRIVERS: &str = "other";

/// The gauges. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct DeviceMetrics {
    devices: Family<Labels, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Labels {
    driver: String,
    /// `Free`, `InUse` or `Gone`, as `kubectl device list` has it.
    state: &'static str,
    /// The strongest effect of its taints; `None` is one that only marks.
    effect: &'static str,
}

impl DeviceMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let devices = Family::default();
        metrics.register(|registry| {
            registry.register(
                "lazaret_devices",
                "Devices by driver, state and the strongest effect of their taints",
                devices.clone(),
            );
        });
        Self { devices }
    }
}

/// Counts devices, now and then, for one controller.
#[derive(Debug)]
pub(crate) struct DeviceCounts {
    metrics: DeviceMetrics,
    shown: BTreeMap<Labels, i64>,
    /// Only one of several replicas counts.
    is_leader: bool,
    due: Option<Timestamp>,
}

impl Drop for DeviceCounts {
    fn drop(&mut self) {
        self.show(BTreeMap::new());
    }
}

impl DeviceCounts {
    pub(crate) fn new(metrics: DeviceMetrics) -> Self {
        Self { metrics, shown: BTreeMap::new(), is_leader: false, due: None }
    }

    /// Something changed.
    pub(crate) fn changed(&mut self, now: Timestamp) {
        if self.due.is_none() {
            let counted = self.shown.values().sum::<i64>();
            let pause = PAUSE_MILLIS_MIN.saturating_add(counted.saturating_mul(PAUSE_MILLIS_PER_DEVICE));
            self.due = Some(now.plus_millis(pause));
        }
    }

    pub(crate) fn lead(&mut self, now: Timestamp, leading: bool) {
        self.is_leader = leading;
        if leading {
            self.due = Some(now);
        } else {
            self.show(BTreeMap::new());
        }
    }

    /// When to count next.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.due.filter(|_| self.is_leader)
    }

    /// Counts, if it is time to.
    pub(crate) fn think(&mut self, now: Timestamp, fleet: &mut Fleet) {
        if self.due().is_some_and(|due| due <= now) {
            self.due = None;
            self.show(count(fleet));
        }
    }

    fn show(&mut self, counts: BTreeMap<Labels, i64>) {
        for gone in self.shown.keys().filter(|labels| !counts.contains_key(*labels)) {
            self.metrics.devices.remove(gone);
        }
        for (labels, number) in &counts {
            self.metrics.devices.get_or_create(labels).set(*number);
        }
        self.shown = counts;
    }
}

fn count(fleet: &mut Fleet) -> BTreeMap<Labels, i64> {
    let mut counts = BTreeMap::new();
    let snapshot = fleet.snapshot();
    for pool in snapshot.pools() {
        for slice in pool.current() {
            for device in slice.devices(snapshot.names()) {
                let id = device.id();
                let state = if is_in_use(fleet, &id) { "InUse" } else { "Free" };
                add(&mut counts, labels(fleet, &id, state));
            }
        }
    }
    if fleet.has_unpublished_devices() {
        let held = fleet.claims().flat_map(|(claim, _)| fleet.held(claim));
        let mut gone: Vec<&DeviceId> =
            held.filter(|held| held.presence != Presence::Published).map(|held| held.device).collect();
        gone.sort();
        gone.dedup();
        for id in gone {
            add(&mut counts, labels(fleet, id, "Gone"));
        }
    }
    counts
}

/// Counts a device. Names of drivers come from outside: beyond `SERIES_MAX` series they are counted together.
fn add(counts: &mut BTreeMap<Labels, i64>, mut labels: Labels) {
    if counts.len() >= SERIES_MAX && !counts.contains_key(&labels) {
        labels.driver = OTHER_DRIVERS.to_owned();
    }
    *counts.entry(labels).or_default() += 1;
}

/// Whether a claim holds the device for itself; one that only monitors it does not.
fn is_in_use(fleet: &Fleet, id: &DeviceId) -> bool {
    fleet.holders(id).filter_map(|claim| fleet.claim(claim)).any(|claim| {
        let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
        results.into_iter().any(|result| result.device == *id && !result.admin_access)
    })
}

fn labels(fleet: &Fleet, id: &DeviceId, state: &'static str) -> Labels {
    // An effect that is not known marks a device and nothing else. Its name comes from outside, and is no label.
    let known = |effect: &Effect| match effect {
        Effect::NoExecute => "NoExecute",
        Effect::NoSchedule => "NoSchedule",
        Effect::None | Effect::Unknown(_) => "None",
    };
    let names: Vec<&str> = fleet.effective_taints(id).map(|taint| known(&taint.taint.effect)).collect();
    let effect = ["NoExecute", "NoSchedule", "None"].into_iter().find(|name| names.contains(name));
    Labels { driver: id.driver.to_string(), state, effect: effect.unwrap_or_default() }
}
