//! Devices that no claim holds any more and that a node may still have prepared: they are not allocated before the node has unprepared them.
//!
//! The claim controller writes into the Node which claims it waits for. In the fleet each is a claim of its own, in a namespace that no
//! real claim can have.

use alloc::{format, sync::Arc, vec::Vec};

use lazaret_fleet as fleet;
use lazaret_model::{
    Allocation, Awaited, Consumer, DeviceId, DeviceResult, ObjectKey, POD_GROUP_API, ResourceClaim, Text, Uid,
};

use crate::{
    Claim, Node,
    causes::Cause,
    state::{Scheduler, TimerKey, UnlistedHold},
};

/// How long the devices of a claim that was removed while its pod runs, or of a group's claim that was released, are kept, until the claim
/// controller has written that it waits for them. It takes some milliseconds.
const UNLISTED_MS: i64 = 10_000;

impl Scheduler {
    /// A node is asked about other claims than before, or about other devices of a claim.
    pub(crate) fn hold_awaited(&mut self, node: &Text, old: &[Awaited], new: &[Awaited]) {
        for one in new {
            let known = old.iter().find(|known| known.uid == one.uid);
            if known.is_some_and(|known| known.devices == one.devices) {
                continue;
            }
            self.keep(listed(node, &one.uid), Arc::new(whole(&one.devices)));
            if known.is_some() {
                self.happened(Cause::Devices);
            }
            let place = (node.clone(), one.uid.clone());
            if self.unlisted.get(&place).is_some_and(|hold| covers(one, &hold.allocation)) {
                self.release_unlisted(&place);
            }
        }
        for one in old {
            if !new.iter().any(|left| left.uid == one.uid) {
                self.release_hold(listed(node, &one.uid));
            }
        }
    }

    /// A claim is gone. If it was removed by hand while its pod runs, the devices are still in use.
    pub(crate) fn keep_from_others(&mut self, claim: &Claim) {
        let Some(allocation) = claim.claim.allocation.as_ref().filter(|_| self.nodes_report) else { return };
        let mut nodes: Vec<Text> = Vec::new();
        for user in &claim.claim.reserved_for {
            let key = ObjectKey { namespace: claim.claim.key.namespace.clone(), name: user.name.clone() };
            let entry = self.pod_keys.get(&key).and_then(|ix| self.pods.get(*ix));
            let Some(pod) = entry.map(|entry| &entry.pod).filter(|pod| pod.uid == user.uid) else { continue };
            let node = pod.node.as_ref().filter(|_| !pod.phase.is_finished());
            nodes.extend(node.filter(|name| self.node_named(name).is_some_and(|node| node.reports)).cloned());
        }
        for node in nodes {
            self.keep_until_listed(node, claim, allocation.clone());
        }
    }

    /// The devices of a claim were given back. Those of a group's claim may still be prepared for a pod of the group that was removed by force:
    /// the reservation names the group, not its pods. The claim controller asks the node.
    pub(crate) fn keep_of_group(&mut self, claim: &Claim) {
        let Some(allocation) = claim.claim.allocation.as_ref().filter(|_| self.nodes_report) else { return };
        let is_group = |user: &Consumer| user.api_group == POD_GROUP_API && user.resource == "podgroups";
        let is_shared = claim.claim.reserved_for.iter().any(is_group);
        let reports = |name: &&Text| self.node_named(name).is_some_and(|node| node.reports);
        if let Some(node) = allocation.only_node().filter(|_| is_shared).filter(reports).cloned() {
            self.keep_until_listed(node, claim, allocation.clone());
        }
    }

    /// The list may name other devices of the claim, which it had before or got since: both are kept.
    fn keep_until_listed(&mut self, node: Text, claim: &Claim, allocation: Arc<Allocation>) {
        let uid = &claim.claim.uid;
        let is_listed = |one: &Awaited| one.uid == *uid && covers(one, &allocation);
        if self.node_named(&node).is_some_and(|node| node.awaiting.iter().any(is_listed)) {
            return;
        }
        let until = self.now.plus_millis(UNLISTED_MS);
        self.keep(unlisted(&node, uid), allocation.clone());
        self.unlisted.insert((node.clone(), uid.clone()), UnlistedHold { until, allocation });
        self.set_timer(until, TimerKey::Hold(node, uid.clone()));
    }

    /// A claim that the claim controller does not list by now is not waited for.
    pub(crate) fn release_unlisted_hold(&mut self, node: Text, claim: Uid) {
        let place = (node, claim);
        if self.unlisted.get(&place).is_some_and(|hold| hold.until <= self.now) {
            self.release_unlisted(&place);
        }
    }

    fn release_unlisted(&mut self, place: &(Text, Uid)) {
        self.unlisted.remove(place);
        self.release_hold(unlisted(&place.0, &place.1));
    }

    fn node_named(&self, name: &Text) -> Option<&Arc<Node>> {
        self.nodes.find(name).and_then(|ix| self.nodes.get(ix)?.node.as_ref())
    }

    fn keep(&mut self, key: ObjectKey, allocation: Arc<Allocation>) {
        let held = ResourceClaim {
            uid: key.name.clone(),
            key,
            allocation: Some(allocation),
            ..ResourceClaim::default()
        };
        self.fleet.apply(fleet::Input::Claim(Arc::new(held)));
        self.fleet.take_changes();
    }

    fn release_hold(&mut self, key: ObjectKey) {
        let revision = self.fleet.revision();
        self.fleet.apply(fleet::Input::ClaimGone(key));
        self.fleet.take_changes();
        if self.fleet.revision() != revision {
            self.happened(Cause::Devices);
        }
    }
}

/// The devices of a claim that a node is asked about. No namespace has a slash in its name.
fn listed(node: &Text, claim: &Uid) -> ObjectKey {
    ObjectKey::new(format!("node/{node}"), claim.clone())
}

/// The devices of a claim about which it is to be asked.
fn unlisted(node: &Text, claim: &Uid) -> ObjectKey {
    ObjectKey::new(format!("unlisted/{node}"), claim.clone())
}

/// Whether a question is about all devices of an allocation.
fn covers(asked: &Awaited, allocation: &Allocation) -> bool {
    allocation.results.iter().all(|result| asked.devices.contains(&result.device))
}

fn whole(devices: &[DeviceId]) -> Allocation {
    let result = |device: &DeviceId| DeviceResult {
        request: Text::default(),
        device: device.clone(),
        admin_access: false,
        tolerations: Vec::new(),
        binding_conditions: Vec::new(),
        binding_failure_conditions: Vec::new(),
        share_id: None,
        consumed_capacity: Vec::new(),
        skip_node_operations: Vec::new(),
    };
    Allocation { results: devices.iter().map(result).collect(), ..Allocation::default() }
}
