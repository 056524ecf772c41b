//! Pools inside the fleet: their slices, what generation counts, who holds their devices.

use alloc::{sync::Arc, vec::Vec};

use lazaret_model::{PoolId, Text};

use crate::{Fleet, pool::PoolFacts, slices::SliceEntry, sparse::Sparse, vocabulary::hash_texts};

/// A pool that has slices, or held devices, or both.
#[derive(Clone, Debug)]
pub(crate) struct PoolEntry {
    pub(crate) id: PoolId,
    /// By name.
    pub(crate) slices: Vec<u32>,
    /// The slices of taints among them, by name.
    pub(crate) taint_slices: Sparse<u32>,
    /// How many of its devices are held.
    holders: u32,
    pub(crate) view: View,
    /// Pairs of devices, of slices of whatever generation, that may have the same name. Zero: no name repeats.
    pub(crate) repeats: usize,
    pub(crate) revision: u64,
    /// Already among the changes.
    pub(crate) noted: bool,
    /// The snapshot does not show it as it is.
    pub(crate) stale: bool,
    /// `None` when heads or devices changed since they were found out.
    pub(crate) facts: Option<Arc<PoolFacts>>,
}

/// Which slices of a pool speak for its devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) newest: i64,
    /// Slices of the newest generation are still to come. Until then devices that it does not have yet are taken
    /// from older ones: a driver that rolls a pool slice by slice must not make devices in use vanish.
    pub(crate) rolling: bool,
}

impl View {
    pub(crate) fn shows(self, generation: i64) -> bool {
        generation == self.newest || self.rolling
    }
}

impl PoolEntry {
    fn new(id: PoolId) -> Self {
        Self {
            id,
            slices: Vec::new(),
            taint_slices: Sparse::default(),
            holders: 0,
            view: View::default(),
            repeats: 0,
            revision: 0,
            noted: false,
            stale: false,
            facts: None,
        }
    }

    pub(crate) fn has_holders(&self) -> bool {
        self.holders > 0
    }

    pub(crate) fn add_holder(&mut self) {
        self.holders += 1;
    }

    pub(crate) fn remove_holder(&mut self) {
        self.holders = self.holders.saturating_sub(1);
    }
}

impl Fleet {
    pub(crate) fn pool_ix(&self, driver: &Text, pool: &Text) -> Option<u32> {
        let is_it = |ix: &u32| {
            self.pools.get(*ix).is_some_and(|entry| entry.id.pool == *pool && entry.id.driver == *driver)
        };
        self.pool_ids.find(hash_texts([driver, pool]), is_it).copied()
    }

    pub(crate) fn pool_or_new(&mut self, driver: &Text, pool: &Text) -> u32 {
        if let Some(found) = self.pool_ix(driver, pool) {
            return found;
        }
        // A name of a pool occurs once, or once per driver: to look for others that have it costs more than it saves.
        let id = PoolId { driver: self.vocabulary.text(driver), pool: pool.clone() };
        self.pool_names.insert(&id.pool, self.pools.next());
        self.pool_drivers.insert(&id.driver, self.pools.next());
        let own_hash = hash_of(&id);
        let pool = self.pools.insert(PoolEntry::new(id));
        let pools = &self.pools;
        let rehash = |ix: &u32| pools.get(*ix).map_or(0, |entry| hash_of(&entry.id));
        self.pool_ids.insert_unique(own_hash, pool, rehash);
        pool
    }

    /// Forgets a pool that has neither slices nor held devices.
    pub(crate) fn drop_pool_if_empty(&mut self, pool: u32) {
        let Some(entry) = self.pools.get(pool) else { return };
        if !entry.slices.is_empty() || entry.has_holders() {
            return;
        }
        let Some(entry) = self.pools.remove(pool) else { return };
        self.pool_names.remove(&entry.id.pool, pool);
        self.pool_drivers.remove(&entry.id.driver, pool);
        if let Ok(found) = self.pool_ids.find_entry(hash_of(&entry.id), |ix| *ix == pool) {
            found.remove();
        }
        if entry.noted {
            self.noted.gone_pools.push(entry.id.clone());
        }
        self.stale_gone_pools.push(entry.id);
    }

    /// Which generation speaks now.
    pub(crate) fn view_of(&self, pool: u32) -> View {
        let Some(entry) = self.pools.get(pool) else { return View::default() };
        let heads = || entry.slices.iter().filter_map(|&slice| Some(&self.slices.get(slice)?.state.head));
        let Some(newest) = heads().map(|head| head.generation).max() else { return View::default() };
        let mut members = heads().filter(|head| head.generation == newest);
        let expected = members.next().map_or(0, |first| first.slice_count);
        let there = i64::try_from(1 + members.count()).unwrap_or(i64::MAX);
        View { newest, rolling: there < expected }
    }

    /// The slice that speaks for a device, and the device's place in it: the newest that has it, and of several the
    /// first by name.
    pub(crate) fn find_published(&self, pool: u32, device: &Text) -> Option<(u32, usize)> {
        self.newest_shown(pool, device).map(|(slice, at, _)| (slice, at))
    }

    pub(crate) fn newest_shown(&self, pool: u32, device: &Text) -> Option<(u32, usize, &SliceEntry)> {
        let newest = self.newest(pool, device)?;
        self.pools.get(pool)?.view.shows(newest.2.state.generation()).then_some(newest)
    }

    /// The newest slice that has a device, be it of a generation that is over.
    pub(crate) fn find_newest(&self, pool: u32, device: &Text) -> Option<(u32, usize)> {
        self.newest(pool, device).map(|(slice, at, _)| (slice, at))
    }

    fn newest(&self, pool: u32, device: &Text) -> Option<(u32, usize, &SliceEntry)> {
        if self.pools.get(pool)?.repeats == 0 {
            return self.has(pool, device, self.devices.only_in_pool(pool, device)?);
        }
        let places = self.devices.in_pool(pool, device).filter_map(|place| self.has(pool, device, place));
        places.min_by(|(_, i, a), (_, j, b)| {
            let (a, b) = (&a.state, &b.state);
            b.generation().cmp(&a.generation()).then_with(|| a.name().cmp(b.name())).then(i.cmp(j))
        })
    }

    /// A place, unless it is that of another device whose name has the same hash.
    fn has(&self, pool: u32, device: &Text, (slice, at): (u32, usize)) -> Option<(u32, usize, &SliceEntry)> {
        let entry = self.slices.get(slice)?;
        (entry.pool == pool && entry.raw.names.get(at) == Some(device)).then_some((slice, at, entry))
    }

    /// All slices of a pool, of any generation, with a device of this name, and its place in each.
    pub(crate) fn places_of(&self, pool: u32, device: &Text) -> Vec<(u32, usize)> {
        let places = self.devices.in_pool(pool, device).filter_map(|place| self.has(pool, device, place));
        places.map(|(slice, at, _)| (slice, at)).collect()
    }
}

fn hash_of(id: &PoolId) -> u64 {
    hash_texts([&id.driver, &id.pool])
}
