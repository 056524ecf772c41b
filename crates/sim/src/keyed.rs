//! An ordered map that finds by hash: worlds look things up far more often than they walk over them.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher as _, Hash},
};

use hashbrown::HashTable;
use lazaret_model::Slab;
use rustc_hash::FxBuildHasher;

/// Values by key. Walking over them is in key order.
#[derive(Clone, Debug)]
pub(crate) struct Keyed<K, V> {
    entries: Slab<(K, V)>,
    places: HashTable<u32>,
    order: BTreeMap<K, u32>,
}

impl<K, V> Default for Keyed<K, V> {
    fn default() -> Self {
        Self { entries: Slab::default(), places: HashTable::new(), order: BTreeMap::new() }
    }
}

impl<K: Hash + Ord + Clone, V> Keyed<K, V> {
    /// The value of a key.
    #[must_use]
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(self.place(key)?).map(|(_, value)| value)
    }

    /// Whether a key has a value.
    #[must_use]
    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.place(key).is_some()
    }

    /// Sets the value of a key; the one it had before.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(place) = self.place(&key) {
            return self.entries.get_mut(place).map(|(_, known)| core::mem::replace(known, value));
        }
        let hash = hash(&key);
        let place = self.entries.insert((key.clone(), value));
        let entries = &self.entries;
        self.places.insert_unique(hash, place, |at| entries.get(*at).map_or(0, |(key, _)| self::hash(key)));
        self.order.insert(key, place);
        None
    }

    /// Takes out the value of a key.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.place(key)?;
        if let Ok(found) = self.places.find_entry(hash(key), |at| *at == place) {
            found.remove();
        }
        self.order.remove(key);
        self.entries.remove(place).map(|(_, value)| value)
    }

    /// The value of a key, to be changed; made if there is none.
    pub(crate) fn entry(&mut self, key: &K) -> Option<&mut V>
    where
        V: Default,
    {
        if !self.contains_key(key) {
            self.insert(key.clone(), V::default());
        }
        self.get_mut(key)
    }

    /// The value of a key, to be changed.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let place = self.place(key)?;
        self.entries.get_mut(place).map(|(_, value)| value)
    }

    /// All keys, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.order.keys()
    }

    /// The keys from this one on, in order.
    pub(crate) fn keys_from<'a>(&'a self, key: &K) -> impl Iterator<Item = &'a K> + use<'a, K, V> {
        self.order.range(key..).map(|(key, _)| key)
    }

    /// All values, in the order of their keys.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.order.values().filter_map(|place| self.entries.get(*place).map(|(_, value)| value))
    }

    /// The values from a key on, in the order of their keys.
    pub(crate) fn values_from(&self, key: &K) -> impl Iterator<Item = &V> {
        let places = self.order.range(key..).map(|(_, place)| place);
        places.filter_map(|place| self.entries.get(*place).map(|(_, value)| value))
    }

    /// How many there are.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn place(&self, key: &K) -> Option<u32> {
        let is_it = |at: &u32| self.entries.get(*at).is_some_and(|(known, _)| known == key);
        self.places.find(hash(key), is_it).copied()
    }
}

fn hash<K: Hash>(key: &K) -> u64 {
    FxBuildHasher.hash_one(key)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::Keyed;
    use crate::rng::Rng;

    #[test]
    fn is_an_ordered_map() {
        let (mut rng, mut ours, mut model) = (Rng::new(1, 1), Keyed::default(), BTreeMap::new());
        for step in 0..10_000_u32 {
            let key = rng.below(60);
            match rng.below(3) {
                0 => assert_eq!(ours.remove(&key), model.remove(&key)),
                1 => assert_eq!(ours.insert(key, step), model.insert(key, step)),
                _ => *ours.entry(&key).unwrap() = *model.entry(key).and_modify(|v| *v = step).or_insert(step),
            }
            assert_eq!((ours.len(), ours.is_empty()), (model.len(), model.is_empty()));
            assert_eq!(
                (ours.get(&key), ours.contains_key(&key)),
                (model.get(&key), model.contains_key(&key))
            );
            assert!(ours.values().eq(model.values()) && ours.keys().eq(model.keys()));
            assert!(ours.values_from(&key).eq(model.range(key..).map(|(_, value)| value)));
        }
    }
}
