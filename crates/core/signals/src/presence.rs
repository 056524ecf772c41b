//! Whether the devices of open incidents exist: incidents follow hardware to its new name, and what is gone with its node does not count for guards.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use lazaret_fleet::Fleet;
use lazaret_lifecycle::{Input as CoreInput, Lifecycle, Presence};
use lazaret_model::DeviceId;

use crate::levels::Levels;

/// Entries about devices without an open incident are kept up to here, or up to as many as there are about others.
const TOLD_MIN: usize = 64;

/// Whether the devices of open incidents exist, as the machine knows, and which of them are to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Presences {
    told: BTreeMap<DeviceId, Presence>,
    /// When it has as many entries, those of incidents that are over are dropped.
    told_max: usize,
    /// Slices list them now, or do not any more.
    changed: BTreeSet<DeviceId>,
    /// Slices do not list them any more, whether they have incidents or not.
    left: BTreeSet<DeviceId>,
    /// Nodes came or went, or another process led before.
    is_all: bool,
    /// The number of the newest incident that was looked at, and how often incidents had moved to other devices.
    told_at: (u64, u64),
}

impl Presences {
    /// A machine begins to lead: it knows nothing of them.
    pub(crate) fn begin(&mut self) {
        self.told.clear();
        self.is_all = true;
    }

    pub(crate) fn look_at_all(&mut self) {
        self.is_all = true;
    }

    /// A slice does not list a device any more.
    pub(crate) fn note_left(&mut self, device: DeviceId) {
        self.left.insert(device);
    }

    /// A slice lists a device now.
    pub(crate) fn look_at(&mut self, device: &DeviceId, lifecycle: &Lifecycle) {
        if lifecycle.incident_of(device).is_some() {
            self.changed.insert(device.clone());
        }
    }
}

impl Levels {
    /// Changes of the existence of devices with open incidents, before everything else: a device with another name is an input once the
    /// machine knows that the old name is not published. Costs the devices that changed, and all open incidents when nodes come or go.
    pub(crate) fn with_presence(
        &mut self,
        fleet: &Fleet,
        lifecycle: &Lifecycle,
        told: Vec<CoreInput>,
    ) -> Vec<CoreInput> {
        let left = core::mem::take(&mut self.presences.left);
        if !self.leads {
            self.presences.changed.clear();
            return told;
        }
        let now = (lifecycle.numbers_given(), lifecycle.moves());
        let presences = &mut self.presences;
        let (numbers, moves) = core::mem::replace(&mut presences.told_at, now);
        let is_all = core::mem::take(&mut presences.is_all) || moves != now.1;
        let mut devices = core::mem::take(&mut presences.changed);
        for incident in lifecycle.incidents_after(if is_all { 0 } else { numbers }) {
            if incident.number > numbers {
                presences.told.remove(&incident.device);
            }
            devices.insert(incident.device.clone());
        }
        if is_all || presences.told.len() > presences.told_max {
            presences.told.retain(|device, _| lifecycle.incident_of(device).is_some());
            presences.told_max = TOLD_MIN + 2 * presences.told.len();
        }
        let mut all = Vec::new();
        // An incident passes to no device that goes at the same time.
        let is_gone = |device: &&DeviceId| fleet.device(device).is_none();
        all.extend(left.iter().filter(is_gone).cloned().map(CoreInput::Left));
        for device in left {
            if lifecycle.incident_of(&device).is_some() {
                devices.insert(device);
            } else if fleet.device(&device).is_none() {
                let presence = self.presence(fleet, &device);
                all.push(CoreInput::Presence { device, presence });
            }
        }
        for device in devices {
            let presence = self.presence(fleet, &device);
            if self.presences.told.insert(device.clone(), presence) != Some(presence) {
                all.push(CoreInput::Presence { device, presence });
            }
        }
        all.extend(told);
        all
    }

    fn presence(&self, fleet: &Fleet, device: &DeviceId) -> Presence {
        if fleet.device(device).is_some() {
            Presence::Published
        } else if self.is_vanished(device) || self.node_of_absent(fleet, device).is_some() {
            Presence::Unpublished
        } else {
            Presence::Gone
        }
    }
}
