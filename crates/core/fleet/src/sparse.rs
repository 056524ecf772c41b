//! A list that is mostly empty, and mostly shared when it is not.

use alloc::{sync::Arc, vec::Vec};
use core::{fmt, ops::Deref};

/// As small as a pointer. Clones share the elements; changing one copies them first if another still reads them.
pub(crate) struct Sparse<T>(Option<Arc<List<T>>>);

#[derive(Clone)]
struct List<T>(Vec<T>);

impl<T: Clone> Sparse<T> {
    /// Changes the list. One that is empty afterwards takes no memory.
    pub(crate) fn edit<R>(&mut self, edit: impl FnOnce(&mut Vec<T>) -> R) -> R {
        let list = self.0.get_or_insert_with(|| Arc::new(List(Vec::new())));
        let result = edit(&mut Arc::make_mut(list).0);
        if list.0.is_empty() {
            self.0 = None;
        }
        result
    }
}

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Clone for Sparse<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Sparse<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |list| &list.0)
    }
}

impl<T> From<Vec<T>> for Sparse<T> {
    fn from(mut list: Vec<T>) -> Self {
        list.shrink_to_fit();
        Self((!list.is_empty()).then(|| Arc::new(List(list))))
    }
}

impl<T> FromIterator<T> for Sparse<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        items.into_iter().collect::<Vec<T>>().into()
    }
}

impl<T: fmt::Debug> fmt::Debug for Sparse<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: PartialEq> PartialEq<Vec<T>> for Sparse<T> {
    fn eq(&self, other: &Vec<T>) -> bool {
        **self == **other
    }
}

#[cfg(test)]
mod tests {
    use std::{vec, vec::Vec};

    use super::Sparse;

    #[test]
    fn clones_part_when_one_changes() {
        let mut one: Sparse<u32> = vec![1, 2].into();
        let other = one.clone();
        one.edit(|list| list.push(3));
        assert_eq!((&*one, &*other), (&[1, 2, 3][..], &[1, 2][..]));
    }

    #[test]
    fn nothing_is_kept_of_an_empty_list() {
        let mut list: Sparse<u32> = vec![1].into();
        assert_eq!(list.edit(Vec::pop), Some(1));
        assert!(list.0.is_none() && Sparse::<u32>::from(vec![]).0.is_none());
        assert_eq!(size_of::<Sparse<u32>>(), size_of::<usize>());
    }
}
