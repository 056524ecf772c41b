//! The scheduler: the one way in, the ways out.

use lazaret_machine::Machine;
use lazaret_model::Timestamp;

use crate::{
    Input,
    effect::{Effect, EffectId, EffectKind, Outcome, Reply, Wake, WakeReason, Written},
    outbox::Purpose,
    state::Scheduler,
};

/// Bound on the decisions of one call of [`Scheduler::poll_effect`], so that inputs are handled in between.
const DECISIONS_PER_POLL_MAX: usize = 32;

impl Machine for Scheduler {
    type View = ();
    type Input<'a> = Input;
    type Kind = EffectKind;
    type Why = WakeReason;

    fn handle(&mut self, now: Timestamp, (): &(), input: Input) {
        Self::handle(self, now, input);
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        Self::poll_effect(self)
    }

    fn next_wake(&self) -> Option<Wake> {
        Self::next_wake(self)
    }
}

lazaret_machine::turns!(Input, |effect, reply| Input::Acknowledged(effect, reply.into()));

impl From<lazaret_machine::Reply> for Reply {
    fn from(reply: lazaret_machine::Reply) -> Self {
        let written = reply.written.map(|written| Written {
            name: written.name,
            uid: written.uid,
            version: written.version.parse().unwrap_or(0),
        });
        Self { outcome: reply.outcome, written }
    }
}

impl Scheduler {
    /// Takes note of `input`. Total: any input in any state. Decisions are made when effects are asked for.
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        self.now = now;
        match input {
            Input::Node(node) => self.node_is(&node),
            Input::NodeGone(name) => self.node_gone(&name),
            Input::Pod(pod) => self.pod_is(pod),
            Input::PodGone(key) => self.pod_gone(&key),
            Input::Claim(claim) => self.claim_is(&claim),
            Input::ClaimGone(key) => self.claim_gone(&key),
            Input::Fleet(input) => self.devices_are(input),
            Input::Classic(news) => self.classic_is(news),
            Input::Namespace(name, labels) => self.namespace_is(name, labels),
            Input::NamespaceGone(name) => self.namespace_gone(&name),
            Input::Group(group) => self.group_is(group),
            Input::GroupGone(key) => self.claim_cache.remove_group(&key),
            Input::Budget(budget) => {
                self.budgets.insert(budget.key.clone(), budget);
            }
            Input::BudgetGone(key) => {
                self.budgets.remove(&key);
            }
            Input::Acknowledged(effect, reply) => self.acknowledged(effect, &reply),
            Input::Tick => {}
            Input::BecameLeader => self.start_leading(),
            Input::LostLeadership => self.stop_leading(),
        }
        self.fire_timers();
        self.carry_negotiation();
    }

    /// The next effect to be done. Makes decisions when none is ready; the pods with the highest priority first.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        if !self.leads {
            return None;
        }
        for _ in 0..DECISIONS_PER_POLL_MAX {
            if let Some(effect) = self.outbox.take() {
                return Some(effect);
            }
            // Inputs come first: a pod may be gone, and the shell may be about to end.
            if self.work >= self.options.turn_units {
                self.work = 0;
                return None;
            }
            if !self.may_decide() {
                return None;
            }
            let pod = self.queue.next(self.now)?;
            self.take_turn(pod);
            self.carry_negotiation();
        }
        self.outbox.take()
    }

    /// When to call again if nothing happens before. `None`: there is nothing to wait for.
    #[must_use]
    pub fn next_wake(&self) -> Option<Wake> {
        if !self.leads {
            return None;
        }
        if self.may_decide() && self.queue.is_ready() {
            return Some(Wake { at: self.now, why: WakeReason::Queue });
        }
        let backoff = self.queue.next_backoff().map(|at| Wake { at, why: WakeReason::Backoff });
        let flush = self.queue.next_flush().map(|at| Wake { at, why: WakeReason::Flush });
        let timer = self.timers.first().map(|(at, timer)| Wake { at: *at, why: self.why_wake(timer) });
        let negotiation = self.negotiation_wake().map(|at| Wake { at, why: WakeReason::Negotiation });
        [backoff, flush, timer, negotiation].into_iter().flatten().min_by_key(|wake| (wake.at, wake.why))
    }

    fn may_decide(&self) -> bool {
        self.flights.len() < self.options.in_flight_max
    }

    /// The reply to an effect.
    fn acknowledged(&mut self, effect: EffectId, reply: &Reply) {
        match self.outbox.land(effect) {
            Some(Purpose::Claim(key)) => {
                let current = self.claim_writes.get(&key).and_then(|entry| entry.write.as_ref());
                if current.is_some_and(|write| write.effect == effect) {
                    self.claim_written(&key, reply);
                }
            }
            Some(Purpose::Pod(ix)) => {
                if self.flights.get(&ix).is_some_and(|flight| flight.awaits == Some(effect)) {
                    self.step_done(ix, reply);
                }
            }
            Some(Purpose::Evict(victim)) => {
                if reply.outcome != Outcome::Done {
                    self.eviction_failed(victim);
                }
            }
            Some(Purpose::Delete(owner)) => {
                if reply.outcome != Outcome::Done {
                    self.queue.retry(self.now, owner);
                }
            }
            Some(Purpose::Say(ix)) => self.condition_written(ix, effect, reply.outcome),
            Some(Purpose::Classic(id)) => self.negotiated(id, reply.outcome),
            Some(Purpose::Aside) | None => {}
        }
    }
}
