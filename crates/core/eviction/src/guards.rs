//! Guards: what must hold for any eviction to begin, whoever wants it. The strictest of those that select a device wins.

pub(crate) mod admission;
mod status;

use alloc::{collections::BTreeMap, format, sync::Arc, vec::Vec};

use lazaret_fleet::{About, Fleet, GuardReach, count_out_of_service};
use lazaret_model::{
    BreakerStatus, Counted, DeviceId, DisruptionGuard, GuardPreview, RecentlyOut, Stop, TaintHold, TaintedBy,
    Text, Timestamp, Window, WindowStatus,
};

use crate::{
    Eviction,
    block::{Block, Blocked},
    dispatch::Candidate,
    effect::EffectId,
    guards::status::GuardStatus,
    reason::{Reason, due_of},
};

/// How often devices are counted again while nobody is about to go.
const COUNTED_EVERY_MS: i64 = 1_000;

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
    recent: RecentlyOut,
    windows: Windows,
    /// The reason for which it permits nothing on the devices that it selects, if it does not.
    stop: Option<Stop>,
    /// The devices that it is about, at this revision of the fleet.
    reach: Option<(u64, GuardReach)>,
    /// It is about other devices than when pods were last released.
    is_reach_news: bool,
    /// How much it selects, for its status.
    preview: Option<GuardPreview>,
    /// Taints that no rule sets and that exceed its limits, or were approved.
    pub(crate) taints: BTreeMap<TaintedBy, TaintHold>,
    /// The status write in flight.
    writing: Option<(EffectId, GuardStatus)>,
    /// No status is written before this instant.
    not_before: Option<Timestamp>,
    /// The last write of its status failed.
    has_failed: bool,
}

/// Whether a guard's windows permit that evictions begin.
#[derive(Clone, Copy, Debug)]
struct Windows {
    /// Nothing if the guard has no windows.
    status: Option<WindowStatus>,
    /// From when until when that holds: windows in named time zones are not looked at on every input.
    holds: Option<(Timestamp, Timestamp)>,
}

impl Windows {
    const UNKNOWN: Self = Self { status: None, holds: None };

    fn look(&mut self, now: Timestamp, guard: &DisruptionGuard) {
        if self.holds.is_none_or(|(from, until)| now < from || until <= now) {
            self.status = guard.window_at(now);
            self.holds = Some((now, Window::unchanged_until(&guard.windows, now)));
        }
    }

    fn change_at(&self) -> Option<Timestamp> {
        self.holds.map(|(_, until)| until).filter(|until| *until != Timestamp::NEVER)
    }

    fn opens_at(&self) -> Option<Timestamp> {
        match self.status? {
            WindowStatus::ClosedUntil(at) => Some(at),
            WindowStatus::Open => None,
        }
    }
}

impl GuardState {
    fn new(guard: Arc<DisruptionGuard>) -> Self {
        Self {
            breaker: guard.status,
            recent: RecentlyOut::inherit(&guard.status),
            taints: guard.held.iter().map(|hold| (hold.taint.clone(), hold.clone())).collect(),
            guard,
            windows: Windows::UNKNOWN,
            stop: None,
            reach: None,
            is_reach_news: false,
            preview: None,
            writing: None,
            not_before: None,
            has_failed: false,
        }
    }

    fn stop_at(&mut self, now: Timestamp) -> Option<Stop> {
        self.windows.look(now, &self.guard);
        self.guard.stop(now, self.breaker.tripped, self.windows.status)
    }

    /// When it stops to block if nothing else happens.
    fn ends_at(&self) -> Option<Timestamp> {
        let paused = self.guard.paused.as_ref().and_then(|pause| pause.until);
        let reset = self
            .guard
            .breaker
            .as_ref()
            .and_then(|breaker| Some(self.breaker.below_since?.plus_secs(breaker.reset_after_seconds)));
        match self.stop? {
            Stop::Paused => paused,
            Stop::Breaker => reset,
            Stop::Window => self.windows.opens_at(),
            // Until the fleet or the guard changes.
            Stop::NotUnderstood => None,
        }
    }

    /// When something that was out of service counts no more.
    fn recount_at(&self) -> Option<Timestamp> {
        let window = self.guard.breaker.as_ref()?.window_seconds;
        self.recent.ends(window).map(|(first, _)| first)
    }

    /// Looks up again which devices it is about.
    fn look_at_devices(&mut self, fleet: &Fleet) {
        let revision = fleet.revision();
        if self.reach.as_ref().is_some_and(|(of, _)| *of == revision) {
            return;
        }
        let reach = fleet.guard_reach(&self.guard);
        self.is_reach_news |= self.reach.as_ref().is_none_or(|(_, known)| *known != reach);
        self.preview = Some(fleet.guard_preview(&self.guard, &reach));
        self.reach = Some((revision, reach));
    }

    /// Whether it is about a device, or may be.
    pub(crate) fn selects(&mut self, fleet: &Fleet, device: &DeviceId) -> bool {
        self.look_at_devices(fleet);
        self.reach.as_ref().is_none_or(|(_, reach)| reach.about(device) != About::No)
    }

    /// Why it permits nothing on a device, if it does not.
    fn stop_on(&mut self, fleet: &Fleet, device: &DeviceId) -> Option<Stop> {
        self.look_at_devices(fleet);
        self.reach.as_ref().and_then(|(_, reach)| reach.stop_on(device, self.stop))
    }

    fn message(&self, stop: Stop) -> Text {
        let problem = self.reach.as_ref().and_then(|(_, reach)| reach.problem());
        let problem = problem.map(|problem| format!("{problem}")).unwrap_or_default();
        self.guard.stop_message(stop, &self.breaker, &problem)
    }
}

impl From<Stop> for Block {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::NotUnderstood | Stop::Paused => Self::Paused,
            Stop::Breaker => Self::Breaker,
            Stop::Window => Self::Window,
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

    pub(crate) fn list(&self) -> &[GuardState] {
        &self.list
    }

    pub(crate) fn list_mut(&mut self) -> &mut [GuardState] {
        &mut self.list
    }
}

impl Eviction {
    /// Replaces all guards. The state of breakers is kept.
    pub(crate) fn set_guards(&mut self, now: Timestamp, guards: &[Arc<DisruptionGuard>]) {
        let mut old = core::mem::take(&mut self.guards.list);
        for guard in guards {
            let known =
                old.iter().position(|state| state.guard.uid == guard.uid).map(|at| old.swap_remove(at));
            let state = match known {
                // A follower goes by what the leader writes.
                Some(known) if self.leader_since.is_some() => {
                    let mut breaker = if guard.breaker.is_some() { known.breaker } else { guard.status };
                    // A leader before this one may have counted late.
                    breaker.trips = breaker.trips.max(guard.status.trips);
                    let counts = |guard: &DisruptionGuard| guard.breaker.as_ref().map(|one| one.of.clone());
                    let is_same = counts(&known.guard) == counts(guard);
                    let recent = if is_same { known.recent } else { RecentlyOut::default() };
                    let (guard, windows) = (guard.clone(), Windows::UNKNOWN);
                    GuardState { guard, breaker, recent, windows, reach: None, ..known }
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
        // A pod that is released may be about to leave, so that devices have to be counted again.
        for _ in 0..2 {
            let mut changed = self.count_devices(now, fleet);
            for state in &mut self.guards.list {
                let stop = state.stop_at(now);
                changed |= core::mem::replace(&mut state.stop, stop) != stop;
            }
            if !changed {
                break;
            }
            self.release_guarded(now);
        }
        self.write_guards(now);
    }

    /// Counts again what is out of service, and looks up which devices guards are about: whenever the fleet has changed and a pod is about to
    /// leave, and otherwise now and then. Whether some guard is about other devices now.
    fn count_devices(&mut self, now: Timestamp, fleet: &Fleet) -> bool {
        let revision = fleet.revision();
        let is_fresh = self.guards.counted.is_some_and(|(of, _)| of == revision);
        let is_recent = self
            .guards
            .counted
            .is_some_and(|(_, when)| when <= now && now < when.plus_millis(COUNTED_EVERY_MS));
        let is_over = |state: &GuardState| state.recount_at().is_some_and(|at| at <= now);
        let is_over = self.guards.list.iter().any(is_over);
        self.guards.stale = !is_fresh;
        if !is_over && !is_fresh && is_recent && !self.somebody_may_go(now) {
            return false;
        }
        let recount = !is_fresh || is_over;
        let mut changed = false;
        for state in &mut self.guards.list {
            state.look_at_devices(fleet);
            changed |= core::mem::take(&mut state.is_reach_news);
            let Some(breaker) = &state.guard.breaker else { continue };
            let count = if recount {
                count_out_of_service(now, fleet, &state.guard, breaker, &mut state.recent)
            } else {
                let BreakerStatus { out_of_service: out, total, recent, recent_until, .. } = state.breaker;
                Counted { out, total, recent, recent_until }
            };
            state.breaker = breaker.step(now, state.guard.reset_at, state.breaker, count);
        }
        if recount {
            self.guards.counted = Some((revision, now));
            self.guards.stale = false;
        }
        changed
    }

    /// The guard that blocks a pod which may leave, and until when.
    pub(crate) fn guarded(
        &mut self,
        now: Timestamp,
        fleet: &Fleet,
        candidate: Candidate,
    ) -> Option<(Blocked, Timestamp)> {
        if let Some(held) = self.held_back(now, candidate) {
            return Some(held);
        }
        let due: &[Reason] = due_of(&self.pods.get(candidate.pod)?.reasons, now);
        let mut found: Option<(Stop, Blocked, Timestamp)> = None;
        for state in &mut self.guards.list {
            let Some(stop) = due.iter().filter_map(|reason| state.stop_on(fleet, reason.device())).min()
            else {
                continue;
            };
            if found.as_ref().is_none_or(|(found, ..)| stop < *found) {
                // An earlier end is noticed when devices are counted again, which releases the pod.
                let ends_at = state.ends_at().filter(|at| *at > now && stop != Stop::NotUnderstood);
                let blocked = Blocked { why: stop.into(), message: state.message(stop) };
                found = Some((stop, blocked, ends_at.unwrap_or(Timestamp::NEVER)));
            }
        }
        found.map(|(_, blocked, until)| (blocked, until))
    }

    /// When guards have to be looked at again.
    pub(crate) fn guard_wake(&self) -> Option<Timestamp> {
        let recount = self.guards.counted.filter(|_| self.guards.stale);
        let recount = recount.map(|(_, when)| when.plus_millis(COUNTED_EVERY_MS));
        let ends = self.guards.list.iter().filter_map(GuardState::ends_at);
        let windows = self.guards.list.iter().filter_map(|state| state.windows.change_at());
        let recents = self.guards.list.iter().filter_map(GuardState::recount_at);
        let writes = self.guards.list.iter().filter_map(GuardState::next_write);
        let after = |at: &Timestamp| *at > self.latest;
        let holds = self.holds.next_wake(self.latest);
        let recount = recount.map(|at| at.max(self.latest.plus_millis(1)));
        ends.chain(windows).chain(recents).chain(writes).filter(after).chain(recount).chain(holds).min()
    }
}
