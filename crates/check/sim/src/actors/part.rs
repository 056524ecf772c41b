//! Cores that ship, beside the eviction in a process: each on the loop that ships, under the lease of its process and fed by its watches.
//! Their writes take time, fail, get lost, and arrive when their sender has given them up.

use core::fmt::Debug;

use lazaret_leader::{Action, EffectEnd, InFlight, Turn, TurnOptions};
use lazaret_machine::{Effect, EffectId, Machine, Outcome, Reply, Turn as Told, Wake};
use lazaret_model::Timestamp;

use crate::{
    actors::news::Progress,
    api::{EPOCH_MS, Kind},
    coverage::Mark,
    mutant::Mutant,
    rng::Rng,
    scenario::Config,
    view::log_length,
    world::{Errors, Step, World},
};

/// A wake-up that is further away than any world lasts is not planned.
const WAKE_MS_MAX: u64 = 7_200_000;
/// In one of as many manners of errors writes arrive late.
const LATE_ONE_IN: u32 = 3;
/// Which of them.
const LATE: u32 = 1;
/// A late write arrives within this time: a lease is over by then.
const LATE_MS_MAX: u64 = 25_000;
/// Writes that are bounded have ended after this time: an agent whose late writes would do harm begins that long after its term.
pub(crate) const LONGEST_FLIGHT_MS: u64 = 6_000;

/// A core that runs beside the eviction.
pub(crate) trait Part: Machine<View = (), Kind: Clone + Debug + 'static> + Sized {
    /// As in the program.
    const LOOP: TurnOptions;

    /// It is called after this time at the latest when it asked to be called at some time. A wake-up that it no longer wants is over then.
    const TICK_MS_MAX: u64 = WAKE_MS_MAX;

    /// One that knows nothing.
    fn begin() -> Self;

    /// The same, set up as a world wants it.
    fn begin_in(_config: &Config) -> Self {
        Self::begin()
    }

    /// The agents that run it.
    fn crew(world: &mut World) -> &mut Crew<Self>;

    /// Its step as one of the world.
    fn step(step: PartStep<Self::Kind>) -> Step;

    /// An agent hears what the watches of its process have told.
    fn hear(world: &mut World, number: usize, now: Timestamp);

    /// Whether effects are wanted.
    fn lead(&mut self, now: Timestamp, leads: bool) {
        self.handle(now, &(), Told::leads(leads).into());
    }

    /// Whether it is called when it asked to be.
    fn is_called(_mutant: Option<Mutant>) -> bool {
        true
    }

    /// Whether it gets the answer to an effect.
    fn is_answered(_mutant: Option<Mutant>, _kind: &Self::Kind) -> bool {
        true
    }

    /// Whether nobody waits for this effect.
    fn is_event(kind: &Self::Kind) -> bool;

    /// Whether the server may find that somebody else was quicker.
    fn may_conflict(_kind: &Self::Kind) -> bool {
        true
    }

    /// How many decisions it has made, where they are made when effects are asked for.
    fn decisions_made(&self) -> u64 {
        0
    }

    /// An effect is judged by what the agent had been told. `is_new`: it was decided now. It may as well have waited for its turn, or be repeated.
    fn check(_world: &mut World, _number: usize, _kind: &Self::Kind, _is_new: bool) {}

    /// Whether its writes are bounded, because they do harm when they arrive after the next agent has begun, which waits for that.
    const IS_BOUNDED: bool = false;

    /// Whether a late write may arrive when its sender leads no more or is gone. `in_bounds`: not after the longest flight, and the next one is in another
    /// term.
    fn may_outlive_its_sender(_kind: &Self::Kind, _in_bounds: bool) -> bool {
        true
    }

    /// The server does what an effect says. `in_part`: of several writes the first alone.
    fn perform(world: &mut World, kind: &Self::Kind, in_part: bool) -> Reply;

    /// The object that the server returns with its last answer, where the core reads it.
    fn take_object(_world: &mut World) -> Option<Vec<u8>> {
        None
    }

    /// The core gets an answer.
    fn acknowledge(&mut self, now: Timestamp, effect: EffectId, reply: Reply, _object: Option<Vec<u8>>) {
        self.handle(now, &(), Told::Acknowledged(effect, reply).into());
    }

    /// An effect is carried out, and its sender does not hear of it.
    fn unheard(_world: &mut World, _kind: &Self::Kind) {}

    /// A process that is about to lead asks how far the server is with objects that are none of [`Kind`].
    fn ask(_world: &mut World, _number: usize) {}

    /// Whether the watches of a process have shown that.
    fn is_past_fence(_world: &World, _number: usize) -> bool {
        true
    }
}

/// The agents of a core, one in each process.
#[derive(Debug)]
pub(crate) struct Crew<P: Part> {
    pub(crate) agents: [Agent<P>; 2],
    rng: Rng,
    /// The world that its cores are set up for; `None`: for any.
    config: Option<Config>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Agent<P> {
    pub(crate) core: P,
    /// Grows with each agent.
    pub(crate) life: u64,
    turn: Turn<Kind>,
    /// The agent before was given up, and its effects in flight are let end.
    is_given_up: bool,
    /// The events that it has processed; `None`: none yet. A follower gets them when it is about to lead, all in their order: it decides nothing
    /// before.
    pub(crate) progress: Option<Progress>,
    is_told: bool,
    tick_at: Option<u64>,
    /// The term that it stands in, and since when.
    stands: Option<(u64, u64)>,
}

/// Something that is going to happen to an agent.
#[derive(Debug)]
pub(crate) enum PartStep<K> {
    /// It asked to be called; only if it is still in that life.
    Tick(usize, u64),
    /// It is about to send a write: the last look at the lease.
    Send(Post<K>),
    /// The write reaches the server.
    Arrive(Post<K>),
    /// The answer reaches the agent.
    Answer(Post<K>),
}

/// A write on its way.
#[derive(Clone, Debug)]
pub(crate) struct Post<K> {
    controller: usize,
    process: u64,
    life: u64,
    effect: Effect<K>,
    reply: Reply,
    /// The object in the answer.
    object: Option<Vec<u8>>,
    /// The term in which it was sent, and when.
    term: Option<u64>,
    sent: u64,
    /// The sender gave it up before it arrived.
    is_late: bool,
}

impl<K> PartStep<K> {
    /// The controller that takes this step, if one does.
    pub(crate) fn controller(&self) -> Option<usize> {
        match self {
            Self::Tick(number, _) => Some(*number),
            Self::Send(post) | Self::Answer(post) => Some(post.controller),
            Self::Arrive(_) => None,
        }
    }
}

impl<P: Part> Agent<P> {
    fn new(config: Option<&Config>, life: u64, turn: Turn<Kind>) -> Self {
        let core = config.map_or_else(P::begin, P::begin_in);
        Self {
            core,
            life,
            turn,
            is_given_up: false,
            progress: None,
            is_told: true,
            tick_at: None,
            stands: None,
        }
    }

    /// Whether it believes to lead.
    pub(crate) fn leads(&self) -> bool {
        self.turn.leads()
    }

    /// Whether it decides in this term.
    pub(crate) fn leads_in(&self, term: Option<u64>) -> bool {
        self.turn.leads() && self.turn.term() == term
    }

    fn tell(&mut self, now: Timestamp, told: Told) {
        self.core.handle(now, &(), told.into());
    }
}

impl<P: Part> Crew<P> {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let agents = core::array::from_fn(|_| Agent::new(None, 0, Turn::new(Timestamp::EPOCH, P::LOOP)));
        Self { agents, rng: Rng::new(seed, stream), config: None }
    }

    /// The same, with cores that are set up for a world.
    pub(crate) fn in_world(self, config: &Config) -> Self {
        let begin = |_| Agent::new(Some(config), 0, Turn::new(Timestamp::EPOCH, P::LOOP));
        Self { agents: core::array::from_fn(begin), config: Some(config.clone()), ..self }
    }

    /// An agent has heard something, or its process has.
    pub(crate) fn told(&mut self, number: usize) {
        self.agents[number].is_told = true;
    }

    /// A process starts again, with nothing in memory.
    pub(crate) fn restart_process(&mut self, number: usize, now: Timestamp) {
        let agent = &mut self.agents[number];
        *agent = Agent::new(self.config.as_ref(), agent.life + 1, Turn::new(now, P::LOOP));
    }

    /// An agent is given up. Another begins in the same process, with nothing in memory, when its effects have ended.
    pub(crate) fn give_up(&mut self, number: usize) {
        let agent = &mut self.agents[number];
        let idle = Turn::new(Timestamp::EPOCH, P::LOOP);
        let mut turn = core::mem::replace(&mut agent.turn, idle);
        turn.give_up();
        *agent = Agent::new(self.config.as_ref(), agent.life + 1, turn);
        agent.is_given_up = true;
    }

    pub(crate) fn in_flight(&self, number: usize) -> usize {
        self.agents[number].turn.in_flight()
    }
}

impl World {
    /// The number of effects in flight in a process, by precedence.
    pub(crate) fn in_flight(&self, number: usize) -> InFlight {
        let urgent = self.controllers[number].turn.in_flight() + self.health.agents[number].turn.in_flight();
        let urgent = urgent + self.replacers.in_flight(number);
        let usual = self.claims.in_flight(number) + self.schedulers.in_flight(number);
        [urgent, usual, self.workload_controllers.in_flight(number)]
    }

    /// All agents of a process may have something to hear.
    pub(crate) fn told(&mut self, number: usize) {
        self.health.agents[number].is_told = true;
        self.claims.told(number);
        self.schedulers.told(number);
        self.workload_controllers.told(number);
        self.replacers.told(number);
    }

    /// After each step: agents that were told something think.
    pub(crate) fn turn_part<P: Part>(&mut self) {
        self.turn_agent::<P>(0);
        self.turn_agent::<P>(1);
    }

    fn turn_agent<P: Part>(&mut self, number: usize) {
        // Most steps tell nobody anything.
        if !P::crew(self).agents[number].is_told {
            return;
        }
        if !self.clients[number].down && self.controllers[number].frozen(self.now).is_none() {
            P::crew(self).agents[number].is_told = false;
            self.think::<P>(number);
        }
    }

    pub(crate) fn part_step<P: Part>(&mut self, step: PartStep<P::Kind>) {
        match step {
            PartStep::Tick(number, life) => {
                let agent = &mut P::crew(self).agents[number];
                if agent.life == life {
                    (agent.tick_at, agent.is_told) = (None, true);
                }
            }
            PartStep::Send(post) => self.send_post::<P>(post),
            PartStep::Arrive(post) => self.post_arrives::<P>(post),
            PartStep::Answer(post) => self.post_answered::<P>(post),
        }
    }

    fn think<P: Part>(&mut self, number: usize) {
        let now = self.controllers[number].clock(self.now);
        let agent = &mut P::crew(self).agents[number];
        if agent.is_given_up {
            if agent.turn.in_flight() > 0 {
                return;
            }
            agent.is_given_up = false;
            agent.turn.begin_anew(now);
        }
        self.stand_for::<P>(number, now);
        if P::crew(self).agents[number].turn.leads() {
            P::hear(self, number, now);
            P::crew(self).agents[number].tell(now, Told::Tick);
        }
        if P::crew(self).agents[number].progress.is_some() {
            self.send_posts::<P>(number, now);
            self.plan_part_tick::<P>(number);
        }
    }

    /// Leads in the term of its process, behind a fence of its own.
    fn stand_for<P: Part>(&mut self, number: usize, now: Timestamp) {
        loop {
            let standing = self.standing_of::<P>(number);
            let view = &self.clients[number].view;
            let reached = Kind::ALL.map(|kind| view.position(kind) as u64);
            let is_synced = P::is_past_fence(self, number);
            let agent = &mut P::crew(self).agents[number];
            match agent.turn.stand(now, standing, true, is_synced, |kind| Some(reached[*kind as usize])) {
                Action::Lead(true) => {
                    P::hear(self, number, now);
                    P::crew(self).agents[number].core.lead(now, true);
                    self.coverage.hit(Mark::PartLeads);
                }
                Action::Lead(false) => agent.core.lead(now, false),
                Action::Ask(question, _) => {
                    let goal = Kind::ALL.map(|kind| (kind, log_length(&self.api, kind) as u64));
                    P::crew(self).agents[number].turn.answered(now, question, goal.into());
                    P::ask(self, number);
                }
                // The eviction agent beside it has the same watches, and hurries them.
                Action::Watch(_) | Action::List(_) => {}
                Action::Hear => agent.turn.heard(),
                Action::Wait(_) | Action::Granted(_) => return,
            }
        }
    }

    /// The term that an agent stands in. One whose late writes would do harm does not stand before those of the last leader have ended.
    fn standing_of<P: Part>(&mut self, number: usize) -> Option<u64> {
        let (now, standing) = (self.now, self.controllers[number].standing(self.now));
        if !P::IS_BOUNDED || self.mutant == Some(Mutant::NoFlightWait) {
            return standing;
        }
        let agent = &mut P::crew(self).agents[number];
        let Some(term) = standing else {
            agent.stands = None;
            return None;
        };
        let since = agent.stands.filter(|(known, _)| *known == term).map_or(now, |(_, since)| since);
        agent.stands = Some((term, since));
        if now >= since + LONGEST_FLIGHT_MS {
            return standing;
        }
        let life = agent.life;
        self.push(since + LONGEST_FLIGHT_MS, P::step(PartStep::Tick(number, life)));
        None
    }

    fn send_posts<P: Part>(&mut self, number: usize, now: Timestamp) {
        // A process that ends begins nothing.
        if self.controllers[number].closing.is_some() {
            return;
        }
        P::crew(self).agents[number].turn.begin_to_send(now);
        loop {
            let (lasting, all) = (self.believed(number), self.in_flight(number));
            let (process, latency) = (self.controllers[number].process, u64::from(self.config.latency_ms));
            let crew = P::crew(self);
            let agent = &mut crew.agents[number];
            if !agent.turn.may_take(lasting, all) {
                return;
            }
            let before = agent.core.decisions_made();
            let Some(effect) = agent.core.poll_effect() else { return };
            let is_new = agent.core.decisions_made() > before;
            let leads = agent.turn.leads();
            P::check(self, number, &effect.kind, is_new);
            let crew = P::crew(self);
            let agent = &mut crew.agents[number];
            if !agent.turn.may_send(lasting) {
                agent.core.acknowledge(now, effect.id, EffectEnd::Withheld.outcome().into(), None);
            } else if P::is_event(&effect.kind) {
                agent.turn.landed(now);
            } else {
                let (life, delay) = (agent.life, crew.rng.below(latency / 2 + 1));
                let reply = Outcome::Unknown.into();
                let post = Post {
                    controller: number,
                    process,
                    life,
                    effect,
                    reply,
                    object: None,
                    term: None,
                    sent: self.now,
                    is_late: false,
                };
                self.push(self.now + delay, P::step(PartStep::Send(post)));
            }
            if !leads {
                self.violate(
                    "only a leader decides",
                    format!("controller {number} has a follower that acts"),
                );
            }
        }
    }

    fn plan_part_tick<P: Part>(&mut self, number: usize) {
        let (now, ahead) = (self.now, self.controllers[number].ahead);
        if !P::is_called(self.mutant) {
            return;
        }
        let agent = &mut P::crew(self).agents[number];
        let wanted = agent.core.next_wake().map(|wake| Wake::new(wake.at, wake.why.into()));
        let Some(wake) = agent.turn.wake(wanted) else { return };
        let virtual_ms = wake.at.as_millis().saturating_sub(EPOCH_MS).saturating_sub(ahead);
        let at = u64::try_from(virtual_ms).unwrap_or(0).max(now + 1);
        if at > now + WAKE_MS_MAX || agent.tick_at.is_some_and(|planned| planned <= at) {
            return;
        }
        let at = at.min(now + P::TICK_MS_MAX);
        agent.tick_at = Some(at);
        let life = agent.life;
        self.push(at, P::step(PartStep::Tick(number, life)));
    }

    fn wire<P: Part>(&mut self) -> u64 {
        let most = u64::from(self.config.latency_ms) / 2 + 1;
        P::crew(self).rng.below(most)
    }

    fn send_post<P: Part>(&mut self, mut post: Post<P::Kind>) {
        let number = post.controller;
        if self.controllers[number].process != post.process {
            return;
        }
        let at = self.now + self.wire::<P>();
        (post.term, post.sent) = (self.believed(number), self.now);
        if post.term.is_none() {
            self.coverage.hit(Mark::PartWithheld);
            post.reply = EffectEnd::Withheld.outcome().into();
            return self.push(at, P::step(PartStep::Answer(post)));
        }
        let is_slow = |errors: &Errors| errors.until > self.now && errors.manner % LATE_ONE_IN == LATE;
        if let Some(errors) = self.errors.filter(is_slow)
            && P::crew(self).rng.chance(errors.permille)
        {
            // The sender hears nothing of a write that arrives much later.
            self.push(at, P::step(PartStep::Answer(post.clone())));
            post.is_late = true;
            let late = P::crew(self).rng.below(LATE_MS_MAX);
            return self.push(at + late, P::step(PartStep::Arrive(post)));
        }
        self.push(at, P::step(PartStep::Arrive(post)));
    }

    fn post_arrives<P: Part>(&mut self, mut post: Post<P::Kind>) {
        let kind = &post.effect.kind;
        if post.is_late {
            let is_left = self.controllers[post.controller].process != post.process
                || P::crew(self).agents[post.controller].life != post.life
                || self.believed(post.controller) != post.term;
            let is_other_term = self.controllers[post.controller].process != post.process
                || self.believed(post.controller) != post.term;
            let in_bounds = is_other_term && self.now < post.sent + LONGEST_FLIGHT_MS;
            if is_left && !P::may_outlive_its_sender(kind, in_bounds) {
                return;
            }
            if is_left && !P::may_outlive_its_sender(kind, false) {
                check_waited_out::<P>(self, (post.controller, post.process, post.term), kind);
            }
            self.coverage.hit(Mark::PartLate);
            self.is_left_behind = is_left;
            self.perform_unheard::<P>(kind, false);
            self.is_left_behind = false;
            return;
        }
        let errors = self.errors.filter(|errors| errors.until > self.now);
        let fault = errors.filter(|errors| P::crew(self).rng.chance(errors.permille));
        post.reply = match fault.map(|errors| errors.manner % 5) {
            None => {
                let reply = P::perform(self, kind, false);
                post.object = P::take_object(self);
                reply
            }
            Some(0) => Outcome::RetryLater.into(),
            Some(1) if P::may_conflict(kind) => Outcome::Conflict.into(),
            Some(1) => Outcome::RetryLater.into(),
            Some(2) => {
                self.perform_unheard::<P>(kind, false);
                EffectEnd::Panicked.outcome().into()
            }
            Some(3) => Outcome::Unknown.into(),
            Some(_) => {
                self.perform_unheard::<P>(kind, true);
                Outcome::Unknown.into()
            }
        };
        let at = self.now + self.wire::<P>();
        self.push(at, P::step(PartStep::Answer(post)));
    }

    /// The server does what an effect says, and its answer gets lost.
    fn perform_unheard<P: Part>(&mut self, kind: &P::Kind, in_part: bool) {
        P::unheard(self, kind);
        let _unheard = P::perform(self, kind, in_part);
        let _unread = P::take_object(self);
    }

    fn post_answered<P: Part>(&mut self, post: Post<P::Kind>) {
        let number = post.controller;
        let controller = &self.controllers[number];
        if controller.process != post.process || !controller.is_up {
            return P::unheard(self, &post.effect.kind);
        }
        let now = controller.clock(self.now);
        let is_answered = P::is_answered(self.mutant, &post.effect.kind);
        let agent = &mut P::crew(self).agents[number];
        agent.turn.landed(now);
        agent.is_told = true;
        if agent.life != post.life {
            P::unheard(self, &post.effect.kind);
        } else if is_answered {
            agent.core.acknowledge(now, post.effect.id, post.reply, post.object);
        }
        self.end_if_all_is_said(number);
    }
}

/// A bounded write lands whose sender led in a term that is over. The next agent, which did not see it, decides nothing yet.
fn check_waited_out<P: Part>(world: &mut World, sender: (usize, u64, Option<u64>), write: &impl Debug) {
    let next = (0..world.controllers.len()).find(|number| {
        let lasting = world.believed(*number);
        let term = (*number, world.controllers[*number].process, lasting);
        lasting.is_some() && term != sender && P::crew(world).agents[*number].leads_in(lasting)
    });
    if let Some(next) = next {
        let detail = format!("controller {next} decides when this of {} lands: {write:?}", sender.0);
        world.violate("a leader begins when the writes of the last one have landed", detail);
    }
}
