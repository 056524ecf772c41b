//! The remaining counters of a pool before a search allocates anything, computed once for each state of the pool.

use alloc::{sync::Arc, vec::Vec};

use hashbrown::HashMap;
use lazaret_fleet::Pool;
use lazaret_model::{AttrNames, PoolId, Text};
use rustc_hash::FxBuildHasher;

use crate::{
    counters::PoolCounters,
    view::{PoolView, is_allocated, is_held},
};

/// Bound on the counters and slices remembered; beyond it the cache is emptied.
const WEIGHT_MAX: usize = 1 << 18;

/// The remaining counters of pools, each for the last state of the pool that was seen.
#[derive(Debug, Default)]
pub(crate) struct Balances {
    pools: HashMap<PoolId, Balance, FxBuildHasher>,
    weight: usize,
}

#[derive(Debug)]
struct Balance {
    pool: Arc<Pool>,
    /// The slices that count, in order: nodes can see different parts of a pool.
    slices: Vec<Text>,
    has_groups: bool,
    /// Less what claims of the snapshot have.
    counters: PoolCounters,
}

impl Balances {
    /// The remaining counters of the pool, less the amounts in flight.
    pub(crate) fn of(&mut self, pool: &PoolView<'_>, names: &AttrNames) -> PoolCounters {
        if let Some(known) = self.pools.get(pool.id)
            && known.is_of(pool)
        {
            return known.less_in_flight(pool, names);
        }
        let balance = Balance::new(pool, names);
        let counters = balance.less_in_flight(pool, names);
        self.remember(balance);
        counters
    }

    fn remember(&mut self, balance: Balance) {
        let weight = balance.weight();
        if self.weight + weight > WEIGHT_MAX {
            self.pools.clear();
            self.weight = 0;
        }
        if weight <= WEIGHT_MAX {
            let before = self.pools.insert(balance.pool.id.clone(), balance);
            self.weight = self.weight + weight - before.map_or(0, |before| before.weight());
        }
    }
}

impl Balance {
    fn new(pool: &PoolView<'_>, names: &AttrNames) -> Self {
        let mut drawing = pool.slices.iter().chain(&pool.elsewhere);
        Self {
            pool: pool.pool.clone(),
            slices: names_of(pool).cloned().collect(),
            has_groups: drawing.any(|slice| slice.has_compatibility_groups()),
            counters: PoolCounters::new(pool, names, is_held),
        }
    }

    fn is_of(&self, pool: &PoolView<'_>) -> bool {
        Arc::ptr_eq(&self.pool, pool.pool) && self.slices.iter().eq(names_of(pool))
    }

    fn less_in_flight(&self, pool: &PoolView<'_>, names: &AttrNames) -> PoolCounters {
        if pool.in_flight.is_none() {
            return self.counters.clone();
        }
        // Which groups a set has can depend on who came first, so these are lined up again.
        if self.has_groups {
            return PoolCounters::new(pool, names, |device| is_allocated(device, pool));
        }
        let mut counters = self.counters.clone();
        counters.seed(pool, names, |device| !is_held(device) && is_allocated(device, pool));
        counters
    }

    fn weight(&self) -> usize {
        self.counters.len() + self.slices.len()
    }
}

fn names_of<'v>(pool: &PoolView<'v>) -> impl Iterator<Item = &'v Text> {
    let slices = pool.counters.iter().chain(&pool.slices).chain(&pool.elsewhere);
    slices.map(|slice| slice.name())
}
