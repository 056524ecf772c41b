//! Values under small dense numbers. A freed number is given again only after [`Slab::recycle`].

use alloc::vec::Vec;

/// A vector with holes.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
    retired: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), retired: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(at) = self.free.pop() {
            self.slots[at as usize] = Some(value);
            return at;
        }
        self.slots.push(Some(value));
        // Four billion objects do not fit in memory; the number cannot overflow before that.
        u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
    }

    /// The number that the next value gets.
    pub(crate) fn next(&self) -> u32 {
        self.free.last().copied().unwrap_or_else(|| u32::try_from(self.slots.len()).unwrap_or(u32::MAX))
    }

    /// Takes the value out; its number stays unused until [`Self::recycle`].
    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let value = self.slots.get_mut(at as usize)?.take();
        if value.is_some() {
            self.retired.push(at);
        }
        value
    }

    /// Borrows the value out of the slab: its number stays reserved until [`Self::put`].
    pub(crate) fn take(&mut self, at: u32) -> Option<T> {
        self.slots.get_mut(at as usize)?.take()
    }

    /// Gives back what [`Self::take`] took.
    pub(crate) fn put(&mut self, at: u32, value: T) {
        if let Some(slot) = self.slots.get_mut(at as usize) {
            *slot = Some(value);
        }
    }

    /// Allows the numbers freed so far to be given again.
    pub(crate) fn recycle(&mut self) {
        self.free.append(&mut self.retired);
    }

    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.slots.get(at as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.slots.get_mut(at as usize)?.as_mut()
    }

    pub(crate) fn for_each_mut(&mut self, visit: impl FnMut(&mut T)) {
        self.slots.iter_mut().flatten().for_each(visit);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0u32..).zip(&self.slots).filter_map(|(at, slot)| Some((at, slot.as_ref()?)))
    }
}
