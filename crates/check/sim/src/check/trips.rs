//! How often a breaker tripped, as the statuses of its guard say.

use std::collections::BTreeMap;

use lazaret_eviction::SetGuardStatus;
use lazaret_model::{BreakerStatus, DisruptionGuard, Uid};

use crate::world::World;

/// By guard: where its breaker stood when its status was last written.
pub(crate) type WrittenBreakers = BTreeMap<Uid, Written>;

/// A status that was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    status: BreakerStatus,
    /// The generation of the guard that it is about.
    generation: i64,
    at: u64,
    /// When the status before was written: this one was decided later.
    decided_after: Option<u64>,
}

impl World {
    /// The status of a guard is written: its breaker tripped as often as before and once more if it has tripped since, and no more often than it can have
    /// been reset.
    pub(crate) fn check_trips(&mut self, guard: &DisruptionGuard, write: &SetGuardStatus) {
        let written = &mut self.checker.written_breakers;
        let Some(status) = write.breaker else {
            // There is no breaker, and nothing is kept of the one before.
            written.remove(&guard.uid);
            return;
        };
        let before = written.get(&guard.uid).copied();
        let (generation, at) = (write.generation, self.now);
        let decided_after = before.map(|before| before.at);
        written.insert(guard.uid.clone(), Written { status, generation, at, decided_after });
        let Some(before) = before else { return };
        let is_visible = status.tripped && !before.status.tripped;
        if status.trips < before.status.trips + u64::from(is_visible) {
            let detail = format!("{}: {:?} is followed by {status:?}", guard.name, before.status);
            return self.violate("every trip of a breaker is counted", detail);
        }
        let is_same = guard.generation == generation && before.generation == generation;
        let reset_ms = guard.breaker.as_ref().map_or(0, |breaker| breaker.reset_after_seconds * 1_000);
        // A person may reset a breaker at any time.
        let (true, None, Some(decided_after), 1..) =
            (is_same, guard.reset_at, before.decided_after, reset_ms)
        else {
            return;
        };
        // Trips that no status shows were reset since: each lasted as long as a reset takes.
        let hidden = (self.now - decided_after) / reset_ms.unsigned_abs();
        let goes_on = before.status.tripped && status.exceeded_since == before.status.exceeded_since;
        let most = match status.tripped {
            true if goes_on => 0,
            is_tripped => hidden + u64::from(is_tripped),
        };
        if status.trips > before.status.trips + most {
            let detail = format!("{}: {:?} is followed by {status:?}", guard.name, before.status);
            self.violate("no trip of a breaker is counted twice", detail);
        }
    }
}
