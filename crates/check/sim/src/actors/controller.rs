//! Two eviction controllers that compete for a lease: each a fleet and an eviction fed by its own watches, on the loop that ships. Both compute, the one
//! with the lease writes, and it looks at the lease right before each write.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_allocator::Features;
use lazaret_eviction::{
    Capacity, Effect, EffectId, EffectKind, Evict, Eviction, Input, Manner, Options, Reason,
};
use lazaret_fleet::Changes;
use lazaret_leader::{Election, Instants, LeaseOptions, Precedence, RestartBackoff, Turn, TurnOptions};
use lazaret_model::{Clock, DisruptionGuard, Timestamp};

use crate::{
    actors::lives::GivenUp,
    api::{Kind, wall},
    check::{InForce, Moved, WatchedBreakers},
    mutant::Mutant,
    rng::Rng,
    scenario::{Config, SKEW_MS_MAX},
    world::World,
};

/// A write takes less than the difference between the first two.
const LEASE: LeaseOptions = LeaseOptions { duration_ms: 3_000, renew_deadline_ms: 1_500, retry_ms: 400 };
/// As in the program.
const LOOP: TurnOptions = TurnOptions { in_flight_max: 128, precedence: Precedence::Urgent };

/// One of the two: a process, in which an agent lives.
#[derive(Debug)]
pub(crate) struct Controller {
    pub(crate) number: usize,
    /// Grows with each crash.
    pub(crate) process: u64,
    /// Grows with each agent: with each crash, and whenever one is given up.
    pub(crate) life: u64,
    /// Whether the process runs.
    pub(crate) is_up: bool,
    /// Its wall clock is ahead of the server's by this, in ms.
    pub(super) skew: i64,
    /// The time of its agent is ahead of the server's by this, in ms.
    pub(super) ahead: i64,
    time: Clock,
    /// The era that its agent lives in.
    pub(super) era: u64,
    /// The time at which it read its clocks, and how far its wall clock was ahead then: nothing has happened to them since.
    read_at: Option<(u64, i64)>,
    /// The result of that.
    is_era_over: bool,
    pub(crate) eviction: Eviction,
    /// Answers whether there is room.
    pub(super) capacity: Capacity,
    options: Options,
    pub(super) election: Election,
    pub(super) turn: Turn<Kind>,
    /// Panics of its agents.
    pub(super) pauses: RestartBackoff,
    pub(super) started_at: u64,
    /// Its agent was given up, and another has not begun.
    pub(super) given_up: Option<GivenUp>,
    /// Effects of agents up to this life were cut off.
    pub(super) cut_off: Option<u64>,
    /// Evictions that its machine decided and that were not taken yet.
    pub(super) decided: BTreeMap<EffectId, Evict>,
    last_decided: Option<EffectId>,
    /// Grows whenever it begins to lead.
    pub(super) terms: u64,
    /// How often the lease had changed hands when it began to lead.
    pub(super) began: u64,
    /// When a renewal was late for the last time.
    pub(super) paused_at: Option<u64>,
    /// For a mutant: how often the lease had changed hands when it first had it.
    pub(super) first_transitions: Option<i64>,
    pub(super) cut_until: u64,
    frozen_until: u64,
    /// It was stopped for this long and has not noticed.
    frozen_for: u64,
    pub(super) tick_at: Option<u64>,
    pub(super) look_at: Option<u64>,
    /// The guards that it has heard of.
    pub(crate) guards: Vec<Arc<DisruptionGuard>>,
    /// Devices that it counted as out of service in this term.
    pub(crate) breakers: WatchedBreakers,
    /// Since when rules are in force, by the events that it got.
    pub(crate) in_force: InForce,
    /// It was asked to end, and for how long.
    pub(super) closing: Option<u64>,
    by_wall: bool,
    pub(super) rng: Rng,
}

/// As the scheduler of the world knows shares of devices.
pub(super) fn new_capacity() -> Capacity {
    Capacity::new(Features::all())
}

/// The name of a process in the lease.
pub(crate) fn identity(number: usize, process: u64) -> String {
    format!("{number}-{process}")
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
            records_evictions: true,
            brake_ms_min: if mutant == Some(Mutant::NoBrake) { 0 } else { Options::default().brake_ms_min },
            ..Options::default()
        };
        let skew = if number == 0 { config.skew_0 } else { config.skew_1 };
        let skew = i64::from(skew) - i64::from(SKEW_MS_MAX);
        Self {
            number,
            process: 0,
            life: 0,
            is_up: true,
            skew,
            ahead: skew,
            time: Clock::default(),
            era: 0,
            read_at: None,
            is_era_over: false,
            eviction: Eviction::new(options.clone()),
            capacity: new_capacity(),
            options,
            election: Election::new(&identity(number, 0), LEASE),
            turn: Turn::new(wall(0).plus_millis(skew), LOOP),
            pauses: RestartBackoff::default(),
            started_at: 0,
            given_up: None,
            cut_off: None,
            decided: BTreeMap::new(),
            last_decided: None,
            terms: 0,
            began: 0,
            paused_at: None,
            first_transitions: None,
            cut_until: 0,
            frozen_until: 0,
            frozen_for: 0,
            tick_at: None,
            look_at: None,
            guards: Vec::new(),
            breakers: WatchedBreakers::default(),
            in_force: InForce::default(),
            closing: None,
            by_wall: mutant == Some(Mutant::LeaseByWall),
            rng: Rng::new(config.seed, 20 + number as u64),
        }
    }

    /// Another process, with nothing in memory.
    pub(super) fn new_process(&mut self, now: u64) {
        self.process += 1;
        self.is_up = false;
        self.election = Election::new(&identity(self.number, self.process), LEASE);
        self.time = Clock::default();
        self.ahead = self.skew;
        self.era = 0;
        self.read_at = None;
        self.turn = Turn::new(self.clock(now), LOOP);
        self.pauses = RestartBackoff::default();
        self.first_transitions = None;
        self.closing = None;
        self.given_up = None;
        self.cut_off = None;
        (self.frozen_until, self.frozen_for) = (0, 0);
        self.new_agent();
    }

    /// Another agent, with nothing in memory.
    pub(super) fn new_agent(&mut self) {
        self.life += 1;
        self.eviction = Eviction::new(self.options.clone());
        self.in_force = InForce::default();
        self.capacity = new_capacity();
        self.decided.clear();
        self.last_decided = None;
        (self.tick_at, self.look_at) = (None, None);
    }

    /// Whether it believes to lead.
    pub(crate) fn leads(&self) -> bool {
        self.turn.leads()
    }

    /// Whether it leads and may write: its last renewal is recent.
    pub(crate) fn holds(&self, now: u64) -> bool {
        self.leads() && self.lasting(now).is_some()
    }

    /// The term in which its process may write.
    pub(crate) fn lasting(&self, now: u64) -> Option<u64> {
        let held = self.election.told()?;
        held.lasts(self.instants(now)).then(|| held.number())
    }

    /// The term in which its process may write, or may write again.
    pub(crate) fn standing(&self, now: u64) -> Option<u64> {
        let held = self.election.told()?;
        held.may_go_on(self.instants(now)).then(|| held.number())
    }

    /// The readings of its two clocks. A mutant has only the one that can be set.
    pub(super) fn instants(&self, now: u64) -> Instants {
        let wall = wall(now).plus_millis(self.skew);
        let counted = Timestamp::from_millis(i64::try_from(now).unwrap_or(i64::MAX));
        Instants { monotonic: if self.by_wall { wall } else { counted }, wall }
    }

    /// How often the lease had changed hands when it began to lead.
    pub(crate) fn began(&self) -> u64 {
        self.began
    }

    /// Grows whenever it begins to lead.
    pub(crate) fn term(&self) -> u64 {
        self.terms
    }

    /// The time of its agent.
    pub(crate) fn clock(&self, now: u64) -> Timestamp {
        wall(now).plus_millis(self.ahead)
    }

    /// Reads both clocks. Whether the era of its agent is over: its clock was set, or it was stopped for long.
    pub(crate) fn read_clocks(&mut self, now: u64) -> bool {
        let shown = Some((now, self.skew));
        if self.frozen_for == 0 && self.read_at == shown {
            return self.is_era_over;
        }
        self.read_at = shown;
        let at = wall(now);
        let counted = i64::try_from(now).unwrap_or(i64::MAX);
        let wall_ms = at.plus_millis(self.skew).as_millis();
        let mut reading = self.time.read(wall_ms, counted);
        // It wakes this late of a sleep of a second at most.
        if core::mem::take(&mut self.frozen_for) > STALL_MS {
            self.time.stalled(self.era);
            reading = self.time.read(wall_ms, counted);
        }
        if reading.era == self.era {
            self.ahead = reading.now.millis_since(at);
        }
        self.is_era_over = reading.era != self.era;
        self.is_era_over
    }

    /// Whether the time of its agent differs from its wall clock.
    pub(crate) fn is_slewing(&self) -> bool {
        self.ahead != self.skew
    }

    /// An agent begins now, in the era that it is.
    pub(super) fn begin_era(&mut self, now: u64) {
        let at = wall(now);
        let wall_ms = at.plus_millis(self.skew).as_millis();
        let reading = self.time.read(wall_ms, i64::try_from(now).unwrap_or(i64::MAX));
        self.era = reading.era;
        self.read_at = None;
        self.ahead = reading.now.millis_since(at);
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

    pub(crate) fn freeze(&mut self, now: u64, until: u64) {
        self.frozen_until = until;
        self.frozen_for = until - now;
    }

    /// Until when its process is stopped, if it is.
    pub(crate) fn frozen(&self, now: u64) -> Option<u64> {
        (self.frozen_until > now).then_some(self.frozen_until)
    }

    /// Whether its process was stopped at some time since.
    pub(crate) fn was_frozen_since(&self, since: u64) -> bool {
        self.frozen_until > since
    }

    /// Whether a renewal was late at some time since.
    pub(crate) fn was_paused_since(&self, since: u64) -> bool {
        self.paused_at.is_some_and(|paused| paused >= since)
    }

    /// How many rounds of requests it takes to send as many as wait: each answer makes room for one more.
    pub(crate) fn rounds(&self) -> u64 {
        let all = self.eviction.waiting().count() + self.turn.in_flight();
        u64::from((all / 2 + 1).ilog2()) + 2
    }

    pub(crate) fn describe(&self) -> String {
        let wake = self.eviction.next_wake();
        format!(
            "controller {} leading {} in flight {} of {} next wake {wake:?}",
            self.number,
            self.leads(),
            self.turn.in_flight(),
            self.turn.room(),
        )
    }
}

/// As in the program: a process that wakes this much later than it asked to was stopped.
const STALL_MS: u64 = 30_000;

impl World {
    /// Hands an input to the machine of a controller, at the time its clock shows.
    pub(crate) fn feed(&mut self, number: usize, input: Input<'_>) {
        let devices = matches!(input, Input::Changed(_));
        self.told(number);
        self.moved.get_or_insert(Moved { client: number, pod: None, devices });
        self.handle(number, input);
        self.send_effects(number);
    }

    /// The machine takes note of an input, and what it decided is judged.
    pub(super) fn handle(&mut self, number: usize, input: Input<'_>) {
        let controller = &mut self.controllers[number];
        let mut now = controller.clock(self.now);
        if self.mutant == Some(Mutant::Early) {
            now = now.plus_secs(1);
        }
        controller.eviction.handle(now, &self.clients[number].fleet, input);
        self.look_at_decisions(number);
    }

    /// Effects are judged when they are decided. They may be taken later, or be withdrawn before.
    fn look_at_decisions(&mut self, number: usize) {
        let controller = &mut self.controllers[number];
        if !controller.decided.is_empty() {
            let kept: Vec<EffectId> = controller.eviction.waiting().map(|(id, _)| id).collect();
            let decided = core::mem::take(&mut controller.decided);
            let (kept, withdrawn): (BTreeMap<_, _>, BTreeMap<_, _>) =
                decided.into_iter().partition(|(id, _)| kept.binary_search(id).is_ok());
            controller.decided = kept;
            for (id, evict) in withdrawn {
                self.check_withdrawn(number, id, &evict);
            }
        }
        let controller = &self.controllers[number];
        let last = controller.last_decided;
        let new = controller.eviction.waiting().rev().take_while(|(id, _)| Some(*id) > last);
        let mut new: Vec<Effect> = new.map(|(id, kind)| Effect { id, kind: kind.clone() }).collect();
        new.reverse();
        for mut effect in new {
            if self.mutant == Some(Mutant::DeleteUnasked) {
                delete_overdue(self.controllers[number].clock(self.now), &mut effect);
            }
            self.check_decision(number, &effect);
            let controller = &mut self.controllers[number];
            controller.last_decided = Some(effect.id);
            if let EffectKind::Evict(evict) = effect.kind {
                controller.decided.insert(effect.id, evict);
            }
        }
    }

    pub(crate) fn controller_heard(&mut self, number: usize, changes: &Changes) {
        let (view, controller) = (&self.clients[number].view, &mut self.controllers[number]);
        let (now, position) = (controller.clock(self.now), view.position(Kind::Rule));
        controller.in_force.note(now, position, view.of(&self.api).rules());
        self.feed(number, Input::Changed(changes));
    }
}

/// An eviction as a mutant has it: past its deadline the pod is deleted.
fn delete_overdue(now: Timestamp, effect: &mut Effect) {
    if let EffectKind::Evict(evict) = &mut effect.kind {
        let is_overdue = |reason: &Reason| reason.must_be_gone_by().is_some_and(|end| end <= now);
        if evict.reasons.iter().any(is_overdue) {
            evict.manner = Manner::DeleteOverdue;
        }
    }
}
