//! Pools that stay incomplete: each is a signal of all its devices, as soon as a controller has seen the time pass.

use lazaret_lifecycle::{
    INCOMPLETE_MS, Input as CoreInput, Lifecycle, Notice, PoolState, Reconciler, Signal, Source,
};
use lazaret_model::{DeviceId, PoolId, Text, Timestamp};

use crate::{
    actors::health::{Health, HealthAgent},
    api::Kind,
    mutant::Mutant,
    world::World,
};

/// The key of the signal.
pub(crate) const POOL_COMPLETE: &str = "poolComplete";

/// A time in which a controller knew that a pool had been incomplete for long, by its clock.
#[derive(Clone, Debug)]
pub(crate) struct Torn {
    pub(crate) pool: PoolId,
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
}

impl Torn {
    /// Of a pool that was known to be incomplete since then.
    pub(crate) fn new(pool: PoolId, since: Timestamp, until: Timestamp) -> Self {
        Self { pool, from: since.plus_millis(INCOMPLETE_MS), until }
    }
}

fn signal(device: &DeviceId, at: Timestamp) -> Signal {
    Signal {
        device: device.clone(),
        key: POOL_COMPLETE.into(),
        value: "False".into(),
        source: Source::Vanished,
        at,
        lasts: true,
        message: Text::default(),
    }
}

/// Tells a core that the pool of a device is incomplete.
pub(super) fn raise(core: &mut Reconciler, now: Timestamp, device: &DeviceId) {
    core.handle(now, Notice::Core(CoreInput::Raised(signal(device, now))));
}

fn is_known(lifecycle: &Lifecycle, devices: &[DeviceId], now: Timestamp) -> bool {
    devices.iter().any(|device| lifecycle.is_about(&signal(device, now)))
}

impl World {
    /// Tells a controller of pools that have been incomplete for long, and of those that are not any more. One that begins to lead goes on with what the
    /// incidents are about.
    pub(super) fn hear_pools(&mut self, number: usize, now: Timestamp, begins: bool) {
        if self.config.healed < 2 {
            return;
        }
        let seen = self.clients[number].view.of(&self.api);
        let position = self.clients[number].view.position(Kind::Slice);
        let Health { agents, torn: ended, .. } = &mut self.health;
        let HealthAgent { core, pools, pools_at, torn, raised, .. } = &mut agents[number];
        let devices = |pool: &PoolId| -> Vec<DeviceId> {
            raised.keys().filter(|id| id.driver == pool.driver && id.pool == pool.pool).cloned().collect()
        };
        if pools_at.replace(position) != Some(position) {
            for (pool, state) in seen.pools() {
                if state == PoolState::Incomplete {
                    torn.entry(pool.clone()).or_insert(now);
                } else if let Some(since) = torn.remove(&pool) {
                    ended.push(Torn::new(pool.clone(), since, now));
                }
                if !pools.see(now, &pool, state) || self.mutant == Some(Mutant::KeepTornPools) {
                    continue;
                }
                for device in devices(&pool) {
                    let (key, source) = (POOL_COMPLETE.into(), Source::Vanished);
                    core.handle(now, Notice::Core(CoreInput::Lowered { device, key, source }));
                }
            }
        }
        let told_at = match self.mutant {
            Some(Mutant::EarlyTornPools) => now.plus_millis(INCOMPLETE_MS / 2),
            Some(_) | None => now,
        };
        let lifecycle = core.lifecycle();
        let goes_on = |pool: &PoolId| begins && is_known(lifecycle, &devices(pool), now);
        let going_on: Vec<PoolId> = torn.keys().filter(|pool| goes_on(pool)).cloned().collect();
        for pool in pools.raise(told_at, |pool| going_on.contains(pool)) {
            if going_on.contains(&pool) {
                // The leader that opened the incident saw the time pass.
                torn.insert(pool.clone(), now.plus_millis(-INCOMPLETE_MS));
            }
            if self.mutant != Some(Mutant::OverlookTornPools) {
                devices(&pool).iter().for_each(|device| raise(core, now, device));
            }
        }
    }
}
