//! Pools that stay incomplete, told of each of their devices.

use std::collections::BTreeSet;

use lazaret_lifecycle::{Input as CoreInput, Lifecycle, PoolState, Source};
use lazaret_model::{DeviceId, PoolId, Text, Timestamp};

use super::{
    levels::Levels,
    tell::{Level, Tell, lowered},
};

/// The key of the signal that the slices of a device's pool do not make up its newest generation.
const POOL_COMPLETE_KEY: &str = "poolComplete";

impl Levels {
    /// When a pool will have been incomplete for long.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        self.pools.wake()
    }

    /// Looks at the pools that have changed and returns those whose signal is over. This comes before the signals of their devices: a device that makes
    /// its pool complete is not in trouble.
    pub(super) fn see_pools(&mut self, now: Timestamp) -> Vec<PoolId> {
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
    pub(super) fn settle_pools(
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
    pub(super) fn settle_pool_of(&self, tell: &Tell<'_>, told: &mut Vec<CoreInput>) {
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

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on has failed; it looks at two inputs of many"
)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use lazaret_api::HealthPolicy;
    use lazaret_fleet::{Fleet, Input as Told};
    use lazaret_lifecycle::{INCOMPLETE_MS, Incident};
    use lazaret_model::{Device, NodeScope, PoolSpec, ResourceSlice};
    use lazaret_runtime::{NODES, Object};
    use serde_json::json;

    use super::*;
    use crate::health::rules;

    struct World {
        levels: Levels,
        fleet: Fleet,
        policies: BTreeMap<Text, Arc<HealthPolicy>>,
        lifecycle: Lifecycle,
        now: i64,
    }

    fn slice(name: &str, (generation, slice_count): (i64, i64), devices: &[&str]) -> Arc<ResourceSlice> {
        let device = |name: &&str| Device { name: (*name).into(), ..Device::default() };
        Arc::new(ResourceSlice {
            name: name.into(),
            driver: "gpu.example.com".into(),
            pool: PoolSpec { name: "node-1".into(), generation, slice_count },
            nodes: NodeScope::All,
            devices: devices.iter().map(device).collect(),
            ..ResourceSlice::default()
        })
    }

    impl World {
        fn new() -> Self {
            let policy = json!({
                "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceHealthPolicy", "metadata": {"name": "p"},
                "spec": {
                    "mode": "Enforce",
                    "rules": [{"name": "torn", "when": "signal.key == 'poolComplete'", "stage": "Quarantined"}],
                },
            });
            let policy = Arc::new(lazaret_api::read_health_policy(&policy.to_string()).unwrap());
            let mut fleet = Fleet::default();
            fleet.apply(Told::Rule(Arc::new(rules::selection(&policy))));
            let mut lifecycle = Lifecycle::default();
            lifecycle.handle(Timestamp::EPOCH, CoreInput::Policy(Box::new(policy.policy.clone())));
            let policies = BTreeMap::from([(policy.policy.name.clone(), policy)]);
            Self { levels: Levels::default(), fleet, policies, lifecycle, now: 1_000_000 }
        }

        fn publish(&mut self, slice: Arc<ResourceSlice>) {
            self.levels.slice(&slice);
            self.fleet.apply(Told::Slice(slice));
        }

        fn withdraw(&mut self, name: &str) {
            self.levels.slice_gone(&name.into());
            self.fleet.apply(Told::SliceGone(name.into()));
        }

        /// The signals of pools after this time.
        fn told(&mut self, passes: i64) -> Vec<String> {
            self.now += passes;
            let now = Timestamp::from_millis(self.now);
            let told = self.levels.settle(now, &self.fleet, &self.policies, &self.lifecycle);
            let lines = told.iter().filter_map(|heard| match heard {
                CoreInput::Raised(signal) if &*signal.key == POOL_COMPLETE_KEY => {
                    Some(format!("{} {}: {}", signal.device.device, signal.value, signal.message))
                }
                CoreInput::Lowered { device, key, .. } if &**key == POOL_COMPLETE_KEY => {
                    Some(format!("{} is over", device.device))
                }
                _ => None,
            });
            let lines = lines.collect();
            told.into_iter().for_each(|heard| self.lifecycle.handle(now, heard));
            lines
        }

        /// Another controller, which finds everything as it is and does not lead.
        fn beside(self) -> Self {
            let mut world = Self { now: self.now, ..Self::new() };
            for slice in self.levels.slices.values() {
                world.publish(slice.clone());
            }
            world.told(0);
            world
        }

        /// It begins to lead, and is given these incidents.
        fn lead(&mut self, incidents: Vec<Incident>) {
            let now = Timestamp::from_millis(self.now);
            for one in incidents {
                self.lifecycle.handle(now, CoreInput::Found(Box::new(one)));
            }
            self.levels.begin();
        }

        /// Another controller, which leads at once.
        fn restarted(self, incidents: Vec<Incident>) -> Self {
            let mut world = self.beside();
            world.lead(incidents);
            world
        }
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn a_pool_that_stays_incomplete_is_told_of_each_of_its_devices_until_it_is_complete() {
        let mut world = World::new();
        world.publish(slice("a", (1, 1), &["gpu-0"]));
        assert_eq!(world.told(0), NONE);
        world.publish(slice("a", (2, 2), &["gpu-0", "gpu-1"]));
        assert_eq!(world.told(0), NONE);
        let due = world.levels.wake().unwrap();
        assert_eq!(due.as_millis(), world.now + INCOMPLETE_MS);
        assert_eq!(world.told(INCOMPLETE_MS - 1), NONE);
        let message = "False: pool gpu.example.com/node-1 has 1 of 2 slices of generation 2";
        assert_eq!(world.told(1), [format!("gpu-0 {message}"), format!("gpu-1 {message}")]);
        assert_eq!(world.told(INCOMPLETE_MS), NONE, "once");
        assert_eq!(world.lifecycle.incidents().count(), 2);
        world.publish(slice("b", (2, 2), &["gpu-2"]));
        assert_eq!(world.told(0), ["gpu-0 is over", "gpu-1 is over", "gpu-2 is over"]);
        assert_eq!(world.levels.wake(), None);
    }

    #[test]
    fn an_update_is_no_trouble_and_a_pool_that_is_gone_is_not_incomplete() {
        let mut world = World::new();
        world.publish(slice("a", (1, 1), &["gpu-0"]));
        world.told(0);
        for generation in 2..5 {
            world.publish(slice("a", (generation, 2), &["gpu-0"]));
            assert_eq!(world.told(INCOMPLETE_MS / 2), NONE);
            world.publish(slice("b", (generation, 2), &["gpu-1"]));
            assert_eq!(world.told(INCOMPLETE_MS), NONE);
        }
        world.withdraw("b");
        assert_eq!(world.told(0), NONE);
        assert_eq!(world.told(INCOMPLETE_MS).len(), 2, "also of the device that is not published any more");
        world.withdraw("a");
        assert_eq!(world.told(0), ["gpu-0 is over", "gpu-1 is over"]);
        assert_eq!(world.told(10 * INCOMPLETE_MS), NONE);
    }

    #[test]
    fn a_restart_waits_anew_and_an_incident_about_it_goes_on() {
        let mut world = World::new();
        world.publish(slice("a", (2, 2), &["gpu-0"]));
        world.told(0);
        assert_eq!(world.told(INCOMPLETE_MS - 1), NONE);
        let mut world = world.restarted(Vec::new());
        assert_eq!(world.told(INCOMPLETE_MS - 1), NONE, "the time is counted anew");
        assert_eq!(world.told(1).len(), 1);
        let incidents: Vec<Incident> = world.lifecycle.incidents().cloned().collect();
        assert_eq!(incidents.len(), 1);
        let mut world = world.restarted(incidents);
        assert_eq!(world.told(0).len(), 1, "its incident is about it");
    }

    #[test]
    fn a_device_that_a_new_leader_finds_missing_has_the_signal_of_its_pool() {
        let mut world = World::new();
        world.publish(slice("a", (2, 2), &["gpu-0", "gpu-1"]));
        world.told(0);
        assert_eq!(world.told(INCOMPLETE_MS).len(), 2);
        let is_lost = |one: &&Incident| &*one.device.device == "gpu-1";
        let incidents: Vec<Incident> = world.lifecycle.incidents().filter(is_lost).cloned().collect();
        world.publish(slice("a", (2, 2), &["gpu-0"]));
        let mut world = world.beside();
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "n", "resourceVersion": "1"}});
        world.levels.node(&Object::new(&NODES, node.to_string()).unwrap());
        assert_eq!(world.told(INCOMPLETE_MS).len(), 1, "who does not lead knows published devices alone");
        world.lead(incidents);
        let message = "False: pool gpu.example.com/node-1 has 1 of 2 slices of generation 2";
        assert_eq!(world.told(0), [format!("gpu-1 {message}")]);
        world.publish(slice("b", (2, 2), &["gpu-1"]));
        assert_eq!(world.told(0), ["gpu-0 is over", "gpu-1 is over"]);
    }
}
