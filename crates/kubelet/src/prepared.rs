//! Which claims are prepared on which node. A device is prepared for one claim at a time, whatever the control plane says.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    vec::Vec,
};

use lazaret_model::{DeviceId, ObjectKey, Pod, PodClaim, ResourceClaim, Timestamp, Uid};

use crate::{
    claims::{Lack, Wait},
    machine::{Item, Kubelet},
    pods::PodSlot,
};

/// The claims prepared on all nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreparedClaims {
    /// By the number of the node and the claim's UID.
    claims: BTreeMap<(usize, Uid), Prepared>,
    /// Devices that are prepared for one claim alone.
    holders: BTreeMap<(usize, DeviceId), Uid>,
}

#[derive(Clone, Debug)]
struct Prepared {
    key: ObjectKey,
    pods: BTreeSet<Uid>,
    devices: Vec<DeviceId>,
    /// How long the containers of the last pod take to stop.
    stop_ms: i64,
    /// Since when no pod uses it.
    unused_since: Option<Timestamp>,
}

impl PreparedClaims {
    pub(crate) fn has(&self, node: usize, claim: &Uid) -> bool {
        self.claims.contains_key(&(node, claim.clone()))
    }

    /// Whether a device is prepared for another claim.
    fn is_taken(&self, node: usize, claim: &ResourceClaim) -> Option<(&DeviceId, &ObjectKey)> {
        exclusive(claim).find_map(|device| {
            let (held, holder) = self.holders.get_key_value(&(node, device.clone()))?;
            let holder = self.claims.get(&(node, holder.clone())).filter(|_| *holder != claim.uid)?;
            Some((&held.1, &holder.key))
        })
    }

    /// A claim has these devices for itself.
    fn hold(&mut self, node: usize, claim: &Uid, devices: &[DeviceId]) {
        for device in devices {
            self.holders.entry((node, device.clone())).or_insert_with(|| claim.clone());
        }
    }

    /// A claim has others than before, if it has.
    fn move_to(&mut self, node: usize, claim: &ResourceClaim) {
        let Some(prepared) = self.claims.get_mut(&(node, claim.uid.clone())) else { return };
        if exclusive(claim).eq(&prepared.devices) {
            return;
        }
        let now: Vec<DeviceId> = exclusive(claim).cloned().collect();
        let before = core::mem::replace(&mut prepared.devices, now.clone());
        self.free(node, &claim.uid, before);
        self.hold(node, &claim.uid, &now);
    }

    fn remove(&mut self, node: usize, claim: &Uid) -> Option<ObjectKey> {
        let prepared = self.claims.remove(&(node, claim.clone()))?;
        self.free(node, claim, prepared.devices);
        Some(prepared.key)
    }

    fn free(&mut self, node: usize, claim: &Uid, devices: Vec<DeviceId>) {
        for place in devices.into_iter().map(|device| (node, device)) {
            if self.holders.get(&place) == Some(claim) {
                self.holders.remove(&place);
            }
        }
    }

    fn on(&self, node: usize) -> impl Iterator<Item = (&Uid, &Prepared)> {
        let of_node = self.claims.range((node, Uid::default())..).take_while(move |((at, _), _)| *at == node);
        of_node.map(|((_, claim), one)| (claim, one))
    }

    fn used_by(&self, node: usize, pod: &Uid) -> Vec<Uid> {
        self.on(node).filter(|(_, one)| one.pods.contains(pod)).map(|(claim, _)| claim.clone()).collect()
    }

    fn unused_on(&self, node: usize) -> Vec<Uid> {
        self.on(node).filter(|(_, one)| one.pods.is_empty()).map(|(claim, _)| claim.clone()).collect()
    }
}

impl Kubelet {
    /// The claims that are prepared on a node, with the devices that each has for itself.
    pub fn prepared_on(&self, node: usize) -> impl Iterator<Item = (&Uid, &[DeviceId])> {
        self.prepared.on(node).map(|(claim, one)| (claim, &*one.devices))
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

    /// Why a pod cannot have a device that it was given: another claim has it.
    pub(crate) fn lack_of_device(&self, node: usize, pod: &Pod) -> Option<Lack> {
        claims_of(pod).find_map(|key| {
            let claim = self.claims.get(&key)?;
            let (device, holder) = self.prepared.is_taken(node, claim)?;
            let why = format!("device {device} is still prepared for claim {holder}");
            Some(Lack { wait: Wait::Claim(holder.clone()), why })
        })
    }

    /// Prepares the claims of a pod that starts, or that runs since before this process.
    pub(crate) fn prepare(&mut self, pod: &ObjectKey) {
        let Some(slot) = self.pods.get(pod) else { return };
        let (node, uid, stop_ms) = (slot.node, slot.seen.pod.uid.clone(), slot.seen.stop_ms());
        for key in claims_of(&slot.seen.pod) {
            let Some(claim) = self.claims.get(&key).filter(|claim| claim.allocation.is_some()) else {
                continue;
            };
            if !self.is_registered(node) || self.is_awaited(node, &claim.uid) {
                self.waiting_for_node.entry(node).or_default().insert(pod.clone());
                continue;
            }
            let devices: Vec<DeviceId> = exclusive(claim).cloned().collect();
            self.prepared.hold(node, &claim.uid, &devices);
            let (pods, unused_since) = (BTreeSet::new(), None);
            let prepared = Prepared { key, pods, devices, stop_ms, unused_since };
            let prepared = self.prepared.claims.entry((node, claim.uid.clone())).or_insert(prepared);
            prepared.pods.insert(uid.clone());
            prepared.unused_since = None;
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
                self.prepared.move_to(slot.node, claim);
            }
        }
    }

    /// Unprepares what only a pod used whose containers have stopped.
    pub(crate) fn unprepare_for(&mut self, node: usize, pod: &Uid) {
        for claim in self.prepared.used_by(node, pod) {
            let Some(prepared) = self.prepared.claims.get_mut(&(node, claim.clone())) else { continue };
            prepared.pods.remove(pod);
            if prepared.pods.is_empty() {
                self.unprepare(node, &claim);
            }
        }
    }

    /// The object of a pod is gone. Where it had ended, nothing is left to do.
    pub(crate) fn forget_user(&mut self, slot: &PodSlot) {
        for claim in self.prepared.used_by(slot.node, &slot.seen.pod.uid) {
            let Some(prepared) = self.prepared.claims.get_mut(&(slot.node, claim.clone())) else { continue };
            prepared.pods.remove(&slot.seen.pod.uid);
            if prepared.pods.is_empty() {
                self.touch(Item::Unprepare(slot.node, claim));
            }
        }
    }

    /// Unprepares a claim that no pod uses any more, once the containers have stopped and the driver has had its time.
    pub(crate) fn look_at_unused(&mut self, now: Timestamp, node: usize, claim: &Uid) {
        let delay = self.unprepare_ms(node);
        let prepared = self.prepared.claims.get_mut(&(node, claim.clone()));
        let Some(prepared) = prepared.filter(|prepared| prepared.pods.is_empty()) else { return };
        let since = *prepared.unused_since.get_or_insert(now);
        let at = since.plus_millis(prepared.stop_ms).plus_millis(delay);
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
        let unused = self.prepared.claims.iter().filter(|(_, one)| one.pods.is_empty());
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
            self.touch_waiting(&key);
            self.touch(Item::Node(node));
        }
    }
}

/// The claims that a pod names, made for it or not.
fn claims_of(pod: &Pod) -> impl Iterator<Item = ObjectKey> {
    let names = pod.claims.iter().filter_map(PodClaim::claim).chain(&pod.extended_claim);
    names.map(|name| ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() })
}

/// The devices that a claim has for itself.
fn exclusive(claim: &ResourceClaim) -> impl Iterator<Item = &DeviceId> {
    let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
    results.filter(|result| !result.admin_access && result.share_id.is_none()).map(|result| &result.device)
}
