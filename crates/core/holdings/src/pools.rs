//! Facts from slices about devices that more than one claim may hold at a time, or that draw from counters of their pool.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::cmp::Ordering;

use lazaret_model::{
    CounterConsumption, CounterSet, Device, DeviceId, PoolId, Quantity, ResourceSlice, Text,
};

/// Facts that decide whether several claims may hold a device.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DeviceFacts {
    /// Several claims may hold shares of it.
    pub is_shared: bool,
    /// How much there is of each capacity.
    pub capacity: Vec<(Text, Quantity)>,
    /// The amounts that it consumes of the pool's counters.
    pub consumes: Vec<CounterConsumption>,
}

/// A slice with devices that are shared or draw from counters, or with counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceFacts {
    /// The pool that it is part of.
    pub pool: PoolId,
    /// The node whose slice it is. It says nothing about devices of other nodes.
    pub node: Option<Text>,
    /// Only the highest of a pool counts, among the slices of the same node.
    pub generation: i64,
    /// Its devices by name, without those about which there is nothing to know.
    pub devices: BTreeMap<Text, DeviceFacts>,
    /// The counters of the pool.
    pub counters: Vec<CounterSet>,
}

impl SliceFacts {
    /// The facts of a slice; `None` where there are none.
    #[must_use]
    pub fn of(slice: &ResourceSlice) -> Option<Self> {
        let facts = |device: &Device| {
            let is_shared = device.allow_multiple_allocations == Some(true);
            (is_shared || !device.consumes_counters.is_empty()).then(|| {
                let capacity = device.capacity.iter().filter(|_| is_shared);
                let facts = DeviceFacts {
                    is_shared,
                    capacity: capacity.map(|(name, one)| (name.clone(), one.value.clone())).collect(),
                    consumes: device.consumes_counters.clone(),
                };
                (device.name.clone(), facts)
            })
        };
        let devices: BTreeMap<Text, DeviceFacts> = slice.devices.iter().filter_map(facts).collect();
        let is_of_use = !devices.is_empty() || !slice.shared_counters.is_empty();
        is_of_use.then(|| Self {
            pool: slice.pool_id(),
            node: slice.nodes.own_node().cloned(),
            generation: slice.pool.generation,
            devices,
            counters: slice.shared_counters.clone(),
        })
    }
}

/// The slices that say something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pools {
    slices: BTreeMap<Text, SliceFacts>,
    by_pool: BTreeMap<PoolId, BTreeSet<Text>>,
}

impl Pools {
    /// A slice says this, or nothing, or is gone.
    pub(crate) fn set(&mut self, slice: &str, facts: Option<SliceFacts>) {
        if let Some(before) = self.slices.remove(slice)
            && let Some(of_pool) = self.by_pool.get_mut(&before.pool)
        {
            of_pool.remove(slice);
            if of_pool.is_empty() {
                self.by_pool.remove(&before.pool);
            }
        }
        if let Some(facts) = facts {
            self.by_pool.entry(facts.pool.clone()).or_default().insert(slice.into());
            self.slices.insert(slice.into(), facts);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The slices of the newest generation of a pool, that of each node by itself. Slices of no node come first, then those of the node of the pool's
    /// name: a node writes slices in pools of any name.
    fn newest(&self, pool: &PoolId) -> impl Iterator<Item = &SliceFacts> {
        let of_pool = self.by_pool.get(pool).into_iter().flatten().filter_map(|name| self.slices.get(name));
        let mut nodes: BTreeMap<(bool, Option<&Text>), Vec<&SliceFacts>> = BTreeMap::new();
        for slice in of_pool {
            let is_elsewhere = slice.node.as_ref().is_some_and(|node| *node != pool.pool);
            let newest = nodes.entry((is_elsewhere, slice.node.as_ref())).or_default();
            match newest.first().map(|first| first.generation.cmp(&slice.generation)) {
                Some(Ordering::Greater) => continue,
                Some(Ordering::Less) => newest.clear(),
                Some(Ordering::Equal) | None => {}
            }
            newest.push(slice);
        }
        nodes.into_values().flatten()
    }

    pub(crate) fn device(&self, device: &DeviceId) -> Option<&DeviceFacts> {
        // Most clusters have no such pools.
        if self.slices.is_empty() {
            return None;
        }
        self.newest(&device.pool_id()).find_map(|slice| slice.devices.get(&device.device))
    }

    pub(crate) fn counters(&self, pool: &PoolId, set: &Text) -> Option<&CounterSet> {
        self.newest(pool).flat_map(|slice| &slice.counters).find(|known| known.name == *set)
    }
}
