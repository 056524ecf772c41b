//! Until when a driver may write slices: as long as it holds the Lease, if there is one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use lazaret_model::Timestamp;

use crate::clock::Clock;

/// The term of a replica, read at each write. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    /// In milliseconds; before that a write may be sent.
    until: Arc<AtomicI64>,
    clock: Clock,
}

impl Term {
    /// A driver without replicas.
    pub(crate) fn unlimited(clock: Clock) -> Self {
        Self { until: Arc::new(AtomicI64::new(i64::MAX)), clock }
    }

    /// It lasts until then; without a time it is over.
    pub(crate) fn set(&self, until: Option<Timestamp>) {
        self.until.store(until.map_or(i64::MIN, Timestamp::as_millis), Ordering::SeqCst);
    }

    /// How long a request may still be on its way; `None`: it must not be sent.
    pub(crate) fn left(&self) -> Option<Duration> {
        let left = self.until.load(Ordering::SeqCst).saturating_sub(self.clock.now().as_millis());
        u64::try_from(left).ok().filter(|left| *left > 0).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_term_ends_by_the_clock_alone() {
        let clock = Clock::start();
        let term = Term::unlimited(clock);
        assert!(term.left().is_some());
        term.set(None);
        assert_eq!(term.left(), None);
        term.set(Some(clock.now().plus_millis(10)));
        assert_eq!(term.left(), Some(Duration::from_millis(10)));
        tokio::time::advance(Duration::from_millis(10)).await;
        assert_eq!(term.left(), None, "nobody has to say so");
    }
}
