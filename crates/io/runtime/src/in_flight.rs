//! Effects of one process in flight, counted for all of its agents.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use lazaret_leader::Precedence;

/// Effects in flight, by precedence. Cheap to clone; clones share the counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight {
    counts: Arc<[AtomicUsize; 3]>,
}

/// An effect in flight, until this is dropped.
#[derive(Debug)]
pub(crate) struct Flight {
    all: InFlight,
    precedence: Precedence,
}

impl InFlight {
    pub(crate) fn enter(&self, precedence: Precedence) -> Flight {
        self.counts[precedence as usize].fetch_add(1, Ordering::Relaxed);
        Flight { all: self.clone(), precedence }
    }

    pub(crate) fn counts(&self) -> lazaret_leader::InFlight {
        core::array::from_fn(|precedence| self.counts[precedence].load(Ordering::Relaxed))
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.all.counts[self.precedence as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_counts_until_it_is_dropped_for_every_clone() {
        let all = InFlight::default();
        let clone = all.clone();
        let (urgent, usual) = (all.enter(Precedence::Urgent), clone.enter(Precedence::Usual));
        assert_eq!(clone.counts(), [1, 1, 0]);
        drop(urgent);
        assert_eq!(all.counts(), [0, 1, 0]);
        drop(usual);
        assert_eq!(clone.counts(), [0, 0, 0]);
    }
}
