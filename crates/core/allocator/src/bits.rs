//! Sets of devices as bits, by position on a node.

use alloc::{vec, vec::Vec};

/// A set of positions below a fixed size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub(crate) fn empty(size: usize) -> Self {
        Self(vec![0; size.div_ceil(64)])
    }

    /// Empties it, for `size` positions, keeping its memory.
    pub(crate) fn reset(&mut self, size: usize) {
        self.0.clear();
        self.0.resize(size.div_ceil(64), 0);
    }

    pub(crate) fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 != 0)
    }

    pub(crate) fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    /// Puts in `at` plus each set bit's position.
    pub(crate) fn insert_from(&mut self, at: usize, bits: u128) {
        let (word, shift) = (at / 64, at % 64);
        let low = u64::try_from(bits & u128::from(u64::MAX)).unwrap_or_default();
        let high = u64::try_from(bits >> 64).unwrap_or_default();
        for (offset, part) in [low, high].into_iter().enumerate().filter(|(_, part)| *part != 0) {
            self.0[word + offset] |= part << shift;
            let rest = if shift == 0 { 0 } else { part >> (64 - shift) };
            if rest != 0 {
                self.0[word + offset + 1] |= rest;
            }
        }
    }

    /// The first position from `start` on that is not in the set, below `size`.
    pub(crate) fn next_absent(&self, start: usize, size: usize) -> Option<usize> {
        let words = self.0.iter().enumerate().skip(start / 64);
        let mut free = words.map(|(at, word)| (at, !word & mask(at, start))).filter(|(_, free)| *free != 0);
        free.next().map(|(at, free)| at * 64 + free.trailing_zeros() as usize).filter(|at| *at < size)
    }

    pub(crate) fn remove(&mut self, at: usize) {
        self.0[at / 64] &= !(1 << (at % 64));
    }

    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The members, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(at, &word)| SetBits(word).map(move |bit| at * 64 + bit))
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= !other);
    }

    pub(crate) fn retain(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= other);
    }

    /// How many members both have.
    pub(crate) fn count_common(&self, other: &Self) -> usize {
        self.0.iter().zip(&other.0).map(|(word, other)| (word & other).count_ones() as usize).sum()
    }

    /// Adds what two others have in common.
    pub(crate) fn add_common(&mut self, one: &Self, other: &Self) {
        for (word, (one, other)) in self.0.iter_mut().zip(one.0.iter().zip(&other.0)) {
            *word |= one & other;
        }
    }

    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(word, other)| word & other != 0)
    }

    /// Takes out everything below `start`.
    pub(crate) fn clear_below(&mut self, start: usize) {
        let whole = (start / 64).min(self.0.len());
        self.0[..whole].fill(0);
        if let Some(word) = self.0.get_mut(start / 64) {
            *word &= u64::MAX << (start % 64);
        }
    }

    /// The words, for keys.
    pub(crate) fn words(&self) -> &[u64] {
        &self.0
    }
}

fn mask(word: usize, start: usize) -> u64 {
    if word == start / 64 { u64::MAX << (start % 64) } else { u64::MAX }
}

struct SetBits(u64);

impl Iterator for SetBits {
    type Item = usize;
    fn next(&mut self) -> Option<usize> {
        (self.0 != 0).then(|| {
            let bit = self.0.trailing_zeros() as usize;
            self.0 &= self.0 - 1;
            bit
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_have_in_common() {
        let [mut one, mut other, mut both] = [(); 3].map(|()| Bits::empty(130));
        [1, 64, 129].into_iter().for_each(|at| one.insert(at));
        [0, 64, 129].into_iter().for_each(|at| other.insert(at));
        both.insert(7);
        assert_eq!(one.count_common(&other), 2);
        both.add_common(&one, &other);
        assert_eq!(both.iter().collect::<Vec<_>>(), [7, 64, 129]);
    }

    #[test]
    fn counts_and_lists() {
        let mut bits = Bits::empty(200);
        for at in [0, 63, 64, 130, 199] {
            bits.insert(at);
        }
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 63, 64, 130, 199]);
        bits.remove(63);
        assert!(!bits.has(63) && bits.has(64) && !bits.has(1000) && bits.count() == 4);
        bits.clear_below(65);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [130, 199]);
    }

    #[test]
    fn spreads_a_slice_over_words() {
        let mut bits = Bits::empty(200);
        bits.insert_from(60, 1 | 1 << 5 | 1 << 127);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [60, 65, 187]);
    }

    #[test]
    fn finds_what_is_absent() {
        let mut bits = Bits::empty(70);
        (0..66).for_each(|at| bits.insert(at));
        assert_eq!(
            (bits.next_absent(0, 70), bits.next_absent(67, 70), bits.next_absent(0, 66)),
            (Some(66), Some(67), None)
        );
    }
}
