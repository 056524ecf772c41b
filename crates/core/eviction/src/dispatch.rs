//! Chooses the pods that leave now. A pod leaves as soon as any of its due reasons permits it: the highest of several rates wins.

use alloc::vec::Vec;

use lazaret_fleet::{Fleet, PodIx};
use lazaret_invariant::invariant;
use lazaret_model::Timestamp;

use crate::{
    Eviction,
    block::{Block, Blocked},
    causes::Queue,
    distinct::for_each_distinct,
    effect::{EffectKind, Evict, Manner, Wake, WakeReason},
    flights::{EvictFlight, Flight},
    groups::Party,
    pods::Phase,
};

/// Why a pod waits for a window.
pub(crate) const NO_WINDOW: &str = "no window of the rule is open";

/// A pod that may go now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) pod: PodIx,
    /// The pace that permits it, if one is needed.
    pub(crate) pace: Option<u32>,
    /// The cause in whose line it waited, if it waited in one.
    pub(crate) line: Option<u32>,
}

impl Eviction {
    /// Queues a pod for its deadline or, once due, for permits. A follower queues no pod.
    pub(crate) fn schedule(&mut self, at: PodIx, now: Timestamp) {
        if self.leader_since.is_none() {
            return;
        }
        if self.pods.get(at).is_some_and(|slot| slot.settled.is_some()) {
            return self.mind_finalizer(now, at);
        }
        if !self.is_named(now, at) {
            // The acknowledgement of the status that names it schedules it.
            self.unschedule(at, now);
            return self.pods.set_timer(at, None);
        }
        let mut next = None;
        while let Some(slot) = self.pods.get_mut(at).filter(|slot| slot.phase == Phase::Waiting)
            && let Some(reason) = slot.reasons.get(slot.active as usize)
        {
            let ripe_at = slot.ripe_at(reason);
            if ripe_at > now {
                next = (ripe_at != Timestamp::NEVER).then_some(ripe_at);
                break;
            }
            let (deadline, cause) = (reason.deadline, reason.cause_ix);
            slot.active += 1;
            match self.causes.queue_of(cause) {
                Queue::Pace(pace) => self.paces.enter(pace, deadline, at.0, now),
                Queue::Line => self.lines.enter(cause, &slot.pod, at),
            }
        }
        self.pods.set_timer(at, next);
    }

    /// Takes a pod out of all waiting for permits. Its timer stays, for whoever schedules it next.
    pub(crate) fn unschedule(&mut self, at: PodIx, now: Timestamp) {
        let Some(slot) = invariant!(self.pods.get_mut(at), "a pod that is planned has a slot") else {
            return;
        };
        for reason in &slot.reasons[..core::mem::take(&mut slot.active) as usize] {
            match self.causes.queue_of(reason.cause_ix) {
                Queue::Pace(pace) => self.paces.leave(pace, reason.deadline, at.0, now),
                Queue::Line => self.lines.leave(reason.cause_ix, at),
            }
        }
    }

    /// Pods whose deadline has come wait for a permit from now on.
    pub(crate) fn wake_pods(&mut self, now: Timestamp) {
        while let Some((when, at)) = self.pods.next_timer() {
            if when > now {
                return;
            }
            self.pods.set_timer(at, None);
            self.schedule(at, now);
        }
    }

    /// Lets go whoever may go.
    pub(crate) fn dispatch(&mut self, now: Timestamp, fleet: &Fleet) {
        self.lines.end_doubts(now);
        while self.flights.evictions < self.options.evictions_in_flight_max {
            if self.ceiling.as_ref().is_some_and(|ceiling| !ceiling.permits(now)) {
                return;
            }
            let Some(candidate) = self.next_to_go(now) else { return };
            if self.partial {
                // News that are still to come may spare the pod. After this it is as the fleet says, so that no pod is evaluated for ever.
                self.evaluate(now, fleet, candidate.pod);
                if self.next_to_go(now) != Some(candidate) {
                    continue;
                }
            }
            if self.holds.are_stale() || self.holds.lack_taints(&self.causes, &self.guards) {
                // A pod was released since rules were looked at.
                self.holds.restart();
                self.judge_rules(now, fleet);
                self.write_guards(now);
                continue;
            }
            if !self.guards.is_empty()
                && let Some((blocked, until)) = self.guarded(now, fleet, candidate)
            {
                self.block(now, candidate.pod, blocked, until);
                continue;
            }
            if candidate.line.is_some()
                && let Some(until) = self.closed_until(now, candidate.pod)
            {
                let blocked = Blocked { why: Block::Window, message: NO_WINDOW.into() };
                self.block(now, candidate.pod, blocked, until);
                continue;
            }
            self.note_permitted(now, candidate.pod);
            match self.party(now, fleet, candidate) {
                Party::None => {
                    if candidate.line.is_none() || self.has_room(now, &[candidate.pod]) {
                        self.let_go(now, candidate, false);
                    }
                }
                Party::Others(others) => {
                    let all: Vec<PodIx> = [candidate.pod].into_iter().chain(others).collect();
                    if self.has_room(now, &all) {
                        self.let_go_together(now, candidate, &all[1..]);
                    }
                }
                Party::Waits(message) => self.block_party(now, candidate, &message),
            }
        }
    }

    /// A whole group goes, by the permit of one of its pods.
    fn let_go_together(&mut self, now: Timestamp, candidate: Candidate, others: &[PodIx]) {
        if let Some(cause) = candidate.line {
            self.groups.set_waiting(cause, candidate.pod, false);
        }
        self.let_go(now, candidate, true);
        for &pod in others {
            self.release_from_group(now, pod);
            self.let_go(now, Candidate { pod, ..candidate }, true);
        }
    }

    /// The next pod to leave, and the pace that permits it if one is needed.
    fn next_to_go(&mut self, now: Timestamp) -> Option<Candidate> {
        match self.paces.next_permitted(now) {
            Some((pace, pod)) => Some(Candidate { pod: PodIx(pod), pace, line: None }),
            None => self.next_in_line(now),
        }
    }

    /// Whether somebody has a permit, or needs none.
    pub(crate) fn somebody_may_go(&mut self, now: Timestamp) -> bool {
        self.flights.evictions < self.options.evictions_in_flight_max && self.next_to_go(now).is_some()
    }

    /// When the next permit comes for a pod that waits for one. None while as many evictions as allowed are in flight: then an acknowledgement comes
    /// first.
    pub(crate) fn permit_wake(&self) -> Option<Wake> {
        if self.flights.evictions >= self.options.evictions_in_flight_max {
            return None;
        }
        let first = self.paces.next_wake(self.latest).into_iter().chain(self.line_wake(self.latest)).min()?;
        let ceiling = self.ceiling.as_ref().map_or(first, |ceiling| ceiling.next_permit(self.latest));
        if ceiling == Timestamp::NEVER {
            None
        } else if ceiling > first {
            Some(Wake { at: ceiling, why: WakeReason::Ceiling })
        } else {
            Some(Wake { at: first, why: WakeReason::Pace })
        }
    }

    /// Every due taint is charged, whichever granted the permit: so pods with several taints leave at the highest of the rates and not at their sum.
    /// Permits that are missing for pods of a group are owed.
    fn let_go(&mut self, now: Timestamp, candidate: Candidate, in_group: bool) {
        let Candidate { pod: at, pace: granted_by, line } = candidate;
        let manner = if line.is_some() { self.manner(now, candidate) } else { Manner::Delete };
        let Some(due) =
            invariant!(self.pods.get(at).map(|slot| slot.active as usize), "a candidate has a slot")
        else {
            return;
        };
        self.unschedule(at, now);
        self.pods.set_timer(at, None);
        if let Some(slot) = self.pods.get(at) {
            let (causes, paces) = (&self.causes, &mut self.paces);
            let charged = slot.reasons[..due].iter().filter_map(|reason| causes.pace_of(reason.cause_ix));
            for_each_distinct(
                charged,
                |pace| {
                    if in_group { paces.owe(pace, now) } else { paces.take(pace, now) }
                },
            );
            self.lines.set_out(at, &slot.reasons[..due]);
        }
        if let Some(ceiling) = &mut self.ceiling {
            if in_group {
                ceiling.take_together(1, now);
            } else {
                ceiling.take(now);
            }
        }
        if let Some(pace) = granted_by {
            self.paces.hold(pace);
        }
        let Some(slot) = invariant!(self.pods.get_mut(at), "a candidate has a slot") else { return };
        let pod = &slot.pod;
        let evict = Evict {
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            node: pod.node.clone().unwrap_or_default(),
            due: slot.reasons.first().map_or(now, |reason| reason.deadline),
            reasons: slot.reasons.clone(),
            decided: now,
            granted_by: granted_by.and_then(|pace| self.paces.key(pace).cloned()),
            manner,
        };
        let flight = EvictFlight {
            at,
            pod: pod.clone(),
            reasons: slot.reasons.clone(),
            decided: now,
            pace: granted_by,
            manner,
            before: None,
            without_room: slot.blocked.as_ref().is_some_and(|blocked| blocked.why == Block::Capacity)
                && slot.reasons[..due].iter().all(|reason| reason.cause.wants_capacity()),
        };
        slot.phase = Phase::InFlight(self.flights.launch(Flight::Evict(flight), EffectKind::Evict(evict)));
    }

    /// Withdraws an eviction that nobody has taken yet; it certainly does not happen.
    pub(crate) fn retract(&mut self, now: Timestamp, at: PodIx) {
        let Some(slot) = invariant!(self.pods.get_mut(at), "a pod that is planned has a slot") else {
            return;
        };
        let Phase::InFlight(id) = slot.phase else { return };
        if self.flights.is_retractable(id) {
            slot.phase = Phase::Waiting;
            if let Some(Flight::Evict(flight)) = self.flights.land(id) {
                self.give_back(now, &flight);
                self.stays(now, at);
            }
        }
    }

    /// An attempt on a pod certainly came to nothing. It counts as terminating no more, unless one before may have succeeded.
    pub(crate) fn stays(&mut self, now: Timestamp, at: PodIx) {
        if self.pods.get(at).is_none_or(|slot| slot.uncertain.is_none()) {
            self.lines.came_back(at);
        } else {
            self.doubt(now, at);
        }
    }

    /// An attempt on a pod may have succeeded. It counts as terminating until it would be seen to be.
    pub(crate) fn doubt(&mut self, now: Timestamp, at: PodIx) {
        self.lines.doubt(at, now.plus_millis(self.options.doubt_ms_max));
    }

    /// The eviction certainly did not happen: its permits can be used again.
    pub(crate) fn give_back(&mut self, now: Timestamp, flight: &EvictFlight) {
        if let Some(pace) = flight.pace {
            self.paces.release(pace, true, now);
        }
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.refund(now);
        }
    }
}
