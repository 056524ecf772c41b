//! A set that forgets its oldest members.

use alloc::collections::VecDeque;

use hashbrown::HashSet;
use lazaret_model::Uid;
use rustc_hash::FxBuildHasher;

/// The last so many UIDs.
#[derive(Debug)]
pub(crate) struct Remembered {
    order: VecDeque<Uid>,
    members: HashSet<Uid, FxBuildHasher>,
    len_max: usize,
}

impl Remembered {
    pub(crate) fn new(len_max: usize) -> Self {
        Self { order: VecDeque::new(), members: HashSet::default(), len_max }
    }

    pub(crate) fn contains(&self, uid: &Uid) -> bool {
        !self.members.is_empty() && self.members.contains(uid)
    }

    /// Whether it is new.
    pub(crate) fn insert(&mut self, uid: Uid) -> bool {
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
