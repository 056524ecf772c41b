//! Which claims are prepared on which node, and which devices they hold.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use lazaret_conflict::shares_exclude;
use lazaret_model::{DeviceId, ObjectKey, ResourceClaim, Text, Timestamp, Uid};

use crate::checkpoint::{HeldDevice, NotedClaim};

/// The claims prepared on all nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreparedClaims {
    /// By the number of the node and the claim's UID.
    pub(crate) claims: BTreeMap<(usize, Uid), Prepared>,
    /// Which claims hold a device, and which share of it.
    holders: BTreeMap<(usize, DeviceId), BTreeSet<Holder>>,
}

/// A claim, and the share of the device that it has.
type Holder = (Uid, Option<Text>);

#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) noted: NotedClaim,
    /// When it changed last: the revision of its node.
    pub(crate) revision: u64,
    /// Since when no pod uses it.
    pub(crate) unused_since: Option<Timestamp>,
}

/// A device of a claim that another claim holds.
pub(crate) struct Taken {
    pub(crate) device: DeviceId,
    pub(crate) claim: Uid,
    pub(crate) key: ObjectKey,
}

impl PreparedClaims {
    pub(crate) fn has(&self, node: usize, claim: &Uid) -> bool {
        self.claims.contains_key(&(node, claim.clone()))
    }

    /// Whether a device is prepared for another claim.
    pub(crate) fn is_taken(&self, node: usize, claim: &ResourceClaim) -> Option<Taken> {
        held(claim).find_map(|wanted| {
            let holders = self.holders.get(&(node, wanted.device.clone()))?;
            let excludes = |(holder, share): &&Holder| {
                *holder != claim.uid && shares_exclude(share.as_deref(), wanted.share.as_deref())
            };
            let (holder, _) = holders.iter().find(excludes)?;
            let key = self.claims.get(&(node, holder.clone()))?.noted.key.clone();
            Some(Taken { device: wanted.device, claim: holder.clone(), key })
        })
    }

    pub(crate) fn hold(&mut self, node: usize, claim: &Uid, held: &[HeldDevice]) {
        for one in held {
            let holders = self.holders.entry((node, one.device.clone())).or_default();
            holders.insert((claim.clone(), one.share.clone()));
        }
    }

    /// A claim has others than before, if it has.
    pub(crate) fn move_to(&mut self, node: usize, claim: &ResourceClaim, revision: u64) {
        let Some(prepared) = self.claims.get_mut(&(node, claim.uid.clone())) else { return };
        let now: Vec<HeldDevice> = held(claim).collect();
        if now == prepared.noted.held {
            return;
        }
        prepared.revision = revision;
        let before = core::mem::replace(&mut prepared.noted.held, now.clone());
        self.free(node, &claim.uid, &before);
        self.hold(node, &claim.uid, &now);
    }

    /// A claim that another process has prepared.
    pub(crate) fn take_over(&mut self, node: usize, claim: Uid, noted: NotedClaim, revision: u64) {
        let key = (node, claim.clone());
        if self.claims.contains_key(&key) {
            return;
        }
        self.hold(node, &claim, &noted.held);
        self.claims.insert(key, Prepared { noted, revision, unused_since: None });
    }

    /// Of claims on a node, leaves out pods that are not among these. Those that no pod uses then.
    pub(crate) fn release_unseen(&mut self, node: usize, there: &BTreeSet<Uid>, stop_ms: i64) -> Vec<Uid> {
        let of_node = self.claims.iter_mut().filter(|((at, _), _)| *at == node);
        let mut unused = Vec::new();
        for ((_, claim), one) in of_node {
            let before = one.noted.pods.len();
            one.noted.pods.retain(|pod| there.contains(pod));
            if one.noted.pods.is_empty() {
                if before > 0 {
                    one.noted.stop_ms = one.noted.stop_ms.max(stop_ms);
                }
                unused.push(claim.clone());
            }
        }
        unused
    }

    /// The content of the checkpoint of a node.
    pub(crate) fn noted(&self, node: usize) -> BTreeMap<Uid, NotedClaim> {
        self.on(node).map(|(claim, one)| (claim.clone(), one.noted.clone())).collect()
    }

    pub(crate) fn bytes_on(&self, node: usize) -> usize {
        self.on(node).map(|(claim, one)| claim.len() + one.noted.bytes()).sum()
    }

    pub(crate) fn revision(&self, node: usize, claim: &Uid) -> Option<u64> {
        self.claims.get(&(node, claim.clone())).map(|one| one.revision)
    }

    pub(crate) fn remove(&mut self, node: usize, claim: &Uid) -> Option<ObjectKey> {
        let Prepared { noted, .. } = self.claims.remove(&(node, claim.clone()))?;
        self.free(node, claim, &noted.held);
        Some(noted.key)
    }

    fn free(&mut self, node: usize, claim: &Uid, held: &[HeldDevice]) {
        for one in held {
            let place = (node, one.device.clone());
            if let Some(holders) = self.holders.get_mut(&place) {
                holders.remove(&(claim.clone(), one.share.clone()));
                if holders.is_empty() {
                    self.holders.remove(&place);
                }
            }
        }
    }

    pub(crate) fn on(&self, node: usize) -> impl Iterator<Item = (&Uid, &Prepared)> {
        let of_node = self.claims.range((node, Uid::default())..).take_while(move |((at, _), _)| *at == node);
        of_node.map(|((_, claim), one)| (claim, one))
    }

    pub(crate) fn used_by(&self, node: usize, pod: &Uid) -> Vec<Uid> {
        self.on(node)
            .filter(|(_, one)| one.noted.pods.contains(pod))
            .map(|(claim, _)| claim.clone())
            .collect()
    }

    pub(crate) fn unused_on(&self, node: usize) -> Vec<Uid> {
        self.on(node).filter(|(_, one)| one.noted.pods.is_empty()).map(|(claim, _)| claim.clone()).collect()
    }
}

/// The devices that a claim holds. One that it has for administration is not used by it.
pub(crate) fn held(claim: &ResourceClaim) -> impl Iterator<Item = HeldDevice> {
    let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
    let used = results.filter(|result| !result.admin_access);
    used.map(|result| HeldDevice { device: result.device.clone(), share: result.share_id.clone() })
}

/// A device of a claim that another claim of the same pod was given.
pub(crate) fn taken_by(own: &[&ResourceClaim], claim: &ResourceClaim) -> Option<Taken> {
    let others = || own.iter().filter(|other| other.uid != claim.uid);
    held(claim).find_map(|wanted| {
        let excludes = |other: &HeldDevice| {
            other.device == wanted.device && shares_exclude(other.share.as_deref(), wanted.share.as_deref())
        };
        let holder = others().find(|other| held(other).any(|one| excludes(&one)))?;
        Some(Taken { device: wanted.device, claim: holder.uid.clone(), key: holder.key.clone() })
    })
}
