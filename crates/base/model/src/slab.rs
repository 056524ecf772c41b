//! Values under small dense numbers that stay the same as long as the value is there.

use alloc::vec::Vec;

/// A clone has room for one more value per this number of values, and so has [`Slab::reserve`] beyond its argument: the next
/// value must not move all others.
const VALUES_PER_SPARE: usize = 8;

/// A vector with holes that are filled again.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
    /// Free, but not to be given out yet.
    retired: Vec<u32>,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), retired: Vec::new(), len: 0 }
    }
}

impl<T: Clone> Clone for Slab<T> {
    fn clone(&self) -> Self {
        let mut slots = Vec::with_capacity(self.slots.len() + self.slots.len() / VALUES_PER_SPARE);
        slots.extend_from_slice(&self.slots);
        Self { slots, free: self.free.clone(), retired: self.retired.clone(), len: self.len }
    }
}

impl<T> Slab<T> {
    /// Keeps a value; its number.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if let Some(at) = self.free.pop() {
            self.slots[at as usize] = Some(value);
            return at;
        }
        self.slots.push(Some(value));
        // Four billion values do not fit in memory; the number cannot overflow before that.
        u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
    }

    /// Makes room for `more` values.
    pub fn reserve(&mut self, more: usize) {
        let more = more.saturating_sub(self.free.len());
        self.slots.reserve(more + more / VALUES_PER_SPARE);
    }

    /// The number that the next value gets.
    #[must_use]
    #[inline]
    pub fn next(&self) -> u32 {
        self.free.last().copied().unwrap_or_else(|| u32::try_from(self.slots.len()).unwrap_or(u32::MAX))
    }

    /// Takes a value out. Its number may go to the next one.
    pub fn remove(&mut self, at: u32) -> Option<T> {
        let value = self.slots.get_mut(at as usize)?.take()?;
        self.free.push(at);
        self.len -= 1;
        Some(value)
    }

    /// Takes a value out. Its number stays unused until [`Self::recycle`]: others may still speak of it.
    pub fn retire(&mut self, at: u32) -> Option<T> {
        let value = self.slots.get_mut(at as usize)?.take()?;
        self.retired.push(at);
        self.len -= 1;
        Some(value)
    }

    /// Allows the numbers retired so far to be given again.
    pub fn recycle(&mut self) {
        if !self.retired.is_empty() {
            self.free.append(&mut self.retired);
        }
    }

    /// Borrows a value out of the slab: its number stays reserved until [`Self::put`].
    pub fn take(&mut self, at: u32) -> Option<T> {
        self.slots.get_mut(at as usize)?.take()
    }

    /// Gives back what [`Self::take`] took.
    pub fn put(&mut self, at: u32, value: T) {
        if let Some(slot) = self.slots.get_mut(at as usize) {
            *slot = Some(value);
        }
    }

    /// The value under a number.
    #[must_use]
    #[inline]
    pub fn get(&self, at: u32) -> Option<&T> {
        self.slots.get(at as usize)?.as_ref()
    }

    /// The value under a number, to be changed.
    #[inline]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.slots.get_mut(at as usize)?.as_mut()
    }

    /// All values with their numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0u32..).zip(&self.slots).filter_map(|(at, slot)| Some((at, slot.as_ref()?)))
    }

    /// The values under all numbers but these, ascending.
    pub fn except(&self, numbers: impl Iterator<Item = u32>) -> impl Iterator<Item = &T> {
        let mut left = alloc::vec![self.len > 0; self.slots.len()];
        for at in numbers {
            if let Some(left) = left.get_mut(at as usize) {
                *left = false;
            }
        }
        self.slots.iter().zip(left).filter(|(_, left)| *left).filter_map(|(slot, _)| slot.as_ref())
    }

    /// Visits all values by ascending number, to change them.
    pub fn for_each_mut(&mut self, visit: impl FnMut(&mut T)) {
        self.slots.iter_mut().flatten().for_each(visit);
    }

    /// All numbers in use, ascending.
    #[must_use]
    pub fn numbers(&self) -> Vec<u32> {
        self.iter().map(|(at, _)| at).collect()
    }

    /// How many values there are, those that are borrowed out included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::Slab;

    #[test]
    fn a_number_is_given_again_when_it_may_be() {
        let mut slab = Slab::default();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!(slab.remove(a), Some('a'));
        assert_eq!((slab.next(), slab.insert('c')), (a, a), "at once after it was removed");
        assert_eq!(slab.retire(b), Some('b'));
        assert_eq!(slab.retire(b), None);
        assert_ne!(slab.insert('d'), b, "somebody may still speak of it");
        slab.recycle();
        assert_eq!(slab.insert('e'), b);
        assert_eq!((slab.len(), slab.numbers().len()), (3, 3));
    }

    #[test]
    fn all_but_some() {
        let mut slab = Slab::default();
        let numbers = ['a', 'b', 'c', 'd'].map(|value| slab.insert(value));
        slab.remove(numbers[3]);
        let rest: alloc::vec::Vec<char> = slab.except([numbers[1], 9].into_iter()).copied().collect();
        assert_eq!(rest, ['a', 'c']);
    }

    #[test]
    fn what_is_borrowed_out_keeps_its_number() {
        let mut slab = Slab::default();
        let at = slab.insert(1);
        let taken = slab.take(at).unwrap_or_default();
        assert_eq!((slab.get(at), slab.len()), (None, 1));
        assert_ne!(slab.insert(2), at);
        slab.put(at, taken + 10);
        assert_eq!(slab.get(at), Some(&11));
    }
}
