//! The status of a guard: the state of its breaker, and whether one of its windows is open.

use alloc::{sync::Arc, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_model::{BreakerStatus, DisruptionGuard, GuardPreview, TaintHold, Timestamp, WindowStatus};

use super::GuardState;
use crate::{
    Eviction,
    effect::{EffectId, EffectKind, Outcome, SetGuardStatus},
    flights::Flight,
};

/// A status whose numbers alone changed is written this often.
const STATUS_EVERY_MS: i64 = 1_000;
/// A status that could not be written is tried again after this.
const STATUS_RETRY_MS: i64 = 1_000;

/// All that the status of a guard says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GuardStatus {
    breaker: BreakerStatus,
    window: Option<WindowStatus>,
    preview: Option<GuardPreview>,
    held: Vec<TaintHold>,
}

impl GuardStatus {
    /// Whether the other one lists other taints as held, or for other reasons.
    fn are_others_held(&self, other: &Self) -> bool {
        let said = |status: &Self| {
            status.held.iter().map(|hold| (hold.taint.clone(), hold.reason.clone())).collect::<Vec<_>>()
        };
        said(self) != said(other)
    }
}

impl GuardState {
    /// The status to write. A guard without a breaker or windows has empty fields for them.
    fn wanted(&self) -> GuardStatus {
        let breaker = if self.guard.breaker.is_some() { self.breaker } else { BreakerStatus::default() };
        GuardStatus {
            breaker,
            window: self.windows.status,
            preview: self.preview.clone(),
            held: self.listed_taints(),
        }
    }

    /// The taints that are listed: those that are known for longest.
    fn listed_taints(&self) -> Vec<TaintHold> {
        let mut holds: Vec<TaintHold> = self.taints.values().cloned().collect();
        holds.sort_by(|one, other| (one.since, &one.taint).cmp(&(other.since, &other.taint)));
        holds.truncate(TaintHold::LISTED_MAX);
        holds
    }

    fn known(&self) -> GuardStatus {
        let DisruptionGuard { status, window_status, preview, held, .. } = &*self.guard;
        let (preview, held) = (preview.clone(), held.clone());
        GuardStatus { breaker: *status, window: *window_status, preview, held }
    }

    fn is_news(&self) -> bool {
        self.preview.is_some() && self.wanted() != self.known()
    }

    /// When its status is written, if that waits.
    pub(super) fn next_write(&self) -> Option<Timestamp> {
        self.not_before.filter(|_| self.writing.is_none() && self.is_news())
    }
}

impl Eviction {
    /// Writes the statuses that are not what is known: at once when a breaker trips or is reset, and when a window opens or closes.
    pub(crate) fn write_guards(&mut self, now: Timestamp) {
        if !self.options.writes_guards || self.closing {
            return;
        }
        for state in &mut self.guards.list {
            let (wanted, known) = (state.wanted(), state.known());
            let is_clear = |status: &GuardStatus| {
                status.preview.as_ref().map(|preview| (preview.generation, preview.problem.is_none()))
            };
            // A new leader knows what is back and counts from the status alone.
            let urgent = known.breaker.tripped != wanted.breaker.tripped
                || known.breaker.recent < wanted.breaker.recent
                || known.window != wanted.window
                || known.are_others_held(&wanted)
                || is_clear(&known) != is_clear(&wanted);
            let waits = state.not_before.is_some_and(|at| now < at && (!urgent || state.has_failed));
            if state.writing.is_some() || !state.is_news() || waits {
                continue;
            }
            let guard = &state.guard;
            let write = SetGuardStatus {
                guard: guard.name.clone(),
                uid: guard.uid.clone(),
                generation: guard.generation,
                breaker: guard.breaker.is_some().then_some(wanted.breaker),
                known: known.breaker,
                window: wanted.window,
                preview: wanted.preview.clone().unwrap_or_default(),
                held: guard.confirm_above.is_some().then(|| wanted.held.clone()),
            };
            let id = self.flights.launch(Flight::Guard, EffectKind::SetGuardStatus(write));
            state.writing = Some((id, wanted));
            state.not_before = Some(now.plus_millis(STATUS_EVERY_MS));
            state.has_failed = false;
        }
    }

    pub(crate) fn acknowledge_guard(&mut self, now: Timestamp, id: EffectId, outcome: Outcome) {
        let written =
            |state: &&mut GuardState| state.writing.as_ref().is_some_and(|(writing, ..)| *writing == id);
        // The guard was deleted while its status was written.
        let Some(state) = self.guards.list.iter_mut().find(written) else { return };
        let Some((_, status)) =
            invariant!(state.writing.take(), "a guard that was found by its write is being written")
        else {
            return;
        };
        if outcome == Outcome::Done {
            // The watch will show it, or something newer.
            let guard = DisruptionGuard::clone(&state.guard);
            let GuardStatus { breaker: status, window: window_status, preview, held } = status;
            state.guard = Arc::new(DisruptionGuard { status, window_status, preview, held, ..guard });
        } else {
            state.not_before = Some(now.plus_millis(STATUS_RETRY_MS));
            state.has_failed = true;
        }
    }
}
