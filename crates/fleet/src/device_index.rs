//! From the name of a device to the slices that have one.

use alloc::vec::Vec;

use hashbrown::HashTable;
use lazaret_model::Text;

use crate::{
    body::SliceBody,
    hashes::{Hashes, short_hash},
};

/// Entries are hashes, not names, to be small: whoever asks compares names.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceIndex {
    in_pool: HashTable<Entry>,
    /// Slices by names of their devices, stand-ins of devices that are not published included.
    anywhere: Hashes,
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
        body.names.iter().for_each(|name| self.anywhere.insert(name, slice));
    }

    pub(crate) fn remove_anywhere(&mut self, slice: u32, body: &SliceBody) {
        body.names.iter().for_each(|name| self.anywhere.remove(name, slice));
    }

    /// Slices of the pool, and places in them, that may have a device of this name.
    pub(crate) fn in_pool(&self, pool: u32, name: &Text) -> impl Iterator<Item = (u32, usize)> {
        let hash = hash_in_pool(pool, name);
        let entries = self.in_pool.iter_hash(spread(hash)).filter(move |e| e.hash == hash);
        entries.map(|e| (e.slice, usize::from(e.device)))
    }

    /// Slices of any pool that may have a device of this name.
    pub(crate) fn anywhere(&self, name: &Text) -> Vec<u32> {
        self.anywhere.of(name).collect()
    }
}

fn hash_in_pool(pool: u32, name: &Text) -> u32 {
    short_hash(&(pool, name))
}

/// The table looks at the highest and the lowest bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
