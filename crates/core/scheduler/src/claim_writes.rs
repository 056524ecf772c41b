//! Writes of claims in flight: allocations that were decided and not seen yet, reservations that are to be written.
//!
//! A claim is written by one effect at a time. Pods that want the same claim meanwhile are reserved together by the
//! next one. There is an entry for each claim of a pod that is being bound, and for each that was written and not
//! seen since, so there are at most as many as pods in flight have claims, and those few that the watch is behind.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use lazaret_model::{Allocation, Consumer, ObjectKey, Timestamp, Uid};

use crate::effect::EffectId;

/// A claim is written this number of times after conflicts: then the pods are decided on anew.
pub(crate) const TRIES_MAX: u32 = 5;
/// Time to wait for a change of a claim after a conflict, or after a write with unknown outcome.
pub(crate) const NEWS_MS_MAX: i64 = 1_000;
/// A write with unknown outcome that is not seen after this time was not done.
pub(crate) const CERTAIN_MS: i64 = 30_000;

/// The writes of one claim.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) uid: Uid,
    /// Decided here, and not seen to be so yet.
    pub(crate) allocation: Option<Arc<Allocation>>,
    /// The allocation is known to be written.
    pub(crate) written: bool,
    /// Pods for which it is to be reserved.
    pub(crate) wanted: BTreeMap<u32, Consumer>,
    /// Consumers that are to be removed.
    pub(crate) unwanted: Vec<Uid>,
    /// The devices are to be released, unless another than this consumer uses them.
    pub(crate) deallocate: Option<Uid>,
    /// The devices were released by a write that is based on this version: states up to it are out of date.
    pub(crate) freed_after: Option<u64>,
    /// The write that was given out.
    pub(crate) write: Option<Write>,
    /// The version that the last write led to; 0: none.
    pub(crate) version: u64,
    pub(crate) tries: u32,
    /// It is unknown whether the allocation or the release was written, unless something newer than this version is
    /// seen; after this instant it was not.
    pub(crate) uncertain: Option<(u64, Timestamp)>,
    /// Not to be written before something newer than this version is seen, or this instant has come.
    pub(crate) held_up: Option<(u64, Timestamp)>,
}

/// A write that was given out.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) effect: EffectId,
    /// The version that it is based on.
    pub(crate) version: u64,
    /// The consumers that it reserves for.
    pub(crate) pods: BTreeMap<u32, Consumer>,
    pub(crate) allocates: bool,
    /// It takes the claim from a pod, or gives its devices back.
    pub(crate) releases: bool,
    /// It gives the devices back, which none but this consumer uses.
    pub(crate) deallocates: Option<Uid>,
}

impl Entry {
    /// Pods that are about to use the claim.
    pub(crate) fn coming(&self) -> usize {
        self.wanted.len() + self.write.as_ref().map_or(0, |write| write.pods.len())
    }

    /// Its devices are being released, or were, which the last state seen does not show.
    pub(crate) fn frees(&self, seen: u64) -> bool {
        self.deallocate.is_some()
            || self.write.as_ref().is_some_and(|write| write.deallocates.is_some())
            || self.freed_after.is_some_and(|version| seen <= version)
    }

    /// Whether the allocation or the release may have been written, given what is seen of the claim.
    pub(crate) fn is_uncertain(&self, seen: u64, now: Timestamp) -> bool {
        self.uncertain.is_some_and(|(version, until)| seen <= version && now < until)
    }

    /// Whether what was written last is in what is seen of the claim.
    pub(crate) fn is_seen(&self, seen: u64) -> bool {
        seen >= self.version
    }

    /// Whether the claim is to be taken from this consumer.
    pub(crate) fn takes_from(&self, uid: &Uid) -> bool {
        self.deallocate.is_some() || self.unwanted.contains(uid)
    }

    /// Whether other pods than this one are about to use the claim.
    pub(crate) fn is_for_others(&self, pod: u32) -> bool {
        let writes = self.write.iter().flat_map(|write| write.pods.keys());
        self.wanted.keys().chain(writes).any(|user| *user != pod) || self.written
    }

    /// Nothing is wanted any more.
    pub(crate) fn is_idle(&self) -> bool {
        self.wanted.is_empty()
            && self.unwanted.is_empty()
            && self.deallocate.is_none()
            && self.write.is_none()
    }
}

/// The claims that are being written, or were written and not seen since.
#[derive(Debug, Default)]
pub(crate) struct ClaimWrites {
    entries: BTreeMap<ObjectKey, Entry>,
}

impl ClaimWrites {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Entry> {
        self.entries.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &ObjectKey) -> Option<&mut Entry> {
        self.entries.get_mut(key)
    }

    /// The entry for this incarnation of a claim. One for another incarnation is replaced.
    pub(crate) fn open(&mut self, key: &ObjectKey, uid: &Uid) -> &mut Entry {
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.uid != *uid {
            *entry = Entry { uid: uid.clone(), ..Entry::default() };
        }
        entry
    }

    pub(crate) fn close(&mut self, key: &ObjectKey) -> Option<Entry> {
        self.entries.remove(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Entry)> {
        self.entries.iter()
    }

    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        self.entries.keys().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}
