//! The one model of a driver's devices: what it wants to publish, and how the devices are. Slices and the health stream both come from it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use lazaret_model::Timestamp;
use lazaret_publisher::{DeviceKey, Health, HealthTable, Observation, Pool, Status, compose};
use tokio::sync::{Notify, watch};

/// Health of all devices, at the time of a report.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) at: Timestamp,
    pub(crate) devices: Vec<(DeviceKey, Status)>,
}

#[derive(Debug)]
pub(crate) struct Inventory {
    state: Mutex<State>,
    /// What is to be published changed.
    pub(crate) changed: Notify,
    reports: watch::Sender<Option<Report>>,
}

#[derive(Debug)]
struct State {
    /// Grows with every change of what is to be published.
    version: u64,
    pools: Option<BTreeMap<String, Pool>>,
    health: Health,
    /// Nothing is published before the devices were looked at: a taint would be lost for a while after each restart.
    is_observed: bool,
}

impl Inventory {
    pub(crate) fn new(table: HealthTable) -> Self {
        let state = State { version: 0, pools: None, health: Health::new(table), is_observed: false };
        Self { state: Mutex::new(state), changed: Notify::new(), reports: watch::Sender::new(None) }
    }

    /// What the driver wants to publish from now on.
    pub(crate) fn set_pools(&self, pools: BTreeMap<String, Pool>) {
        let mut state = self.lock();
        let published: BTreeSet<DeviceKey> = pools
            .iter()
            .flat_map(|(name, pool)| pool.devices.iter().map(|device| key(name, &device.name)))
            .collect();
        state.health.retain(&published);
        state.pools = Some(pools);
        state.version += 1;
        drop(state);
        self.changed.notify_one();
    }

    /// What was seen of the devices.
    pub(crate) fn observe(&self, now: Timestamp, observations: &[Observation]) {
        let mut state = self.lock();
        state.is_observed = true;
        state.version += 1;
        state.health.observe(now, observations);
        let devices =
            state.health.devices().map(|device| (device.clone(), state.health.status(device))).collect();
        drop(state);
        self.reports.send_replace(Some(Report { at: now, devices }));
        self.changed.notify_one();
    }

    /// Nobody looks at the devices.
    pub(crate) fn not_monitored(&self) {
        let mut state = self.lock();
        state.is_observed = true;
        state.version += 1;
        drop(state);
        self.changed.notify_one();
    }

    /// What is to be published now, and its version; none before all is known, or if that is the version `seen`.
    pub(crate) fn composed(&self, now: Timestamp, seen: u64) -> Option<(u64, BTreeMap<String, Pool>)> {
        let mut state = self.lock();
        if state.health.wake().is_some_and(|at| at <= now) {
            state.health.tick(now);
            state.version += 1;
        }
        let pools = state.pools.as_ref().filter(|_| state.is_observed && state.version != seen)?;
        Some((state.version, compose(pools, &state.health)))
    }

    /// The version of what is to be published.
    pub(crate) fn version(&self) -> u64 {
        self.lock().version
    }

    /// When time alone changes what is to be published.
    pub(crate) fn wake(&self) -> Option<Timestamp> {
        self.lock().health.wake()
    }

    /// Reports from now on, the last one first.
    pub(crate) fn reports(&self) -> watch::Receiver<Option<Report>> {
        let mut reports = self.reports.subscribe();
        reports.mark_changed();
        reports
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(pool: &str, device: &str) -> DeviceKey {
    DeviceKey { pool: pool.to_owned(), device: device.to_owned() }
}
