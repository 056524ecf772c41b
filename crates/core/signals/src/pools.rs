//! Pools that stay incomplete, told of each of their devices.

use alloc::{collections::BTreeSet, format, vec::Vec};

use lazaret_lifecycle::{Input as CoreInput, Lifecycle, PoolState, Source};
use lazaret_model::{DeviceId, PoolId, ResourceSlice, Text, Timestamp};

use crate::{
    levels::Levels,
    tell::{Level, Tell, id_of, lowered},
};

/// The slices of a pool that count together, by their newest generation.
struct Part<'a> {
    node: Option<&'a Text>,
    newest: i64,
    there: i64,
    /// How many there should be, as its first slice says.
    wanted: i64,
}

impl<'a> Part<'a> {
    fn of<'s>(
        node: Option<&'a Text>,
        slices: impl Iterator<Item = &'s ResourceSlice> + Clone,
    ) -> Option<Self> {
        let newest = slices.clone().map(|slice| slice.pool.generation).max()?;
        let mut members = slices.filter(|slice| slice.pool.generation == newest);
        let wanted = members.next()?.pool.slice_count;
        let there = i64::try_from(members.count()).unwrap_or(i64::MAX).saturating_add(1);
        Some(Self { node, newest, there, wanted })
    }

    fn is_complete(&self) -> bool {
        self.there == self.wanted
    }
}

/// The key of the signal that the slices of a device's pool do not make up its newest generation.
pub const POOL_COMPLETE_KEY: &str = "poolComplete";

impl Levels {
    /// When a pool will have been incomplete for long.
    #[must_use]
    pub fn wake(&self) -> Option<Timestamp> {
        self.pools.wake()
    }

    /// Looks at the pools that have changed and returns those whose signal is over. This comes before the signals of their devices: a device that makes
    /// its pool complete is not in trouble.
    pub(crate) fn see_pools(&mut self, now: Timestamp) -> Vec<PoolId> {
        let mut over = Vec::new();
        for pool in core::mem::take(&mut self.changed_pools) {
            let state = self.pool_state(&pool);
            if self.pools.see(now, &pool, state) {
                over.push(pool);
            }
        }
        over
    }

    /// Tells of pools that have been incomplete for long, and of those whose signal is over. After it is known which devices are not published any more.
    pub(crate) fn settle_pools(
        &mut self,
        now: Timestamp,
        lifecycle: &Lifecycle,
        over: &[PoolId],
        told: &mut Vec<CoreInput>,
    ) {
        for device in over.iter().flat_map(|pool| self.devices_of_pool(pool)) {
            told.push(lowered(&device, POOL_COMPLETE_KEY.into(), Source::Vanished));
        }
        let (mut pools, begins) = (core::mem::take(&mut self.pools), core::mem::take(&mut self.begins));
        let raised = pools.raise(now, |pool| {
            if !begins {
                return false;
            }
            let mut signals = Vec::new();
            self.raise_pool(now, pool, &mut signals);
            signals
                .iter()
                .any(|heard| matches!(heard, CoreInput::Raised(signal) if lifecycle.is_about(signal)))
        });
        self.pools = pools;
        for pool in raised {
            self.raise_pool(now, &pool, told);
        }
    }

    /// Adds the signal of its pool to those of a device that is new, or looked at again.
    pub(crate) fn settle_pool_of(&self, tell: &Tell<'_>, node: Option<&Text>, told: &mut Vec<CoreInput>) {
        let pool = tell.id.pool_id();
        let is_complete = |part: &Part<'_>| part.node == node && part.is_complete();
        if self.pools.is_raised(&pool) && !self.parts(&pool).iter().any(is_complete) {
            tell.raise(POOL_COMPLETE_KEY.into(), &self.pool_level(&pool), Source::Vanished, told);
        }
    }

    fn raise_pool(&self, now: Timestamp, pool: &PoolId, told: &mut Vec<CoreInput>) {
        let level = self.pool_level(pool);
        for id in self.devices_that_lack_slices(pool) {
            Tell { now, id: &id }.raise(POOL_COMPLETE_KEY.into(), &level, Source::Vanished, told);
        }
    }

    fn slices_of(&self, pool: &PoolId) -> impl Iterator<Item = &ResourceSlice> + Clone {
        let names = self.by_pool.get(pool).into_iter().flatten();
        names.filter_map(|name| self.slices.get(name)).map(|slice| &**slice)
    }

    /// The slices of each node, and those of no node: a node writes slices in pools of any name, and on another none is missing or there because of
    /// them. A pool of several nodes that is complete as a whole, in one generation, is one part; one that has the name of a node is that node's.
    fn parts(&self, pool: &PoolId) -> Vec<Part<'_>> {
        let Some(whole) = Part::of(None, self.slices_of(pool)) else { return Vec::new() };
        let nodes: BTreeSet<Option<&Text>> =
            self.slices_of(pool).map(|slice| slice.nodes.own_node()).collect();
        let part =
            |node| Part::of(node, self.slices_of(pool).filter(move |slice| slice.nodes.own_node() == node));
        let parts: Vec<Part<'_>> = nodes.into_iter().filter_map(part).collect();
        let is_of_one = parts.iter().any(|part| part.node.is_some_and(|node| *node == pool.pool));
        if !is_of_one && whole.is_complete() && parts.iter().all(|part| part.newest == whole.newest) {
            return [whole].into();
        }
        parts
    }

    fn pool_state(&self, pool: &PoolId) -> PoolState {
        let parts = self.parts(pool);
        if parts.is_empty() {
            PoolState::Gone
        } else if parts.iter().all(Part::is_complete) {
            PoolState::Complete
        } else {
            PoolState::Incomplete
        }
    }

    fn pool_level(&self, pool: &PoolId) -> Level {
        let parts = self.parts(pool);
        let lacking = parts.iter().find(|part| !part.is_complete()).or(parts.first());
        let (generation, there, wanted) =
            lacking.map_or((0, 0, 0), |part| (part.newest, part.there, part.wanted));
        let message = format!("pool {pool} has {there} of {wanted} slices of generation {generation}");
        Level { value: "False".into(), message: message.into(), at: None }
    }

    /// Its devices but for those that are published where no slice is missing.
    fn devices_that_lack_slices(&self, pool: &PoolId) -> BTreeSet<DeviceId> {
        let mut devices = self.devices_of_pool(pool);
        let parts = self.parts(pool);
        let complete = |node: Option<&Text>| parts.iter().any(|part| part.node == node && part.is_complete());
        for slice in self.slices_of(pool).filter(|slice| complete(slice.nodes.own_node())) {
            for device in &slice.devices {
                devices.remove(&id_of(slice, device));
            }
        }
        devices.retain(|id| {
            let node = self.vanished.get(id).and_then(Option::as_ref);
            node.is_none_or(|node| !complete(Some(node)))
        });
        devices
    }

    /// Its devices: published, or not any more.
    fn devices_of_pool(&self, pool: &PoolId) -> BTreeSet<DeviceId> {
        let id = |device: &Text| DeviceId {
            driver: pool.driver.clone(),
            pool: pool.pool.clone(),
            device: device.clone(),
        };
        let published =
            self.slices_of(pool).flat_map(|slice| slice.devices.iter().map(|device| id(&device.name)));
        let first = id(&Text::default());
        let vanished = self.vanished.range(first..).map(|(id, _)| id);
        let vanished = vanished.take_while(|id| id.driver == pool.driver && id.pool == pool.pool).cloned();
        published.chain(vanished).collect()
    }
}
