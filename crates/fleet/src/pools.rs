//! Pools inside the fleet: their slices, what generation counts, who holds their devices.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use lazaret_model::{PoolId, Text};

use crate::{Fleet, pool::PoolFacts, sparse::Sparse, vocabulary::hash};

/// A pool that has slices, or held devices, or both.
#[derive(Clone, Debug)]
pub(crate) struct PoolEntry {
    pub(crate) id: PoolId,
    /// By name.
    pub(crate) slices: Vec<u32>,
    /// The slices of taints among them, by name.
    pub(crate) taint_slices: Sparse<u32>,
    /// `None` while nobody holds a device of it.
    held: Option<Box<HeldPart>>,
    pub(crate) view: View,
    /// Pairs of slices, of whatever generation, that have a device of the same name. Zero: no name repeats.
    pub(crate) repeats: usize,
    pub(crate) revision: u64,
    /// Already among the changes.
    pub(crate) noted: bool,
    /// The snapshot does not show it as it is.
    pub(crate) stale: bool,
    /// `None` when heads or devices changed since they were found out.
    pub(crate) facts: Option<Arc<PoolFacts>>,
}

/// What is kept of a pool while claims hold devices of it.
#[derive(Clone, Debug, Default)]
struct HeldPart {
    /// Stand-ins for held devices that are not published.
    ghosts: BTreeMap<Text, u32>,
    holders: BTreeSet<u32>,
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
            held: None,
            view: View::default(),
            repeats: 0,
            revision: 0,
            noted: false,
            stale: false,
            facts: None,
        }
    }

    /// The stand-in for a held device that is not published.
    pub(crate) fn ghost(&self, device: &Text) -> Option<u32> {
        self.held.as_ref()?.ghosts.get(device).copied()
    }

    pub(crate) fn ghosts(&self) -> impl Iterator<Item = u32> {
        self.held.iter().flat_map(|held| held.ghosts.values().copied())
    }

    pub(crate) fn add_ghost(&mut self, device: Text, ghost: u32) {
        self.held.get_or_insert_default().ghosts.insert(device, ghost);
    }

    pub(crate) fn remove_ghost(&mut self, device: &Text) {
        if let Some(held) = &mut self.held {
            held.ghosts.remove(device);
        }
        self.drop_held_if_empty();
    }

    /// Numbers of the held devices.
    pub(crate) fn holders(&self) -> impl Iterator<Item = u32> {
        self.held.iter().flat_map(|held| held.holders.iter().copied())
    }

    pub(crate) fn has_holders(&self) -> bool {
        self.held.as_ref().is_some_and(|held| !held.holders.is_empty())
    }

    pub(crate) fn add_holder(&mut self, holder: u32) {
        self.held.get_or_insert_default().holders.insert(holder);
    }

    pub(crate) fn remove_holder(&mut self, holder: u32) {
        if let Some(held) = &mut self.held {
            held.holders.remove(&holder);
        }
        self.drop_held_if_empty();
    }

    fn drop_held_if_empty(&mut self) {
        if self.held.as_ref().is_some_and(|held| held.ghosts.is_empty() && held.holders.is_empty()) {
            self.held = None;
        }
    }
}

impl Fleet {
    pub(crate) fn pool_ix(&self, driver: &Text, pool: &Text) -> Option<u32> {
        let is_it = |ix: &u32| {
            self.pools.get(*ix).is_some_and(|entry| entry.id.pool == *pool && entry.id.driver == *driver)
        };
        // The same hash as that of the two as a [`PoolId`].
        self.pool_ids.find(hash(&(driver, pool)), is_it).copied()
    }

    pub(crate) fn pool_or_new(&mut self, driver: &Text, pool: &Text) -> u32 {
        if let Some(found) = self.pool_ix(driver, pool) {
            return found;
        }
        // A name of a pool occurs once, or once per driver: to look for others that have it costs more than it saves.
        let id = PoolId { driver: self.vocabulary.text(driver), pool: pool.clone() };
        self.pool_names.insert(&id.pool, self.pools.next());
        self.pool_drivers.insert(&id.driver, self.pools.next());
        let own_hash = hash(&id);
        let pool = self.pools.insert(PoolEntry::new(id));
        let pools = &self.pools;
        let rehash = |ix: &u32| pools.get(*ix).map_or(0, |entry| hash(&entry.id));
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
        if let Ok(found) = self.pool_ids.find_entry(hash(&entry.id), |ix| *ix == pool) {
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
        let view = self.pools.get(pool)?.view;
        self.find_newest(pool, device).filter(|(slice, _)| {
            self.slices.get(*slice).is_some_and(|entry| view.shows(entry.state.generation()))
        })
    }

    /// The newest slice that has a device, be it of a generation that is over.
    pub(crate) fn find_newest(&self, pool: u32, device: &Text) -> Option<(u32, usize)> {
        let places = self.devices.in_pool(pool, device).filter_map(|(slice, at)| {
            let entry = self.slices.get(slice)?;
            let here = entry.pool == pool && entry.state.body.names.get(at) == Some(device);
            here.then_some((&entry.state, slice, at))
        });
        let best = places.min_by(|(a, _, i), (b, _, j)| {
            b.generation().cmp(&a.generation()).then_with(|| a.name().cmp(b.name())).then(i.cmp(j))
        })?;
        Some((best.1, best.2))
    }

    /// All slices of a pool, of any generation, with a device of this name, and its place in each.
    pub(crate) fn places_of(&self, pool: u32, device: &Text) -> Vec<(u32, usize)> {
        let has = |&(slice, at): &(u32, usize)| {
            self.slices
                .get(slice)
                .is_some_and(|entry| entry.pool == pool && entry.state.body.names.get(at) == Some(device))
        };
        self.devices.in_pool(pool, device).filter(has).collect()
    }
}
