//! Pools inside the fleet: their slices, what generation counts, who holds their devices.

use lazaret_invariant::invariant;
use lazaret_model::{PoolId, Text};

use crate::{
    Fleet,
    pool_entry::{PoolEntry, pool_hash},
    views::Views,
};

impl Fleet {
    pub(crate) fn pool_ix(&self, driver: &Text, pool: &Text) -> Option<u32> {
        self.pool_ix_hashed(pool_hash(driver, pool), driver, pool)
    }

    fn pool_ix_hashed(&self, hash: u64, driver: &Text, pool: &Text) -> Option<u32> {
        let is_it = |ix: &u32| {
            self.pools.get(*ix).is_some_and(|entry| entry.id.pool == *pool && entry.id.driver == *driver)
        };
        self.pool_ids.find(hash, is_it).copied()
    }

    pub(crate) fn pool_or_new(&mut self, driver: &Text, pool: &Text) -> u32 {
        let hash = pool_hash(driver, pool);
        if let Some(found) = self.pool_ix_hashed(hash, driver, pool) {
            return found;
        }
        // A name of a pool occurs once, or once per driver: to look for others that have it costs more than it saves.
        let id = PoolId { driver: self.vocabulary.text(driver), pool: pool.clone() };
        self.pool_names.insert(&id.pool, self.pools.next());
        self.pool_drivers.insert(&id.driver, self.pools.next());
        let pool = self.pools.insert(PoolEntry::new(id, hash));
        let pools = &self.pools;
        self.pool_ids.insert_unique(hash, pool, |ix| pools.get(*ix).map_or(0, |entry| entry.hash));
        pool
    }

    /// Forgets a pool that has neither slices nor held devices.
    pub(crate) fn drop_pool_if_empty(&mut self, pool: u32) {
        let Some(entry) = invariant!(self.pools.get(pool), "the number of a pool leads to it") else {
            return;
        };
        if !entry.slices.is_empty() || entry.has_holders() {
            return;
        }
        let Some(entry) = invariant!(self.pools.remove(pool), "the number of a pool leads to it") else {
            return;
        };
        self.pool_names.remove(&entry.id.pool, pool);
        self.pool_drivers.remove(&entry.id.driver, pool);
        if let Ok(found) = self.pool_ids.find_entry(entry.hash, |ix| *ix == pool) {
            found.remove();
        }
        if entry.noted {
            self.noted.gone_pools.push(entry.id.clone());
        }
        self.stale_gone_pools.push(entry.id);
    }

    /// Which generations speak now.
    pub(crate) fn views_of(&self, pool: u32) -> Views {
        let Some(entry) = invariant!(self.pools.get(pool), "the number of a pool leads to it") else {
            return Views::default();
        };
        Views::of(entry.slices.iter().filter_map(|&slice| Some(&*self.slices.get(slice)?.state.head)))
    }
}
