//! Devices that have to be made ready before a pod is bound: the conditions in slices, and the reports of drivers in the statuses of claims.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use lazaret_model::{Device, DeviceId, ObjectKey, ResourceClaim, Text, Uid};
use lazaret_scheduler::DeviceStatus;
use rustc_hash::FxBuildHasher;

use crate::{
    coverage::Mark,
    palette,
    rng::Rng,
    scenario::Config,
    world::{Step, World},
};

/// The condition of a device that is ready.
const READY: &str = "example.com/Ready";
/// The condition of a device that will not be.
const BROKEN: &str = "example.com/Broken";
/// One in this many devices needs no preparation.
const PREPARED_ONE_IN: u32 = 3;
/// A driver takes at most this long to report.
const REPORT_MS_MAX: u64 = 5_000;
/// The stream of randomness that reports come from.
const REPORTS: u64 = 43;

/// The reports of drivers on devices that were allocated to claims.
#[derive(Debug)]
pub(crate) struct Readiness {
    /// By incarnation of a claim: the statuses of its devices, each with the place in the log from which on they are so.
    statuses: HashMap<Uid, Vec<(usize, Vec<DeviceStatus>)>, FxBuildHasher>,
    /// By incarnation of a claim: its allocation.
    given: BTreeMap<Uid, Given>,
    rng: Rng,
}

/// The devices of an allocation, as far as their driver reports on them.
#[derive(Clone, Debug)]
struct Given {
    devices: Vec<DeviceId>,
    /// They were reported ready since they were allocated.
    was_ready: bool,
    /// The last report says so.
    is_ready: bool,
}

impl Readiness {
    pub(crate) fn new(seed: u64) -> Self {
        Self { statuses: HashMap::default(), given: BTreeMap::new(), rng: Rng::new(seed, REPORTS) }
    }

    /// The statuses of a claim's devices when this was the last place of the log.
    pub(crate) fn statuses_at(&self, claim: &Uid, place: usize) -> Vec<DeviceStatus> {
        let all = self.statuses.get(claim).map_or(&[][..], Vec::as_slice);
        let found = all.iter().rev().find(|(since, _)| *since <= place);
        found.map_or_else(Vec::new, |(_, statuses)| statuses.clone())
    }

    /// Whether the devices of a claim were reported ready since they were allocated, as far as they have to be.
    pub(crate) fn was_ready(&self, claim: &Uid) -> bool {
        self.given.get(claim).is_none_or(|given| given.was_ready)
    }

    fn set_statuses(&mut self, claim: &Uid, place: usize, statuses: Vec<DeviceStatus>) {
        self.statuses.entry(claim.clone()).or_default().push((place, statuses));
    }
}

impl Config {
    /// A device as its driver publishes it, with the conditions that it has to meet before a pod is bound.
    pub(crate) fn with_conditions(&self, device: Device, number: u32) -> Device {
        let conditions =
            |name: &'static str| self.needs_preparation(number).then(|| vec![palette::word(name)]);
        let (ready, broken) = (conditions(READY), conditions(BROKEN));
        Device { binding_conditions: ready, binding_failure_conditions: broken, ..device }
    }

    fn needs_preparation(&self, number: u32) -> bool {
        self.binding != 0 && !number.is_multiple_of(PREPARED_ONE_IN)
    }

    /// The devices of a claim that have to be made ready. Devices of the fabric are always ready.
    fn to_be_prepared(&self, claim: &ResourceClaim) -> Vec<DeviceId> {
        let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
        let devices = results.map(|result| &result.device).filter(|id| id.pool != palette::FABRIC);
        let needs =
            |id: &&DeviceId| palette::device_number(&id.device).is_some_and(|at| self.needs_preparation(at));
        devices.filter(needs).cloned().collect()
    }
}

impl World {
    /// The devices of the start were made ready long ago.
    pub(crate) fn begin_ready(&mut self) {
        if self.config.binding == 0 {
            return;
        }
        for stored in self.api.claims.iter().filter(|stored| stored.object.allocation.is_some()) {
            let devices = self.config.to_be_prepared(stored.object);
            let given = Given { devices, was_ready: true, is_ready: true };
            self.readiness.given.insert(stored.object.uid.clone(), given);
        }
    }

    /// A claim was written at this place of the log: a driver makes its devices ready, and the server drops the statuses of devices that are deallocated.
    pub(crate) fn driver_sees(&mut self, place: usize) {
        if self.config.binding == 0 {
            return;
        }
        let Some(claim) = self.api.claims.log()[place].object.clone() else { return };
        let Self { readiness, config, .. } = self;
        if claim.allocation.is_none() {
            if readiness.given.remove(&claim.uid).is_some() {
                readiness.set_statuses(&claim.uid, place, Vec::new());
            }
            return;
        }
        let devices = config.to_be_prepared(&claim);
        if readiness.given.get(&claim.uid).is_some_and(|given| given.devices == devices) {
            return;
        }
        let is_ready = devices.is_empty();
        readiness.set_statuses(&claim.uid, place, Vec::new());
        readiness.given.insert(claim.uid.clone(), Given { devices, was_ready: is_ready, is_ready });
        if !is_ready {
            let at = self.now + self.readiness.rng.below(REPORT_MS_MAX);
            self.push(at, Step::ReportDevices(claim.key.clone(), claim.uid.clone()));
        }
    }

    /// A driver reports that the devices of a claim are ready, that they are broken, or nothing.
    pub(crate) fn report_devices(&mut self, key: &ObjectKey, uid: &Uid) {
        let said = if self.resting { 0 } else { self.readiness.rng.below(10) };
        match said {
            0..=4 => self.set_devices(key, uid, true),
            5..=7 => self.set_devices(key, uid, false),
            _ => {}
        }
    }

    /// A driver changes its mind about the devices of a claim.
    pub(crate) fn report_anew(&mut self, number: u32, is_ready: bool) {
        let count = self.api.claims.len();
        let claim = self.api.claims.iter().nth(number as usize % count.max(1));
        if let Some((key, uid)) = claim.map(|stored| (stored.object.key.clone(), stored.object.uid.clone())) {
            self.set_devices(&key, &uid, is_ready);
        }
    }

    /// Drivers make ready whatever is not.
    pub(crate) fn make_ready(&mut self) {
        let all = self.api.claims.iter().map(|stored| (stored.object.key.clone(), stored.object.uid.clone()));
        for (key, uid) in all.collect::<Vec<_>>() {
            if self.readiness.given.get(&uid).is_some_and(|given| !given.is_ready) {
                self.set_devices(&key, &uid, true);
            }
        }
    }

    fn set_devices(&mut self, key: &ObjectKey, uid: &Uid, is_ready: bool) {
        let stored = self.api.claims.get(key).filter(|stored| stored.object.uid == *uid);
        let (Some(stored), Some(given)) = (stored, self.readiness.given.get_mut(uid)) else { return };
        if given.devices.is_empty() {
            return;
        }
        self.coverage.hit(if is_ready { Mark::DevicesReady } else { Mark::DevicesBroken });
        (given.was_ready, given.is_ready) = (given.was_ready || is_ready, is_ready);
        let condition: Text = palette::word(if is_ready { READY } else { BROKEN });
        let status =
            |device: &DeviceId| DeviceStatus { device: device.clone(), is_true: vec![condition.clone()] };
        let (statuses, claim) =
            (given.devices.iter().map(status).collect(), ResourceClaim::clone(stored.object));
        self.readiness.set_statuses(uid, self.api.claims.log().len(), statuses);
        self.api.claims.put(&mut self.api.versions, claim);
    }
}
