//! Where devices are, by name.

use alloc::{sync::Arc, vec::Vec};

use lazaret_model::{DeviceId, Text};

use crate::{Fleet, pool_entry::pool_hash, slice_entry::SliceEntry};

/// A device in a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    pub(crate) slice: u32,
    /// The device's place in it.
    pub(crate) at: usize,
    pub(crate) entry: &'a SliceEntry,
}

impl Fleet {
    /// The slice that speaks for a device: the newest that has it, and of several the first by name.
    pub(crate) fn published(&self, id: &DeviceId) -> Option<Found<'_>> {
        let DeviceId { driver, pool, device } = id;
        let found = self.devices.find(pool_hash(driver, pool), device, |slice, at| {
            let entry = self.slices.get(slice)?;
            let of = &entry.state.head.pool;
            let is_it = entry.raw.names.get(at) == Some(device) && of.pool == *pool && of.driver == *driver;
            is_it.then_some(Found { slice, at, entry })
        })?;
        let pool = self.pools.get(found.entry.pool)?;
        if pool.repeats > 0 {
            return self.find_published(found.entry.pool, device);
        }
        pool.view.shows(found.entry.state.generation()).then_some(found)
    }

    /// The same for a device of a pool.
    pub(crate) fn find_published(&self, pool: u32, device: &Text) -> Option<Found<'_>> {
        let view = self.pools.get(pool)?.view;
        self.find_newest(pool, device).filter(|newest| view.shows(newest.entry.state.generation()))
    }

    /// The newest slice that has a device, be it of a generation that is over.
    pub(crate) fn find_newest(&self, pool: u32, device: &Text) -> Option<Found<'_>> {
        let entry = self.pools.get(pool)?;
        if entry.repeats == 0 {
            return self.devices.find(entry.hash, device, |slice, at| self.has(pool, device, slice, at));
        }
        self.everywhere(pool, device).min_by(|left, right| {
            let (a, b) = (&left.entry.state, &right.entry.state);
            b.generation()
                .cmp(&a.generation())
                .then_with(|| a.name().cmp(b.name()))
                .then(left.at.cmp(&right.at))
        })
    }

    /// All slices of a pool, of any generation, with a device of this name, and its place in each.
    pub(crate) fn places_of(&self, pool: u32, device: &Text) -> Vec<(u32, usize)> {
        self.everywhere(pool, device).map(|found| (found.slice, found.at)).collect()
    }

    /// All slices and stand-ins of whatever pool with a device of this name. Looks at every one: few leave the pool open
    /// when they name a device, and slices that are alike share one list of names.
    pub(crate) fn slices_with(&self, device: &Text) -> Vec<u32> {
        let mut last: Option<(&Arc<[Text]>, bool)> = None;
        let mut found = Vec::new();
        for (slice, entry) in self.slices.iter() {
            let names = &entry.raw.names;
            let has = match last {
                Some((known, has)) if Arc::ptr_eq(known, names) => has,
                Some(_) | None => names.contains(device),
            };
            last = Some((names, has));
            if has {
                found.push(slice);
            }
        }
        found
    }

    fn everywhere(&self, pool: u32, device: &Text) -> impl Iterator<Item = Found<'_>> {
        let hash = self.pools.get(pool).map(|entry| entry.hash);
        let places = hash.into_iter().flat_map(move |hash| self.devices.in_pool(hash, device));
        places.filter_map(move |(slice, at)| self.has(pool, device, slice, at))
    }

    /// A place, unless it is that of another device whose name has the same hash.
    fn has(&self, pool: u32, device: &Text, slice: u32, at: usize) -> Option<Found<'_>> {
        let entry = self.slices.get(slice)?;
        let is_it = entry.pool == pool && entry.raw.names.get(at) == Some(device);
        is_it.then_some(Found { slice, at, entry })
    }
}
