//! A set that forgets its oldest members.

use alloc::collections::VecDeque;

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

use crate::Uid;

/// The last so many UIDs.
#[derive(Debug)]
pub struct Remembered {
    order: VecDeque<Uid>,
    members: HashSet<Uid, FxBuildHasher>,
    len_max: usize,
}

impl Remembered {
    /// Nothing yet, and never more than `len_max`.
    #[must_use]
    pub fn new(len_max: usize) -> Self {
        Self { order: VecDeque::new(), members: HashSet::default(), len_max }
    }

    /// Whether it was among the last.
    #[must_use]
    pub fn contains(&self, uid: &Uid) -> bool {
        !self.members.is_empty() && self.members.contains(uid)
    }

    /// Remembers it, and forgets the oldest if there are too many. Returns whether it is new.
    pub fn insert(&mut self, uid: Uid) -> bool {
        if !self.members.insert(uid.clone()) {
            return false;
        }
        self.order.push_back(uid);
        if self.order.len() > self.len_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.members.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_the_oldest() {
        let mut last_two = Remembered::new(2);
        assert!(last_two.insert("a".into()));
        assert!(!last_two.insert("a".into()));
        assert!(last_two.insert("b".into()) && last_two.insert("c".into()));
        assert!(!last_two.contains(&"a".into()));
        assert!(last_two.contains(&"b".into()) && last_two.contains(&"c".into()));
    }
}
