//! A short list: most have a few elements or none, and those need no room of their own.

use alloc::vec::Vec;
use core::ops::Deref;

/// A list of small things, of which `N` fit in without an allocation: three numbers are as large as the head of a
/// vector.
#[derive(Clone, Debug)]
pub(crate) enum Few<T, const N: usize = 3> {
    /// How many there are, and after them what is of no meaning.
    Inline(u8, [T; N]),
    Many(Vec<T>),
}

impl<T: Copy + Default, const N: usize> Default for Few<T, N> {
    #[inline]
    fn default() -> Self {
        Self::Inline(0, [T::default(); N])
    }
}

impl<T, const N: usize> Deref for Few<T, N> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::Inline(len, items) => &items[..usize::from(*len).min(N)],
            Self::Many(all) => all,
        }
    }
}

impl<T: Copy + Default + Ord, const N: usize> Few<T, N> {
    /// Whether an ascending list has this.
    #[inline]
    pub(crate) fn has(&self, item: &T) -> bool {
        match self {
            Self::Inline(..) => self.contains(item),
            Self::Many(all) => all.binary_search(item).is_ok(),
        }
    }

    /// Adds to the end.
    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        match self {
            Self::Inline(len, items) if usize::from(*len) < N => {
                items[usize::from(*len)] = item;
                *len += 1;
            }
            Self::Inline(..) | Self::Many(_) => self.insert_at(self.len(), item),
        }
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
        match self {
            Self::Inline(len, items) if usize::from(*len) < N => {
                for after in (at..usize::from(*len)).rev() {
                    items[after + 1] = items[after];
                }
                items[at] = item;
                *len += 1;
            }
            Self::Inline(_, items) => {
                let mut all = Vec::with_capacity(2 * N.max(2));
                all.extend_from_slice(items);
                all.insert(at, item);
                *self = Self::Many(all);
            }
            Self::Many(all) => all.insert(at, item),
        }
    }

    /// Puts something in the place of what is there.
    pub(crate) fn set(&mut self, at: usize, item: T) {
        match self {
            Self::Inline(_, items) => items[at] = item,
            Self::Many(all) => all[at] = item,
        }
    }

    /// Takes out what is in a place.
    pub(crate) fn remove_at(&mut self, at: usize) {
        match self {
            Self::Inline(len, items) => {
                for after in at + 1..usize::from(*len) {
                    items[after - 1] = items[after];
                }
                *len -= 1;
            }
            Self::Many(all) => {
                all.remove(at);
                if all.is_empty() {
                    *self = Self::default();
                }
            }
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
        if self.len() > 1 {
            match self {
                Self::Inline(len, items) => items[..usize::from(*len)].sort_unstable(),
                Self::Many(all) => all.sort_unstable(),
            }
            for at in (1..self.len()).rev() {
                if self[at] == self[at - 1] {
                    self.remove_at(at);
                }
            }
        }
    }
}

impl<T: Copy + Default + Ord, const N: usize> FromIterator<T> for Few<T, N> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut few = Self::default();
        items.into_iter().for_each(|item| few.push(item));
        few
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
