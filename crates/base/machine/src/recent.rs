//! A set that forgets its oldest members.

use alloc::collections::VecDeque;
use core::hash::Hash;

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

/// The last members added, up to a limit.
#[derive(Clone, Debug)]
pub struct Recent<T> {
    order: VecDeque<T>,
    members: HashSet<T, FxBuildHasher>,
    len_max: usize,
}

impl<T: Clone + Eq + Hash> Recent<T> {
    /// Nothing yet, and never more than `len_max`.
    #[must_use]
    pub fn new(len_max: usize) -> Self {
        Self { order: VecDeque::new(), members: HashSet::default(), len_max }
    }

    /// Whether it was among the last.
    #[must_use]
    pub fn contains(&self, member: &T) -> bool {
        !self.members.is_empty() && self.members.contains(member)
    }

    /// Remembers it, and forgets the oldest if there are too many. Returns whether it is new.
    pub fn insert(&mut self, member: T) -> bool {
        if !self.members.insert(member.clone()) {
            return false;
        }
        self.order.push_back(member);
        if self.order.len() > self.len_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.members.remove(&oldest);
        }
        true
    }

    /// Forgets it. Takes as long as there are members.
    pub fn remove(&mut self, member: &T) {
        if self.members.remove(member) {
            self.order.retain(|known| known != member);
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.order.clear();
        self.members.clear();
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}
