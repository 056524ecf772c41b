//! Nothing is given out twice: a whole device has one holder at most, and the shares of one come to no more than it has.

use lazaret_model::{DeviceResult, ObjectKey, ResourceClaim};

use crate::{palette, world::World};

impl World {
    pub(crate) fn check_claim_written(&mut self, key: &ObjectKey, claim: Option<&ResourceClaim>) {
        for device in self.checker.held.remove(key).unwrap_or_default() {
            if let Some(holders) = self.checker.holders.get_mut(&device) {
                holders.remove(key);
            }
        }
        let results = claim.and_then(|claim| claim.allocation.as_ref()).map_or(&[][..], |a| &a.results);
        for result in results {
            self.check_given(key, result);
            self.checker.held.entry(key.clone()).or_default().push(result.device.clone());
        }
    }

    fn check_given(&mut self, key: &ObjectKey, result: &DeviceResult) {
        let device = &result.device;
        let share = match &result.share_id {
            None => palette::BANDWIDTH_MAX,
            Some(_) => result.consumed_capacity.iter().filter_map(|(_, amount)| amount.as_i64()).sum(),
        };
        let holders = self.checker.holders.entry(device.clone()).or_default();
        holders.insert(key.clone(), share);
        if holders.values().sum::<i64>() > palette::BANDWIDTH_MAX {
            let detail = format!("{device} is held by {holders:?}, the last being {key}");
            self.violate("nothing is given out twice", detail);
        }
    }
}
