//! From the name of a device to the slices that have one.

use alloc::{collections::BTreeSet, vec::Vec};

use hashbrown::HashTable;
use lazaret_model::Text;

use crate::{body::SliceBody, vocabulary::hash};

/// Entries are hashes, not names, to be small: whoever asks compares names.
#[derive(Debug, Default)]
pub(crate) struct DeviceIndex {
    in_pool: HashTable<Entry>,
    /// Hash of the device's name, slice; stand-ins of devices that are not published included.
    anywhere: BTreeSet<(u32, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Of pool and name.
    hash: u32,
    slice: u32,
    device: u8,
}

impl DeviceIndex {
    pub(crate) fn insert(&mut self, pool: u32, slice: u32, body: &SliceBody) {
        for (device, name) in (0..=u8::MAX).zip(&body.names) {
            let hash = hash_in_pool(pool, name);
            self.in_pool.insert_unique(spread(hash), Entry { hash, slice, device }, |e| spread(e.hash));
        }
        self.insert_anywhere(slice, body);
    }

    pub(crate) fn remove(&mut self, pool: u32, slice: u32, body: &SliceBody) {
        for (device, name) in (0..=u8::MAX).zip(&body.names) {
            let same = |e: &Entry| e.slice == slice && e.device == device;
            if let Ok(entry) = self.in_pool.find_entry(spread(hash_in_pool(pool, name)), same) {
                entry.remove();
            }
        }
        self.remove_anywhere(slice, body);
    }

    pub(crate) fn insert_anywhere(&mut self, slice: u32, body: &SliceBody) {
        self.anywhere.extend(body.names.iter().map(|name| (hash_of_name(name), slice)));
    }

    pub(crate) fn remove_anywhere(&mut self, slice: u32, body: &SliceBody) {
        for name in &body.names {
            self.anywhere.remove(&(hash_of_name(name), slice));
        }
    }

    /// Slices of the pool, and places in them, that may have a device of this name.
    pub(crate) fn in_pool(&self, pool: u32, name: &Text) -> impl Iterator<Item = (u32, usize)> {
        let hash = hash_in_pool(pool, name);
        let entries = self.in_pool.iter_hash(spread(hash)).filter(move |e| e.hash == hash);
        entries.map(|e| (e.slice, usize::from(e.device)))
    }

    /// Slices of any pool that may have a device of this name.
    pub(crate) fn anywhere(&self, name: &Text) -> Vec<u32> {
        let hash = hash_of_name(name);
        self.anywhere.range((hash, 0)..=(hash, u32::MAX)).map(|(_, slice)| *slice).collect()
    }
}

fn hash_in_pool(pool: u32, name: &Text) -> u32 {
    fold(hash(&(pool, name)))
}

fn hash_of_name(name: &Text) -> u32 {
    fold(hash(name))
}

#[expect(clippy::cast_possible_truncation, reason = "both halves are folded in")]
fn fold(hash: u64) -> u32 {
    (hash ^ hash >> 32) as u32
}

/// The table looks at the highest and the lowest bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
