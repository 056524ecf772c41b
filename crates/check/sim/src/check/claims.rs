//! Nothing is given out twice: a whole device has one holder at most, and the shares of one come to no more than it has.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_holdings::{Given, SliceFacts, collide};
use lazaret_model::{Allocation, DeviceId, DeviceResult, ObjectKey, Uid};

use crate::{coverage::Mark, mutant::Mutant, palette, world::World};

/// The holders of each device and their shares, by the claims that the server has. Devices and claims go by their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holdings {
    /// By device: claims, and how much each has of it; a whole one is as much as the fabric's have.
    of_device: Vec<Vec<(u32, i64)>>,
    /// By claim: one more than the place in the log of what counts for it.
    written: Vec<usize>,
    /// The holdings as a server has them that checks the devices of allocations.
    known: lazaret_holdings::Holdings,
    /// Claims that were allocated by writes of schedulers that led no more, where no server looks.
    left_behind: BTreeSet<Uid>,
}

impl World {
    /// Whether the server takes an allocation. One that looks at the devices refuses what another claim has; another takes what a scheduler wrote that
    /// leads no more, and the next one finds out.
    pub(crate) fn may_give(&mut self, claim: &ObjectKey, allocation: &Allocation) -> bool {
        let uid = self.api.claims.get(claim).map(|stored| stored.object.uid.clone());
        let Holdings { known, left_behind, .. } = &mut self.checker.holdings;
        known.clear_slices();
        for slice in self.api.slices.iter() {
            known.set_slice(&slice.object.name, SliceFacts::of(slice.object));
        }
        known.override_capacities(self.api.patches.iter().next().is_some());
        let is_taken = known.refusal(claim, &[], &Given::all(allocation)).is_some();
        if self.config.once == 0 {
            left_behind.extend(uid.filter(|_| self.is_left_behind));
            if is_taken && self.is_left_behind {
                self.coverage.hit(Mark::GivenTwice);
            }
            return true;
        }
        if is_taken {
            self.coverage.hit(Mark::RefusedTwice);
        }
        !is_taken || self.mutant == Some(Mutant::UncheckedDevices)
    }

    /// A claim was written at this place of the log.
    pub(crate) fn check_claim_written(&mut self, place: usize) {
        let logged = &self.api.claims.log()[place];
        let given = logged.object.as_ref().and_then(|claim| claim.allocation.as_deref()).map(Given::all);
        let Holdings { of_device, written, known, left_behind } = &mut self.checker.holdings;
        // A scheduler writes the finalizer first: the allocation is there by now.
        let stored = self.api.claims.get(self.api.claims.key(logged.number));
        let is_free = stored.is_none_or(|stored| stored.object.allocation.is_none());
        // A claim that is deleted and loses its finalizer at once was written for the last time.
        let is_gone = stored.is_none();
        if let Some(claim) = logged.object.as_ref().filter(|_| is_free) {
            left_behind.remove(&claim.uid);
        }
        known.set(self.api.claims.key(logged.number), given.unwrap_or_default());
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
            let is_excused = || {
                let mut stored =
                    holders.iter().filter_map(|(claim, _)| self.api.claims.get(self.api.claims.key(*claim)));
                stored.any(|stored| left_behind.contains(&stored.object.uid))
            };
            let sum = holders.iter().map(|(_, share)| share).sum::<i64>();
            if sum > palette::BANDWIDTH_MAX && !is_gone && !is_excused() {
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

impl World {
    /// Checks that devices given twice all the same were found and given back. Shares whose sum exceeds the capacity are not checked here.
    pub(crate) fn check_given_once_at_rest(&mut self) {
        let mut holders: BTreeMap<&DeviceId, Vec<(&ObjectKey, &DeviceResult)>> = BTreeMap::new();
        for claim in self.api.claims.iter().map(|stored| stored.object) {
            for result in claim.allocation.iter().flat_map(|given| &given.results) {
                holders.entry(&result.device).or_default().push((&claim.key, result));
            }
        }
        let twice = holders.values().find_map(|holders| {
            let ((one, result), others) = holders.split_first()?;
            let (other, _) = others.iter().find(|(_, other)| collide(result, other))?;
            Some(format!("{} is held by {one} and {other}", result.device))
        });
        if let Some(detail) = twice {
            self.violate("what was given twice is given back", detail);
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
