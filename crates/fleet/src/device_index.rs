//! From the name of a device to the slices that have one.

use alloc::vec::Vec;

use hashbrown::{HashTable, hash_table};
use lazaret_model::Text;

use crate::{
    body::SliceBody,
    hashes::{Hashes, fold},
    vocabulary::hash_numbered,
};

/// Entries are hashes, not names, to be small: whoever asks compares names.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceIndex {
    in_pool: HashTable<Entry>,
    /// Slices by names of their devices, stand-ins of devices that are not published included. `None` until somebody
    /// asks for a device of whatever pool, which most never do.
    anywhere: Option<Hashes>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Of pool and name.
    hash: u32,
    slice: u32,
    device: u8,
}

impl DeviceIndex {
    /// Files a slice's devices. How many pairs of devices that may have the same name in the pool there are more.
    pub(crate) fn insert(&mut self, pool: u32, slice: u32, body: &SliceBody) -> usize {
        let mut repeats = 0;
        self.reserve(body.len());
        for (device, name) in (0..=u8::MAX).zip(&*body.names) {
            let hash = hash_in_pool(pool, name);
            let entry = Entry { hash, slice, device };
            match self.in_pool.entry(spread(hash), |e| e.hash == hash, |e| spread(e.hash)) {
                hash_table::Entry::Vacant(place) => {
                    place.insert(entry);
                }
                hash_table::Entry::Occupied(_) => {
                    repeats += self.count(hash);
                    self.in_pool.insert_unique(spread(hash), entry, |e| spread(e.hash));
                }
            }
        }
        self.insert_anywhere(slice, body);
        repeats
    }

    /// Strikes them again. How many pairs there are less: those that [`Self::insert`] counted.
    pub(crate) fn remove(&mut self, pool: u32, slice: u32, body: &SliceBody) -> usize {
        let mut repeats = 0;
        for (device, name) in (0..=u8::MAX).zip(&*body.names) {
            let hash = hash_in_pool(pool, name);
            let same = |e: &Entry| e.slice == slice && e.device == device;
            if let Ok(entry) = self.in_pool.find_entry(spread(hash), same) {
                entry.remove();
                repeats += self.count(hash);
            }
        }
        self.remove_anywhere(slice, body);
        repeats
    }

    fn count(&self, hash: u32) -> usize {
        self.in_pool.iter_hash(spread(hash)).filter(|e| e.hash == hash).count()
    }

    pub(crate) fn insert_anywhere(&mut self, slice: u32, body: &SliceBody) {
        if let Some(anywhere) = &mut self.anywhere {
            body.names.iter().for_each(|name| anywhere.insert(name, slice));
        }
    }

    pub(crate) fn remove_anywhere(&mut self, slice: u32, body: &SliceBody) {
        if let Some(anywhere) = &mut self.anywhere {
            body.names.iter().for_each(|name| anywhere.remove(name, slice));
        }
    }

    /// Makes room for so many more devices.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.in_pool.reserve(more, |e| spread(e.hash));
    }

    /// Slices of the pool, and places in them, that may have a device of this name.
    pub(crate) fn in_pool(&self, pool: u32, name: &Text) -> impl Iterator<Item = (u32, usize)> {
        let hash = hash_in_pool(pool, name);
        let entries = self.in_pool.iter_hash(spread(hash)).filter(move |e| e.hash == hash);
        entries.map(|e| (e.slice, usize::from(e.device)))
    }

    /// The same in a pool where no name repeats: there is at most one.
    pub(crate) fn only_in_pool(&self, pool: u32, name: &Text) -> Option<(u32, usize)> {
        let hash = hash_in_pool(pool, name);
        let entry = self.in_pool.find(spread(hash), |e| e.hash == hash)?;
        Some((entry.slice, usize::from(entry.device)))
    }

    /// Slices of any pool that may have a device of this name, if that is known: see [`Self::learn_anywhere`].
    pub(crate) fn anywhere(&self, name: &Text) -> Option<Vec<u32>> {
        Some(self.anywhere.as_ref()?.of(name).collect())
    }

    /// From now on knows slices by the names of their devices, whatever the pool: of these, which are all there are,
    /// and of those to come.
    pub(crate) fn learn_anywhere<'a>(&mut self, slices: impl Iterator<Item = (u32, &'a SliceBody)>) {
        self.anywhere.get_or_insert_with(|| {
            slices.flat_map(|(slice, body)| body.names.iter().map(move |name| (&**name, slice))).collect()
        });
    }
}

fn hash_in_pool(pool: u32, name: &Text) -> u32 {
    fold(hash_numbered(pool, [name]))
}

/// The table looks at the highest and the lowest bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
