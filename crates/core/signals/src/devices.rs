//! The devices of slices: which policies select them, their taints and attributes.

use alloc::{format, vec::Vec};

use lazaret_fleet::{Fleet, Origin};
use lazaret_lifecycle::{Input as CoreInput, PUBLISHED_KEY, Source};
use lazaret_model::{Device, DeviceId, NodeScope, ResourceSlice, Text};

use crate::{
    levels::Levels,
    news::{SliceNews, View},
    policies::is_rule,
    tell::{
        Level, LevelsByKey, Tell, attributes, hardware, id_of, lowered, patched_attributes, patched_hardware,
    },
    vanished::{forget, single},
};

/// A device and what it was before the change, and whether its signals are sent again.
#[derive(Clone, Copy)]
struct DeviceNews<'a> {
    device: &'a Device,
    old: Option<&'a Device>,
    /// The nodes of its slice before.
    old_nodes: Option<&'a NodeScope>,
    is_all: bool,
}

impl Levels {
    pub(crate) fn settle_slice(
        &mut self,
        View { now, fleet, lifecycle }: View<'_>,
        name: &Text,
        SliceNews { before, is_all, is_tainted }: SliceNews<'_>,
        told: &mut Vec<CoreInput>,
    ) {
        let slice = self.slices.get(name).cloned();
        // Another may have the name by now.
        let is_same = |before: &&ResourceSlice| {
            let pool = |slice: &ResourceSlice| slice.pool_id() == before.pool_id();
            slice.as_deref().is_some_and(pool)
        };
        if let Some(before) = before.filter(|before| !is_same(before)) {
            for device in &before.devices {
                self.presences.note_left(id_of(before, device));
                self.unpublish(now, fleet, before, device, told);
            }
        }
        let (Some(slice), before) = (&slice, before.filter(is_same)) else { return };
        let same_place =
            before.is_some_and(|before| before.nodes == slice.nodes && before.pool == slice.pool);
        let old_nodes = before.map(|before| &before.nodes);
        for (at, device) in slice.devices.iter().enumerate() {
            let old = before.and_then(|before| device_at(before, at, &device.name));
            if same_place && old == Some(device) && !is_all && !is_tainted {
                continue;
            }
            let news = DeviceNews { device, old, old_nodes, is_all };
            self.settle_device(View { now, fleet, lifecycle }, slice, news, told);
        }
        let Some(before) = before else { return };
        for (at, old) in before.devices.iter().enumerate() {
            if device_at(slice, at, &old.name).is_none() {
                self.presences.note_left(id_of(before, old));
                self.unpublish(now, fleet, before, old, told);
            }
        }
    }

    fn settle_device(
        &mut self,
        View { now, fleet, lifecycle }: View<'_>,
        slice: &ResourceSlice,
        DeviceNews { device, old, old_nodes, is_all }: DeviceNews<'_>,
        told: &mut Vec<CoreInput>,
    ) {
        let id = id_of(slice, device);
        if self.is_of_another_node(fleet, slice, &id) {
            return;
        }
        let (names, taints) = policies_and_taints(fleet, &id);
        if old.is_none() {
            self.presences.look_at(&id, lifecycle);
        }
        let tell = Tell { now, id: &id };
        let was_selected = lifecycle.is_selected(&id);
        if names.is_empty() {
            if self.vanished.remove(&id).is_some() || was_selected {
                self.lower_all(&tell, old.unwrap_or(device), old_nodes.unwrap_or(&slice.nodes), told);
                forget(id, told);
            }
            return;
        }
        let identity = self.identity_of(&names).cloned();
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
        let mut before = self.taints.remove(&id).unwrap_or_default();
        let is_new = old.is_none() || !was_selected;
        let is_all_told = is_all || is_new;
        if is_all_told {
            // All taints are sent again, and those that ended are sent once.
            before.retain(|key, _| !taints.contains_key(key));
        }
        tell.difference(&before, &taints, Source::Taint, told);
        if !taints.is_empty() {
            self.taints.insert(id.clone(), taints);
        }
        self.settle_attributes(&tell, fleet, (device, old, is_all_told), told);
        if is_all_told {
            self.settle_pool_of(&tell, slice.nodes.own_node(), told);
        }
        self.settle_conditions(&tell, &slice.nodes, (old_nodes, is_all_told), told);
        // The health of all devices is sent again by their pods.
        if is_new && !is_all {
            self.settle_health_of(&tell, told);
        }
    }

    /// Whether a device is that of another node, though the slice of a node lists it: a node writes slices in pools of any name.
    pub(crate) fn is_of_another_node(&self, fleet: &Fleet, slice: &ResourceSlice, id: &DeviceId) -> bool {
        let Some(node) = slice.nodes.own_node() else { return false };
        match fleet.device(id) {
            Some(found) => found.slice().nodes().own_node() != Some(node),
            None => self.vanished.get(id).and_then(Option::as_ref).is_some_and(|of| of != node),
        }
    }

    /// The conditions of its node, if they are sent again or if its slice has come to another.
    fn settle_conditions(
        &self,
        tell: &Tell<'_>,
        nodes: &NodeScope,
        (old_nodes, is_all): (Option<&NodeScope>, bool),
        told: &mut Vec<CoreInput>,
    ) {
        let moved = old_nodes.filter(|old| *old != nodes);
        if !is_all && moved.is_none() {
            return;
        }
        let now = single(nodes).and_then(|node| self.conditions.get(node)).cloned().unwrap_or_default();
        let mut before = moved.map(|old| self.told_conditions(old)).unwrap_or_default();
        if is_all {
            before.retain(|key, _| !now.contains_key(key));
        }
        tell.difference(&before, &now, Source::Node, told);
    }

    /// A device goes, or is selected no more: whatever was told of it by its slice and its node is over.
    pub(crate) fn lower_all(
        &mut self,
        tell: &Tell<'_>,
        device: &Device,
        nodes: &NodeScope,
        told: &mut Vec<CoreInput>,
    ) {
        let none = LevelsByKey::new();
        let taints = self.taints.remove(tell.id).unwrap_or_default();
        tell.difference(&taints, &none, Source::Taint, told);
        let attributes = self.patched.remove(tell.id).unwrap_or_else(|| attributes(device, &tell.id.driver));
        tell.difference(&attributes, &none, Source::Attribute, told);
        tell.difference(&self.told_conditions(nodes), &none, Source::Node, told);
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
}

/// The policies that select a device, and its taints but for those of rules.
fn policies_and_taints(fleet: &Fleet, id: &DeviceId) -> (Vec<Text>, LevelsByKey) {
    let mut names: Vec<Text> = Vec::new();
    let mut taints = LevelsByKey::new();
    for one in fleet.effective_taints(id) {
        // A taint that a patch sets replaces the taint of the driver.
        let message = match one.origin {
            // Rules of the cluster taint; health policies select.
            Origin::Rule { name, .. } if is_rule(name) => continue,
            Origin::Rule { name, .. } => {
                names.push(name.clone());
                continue;
            }
            Origin::Patch { name, .. } => format!("patch {name} says {}", one.taint),
            Origin::Device { .. } | Origin::TaintSlice { .. } => {
                format!("the driver reports {}", one.taint)
            }
        };
        let (value, at) = (one.taint.value.clone(), one.taint.time_added);
        taints.entry(one.taint.key.clone()).or_insert(Level { value, message: message.into(), at });
    }
    names.sort();
    (names, taints)
}

/// The device of this name, which is at the same place mostly.
fn device_at<'a>(slice: &'a ResourceSlice, at: usize, name: &Text) -> Option<&'a Device> {
    let here = slice.devices.get(at).filter(|device| device.name == *name);
    here.or_else(|| slice.devices.iter().find(|device| device.name == *name))
}
