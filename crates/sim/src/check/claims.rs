//! Nothing is given out twice: a whole device has one holder at most, and the shares of one come to no more than it has.

use lazaret_model::DeviceResult;

use crate::{palette, world::World};

/// The holders of each device and their shares, by the claims that the server has. Devices and claims go by their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holdings {
    /// By device: claims, and how much each has of it; a whole one is as much as the fabric's have.
    of_device: Vec<Vec<(u32, i64)>>,
    /// By claim: one more than the place in the log of what counts for it.
    written: Vec<usize>,
}

impl World {
    /// A claim was written at this place of the log.
    pub(crate) fn check_claim_written(&mut self, place: usize) {
        let logged = &self.api.claims.log()[place];
        let Holdings { of_device, written } = &mut self.checker.holdings;
        of_device.resize(self.api.catalog.devices(), Vec::new());
        let claim = logged.number as usize;
        written.resize(written.len().max(claim + 1), 0);
        if let Some(before) = core::mem::replace(&mut written[claim], place + 1).checked_sub(1) {
            for device in self.api.catalog.of_claim(before) {
                of_device[*device as usize].retain(|(holder, _)| *holder != logged.number);
            }
        }
        let allocation = logged.object.as_ref().and_then(|claim| claim.allocation.as_ref());
        let results = allocation.map_or(&[][..], |allocation| &allocation.results);
        let mut doubled = None;
        for (result, device) in results.iter().zip(self.api.catalog.of_claim(place)) {
            let holders = &mut of_device[*device as usize];
            holders.push((logged.number, share(result)));
            if holders.iter().map(|(_, share)| share).sum::<i64>() > palette::BANDWIDTH_MAX {
                let named = holders.iter().map(|(claim, share)| (self.api.claims.key(*claim), share));
                let all: Vec<_> = named.collect();
                let last = self.api.claims.key(logged.number);
                doubled = Some(format!("{} is held by {all:?}, the last being {last}", result.device));
            }
        }
        if let Some(detail) = doubled {
            self.violate("nothing is given out twice", detail);
        }
    }
}

fn share(result: &DeviceResult) -> i64 {
    match &result.share_id {
        None => palette::BANDWIDTH_MAX,
        // A patch may give the device a capacity that nobody asks for: it is consumed as a whole.
        Some(_) => {
            let is_bandwidth = |key: &str| {
                palette::is_key(&result.device.driver, key, palette::FABRIC_DRIVER, palette::BANDWIDTH)
            };
            let consumed = result.consumed_capacity.iter().filter(|(key, _)| is_bandwidth(key));
            consumed.filter_map(|(_, amount)| amount.as_i64()).sum()
        }
    }
}
