//! Things by small numbers, which are used again when the thing is gone.

use alloc::vec::Vec;

#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    vacant: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        if let Some(ix) = self.vacant.pop() {
            self.slots[ix as usize] = Some(thing);
            return ix;
        }
        self.slots.push(Some(thing));
        u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
    }

    pub(crate) fn remove(&mut self, ix: u32) -> Option<T> {
        let thing = self.slots.get_mut(ix as usize)?.take();
        if thing.is_some() {
            self.vacant.push(ix);
        }
        thing
    }

    pub(crate) fn get(&self, ix: u32) -> Option<&T> {
        self.slots.get(ix as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, ix: u32) -> Option<&mut T> {
        self.slots.get_mut(ix as usize)?.as_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }
}
