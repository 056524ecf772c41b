//! The usage of devices with open incidents, told to the machine when it changes.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use lazaret_fleet::{Changes, Fleet};
use lazaret_lifecycle::{Input as CoreInput, Lifecycle};
use lazaret_model::{DeviceId, Text};

/// The namespaces whose claims hold each device, as a machine knows them.
#[derive(Debug, Default)]
pub struct Usage {
    told: BTreeMap<DeviceId, Vec<Text>>,
    /// All of them were told, and nothing has changed since. A new one has told nothing.
    is_fresh: bool,
    /// The number of the newest incident by then, and how often incidents had moved to other devices.
    told_at: (u64, u64),
}

impl Usage {
    /// The fleet has changed.
    pub fn changed(&mut self, changes: &Changes) {
        self.is_fresh &= changes.claims.is_empty();
    }

    /// The machine has got this. It does not know any more who uses a device that is gone.
    pub fn told(&mut self, heard: &CoreInput) {
        if let CoreInput::DeviceGone(device) = heard {
            self.told.remove(device);
        }
    }

    /// The usage that the machine does not know: of incidents that were opened since the last call, and of all where claims have changed, or the devices of
    /// incidents.
    pub fn settle(&mut self, fleet: &Fleet, lifecycle: &Lifecycle) -> Vec<CoreInput> {
        let (numbers, moves) = self.told_at;
        let from = if self.is_fresh && moves == lifecycle.moves() { numbers } else { 0 };
        (self.is_fresh, self.told_at) = (true, (lifecycle.numbers_given(), lifecycle.moves()));
        let opened = lifecycle.incidents_after(from).map(|incident| incident.device.clone());
        let devices: BTreeSet<DeviceId> = opened.collect();
        if from == 0 {
            self.told.retain(|device, _| devices.contains(device));
        }
        let mut told = Vec::new();
        for device in devices {
            let namespaces = namespaces(fleet, &device);
            if self.told.get(&device) != Some(&namespaces) {
                self.told.insert(device.clone(), namespaces.clone());
                told.push(CoreInput::InUse { device, is_used: !namespaces.is_empty(), namespaces });
            }
        }
        told
    }
}

/// The namespaces of the claims that use a device, each once. A claim with admin access does not use it.
fn namespaces(fleet: &Fleet, device: &DeviceId) -> Vec<Text> {
    let uses =
        |claim: &_| fleet.held(*claim).any(|held| held.device == device && !held.result_ref.admin_access);
    let claims = fleet.holders(device).filter(uses).filter_map(|claim| fleet.claim(claim));
    let namespaces: BTreeSet<Text> = claims.map(|claim| claim.key.namespace.clone()).collect();
    namespaces.into_iter().collect()
}
