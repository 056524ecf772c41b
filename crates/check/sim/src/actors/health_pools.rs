//! When controllers knew that a pool had been incomplete for long: no incident says so at another time.

use lazaret_lifecycle::{INCOMPLETE_MS, PoolState, Signal, Source};
use lazaret_model::{DeviceId, PoolId, Text, Timestamp};
use lazaret_signals::POOL_COMPLETE_KEY;

use crate::{
    actors::health::{Health, HealthAgent},
    world::World,
};

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

fn signal(device: DeviceId, at: Timestamp) -> Signal {
    Signal {
        device,
        key: POOL_COMPLETE_KEY.into(),
        value: "False".into(),
        source: Source::Vanished,
        at,
        lasts: true,
        message: Text::default(),
    }
}

impl World {
    /// A controller has looked at slices.
    pub(super) fn note_torn_pools(&mut self, number: usize, now: Timestamp) {
        if self.config.healed < 2 {
            return;
        }
        let seen = self.clients[number].view.of(&self.api);
        let Health { agents, torn: ended, .. } = &mut self.health;
        let torn = &mut agents[number].torn;
        for (pool, state) in seen.pools() {
            if state == PoolState::Incomplete {
                torn.entry(pool.clone()).or_insert(now);
            } else if let Some(since) = torn.remove(&pool) {
                ended.push(Torn::new(pool.clone(), since, now));
            }
        }
    }

    /// A controller begins to lead: the leader that opened an incident about a pool saw the time pass.
    pub(super) fn note_pools_of_incidents(&mut self, number: usize, now: Timestamp) {
        let HealthAgent { core, torn, .. } = &mut self.health.agents[number];
        let lifecycle = core.lifecycle();
        let catalog = &self.api.catalog;
        let devices =
            (0..catalog.devices()).map(|device| catalog.id(u32::try_from(device).unwrap_or(u32::MAX)));
        for device in devices {
            if let Some(since) = torn.get_mut(&device.pool_id())
                && lifecycle.is_about(&signal(device, now))
            {
                *since = now.plus_millis(-INCOMPLETE_MS).min(*since);
            }
        }
    }
}
