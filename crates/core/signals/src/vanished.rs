//! Devices that are not published any more.

use alloc::{collections::BTreeSet, vec::Vec};

use lazaret_fleet::Fleet;
use lazaret_lifecycle::{Input as CoreInput, PUBLISHED_KEY, Source};
use lazaret_model::{Device, DeviceId, NodeScope, ResourceSlice, Text, Timestamp};

use crate::{
    levels::Levels,
    pools::POOL_COMPLETE_KEY,
    tell::{Level, Tell, hardware, id_of, lowered},
};

/// Devices that are known although nobody publishes them. Of more the first is forgotten.
pub const VANISHED_MAX: usize = 10_000;

impl Levels {
    /// A device is not in its slice any more. Where its node is gone as well, that is no trouble of the device.
    pub(crate) fn unpublish(
        &mut self,
        now: Timestamp,
        fleet: &Fleet,
        slice: &ResourceSlice,
        device: &Device,
        told: &mut Vec<CoreInput>,
    ) {
        let id = id_of(slice, device);
        if fleet.device(&id).is_some() || self.is_of_another_node(fleet, slice, &id) {
            return;
        }
        let tell = Tell { now, id: &id };
        self.lower_all(&tell, device, &slice.nodes, told);
        let node = single(&slice.nodes).cloned();
        let is_node_gone = node.as_ref().is_some_and(|node| !self.conditions.contains_key(node));
        if is_node_gone || self.is_renamed(slice, device) {
            return go(id, told);
        }
        if self.vanished.len() >= VANISHED_MAX
            && let Some((first, _)) = self.vanished.pop_first()
        {
            forget(first, told);
        }
        self.vanish(&tell, node, told);
    }

    /// A device is not published, though its node is there.
    pub(crate) fn vanish(&mut self, tell: &Tell<'_>, node: Option<Text>, told: &mut Vec<CoreInput>) {
        raise_vanished(tell, told);
        self.vanished.insert(tell.id.clone(), node);
    }

    /// Whether a device is not published any more, though its node is there.
    #[must_use]
    pub fn is_vanished(&self, device: &DeviceId) -> bool {
        self.vanished.contains_key(device)
    }

    /// Whether a node is there.
    pub(crate) fn has_node(&self, name: &Text) -> bool {
        self.conditions.contains_key(name)
    }

    /// Whether the same hardware is published under another name, on the same node or in the same pool.
    fn is_renamed(&self, slice: &ResourceSlice, device: &Device) -> bool {
        let identities: BTreeSet<&Text> = self.identities.values().collect();
        let same_place = |other: &ResourceSlice| {
            other.driver == slice.driver
                && match &other.nodes {
                    NodeScope::Node(_) => other.nodes == slice.nodes,
                    NodeScope::Selector(_) | NodeScope::All | NodeScope::PerDevice | NodeScope::Unknown => {
                        other.pool.name == slice.pool.name
                    }
                }
        };
        let others =
            || self.slices.values().filter(|other| same_place(other)).flat_map(|other| &other.devices);
        identities.into_iter().any(|identity| {
            hardware(device, &slice.driver, identity).is_some_and(|id| {
                others().any(|other| hardware(other, &slice.driver, identity).as_ref() == Some(&id))
            })
        })
    }

    pub(crate) fn forget_vanished_of(&mut self, node: &Text, told: &mut Vec<CoreInput>) {
        let theirs = |(_, of): &(&DeviceId, &Option<Text>)| of.as_ref() == Some(node);
        let gone: Vec<DeviceId> = self.vanished.iter().filter(theirs).map(|(id, _)| id.clone()).collect();
        for id in gone {
            self.vanished.remove(&id);
            forget(id, told);
        }
    }
}

/// The node, if it is one.
pub(crate) fn single(nodes: &NodeScope) -> Option<&Text> {
    match nodes {
        NodeScope::Node(node) => Some(node),
        NodeScope::Selector(_) | NodeScope::All | NodeScope::PerDevice | NodeScope::Unknown => None,
    }
}

/// The signal of a device that is not published any more.
pub(crate) fn raise_vanished(tell: &Tell<'_>, told: &mut Vec<CoreInput>) {
    let message = "the driver does not publish it any more".into();
    let level = Level { value: "False".into(), message, at: None };
    tell.raise(PUBLISHED_KEY.into(), &level, Source::Vanished, told);
}

/// A device that was missed goes, or is not remembered any more.
pub(crate) fn forget(id: DeviceId, told: &mut Vec<CoreInput>) {
    told.push(lowered(&id, PUBLISHED_KEY.into(), Source::Vanished));
    go(id, told);
}

/// A device goes. Its pool may go at the same time, or does not know it any more when it is complete.
fn go(id: DeviceId, told: &mut Vec<CoreInput>) {
    told.push(lowered(&id, POOL_COMPLETE_KEY.into(), Source::Vanished));
    told.push(CoreInput::DeviceGone(id));
}
