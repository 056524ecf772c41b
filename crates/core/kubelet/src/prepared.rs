//! Preparing and unpreparing the claims of pods. A device is prepared for one claim at a time, whatever the control plane says.

use alloc::{collections::BTreeSet, format, string::String, sync::Arc, vec::Vec};

use lazaret_model::{DeviceId, ObjectKey, Pod, PodClaim, ResourceClaim, Timestamp, Uid};

use crate::{
    checkpoint::{HeldDevice, NotedClaim},
    claims::{Lack, Wait},
    held::{Prepared, Taken, held, taken_by},
    machine::{Item, Kubelet},
    pod::SeenPod,
    pods::PodSlot,
};

impl Kubelet {
    /// The claims that are prepared on a node, with the devices that each has for itself.
    pub fn prepared_on(&self, node: usize) -> impl Iterator<Item = (&Uid, Vec<DeviceId>)> {
        let whole = |one: &Prepared| {
            let whole = one.noted.held.iter().filter(|held| held.share.is_none());
            whole.map(|held| held.device.clone()).collect()
        };
        self.prepared.on(node).map(move |(claim, one)| (claim, whole(one)))
    }

    /// Whether a claim is prepared on a node.
    #[must_use]
    pub fn has_prepared(&self, node: usize, claim: &Uid) -> bool {
        self.prepared.has(node, claim)
    }

    /// The claims of the pods of a node.
    pub(crate) fn claims_on(&self, node: usize) -> BTreeSet<Uid> {
        let pods = self.pods.values().filter(|slot| slot.node == node);
        let keys = pods.flat_map(|slot| claims_of(&slot.seen.pod));
        keys.filter_map(|key| self.claims.get(&key)).map(|claim| claim.uid.clone()).collect()
    }

    /// Why a pod cannot have a claim that it was given: its node has no Node, is asked about it, or said that nothing is prepared for it. Others rely on
    /// that.
    pub(crate) fn lack_of_word(&self, node: usize, pod: &Pod) -> Option<Lack> {
        if !self.is_registered(node) {
            let key = claims_of(pod).next()?;
            let why = format!("claim {} waits until the Node is registered", key.name);
            return Some(Lack { wait: Wait::Node, why });
        }
        let is_awaited =
            |key: &ObjectKey| self.claims.get(key).is_some_and(|claim| self.is_awaited(node, &claim.uid));
        let key = claims_of(pod).find(is_awaited)?;
        let why = format!("claim {} is waited for after another pod was removed before it ended", key.name);
        Some(Lack { wait: Wait::Node, why })
    }

    /// A device that a pod was given and that is prepared for another claim.
    fn taken(&self, node: usize, pod: &Pod) -> Option<(ObjectKey, Taken)> {
        let mut own: Vec<&ResourceClaim> = Vec::new();
        claims_of(pod).find_map(|key| {
            let claim = self.claims.get(&key)?;
            let taken = self.prepared.is_taken(node, claim).or_else(|| taken_by(&own, claim));
            own.push(claim);
            Some((key, taken?))
        })
    }

    /// Why a pod cannot have a device that it was given: another claim has it.
    pub(crate) fn lack_of_device(&self, node: usize, pod: &Pod) -> Option<Lack> {
        let (_, Taken { device, key, .. }) = self.taken(node, pod)?;
        let why = format!("device {device} is still prepared for claim {key}");
        Some(Lack { wait: Wait::Claim(key), why })
    }

    /// Messages for the pods that have the device which this pod waits for.
    pub(crate) fn told_to_holders(&self, node: usize, pod: &Pod) -> Vec<(Arc<SeenPod>, String)> {
        let Some((wanted, Taken { device, claim, key })) = self.taken(node, pod) else { return Vec::new() };
        let message = format!(
            "device {device} is prepared for claim {key} of this pod, and was also allocated to claim {wanted} of pod {}, which waits until it is unprepared",
            pod.key
        );
        let users = self.prepared.claims.get(&(node, claim)).map(|one| &one.noted.pods);
        let slots = self.pods.values().filter(|slot| slot.node == node);
        let holders = slots.filter(|slot| users.is_some_and(|users| users.contains(&slot.seen.pod.uid)));
        holders.map(|slot| (Arc::clone(&slot.seen), message.clone())).collect()
    }

    /// Prepares the claims of a pod that starts, or that runs since before this process.
    pub(crate) fn prepare(&mut self, pod: &ObjectKey) {
        let Some(slot) = self.pods.get(pod) else { return };
        let (node, uid, stop_ms) = (slot.node, slot.seen.pod.uid.clone(), slot.seen.stop_ms());
        let seen = Arc::clone(&slot.seen);
        for key in claims_of(&seen.pod) {
            let Some(claim) = self.claims.get(&key).filter(|claim| claim.allocation.is_some()) else {
                continue;
            };
            if !self.is_registered(node) || self.is_awaited(node, &claim.uid) {
                self.waiting_for_node.entry(node).or_default().insert(pod.clone());
                continue;
            }
            if !self.prepared.has(node, &claim.uid) {
                let held: Vec<HeldDevice> = held(claim).collect();
                self.prepared.hold(node, &claim.uid, &held);
                let noted = NotedClaim { key, pods: BTreeSet::new(), held, stop_ms };
                let prepared = Prepared { noted, revision: 0, unused_since: None };
                self.prepared.claims.insert((node, claim.uid.clone()), prepared);
            }
            let Some(prepared) = self.prepared.claims.get_mut(&(node, claim.uid.clone())) else { continue };
            prepared.unused_since = None;
            if prepared.noted.pods.insert(uid.clone()) {
                prepared.revision = self.nodes[node].notes.change();
                self.touch(Item::Node(node));
            }
        }
    }

    /// A claim was allocated anew: its pods were started by news that were behind, or its allocation was removed by hand. Nothing keeps its former devices.
    pub(crate) fn prepare_anew(&mut self, claim: &ResourceClaim) {
        if claim.allocation.is_none() {
            return;
        }
        for user in &claim.reserved_for {
            let pod = ObjectKey { namespace: claim.key.namespace.clone(), name: user.name.clone() };
            if let Some(slot) = self.pods.get(&pod) {
                let node = slot.node;
                let revision = self.nodes[node].notes.change();
                self.prepared.move_to(node, claim, revision);
                self.touch(Item::Node(node));
            }
        }
    }

    /// Unprepares what only a pod used whose containers have stopped. Whether it used anything.
    pub(crate) fn unprepare_for(&mut self, node: usize, pod: &Uid) -> bool {
        let used = self.prepared.used_by(node, pod);
        let has_used = !used.is_empty();
        for claim in used {
            let Some(prepared) = self.prepared.claims.get_mut(&(node, claim.clone())) else { continue };
            prepared.noted.pods.remove(pod);
            if prepared.noted.pods.is_empty() {
                self.unprepare(node, &claim);
            }
        }
        has_used
    }

    /// The object of a pod is gone. Where it had ended, nothing is left to do.
    pub(crate) fn forget_user(&mut self, slot: &PodSlot) {
        for claim in self.prepared.used_by(slot.node, &slot.seen.pod.uid) {
            let Some(prepared) = self.prepared.claims.get_mut(&(slot.node, claim.clone())) else { continue };
            prepared.noted.pods.remove(&slot.seen.pod.uid);
            if prepared.noted.pods.is_empty() {
                self.touch(Item::Unprepare(slot.node, claim));
            }
        }
    }

    /// Unprepares a claim that no pod uses any more, once the containers have stopped and the driver has had its time.
    pub(crate) fn look_at_unused(&mut self, now: Timestamp, node: usize, claim: &Uid) {
        let delay = self.unprepare_ms(node);
        let prepared = self.prepared.claims.get_mut(&(node, claim.clone()));
        let Some(prepared) = prepared.filter(|prepared| prepared.noted.pods.is_empty()) else { return };
        let since = *prepared.unused_since.get_or_insert(now);
        let at = since.plus_millis(prepared.noted.stop_ms).plus_millis(delay);
        if now < at {
            self.agenda.later(at, Item::Unprepare(node, claim.clone()));
        } else {
            self.unprepare(node, claim);
        }
    }

    /// How long the driver of a node takes to unprepare.
    pub(crate) fn unprepare_ms(&self, node: usize) -> i64 {
        self.nodes[node].unprepare_after_ms()
    }

    /// Looks at all claims that no pod uses any more.
    pub(crate) fn touch_unused(&mut self) {
        let unused = self.prepared.claims.iter().filter(|(_, one)| one.noted.pods.is_empty());
        let unused: Vec<(usize, Uid)> = unused.map(|(key, _)| key.clone()).collect();
        unused.into_iter().for_each(|(node, claim)| self.touch(Item::Unprepare(node, claim)));
    }

    /// How fast a node unprepares has changed.
    pub(crate) fn touch_users(&mut self, node: usize) {
        for claim in self.prepared.unused_on(node) {
            self.touch(Item::Unprepare(node, claim));
        }
        let pods = self.pods.iter().filter(|(_, slot)| slot.node == node).map(|(key, _)| key.clone());
        let pods: Vec<ObjectKey> = pods.collect();
        pods.into_iter().for_each(|pod| self.touch(Item::Pod(pod)));
    }

    fn unprepare(&mut self, node: usize, claim: &Uid) {
        if let Some(key) = self.prepared.remove(node, claim) {
            self.nodes[node].notes.change();
            self.touch_waiting(&key);
            self.touch(Item::Node(node));
        }
    }
}

/// The claims that a pod names, made for it or not.
pub(crate) fn claims_of(pod: &Pod) -> impl Iterator<Item = ObjectKey> {
    let names = pod.claims.iter().filter_map(PodClaim::claim).chain(&pod.extended_claim);
    names.map(|name| ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() })
}
