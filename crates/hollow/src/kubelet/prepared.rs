//! Which claims are prepared on which node. A device is prepared for one claim at a time, whatever the control plane says.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_model::{DeviceId, ObjectKey, Pod, PodClaim, ResourceClaim, Timestamp, Uid};

use super::{Item, Kubelet, claims::Lack, pods::PodSlot};

/// The claims prepared on all nodes.
#[derive(Debug, Default)]
pub(super) struct PreparedClaims {
    /// By the number of the node and the claim's UID.
    claims: BTreeMap<(usize, Uid), Prepared>,
    /// Devices that are prepared for one claim alone.
    holders: BTreeMap<(usize, DeviceId), Uid>,
}

#[derive(Debug)]
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
    pub(super) fn has(&self, node: usize, claim: &Uid) -> bool {
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

    fn remove(&mut self, node: usize, claim: &Uid) -> Option<ObjectKey> {
        let prepared = self.claims.remove(&(node, claim.clone()))?;
        for device in prepared.devices {
            self.holders.remove(&(node, device));
        }
        Some(prepared.key)
    }

    fn used_by(&self, node: usize, pod: &Uid) -> Vec<Uid> {
        let of_node = self.claims.range((node, Uid::default())..).take_while(|((at, _), _)| *at == node);
        of_node.filter(|(_, one)| one.pods.contains(pod)).map(|((_, claim), _)| claim.clone()).collect()
    }

    fn unused_on(&self, node: usize) -> Vec<Uid> {
        let of_node = self.claims.range((node, Uid::default())..).take_while(|((at, _), _)| *at == node);
        of_node.filter(|(_, one)| one.pods.is_empty()).map(|((_, claim), _)| claim.clone()).collect()
    }
}

impl Kubelet {
    /// Why a pod cannot have a device that it was given: another claim has it.
    pub(super) fn lack_of_device(&self, node: usize, pod: &Pod) -> Option<Lack> {
        claims_of(pod).find_map(|key| {
            let claim = self.claims.get(&key)?;
            let (device, holder) = self.prepared.is_taken(node, claim)?;
            let why = format!("device {device} is still prepared for claim {holder}");
            Some(Lack { claim: Some(holder.clone()), why })
        })
    }

    /// Prepares the claims of a pod that starts, or that runs since before this process.
    pub(super) fn prepare(&mut self, pod: &ObjectKey) {
        let Some(slot) = self.pods.get(pod) else { return };
        let (node, uid, stop_ms) = (slot.node, slot.seen.pod.uid.clone(), slot.seen.stop_ms());
        for key in claims_of(&slot.seen.pod) {
            let Some(claim) = self.claims.get(&key).filter(|claim| claim.allocation.is_some()) else {
                continue;
            };
            let devices: Vec<DeviceId> = exclusive(claim).cloned().collect();
            for device in &devices {
                self.prepared.holders.entry((node, device.clone())).or_insert_with(|| claim.uid.clone());
            }
            let (pods, unused_since) = (BTreeSet::new(), None);
            let prepared = Prepared { key, pods, devices, stop_ms, unused_since };
            let prepared = self.prepared.claims.entry((node, claim.uid.clone())).or_insert(prepared);
            prepared.pods.insert(uid.clone());
            prepared.unused_since = None;
        }
    }

    /// Unprepares what only a pod used whose containers have stopped.
    pub(super) fn unprepare_for(&mut self, node: usize, pod: &Uid) {
        for claim in self.prepared.used_by(node, pod) {
            let Some(prepared) = self.prepared.claims.get_mut(&(node, claim.clone())) else { continue };
            prepared.pods.remove(pod);
            if prepared.pods.is_empty() {
                self.unprepare(node, &claim);
            }
        }
    }

    /// The object of a pod is gone. Where it had ended, nothing is left to do.
    pub(super) fn forget_user(&mut self, slot: &PodSlot) {
        for claim in self.prepared.used_by(slot.node, &slot.seen.pod.uid) {
            let Some(prepared) = self.prepared.claims.get_mut(&(slot.node, claim.clone())) else { continue };
            prepared.pods.remove(&slot.seen.pod.uid);
            if prepared.pods.is_empty() {
                self.touch(Item::Unprepare(slot.node, claim));
            }
        }
    }

    /// Unprepares a claim that no pod uses any more, once the containers have stopped and the driver has had its time.
    pub(super) fn look_at_unused(&mut self, now: Timestamp, node: usize, claim: &Uid) {
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
    pub(super) fn unprepare_ms(&self, node: usize) -> i64 {
        self.nodes[node].unprepare_after_ms()
    }

    /// Looks at all claims that no pod uses any more.
    pub(super) fn touch_unused(&mut self) {
        let unused = self.prepared.claims.iter().filter(|(_, one)| one.pods.is_empty());
        let unused: Vec<(usize, Uid)> = unused.map(|(key, _)| key.clone()).collect();
        unused.into_iter().for_each(|(node, claim)| self.touch(Item::Unprepare(node, claim)));
    }

    /// How fast a node unprepares has changed.
    pub(super) fn touch_users(&mut self, node: usize) {
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
