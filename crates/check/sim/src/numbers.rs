//! Small dense numbers for what a world speaks of again and again: what is known of a thing is then kept in a list, and
//! found without a look at its name.

use std::hash::{BuildHasher as _, Hash};

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// Things by number, and numbers by thing. Nothing is ever taken out: a world is short.
#[derive(Clone, Debug)]
pub(crate) struct Numbers<T> {
    things: Vec<T>,
    /// Hash and number.
    places: HashTable<(u64, u32)>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self { things: Vec::new(), places: HashTable::new() }
    }
}

impl<T> Numbers<T> {
    /// The number of the thing that has this hash and is the same.
    pub(crate) fn find(&self, hash: u64, same: impl Fn(&T) -> bool) -> Option<u32> {
        let is_it = |(other, at): &(u64, u32)| *other == hash && same(&self.things[*at as usize]);
        self.places.find(hash, is_it).map(|(_, at)| *at)
    }

    /// Gives a number to a thing that has none.
    pub(crate) fn add(&mut self, hash: u64, thing: T) -> u32 {
        let number = u32::try_from(self.things.len()).unwrap_or(u32::MAX);
        self.things.push(thing);
        self.places.insert_unique(hash, (hash, number), |(hash, _)| *hash);
        number
    }

    /// The thing that has a number.
    pub(crate) fn thing(&self, number: u32) -> &T {
        &self.things[number as usize]
    }

    /// How many have one.
    pub(crate) fn len(&self) -> usize {
        self.things.len()
    }
}

/// The hash by which things are found.
pub(crate) fn hash<T: Hash + ?Sized>(thing: &T) -> u64 {
    FxBuildHasher.hash_one(thing)
}

#[cfg(test)]
mod tests {
    use super::{Numbers, hash};

    #[test]
    fn every_thing_has_one_number() {
        let mut numbers = Numbers::default();
        for thing in (0..500_u32).chain(0..500) {
            let of = hash(&thing);
            let known = numbers.find(of, |other| *other == thing);
            let number = known.unwrap_or_else(|| numbers.add(of, thing));
            assert_eq!((number, *numbers.thing(number)), (thing, thing));
        }
        assert_eq!(numbers.len(), 500);
    }
}
