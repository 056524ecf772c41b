//! Writes of eviction controllers on their way to the server and back.

use std::sync::Arc;

use lazaret_eviction::{
    CapacityAnswer, CapacityQuestion, Effect, EffectId, EffectKind, Evict, Input, Manner, Outcome,
    RuleStatus, SetLastPublished, SetRuleStatus,
};
use lazaret_leader::EffectEnd;
use lazaret_model::{Condition, ConditionStatus, DeviceTaintRule, ResourceClaim, Text};

use crate::{
    actors::{budgets::permits, controller::new_capacity},
    api::Refused,
    check::Moved,
    coverage::Mark,
    mutant::Mutant,
    world::{Errors, Step, World},
};

/// In a thousand acknowledgements as many come twice.
const REPEATED_ACK_PERMILLE: u64 = 30;
/// In one of as many spans of errors it is the effect that panics.
const PANICS_ONE_IN: u32 = 3;

/// A write that was given up arrives within this time: a lease is over by then.
const LATE_MS_MAX: u64 = 25_000;
/// Such writes arrive at times that are apart.
const LATE_STRIDE: u64 = 7_919;

/// A write on its way.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) controller: usize,
    pub(crate) process: u64,
    pub(crate) life: u64,
    pub(crate) effect: Effect,
    pub(crate) outcome: Outcome,
    /// A disruption budget refused.
    pub(super) held: bool,
    /// Whether there is room, and why not, if that was asked.
    pub(super) room: Option<Result<(), Text>>,
    /// An answer that was given before.
    pub(super) echo: bool,
    /// The sender gave it up before it arrived.
    pub(super) is_late: bool,
}

impl World {
    /// The last look at the lease, then the write goes out.
    pub(crate) fn send(&mut self, mut sent: Box<Sent>) {
        let number = sent.controller;
        if self.is_cut_off(&sent) {
            return;
        }
        let wire = self.controllers[number].rng.below(u64::from(self.config.latency_ms) / 2 + 1);
        if let EffectKind::AskCapacity(question) = &sent.effect.kind {
            let question = question.clone();
            let fails = self.errors.is_some_and(|errors| errors.until > self.now && errors.manner % 5 == 0);
            // An agent that was given up has nothing to answer by.
            let is_known = sent.life == self.controllers[number].life;
            sent.outcome = Outcome::RetryLater;
            sent.room = (!fails && is_known).then(|| self.ask_capacity(number, &question));
            return self.push(self.now + wire, Step::Answer(sent));
        }
        if self.believed(number).is_some() || self.mutant == Some(Mutant::NoLease) {
            self.push(self.now + wire, Step::Arrive(sent));
            return;
        }
        self.coverage.hit(Mark::Withheld);
        sent.outcome = EffectEnd::Withheld.outcome();
        self.push(self.now + wire, Step::Answer(sent));
    }

    /// The write reaches the server, or not.
    pub(crate) fn arrive(&mut self, mut sent: Box<Sent>) {
        if sent.is_late {
            self.coverage.hit(Mark::LateCount);
            let _unheard = self.perform(&sent);
            return;
        }
        self.check_writer(&sent);
        let number = sent.controller;
        let fault = self.errors.filter(|errors| errors.until > self.now && self.rng.chance(errors.permille));
        sent.outcome = match fault.map(|errors| errors.manner % 5) {
            None if self.is_refused(&sent) => {
                self.coverage.hit(Mark::BudgetRefused);
                sent.held = true;
                Outcome::RetryLater
            }
            None => self.perform(&sent),
            Some(_) if matches!(sent.effect.kind, EffectKind::SetGuardStatus(_)) => {
                // Its sender gives it up, and another may lead when it arrives.
                let EffectId(number) = sent.effect.id;
                let late = Sent { effect: sent.effect.clone(), room: None, is_late: true, ..*sent };
                let arrives = self.now + number.wrapping_mul(LATE_STRIDE) % LATE_MS_MAX;
                self.push(arrives, Step::Arrive(Box::new(late)));
                Outcome::Unknown
            }
            Some(0) => {
                self.coverage.hit(Mark::FailedWrite);
                Outcome::RetryLater
            }
            Some(1) => {
                self.coverage.hit(Mark::FailedWrite);
                Outcome::Conflict
            }
            // A write that a budget refuses is not carried out, though the refusal is not received.
            Some(2) if !self.is_refused(&sent) => {
                self.coverage.hit(Mark::UnknownDone);
                let _unheard = self.perform(&sent);
                Outcome::Unknown
            }
            Some(2 | 3) => {
                self.coverage.hit(Mark::UnknownNotDone);
                Outcome::Unknown
            }
            Some(_) => {
                if let EffectKind::Evict(evict) = &sent.effect.kind {
                    self.coverage.hit(Mark::HalfDone);
                    self.mark_pod(evict);
                    self.note_uncertain(evict);
                }
                Outcome::Unknown
            }
        };
        let panics = |errors: Errors| errors.manner / 5 % PANICS_ONE_IN == 1;
        if fault.is_some_and(panics) {
            self.coverage.hit(Mark::EffectPanicked);
            sent.outcome = EffectEnd::Panicked.outcome();
            if self.mutant == Some(Mutant::PanicSwallowed) {
                return;
            }
        }
        let back = self.controllers[number].rng.below(u64::from(self.config.latency_ms) / 2 + 1);
        if self.controllers[number].rng.chance(REPEATED_ACK_PERMILLE) && !self.resting {
            self.coverage.hit(Mark::RepeatedAck);
            let again = Sent { effect: sent.effect.clone(), room: None, echo: true, ..*sent };
            self.push(self.now + back + 500, Step::Answer(Box::new(again)));
        }
        self.push(self.now + back, Step::Answer(sent));
    }

    /// Whether nobody waits for a write any more, and nobody sends it: its process is dead, or its agent was given up long ago.
    fn is_cut_off(&self, sent: &Sent) -> bool {
        let controller = &self.controllers[sent.controller];
        controller.process != sent.process || controller.cut_off.is_some_and(|last| sent.life <= last)
    }

    pub(crate) fn answer(&mut self, sent: &Sent) {
        let number = sent.controller;
        if self.is_cut_off(sent) || !self.controllers[number].is_up {
            return;
        }
        let controller = &mut self.controllers[number];
        if !sent.echo {
            let now = controller.clock(self.now);
            controller.turn.landed(now);
        }
        if controller.life != sent.life {
            // It is of an agent that was given up.
            return self.begin_anew(number);
        }
        self.check_answer(sent);
        if let EffectKind::Evict(evict) = &sent.effect.kind {
            let pod = self.api.pods.number(&evict.pod);
            self.moved = Some(Moved { client: number, pod, devices: false });
        }
        self.say(format_args!("controller {number} hears {:?}", sent.outcome));
        let effect = sent.effect.id;
        if let EffectKind::AskCapacity(question) = &sent.effect.kind {
            self.note_room(number, question, sent.room == Some(Ok(())));
        }
        let ignores = self.mutant == Some(Mutant::IgnoreCapacity);
        let input = if let Some(room) = &sent.room {
            match room {
                Err(why) if !ignores => Input::Held { effect, why: why.clone() },
                Ok(()) | Err(_) => Input::Acknowledged { effect, outcome: Outcome::Done },
            }
        } else if sent.held {
            if let EffectKind::Evict(evict) = &sent.effect.kind {
                self.note_refused(number, &evict.uid);
            }
            Input::Held { effect, why: "a budget refuses".into() }
        } else {
            Input::Acknowledged { effect, outcome: sent.outcome }
        };
        self.feed(number, input);
        self.end_if_all_is_said(number);
    }

    /// Whether there is room for replacements, as far as a controller has heard of the world.
    fn ask_capacity(&mut self, number: usize, question: &CapacityQuestion) -> Result<(), Text> {
        let now = self.controllers[number].clock(self.now);
        let mut fleet = self.clients[number].fleet.clone();
        if self.mutant == Some(Mutant::PromiseTwice) {
            self.controllers[number].capacity = new_capacity();
        }
        self.forget_promises(number, question);
        match self.controllers[number].capacity.ask(now, &mut fleet, question) {
            CapacityAnswer::Room(promised) => {
                self.check_promises(number, question, &promised);
                Ok(())
            }
            CapacityAnswer::NoRoom(why) => {
                self.coverage.hit(Mark::NoRoom);
                Err(why)
            }
            CapacityAnswer::Gone => Err("a pod is gone".into()),
        }
    }

    /// Whether a disruption budget refuses. An eviction of somebody who is leaving or gone is moot before it is refused.
    fn is_refused(&self, sent: &Sent) -> bool {
        let EffectKind::Evict(evict) = &sent.effect.kind else { return false };
        let stored = self.api.pods.get(&evict.pod).filter(|stored| stored.object.uid == evict.uid);
        let staying = stored.map(|stored| stored.object).filter(|pod| pod.deleting_since.is_none());
        evict.manner == Manner::Evict
            && self.mutant != Some(Mutant::IgnoreBudget)
            && staying.and_then(|pod| self.budget_of(pod)).is_some_and(|budget| !permits(budget))
    }

    fn perform(&mut self, sent: &Sent) -> Outcome {
        match &sent.effect.kind {
            EffectKind::Evict(evict) => self.perform_eviction(evict),
            EffectKind::SetRuleStatus(status) => self.perform_status(status),
            EffectKind::SetLastPublished(write) => self.perform_memory(write),
            EffectKind::SetGuardStatus(write) => self.perform_guard(write),
            EffectKind::AskCapacity(_)
            | EffectKind::Event(_)
            | EffectKind::RuleEvent(_)
            | EffectKind::GuardEvent(_) => Outcome::Done,
        }
    }

    fn perform_eviction(&mut self, evict: &Evict) -> Outcome {
        let careless = self.mutant == Some(Mutant::IgnoreUid);
        let stored =
            self.api.pods.get(&evict.pod).filter(|stored| careless || stored.object.uid == evict.uid);
        let Some(stored) = stored.filter(|stored| stored.object.deleting_since.is_none()) else {
            self.coverage.hit(Mark::EvictionMoot);
            return if self.mutant == Some(Mutant::CountGone) { Outcome::Done } else { Outcome::Gone };
        };
        let uid = stored.object.uid.clone();
        if !careless {
            self.mark_pod(evict);
        }
        match self.api.delete_pod(self.now, &evict.pod, Some(&uid)) {
            Ok(_) => {
                self.coverage.hit(Mark::EvictionDone);
                self.check_deleted(evict, &uid);
                if evict.manner == Manner::Evict {
                    self.note_disruption(&evict.pod);
                }
                Outcome::Done
            }
            Err(Refused::NotFound) => Outcome::Gone,
            Err(Refused::Conflict | Refused::Exists) => Outcome::Conflict,
        }
    }

    /// Adds the condition that says why a pod goes.
    fn mark_pod(&mut self, evict: &Evict) {
        let live = self.api.pods.get(&evict.pod).is_some_and(|stored| stored.object.deleting_since.is_none());
        if live {
            self.api.edit_pod(&evict.pod, &evict.uid, |pod| {
                set_condition(&mut pod.conditions, &evict.condition());
                pod.evicted_by = Some(Box::new(evict.mark()));
            });
        }
    }

    fn perform_memory(&mut self, write: &SetLastPublished) -> Outcome {
        let stored = self.api.claims.get(&write.claim).filter(|stored| stored.object.uid == write.uid);
        let Some(stored) = stored else { return Outcome::Gone };
        self.coverage.hit(if write.devices.is_empty() { Mark::MemoryRemoved } else { Mark::MemoryWritten });
        if self.mutant != Some(Mutant::ForgetVanished) {
            let last_published = write.devices.clone();
            let claim = ResourceClaim { last_published, ..ResourceClaim::clone(stored.object) };
            self.api.claims.put(&mut self.api.versions, claim);
        }
        Outcome::Done
    }

    fn perform_status(&mut self, status: &SetRuleStatus) -> Outcome {
        let Some(stored) = self.api.rules.get(&status.rule).filter(|stored| stored.object.uid == status.uid)
        else {
            return Outcome::Gone;
        };
        let before = Arc::clone(stored.object);
        let mut rule = DeviceTaintRule::clone(&before);
        let RuleStatus {
            condition,
            mut drained,
            blocked,
            expired,
            held,
            mut evictions,
            mut evicting,
            effective_since,
        } = status.status.clone();
        if self.mutant == Some(Mutant::StuckStatus) && condition.status == ConditionStatus::False {
            return Outcome::Done;
        }
        if self.mutant == Some(Mutant::CountTwice) {
            evictions.pods += 1;
        }
        if self.mutant == Some(Mutant::NeverDrained) {
            drained.status = ConditionStatus::False;
        }
        self.check_status(&before, status);
        set_condition(&mut rule.conditions, &condition);
        set_condition(&mut rule.conditions, &drained);
        if let Some(blocked) = &blocked {
            self.coverage.hit(Mark::BlockedStatus);
            set_condition(&mut rule.conditions, blocked);
        }
        if let Some(expired) = &expired {
            self.coverage.hit(Mark::ExpiredStatus);
            set_condition(&mut rule.conditions, expired);
        }
        if let Some(held) = &held {
            if held.status == ConditionStatus::True {
                self.coverage.hit(Mark::Held);
                if &*held.reason == "ApprovalLapsed" {
                    self.coverage.hit(Mark::ApprovalLapsed);
                }
            }
            set_condition(&mut rule.conditions, held);
        }
        rule.evictions = Some(evictions);
        if self.mutant == Some(Mutant::ForgetEvicting) {
            evicting.clear();
        }
        rule.evicting = evicting;
        rule.effective_since = effective_since;
        self.api.rules.put(&mut self.api.versions, rule);
        Outcome::Done
    }
}

fn set_condition(conditions: &mut Vec<Condition>, condition: &Condition) {
    match conditions.iter_mut().find(|other| other.kind == condition.kind) {
        Some(other) => *other = condition.clone(),
        None => conditions.push(condition.clone()),
    }
}
