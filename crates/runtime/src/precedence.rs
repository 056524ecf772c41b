//! Who goes first while there is not enough of the machine for all.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// How much an agent's effects matter at once. While many effects of a higher precedence are under way, an agent has few of its own under
/// way, but always some: nobody waits for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Precedence {
    /// Pods leave a device that is bad.
    Urgent,
    /// Pods come into being, and get a place.
    Usual,
    /// What follows from the others and can follow later.
    Patient,
}

/// Effects that an agent may have under way while others go first.
const YIELDING_MAX: usize = 2;

/// So many effects of a higher precedence are a reason to yield. Fewer there may be for hours, of a rule with a pace for instance, and there
/// is room beside them.
const CROWD: usize = 4;

/// So long a [patient](Precedence::Patient) agent lets news gather while others go first: of what changes several times meanwhile it hears
/// once.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// What is under way in one process, by precedence. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct RightOfWay {
    flying: Arc<[AtomicUsize; 3]>,
}

/// Something under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct Passage {
    way: RightOfWay,
    precedence: Precedence,
}

impl RightOfWay {
    pub(crate) fn enter(&self, precedence: Precedence) -> Passage {
        self.flying[precedence as usize].fetch_add(1, Ordering::Relaxed);
        Passage { way: self.clone(), precedence }
    }

    /// How many may be under way now of the `room` that there is.
    pub(crate) fn room(&self, precedence: Precedence, room: usize) -> usize {
        if self.others_go_before(precedence) { room.min(YIELDING_MAX) } else { room }
    }

    /// Whether many effects of a higher precedence are under way.
    pub(crate) fn others_go_before(&self, precedence: Precedence) -> bool {
        let before = &self.flying[..precedence as usize];
        before.iter().map(|flying| flying.load(Ordering::Relaxed)).sum::<usize>() >= CROWD
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.way.flying[self.precedence as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_later_in_order_yields_and_never_wholly() {
        let way = RightOfWay::default();
        let rooms =
            || [Precedence::Urgent, Precedence::Usual, Precedence::Patient].map(|one| way.room(one, 100));
        let enter = |many: usize, precedence| (0..many).map(|_| way.enter(precedence)).collect::<Vec<_>>();
        assert_eq!(rooms(), [100, 100, 100]);
        let mut usual = enter(CROWD, Precedence::Usual);
        assert_eq!(rooms(), [100, 100, YIELDING_MAX]);
        usual.pop();
        assert_eq!(rooms(), [100, 100, 100], "a few are no reason");
        let urgent = enter(1, Precedence::Urgent);
        assert_eq!(rooms(), [100, 100, YIELDING_MAX], "together they are");
        drop((usual, urgent));
        let urgent = enter(CROWD, Precedence::Urgent);
        assert_eq!(rooms(), [100, YIELDING_MAX, YIELDING_MAX]);
        drop(urgent);
        assert_eq!(rooms(), [100, 100, 100]);
        assert_eq!(way.room(Precedence::Patient, 1), 1);
    }
}
