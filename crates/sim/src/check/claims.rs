//! An exclusive device is held by one claim at most.

use lazaret_model::{DeviceId, ObjectKey, ResourceClaim};

use crate::world::World;

impl World {
    pub(crate) fn check_claim_written(&mut self, key: &ObjectKey, claim: Option<&ResourceClaim>) {
        for device in self.checker.held.remove(key).unwrap_or_default() {
            if self.checker.holders.get(&device) == Some(key) {
                self.checker.holders.remove(&device);
            }
        }
        let results = claim.and_then(|claim| claim.allocation.as_ref()).map_or(&[][..], |a| &a.results);
        let devices: Vec<DeviceId> = results.iter().map(|result| result.device.clone()).collect();
        for device in &devices {
            if let Some(other) = self.checker.holders.insert(device.clone(), key.clone()) {
                self.violate("a device has one holder", format!("{device} is held by {other} and by {key}"));
            }
        }
        if !devices.is_empty() {
            self.checker.held.insert(key.clone(), devices);
        }
    }
}
