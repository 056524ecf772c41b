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
    /// The pools to publish have changed.
    pub(crate) changed: Notify,
    /// Devices are to be looked at before their time.
    pub(crate) look_wanted: Notify,
    reports: watch::Sender<Option<Report>>,
}

#[derive(Debug)]
struct State {
    /// Grows with every change of the pools to publish.
    version: u64,
    pools: Option<BTreeMap<String, Pool>>,
    health: Health,
    monitoring: Monitoring,
    /// New devices, with the number of the look that must have been begun before they are published: a device that has
    /// failed would be without its taint for a while.
    unseen: BTreeMap<DeviceKey, u64>,
    /// Looks that were begun.
    looks: u64,
    is_paused: bool,
}

/// Whether the driver observes its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Monitoring {
    /// Not yet, and nothing is published before: a taint would be lost for a while after each restart.
    Awaited,
    /// Since then, as of the last look.
    Observed(Timestamp),
    /// It does not.
    Off,
}

impl Inventory {
    pub(crate) fn new(table: HealthTable) -> Self {
        let state = State {
            version: 0,
            pools: None,
            health: Health::new(table),
            monitoring: Monitoring::Awaited,
            unseen: BTreeMap::new(),
            looks: 0,
            is_paused: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
            look_wanted: Notify::new(),
            reports: watch::Sender::new(None),
        }
    }

    /// Replaces the pools to publish.
    pub(crate) fn set_pools(&self, pools: BTreeMap<String, Pool>) {
        let mut state = self.lock();
        let published = keys(&pools);
        state.health.retain(&published);
        state.unseen.retain(|device, _| published.contains(device));
        // Those of the start count as seen: the driver has just looked.
        if let (Some(before), Monitoring::Observed(_)) = (&state.pools, state.monitoring) {
            let (before, next_look) = (keys(before), state.looks + 1);
            let unseen: Vec<DeviceKey> = published
                .into_iter()
                .filter(|device| !before.contains(device) && !state.health.knows(device))
                .collect();
            state.unseen.extend(unseen.into_iter().map(|device| (device, next_look)));
        }
        let is_look_wanted = !state.unseen.is_empty();
        state.pools = Some(pools);
        state.version += 1;
        drop(state);
        if is_look_wanted {
            self.look_wanted.notify_one();
        }
        self.changed.notify_one();
    }

    /// The number of a look that begins now.
    pub(crate) fn begin_look(&self) -> u64 {
        let mut state = self.lock();
        state.looks += 1;
        state.looks
    }

    /// Takes in the observations of the look of this number.
    pub(crate) fn observe(&self, now: Timestamp, look: u64, observations: &[Observation]) {
        let mut state = self.lock();
        state.monitoring = Monitoring::Observed(now);
        state.version += 1;
        state.unseen.retain(|_, wanted| *wanted > look);
        state.health.observe(now, observations);
        self.report(&state);
        drop(state);
        self.changed.notify_one();
    }

    /// The driver does not observe its devices.
    pub(crate) fn not_monitored(&self) {
        let mut state = self.lock();
        state.monitoring = Monitoring::Off;
        state.version += 1;
        drop(state);
        self.changed.notify_one();
    }

    /// Whether anything is written.
    pub(crate) fn pause(&self, is_paused: bool) {
        self.lock().is_paused = is_paused;
        self.changed.notify_one();
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.lock().is_paused
    }

    /// The pools to publish now, and their version; none before all is known, or if that is the version `seen`.
    pub(crate) fn composed(&self, now: Timestamp, seen: u64) -> Option<(u64, BTreeMap<String, Pool>)> {
        let mut state = self.lock();
        if state.health.wake().is_some_and(|at| at <= now) {
            state.health.tick(now);
            state.version += 1;
            self.report(&state);
        }
        let is_known = state.monitoring != Monitoring::Awaited;
        let pools = state.pools.as_ref().filter(|_| is_known && state.version != seen)?;
        Some((state.version, compose(pools, &state.health, |device| state.unseen.contains_key(device))))
    }

    /// Whether all devices that are wanted are in what is to be published.
    pub(crate) fn is_complete(&self) -> bool {
        self.lock().unseen.is_empty()
    }

    /// Tells kubelet how the devices are, as of the last look.
    fn report(&self, state: &State) {
        let Monitoring::Observed(at) = state.monitoring else { return };
        let devices =
            state.health.devices().map(|device| (device.clone(), state.health.status(device))).collect();
        self.reports.send_replace(Some(Report { at, devices }));
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

fn keys(pools: &BTreeMap<String, Pool>) -> BTreeSet<DeviceKey> {
    let of_pool = |(name, pool): (&String, &Pool)| {
        let key = |device: &str| DeviceKey { pool: name.clone(), device: device.to_owned() };
        pool.devices.iter().map(|device| key(&device.name)).collect::<Vec<_>>()
    };
    pools.iter().flat_map(of_pool).collect()
}
