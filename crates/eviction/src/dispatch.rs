//! Who goes now. A pod goes as soon as any of its due reasons permits it: the highest of several rates wins.

use lazaret_fleet::{Fleet, PodIx};
use lazaret_model::Timestamp;

use crate::{
    Eviction,
    distinct::for_each_distinct,
    effect::{EffectKind, Evict, Wake, WakeReason},
    flights::{EvictFlight, Flight},
    pods::Phase,
};

impl Eviction {
    /// Lets a pod wait for its deadline or, once due, for permits. Who does not lead lets nobody wait.
    pub(crate) fn schedule(&mut self, at: PodIx, now: Timestamp) {
        if self.leader_since.is_none() {
            return;
        }
        let mut next = None;
        while let Some(slot) = self.pods.get_mut(at).filter(|slot| slot.phase == Phase::Waiting)
            && let Some(reason) = slot.reasons.get(slot.active as usize)
        {
            let ripe_at = slot.ripe_at(reason);
            if ripe_at > now {
                next = Some(ripe_at);
                break;
            }
            let (deadline, cause) = (reason.deadline, reason.cause_ix);
            slot.active += 1;
            self.paces.enter(self.causes.pace_of(cause), deadline, at.0, now);
        }
        self.pods.set_timer(at, next);
    }

    /// Takes a pod out of all waiting for permits. Its timer stays, for whoever schedules it next.
    pub(crate) fn unschedule(&mut self, at: PodIx, now: Timestamp) {
        let Some(slot) = self.pods.get_mut(at) else { return };
        for reason in &slot.reasons[..core::mem::take(&mut slot.active) as usize] {
            self.paces.leave(self.causes.pace_of(reason.cause_ix), reason.deadline, at.0, now);
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
        while self.flights.evictions < self.options.evictions_in_flight_max {
            if self.ceiling.as_ref().is_some_and(|ceiling| !ceiling.permits(now)) {
                return;
            }
            let Some((pod, granted_by)) = self.next_to_go(now) else { return };
            if self.partial {
                // What is still to be told may be that it can stay. Once looked at it is as the fleet says, so that no pod is
                // looked at for ever.
                self.evaluate(now, fleet, pod);
                if self.next_to_go(now) != Some((pod, granted_by)) {
                    continue;
                }
            }
            self.let_go(now, pod, granted_by);
        }
    }

    /// Who goes next, and by whose permit if one is needed.
    fn next_to_go(&mut self, now: Timestamp) -> Option<(PodIx, Option<u32>)> {
        let (pace, pod) = self.paces.next_permitted(now)?;
        Some((PodIx(pod), pace))
    }

    /// When the next permit comes for somebody who waits for one. Nobody waits for it while as many evictions as
    /// allowed are under way: then an acknowledgement comes first.
    pub(crate) fn permit_wake(&self) -> Option<Wake> {
        if self.flights.evictions >= self.options.evictions_in_flight_max {
            return None;
        }
        let first = self.paces.next_wake(self.latest)?;
        let ceiling = self.ceiling.as_ref().map_or(first, |ceiling| ceiling.next_permit(self.latest));
        if ceiling == Timestamp::NEVER {
            None
        } else if ceiling > first {
            Some(Wake { at: ceiling, why: WakeReason::Ceiling })
        } else {
            Some(Wake { at: first, why: WakeReason::Pace })
        }
    }

    /// Every due taint is charged, whoever granted the permit: so pods with several taints leave at the highest of the
    /// rates and not at their sum.
    fn let_go(&mut self, now: Timestamp, at: PodIx, granted_by: Option<u32>) {
        let Some(due) = self.pods.get(at).map(|slot| slot.active as usize) else { return };
        self.unschedule(at, now);
        self.pods.set_timer(at, None);
        if let Some(slot) = self.pods.get(at) {
            let (causes, paces) = (&self.causes, &mut self.paces);
            let charged = slot.reasons[..due].iter().filter_map(|reason| causes.pace_of(reason.cause_ix));
            for_each_distinct(charged, |pace| paces.take(pace, now));
        }
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.take(now);
        }
        if let Some(pace) = granted_by {
            self.paces.hold(pace);
        }
        let id = self.flights.new_id();
        let Some(slot) = self.pods.get_mut(at) else { return };
        slot.phase = Phase::InFlight(id);
        let pod = &slot.pod;
        let evict = Evict {
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            node: pod.node.clone().unwrap_or_default(),
            due: slot.reasons.first().map_or(now, |reason| reason.deadline),
            reasons: slot.reasons.clone(),
            decided: now,
            granted_by: granted_by.and_then(|pace| self.paces.key(pace).cloned()),
        };
        let flight = EvictFlight {
            at,
            pod: pod.clone(),
            reasons: slot.reasons.clone(),
            decided: now,
            pace: granted_by,
            taken: false,
            before: None,
        };
        self.flights.launch(id, Flight::Evict(flight), EffectKind::Evict(evict));
    }

    /// Withdraws an eviction that nobody has taken yet; it certainly does not happen.
    pub(crate) fn retract(&mut self, now: Timestamp, at: PodIx) {
        let Some(slot) = self.pods.get_mut(at) else { return };
        let Phase::InFlight(id) = slot.phase else { return };
        if self.flights.is_retractable(id) {
            slot.phase = Phase::Waiting;
            if let Some(Flight::Evict(flight)) = self.flights.land(id) {
                self.give_back(now, &flight);
            }
        }
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
