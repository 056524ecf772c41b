//! A set that forgets the oldest.

use crate::prelude::*;

/// What was last heard, up to a limit.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    order: VecDeque<T>,
    known: BTreeSet<T>,
    limit: usize,
}

impl<T: Ord + Clone> Recent<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { order: VecDeque::new(), known: BTreeSet::new(), limit }
    }

    pub(crate) fn insert(&mut self, entry: T) {
        if !self.known.insert(entry.clone()) {
            return;
        }
        self.order.push_back(entry);
        if self.order.len() > self.limit
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    pub(crate) fn remove(&mut self, entry: &T) {
        if self.known.remove(entry) {
            self.order.retain(|known| known != entry);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub(crate) fn contains(&self, entry: &T) -> bool {
        self.known.contains(entry)
    }
}
