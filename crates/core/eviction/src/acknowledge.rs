//! The outcomes of effects, and the counts of evictions.

use alloc::boxed::Box;

use lazaret_fleet::PodIx;
use lazaret_invariant::invariant;
use lazaret_model::{Text, Timestamp, Uid};

use crate::{
    Eviction,
    blame::Blame,
    block::{Block, Blocked},
    effect::{EVENT_REASON, EffectId, EffectKind, Manner, Outcome, PodEvent},
    flights::{EvictFlight, Flight},
    pods::Phase,
    reason::{Source, due_of, spell_out},
};

impl Eviction {
    pub(crate) fn acknowledge(&mut self, now: Timestamp, id: EffectId, outcome: Outcome) {
        match self.flights.land(id) {
            Some(Flight::Evict(flight)) => self.acknowledge_eviction(now, &flight, outcome),
            Some(Flight::Status { rule, uid, .. }) => self.acknowledge_status(now, rule, &uid, outcome),
            Some(Flight::Memory { claim, uid }) => self.acknowledge_memory(now, claim, &uid, outcome),
            Some(Flight::Guard) => self.acknowledge_guard(now, id, outcome),
            Some(Flight::Capacity { waiting, wanted }) => {
                self.room_answered(now, id, &waiting, wanted, outcome == Outcome::Done);
            }
            Some(Flight::Stale { pod, uid }) => {
                if matches!(outcome, Outcome::Done | Outcome::Gone) {
                    self.see_leaving(now, pod, &uid);
                }
            }
            // Acknowledged before.
            None => {}
        }
    }

    fn acknowledge_eviction(&mut self, now: Timestamp, flight: &EvictFlight, outcome: Outcome) {
        let present = self.pods.get(flight.at).is_some_and(|slot| slot.pod.uid == flight.pod.uid);
        if !present {
            self.forget_orphan(flight);
        }
        match outcome {
            Outcome::Done => {
                self.release(now, flight);
                self.unblock(flight.at);
                self.count_due(flight);
                self.remember_for_brake(now, flight);
                self.announce_eviction(flight);
                self.see_leaving(now, flight.at, &flight.pod.uid);
            }
            Outcome::Gone => {
                self.give_back(now, flight);
                self.see_leaving(now, flight.at, &flight.pod.uid);
            }
            Outcome::Conflict | Outcome::Refused | Outcome::Held | Outcome::RetryLater => {
                self.give_back(now, flight);
                self.stays(now, flight.at);
                self.unblock(flight.at);
                let spared = self.fail(now, flight, present);
                if spared && let Some(slot) = self.pods.get(flight.at) {
                    let pod = slot.pod.clone();
                    self.say_spared(&pod);
                }
            }
            Outcome::Unknown => {
                self.release(now, flight);
                let blame = Blame::of(&flight.reasons, flight.decided);
                if present && let Some(slot) = self.pods.get_mut(flight.at) {
                    slot.uncertain = Some(Box::new(blame.or(slot.uncertain.take().map(|before| *before))));
                } else {
                    // The pod is gone, and any of the attempts on it may have been why, or none.
                    self.may_have_missed(now, &flight.pod.uid, &blame.or(flight.before.clone()));
                }
                self.doubt(now, flight.at);
                self.fail(now, flight, present);
            }
        }
        if let Some(blame) = &flight.before {
            // Counted already if this attempt was why.
            self.may_have_missed(now, &flight.pod.uid, blame);
        }
        if present {
            self.settle(flight.at);
            self.drop_if_blank(flight.at);
        }
    }

    /// A disruption budget or the server refused: the pod stays until it is asked again, or until the rule's deadline.
    pub(crate) fn acknowledge_held(&mut self, now: Timestamp, id: EffectId, by: Block, why: Text) {
        if by == Block::Refused && !self.flights.is_eviction(id) {
            return self.acknowledge(now, id, Outcome::Refused);
        }
        let flight = match self.flights.land(id) {
            Some(Flight::Evict(flight)) => flight,
            Some(Flight::Capacity { waiting, wanted }) => {
                return self.room_refused(now, id, &waiting, &wanted, &why);
            }
            Some(Flight::Status { .. } | Flight::Memory { .. } | Flight::Guard | Flight::Stale { .. })
            // No budget refuses these.
            | None => return,
        };
        self.forget_orphan(&flight);
        self.give_back(now, &flight);
        // A pod whose eviction was refused is not terminating.
        self.lines.came_back(flight.at);
        let present = self.pods.get(flight.at).is_some_and(|slot| slot.pod.uid == flight.pod.uid);
        if self.fail(now, &flight, present)
            && let Some(slot) = self.pods.get(flight.at)
        {
            let pod = slot.pod.clone();
            self.say_spared(&pod);
        }
        if let Some(blame) = &flight.before {
            self.may_have_missed(now, &flight.pod.uid, blame);
        }
        if !present {
            return;
        }
        if let Some(slot) = self.pods.get_mut(flight.at).filter(|slot| !slot.reasons.is_empty()) {
            slot.asked_since.get_or_insert(now);
            let again = now.plus_millis(self.options.budget_retry_ms(slot.failures));
            let ends = slot.reasons.iter().filter_map(|reason| slot.is_deleted_at(reason));
            let until = ends.filter(|end| *end > now).fold(again, Timestamp::min);
            self.block(now, flight.at, Blocked { why: by, message: why }, until);
        }
        self.settle(flight.at);
        self.drop_if_blank(flight.at);
    }

    fn release(&mut self, now: Timestamp, flight: &EvictFlight) {
        if let Some(pace) = flight.pace {
            self.paces.release(pace, false, now);
        }
    }

    /// The pod waits for the next attempt. Returns whether it is spared: alive, and nothing makes it leave any more.
    fn fail(&mut self, now: Timestamp, flight: &EvictFlight, present: bool) -> bool {
        if !present {
            return false;
        }
        let Some(slot) = invariant!(self.pods.get_mut(flight.at), "a pod that is present has a slot") else {
            return false;
        };
        slot.phase = Phase::Waiting;
        let alive = slot.pod.deleting_since.is_none() && !slot.pod.phase.is_finished();
        if slot.reasons.is_empty() {
            return alive;
        }
        slot.failures = slot.failures.saturating_add(1);
        slot.not_before = Some(now.plus_millis(self.options.retry_ms(slot.failures)));
        self.schedule(flight.at, now);
        false
    }

    /// The pod is leaving, though it may not look so yet: it will be left alone. An attempt before, of which nobody
    /// knows the outcome, may have been why; that is settled when the pod is next seen.
    fn see_leaving(&mut self, now: Timestamp, at: PodIx, uid: &Uid) {
        self.left.insert(uid.clone());
        if self.pods.get(at).is_none_or(|slot| slot.pod.uid != *uid) {
            return;
        }
        self.unplan(now, at);
        if let Some(slot) = self.pods.get_mut(at) {
            slot.phase = Phase::Leaving;
            slot.failures = 0;
            slot.not_before = None;
        }
    }

    /// Counts an eviction for each of these rules; once, however often it is heard of.
    pub(crate) fn count(&mut self, uid: &Uid, blame: &Blame) {
        if self.counted.insert(uid.clone()) {
            let counted = &mut self.rules;
            blame.rules.iter().for_each(|(name, uid)| counted.count_eviction(name, uid, blame.decided));
            self.rules.settle_named(uid, &blame.rules);
        }
    }

    /// A pod is gone after attempts with an unknown outcome. If they were for the same rules and recent, one of them was why. Else nobody knows
    /// for which rules it left, or whether: it is not counted, and their counts are no longer exact.
    pub(crate) fn may_have_missed(&mut self, now: Timestamp, uid: &Uid, blame: &Blame) {
        let is_recent = now <= blame.decided.plus_millis(self.options.doubt_ms_max);
        if self.options.records_evictions && is_recent && !blame.is_mixed {
            self.count(uid, blame);
        } else if !self.counted.contains(uid) {
            self.rules.may_have_missed(&blame.rules);
        }
        self.rules.touch_all(&blame.rules);
    }

    /// Counts an eviction for each rule that was due. Almost always that is one, and needs no list.
    fn count_due(&mut self, flight: &EvictFlight) {
        let (uid, decided) = (&flight.pod.uid, flight.decided);
        match due_of(&flight.reasons, decided) {
            [only] => {
                if self.counted.insert(uid.clone())
                    && let Source::Rule { name, uid: rule } = &only.cause.source
                {
                    self.rules.count_eviction(name, rule, decided);
                    self.rules.settle_named_by(flight.at, uid, name);
                }
            }
            _ => self.count(uid, &Blame::of(&flight.reasons, decided)),
        }
    }

    fn remember_for_brake(&mut self, now: Timestamp, flight: &EvictFlight) {
        if let Some(owner) = &flight.pod.owner {
            for reason in due_of(&flight.reasons, flight.decided) {
                self.brake.note(now, &self.options, &owner.uid, reason);
            }
        }
    }

    fn announce_eviction(&mut self, flight: &EvictFlight) {
        let words = match flight.manner {
            Manner::Delete | Manner::Evict if flight.without_room => {
                "Marking for deletion, though there is no room for its replacement: "
            }
            Manner::Delete | Manner::Evict => "Marking for deletion: ",
            Manner::DeleteOverdue => {
                "Marking for deletion, for the deadline until which disruption budgets are obeyed is over: "
            }
        };
        let message = spell_out(words, due_of(&flight.reasons, flight.decided));
        let event = PodEvent {
            pod: flight.pod.key.clone(),
            uid: flight.pod.uid.clone(),
            reason: EVENT_REASON,
            message: message.into(),
        };
        self.flights.announce(EffectKind::Event(event), self.options.events_queued_max);
    }
}
