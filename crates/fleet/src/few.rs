//! A short list: most have one element or none, and those need no room of their own.

use alloc::vec::Vec;
use core::ops::Deref;

/// What has become more than one may well become a few.
const MANY_LEN_MIN: usize = 4;

/// A list of small things.
#[derive(Clone, Debug, Default)]
pub(crate) enum Few<T> {
    #[default]
    None,
    One(T),
    Many(Vec<T>),
}

impl<T> Deref for Few<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::None => &[],
            Self::One(only) => core::slice::from_ref(only),
            Self::Many(all) => all,
        }
    }
}

impl<T: Copy + Ord> Few<T> {
    /// Whether an ascending list has this.
    #[inline]
    pub(crate) fn has(&self, item: &T) -> bool {
        match self {
            Self::None => false,
            Self::One(only) => only == item,
            Self::Many(all) => all.binary_search(item).is_ok(),
        }
    }

    /// Adds to the end.
    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        self.insert_at(self.len(), item);
    }

    /// Adds to an ascending list, where it belongs, what is not there yet.
    #[inline]
    pub(crate) fn insert(&mut self, item: T) {
        match self {
            Self::None => *self = Self::One(item),
            Self::One(only) if *only == item => {}
            Self::One(only) => {
                let at = usize::from(*only < item);
                self.insert_at(at, item);
            }
            Self::Many(all) => {
                if let Err(at) = all.binary_search(&item) {
                    all.insert(at, item);
                }
            }
        }
    }

    /// Puts something in between.
    pub(crate) fn insert_at(&mut self, at: usize, item: T) {
        match self {
            Self::None => *self = Self::One(item),
            Self::One(only) => {
                let mut all = Vec::with_capacity(MANY_LEN_MIN);
                all.push(*only);
                all.insert(at, item);
                *self = Self::Many(all);
            }
            Self::Many(all) => all.insert(at, item),
        }
    }

    /// Puts something in the place of what is there.
    #[inline]
    pub(crate) fn set(&mut self, at: usize, item: T) {
        match self {
            Self::None => {}
            Self::One(only) => *only = item,
            Self::Many(all) => all[at] = item,
        }
    }

    /// Takes out what is in a place.
    pub(crate) fn remove_at(&mut self, at: usize) {
        match self {
            Self::None | Self::One(_) => *self = Self::None,
            Self::Many(all) => {
                all.remove(at);
                if all.is_empty() {
                    *self = Self::None;
                }
            }
        }
    }

    /// Takes out all that are equal to this.
    #[inline]
    pub(crate) fn remove(&mut self, item: T) {
        match self {
            Self::None => {}
            Self::One(only) if *only == item => *self = Self::None,
            Self::One(_) => {}
            Self::Many(all) => {
                all.retain(|other| *other != item);
                if all.is_empty() {
                    *self = Self::None;
                }
            }
        }
    }

    /// Puts it in order, each thing once.
    #[inline]
    pub(crate) fn sort(&mut self) {
        if let Self::Many(all) = self {
            all.sort_unstable();
            all.dedup();
        }
    }
}

impl<T: Copy + Ord> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut few = Self::None;
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
        let (mut few, mut model) = (Few::default(), BTreeSet::new());
        for step in 0..200_u32 {
            let item = step * 7 % 5;
            if step % 3 == 0 {
                few.remove(item);
                model.remove(&item);
            } else {
                few.insert(item);
                model.insert(item);
            }
            assert_eq!(few.to_vec(), model.iter().copied().collect::<Vec<_>>());
        }
        let mut listed: Few<u32> = [3, 1, 3].into_iter().collect();
        assert_eq!(*listed, [3, 1, 3]);
        listed.sort();
        assert_eq!(*listed, [1, 3]);
        assert_eq!(size_of::<Few<u32>>(), size_of::<Vec<u32>>());
    }
}
