//! Devices that vanished while no controller ran, or with their node, by what still names them: a claim that holds the device, or its open incident. Of
//! any other device nothing is left that says that it was there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use lazaret_api::HealthPolicy;
use lazaret_fleet::Fleet;
use lazaret_lifecycle::{Input as CoreInput, Lifecycle};
use lazaret_model::{DeviceId, Text, Timestamp};

use super::{
    levels::{
        Levels,
        vanished::{VANISHED_MAX, raise_vanished},
    },
    tell::{Tell, hardware},
};

impl Levels {
    /// Tells of devices that are named and not published, though their node is there. Once, when a process begins to lead: from then on it sees slices
    /// go, and looks again at devices of nodes that come.
    pub(super) fn settle_absent(
        &mut self,
        now: Timestamp,
        (fleet, policies): (&Fleet, &BTreeMap<Text, Arc<HealthPolicy>>),
        lifecycle: &Lifecycle,
        new_nodes: &BTreeSet<Text>,
        told: &mut Vec<CoreInput>,
    ) {
        let mut absent: BTreeMap<DeviceId, Vec<Text>> = BTreeMap::new();
        for name in policies.keys() {
            for (id, _) in fleet.rule_selection(name).unpublished() {
                absent.entry(id).or_default().push(name.clone());
            }
        }
        for incident in lifecycle.incidents() {
            absent.entry(incident.device.clone()).or_default();
        }
        for (id, names) in absent {
            let is_known = fleet.device(&id).is_some() || self.vanished.contains_key(&id);
            let is_asked = |node: &Text| !is_known && (self.begins || new_nodes.contains(node));
            let Some(node) = self.node_of_absent(fleet, &id).filter(is_asked) else { continue };
            let has_incident = lifecycle.incident_of(&id).is_some();
            let identity = identity(fleet, policies, &id, &names);
            let is_renamed = identity.as_ref().is_some_and(|identity| self.is_published(&id, identity));
            if self.vanished.len() >= VANISHED_MAX || is_renamed && !has_incident {
                continue;
            }
            // An incident knows the hardware and the policy of its device.
            if !has_incident {
                let hardware = identity.map(|(_, hardware)| hardware);
                told.push(CoreInput::Device { id: id.clone(), hardware, policies: names });
            }
            let tell = Tell { now, id: &id };
            self.vanish(&tell, Some(node), told);
            // A pool that was told of before is not told of again.
            self.settle_pool_of(&tell, told);
        }
    }

    /// Tells again of devices that are not published any more: a policy that has changed does not know.
    pub(super) fn settle_vanished(&self, now: Timestamp, told: &mut Vec<CoreInput>) {
        for id in self.vanished.keys() {
            let tell = Tell { now, id };
            raise_vanished(&tell, told);
            self.settle_pool_of(&tell, told);
        }
    }

    /// The node of a device that nobody publishes, where that is there: of the pods that use it, or else the one that its pool is named after.
    fn node_of_absent(&self, fleet: &Fleet, id: &DeviceId) -> Option<Text> {
        let pods = fleet.holders(id).flat_map(|claim| fleet.pods_of_claim(claim));
        let nodes: BTreeSet<Text> = pods.filter_map(|pod| fleet.pod(pod)?.node.clone()).collect();
        let node = nodes.first().cloned().unwrap_or_else(|| id.pool.clone());
        (nodes.len() <= 1 && self.has_node(&node)).then_some(node)
    }

    /// Whether the hardware of a device is published under another name.
    fn is_published(&self, id: &DeviceId, (identity, wanted): &(Text, Text)) -> bool {
        let same_driver = self.slices.values().filter(|slice| slice.driver == id.driver);
        let mut devices = same_driver.flat_map(|slice| slice.devices.iter());
        devices.any(|device| hardware(device, &id.driver, identity).as_ref() == Some(wanted))
    }
}

/// The identity of a device's hardware, which a new name does not change, as its claim remembers it: attribute and value.
fn identity(
    fleet: &Fleet,
    policies: &BTreeMap<Text, Arc<HealthPolicy>>,
    id: &DeviceId,
    names: &[Text],
) -> Option<(Text, Text)> {
    let identity = names.iter().find_map(|name| policies.get(name)).map(|policy| policy.identity.clone())?;
    let mut remembered = fleet.holders(id).flat_map(|claim| fleet.last_published(claim));
    let is_it = |one: &lazaret_model::LastPublished| {
        (&one.driver, &one.pool, &one.device.name) == (&id.driver, &id.pool, &id.device)
    };
    let last = remembered.find(is_it)?;
    let value = hardware(&last.device, &id.driver, &identity)?;
    Some((identity, value))
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on has failed; it looks at two inputs of many"
)]
mod tests {
    use lazaret_fleet::Input as Told;
    use lazaret_lifecycle::Incident;
    use lazaret_model::{
        Allocation, Device, DeviceResult, NodeScope, ObjectKey, PoolSpec, ResourceClaim, ResourceSlice,
    };
    use lazaret_runtime::{NODES, Object};
    use serde_json::json;

    use super::*;
    use crate::health::rules;

    struct World {
        levels: Levels,
        fleet: Fleet,
        policies: BTreeMap<Text, Arc<HealthPolicy>>,
        lifecycle: Lifecycle,
    }

    fn id(device: &str) -> DeviceId {
        DeviceId::new("gpu.example.com", "node-1", device)
    }

    /// A claim that holds a device.
    fn claim(device: &str) -> Arc<ResourceClaim> {
        let result = DeviceResult {
            request: "gpu".into(),
            device: id(device),
            admin_access: false,
            tolerations: Vec::new(),
            binding_conditions: Vec::new(),
            binding_failure_conditions: Vec::new(),
            share_id: None,
            consumed_capacity: Vec::new(),
            skip_node_operations: Vec::new(),
        };
        let allocation =
            Allocation { results: vec![result], config: Vec::new(), node_selector: None, timestamp: None };
        Arc::new(ResourceClaim {
            key: ObjectKey::new("default", "c"),
            uid: "uid-c".into(),
            owner: None,
            deleting: false,
            extended_resource: false,
            spec: Arc::default(),
            allocation: Some(Arc::new(allocation)),
            reserved_for: Vec::new(),
            last_published: Vec::new(),
        })
    }

    fn slice(devices: &[&str]) -> Arc<ResourceSlice> {
        let device = |name: &&str| Device { name: (*name).into(), ..Device::default() };
        Arc::new(ResourceSlice {
            name: "a".into(),
            driver: "gpu.example.com".into(),
            pool: PoolSpec { name: "node-1".into(), generation: 1, slice_count: 1 },
            nodes: NodeScope::Node("node-1".into()),
            devices: devices.iter().map(device).collect(),
            ..ResourceSlice::default()
        })
    }

    impl World {
        /// A controller that starts and finds these devices published, and the node if it is there.
        fn new(devices: &[&str], has_node: bool) -> Self {
            let rule = json!({"name": "gone", "when": "signal.key == 'published'", "stage": "Quarantined"});
            let policy = json!({
                "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceHealthPolicy", "metadata": {"name": "p"},
                "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "mode": "Enforce", "rules": [rule]},
            });
            let policy = Arc::new(lazaret_api::read_health_policy(&policy.to_string()).unwrap());
            let mut fleet = Fleet::default();
            fleet.apply(Told::Rule(Arc::new(rules::selection(&policy))));
            let mut lifecycle = Lifecycle::default();
            lifecycle.handle(Timestamp::EPOCH, CoreInput::Policy(Box::new(policy.policy.clone())));
            let policies = BTreeMap::from([(policy.policy.name.clone(), policy)]);
            let mut world = Self { levels: Levels::default(), fleet, policies, lifecycle };
            if has_node {
                world.node("node-1");
            }
            world.publish(devices);
            world
        }

        fn node(&mut self, name: &str) {
            let node = json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": "n", "resourceVersion": "1"},
                "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "r"}]},
            });
            self.levels.node(&Object::new(&NODES, node.to_string()).unwrap());
        }

        fn publish(&mut self, devices: &[&str]) {
            let slice = slice(devices);
            self.levels.slice(&slice);
            self.fleet.apply(Told::Slice(slice));
        }

        /// The signals that devices are published or not.
        fn told(&mut self) -> Vec<String> {
            let now = Timestamp::from_secs(1_000);
            let told = self.levels.settle(now, &self.fleet, &self.policies, &self.lifecycle);
            let lines = told.iter().filter_map(|heard| match heard {
                CoreInput::Raised(signal) if &*signal.key == "published" => {
                    Some(format!("{} is gone", signal.device.device))
                }
                CoreInput::Lowered { device, key, .. } if &**key == "published" => {
                    Some(format!("{} is back", device.device))
                }
                _ => None,
            });
            let lines = lines.collect();
            told.into_iter().for_each(|heard| self.lifecycle.handle(now, heard));
            lines
        }

        fn begin(&mut self, incidents: Vec<Incident>) -> Vec<String> {
            self.told();
            let now = Timestamp::from_secs(1_000);
            incidents.into_iter().for_each(|one| self.lifecycle.handle(now, CoreInput::Found(Box::new(one))));
            self.levels.begin();
            self.told()
        }
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn a_device_that_a_claim_holds_is_missed_when_a_controller_begins_and_found_again_when_it_is_back() {
        let mut world = World::new(&["gpu-0"], true);
        world.fleet.apply(Told::Claim(claim("gpu-1")));
        assert_eq!(world.begin(Vec::new()), ["gpu-1 is gone"]);
        assert_eq!(world.lifecycle.incidents().count(), 1);
        assert_eq!(world.told(), NONE, "once");
        world.levels.tell_all();
        assert_eq!(world.told(), ["gpu-1 is gone"], "a policy that has changed is told again");
        world.publish(&["gpu-0", "gpu-1"]);
        assert_eq!(world.told(), ["gpu-1 is back"]);
    }

    #[test]
    fn where_the_node_is_gone_or_the_device_is_there_nothing_is_missed() {
        let mut world = World::new(&["gpu-0"], false);
        world.fleet.apply(Told::Claim(claim("gpu-1")));
        assert_eq!(world.begin(Vec::new()), NONE, "a device goes with its node");
        let mut world = World::new(&["gpu-0"], true);
        world.fleet.apply(Told::Claim(claim("gpu-0")));
        assert_eq!(world.begin(Vec::new()), NONE);
    }

    #[test]
    fn a_device_with_an_open_incident_is_missed_too() {
        let mut before = World::new(&["gpu-0", "gpu-1"], true);
        before.told();
        before.publish(&["gpu-0"]);
        assert_eq!(before.told(), ["gpu-1 is gone"]);
        let incidents: Vec<Incident> = before.lifecycle.incidents().cloned().collect();
        let mut world = World::new(&["gpu-0"], true);
        assert_eq!(world.begin(incidents), ["gpu-1 is gone"]);
        assert_eq!(world.lifecycle.incidents().count(), 1, "it is the same incident");
    }
    #[test]
    fn a_device_that_went_with_its_node_is_missed_when_the_node_comes_back_without_it() {
        let mut world = World::new(&["gpu-0", "gpu-1"], true);
        world.fleet.apply(Told::Claim(claim("gpu-1")));
        world.begin(Vec::new());
        world.publish(&["gpu-0"]);
        assert_eq!(world.told(), ["gpu-1 is gone"]);
        world.levels.node_gone(&"node-1".into());
        assert_eq!(world.told(), ["gpu-1 is back"], "a device goes with its node");
        world.node("node-2");
        assert_eq!(world.told(), NONE, "another node");
        world.node("node-1");
        assert_eq!(world.told(), ["gpu-1 is gone"], "its claim holds it still");
        assert_eq!(world.told(), NONE, "once");
    }

    #[test]
    fn who_leads_no_more_misses_nothing_on_nodes_that_come() {
        let mut world = World::new(&["gpu-0"], false);
        world.fleet.apply(Told::Claim(claim("gpu-1")));
        assert_eq!(world.begin(Vec::new()), NONE);
        world.levels.end();
        world.node("node-1");
        assert_eq!(world.told(), NONE, "the next leader tells of it");
        assert_eq!(world.begin(Vec::new()), ["gpu-1 is gone"]);
    }
}
