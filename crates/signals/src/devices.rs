//! The devices of slices: which policies select them, their taints and attributes.

use alloc::{format, vec::Vec};

use lazaret_fleet::{Fleet, Origin};
use lazaret_lifecycle::{Input as CoreInput, Source};
use lazaret_model::{Device, DeviceId, NodeScope, ResourceSlice, Text, Timestamp};

use crate::{
    levels::Levels,
    news::SliceNews,
    policies::is_rule,
    tell::{Level, LevelsByKey, Tell, attributes, hardware, lowered, patched_attributes, patched_hardware},
    vanished::PUBLISHED_KEY,
};

/// A device and what it was before the change, and whether its signals are sent again.
#[derive(Clone, Copy)]
struct DeviceNews<'a> {
    device: &'a Device,
    old: Option<&'a Device>,
    is_all: bool,
}

impl Levels {
    pub(crate) fn settle_slice(
        &mut self,
        now: Timestamp,
        fleet: &Fleet,
        name: &Text,
        SliceNews { before, is_all, is_tainted }: SliceNews<'_>,
        told: &mut Vec<CoreInput>,
    ) {
        let Some(slice) = self.slices.get(name).cloned() else {
            let before =
                before.into_iter().flat_map(|before| before.devices.iter().map(move |one| (before, one)));
            for (slice, device) in before {
                self.unpublish(now, fleet, slice, device, told);
            }
            return;
        };
        let same_place =
            before.is_some_and(|before| before.nodes == slice.nodes && before.pool == slice.pool);
        for (at, device) in slice.devices.iter().enumerate() {
            let old = before.and_then(|before| device_at(before, at, &device.name));
            if same_place && old == Some(device) && !is_all && !is_tainted {
                continue;
            }
            self.settle_device(now, fleet, &slice, DeviceNews { device, old, is_all }, told);
        }
        for (at, old) in before.iter().flat_map(|before| before.devices.iter().enumerate()) {
            if device_at(&slice, at, &old.name).is_none() {
                self.unpublish(now, fleet, &slice, old, told);
            }
        }
    }

    fn settle_device(
        &mut self,
        now: Timestamp,
        fleet: &Fleet,
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
}

/// The device of this name, which is at the same place mostly.
fn device_at<'a>(slice: &'a ResourceSlice, at: usize, name: &Text) -> Option<&'a Device> {
    let here = slice.devices.get(at).filter(|device| device.name == *name);
    here.or_else(|| slice.devices.iter().find(|device| device.name == *name))
}
