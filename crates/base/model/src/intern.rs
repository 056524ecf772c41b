//! Strings as small numbers, for tables that compare names millions of times.

use alloc::vec::Vec;
use hashbrown::HashTable;
use rustc_hash::FxHasher;

use core::hash::Hasher;

use crate::Text;

/// A string known to an [`Interner`], as its number. Only meaningful with the interner that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(pub u32);

/// Gives equal strings equal numbers, in order of first sight. Numbers are never given up or given again, so
/// intern what is few (names of attributes, drivers, keys), not what is many.
#[derive(Clone, Debug, Default)]
pub struct Interner {
    strings: Vec<Text>,
    index: HashTable<u32>,
}

impl Interner {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of `text`, new if need be.
    pub fn intern(&mut self, text: &str) -> Symbol {
        let hash = hash(text);
        let strings = &self.strings;
        if let Some(&found) = self.index.find(hash, |&at| &*strings[at as usize] == text) {
            return Symbol(found);
        }
        let number = u32::try_from(self.strings.len()).unwrap_or(u32::MAX);
        self.strings.push(text.into());
        let strings = &self.strings;
        self.index.insert_unique(hash, number, |&at| hash_of(strings, at));
        Symbol(number)
    }

    /// The number of `text` if it has one.
    #[must_use]
    pub fn get(&self, text: &str) -> Option<Symbol> {
        self.index.find(hash(text), |&at| &*self.strings[at as usize] == text).map(|&at| Symbol(at))
    }

    /// The string behind a number.
    ///
    /// # Panics
    /// When `symbol` comes from another interner and is out of range here.
    #[must_use]
    pub fn resolve(&self, symbol: Symbol) -> &Text {
        &self.strings[symbol.0 as usize]
    }

    /// How many strings there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.strings.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }
}

fn hash_of(strings: &[Text], at: u32) -> u64 {
    hash(&strings[at as usize])
}

fn hash(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests;
