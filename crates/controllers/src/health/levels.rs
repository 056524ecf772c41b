//! Signals that last: what slices, nodes and pods say of devices now, told to the machine when it changes.

pub(super) mod vanished;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use lazaret_api::HealthPolicy;
use lazaret_fleet::{Fleet, Origin};
use lazaret_lifecycle::{Input as CoreInput, Lifecycle, PoolWatch, Source};
use lazaret_model::{
    Device, DeviceHealth, DeviceId, NodeScope, ObjectKey, PoolId, ResourceSlice, Text, Timestamp,
};
use lazaret_runtime::Object;

use super::{
    pods,
    rules::is_rule,
    tell::{
        Level, LevelsByKey, Tell, attributes, hardware, lowered, patched_attributes, patched_hardware,
        severity,
    },
};
use crate::header::{Condition, Header};

/// The signal key of a device's health in a pod's status.
const HEALTH_KEY: &str = "health";
/// The signal key of a device that is not published any more.
const PUBLISHED_KEY: &str = "published";

/// The states of devices by slices, nodes and pods, from which signals are raised.
#[derive(Debug, Default)]
pub(super) struct Levels {
    pub(super) slices: BTreeMap<Text, Arc<ResourceSlice>>,
    /// Their names, by pool.
    pub(super) by_pool: BTreeMap<PoolId, BTreeSet<Text>>,
    pub(super) pools: PoolWatch,
    by_node: BTreeMap<Text, BTreeSet<Text>>,
    conditions: BTreeMap<Text, LevelsByKey>,
    /// Of devices that have some.
    taints: BTreeMap<DeviceId, LevelsByKey>,
    /// Attributes of devices that patches changed, as they were told.
    patched: BTreeMap<DeviceId, LevelsByKey>,
    pods: BTreeMap<ObjectKey, Vec<DeviceHealth>>,
    /// Of devices that pods say something of.
    health: BTreeMap<DeviceId, BTreeMap<ObjectKey, Level>>,
    /// The same by pod.
    devices_of: BTreeMap<ObjectKey, BTreeSet<DeviceId>>,
    /// Devices that are not published any more, with their node.
    pub(super) vanished: BTreeMap<DeviceId, Option<Text>>,
    /// Slices that changed, as they were.
    changed: BTreeMap<Text, Option<Arc<ResourceSlice>>>,
    /// Pools of which slices came, went or are of another generation.
    pub(super) changed_pools: BTreeSet<PoolId>,
    changed_nodes: BTreeMap<Text, LevelsByKey>,
    gone_nodes: BTreeSet<Text>,
    /// Nodes that came while this process leads.
    new_nodes: BTreeSet<Text>,
    changed_pods: BTreeSet<ObjectKey>,
    /// Everything has to be told again.
    is_all: bool,
    /// This process has just begun to lead, and knows the incidents of the leader before it.
    pub(super) begins: bool,
    leads: bool,
}

/// The slice before the change, and whether signals that did not change are sent again.
#[derive(Clone, Copy)]
struct SliceNews<'a> {
    before: Option<&'a ResourceSlice>,
    is_all: bool,
}

/// The same of one of its devices.
#[derive(Clone, Copy)]
struct DeviceNews<'a> {
    device: &'a Device,
    old: Option<&'a Device>,
    is_all: bool,
}

impl Levels {
    /// Policies, classes or patches changed: all signals are sent again.
    pub(super) fn tell_all(&mut self) {
        self.is_all = true;
    }

    /// The incidents of the leader before are known. Pools that they are about are signals at once, without the usual wait.
    pub(super) fn begin(&mut self) {
        (self.begins, self.leads) = (true, true);
    }

    /// Another process leads.
    pub(super) fn end(&mut self) {
        self.leads = false;
        self.new_nodes.clear();
    }

    pub(super) fn slice(&mut self, slice: &Arc<ResourceSlice>) {
        let before = self.slices.insert(slice.name.clone(), slice.clone());
        self.unlink(before.as_ref());
        let pool = slice.pool_id();
        if before.as_ref().is_none_or(|before| before.pool != slice.pool) {
            self.changed_pools.insert(pool.clone());
        }
        self.by_pool.entry(pool).or_default().insert(slice.name.clone());
        if let NodeScope::Node(node) = &slice.nodes {
            self.by_node.entry(node.clone()).or_default().insert(slice.name.clone());
        }
        self.note(&slice.name, before);
    }

    pub(super) fn slice_gone(&mut self, name: &Text) {
        let before = self.slices.remove(name);
        self.unlink(before.as_ref());
        self.changed_pools.extend(before.as_ref().map(|slice| slice.pool_id()));
        self.note(name, before);
    }

    fn unlink(&mut self, slice: Option<&Arc<ResourceSlice>>) {
        let Some(slice) = slice else { return };
        let pool = slice.pool_id();
        if let Some(names) = self.by_pool.get_mut(&pool) {
            names.remove(&slice.name);
            if names.is_empty() {
                self.by_pool.remove(&pool);
            }
        }
        if let NodeScope::Node(node) = &slice.nodes
            && let Some(names) = self.by_node.get_mut(node)
        {
            names.remove(&slice.name);
            if names.is_empty() {
                self.by_node.remove(node);
            }
        }
    }

    fn note(&mut self, name: &Text, before: Option<Arc<ResourceSlice>>) {
        // Taints in a slice of their own are about devices of other slices.
        let has_taints = |slice: &Arc<ResourceSlice>| !slice.taints.is_empty();
        let now = self.slices.get(name);
        let of_pool =
            now.filter(|slice| has_taints(slice)).or(before.as_ref().filter(|slice| has_taints(slice)));
        if let Some(pool) = of_pool.map(|slice| slice.pool_id()) {
            for other in self.by_pool.get(&pool).into_iter().flatten() {
                self.changed.entry(other.clone()).or_insert(None);
            }
        }
        self.changed.entry(name.clone()).or_insert(before);
    }

    pub(super) fn node(&mut self, object: &Object) {
        let name = &object.key.name;
        self.gone_nodes.remove(name);
        let Some(header) = Header::read(object.json()) else { return };
        let level = |one: &Condition| {
            let message = format!("node condition {} is {}: {}", one.kind, one.status, one.reason);
            (
                one.kind.as_str().into(),
                Level { value: one.status.as_str().into(), message: message.into(), at: None },
            )
        };
        let now: LevelsByKey = header.conditions().iter().map(level).collect();
        if self.leads && !self.conditions.contains_key(name) {
            self.new_nodes.insert(name.clone());
        }
        if self.conditions.get(name) != Some(&now) {
            let before = self.conditions.insert(name.clone(), now).unwrap_or_default();
            self.changed_nodes.entry(name.clone()).or_insert(before);
        }
    }

    pub(super) fn node_gone(&mut self, name: &Text) {
        let before = self.conditions.remove(name).unwrap_or_default();
        self.changed_nodes.entry(name.clone()).or_insert(before);
        self.gone_nodes.insert(name.clone());
        self.new_nodes.remove(name);
    }

    pub(super) fn pod(&mut self, key: &ObjectKey, health: Vec<DeviceHealth>) {
        if self.pods.get(key).map_or(&[][..], Vec::as_slice) == health.as_slice() {
            return;
        }
        if health.is_empty() {
            self.pods.remove(key);
        } else {
            self.pods.insert(key.clone(), health);
        }
        self.changed_pods.insert(key.clone());
    }

    /// The node of a device; `None` where it can be reached from several.
    pub(super) fn node_of(&self, fleet: &Fleet, device: &DeviceId) -> Result<Option<Text>, String> {
        let found = fleet.device(device).map(|found| found.slice().nodes().clone());
        match (found, self.vanished.get(device)) {
            (Some(NodeScope::Node(node)), _) => Ok(Some(node)),
            (Some(_), _) => Ok(None),
            (None, Some(node)) => Ok(node.clone()),
            // Devices of a node are mostly in a pool of its name.
            (None, None) if self.conditions.contains_key(&device.pool) => Ok(Some(device.pool.clone())),
            (None, None) => Err("the device is not published, and its node is not known".to_owned()),
        }
    }

    /// The inputs of the machine for all changes since the last call.
    pub(super) fn settle(
        &mut self,
        now: Timestamp,
        fleet: &Fleet,
        policies: &BTreeMap<Text, Arc<HealthPolicy>>,
        lifecycle: &Lifecycle,
    ) -> Vec<CoreInput> {
        let mut told = Vec::new();
        let over = self.see_pools(now);
        let is_all = core::mem::take(&mut self.is_all);
        let mut changed = core::mem::take(&mut self.changed);
        if is_all {
            for name in self.slices.keys() {
                changed.entry(name.clone()).or_insert(None);
            }
        }
        for (name, before) in changed {
            let news = SliceNews { before: before.as_deref(), is_all };
            self.settle_slice(now, (fleet, policies), &name, news, &mut told);
        }
        if is_all {
            self.settle_vanished(now, &mut told);
        }
        let new_nodes = core::mem::take(&mut self.new_nodes);
        if self.begins || !new_nodes.is_empty() {
            self.settle_absent(now, (fleet, policies), lifecycle, &new_nodes, &mut told);
        }
        self.settle_pools(now, lifecycle, &over, &mut told);
        for (node, before) in core::mem::take(&mut self.changed_nodes) {
            self.settle_node(now, &node, &before, &mut told);
        }
        for node in core::mem::take(&mut self.gone_nodes) {
            self.forget_vanished_of(&node, &mut told);
        }
        let pods = core::mem::take(&mut self.changed_pods);
        let pods: Vec<ObjectKey> =
            if is_all { self.pods.keys().cloned().collect() } else { pods.into_iter().collect() };
        for pod in pods {
            self.settle_pod(now, fleet, &pod, &mut told);
        }
        told
    }

    fn settle_slice(
        &mut self,
        now: Timestamp,
        (fleet, policies): (&Fleet, &BTreeMap<Text, Arc<HealthPolicy>>),
        name: &Text,
        SliceNews { before, is_all }: SliceNews<'_>,
        told: &mut Vec<CoreInput>,
    ) {
        let Some(slice) = self.slices.get(name).cloned() else {
            let before =
                before.into_iter().flat_map(|before| before.devices.iter().map(move |one| (before, one)));
            for (slice, device) in before {
                self.unpublish(now, (fleet, policies), slice, device, told);
            }
            return;
        };
        let same_place =
            before.is_some_and(|before| before.nodes == slice.nodes && before.pool == slice.pool);
        for (at, device) in slice.devices.iter().enumerate() {
            let old = before.and_then(|before| device_at(before, at, &device.name));
            if same_place && old == Some(device) && !is_all {
                continue;
            }
            self.settle_device(now, (fleet, policies), &slice, DeviceNews { device, old, is_all }, told);
        }
        for (at, old) in before.iter().flat_map(|before| before.devices.iter().enumerate()) {
            if device_at(&slice, at, &old.name).is_none() {
                self.unpublish(now, (fleet, policies), &slice, old, told);
            }
        }
    }

    fn settle_device(
        &mut self,
        now: Timestamp,
        (fleet, policies): (&Fleet, &BTreeMap<Text, Arc<HealthPolicy>>),
        slice: &ResourceSlice,
        DeviceNews { device, old, is_all }: DeviceNews<'_>,
        told: &mut Vec<CoreInput>,
    ) {
        let id = DeviceId {
            driver: slice.driver.clone(),
            pool: slice.pool.name.clone(),
            device: device.name.clone(),
        };
        let mut names: Vec<Text> = Vec::new();
        let mut taints = LevelsByKey::new();
        for one in fleet.effective_taints(&id) {
            match one.origin {
                // Rules of the cluster taint; health policies select.
                Origin::Rule { name, .. } if is_rule(name) => {}
                Origin::Rule { name, .. } => names.push(name.clone()),
                Origin::Device { .. } | Origin::TaintSlice { .. } | Origin::Patch { .. } => {
                    // A taint that a patch sets replaces the taint of the driver.
                    let message = match one.origin {
                        Origin::Patch { name, .. } => format!("patch {name} says {}", one.taint),
                        Origin::Device { .. } | Origin::TaintSlice { .. } | Origin::Rule { .. } => {
                            format!("the driver reports {}", one.taint)
                        }
                    };
                    let (value, at) = (one.taint.value.clone(), one.taint.time_added);
                    taints.entry(one.taint.key.clone()).or_insert(Level {
                        value,
                        message: message.into(),
                        at,
                    });
                }
            }
        }
        names.sort();
        if names.is_empty() {
            self.taints.remove(&id);
            self.patched.remove(&id);
            told.push(CoreInput::DeviceGone(id));
            return;
        }
        let identity = names.iter().find_map(|name| policies.get(name)).map(|policy| policy.identity.clone());
        let is_patched = fleet.patches().next().is_some();
        let hardware = identity.and_then(|identity| {
            if is_patched {
                patched_hardware(fleet, &id, &identity)
            } else {
                hardware(device, &slice.driver, &identity)
            }
        });
        told.push(CoreInput::Device { id: id.clone(), hardware, policies: names });
        if self.vanished.remove(&id).is_some() {
            told.push(lowered(&id, PUBLISHED_KEY.into(), Source::Vanished));
        }
        let tell = Tell { now, id: &id };
        let mut before = self.taints.remove(&id).unwrap_or_default();
        let is_all = is_all || old.is_none();
        if is_all {
            // All taints are sent again, and those that ended are sent once.
            before.retain(|key, _| !taints.contains_key(key));
        }
        tell.difference(&before, &taints, Source::Taint, told);
        if !taints.is_empty() {
            self.taints.insert(id.clone(), taints);
        }
        self.settle_attributes(&tell, fleet, (device, old, is_all), told);
        if is_all {
            self.settle_pool_of(&tell, told);
        }
        if let (true, NodeScope::Node(node)) = (is_all, &slice.nodes)
            && let Some(conditions) = self.conditions.get(node)
        {
            tell.difference(&LevelsByKey::new(), conditions, Source::Node, told);
        }
    }

    /// Attributes as patches leave them: those of the slice, where no patch means the device.
    fn settle_attributes(
        &mut self,
        tell: &Tell<'_>,
        fleet: &Fleet,
        (device, old, is_all): (&Device, Option<&Device>, bool),
        told: &mut Vec<CoreInput>,
    ) {
        let published = attributes(device, &tell.id.driver);
        let was_patched = self.patched.remove(tell.id);
        let is_patched = fleet.patches().next().is_some();
        let now = is_patched.then(|| patched_attributes(fleet, tell.id)).flatten();
        let now = now.unwrap_or_else(|| published.clone());
        let mut before = was_patched.unwrap_or_else(|| match old {
            Some(old) => attributes(old, &tell.id.driver),
            // Attributes that a patch removes were sent before the patch existed.
            None => published.clone(),
        });
        if is_all {
            before.retain(|key, _| !now.contains_key(key));
        }
        tell.difference(&before, &now, Source::Attribute, told);
        if now != published {
            self.patched.insert(tell.id.clone(), now);
        }
    }

    fn settle_node(&self, now: Timestamp, node: &Text, before: &LevelsByKey, told: &mut Vec<CoreInput>) {
        let none = LevelsByKey::new();
        let current = self.conditions.get(node).unwrap_or(&none);
        let slices = self.by_node.get(node).into_iter().flatten().filter_map(|name| self.slices.get(name));
        for slice in slices {
            for device in &slice.devices {
                let id = DeviceId {
                    driver: slice.driver.clone(),
                    pool: slice.pool.name.clone(),
                    device: device.name.clone(),
                };
                Tell { now, id: &id }.difference(before, current, Source::Node, told);
            }
        }
    }

    fn settle_pod(&mut self, now: Timestamp, fleet: &Fleet, pod: &ObjectKey, told: &mut Vec<CoreInput>) {
        let mut said: BTreeMap<DeviceId, Level> = BTreeMap::new();
        for one in self.pods.get(pod).into_iter().flatten() {
            let Some(device) = pods::device(one, &pod.namespace, fleet) else { continue };
            let message = if one.message.is_empty() {
                format!("pod {pod} reports {}", one.health)
            } else {
                format!("pod {pod} reports {}: {}", one.health, one.message)
            };
            said.insert(device, Level { value: one.health.clone(), message: message.into(), at: None });
        }
        let devices: BTreeSet<DeviceId> = said.keys().cloned().collect();
        let mut touched = devices.clone();
        let before = match devices.is_empty() {
            true => self.devices_of.remove(pod),
            false => self.devices_of.insert(pod.clone(), devices),
        };
        touched.extend(before.into_iter().flatten());
        for id in touched {
            let pods = self.health.entry(id.clone()).or_default();
            match said.remove(&id) {
                Some(level) => drop(pods.insert(pod.clone(), level)),
                None => drop(pods.remove(pod)),
            }
            match pods.values().max_by_key(|level| severity(&level.value)) {
                Some(worst) => Tell { now, id: &id }.raise(HEALTH_KEY.into(), worst, Source::Health, told),
                None => {
                    self.health.remove(&id);
                    told.push(lowered(&id, HEALTH_KEY.into(), Source::Health));
                }
            }
        }
    }
}

/// The device of this name, which is at the same place mostly.
fn device_at<'a>(slice: &'a ResourceSlice, at: usize, name: &Text) -> Option<&'a Device> {
    let here = slice.devices.get(at).filter(|device| device.name == *name);
    here.or_else(|| slice.devices.iter().find(|device| device.name == *name))
}
