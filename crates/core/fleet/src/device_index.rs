//! From the name of a device to the slices that have one.

use core::hash::Hasher;

use hashbrown::{HashTable, hash_table};
use lazaret_model::Text;
use rustc_hash::FxHasher;

use crate::{body::SliceBody, hashes::fold};

/// Entries are hashes, not names, to be small: whoever asks compares names.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceIndex {
    in_pool: HashTable<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Of pool and name.
    hash: u32,
    slice: u32,
    device: u8,
}

impl DeviceIndex {
    /// Files a slice's devices under the hash of their pool. How many pairs of devices that may have the same name in
    /// the pool there are more; `of_pool` tells whether a slice is of that pool.
    pub(crate) fn insert(
        &mut self,
        pool: u64,
        slice: u32,
        body: &SliceBody,
        of_pool: impl Fn(u32) -> bool,
    ) -> usize {
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
                    repeats += self.count(hash, &of_pool);
                    self.in_pool.insert_unique(spread(hash), entry, |e| spread(e.hash));
                }
            }
        }
        repeats
    }

    /// Strikes them again. How many pairs there are less: those that [`Self::insert`] counted.
    pub(crate) fn remove(
        &mut self,
        pool: u64,
        slice: u32,
        body: &SliceBody,
        of_pool: impl Fn(u32) -> bool,
    ) -> usize {
        let mut repeats = 0;
        for (device, name) in (0..=u8::MAX).zip(&*body.names) {
            let hash = hash_in_pool(pool, name);
            let same = |e: &Entry| e.slice == slice && e.device == device;
            if let Ok(entry) = self.in_pool.find_entry(spread(hash), same) {
                entry.remove();
                repeats += self.count(hash, &of_pool);
            }
        }
        repeats
    }

    fn count(&self, hash: u32, of_pool: impl Fn(u32) -> bool) -> usize {
        self.in_pool.iter_hash(spread(hash)).filter(|e| e.hash == hash && of_pool(e.slice)).count()
    }

    /// Reserves room for this many more devices.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.in_pool.reserve(more, |e| spread(e.hash));
    }

    /// Slices of the pool, and places in them, that may have a device of this name.
    pub(crate) fn in_pool(&self, pool: u64, name: &Text) -> impl Iterator<Item = (u32, usize)> {
        let hash = hash_in_pool(pool, name);
        let entries = self.in_pool.iter_hash(spread(hash)).filter(move |e| e.hash == hash);
        entries.map(|e| (e.slice, usize::from(e.device)))
    }

    /// The first of them that `is_it` takes, as it takes it.
    #[inline]
    pub(crate) fn find<T>(
        &self,
        pool: u64,
        name: &Text,
        is_it: impl Fn(u32, usize) -> Option<T>,
    ) -> Option<T> {
        let hash = hash_in_pool(pool, name);
        let mut taken = None;
        self.in_pool.find(spread(hash), |e| {
            if e.hash == hash {
                taken = is_it(e.slice, usize::from(e.device));
            }
            taken.is_some()
        });
        taken
    }
}

fn hash_in_pool(pool: u64, name: &Text) -> u32 {
    let mut hasher = FxHasher::default();
    hasher.write_u64(pool);
    hasher.write(name.as_bytes());
    fold(hasher.finish())
}

/// The table looks at the highest and the lowest bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, string::ToString};

    use super::*;
    use crate::vocabulary::Vocabulary;

    /// Among this many names some have the same hash, for it is short: none hides another, and none counts as one that repeats in its pool.
    #[test]
    fn devices_of_other_pools_with_the_same_hash_are_told_apart() {
        let mut seen = BTreeMap::new();
        let pairs = (0..300_000_u32).filter_map(|number| {
            let (pool, name) = (u64::from(number % 7), Text::from(&*number.to_string()));
            let other = seen.insert(hash_in_pool(pool, &name), (pool, name.clone()))?;
            (other.0 != pool).then_some([other, (pool, name)])
        });
        let mut vocabulary = Vocabulary::default();
        for pair in pairs.take(3) {
            let mut index = DeviceIndex::default();
            let bodies =
                pair.each_ref().map(|(_, name)| SliceBody::of_name(&"d".into(), name, &mut vocabulary));
            for (slice, (body, (pool, _))) in (0..).zip(bodies.iter().zip(&pair)) {
                assert_eq!(index.insert(*pool, slice, body, |other| other == slice), 0);
            }
            for (slice, (pool, name)) in (0..).zip(&pair) {
                let is_it = |found, at| (found == slice).then_some(at);
                assert_eq!(index.find(*pool, name, is_it), Some(0));
                assert_eq!(index.in_pool(*pool, name).count(), 2, "whoever asks compares");
            }
            assert_eq!(index.remove(pair[0].0, 0, &bodies[0], |other| other == 0), 0);
            assert_eq!(index.find(pair[0].0, &pair[0].1, |found, _| (found == 0).then_some(())), None);
        }
    }
}
