//! Health controllers: each beside an eviction controller, under the same lease and fed by the same watches. What they write are incidents, jobs, and rules
//! that the scheduler and the eviction obey.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_lifecycle::{
    Child, ChildKind, ChildTarget, Count, Flaps, History, Mode, Notice, Owner, Policy, Reconciler, Recovery,
    Report, Rule, Stage, Step as RepairStep, Stored, TaintKeyValue, Tally, Target, When, Write,
};
use lazaret_machine::Outcome;
use lazaret_model::{DeviceId, DeviceTaintRule, DisruptionGuard, Text, Timestamp, Uid};
use std::sync::Arc;

use crate::{
    api::{EPOCH_MS, Kind},
    coverage::Mark,
    palette,
    rng::Rng,
    view::log_length,
    world::{Errors, Step, World},
};

/// The stream of randomness that jobs and delays come from.
const HEALTH: u64 = 30;
/// The one policy.
pub(crate) const POLICY: &str = "p";
/// A wake-up that is further away than any world lasts is not planned.
const WAKE_MS_MAX: u64 = 7_200_000;
/// In one of as many manners of errors writes arrive late.
const LATE_ONE_IN: u32 = 3;
/// Which of them.
const LATE: u32 = 1;
/// A late write arrives within this time: a lease is over by then.
const LATE_MS_MAX: u64 = 25_000;
/// Incidents are kept for as long as any world lasts.
const KEPT: History = History { keep_ms: 30 * 24 * 3_600_000, incidents_max: 1_000 };

/// What there is of incidents, and who looks after them.
#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) agents: [HealthAgent; 2],
    pub(crate) incidents: BTreeMap<Text, Stored>,
    pub(crate) jobs: BTreeMap<Text, Child>,
    /// Signals that people wrote down and that were not taken in yet.
    pub(crate) reports: BTreeMap<Text, Report>,
    /// The mode of the policy.
    pub(crate) mode: Mode,
    /// By incarnation of a rule: the incident that it was made for, and whether it drains.
    pub(crate) owners: BTreeMap<Uid, (Owner, ChildKind)>,
    pub(crate) tallies: Vec<Tally>,
    /// What happened to incidents and jobs, for watches.
    pub(crate) log: Vec<HealthEvent>,
    /// By incarnation of an incident: its last stage, and whether a person acted since.
    pub(crate) stages: BTreeMap<Uid, (Stage, bool)>,
    /// How often each job was made.
    pub(crate) made: BTreeMap<(Uid, Text), u32>,
    /// Guards that stand for policies when the world comes to rest.
    pub(crate) kept_guards: Vec<Arc<DisruptionGuard>>,
    /// The last version of an incident.
    pub(crate) versions: u64,
    /// The write that arrives was given up by whoever sent it.
    pub(crate) is_late: bool,
    pub(crate) rng: Rng,
}

/// What a watch tells.
#[derive(Clone, Debug)]
pub(crate) enum HealthEvent {
    Incident(Box<Stored>),
    IncidentGone(Text, Uid),
    Job(Child),
    JobGone(Text),
    Report(Report),
    ReportGone(Text),
    Mode(Mode),
}

/// One controller.
#[derive(Debug)]
pub(crate) struct HealthAgent {
    pub(crate) core: Reconciler,
    /// Grows whenever it starts again.
    pub(crate) life: u64,
    /// How much of the log it has heard; `None`: it has just started.
    pub(crate) heard: Option<usize>,
    pub(crate) leads: bool,
    /// How far the logs had come when its term began.
    fence: Option<[usize; Kind::ALL.len()]>,
    /// Something was heard since it last thought.
    pub(crate) is_told: bool,
    tick_at: Option<u64>,
    /// Writes on their way to the server.
    pub(crate) arriving: u64,
    /// The revision of the fleet whose devices it knows.
    pub(crate) revision: Option<u64>,
    pub(crate) raised: BTreeMap<DeviceId, BTreeMap<Text, Text>>,
    pub(crate) children: BTreeMap<(ChildKind, Text), Child>,
    /// Devices that its machine has out of service.
    pub(crate) out: BTreeSet<DeviceId>,
}

/// Something that is going to happen to a health controller or to what it made.
#[derive(Debug)]
pub(crate) enum HealthStep {
    /// A watch of incidents and jobs delivers.
    Deliver(usize),
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
    pub(crate) life: u64,
    term: u64,
    pub(crate) write: Write,
    reply: Reply,
    /// The sender gave it up before it arrived.
    pub(crate) is_late: bool,
}

/// The answer of a write that is not known.
const NOT_HEARD: Reply = (Outcome::Unknown, None, None);

/// What became of a write: the version and the incarnation of what was written.
pub(crate) type Reply = (Outcome, Option<Text>, Option<Text>);

impl HealthStep {
    /// The controller that takes this step, if one does.
    pub(crate) fn controller(&self) -> Option<usize> {
        match self {
            Self::Deliver(number) | Self::Tick(number, _) => Some(*number),
            Self::Send(sent) | Self::Answer(sent) => Some(sent.controller),
            Self::Arrive(_) | Self::JobEnds(..) => None,
        }
    }
}

impl Health {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            agents: core::array::from_fn(|_| HealthAgent::new(0)),
            incidents: BTreeMap::new(),
            jobs: BTreeMap::new(),
            reports: BTreeMap::new(),
            mode: Mode::Enforce,
            owners: BTreeMap::new(),
            tallies: Vec::new(),
            log: Vec::new(),
            stages: BTreeMap::new(),
            made: BTreeMap::new(),
            kept_guards: Vec::new(),
            versions: 0,
            is_late: false,
            rng: Rng::new(seed, HEALTH),
        }
    }

    /// A controller starts again, with nothing in memory. What it sent still arrives.
    pub(crate) fn restart(&mut self, number: usize) {
        let agent = &mut self.agents[number];
        let arriving = agent.arriving;
        *agent = HealthAgent::new(agent.life + 1);
        agent.arriving = arriving;
    }

    /// What a rule is for an incident, if it was made for one.
    pub(crate) fn child(&self, rule: &DeviceTaintRule) -> Option<Child> {
        let (owner, kind) = self.owners.get(&rule.uid)?.clone();
        let selector = rule.selector.as_ref()?;
        let device = DeviceId {
            driver: selector.driver.clone()?,
            pool: selector.pool.clone()?,
            device: selector.device.clone()?,
        };
        let taint = TaintKeyValue { key: rule.taint.key.clone(), value: rule.taint.value.clone() };
        let target = match kind {
            ChildKind::Drain => {
                let evicted = rule.evictions.map_or(0, |count| count.pods);
                ChildTarget::Drain { device, taint, evicted }
            }
            ChildKind::Rule | ChildKind::Job | ChildKind::Claim => {
                ChildTarget::Rule { device, effect: rule.taint.effect.to_string().into(), taint }
            }
        };
        let name = owner.name.clone();
        Some(Child { namespace: Text::default(), name, uid: rule.uid.clone(), owner, target })
    }
}

impl HealthAgent {
    fn new(life: u64) -> Self {
        Self {
            core: Reconciler::new(KEPT),
            life,
            heard: None,
            leads: false,
            fence: None,
            is_told: true,
            tick_at: None,
            arriving: 0,
            revision: None,
            raised: BTreeMap::new(),
            children: BTreeMap::new(),
            out: BTreeSet::new(),
        }
    }
}

/// Rules of different stages taint with different keys: the taint of an incident follows its stage.
fn target_name(target: Target) -> &'static str {
    match target {
        Target::Suspect => "suspect",
        Target::Quarantined => "quarantined",
        Target::Drained => "drained",
    }
}

/// Which signals matter: a driver's taints, whatever their effect, and what people report of the same keys.
pub(crate) fn policy(mode: Mode) -> Policy {
    let rule = |(key, count, target): (&str, Option<u32>, Target)| {
        Some(Rule {
            name: key.into(),
            when: When::compile(&format!("signal.key == \"{key}\"")).ok()?,
            count: count.map(|at_least| Count { at_least, within_ms: 60_000 }),
            hold_ms: 0,
            target,
            taint: TaintKeyValue {
                key: format!("trouble.example.com/{}", target_name(target)).into(),
                value: "trouble".into(),
            },
        })
    };
    let rules = [
        (palette::KEYS[2], None, Target::Suspect),
        (palette::KEYS[1], None, Target::Quarantined),
        (palette::KEYS[0], Some(2), Target::Quarantined),
        (palette::KEYS[0], Some(3), Target::Drained),
    ];
    let step = |name: &str| RepairStep { name: name.into(), timeout_ms: 30_000, is_request: false };
    Policy {
        name: POLICY.into(),
        mode,
        rules: rules.into_iter().filter_map(rule).collect(),
        clear_after_ms: 8_000,
        steps: vec![step("reset"), step("reboot")],
        attempts_max: 2,
        recovery: Some(Recovery {
            probation_ms: 8_000,
            validates: true,
            flaps: Some(Flaps { at_most: 2, within_ms: 3_600_000 }),
        }),
    }
}

impl World {
    pub(crate) fn health_step(&mut self, step: HealthStep) {
        match step {
            HealthStep::Deliver(number) => self.health.agents[number].is_told = true,
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
        for number in 0..self.controllers.len() {
            let is_stopped = self.clients[number].down || self.controllers[number].frozen(self.now).is_some();
            if !is_stopped && core::mem::take(&mut self.health.agents[number].is_told) {
                self.health_think(number);
            }
        }
    }

    /// Plans that watches of incidents and jobs deliver.
    pub(crate) fn health_tell(&mut self, event: HealthEvent) {
        self.health.log.push(event);
        for number in 0..self.controllers.len() {
            let delay = self.health.rng.below(u64::from(self.config.lag_ms) + 1);
            self.push(self.now + delay, Step::Health(Box::new(HealthStep::Deliver(number))));
        }
    }

    fn health_think(&mut self, number: usize) {
        let now = self.controllers[number].clock(self.now);
        // What is permitted is known before anything is wanted.
        if self.health.agents[number].leads {
            self.hear_limits(number, now);
        }
        self.hear_incidents(number, now);
        self.hear_devices(number, now);
        self.hear_children(number, now);
        self.take_or_lose_the_lead(number, now);
        let leads = self.health.agents[number].leads;
        self.health.agents[number].core.handle(now, Notice::Tick);
        if leads {
            self.hear_usage(number, now);
            self.health.agents[number].core.handle(now, Notice::Tick);
            self.check_taken_out(number);
        }
        while let Some(write) = self.health.agents[number].core.poll_effect() {
            let write = self.check_health_write(number, write);
            let delay = self.health.rng.below(u64::from(self.config.latency_ms) / 2 + 1);
            let (life, term) = (self.health.agents[number].life, self.controllers[number].term());
            let sent = HealthSent { controller: number, life, term, write, reply: NOT_HEARD, is_late: false };
            self.push(self.now + delay, Step::Health(Box::new(HealthStep::Send(sent))));
        }
        self.plan_health_tick(number);
    }

    fn plan_health_tick(&mut self, number: usize) {
        let agent = &mut self.health.agents[number];
        let Some(wake) = agent.core.next_wake() else { return };
        let virtual_ms =
            wake.at.as_millis().saturating_sub(EPOCH_MS).saturating_sub(self.controllers[number].skew);
        let at = u64::try_from(virtual_ms).unwrap_or(0).max(self.now + 1);
        if at > self.now + WAKE_MS_MAX || agent.tick_at.is_some_and(|planned| planned <= at) {
            return;
        }
        agent.tick_at = Some(at);
        let life = agent.life;
        self.push(at, Step::Health(Box::new(HealthStep::Tick(number, life))));
    }

    /// Leads with its eviction controller, once it has seen what there was when the term began and nothing that it sent before is on its way.
    fn take_or_lose_the_lead(&mut self, number: usize, now: Timestamp) {
        let may = self.controllers[number].leads();
        let agent = &mut self.health.agents[number];
        if !may {
            agent.fence = None;
            if core::mem::take(&mut agent.leads) {
                agent.core.handle(now, Notice::LostLeadership);
            }
            return;
        }
        if agent.leads {
            return;
        }
        let fence = *agent.fence.get_or_insert_with(|| Kind::ALL.map(|kind| log_length(&self.api, kind)));
        let view = &self.clients[number].view;
        let is_behind = Kind::ALL.into_iter().zip(fence).any(|(kind, length)| view.position(kind) < length);
        if is_behind || agent.arriving > 0 {
            return;
        }
        agent.fence = None;
        agent.leads = true;
        self.hear_limits(number, now);
        self.health.agents[number].core.handle(now, Notice::BecameLeader);
        self.hear_usage(number, now);
    }

    fn health_send(&mut self, mut sent: HealthSent) {
        let number = sent.controller;
        if self.health.agents[number].life != sent.life {
            return;
        }
        let wire = self.health.rng.below(u64::from(self.config.latency_ms) / 2 + 1);
        let controller = &self.controllers[number];
        if controller.holds(self.now) && controller.term() == sent.term {
            if self.is_overtaken() {
                return self.health_give_up(sent, wire);
            }
            self.health.agents[number].arriving += 1;
            self.push(self.now + wire, Step::Health(Box::new(HealthStep::Arrive(sent))));
        } else {
            sent.reply = (Outcome::RetryLater, None, None);
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
        let number = sent.controller;
        let agent = &mut self.health.agents[number];
        agent.arriving -= 1;
        agent.is_told = true;
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
        let now = self.controllers[sent.controller].clock(self.now);
        let agent = &mut self.health.agents[sent.controller];
        if agent.life != sent.life || self.clients[sent.controller].down {
            return;
        }
        let (outcome, version, uid) = sent.reply;
        let notice = Notice::Acknowledged { id: sent.write.id, outcome, version, uid, refused: None };
        agent.core.handle(now, notice);
        agent.is_told = true;
    }

    fn health_job_ends(&mut self, name: &Text, uid: &Uid) {
        let Some(job) = self.health.jobs.get_mut(name).filter(|job| job.uid == *uid) else { return };
        let fails = !self.resting && self.health.rng.chance(300);
        let result = if fails { Err("it failed".to_owned()) } else { Ok(()) };
        job.target = ChildTarget::Job { result: Some(result) };
        let job = job.clone();
        self.health_tell(HealthEvent::Job(job));
    }
}
