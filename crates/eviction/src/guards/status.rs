//! The status of a guard: the state of its breaker, and whether one of its windows is open.

use alloc::sync::Arc;

use lazaret_invariant::invariant;
use lazaret_model::{BreakerStatus, DisruptionGuard, Timestamp, WindowStatus};

use super::GuardState;
use crate::{
    Eviction,
    effect::{EffectId, EffectKind, Outcome, SetGuardStatus},
    flights::Flight,
};

/// A status whose numbers alone changed is written this often.
const STATUS_EVERY_MS: i64 = 10_000;
/// One that counts more is written this often: the next leader takes over what it says, so what it does not say yet is lost with this process.
const MORE_EVERY_MS: i64 = 1_000;
/// A status that could not be written is tried again after this.
const STATUS_RETRY_MS: i64 = 1_000;

impl GuardState {
    /// The status to write. A guard without a breaker or windows has empty fields for them.
    fn wanted(&self) -> (BreakerStatus, Option<WindowStatus>) {
        let breaker = if self.guard.breaker.is_some() { self.breaker } else { BreakerStatus::default() };
        (breaker, self.windows.status)
    }

    fn is_news(&self) -> bool {
        self.wanted() != (self.guard.status, self.guard.window_status)
    }

    /// More is out of service than its status says, or more that came back counts, or for longer.
    fn counts_more(&self) -> bool {
        let (now, known) = (&self.wanted().0, &self.guard.status);
        now.out_of_service > known.out_of_service
            || now.recent > known.recent
            || now.recent_until > known.recent_until
    }

    /// No status is written before this instant, unless it is urgent.
    fn waits_until(&self) -> Option<Timestamp> {
        if self.counts_more() { self.more_not_before } else { self.not_before }
    }

    /// When its status is written, if that waits.
    pub(super) fn next_write(&self) -> Option<Timestamp> {
        self.waits_until().filter(|_| self.writing.is_none() && self.is_news())
    }
}

impl Eviction {
    /// Writes the statuses that are not what is known: at once when a breaker trips or is reset, and when a window opens or closes.
    pub(super) fn write_guards(&mut self, now: Timestamp) {
        if !self.options.writes_guards || self.closing {
            return;
        }
        for state in &mut self.guards.list {
            let (breaker, window) = state.wanted();
            let known = &state.guard;
            let urgent = known.status.tripped != breaker.tripped || known.window_status != window;
            let waits = state
                .waits_until()
                .is_some_and(|at| now < at && (!urgent || at <= now.plus_millis(STATUS_RETRY_MS)));
            if state.writing.is_some() || !state.is_news() || waits {
                continue;
            }
            let write = SetGuardStatus {
                guard: known.name.clone(),
                uid: known.uid.clone(),
                generation: known.generation,
                breaker: known.breaker.is_some().then_some(breaker),
                window,
            };
            let id = self.flights.launch(Flight::Guard, EffectKind::SetGuardStatus(write));
            state.writing = Some((id, breaker, window));
            state.not_before = Some(now.plus_millis(STATUS_EVERY_MS));
            state.more_not_before = Some(now.plus_millis(MORE_EVERY_MS));
        }
    }

    pub(crate) fn acknowledge_guard(&mut self, now: Timestamp, id: EffectId, outcome: Outcome) {
        let written =
            |state: &&mut GuardState| state.writing.as_ref().is_some_and(|(writing, ..)| *writing == id);
        // The guard was deleted while its status was written.
        let Some(state) = self.guards.list.iter_mut().find(written) else { return };
        let Some((_, status, window_status)) =
            invariant!(state.writing.take(), "a guard that was found by its write is being written")
        else {
            return;
        };
        if outcome == Outcome::Done {
            // The watch will show it, or something newer.
            let guard = DisruptionGuard::clone(&state.guard);
            state.guard = Arc::new(DisruptionGuard { status, window_status, ..guard });
        } else {
            state.not_before = Some(now.plus_millis(STATUS_RETRY_MS));
            state.more_not_before = state.not_before;
        }
    }
}
