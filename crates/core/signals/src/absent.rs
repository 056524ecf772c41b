//! Devices that vanished while no controller ran, before their policy came, or with their node, by what still names them: a claim that holds the device,
//! or its open incident. Of any other device nothing is left that says that it was there.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use lazaret_fleet::Fleet;
use lazaret_lifecycle::{Input as CoreInput, Lifecycle};
use lazaret_model::{DeviceId, LastPublished, Text, Timestamp};

use crate::{
    levels::Levels,
    news::Asked,
    tell::{Tell, hardware},
    vanished::{VANISHED_MAX, raise_vanished},
};

/// Whether a policy selects a device whatever is published of it.
fn selects_by_name(fleet: &Fleet, policy: &Text, device: &DeviceId) -> bool {
    let selector = fleet.rule(policy).and_then(|view| view.rule.selector.as_ref());
    selector.is_some_and(|selector| selector.by_names_only() && selector.names_match(device))
}

impl Levels {
    /// Tells of devices that are named and not published, though their node is there. A process that leads sees slices go; what it has to look for are
    /// devices that went before it led, before their policy came, or with their node.
    pub(crate) fn settle_absent(
        &mut self,
        now: Timestamp,
        fleet: &Fleet,
        lifecycle: &Lifecycle,
        asked: &Asked,
        told: &mut Vec<CoreInput>,
    ) {
        let mut absent: BTreeMap<DeviceId, Vec<Text>> = BTreeMap::new();
        for name in self.identities.keys() {
            for (id, _) in fleet.rule_selection(name).unpublished() {
                absent.entry(id).or_default().push(name.clone());
            }
        }
        for incident in lifecycle.incidents() {
            let known = incident.policies_known();
            let by_name = self
                .identities
                .keys()
                .filter(|name| known.contains(*name) || selects_by_name(fleet, name, &incident.device));
            let names = absent.entry(incident.device.clone()).or_default();
            names.extend(by_name.cloned());
            names.sort();
            names.dedup();
        }
        for (id, names) in absent {
            let is_vanished = self.vanished.contains_key(&id);
            let is_known = fleet.device(&id).is_some() || is_vanished && !asked.again;
            let is_new = |node: &Option<Text>| node.as_ref().is_some_and(|node| asked.nodes.contains(node));
            let is_asked = |node: &Option<Text>| !is_known && (asked.all || is_new(node));
            let Some(node) = self.node_of_absent(fleet, &id).filter(is_asked) else { continue };
            let incident = lifecycle.incident_of(&id);
            let has_incident = incident.is_some();
            let identity = self.identity(fleet, &id, &names);
            let is_renamed = identity.as_ref().is_some_and(|identity| self.is_published(&id, identity));
            let is_full = self.vanished.len() >= VANISHED_MAX && !is_vanished;
            if is_full || is_renamed && !has_incident {
                continue;
            }
            // An incident knows the hardware of its device, and policies that had a part in it.
            let hardware = match incident {
                Some(incident) => incident.hardware.clone(),
                None => identity.map(|(_, hardware)| hardware),
            };
            if !has_incident || !names.is_empty() {
                told.push(CoreInput::Device { id: id.clone(), hardware, policies: names });
            }
            if asked.again {
                self.vanished.entry(id).or_insert(node);
                continue;
            }
            let tell = Tell { now, id: &id };
            self.vanish(&tell, node.clone(), told);
            // A pool that was told of before is not told of again.
            self.settle_pool_of(&tell, node.as_ref(), told);
        }
    }

    /// Tells again of devices that are not published any more: a policy that has changed does not know.
    pub(crate) fn settle_vanished(&self, now: Timestamp, told: &mut Vec<CoreInput>) {
        for (id, node) in &self.vanished {
            let tell = Tell { now, id };
            raise_vanished(&tell, told);
            self.settle_pool_of(&tell, node.as_ref(), told);
        }
    }

    /// The node of a device that nobody publishes, if that is there: the one that its pool is named after, or else that of the pods that use it. `Some(None)`:
    /// these are on several nodes.
    pub(crate) fn node_of_absent(&self, fleet: &Fleet, id: &DeviceId) -> Option<Option<Text>> {
        if self.has_node(&id.pool) {
            return Some(Some(id.pool.clone()));
        }
        let pods = fleet.holders(id).flat_map(|claim| fleet.pods_of_claim(claim));
        let nodes = pods.filter_map(|pod| fleet.pod(pod)?.node.clone()).filter(|node| self.has_node(node));
        let nodes: BTreeSet<Text> = nodes.collect();
        let first = nodes.first()?;
        Some(Some(first.clone()).filter(|_| nodes.len() == 1))
    }

    /// Whether the hardware of a device is published under another name.
    fn is_published(&self, id: &DeviceId, (identity, wanted): &(Text, Text)) -> bool {
        let same_driver = self.slices.values().filter(|slice| slice.driver == id.driver);
        let mut devices = same_driver.flat_map(|slice| slice.devices.iter());
        devices.any(|device| hardware(device, &id.driver, identity).as_ref() == Some(wanted))
    }

    /// The identity of a device's hardware, which a new name does not change, as its claim remembers it: attribute and value.
    fn identity(&self, fleet: &Fleet, id: &DeviceId, policies: &[Text]) -> Option<(Text, Text)> {
        let identity = self.identity_of(policies)?;
        let mut remembered = fleet.holders(id).flat_map(|claim| fleet.last_published(claim));
        let is_it = |one: &LastPublished| {
            (&one.driver, &one.pool, &one.device.name) == (&id.driver, &id.pool, &id.device)
        };
        let last = remembered.find(is_it)?;
        let value = hardware(&last.device, &id.driver, identity)?;
        Some((identity.clone(), value))
    }
}
