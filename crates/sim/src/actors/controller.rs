//! Two eviction controllers that compete for a lease: each a fleet and an eviction fed by its own watches. Both
//! compute, the one with the lease writes, and it looks at the lease right before each write.

use lazaret_allocator::Features;
use lazaret_eviction::{
    Capacity, CapacityAnswer, CapacityQuestion, Effect, EffectKind, Evict, Eviction, Input, Manner, Options,
    Outcome, RuleStatus, SetLastPublished, SetRuleStatus, ViewRequest,
};
use lazaret_fleet::Changes;
use lazaret_model::{
    Condition, ConditionStatus, DeviceTaintRule, DisruptionGuard, ResourceClaim, Text, Timestamp,
};
use std::sync::Arc;

use crate::{
    actors::client::fleet_kind,
    api::{EPOCH_MS, Kind, Refused, wall},
    check::{Moved, WatchedBreakers},
    coverage::Mark,
    mutant::Mutant,
    rng::Rng,
    scenario::{Config, SKEW_MS_MAX},
    view::log_length,
    world::{Step, World},
};

/// A lease that nobody renewed for so long may be taken.
const LEASE_MS: u64 = 2_500;
/// Who could not renew for so long stops. A write takes less than the difference.
const RENEW_DEADLINE_MS: u64 = 1_500;
/// Between two looks at the lease.
const LEASE_PERIOD_MS: u64 = 400;
/// So many acknowledgements in a thousand come twice.
const REPEATED_ACK_PERMILLE: u64 = 30;
/// A wake-up that is further away than any world lasts is not planned.
const WAKE_MS_MAX: u64 = 7_200_000;
/// A mutant sends half of the evictions this much later.
const STRAGGLE_MS: u64 = 4_000;
/// What a predecessor wrote. A leader begins when it has seen all of it.
const FENCED: [Kind; 2] = [Kind::Rule, Kind::Pod];
/// Who ends in good order takes no longer than this to write what it knows.
const CLOSING_MS_MAX: u64 = 1_000;
/// Who waits longer than this for its watches to show what the predecessor wrote lists it instead.
const FENCE_MS_MAX: u64 = 2_000;

/// One of the two.
#[derive(Debug)]
pub(crate) struct Controller {
    pub(crate) number: usize,
    /// Grows with each crash.
    pub(crate) life: u64,
    /// Its clock is ahead of the server's by this, in ms.
    pub(crate) skew: i64,
    pub(crate) eviction: Eviction,
    /// What it asks for room.
    capacity: Capacity,
    options: Options,
    leading: bool,
    /// It has the lease, but not seen yet what had been written when it got it.
    fence: Option<Fence>,
    /// Grows whenever it begins to lead. What it decided in an earlier term is not sent in a later one.
    term: u64,
    /// How often the lease had changed hands when it began to lead.
    began: u64,
    renewed_at: u64,
    /// The same by its clock, for a mutant that goes by that.
    renewed_by_clock: Option<Timestamp>,
    seen_version: u64,
    seen_at: u64,
    cut_until: u64,
    frozen_until: u64,
    tick_at: Option<u64>,
    in_flight: u64,
    /// A view that it wants, and how far the server was when it asked.
    view: Option<WantedView>,
    /// The guards that it has heard of.
    pub(crate) guards: Vec<Arc<DisruptionGuard>>,
    /// What it counted as out of service in this term.
    pub(crate) breakers: WatchedBreakers,
    /// It was asked to end, and for how long.
    closing: Option<u64>,
    rng: Rng,
}

/// How far the logs of the fenced kinds had come when the lease was taken, and when that was.
#[derive(Clone, Copy, Debug)]
struct Fence {
    positions: [usize; FENCED.len()],
    since: u64,
}

/// How far the logs of some kinds had come when a machine wanted to see all of them.
#[derive(Clone, Debug)]
struct WantedView {
    number: u64,
    positions: Vec<(Kind, usize)>,
}

/// A write on its way.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) controller: usize,
    pub(crate) life: u64,
    term: u64,
    pub(crate) effect: Effect,
    pub(crate) outcome: Outcome,
    /// A disruption budget refused.
    held: bool,
    /// Whether there is room, and why not, if that was asked.
    room: Option<Result<(), Text>>,
    /// An answer that was given before.
    echo: bool,
}

/// As the scheduler of the world knows shares of devices.
fn new_capacity() -> Capacity {
    Capacity::new(Features::all())
}

impl Controller {
    pub(crate) fn new(number: usize, config: &Config, mutant: Option<Mutant>) -> Self {
        let some = |pace: u32| (pace > 0).then_some(pace);
        let doubled = if mutant == Some(Mutant::DoubleBurst) { 2 } else { 1 };
        let options = Options {
            default_evictions_per_second: some(config.default_pace),
            global_per_second: some(config.global_pace),
            burst: config.burst * doubled,
            clock_skew_ms_max: i64::from(2 * SKEW_MS_MAX),
            trusts_user_names: true,
            brake_ms_min: if mutant == Some(Mutant::NoBrake) { 0 } else { Options::default().brake_ms_min },
            ..Options::default()
        };
        let skew = if number == 0 { config.skew_0 } else { config.skew_1 };
        Self {
            number,
            life: 0,
            skew: i64::from(skew) - i64::from(SKEW_MS_MAX),
            eviction: Eviction::new(options.clone()),
            capacity: new_capacity(),
            options,
            leading: false,
            fence: None,
            term: 0,
            began: 0,
            renewed_at: 0,
            renewed_by_clock: (mutant == Some(Mutant::LeaseByWall)).then_some(Timestamp::EPOCH),
            seen_version: 0,
            seen_at: 0,
            cut_until: 0,
            frozen_until: 0,
            tick_at: None,
            in_flight: 0,
            view: None,
            guards: Vec::new(),
            breakers: WatchedBreakers::default(),
            closing: None,
            rng: Rng::new(config.seed, 20 + number as u64),
        }
    }

    /// Its name in the lease: a new one in every life.
    pub(crate) fn identity(&self) -> usize {
        usize::try_from(self.life).unwrap_or(usize::MAX) * 2 + self.number
    }

    /// Whether it believes to lead.
    pub(crate) fn leads(&self) -> bool {
        self.leading
    }

    /// Whether it may still write: its last renewal is recent.
    pub(crate) fn holds(&self, now: u64) -> bool {
        self.leading && !self.lease_is_over(now)
    }

    /// Judged by how much time has passed: what its clock shows may have been set since.
    fn lease_is_over(&self, now: u64) -> bool {
        match self.renewed_by_clock {
            None => now >= self.renewed_at + RENEW_DEADLINE_MS,
            Some(renewed) => self.clock(now).millis_since(renewed) >= RENEW_DEADLINE_MS.cast_signed(),
        }
    }

    /// How often the lease had changed hands when it began to lead.
    pub(crate) fn began(&self) -> u64 {
        self.began
    }

    /// Grows whenever it begins to lead.
    pub(crate) fn term(&self) -> u64 {
        self.term
    }

    /// What its clock says.
    pub(crate) fn clock(&self, now: u64) -> Timestamp {
        wall(now).plus_millis(self.skew)
    }

    /// The options it runs with.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn cut(&mut self, until: u64) {
        self.cut_until = until;
    }

    pub(crate) fn reconnect(&mut self) {
        self.cut_until = 0;
    }

    pub(crate) fn freeze(&mut self, until: u64) {
        self.frozen_until = until;
    }

    /// Until when its process is stopped, if it is.
    pub(crate) fn frozen(&self, now: u64) -> Option<u64> {
        (self.frozen_until > now).then_some(self.frozen_until)
    }

    /// Whether its process was stopped at some time since.
    pub(crate) fn was_frozen_since(&self, since: u64) -> bool {
        self.frozen_until > since
    }

    pub(crate) fn describe(&self) -> String {
        let wake = self.eviction.next_wake();
        format!(
            "controller {} leading {} in flight {} next wake {wake:?}",
            self.number, self.leading, self.in_flight
        )
    }
}

impl World {
    /// Hands an input to the machine of a controller, at the time its clock shows.
    pub(crate) fn feed(&mut self, number: usize, input: Input<'_>) {
        let devices = matches!(input, Input::Changed(_));
        self.health.agents[number].is_told = true;
        self.moved.get_or_insert(Moved { client: number, pod: None, devices });
        let controller = &mut self.controllers[number];
        let mut now = controller.clock(self.now);
        if self.mutant == Some(Mutant::Early) {
            now = now.plus_secs(1);
        }
        controller.eviction.handle(now, &self.clients[number].fleet, input);
        self.pump(number);
    }

    pub(crate) fn controller_heard(&mut self, number: usize, changes: &Changes) {
        self.feed(number, Input::Changed(changes));
    }

    /// Takes the effects and plans the next call.
    fn pump(&mut self, number: usize) {
        while let Some(effect) = self.controllers[number].eviction.poll_effect() {
            self.check_decision(number, &effect);
            if let EffectKind::Event(event) = &effect.kind {
                self.coverage.hit(Mark::EventSent);
                if event.message.starts_with("Cancelling") {
                    self.coverage.hit(Mark::Cancelled);
                }
                continue;
            }
            if let EffectKind::RuleEvent(_) = &effect.kind {
                self.coverage.hit(Mark::RuleEventSent);
                continue;
            }
            let controller = &mut self.controllers[number];
            controller.in_flight += 1;
            let mut delay = controller.rng.below(u64::from(self.config.latency_ms) / 2 + 1);
            if self.mutant == Some(Mutant::StraggleGroups) && is_odd_pod(&effect.kind) {
                delay += STRAGGLE_MS;
            }
            let (life, term) = (controller.life, controller.term);
            let sent = Sent {
                controller: number,
                life,
                term,
                effect,
                outcome: Outcome::Unknown,
                held: false,
                room: None,
                echo: false,
            };
            self.push(self.now + delay, Step::Send(Box::new(sent)));
        }
        self.plan_tick(number);
    }

    /// After each step: a controller that wants to see what the server has asks how far that is, and is told when its watches have come
    /// as far.
    pub(crate) fn bring_views_about(&mut self) {
        for number in 0..self.controllers.len() {
            let controller = &mut self.controllers[number];
            if self.clients[number].down || controller.frozen(self.now).is_some() {
                continue;
            }
            if controller.view.is_none()
                && let Some(ViewRequest { number, kinds }) = controller.eviction.poll_view()
            {
                let wanted = Kind::ALL.into_iter().filter(|kind| kinds.contains(&fleet_kind(*kind)));
                let positions = wanted.map(|kind| (kind, log_length(&self.api, kind))).collect();
                controller.view = Some(WantedView { number, positions });
            }
            let Some(wanted) = &controller.view else { continue };
            let view = &self.clients[number].view;
            let reached = wanted.positions.iter().all(|(kind, position)| view.position(*kind) >= *position);
            if !reached {
                self.coverage.hit(Mark::ViewAwaited);
            }
            if reached || self.mutant == Some(Mutant::StaleView) {
                let request = wanted.number;
                self.controllers[number].view = None;
                self.feed(number, Input::ViewReached(request));
            }
        }
    }

    fn plan_tick(&mut self, number: usize) {
        let controller = &mut self.controllers[number];
        let Some(wake) = controller.eviction.next_wake() else { return };
        if self.mutant == Some(Mutant::LostWake) {
            return;
        }
        let virtual_ms = wake.at.as_millis().saturating_sub(EPOCH_MS).saturating_sub(controller.skew);
        let at = u64::try_from(virtual_ms).unwrap_or(0).max(self.now + 1);
        if at > self.now + WAKE_MS_MAX || controller.tick_at.is_some_and(|planned| planned <= at) {
            return;
        }
        controller.tick_at = Some(at);
        let life = controller.life;
        self.push(at, Step::Tick(number, life));
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

    pub(crate) fn look_after_lease(&mut self, number: usize) {
        self.push(self.now + LEASE_PERIOD_MS, Step::Lease(number));
        if self.clients[number].down {
            return;
        }
        self.notice_loss(number);
        let controller = &mut self.controllers[number];
        if self.now >= controller.cut_until {
            if self.api.lease.version != controller.seen_version {
                controller.seen_version = self.api.lease.version;
                controller.seen_at = self.now;
            }
            let identity = controller.identity();
            let mine = self.api.lease.holder == Some(identity);
            let stale = self.api.lease.holder.is_none() || self.now > controller.seen_at + LEASE_MS;
            let holding = controller.leading || controller.fence.is_some();
            if ((mine && holding) || stale)
                && let Ok(version) = self.api.hold_lease(controller.seen_version, identity)
            {
                controller.seen_version = version;
                controller.seen_at = self.now;
                controller.renewed_at = self.now;
                if controller.renewed_by_clock.is_some() {
                    controller.renewed_by_clock = Some(controller.clock(self.now));
                }
                if !controller.leading {
                    self.begin_to_lead(number);
                }
            }
        }
    }

    /// Who could not renew in time has lost the lease, even if it gets it again at the same moment: others may have had
    /// it since. So this comes before anything else.
    fn notice_loss(&mut self, number: usize) {
        let controller = &mut self.controllers[number];
        let over = controller.lease_is_over(self.now);
        if over && self.mutant != Some(Mutant::UnnoticedLoss) {
            controller.fence = None;
            if controller.leading {
                self.step_down(number);
            }
        }
    }

    /// Has the lease: leads as soon as it has seen everything that was written before, for some of it is the doing of
    /// its predecessor.
    fn begin_to_lead(&mut self, number: usize) {
        let fence = *self.controllers[number].fence.get_or_insert_with(|| Fence {
            positions: FENCED.map(|kind| log_length(&self.api, kind)),
            since: self.now,
        });
        let blind = self.mutant == Some(Mutant::NoFence);
        for (kind, position) in FENCED.into_iter().zip(fence.positions) {
            if blind || self.clients[number].view.position(kind) >= position {
                continue;
            }
            self.coverage.hit(Mark::Fenced);
            if self.now < fence.since + FENCE_MS_MAX {
                return;
            }
            self.relist(number, kind);
        }
        let controller = &mut self.controllers[number];
        controller.fence = None;
        controller.leading = true;
        controller.term += 1;
        controller.breakers.clear();
        controller.began = self.api.lease.hands;
        self.coverage.hit(Mark::LeaderChange);
        self.checker.leader_changed();
        self.feed(number, Input::BecameLeader);
    }

    fn step_down(&mut self, number: usize) {
        self.coverage.hit(Mark::LostLease);
        if self.mutant == Some(Mutant::DeafLeader) {
            return;
        }
        self.controllers[number].leading = false;
        self.controllers[number].view = None;
        self.checker.stepped_down(number, self.controllers[number].life);
        self.feed(number, Input::LostLeadership);
    }

    /// A controller is asked to end: it begins nothing any more, says all it knows, and gives its lease back, so that
    /// the other takes over at once.
    pub(crate) fn close(&mut self, number: usize, down_ms: u64) {
        let controller = &self.controllers[number];
        if !controller.holds(self.now) || controller.frozen(self.now).is_some() {
            return self.crash(number, down_ms);
        }
        if self.controllers[number].closing.is_none() {
            self.controllers[number].closing = Some(down_ms);
            let life = self.controllers[number].life;
            self.push(self.now + CLOSING_MS_MAX, Step::Kill(number, life));
            if self.mutant != Some(Mutant::Speechless) {
                self.feed(number, Input::Closing);
            }
            self.end_if_all_is_said(number);
        }
    }

    fn end_if_all_is_said(&mut self, number: usize) {
        let controller = &self.controllers[number];
        let said = !controller.eviction.has_last_words() || self.mutant == Some(Mutant::Speechless);
        if let Some(down_ms) = controller.closing
            && controller.in_flight == 0
            && said
            && controller.holds(self.now)
            && self.api.lease.holder == Some(controller.identity())
        {
            self.coverage.hit(Mark::GaveBack);
            self.api.release_lease();
            self.end(number, down_ms);
        }
    }

    /// It was given enough time.
    pub(crate) fn kill(&mut self, number: usize, life: u64) {
        let controller = &self.controllers[number];
        if let Some(down_ms) = controller.closing.filter(|_| controller.life == life) {
            self.crash(number, down_ms);
        }
    }

    /// A controller ends without a word.
    pub(crate) fn crash(&mut self, number: usize, down_ms: u64) {
        if self.controllers[number].in_flight > 0 {
            self.coverage.hit(Mark::CrashInFlight);
        }
        self.checker.crashed();
        self.end(number, down_ms);
    }

    fn end(&mut self, number: usize, down_ms: u64) {
        let controller = &mut self.controllers[number];
        controller.life += 1;
        controller.leading = false;
        controller.fence = None;
        controller.closing = None;
        controller.in_flight = 0;
        controller.view = None;
        controller.tick_at = None;
        controller.frozen_until = 0;
        controller.eviction = Eviction::new(controller.options.clone());
        controller.capacity = new_capacity();
        let life = controller.life;
        self.clients[number].forget();
        self.health.restart(number);
        self.push(self.now + down_ms, Step::Restart(number, life));
    }

    pub(crate) fn restart(&mut self, number: usize, life: u64) {
        if self.controllers[number].life == life {
            self.start_client(number);
            self.hear_guards(number);
        }
    }

    /// The last look at the lease, then the write goes out.
    pub(crate) fn send(&mut self, mut sent: Box<Sent>) {
        let number = sent.controller;
        let controller = &mut self.controllers[number];
        if controller.life != sent.life {
            return;
        }
        let wire = controller.rng.below(u64::from(self.config.latency_ms) / 2 + 1);
        if let EffectKind::AskCapacity(question) = &sent.effect.kind {
            let question = question.clone();
            let fails = self.errors.is_some_and(|errors| errors.until > self.now && errors.manner % 5 == 0);
            sent.outcome = Outcome::RetryLater;
            sent.room = (!fails).then(|| self.ask_capacity(number, &question));
            return self.push(self.now + wire, Step::Answer(sent));
        }
        let may = controller.holds(self.now) && controller.term == sent.term;
        if may || self.mutant == Some(Mutant::NoLease) || self.mutant == Some(Mutant::DeafLeader) {
            self.push(self.now + wire, Step::Arrive(sent));
            return;
        }
        self.coverage.hit(Mark::Withheld);
        sent.outcome = Outcome::RetryLater;
        if controller.leading && !controller.holds(self.now) {
            self.step_down(number);
        }
        self.push(self.now + wire, Step::Answer(sent));
    }

    /// The write reaches the server, or not.
    pub(crate) fn arrive(&mut self, mut sent: Box<Sent>) {
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
            Some(0) => {
                self.coverage.hit(Mark::FailedWrite);
                Outcome::RetryLater
            }
            Some(1) => {
                self.coverage.hit(Mark::FailedWrite);
                Outcome::Conflict
            }
            // What a budget refuses is not done, though the refusal is not heard.
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
        let back = self.controllers[number].rng.below(u64::from(self.config.latency_ms) / 2 + 1);
        if self.controllers[number].rng.chance(REPEATED_ACK_PERMILLE) && !self.resting {
            self.coverage.hit(Mark::RepeatedAck);
            let again = Sent { effect: sent.effect.clone(), room: None, echo: true, ..*sent };
            self.push(self.now + back + 500, Step::Answer(Box::new(again)));
        }
        self.push(self.now + back, Step::Answer(sent));
    }

    pub(crate) fn answer(&mut self, sent: &Sent) {
        let controller = &mut self.controllers[sent.controller];
        if controller.life != sent.life || self.clients[sent.controller].down {
            return;
        }
        if !sent.echo {
            controller.in_flight = controller.in_flight.saturating_sub(1);
        }
        self.check_answer(sent);
        if let EffectKind::Evict(evict) = &sent.effect.kind {
            let pod = self.api.pods.number(&evict.pod);
            self.moved = Some(Moved { client: sent.controller, pod, devices: false });
        }
        self.say(format_args!("controller {} hears {:?}", sent.controller, sent.outcome));
        let effect = sent.effect.id;
        if let EffectKind::AskCapacity(question) = &sent.effect.kind {
            self.note_room(sent.controller, question, sent.room == Some(Ok(())));
        }
        let ignores = self.mutant == Some(Mutant::IgnoreCapacity);
        let input = if let Some(room) = &sent.room {
            match room {
                Err(why) if !ignores => Input::Held { effect, why: why.clone() },
                Ok(()) | Err(_) => Input::Acknowledged { effect, outcome: Outcome::Done },
            }
        } else if sent.held {
            Input::Held { effect, why: "a budget refuses".into() }
        } else {
            Input::Acknowledged { effect, outcome: sent.outcome }
        };
        self.feed(sent.controller, input);
        self.end_if_all_is_said(sent.controller);
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
        evict.manner == Manner::Evict
            && self.mutant != Some(Mutant::IgnoreBudget)
            && stored.is_some_and(|stored| stored.object.deleting_since.is_none())
            && self
                .budgets
                .get(&evict.pod.namespace)
                .is_some_and(|permitted| self.terminating_in(&evict.pod.namespace) >= *permitted as usize)
    }

    fn perform(&mut self, sent: &Sent) -> Outcome {
        match &sent.effect.kind {
            EffectKind::Evict(evict) => self.perform_eviction(evict),
            EffectKind::SetRuleStatus(status) => self.perform_status(status),
            EffectKind::SetLastPublished(write) => self.perform_memory(write),
            EffectKind::SetGuardStatus(write) => self.perform_guard(write),
            EffectKind::AskCapacity(_) | EffectKind::Event(_) | EffectKind::RuleEvent(_) => Outcome::Done,
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
        let RuleStatus { condition, mut drained, blocked, expired, held, mut evictions } =
            status.status.clone();
        if self.mutant == Some(Mutant::StuckStatus) && condition.status == ConditionStatus::False {
            return Outcome::Done;
        }
        if self.mutant == Some(Mutant::CountTwice) {
            evictions.pods += 1;
        }
        if self.mutant == Some(Mutant::ClaimExact) {
            evictions.at_least = false;
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
        self.api.rules.put(&mut self.api.versions, rule);
        Outcome::Done
    }
}

/// Half of the pods that are evicted.
fn is_odd_pod(kind: &EffectKind) -> bool {
    let EffectKind::Evict(evict) = kind else { return false };
    evict.uid.bytes().last().is_some_and(|byte| byte % 2 == 1)
}

fn set_condition(conditions: &mut Vec<Condition>, condition: &Condition) {
    match conditions.iter_mut().find(|other| other.kind == condition.kind) {
        Some(other) => *other = condition.clone(),
        None => conditions.push(condition.clone()),
    }
}
