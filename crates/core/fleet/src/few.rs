//! A short list: most have a few elements or none, and those need no room of their own.

use core::ops::Deref;

use smallvec::SmallVec;

/// A list of small things, of which `N` fit in without an allocation: three numbers are as large as the head of a
/// vector.
#[derive(Clone, Debug)]
pub(crate) struct Few<T, const N: usize = 3>(SmallVec<[T; N]>);

impl<T, const N: usize> Default for Few<T, N> {
    #[inline]
    fn default() -> Self {
        Self(SmallVec::new())
    }
}

impl<T, const N: usize> Deref for Few<T, N> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Copy + Ord, const N: usize> Few<T, N> {
    /// Whether an ascending list has this.
    #[inline]
    pub(crate) fn has(&self, item: &T) -> bool {
        if self.0.spilled() { self.binary_search(item).is_ok() } else { self.contains(item) }
    }

    /// Adds to the end.
    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        self.0.push(item);
    }

    /// Adds to an ascending list, where it belongs, what is not there yet.
    #[inline]
    pub(crate) fn insert(&mut self, item: T) {
        if self.last().is_none_or(|last| *last < item) {
            // Mostly it is the first, or numbers come in order.
            return self.push(item);
        }
        if let Err(at) = self.binary_search(&item) {
            self.insert_at(at, item);
        }
    }

    /// Puts something in between.
    pub(crate) fn insert_at(&mut self, at: usize, item: T) {
        self.0.insert(at, item);
    }

    /// Puts something in the place of what is there.
    pub(crate) fn set(&mut self, at: usize, item: T) {
        self.0[at] = item;
    }

    /// Takes out what is in a place.
    pub(crate) fn remove_at(&mut self, at: usize) {
        self.0.remove(at);
        if self.0.is_empty() {
            *self = Self::default();
        }
    }

    /// Takes something out of a list that has it at most once.
    #[inline]
    pub(crate) fn remove(&mut self, item: T) {
        if let Some(at) = self.iter().position(|other| *other == item) {
            self.remove_at(at);
        }
    }

    /// Puts it in order, each thing once.
    #[inline]
    pub(crate) fn sort(&mut self) {
        self.0.sort_unstable();
        self.0.dedup();
    }
}

impl<T, const N: usize> FromIterator<T> for Few<T, N> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self(items.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeSet, vec::Vec};

    use super::Few;

    #[test]
    fn is_an_ordered_set_that_grows_and_shrinks() {
        let (mut few, mut model) = (Few::<u32>::default(), BTreeSet::new());
        for step in 0..400_u32 {
            let item = step * 7 % 11;
            if (step / 20) % 2 == 1 || step % 5 == 0 {
                few.remove(item);
                model.remove(&item);
            } else {
                few.insert(item);
                model.insert(item);
            }
            assert_eq!(few.to_vec(), model.iter().copied().collect::<Vec<_>>());
            assert!((0..11).all(|item| few.has(&item) == model.contains(&item)));
        }
        let mut listed: Few<u32> = [3, 1, 3].into_iter().collect();
        assert_eq!(*listed, [3, 1, 3]);
        listed.sort();
        assert_eq!(*listed, [1, 3]);
        listed.set(0, 2);
        assert_eq!(*listed, [2, 3]);
    }

    #[test]
    fn needs_no_more_room_than_a_vector() {
        assert_eq!(size_of::<Few<u32>>(), size_of::<Vec<u32>>());
        assert_eq!(size_of::<Few<(u32, u32), 1>>(), size_of::<Vec<u32>>());
        assert_eq!(size_of::<Few<(u8, u32), 1>>(), size_of::<Vec<u32>>());
    }
}
