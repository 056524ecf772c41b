//! Guards: what must hold for any eviction to begin, whoever wants it. The strictest of those that select a device wins.

pub(crate) mod admission;

use alloc::{collections::BTreeSet, format, sync::Arc, vec::Vec};

use lazaret_fleet::Fleet;
use lazaret_model::{BreakerStatus, Counted, DeviceId, DisruptionGuard, Pause, Text, Timestamp};

use crate::{
    Eviction,
    block::{Block, Blocked},
    breaker::count,
    dispatch::Candidate,
    effect::{EffectId, EffectKind, Outcome, SetGuardStatus},
    flights::Flight,
    reason::{Reason, due_of},
};

/// How often devices are counted again while nobody is about to go.
const COUNTED_EVERY_MS: i64 = 1_000;
/// A status whose numbers alone changed is written this often.
const STATUS_EVERY_MS: i64 = 10_000;
/// A status that could not be written is tried again after this.
const STATUS_RETRY_MS: i64 = 1_000;

/// All guards.
#[derive(Debug, Default)]
pub(crate) struct Guards {
    list: Vec<GuardState>,
    /// The revision of the fleet whose devices were last counted, and when.
    counted: Option<(u64, Timestamp)>,
    /// The fleet has changed since.
    stale: bool,
}

#[derive(Debug)]
pub(crate) struct GuardState {
    pub(crate) guard: Arc<DisruptionGuard>,
    breaker: BreakerStatus,
    /// What it keeps evictions from beginning for.
    blocks: Option<Block>,
    /// Devices that it selects by class or expression, at this revision of the fleet.
    selected: Option<(u64, BTreeSet<DeviceId>)>,
    writing: Option<(EffectId, BreakerStatus)>,
    /// No status is written before this instant.
    not_before: Option<Timestamp>,
}

impl GuardState {
    fn new(guard: Arc<DisruptionGuard>) -> Self {
        Self { breaker: guard.status, guard, blocks: None, selected: None, writing: None, not_before: None }
    }

    fn blocked_for(&self, now: Timestamp) -> Option<Block> {
        if self.guard.paused.as_ref().is_some_and(|pause| pause.holds(now)) {
            Some(Block::Paused)
        } else {
            (self.guard.breaker.is_some() && self.breaker.tripped).then_some(Block::Breaker)
        }
    }

    /// When it stops to block if nothing else happens.
    fn ends_at(&self) -> Option<Timestamp> {
        let paused = self.guard.paused.as_ref().and_then(|pause| pause.until);
        let reset = self
            .guard
            .breaker
            .as_ref()
            .and_then(|breaker| Some(self.breaker.below_since?.plus_secs(breaker.reset_after_seconds)));
        match self.blocks? {
            Block::Paused => paused,
            Block::Breaker => reset,
            Block::Held | Block::Window | Block::Capacity | Block::Group | Block::Budget => None,
        }
    }

    pub(crate) fn selects(&mut self, fleet: &Fleet, device: &DeviceId) -> bool {
        let Some(selector) = &self.guard.selector else { return true };
        if selector.by_names_only() {
            return selector.names_match(device);
        }
        let revision = fleet.revision();
        if self.selected.as_ref().is_none_or(|(of, _)| *of != revision) {
            let selection = fleet.selection_of(selector);
            let published = selection.published().map(|device| device.id());
            let devices = published.chain(selection.unpublished().map(|(device, _)| device)).collect();
            self.selected = Some((revision, devices));
        }
        self.selected.as_ref().is_some_and(|(_, devices)| devices.contains(device))
    }

    fn message(&self) -> Text {
        let name = &self.guard.name;
        match (self.blocks, &self.guard.paused) {
            (Some(Block::Paused), Some(Pause { reason, .. })) => {
                format!("DisruptionGuard {name} is paused: {reason}").into()
            }
            _ => {
                let BreakerStatus { out_of_service, permitted, total, .. } = self.breaker;
                let unit = self.guard.breaker.as_ref().map_or("devices", |breaker| breaker.of.plural());
                format!(
                    "DisruptionGuard {name} is tripped: {out_of_service} of {total} {unit} out of service, {permitted} permitted"
                )
                .into()
            }
        }
    }
}

impl Guards {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether one of them wants approval of rules that reach far.
    pub(crate) fn want_approval(&self) -> bool {
        self.list.iter().any(GuardState::wants_approval)
    }

    pub(crate) fn list_mut(&mut self) -> &mut [GuardState] {
        &mut self.list
    }
}

impl Eviction {
    /// These are all guards from now on. What is known of a breaker stays.
    pub(crate) fn set_guards(&mut self, now: Timestamp, guards: &[Arc<DisruptionGuard>]) {
        let mut old = core::mem::take(&mut self.guards.list);
        for guard in guards {
            let known =
                old.iter().position(|state| state.guard.uid == guard.uid).map(|at| old.swap_remove(at));
            let state = match known {
                // A follower goes by what the leader writes.
                Some(known) if self.leader_since.is_some() => {
                    GuardState { guard: guard.clone(), selected: None, ..known }
                }
                Some(_) | None => GuardState::new(guard.clone()),
            };
            self.guards.list.push(state);
        }
        self.guards.counted = None;
        self.holds.restart();
        self.release_guarded(now);
    }

    /// A new leader goes by what the statuses say.
    pub(crate) fn restart_guards(&mut self) {
        for state in &mut self.guards.list {
            *state = GuardState::new(state.guard.clone());
        }
        self.guards.counted = None;
        self.holds.restart();
    }

    /// Finds out which guards block, and lets pods be looked at again when that changes.
    pub(crate) fn mind_guards(&mut self, now: Timestamp, fleet: &Fleet) {
        self.judge_rules(now, fleet);
        // Whoever is released may be about to go, so that devices have to be counted again.
        for _ in 0..2 {
            self.count_devices(now, fleet);
            let mut changed = false;
            for state in &mut self.guards.list {
                let blocks = state.blocked_for(now);
                changed |= core::mem::replace(&mut state.blocks, blocks) != blocks;
            }
            if !changed {
                break;
            }
            self.release_guarded(now);
        }
        self.write_guards(now);
    }

    /// Counts again what is out of service: whenever the fleet has changed and somebody is about to go, and otherwise now and then.
    fn count_devices(&mut self, now: Timestamp, fleet: &Fleet) {
        if self.guards.list.iter().all(|state| state.guard.breaker.is_none()) {
            return;
        }
        let revision = fleet.revision();
        let is_fresh = self.guards.counted.is_some_and(|(of, _)| of == revision);
        let is_recent = self
            .guards
            .counted
            .is_some_and(|(_, when)| when <= now && now < when.plus_millis(COUNTED_EVERY_MS));
        self.guards.stale = !is_fresh;
        if !is_fresh && is_recent && !self.somebody_may_go(now) {
            return;
        }
        let recount = !is_fresh;
        for state in &mut self.guards.list {
            let Some(breaker) = &state.guard.breaker else { continue };
            let count = if recount {
                count(fleet, &state.guard, &breaker.of)
            } else {
                Counted { out: state.breaker.out_of_service, total: state.breaker.total }
            };
            state.breaker = breaker.step(now, state.guard.reset_at, state.breaker, count);
        }
        if recount {
            self.guards.counted = Some((revision, now));
            self.guards.stale = false;
        }
    }

    /// What a guard says to a pod that may go.
    pub(crate) fn guarded(
        &mut self,
        now: Timestamp,
        fleet: &Fleet,
        candidate: Candidate,
    ) -> Option<(Blocked, Timestamp)> {
        if let Some(blocked) = self.held_by_rule(now, candidate) {
            return Some((blocked, Timestamp::NEVER));
        }
        let due: &[Reason] = due_of(&self.pods.get(candidate.pod)?.reasons, now);
        let mut found: Option<(Blocked, Timestamp)> = None;
        for state in &mut self.guards.list {
            let Some(why) = state.blocks else { continue };
            if found.as_ref().is_none_or(|(found, _)| why < found.why)
                && due.iter().any(|reason| state.selects(fleet, reason.device()))
            {
                // What ends before is looked at when devices are counted again, which releases the pod.
                let until = state.ends_at().filter(|at| *at > now).unwrap_or(Timestamp::NEVER);
                found = Some((Blocked { why, message: state.message() }, until));
            }
        }
        found
    }

    /// When guards have to be looked at again.
    pub(crate) fn guard_wake(&self) -> Option<Timestamp> {
        let recount = self.guards.counted.filter(|_| self.guards.stale);
        let recount = recount.map(|(_, when)| when.plus_millis(COUNTED_EVERY_MS));
        let ends = self.guards.list.iter().filter_map(GuardState::ends_at);
        let writes = self.guards.list.iter().filter_map(|state| {
            state.not_before.filter(|_| state.writing.is_none() && state.breaker != state.guard.status)
        });
        let after = |at: &Timestamp| *at > self.latest;
        let holds = self.holds.next_wake(self.latest);
        let recount = recount.map(|at| at.max(self.latest.plus_millis(1)));
        ends.chain(writes).filter(after).chain(recount).chain(holds).min()
    }

    /// Writes the statuses that are not what is known: at once when a breaker trips or is reset.
    fn write_guards(&mut self, now: Timestamp) {
        if !self.options.writes_guards || self.closing {
            return;
        }
        for state in &mut self.guards.list {
            let known = state.guard.status;
            let urgent = known.tripped != state.breaker.tripped;
            let waits = state
                .not_before
                .is_some_and(|at| now < at && (!urgent || at <= now.plus_millis(STATUS_RETRY_MS)));
            if state.guard.breaker.is_none() || state.writing.is_some() || known == state.breaker || waits {
                continue;
            }
            let id = self.flights.new_id();
            state.writing = Some((id, state.breaker));
            state.not_before = Some(now.plus_millis(STATUS_EVERY_MS));
            let write = SetGuardStatus {
                guard: state.guard.name.clone(),
                uid: state.guard.uid.clone(),
                generation: state.guard.generation,
                status: state.breaker,
            };
            self.flights.launch(id, Flight::Guard, EffectKind::SetGuardStatus(write));
        }
    }

    pub(crate) fn acknowledge_guard(&mut self, now: Timestamp, id: EffectId, outcome: Outcome) {
        let written =
            |state: &&mut GuardState| state.writing.as_ref().is_some_and(|(writing, _)| *writing == id);
        let Some(state) = self.guards.list.iter_mut().find(written) else { return };
        let Some((_, status)) = state.writing.take() else { return };
        if outcome == Outcome::Done {
            // The watch will show it, or something newer.
            state.guard = Arc::new(DisruptionGuard { status, ..DisruptionGuard::clone(&state.guard) });
        } else {
            state.not_before = Some(now.plus_millis(STATUS_RETRY_MS));
        }
    }
}
