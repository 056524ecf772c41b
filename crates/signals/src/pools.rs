//! Pools that stay incomplete, told of each of their devices.

use alloc::{collections::BTreeSet, format, vec::Vec};

use lazaret_lifecycle::{Input as CoreInput, Lifecycle, PoolState, Source};
use lazaret_model::{DeviceId, PoolId, Text, Timestamp};

use crate::{
    levels::Levels,
    tell::{Level, Tell, lowered},
};

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
    pub(crate) fn settle_pool_of(&self, tell: &Tell<'_>, told: &mut Vec<CoreInput>) {
        let pool = tell.id.pool_id();
        if self.pools.is_raised(&pool) {
            tell.raise(POOL_COMPLETE_KEY.into(), &self.pool_level(&pool), Source::Vanished, told);
        }
    }

    fn raise_pool(&self, now: Timestamp, pool: &PoolId, told: &mut Vec<CoreInput>) {
        let level = self.pool_level(pool);
        for id in self.devices_of_pool(pool) {
            Tell { now, id: &id }.raise(POOL_COMPLETE_KEY.into(), &level, Source::Vanished, told);
        }
    }

    /// The newest generation of a pool: its number, how many slices of it there are, and how many there should be, as its first slice says.
    fn newest_generation(&self, pool: &PoolId) -> Option<(i64, i64, i64)> {
        let slices = || self.by_pool.get(pool).into_iter().flatten().filter_map(|name| self.slices.get(name));
        let newest = slices().map(|slice| slice.pool.generation).max()?;
        let mut members = slices().filter(|slice| slice.pool.generation == newest);
        let wanted = members.next()?.pool.slice_count;
        let there = i64::try_from(members.count()).unwrap_or(i64::MAX).saturating_add(1);
        Some((newest, there, wanted))
    }

    fn pool_state(&self, pool: &PoolId) -> PoolState {
        match self.newest_generation(pool) {
            None => PoolState::Gone,
            Some((_, there, wanted)) if there == wanted => PoolState::Complete,
            Some(_) => PoolState::Incomplete,
        }
    }

    fn pool_level(&self, pool: &PoolId) -> Level {
        let (generation, there, wanted) = self.newest_generation(pool).unwrap_or_default();
        let message = format!("pool {pool} has {there} of {wanted} slices of generation {generation}");
        Level { value: "False".into(), message: message.into(), at: None }
    }

    /// Its devices: published, or not any more.
    fn devices_of_pool(&self, pool: &PoolId) -> BTreeSet<DeviceId> {
        let id = |device: &Text| DeviceId {
            driver: pool.driver.clone(),
            pool: pool.pool.clone(),
            device: device.clone(),
        };
        let slices = self.by_pool.get(pool).into_iter().flatten().filter_map(|name| self.slices.get(name));
        let published = slices.flat_map(|slice| slice.devices.iter().map(|device| id(&device.name)));
        let first = id(&Text::default());
        let vanished = self.vanished.range(first..).map(|(id, _)| id);
        let vanished = vanished.take_while(|id| id.driver == pool.driver && id.pool == pool.pool).cloned();
        published.chain(vanished).collect()
    }
}
