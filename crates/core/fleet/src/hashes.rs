//! An index from the hash of a name to numbers: a few bytes for each, however long the names are.

use alloc::collections::BTreeSet;

use crate::vocabulary::hash_texts;

/// Numbers under hashes of names. Different names may have the same hash: callers compare names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hashes(BTreeSet<(u32, u32)>);

impl Hashes {
    pub(crate) fn insert(&mut self, name: &str, number: u32) {
        self.0.insert((short_hash(name), number));
    }

    pub(crate) fn remove(&mut self, name: &str, number: u32) {
        self.0.remove(&(short_hash(name), number));
    }

    /// Numbers that may have this name, ascending.
    pub(crate) fn of(&self, name: &str) -> impl Iterator<Item = u32> {
        let hash = short_hash(name);
        self.0.range((hash, 0)..=(hash, u32::MAX)).map(|(_, number)| *number)
    }
}

fn short_hash(name: &str) -> u32 {
    fold(hash_texts([name]))
}

/// A hash in half the room.
#[expect(clippy::cast_possible_truncation, reason = "both halves are folded in")]
pub(crate) fn fold(hash: u64) -> u32 {
    (hash ^ hash >> 32) as u32
}
