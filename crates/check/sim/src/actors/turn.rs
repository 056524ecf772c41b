//! The loop that ships, around the machine of a controller: when it leads, which view it has, what it sends and when it is woken.

use std::collections::BTreeMap;

use lazaret_eviction::{EffectKind, Input, Outcome, ViewRequest};
use lazaret_leader::{Action, EffectEnd};
use lazaret_machine::Wake;

use crate::{
    actors::{client::fleet_kind, writes::Sent},
    api::{EPOCH_MS, Kind},
    coverage::Mark,
    mutant::Mutant,
    view::log_length,
    world::{Errors, Step, World},
};

/// A wake-up that is further away than any world lasts is not planned.
const WAKE_MS_MAX: u64 = 7_200_000;
/// A mutant sends half of the evictions this much later.
const STRAGGLE_MS: u64 = 4_000;

/// The question how far the server is.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) controller: usize,
    life: u64,
    number: u64,
    kinds: Vec<Kind>,
    /// The answer, once the server has seen it; `None`: it could not be asked.
    goal: Option<BTreeMap<Kind, u64>>,
}

impl World {
    /// The lease was won, lost, or renewed after all.
    pub(crate) fn leadership_changed(&mut self, number: usize) {
        self.told(number);
        if self.clients[number].down {
            return;
        }
        self.stand(number);
        self.feed(number, Input::Tick);
    }

    /// After each step: an agent whose era is over is given up; another leads if it may, and gets the view that it wants.
    pub(crate) fn turn_controllers(&mut self) {
        self.turn_controller(0);
        self.turn_controller(1);
    }

    fn turn_controller(&mut self, number: usize) {
        let controller = &mut self.controllers[number];
        if !controller.is_up || controller.frozen(self.now).is_some() {
            return;
        }
        if controller.read_clocks(self.now) {
            self.give_up_both(number);
        }
        if !self.clients[number].down {
            self.stand(number);
            self.catch_up_with_server(number);
        }
    }

    fn stand(&mut self, number: usize) {
        loop {
            let controller = &mut self.controllers[number];
            let (now, standing) = (controller.clock(self.now), controller.standing(self.now));
            let view = &self.clients[number].view;
            let reached = |kind: &Kind| Some(view.position(*kind) as u64);
            match controller.turn.stand(now, standing, true, true, reached) {
                Action::Lead(true) => self.begin_to_lead(number),
                Action::Lead(false) => self.step_down(number),
                Action::Ask(question, _) if self.mutant == Some(Mutant::NoFence) => {
                    self.controllers[number].turn.answered(now, question, BTreeMap::new());
                }
                Action::Ask(question, _) => self.ask(number, question, Kind::ALL.to_vec()),
                Action::Watch(_) => self.coverage.hit(Mark::Fenced),
                Action::List(lagging) => lagging.into_iter().for_each(|kind| self.relist(number, kind)),
                // A client hands on what it hears at once.
                Action::Hear => controller.turn.heard(),
                Action::Wait(None) | Action::Granted(_) => return,
                Action::Wait(Some(at)) => return self.plan_look(number, at),
            }
        }
    }

    fn catch_up_with_server(&mut self, number: usize) {
        loop {
            let controller = &mut self.controllers[number];
            if controller.turn.may_wish()
                && let Some(ViewRequest { number, kinds }) = controller.eviction.poll_view()
            {
                let wanted = Kind::ALL.into_iter().filter(|kind| kinds.contains(&fleet_kind(*kind)));
                controller.turn.wish(number, wanted.collect());
            }
            let now = controller.clock(self.now);
            let view = &self.clients[number].view;
            let mut demand = controller.turn.catch_up(now, |kind| Some(view.position(*kind) as u64));
            if demand == Action::Hear {
                demand = controller.turn.grant();
            }
            match demand {
                Action::Ask(question, _) if self.mutant == Some(Mutant::StaleView) => {
                    controller.turn.answered(now, question, BTreeMap::new());
                }
                Action::Ask(question, kinds) => self.ask(number, question, kinds.unwrap_or_default()),
                Action::Watch(_) => self.coverage.hit(Mark::ViewAwaited),
                Action::List(lagging) => lagging.into_iter().for_each(|kind| self.relist(number, kind)),
                Action::Granted(view) => self.feed(number, Input::ViewReached(view)),
                Action::Wait(Some(at)) => return self.plan_look(number, at),
                Action::Wait(None) | Action::Hear | Action::Lead(_) => return,
            }
        }
    }

    fn ask(&mut self, number: usize, question: u64, kinds: Vec<Kind>) {
        let controller = &mut self.controllers[number];
        let wire = controller.rng.below(u64::from(self.config.latency_ms) / 2 + 1);
        let is_lost = self
            .errors
            .is_some_and(|errors: Errors| errors.until > self.now && controller.rng.chance(errors.permille));
        let life = controller.life;
        let question = Question { controller: number, life, number: question, kinds, goal: None };
        let step = if is_lost { Step::Told(Box::new(question)) } else { Step::Ask(Box::new(question)) };
        self.push(self.now + wire, step);
    }

    /// A question reaches the server.
    pub(crate) fn asked(&mut self, mut question: Box<Question>) {
        let far = |kind: &Kind| (*kind, log_length(&self.api, *kind) as u64);
        question.goal = Some(question.kinds.iter().map(far).collect());
        let rng = &mut self.controllers[question.controller].rng;
        let back = rng.below(u64::from(self.config.latency_ms) / 2 + 1);
        self.push(self.now + back, Step::Told(question));
    }

    /// Its answer reaches the controller.
    pub(crate) fn told_how_far(&mut self, question: Question) {
        let Question { controller, life, number, goal, .. } = question;
        let controller = &mut self.controllers[controller];
        if controller.life != life {
            return;
        }
        let now = controller.clock(self.now);
        match goal {
            Some(goal) => controller.turn.answered(now, number, goal),
            None => controller.turn.unanswered(now, number),
        }
    }

    fn begin_to_lead(&mut self, number: usize) {
        let hands = self.api.lease.hands;
        let controller = &mut self.controllers[number];
        controller.terms += 1;
        controller.breakers.clear();
        controller.began = hands;
        self.coverage.hit(Mark::LeaderChange);
        // If its renewal is late, another may lead by now: it writes nothing before it knows better.
        if controller.holds(self.now) {
            self.checker.leader_changed();
            self.note_named();
        }
        // Its view of guards is no older than its term either.
        if self.mutant != Some(Mutant::NoFence) {
            self.hear_guards(number);
        }
        self.feed(number, Input::BecameLeader);
    }

    fn step_down(&mut self, number: usize) {
        self.coverage.hit(Mark::LostLease);
        if self.mutant == Some(Mutant::DeafLeader) {
            return;
        }
        self.checker.stepped_down(number, self.controllers[number].life);
        self.feed(number, Input::LostLeadership);
    }

    /// The term in which a controller may write, or a mutant believes so.
    pub(crate) fn believed(&self, number: usize) -> Option<u64> {
        let controller = &self.controllers[number];
        match self.mutant {
            Some(Mutant::NoLease) => controller.turn.term(),
            Some(Mutant::StaleLease) => controller.standing(self.now),
            Some(_) | None => controller.lasting(self.now),
        }
    }

    /// Sends what may be sent, and plans when the machine is woken.
    pub(super) fn send_effects(&mut self, number: usize) {
        let now = self.controllers[number].clock(self.now);
        self.controllers[number].turn.begin_to_send(now);
        loop {
            let lasting = self.believed(number);
            let others = self.health.agents[number].turn.in_flight() + self.replacers.in_flight(number);
            let controller = &mut self.controllers[number];
            if controller.leads() && lasting != controller.turn.term() {
                self.coverage.hit(Mark::Paused);
                controller.paused_at = Some(self.now);
            }
            let all = [controller.turn.in_flight() + others, 0, 0];
            if !controller.turn.may_take(lasting, all) {
                break;
            }
            let Some(effect) = controller.eviction.poll_effect() else { break };
            controller.decided.remove(&effect.id);
            let is_sent = controller.turn.may_send(lasting);
            let is_event = |kind: &EffectKind| {
                matches!(kind, EffectKind::Event(_) | EffectKind::RuleEvent(_) | EffectKind::GuardEvent(_))
            };
            if is_event(&effect.kind) {
                if is_sent {
                    controller.turn.landed(now);
                    self.note_event(&effect.kind);
                }
                continue;
            }
            if !is_sent {
                let outcome = EffectEnd::Withheld.outcome();
                self.handle(number, Input::Acknowledged { effect: effect.id, outcome });
                continue;
            }
            let mut delay = controller.rng.below(u64::from(self.config.latency_ms) / 2 + 1);
            if self.mutant == Some(Mutant::StraggleGroups) && is_odd_pod(&effect.kind) {
                delay += STRAGGLE_MS;
            }
            let (process, life) = (controller.process, controller.life);
            let sent = Sent {
                controller: number,
                process,
                life,
                effect,
                outcome: Outcome::Unknown,
                held: false,
                room: None,
                echo: false,
                is_late: false,
            };
            self.push(self.now + delay, Step::Send(Box::new(sent)));
        }
        self.plan_tick(number);
    }

    fn note_event(&mut self, kind: &EffectKind) {
        if let EffectKind::Event(event) = kind {
            self.coverage.hit(Mark::EventSent);
            if event.message.starts_with("Cancelling") {
                self.coverage.hit(Mark::Cancelled);
            }
        } else {
            self.coverage.hit(Mark::RuleEventSent);
        }
    }

    fn plan_tick(&mut self, number: usize) {
        let controller = &mut self.controllers[number];
        let wanted = controller.eviction.next_wake().map(|wake| Wake::new(wake.at, "it asked"));
        let Some(wake) = controller.turn.wake(wanted) else { return };
        if self.mutant == Some(Mutant::LostWake) {
            return;
        }
        let Some(at) = self.virtual_time(number, wake.at) else { return };
        let controller = &mut self.controllers[number];
        if controller.tick_at.is_some_and(|planned| planned <= at) {
            return;
        }
        controller.tick_at = Some(at);
        let life = controller.life;
        self.push(at, Step::Tick(number, life));
    }

    /// A fence or a view is looked at again then.
    fn plan_look(&mut self, number: usize, at: lazaret_model::Timestamp) {
        let Some(at) = self.virtual_time(number, at) else { return };
        let controller = &mut self.controllers[number];
        if controller.look_at.is_some_and(|planned| planned <= at && planned > self.now) {
            return;
        }
        controller.look_at = Some(at);
        self.push(at, Step::Look(number));
    }

    /// When a controller's clock shows this, after now; `None`: later than any world lasts.
    fn virtual_time(&self, number: usize, at: lazaret_model::Timestamp) -> Option<u64> {
        let controller = &self.controllers[number];
        let virtual_ms = at.as_millis().saturating_sub(EPOCH_MS).saturating_sub(controller.ahead);
        let at = u64::try_from(virtual_ms).unwrap_or(0).max(self.now + 1);
        (at <= self.now + WAKE_MS_MAX).then_some(at)
    }

    pub(crate) fn tick(&mut self, number: usize, life: u64) {
        let controller = &mut self.controllers[number];
        if controller.life != life || self.clients[number].down {
            return;
        }
        if controller.tick_at.is_some_and(|planned| planned <= self.now) {
            controller.tick_at = None;
        }
        self.feed(number, Input::Tick);
    }
}

/// Half of the pods that are evicted.
fn is_odd_pod(kind: &EffectKind) -> bool {
    let EffectKind::Evict(evict) = kind else { return false };
    evict.uid.bytes().last().is_some_and(|byte| byte % 2 == 1)
}
