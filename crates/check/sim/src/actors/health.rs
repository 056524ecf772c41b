//! Health controllers: each beside an eviction controller, under the same lease and fed by the same watches. They write incidents, jobs, and rules
//! that the scheduler and the eviction obey.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_fleet::Fleet;
use lazaret_leader::{Action, EffectEnd, Precedence, Turn, TurnOptions};
use lazaret_lifecycle::{
    Child, ChildKind, ChildTarget, History, Notice, Owner, Reconciler, Report, Stage, Stored, TaintKeyValue,
    Tally, Write,
};
use lazaret_machine::{Outcome, Wake};
use lazaret_model::{DeviceId, DeviceTaintRule, DisruptionGuard, PoolId, Text, Timestamp, Uid};
use lazaret_signals::{GuardLimits, Levels, Usage};
use std::sync::Arc;

use crate::{
    actors::{
        health_policy::{Beside, PolicySpec},
        health_pools::Torn,
        news::Progress,
    },
    api::{EPOCH_MS, Kind},
    check::{Owed, hardware::note_devices_of_incidents},
    coverage::Mark,
    mutant::Mutant,
    rng::Rng,
    scenario::Config,
    view::log_length,
    world::{Errors, Step, World},
};

/// The stream of randomness that jobs and delays come from.
const HEALTH: u64 = 30;
/// A wake-up that is further away than any world lasts is not planned.
const WAKE_MS_MAX: u64 = 7_200_000;
/// In one of as many manners of errors writes arrive late.
const LATE_ONE_IN: u32 = 3;
/// Which of them.
const LATE: u32 = 1;
/// A late write arrives within this time: a lease is over by then.
const LATE_MS_MAX: u64 = 25_000;
/// As in the program.
const LOOP: TurnOptions = TurnOptions { in_flight_max: 64, precedence: Precedence::Urgent };

/// Incidents are kept for as long as any world lasts, or for a short time.
pub(crate) fn history(config: &Config) -> History {
    if config.healed > 1 {
        History { keep_ms: 60_000, incidents_max: 6 }
    } else {
        History { keep_ms: 30 * 24 * 3_600_000, incidents_max: 1_000 }
    }
}

/// The incidents, and the controllers of them.
#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) agents: [HealthAgent; 2],
    pub(crate) incidents: BTreeMap<Text, Stored>,
    pub(crate) jobs: BTreeMap<Text, Child>,
    /// Signals that people wrote down and that were not taken in yet.
    pub(crate) reports: BTreeMap<Text, Report>,
    /// The policy; `None`: it was deleted.
    pub(crate) policy: Option<PolicySpec>,
    /// Those beside it.
    pub(crate) beside: Beside,
    /// The demands of policies on devices, and those that were met.
    pub(crate) owed: Owed,
    history: History,
    /// By incarnation of a rule: the incident that it was made for, and whether it drains.
    pub(crate) owners: BTreeMap<Uid, (Owner, ChildKind)>,
    pub(crate) tallies: BTreeMap<Text, Vec<Tally>>,
    /// Changes of incidents and jobs, for watches.
    pub(crate) log: Vec<HealthEvent>,
    /// By incarnation of an incident: its last stage, and whether a person acted since.
    pub(crate) stages: BTreeMap<Uid, (Stage, bool)>,
    /// By incarnation of a rule: the version of the last write of its taint.
    pub(crate) tainted: BTreeMap<Uid, u64>,
    /// How often each job was made.
    pub(crate) made: BTreeMap<(Uid, Text), u32>,
    /// Times in which some controller knew that a pool had been incomplete for long.
    pub(crate) torn: Vec<Torn>,
    /// Guards that stand for policies when the world comes to rest.
    pub(crate) kept_guards: Vec<Arc<DisruptionGuard>>,
    /// The last version of an incident.
    pub(crate) versions: u64,
    /// The write that arrives was given up by whoever sent it.
    pub(crate) is_late: bool,
    pub(crate) rng: Rng,
}

/// An event of a watch.
#[derive(Clone, Debug)]
pub(crate) enum HealthEvent {
    Incident(Box<Stored>),
    IncidentGone(Text, Uid),
    Job(Child),
    JobGone(Text),
    Report(Report),
    ReportGone(Text),
    Policy(Option<PolicySpec>),
    Beside(Beside),
}

/// One controller.
#[derive(Debug)]
pub(crate) struct HealthAgent {
    pub(crate) core: Reconciler,
    /// Grows with each agent.
    pub(crate) life: u64,
    /// The loop that ships.
    pub(crate) turn: Turn<Kind>,
    /// The agent before was given up, and its effects in flight are let end.
    is_given_up: bool,
    /// How much of the log it has heard; `None`: it has just started.
    pub(crate) heard: Option<usize>,
    /// How much of it its watch has delivered.
    pub(super) delivered: usize,
    /// Something was heard since it last thought.
    pub(crate) is_told: bool,
    tick_at: Option<u64>,
    /// When it last thought, by its clock.
    thought_at: Timestamp,
    /// The policy as it has heard of it.
    pub(crate) policy: Option<PolicySpec>,
    pub(crate) beside: Beside,
    /// Devices as its watches have shown them. Its policy stands in the place of a rule.
    pub(crate) fleet: Fleet,
    pub(crate) levels: Levels,
    pub(super) limits: GuardLimits,
    pub(super) usage: Usage,
    /// How far it has heard the watches of its process; `None`: it has just started.
    pub(super) progress: Option<Progress>,
    /// Pools that it knows to be incomplete, and since when.
    pub(crate) torn: BTreeMap<PoolId, Timestamp>,
    pub(crate) children: BTreeMap<(ChildKind, Text), Child>,
    /// How far its watch of rules was when it looked for them.
    pub(super) children_at: Option<usize>,
    /// The devices of its incidents, when it last looked.
    pub(crate) devices: BTreeMap<Text, DeviceId>,
    /// Devices that its machine has out of service.
    pub(crate) out: BTreeSet<DeviceId>,
    /// When to look whether the view is there that its machine wants.
    pub(super) view_at: Option<Timestamp>,
}

/// Something that is going to happen to a health controller or to what it made.
#[derive(Debug)]
pub(crate) enum HealthStep {
    /// A watch of incidents and jobs delivers, this far.
    Deliver(usize, usize),
    /// A controller asked to be called; only if it is still in that life.
    Tick(usize, u64),
    /// A controller is about to send a write: the last look at the lease.
    Send(HealthSent),
    /// The write reaches the server.
    Arrive(HealthSent),
    /// The answer reaches the controller.
    Answer(HealthSent),
    /// A job ends.
    JobEnds(Text, Uid),
}

/// A write on its way.
#[derive(Debug)]
pub(crate) struct HealthSent {
    pub(crate) controller: usize,
    process: u64,
    pub(crate) life: u64,
    pub(crate) write: Write,
    reply: Reply,
    /// The sender gave it up before it arrived.
    pub(crate) is_late: bool,
}

/// The answer of a write that is not known.
const NOT_HEARD: Reply = (Outcome::Unknown, None, None);

/// The outcome of a write: also the version and the UID of the object.
pub(crate) type Reply = (Outcome, Option<Text>, Option<Text>);

impl HealthStep {
    /// The controller that takes this step, if one does.
    pub(crate) fn controller(&self) -> Option<usize> {
        match self {
            Self::Deliver(number, _) | Self::Tick(number, _) => Some(*number),
            Self::Send(sent) | Self::Answer(sent) => Some(sent.controller),
            Self::Arrive(_) | Self::JobEnds(..) => None,
        }
    }
}

impl Health {
    pub(crate) fn new(config: &Config) -> Self {
        let history = history(config);
        Self {
            agents: core::array::from_fn(|_| HealthAgent::new(history, 0, Turn::new(Timestamp::EPOCH, LOOP))),
            incidents: BTreeMap::new(),
            jobs: BTreeMap::new(),
            reports: BTreeMap::new(),
            policy: Some(PolicySpec::first(config)),
            beside: Beside::first(config),
            owed: Owed::default(),
            history,
            owners: BTreeMap::new(),
            tallies: BTreeMap::new(),
            log: Vec::new(),
            stages: BTreeMap::new(),
            tainted: BTreeMap::new(),
            made: BTreeMap::new(),
            torn: Vec::new(),
            kept_guards: Vec::new(),
            versions: 0,
            is_late: false,
            rng: Rng::new(config.seed, HEALTH),
        }
    }

    /// A process starts again, with nothing in memory.
    pub(crate) fn restart_process(&mut self, number: usize, now: Timestamp) {
        self.end_agent(number);
        let agent = &mut self.agents[number];
        *agent = HealthAgent::new(self.history, agent.life + 1, Turn::new(now, LOOP));
    }

    /// An agent is given up. Another begins in the same process, with nothing in memory, when its effects have ended.
    pub(crate) fn give_up(&mut self, number: usize) {
        self.end_agent(number);
        let agent = &mut self.agents[number];
        let idle = Turn::new(Timestamp::EPOCH, LOOP);
        let mut turn = core::mem::replace(&mut agent.turn, idle);
        turn.give_up();
        *agent = HealthAgent::new(self.history, agent.life + 1, turn);
        agent.is_given_up = true;
    }

    /// An agent takes its knowledge of pools with it.
    fn end_agent(&mut self, number: usize) {
        let HealthAgent { torn, thought_at, .. } = &mut self.agents[number];
        let ended = core::mem::take(torn).into_iter();
        self.torn.extend(ended.map(|(pool, since)| Torn::new(pool, since, *thought_at)));
    }

    /// The child that a rule is, if it was made for an incident.
    pub(crate) fn child(&self, rule: &DeviceTaintRule) -> Option<Child> {
        let (owner, kind) = self.owners.get(&rule.uid)?.clone();
        let selector = rule.selector.as_ref()?;
        let device = DeviceId {
            driver: selector.driver.clone()?,
            pool: selector.pool.clone()?,
            device: selector.device.clone()?,
        };
        let taint = TaintKeyValue { key: rule.taint.key.clone(), value: rule.taint.value.clone() };
        let held = rule.is_held().then(|| Text::from("a guard holds it"));
        let target = match kind {
            ChildKind::Drain => {
                let evicted = rule.evictions.map_or(0, |count| count.pods);
                ChildTarget::Drain { device, taint, evicted, held: held.unwrap_or_default() }
            }
            ChildKind::Rule | ChildKind::Job | ChildKind::Claim => {
                ChildTarget::Rule { device, effect: rule.taint.effect.to_string().into(), taint, held }
            }
        };
        let name = owner.name.clone();
        Some(Child { namespace: Text::default(), name, uid: rule.uid.clone(), owner, target })
    }
}

impl HealthAgent {
    fn new(history: History, life: u64, turn: Turn<Kind>) -> Self {
        Self {
            core: Reconciler::new(history),
            life,
            turn,
            is_given_up: false,
            heard: None,
            delivered: 0,
            is_told: true,
            tick_at: None,
            thought_at: Timestamp::EPOCH,
            policy: None,
            beside: Beside::default(),
            fleet: Fleet::new(),
            levels: Levels::default(),
            limits: GuardLimits::default(),
            usage: Usage::default(),
            progress: None,
            torn: BTreeMap::new(),
            children: BTreeMap::new(),
            children_at: None,
            devices: BTreeMap::new(),
            out: BTreeSet::new(),
            view_at: None,
        }
    }
}

impl World {
    pub(crate) fn health_step(&mut self, step: HealthStep) {
        match step {
            HealthStep::Deliver(number, position) => {
                let agent = &mut self.health.agents[number];
                agent.is_told = true;
                agent.delivered = agent.delivered.max(position);
            }
            HealthStep::Tick(number, life) => {
                let agent = &mut self.health.agents[number];
                if agent.life == life {
                    agent.tick_at = None;
                    agent.is_told = true;
                }
            }
            HealthStep::Send(sent) => self.health_send(sent),
            HealthStep::Arrive(sent) => self.health_arrive(sent),
            HealthStep::Answer(sent) => self.health_answer(sent),
            HealthStep::JobEnds(name, uid) => self.health_job_ends(&name, &uid),
        }
    }

    /// After each step: controllers that were told something think.
    pub(crate) fn health_turn(&mut self) {
        if self.config.healed == 0 {
            return;
        }
        self.turn_health(0);
        self.turn_health(1);
    }

    fn turn_health(&mut self, number: usize) {
        let is_stopped = self.clients[number].down || self.controllers[number].frozen(self.now).is_some();
        if !is_stopped && core::mem::take(&mut self.health.agents[number].is_told) {
            self.health_think(number);
        }
    }

    /// Plans that watches of incidents and jobs deliver.
    pub(crate) fn health_tell(&mut self, event: HealthEvent) {
        self.health.log.push(event);
        for number in 0..self.controllers.len() {
            let delay = self.health.rng.below(u64::from(self.config.lag_ms) + 1);
            let position = self.health.log.len();
            self.push(self.now + delay, Step::Health(Box::new(HealthStep::Deliver(number, position))));
        }
    }

    fn health_think(&mut self, number: usize) {
        let now = self.controllers[number].clock(self.now);
        let agent = &mut self.health.agents[number];
        agent.thought_at = now;
        if agent.is_given_up {
            if agent.turn.in_flight() > 0 {
                return;
            }
            agent.is_given_up = false;
            agent.turn.begin_anew(now);
        }
        self.hear_incidents(number, now, self.config.healed < 2);
        self.hear_news(number);
        // The core gets the limits before the signals that they limit.
        self.hear_limits(number, now, false);
        self.hear_devices(number, now);
        self.hear_children(number, now);
        self.stand_for_health(number, now);
        let leads = self.health.agents[number].turn.leads();
        self.health.agents[number].core.handle(now, Notice::Tick);
        if leads {
            self.hear_usage(number, now);
            self.health.agents[number].core.handle(now, Notice::Tick);
            self.catch_up_health(number, now);
            self.check_taken_out(number);
            self.check_moved(number);
        }
        self.send_health_writes(number, now);
        self.plan_health_tick(number);
    }

    fn send_health_writes(&mut self, number: usize, now: Timestamp) {
        self.health.agents[number].turn.begin_to_send(now);
        loop {
            let lasting = self.believed(number);
            let evictions = self.controllers[number].turn.in_flight();
            let agent = &mut self.health.agents[number];
            let all = [agent.turn.in_flight() + evictions, 0, 0];
            if !agent.turn.may_take(lasting, all) {
                return;
            }
            let Some(write) = agent.core.poll_effect() else { return };
            let is_sent = agent.turn.may_send(lasting);
            let write = self.check_health_write(number, write);
            if !is_sent {
                self.acknowledge_health(number, write.id, (EffectEnd::Withheld.outcome(), None, None));
                continue;
            }
            let delay = self.health.rng.below(u64::from(self.config.latency_ms) / 2 + 1);
            let (process, life) = (self.controllers[number].process, self.health.agents[number].life);
            let reply = NOT_HEARD;
            let sent = HealthSent { controller: number, process, life, write, reply, is_late: false };
            self.push(self.now + delay, Step::Health(Box::new(HealthStep::Send(sent))));
        }
    }

    fn plan_health_tick(&mut self, number: usize) {
        let agent = &mut self.health.agents[number];
        let wanted = agent.core.next_wake().map(|wake| Wake::new(wake.at, "it asked"));
        let torn = agent.levels.wake().map(|at| Wake::new(at, "a pool has been incomplete for long"));
        let count = agent.limits.wake(&agent.fleet).filter(|_| agent.turn.leads());
        let count = count.map(|at| Wake::new(at, "devices are to be counted for guards"));
        // One that lost the lease looks for no view any more.
        let view = agent.view_at.filter(|_| agent.turn.leads());
        let view = view.map(|at| Wake::new(at, "a view is wanted"));
        let wanted = Wake::first([wanted, count, torn, view]);
        // A follower hears of time too: what it measures goes on.
        let wake = if agent.turn.leads() { agent.turn.wake(wanted) } else { wanted };
        let Some(wake) = wake else { return };
        let virtual_ms =
            wake.at.as_millis().saturating_sub(EPOCH_MS).saturating_sub(self.controllers[number].ahead);
        let at = u64::try_from(virtual_ms).unwrap_or(0).max(self.now + 1);
        if at > self.now + WAKE_MS_MAX || agent.tick_at.is_some_and(|planned| planned <= at) {
            return;
        }
        agent.tick_at = Some(at);
        let life = agent.life;
        self.push(at, Step::Health(Box::new(HealthStep::Tick(number, life))));
    }

    /// Leads in the term of its process, behind a fence of its own.
    fn stand_for_health(&mut self, number: usize, now: Timestamp) {
        loop {
            let standing = self.controllers[number].standing(self.now);
            let view = &self.clients[number].view;
            let turn = &mut self.health.agents[number].turn;
            match turn.stand(now, standing, true, true, |kind| Some(view.position(*kind) as u64)) {
                Action::Lead(true) => {
                    // No agent acts on a view that is older than its term.
                    self.hear_incidents(number, now, true);
                    self.hear_news(number);
                    self.health.agents[number].limits.begin();
                    self.hear_limits(number, now, true);
                    self.hear_devices(number, now);
                    self.health.agents[number].usage = Usage::default();
                    note_devices_of_incidents(self, number);
                    self.health.agents[number].core.handle(now, Notice::BecameLeader);
                    self.begin_with_incidents(number, now);
                    self.hear_devices(number, now);
                }
                Action::Lead(false) => {
                    self.health.agents[number].core.handle(now, Notice::LostLeadership);
                    self.health.agents[number].levels.end();
                }
                Action::Ask(question, _) => {
                    let goal = Kind::ALL.map(|kind| (kind, log_length(&self.api, kind) as u64));
                    turn.answered(now, question, goal.into());
                }
                // The eviction agent beside it has the same watches, and hurries them.
                Action::Watch(_) | Action::List(_) => {}
                Action::Hear => turn.heard(),
                Action::Wait(_) | Action::Granted(_) => return,
            }
        }
    }

    fn health_send(&mut self, mut sent: HealthSent) {
        let number = sent.controller;
        if self.controllers[number].process != sent.process {
            return;
        }
        let wire = self.health.rng.below(u64::from(self.config.latency_ms) / 2 + 1);
        if self.believed(number).is_some() {
            if self.is_overtaken() {
                return self.health_give_up(sent, wire);
            }
            self.push(self.now + wire, Step::Health(Box::new(HealthStep::Arrive(sent))));
        } else {
            sent.reply = (EffectEnd::Withheld.outcome(), None, None);
            self.push(self.now + wire, Step::Health(Box::new(HealthStep::Answer(sent))));
        }
    }

    /// Whether a write takes so long that its sender does not wait for it: another leader may have come by then.
    fn is_overtaken(&mut self) -> bool {
        let is_slow = |errors: &Errors| errors.until > self.now && errors.manner % LATE_ONE_IN == LATE;
        self.errors.filter(is_slow).is_some_and(|errors| self.health.rng.chance(errors.permille))
    }

    /// The sender hears nothing of a write that arrives much later, or not at all where its controller has ended.
    fn health_give_up(&mut self, mut sent: HealthSent, wire: u64) {
        let unheard = HealthSent { write: sent.write.clone(), reply: NOT_HEARD, ..sent };
        sent.is_late = true;
        let arrives = self.now + wire + self.health.rng.below(LATE_MS_MAX);
        self.push(self.now + wire, Step::Health(Box::new(HealthStep::Answer(unheard))));
        self.push(arrives, Step::Health(Box::new(HealthStep::Arrive(sent))));
    }

    fn health_arrive(&mut self, mut sent: HealthSent) {
        if sent.is_late {
            self.coverage.hit(Mark::LateWrite);
            self.health.is_late = true;
            let _unheard = self.health_perform(&sent.write.kind);
            self.health.is_late = false;
            return;
        }
        let fault =
            self.errors.filter(|errors| errors.until > self.now && self.health.rng.chance(errors.permille));
        sent.reply = match fault.map(|errors| errors.manner % 4) {
            None => self.health_perform(&sent.write.kind),
            Some(0 | 1) => (Outcome::RetryLater, None, None),
            Some(2) => {
                let _unheard = self.health_perform(&sent.write.kind);
                (Outcome::Unknown, None, None)
            }
            Some(_) => (Outcome::Unknown, None, None),
        };
        let back = self.health.rng.below(u64::from(self.config.latency_ms) / 2 + 1);
        self.push(self.now + back, Step::Health(Box::new(HealthStep::Answer(sent))));
    }

    fn health_answer(&mut self, sent: HealthSent) {
        let number = sent.controller;
        let controller = &self.controllers[number];
        if controller.process != sent.process || !controller.is_up {
            return;
        }
        let agent = &mut self.health.agents[number];
        agent.turn.landed(controller.clock(self.now));
        agent.is_told = true;
        if agent.life == sent.life {
            self.acknowledge_health(number, sent.write.id, sent.reply);
        }
        self.end_if_all_is_said(number);
    }

    fn acknowledge_health(&mut self, number: usize, id: lazaret_machine::EffectId, reply: Reply) {
        let now = self.controllers[number].clock(self.now);
        let (outcome, version, uid) = reply;
        let notice = Notice::Acknowledged { id, outcome, version, uid, refused: None };
        self.health.agents[number].core.handle(now, notice);
    }

    fn health_job_ends(&mut self, name: &Text, uid: &Uid) {
        if self.health.jobs.get(name).is_none_or(|job| job.uid != *uid) {
            return;
        }
        if self.mutant == Some(Mutant::LoseJobs) {
            return self.remove_job(name);
        }
        let fails = !self.resting && self.health.rng.chance(300);
        if !fails {
            self.health.owed.note_proof(name);
        }
        let result = if fails { Err("it failed".to_owned()) } else { Ok(()) };
        let Some(job) = self.health.jobs.get_mut(name) else { return };
        job.target = ChildTarget::Job { result: Some(result) };
        let job = job.clone();
        self.health_tell(HealthEvent::Job(job));
    }
}
