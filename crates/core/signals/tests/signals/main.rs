//! Devices as a controller hears of them: their signals, their usage, and the limits of guards.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on has failed; it looks at two inputs of many"
)]

mod absent;
mod limits;
mod nodes;
mod pools;
mod presence;
mod taints;
mod tolerating;
mod usage;

use std::{collections::BTreeMap, sync::Arc};

use lazaret_fleet::{Fleet, Input as Told};
use lazaret_lifecycle::{
    Incident, Input as CoreInput, Lifecycle, Mode, Policy, Rule, TaintKeyValue, Target, When,
};
use lazaret_model::{
    Device, DeviceSelector, NodeScope, PoolSpec, ResourceClaim, ResourceSlice, Text, Timestamp,
};
use lazaret_signals::{Levels, Usage, selection};

const DRIVER: &str = "gpu.example.com";
const NODE: &str = "node-1";
const NONE: [&str; 0] = [];

/// A controller whose policy means every signal of one key.
struct World {
    key: &'static str,
    policy: Policy,
    levels: Levels,
    usage: Usage,
    fleet: Fleet,
    lifecycle: Lifecycle,
    slices: BTreeMap<Text, Arc<ResourceSlice>>,
    now: i64,
}

/// A slice of the node's pool, of this generation and number of slices.
fn slice(name: &str, (generation, slice_count): (i64, i64), devices: &[&str]) -> Arc<ResourceSlice> {
    let device = |name: &&str| Device { name: (*name).into(), ..Device::default() };
    Arc::new(ResourceSlice {
        name: name.into(),
        driver: DRIVER.into(),
        pool: PoolSpec { name: NODE.into(), generation, slice_count },
        nodes: NodeScope::Node(NODE.into()),
        devices: devices.iter().map(device).collect(),
        ..ResourceSlice::default()
    })
}

/// A slice of another node in the same pool.
fn forged(generation: (i64, i64), devices: &[&str]) -> Arc<ResourceSlice> {
    let nodes = NodeScope::Node("node-2".into());
    Arc::new(ResourceSlice { nodes, ..ResourceSlice::clone(&slice("forged", generation, devices)) })
}

impl World {
    fn new(key: &'static str) -> Self {
        let rule = Rule {
            name: "r".into(),
            when: When::compile(&format!("signal.key == '{key}'")).unwrap(),
            count: None,
            hold_ms: 0,
            target: Target::Quarantined,
            taint: TaintKeyValue { key: "example.com/trouble".into(), value: Text::default() },
        };
        let policy = Policy {
            name: "p".into(),
            mode: Mode::Enforce,
            rules: vec![rule],
            clear_after_ms: 60_000,
            steps: Vec::new(),
            attempts_max: 1,
            blocked: None,
            recovery: None,
        };
        let mut world = Self {
            key,
            policy,
            levels: Levels::default(),
            usage: Usage::default(),
            fleet: Fleet::default(),
            lifecycle: Lifecycle::default(),
            slices: BTreeMap::new(),
            now: 1_000_000,
        };
        world.select();
        world
    }

    /// Its policy is there.
    fn select(&mut self) {
        let selected = selection(
            "p".into(),
            1,
            DeviceSelector { driver: Some(DRIVER.into()), ..DeviceSelector::default() },
        );
        self.fleet.apply(Told::Rule(Arc::new(selected)));
        self.levels.policy("p".into(), "uuid".into());
        self.lifecycle.handle(self.time(), CoreInput::Policy(Box::new(self.policy.clone())));
    }

    /// Its policy is gone.
    fn select_nothing(&mut self) {
        self.fleet.apply(Told::RuleGone("p".into()));
        self.levels.policy_gone(&"p".into());
        self.lifecycle.handle(self.time(), CoreInput::PolicyGone("p".into()));
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    fn node(&mut self, name: &str) {
        self.levels.node(&name.into(), std::iter::empty());
    }

    fn publish(&mut self, slice: Arc<ResourceSlice>) {
        self.levels.slice(&slice);
        self.slices.insert(slice.name.clone(), slice.clone());
        self.fleet.apply(Told::Slice(slice));
    }

    fn withdraw(&mut self, name: &str) {
        self.levels.slice_gone(&name.into());
        self.slices.remove(name);
        self.fleet.apply(Told::SliceGone(name.into()));
    }

    fn claim(&mut self, claim: Arc<ResourceClaim>) {
        self.fleet.apply(Told::Claim(claim));
    }

    /// The signals of its key after this time.
    fn told(&mut self, passes: i64) -> Vec<String> {
        self.now += passes;
        let now = self.time();
        let told = self.levels.settle(now, &self.fleet, &self.lifecycle);
        let lines = told.iter().filter_map(|heard| match heard {
            CoreInput::Raised(signal) if *signal.key == *self.key => {
                Some(format!("{} {}: {}", signal.device.device, signal.value, signal.message))
            }
            CoreInput::Lowered { device, key, .. } if **key == *self.key => {
                Some(format!("{} is over", device.device))
            }
            _ => None,
        });
        let lines = lines.collect();
        for heard in told {
            self.usage.told(&heard);
            self.lifecycle.handle(now, heard);
        }
        lines
    }

    /// Another controller, which finds slices as they are and does not lead.
    fn beside(self) -> Self {
        let mut world = Self { now: self.now, ..Self::new(self.key) };
        for slice in self.slices.into_values() {
            world.publish(slice);
        }
        world.told(0);
        world
    }

    /// It begins to lead, and gets these incidents.
    fn lead(&mut self, incidents: Vec<Incident>) {
        let now = self.time();
        for one in incidents {
            self.lifecycle.handle(now, CoreInput::Found(Box::new(one)));
        }
        self.levels.begin();
    }

    fn incidents(&self) -> Vec<Incident> {
        self.lifecycle.incidents().cloned().collect()
    }
}
