//! Pools that stay incomplete: since when their slices do not make up the newest generation.
//!
//! Every publication of several slices leaves a pool incomplete for a while. One that stays so for [`INCOMPLETE_MS`] is a signal, which lasts until the
//! pool is complete. The time is counted anew by whoever is started: a restart never raises the signal too early.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use lazaret_model::{PoolId, Timestamp};

/// A pool that is incomplete for this long is a signal. Rules add time with `for`.
pub const INCOMPLETE_MS: i64 = 5 * 60 * 1_000;

/// The state of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// The slices of its newest generation are all there.
    Complete,
    /// They are not.
    Incomplete,
    /// It has no slice: its devices are not published any more, which is another signal.
    Gone,
}

/// Which pools are incomplete, and since when.
#[derive(Debug, Default)]
pub struct PoolWatch {
    complete: BTreeSet<PoolId>,
    incomplete: BTreeMap<PoolId, Incomplete>,
}

#[derive(Clone, Copy, Debug)]
struct Incomplete {
    since: Timestamp,
    /// It was not complete when it was first seen: since when is not known.
    is_found: bool,
    is_raised: bool,
}

impl PoolWatch {
    /// A pool is so now. Whether its signal is over.
    pub fn see(&mut self, now: Timestamp, pool: &PoolId, state: PoolState) -> bool {
        if state == PoolState::Incomplete {
            let is_found = !self.complete.remove(pool);
            let new = Incomplete { since: now, is_found, is_raised: false };
            self.incomplete.entry(pool.clone()).or_insert(new);
            return false;
        }
        if state == PoolState::Complete {
            self.complete.insert(pool.clone());
        } else {
            self.complete.remove(pool);
        }
        self.incomplete.remove(pool).is_some_and(|known| known.is_raised)
    }

    /// Whether its signal is raised.
    #[must_use]
    pub fn is_raised(&self, pool: &PoolId) -> bool {
        self.incomplete.get(pool).is_some_and(|known| known.is_raised)
    }

    /// Pools whose signal is to be raised now. `is_known` says whether an open incident is about the signal of a pool: where the pool was incomplete
    /// already when it was first seen, the incident goes on, as whoever opened it saw the time pass.
    pub fn raise(&mut self, now: Timestamp, is_known: impl Fn(&PoolId) -> bool) -> Vec<PoolId> {
        let mut raised = Vec::new();
        for (pool, known) in self.incomplete.iter_mut().filter(|(_, known)| !known.is_raised) {
            if known.since.plus_millis(INCOMPLETE_MS) <= now || known.is_found && is_known(pool) {
                known.is_raised = true;
                raised.push(pool.clone());
            }
        }
        raised
    }

    /// When [`PoolWatch::raise`] is to be called, if nothing is heard before.
    #[must_use]
    pub fn wake(&self) -> Option<Timestamp> {
        let waiting = self.incomplete.values().filter(|known| !known.is_raised);
        waiting.map(|known| known.since.plus_millis(INCOMPLETE_MS)).min()
    }
}
