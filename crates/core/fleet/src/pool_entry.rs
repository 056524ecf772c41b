//! A pool in the fleet.

use alloc::sync::Arc;

use lazaret_model::{PoolId, Text};

use crate::{few::Few, pool::PoolFacts, sparse::Sparse, views::Views, vocabulary::hash_texts};

/// A pool that has slices, or held devices, or both.
#[derive(Clone, Debug)]
pub(crate) struct PoolEntry {
    pub(crate) id: PoolId,
    /// Of driver and name.
    pub(crate) hash: u64,
    /// By name.
    pub(crate) slices: Few<u32>,
    /// The slices of taints among them, by name.
    pub(crate) taint_slices: Sparse<u32>,
    /// How many of its devices are held.
    holders: u32,
    pub(crate) views: Views,
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

impl PoolEntry {
    pub(crate) fn new(id: PoolId, hash: u64) -> Self {
        Self {
            id,
            hash,
            slices: Few::default(),
            taint_slices: Sparse::default(),
            holders: 0,
            views: Views::default(),
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

/// By what pools and their devices are looked up.
pub(crate) fn pool_hash(driver: &Text, pool: &Text) -> u64 {
    hash_texts([driver, pool])
}
