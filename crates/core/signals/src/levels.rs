//! Signals that last: what slices, nodes and pods say of devices now, told to the machine when it changes.

use alloc::{
    borrow::ToOwned,
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    sync::Arc,
    vec::Vec,
};

use lazaret_fleet::Fleet;
use lazaret_lifecycle::{Input as CoreInput, Lifecycle, PoolWatch, Source};
use lazaret_model::{DeviceHealth, DeviceId, NodeScope, ObjectKey, PoolId, ResourceSlice, Text, Timestamp};

use crate::{
    news::{Asked, SliceNews, View},
    policies::is_selected,
    presence::Presences,
    tell::{Level, LevelsByKey, Tell, id_of},
    vanished::single,
};

/// The states of devices by slices, nodes and pods, from which signals are raised.
#[derive(Debug, Default)]
pub struct Levels {
    /// The attribute that identifies hardware, by policy.
    pub(crate) identities: BTreeMap<Text, Text>,
    pub(crate) slices: BTreeMap<Text, Arc<ResourceSlice>>,
    /// Their names, by pool.
    pub(crate) by_pool: BTreeMap<PoolId, BTreeSet<Text>>,
    pub(crate) pools: PoolWatch,
    by_node: BTreeMap<Text, BTreeSet<Text>>,
    pub(crate) conditions: BTreeMap<Text, LevelsByKey>,
    /// Of devices that have some.
    pub(crate) taints: BTreeMap<DeviceId, LevelsByKey>,
    /// Attributes of devices that patches changed, as they were told.
    pub(crate) patched: BTreeMap<DeviceId, LevelsByKey>,
    pub(crate) pods: BTreeMap<ObjectKey, Vec<DeviceHealth>>,
    /// Of devices that pods say something of.
    pub(crate) health: BTreeMap<DeviceId, BTreeMap<ObjectKey, Level>>,
    /// The same by pod.
    pub(crate) devices_of: BTreeMap<ObjectKey, BTreeSet<DeviceId>>,
    /// Devices that are not published any more, with their node.
    pub(crate) vanished: BTreeMap<DeviceId, Option<Text>>,
    /// Slices that changed, as they were.
    changed: BTreeMap<Text, Option<Arc<ResourceSlice>>>,
    /// Pools whose devices may have other taints, which a slice of its own has.
    tainted: BTreeSet<PoolId>,
    /// Pools of which slices came, went or are of another generation.
    pub(crate) changed_pools: BTreeSet<PoolId>,
    changed_nodes: BTreeMap<Text, LevelsByKey>,
    gone_nodes: BTreeSet<Text>,
    /// Nodes that came while this process leads.
    new_nodes: BTreeSet<Text>,
    pub(crate) changed_pods: BTreeSet<ObjectKey>,
    /// Pods that say something of devices that are not known to be theirs: their claims may not have been heard of.
    pub(crate) unclear_pods: BTreeSet<ObjectKey>,
    /// Whether the devices of open incidents exist.
    pub(crate) presences: Presences,
    /// Everything has to be told again.
    is_all: bool,
    /// This process has just begun to lead, and knows the incidents of the leader before it.
    pub(crate) begins: bool,
    pub(crate) leads: bool,
}

/// A condition of a node.
#[derive(Clone, Copy, Debug)]
pub struct Condition<'a> {
    /// Its type.
    pub kind: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// One word.
    pub reason: &'a str,
}

impl Levels {
    /// A policy selects devices, of which this attribute identifies the hardware.
    pub fn policy(&mut self, name: Text, identity: Text) {
        self.identities.insert(name, identity);
        self.is_all = true;
    }

    /// A policy is gone, or selects nothing any more.
    pub fn policy_gone(&mut self, name: &Text) {
        self.identities.remove(name);
        self.is_all = true;
    }

    /// Classes or patches changed: all signals are sent again.
    pub fn tell_all(&mut self) {
        self.is_all = true;
    }

    /// The incidents of the leader before are known. Pools that they are about are signals at once, without the usual wait.
    pub fn begin(&mut self) {
        (self.begins, self.leads) = (true, true);
        self.presences.begin();
    }

    /// Another process leads.
    pub fn end(&mut self) {
        self.leads = false;
        self.new_nodes.clear();
    }

    /// A slice is there, or has changed.
    pub fn slice(&mut self, slice: &Arc<ResourceSlice>) {
        let before = self.slices.insert(slice.name.clone(), slice.clone());
        self.unlink(before.as_ref());
        let pool = slice.pool_id();
        if before.as_ref().is_none_or(|before| before.pool != slice.pool || before.nodes != slice.nodes) {
            self.changed_pools.insert(pool.clone());
        }
        self.by_pool.entry(pool).or_default().insert(slice.name.clone());
        if let NodeScope::Node(node) = &slice.nodes {
            self.by_node.entry(node.clone()).or_default().insert(slice.name.clone());
        }
        self.note(&slice.name, before);
    }

    /// A slice is gone.
    pub fn slice_gone(&mut self, name: &Text) {
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
        // Taints in a slice of their own are about devices of other slices, some of which may come later.
        let both = self.slices.get(name).into_iter().chain(&before);
        self.tainted.extend(both.filter(|slice| !slice.taints.is_empty()).map(|slice| slice.pool_id()));
        self.changed.entry(name.clone()).or_insert(before);
    }

    /// A node is there, or has changed.
    pub fn node<'a>(&mut self, name: &Text, conditions: impl Iterator<Item = Condition<'a>>) {
        self.gone_nodes.remove(name);
        let level = |one: Condition<'_>| {
            let message = format!("node condition {} is {}: {}", one.kind, one.status, one.reason);
            (one.kind.into(), Level { value: one.status.into(), message: message.into(), at: None })
        };
        let now: LevelsByKey = conditions.map(level).collect();
        if !self.conditions.contains_key(name) {
            self.presences.look_at_all();
            if self.leads {
                self.new_nodes.insert(name.clone());
            }
        }
        if self.conditions.get(name) != Some(&now) {
            let before = self.conditions.insert(name.clone(), now).unwrap_or_default();
            self.changed_nodes.entry(name.clone()).or_insert(before);
        }
    }

    /// A node is gone.
    pub fn node_gone(&mut self, name: &Text) {
        let before = self.conditions.remove(name).unwrap_or_default();
        self.changed_nodes.entry(name.clone()).or_insert(before);
        self.gone_nodes.insert(name.clone());
        self.presences.look_at_all();
        self.new_nodes.remove(name);
    }

    /// The health of devices as the status of a pod has it; nothing if the pod is gone.
    pub fn pod(&mut self, key: &ObjectKey, health: Vec<DeviceHealth>) {
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
    ///
    /// # Errors
    /// The node is not known.
    pub fn node_of(&self, fleet: &Fleet, device: &DeviceId) -> Result<Option<Text>, String> {
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
    pub fn settle(&mut self, now: Timestamp, fleet: &Fleet, lifecycle: &Lifecycle) -> Vec<CoreInput> {
        let mut told = Vec::new();
        let over = self.see_pools(now);
        let is_all = core::mem::take(&mut self.is_all);
        let mut changed = core::mem::take(&mut self.changed);
        if is_all {
            for name in self.slices.keys() {
                changed.entry(name.clone()).or_insert(None);
            }
        }
        let tainted = core::mem::take(&mut self.tainted);
        let tainted = tainted.iter().filter_map(|pool| self.by_pool.get(pool));
        let tainted: BTreeSet<Text> = tainted.flatten().cloned().collect();
        for name in &tainted {
            changed.entry(name.clone()).or_insert_with(|| self.slices.get(name).cloned());
        }
        for (name, before) in changed {
            let news = SliceNews { before: before.as_deref(), is_all, is_tainted: tainted.contains(&name) };
            self.settle_slice(View { now, fleet, lifecycle }, &name, news, &mut told);
        }
        let again = is_all || self.begins;
        let all = self.begins || is_all && self.leads;
        let asked = Asked { all, again, nodes: core::mem::take(&mut self.new_nodes) };
        if asked.all || !asked.nodes.is_empty() {
            self.settle_absent(now, fleet, lifecycle, &asked, &mut told);
        }
        if again {
            self.settle_vanished(now, &mut told);
        }
        self.settle_pools(now, lifecycle, &over, &mut told);
        for (node, before) in core::mem::take(&mut self.changed_nodes) {
            self.settle_node(now, fleet, (&node, &before), &mut told);
        }
        for node in core::mem::take(&mut self.gone_nodes) {
            self.forget_vanished_of(&node, &mut told);
        }
        self.settle_pods(now, fleet, is_all, &mut told);
        self.with_presence(fleet, lifecycle, told)
    }

    /// The attribute that identifies the hardware of a device that these policies select.
    pub(crate) fn identity_of(&self, policies: &[Text]) -> Option<&Text> {
        policies.iter().find_map(|name| self.identities.get(name))
    }

    /// The conditions of the node that devices of a slice on these nodes were told of.
    pub(crate) fn told_conditions(&self, nodes: &NodeScope) -> LevelsByKey {
        let told = single(nodes).and_then(|node| self.changed_nodes.get(node).or(self.conditions.get(node)));
        told.cloned().unwrap_or_default()
    }

    fn settle_node(
        &self,
        now: Timestamp,
        fleet: &Fleet,
        (node, before): (&Text, &LevelsByKey),
        told: &mut Vec<CoreInput>,
    ) {
        let none = LevelsByKey::new();
        let current = self.conditions.get(node).unwrap_or(&none);
        let slices = self.by_node.get(node).into_iter().flatten().filter_map(|name| self.slices.get(name));
        for slice in slices {
            for device in &slice.devices {
                let id = id_of(slice, device);
                if is_selected(fleet, &id) && !self.is_of_another_node(fleet, slice, &id) {
                    Tell { now, id: &id }.difference(before, current, Source::Node, told);
                }
            }
        }
    }
}
