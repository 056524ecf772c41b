//! The world: virtual time, the next steps, the API server and all its clients. One step happens at a time; after each, watches are scheduled to
//! deliver it, and the invariants are checked.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_claims::Claims;
use lazaret_model::{DisruptionGuard, ObjectKey, Text, Uid};
use lazaret_scheduler::Scheduler;

use crate::{
    actors::{
        binding::Readiness,
        client::Client,
        controller::Controller,
        drivers::Drivers,
        election::LeaseStep,
        health::{Health, HealthStep},
        kubelet_watches::Watch,
        kubelets::{KubeletStep, Kubelets},
        nodes::Reports,
        object_watches::ObjectWatches,
        part::{Crew, PartStep},
        prepared::AnsweredFor,
        replacement::Replacer,
        replacement_policies::Replacements,
        scheduler::Placing,
        turn::Question,
        workloads::Workloads,
        writes::Sent,
    },
    api::{Api, Kind},
    check::{Checker, Moved},
    coverage::{Coverage, Mark},
    mutant::Mutant,
    population::{Population, Runner},
    queue::Queue,
    record::{Times, recording},
    rng::Rng,
    scenario::{Config, Scenario, Transition},
    view::Seen,
};

/// After faults end, a world that is still busy after this time will never rest.
const REST_MS_MAX: u64 = 3_600_000;
/// After faults end, wait at least this long: a leader must have been found.
const REST_MS_MIN: u64 = 20_000;
/// A world that does more than this in all is stuck in a loop.
const STEPS_MAX: u64 = 2_000_000;

/// The clients that watch: one for each process.
pub(crate) const CLIENTS: usize = 2;

/// Something that is going to happen.
#[derive(Debug)]
pub(crate) enum Step {
    /// Something from outside.
    Transition(usize),
    /// Faults end.
    Rest,
    /// A watch delivers.
    Deliver(usize, Kind),
    /// Something about the lease.
    Lease(LeaseStep),
    /// A controller starts again; only if it is still that process.
    Restart(usize, u64),
    /// A controller that was asked to end has had enough time; only if it is still that process.
    Kill(usize, u64),
    /// A controller whose agent was given up begins another, if it is still in that life.
    BeginAnew(usize, u64),
    /// A controller asks how far the server is.
    Ask(Box<Question>),
    /// It hears the answer.
    Told(Box<Question>),
    /// A controller looks again whether its watches are as far.
    Look(usize),
    /// A controller asked to be called.
    Tick(usize, u64),
    /// A controller is about to send a write: the last look at the lease.
    Send(Box<Sent>),
    /// The write reaches the server.
    Arrive(Box<Sent>),
    /// The answer reaches the controller.
    Answer(Box<Sent>),
    /// A driver publishes a slice of a pool.
    Publish(usize, usize),
    /// A driver publishes a slice that it misses.
    PublishAgain(usize, usize),
    /// The slices of a Node that is gone are collected.
    Collect(Text),
    /// A driver deletes a slice that another has replaced.
    Withdraw(Text),
    /// Something about the kubelets.
    Kubelet(Box<KubeletStep>),
    /// Something about the claim controllers.
    Claims(Box<PartStep<lazaret_claims::EffectKind>>),
    /// A watch of nodes delivers what kubelets say.
    DeliverReports(usize),
    /// A driver reports on the devices of a claim.
    ReportDevices(ObjectKey, Uid),
    /// Something about the schedulers.
    Scheduler(Box<PartStep<lazaret_scheduler::EffectKind>>),
    /// Something about the workload controllers.
    Workloads(Box<PartStep<lazaret_workloads::Write>>),
    /// The watches of objects that are kept as JSON deliver.
    DeliverObjects(usize),
    /// Something about the replacement controllers.
    Replacer(Box<PartStep<lazaret_replacement::EffectKind>>),
    /// A watch of replacement policies delivers.
    DeliverReplacements(usize),
    /// A controller hears of the guards.
    Guards(usize),
    /// Something about incidents.
    Health(Box<HealthStep>),
}

impl Step {
    /// Whether it comes again and again, also in a world at rest.
    fn is_routine(&self) -> bool {
        matches!(self, Self::Lease(_)) || matches!(self, Self::Kubelet(step) if step.is_routine())
    }
}

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant, in a few words that stay the same from seed to seed.
    pub invariant: &'static str,
    /// The details.
    pub detail: String,
    /// When, in ms.
    pub at: u64,
}

/// Failing writes of controllers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Errors {
    pub(crate) until: u64,
    pub(crate) manner: u32,
    pub(crate) permille: u64,
}

/// A world.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) config: Config,
    pub(crate) transitions: Vec<Transition>,
    /// Its initial state.
    pub(crate) population: Option<Arc<Population>>,
    pub(crate) mutant: Option<Mutant>,
    pub(crate) now: u64,
    pub(crate) queue: Queue<Step>,
    /// Steps in the queue that are not the eternal ticking of leases.
    pub(crate) busy: u64,
    pub(crate) resting: bool,
    pub(crate) api: Api,
    pub(crate) clients: [Client; CLIENTS],
    pub(crate) controllers: [Controller; 2],
    pub(crate) drivers: Drivers,
    pub(crate) workloads: Workloads,
    pub(crate) kubelets: Kubelets,
    pub(crate) answered_for: AnsweredFor,
    pub(crate) health: Health,
    /// The claim controllers.
    pub(crate) claims: Crew<Claims>,
    /// The schedulers.
    pub(crate) schedulers: Crew<Scheduler>,
    /// The controllers of the owners of pods.
    pub(crate) workload_controllers: Crew<lazaret_workloads::Workloads>,
    pub(crate) watches: ObjectWatches,
    pub(crate) placing: Placing,
    pub(crate) readiness: Readiness,
    /// The replacement controllers.
    pub(crate) replacers: Crew<Replacer>,
    pub(crate) replacements: Replacements,
    pub(crate) reports: Reports,
    pub(crate) errors: Option<Errors>,
    /// The guards, whose limits no eviction may exceed, by name.
    pub(crate) guards: BTreeMap<Text, Arc<DisruptionGuard>>,
    /// The last write that was scheduled for the watches.
    written: u64,
    /// How far each kind's log has been scheduled for the watches.
    pub(crate) told: [usize; Kind::ALL.len()],
    pub(crate) rng: Rng,
    pub(crate) checker: Checker,
    /// The client that got an event in this step.
    pub(crate) moved: Option<Moved>,
    pub(crate) coverage: Coverage,
    pub(crate) violation: Option<Violation>,
    /// Steps taken.
    pub(crate) steps: u64,
    pub(crate) trace: bool,
    /// When what was written, where that is recorded.
    times: Option<Times>,
}

/// The result of a world.
#[derive(Debug)]
pub struct Outcome {
    /// The violation, if any.
    pub violation: Option<Violation>,
    /// The marks that were reached.
    pub coverage: Coverage,
    /// Steps taken.
    pub steps: u64,
    /// Virtual time passed, in ms.
    pub elapsed: u64,
}

/// Runs a scenario to its end.
#[must_use]
pub fn run(scenario: &Scenario, mutant: Option<Mutant>) -> Outcome {
    Runner::default().run(scenario, mutant)
}

impl Runner {
    /// Runs a scenario to its end.
    #[must_use]
    pub fn run(&mut self, scenario: &Scenario, mutant: Option<Mutant>) -> Outcome {
        self.run_traced(scenario, mutant, false)
    }

    /// The same, telling on standard error what happens.
    #[must_use]
    pub fn run_traced(&mut self, scenario: &Scenario, mutant: Option<Mutant>, trace: bool) -> Outcome {
        let mut world = World::new(scenario, mutant, self.population(&scenario.config));
        world.trace = trace;
        world.run();
        world.outcome()
    }

    /// The same, with a recording that the dashboard plays: one JSON object.
    #[must_use]
    pub fn run_recorded(&mut self, scenario: &Scenario, mutant: Option<Mutant>) -> (Outcome, String) {
        let mut world = World::new(scenario, mutant, self.population(&scenario.config));
        let start = world.written;
        world.times = Some(Times::default());
        world.run();
        let title = format!("lazaret-sim seed {}", scenario.config.seed);
        let times = world.times.take().unwrap_or_default();
        let file = recording(&world, &times, start, &title).to_string();
        (world.outcome(), file)
    }
}

/// Streams of randomness within a seed.
const WORLD: u64 = 1;
const WORKLOADS: u64 = 2;
const CLAIMS: u64 = 40;
const SCHEDULERS: u64 = 42;
const WORKLOAD_CONTROLLERS: u64 = 43;
const OBJECT_WATCHES: u64 = 44;
const REPLACERS: u64 = 50;

impl World {
    /// Without anything in it.
    pub(crate) fn empty(config: &Config) -> Self {
        let seed = config.population;
        Self {
            transitions: Vec::new(),
            population: None,
            mutant: None,
            now: 0,
            queue: Queue::default(),
            busy: 0,
            resting: false,
            api: Api::default(),
            clients: core::array::from_fn(|_| Client::new(Rng::new(seed, 0))),
            controllers: core::array::from_fn(|number| Controller::new(number, config, None)),
            drivers: Drivers::default(),
            workloads: Workloads::new(Rng::new(seed, WORKLOADS)),
            kubelets: Kubelets::new(config),
            answered_for: AnsweredFor::default(),
            health: Health::new(config),
            claims: Crew::new(config.seed, CLAIMS),
            schedulers: Crew::new(config.seed, SCHEDULERS).in_world(config),
            workload_controllers: Crew::new(config.seed, WORKLOAD_CONTROLLERS),
            watches: ObjectWatches::new(Rng::new(config.seed, OBJECT_WATCHES)),
            placing: Placing::new(config),
            readiness: Readiness::new(config.seed),
            replacers: Crew::new(config.seed, REPLACERS),
            replacements: Replacements::new(config.seed),
            reports: Reports::new(config),
            errors: None,
            guards: BTreeMap::new(),
            written: 0,
            told: [0; Kind::ALL.len()],
            rng: Rng::new(seed, WORLD),
            checker: Checker::default(),
            moved: None,
            coverage: Coverage::default(),
            violation: None,
            steps: 0,
            trace: false,
            times: None,
            config: config.clone(),
        }
    }

    fn outcome(self) -> Outcome {
        let Self { violation, coverage, steps, now, .. } = self;
        Outcome { violation, coverage, steps, elapsed: now }
    }

    /// Everything there is at the start.
    pub(crate) fn populate(&mut self) {
        self.publish_everything();
        self.create_workloads();
        self.watches.decode(&self.api);
        self.tell();
        self.start_kubelets();
    }

    /// The world of a scenario, and what is planned from the start.
    fn new(scenario: &Scenario, mutant: Option<Mutant>, population: Arc<Population>) -> Self {
        let config = scenario.config.clone();
        let seed = config.seed;
        let born = &population.world;
        let mut world = Self {
            transitions: scenario.transitions.clone(),
            mutant,
            api: born.api.clone(),
            clients: core::array::from_fn(|number| Client::new(Rng::new(seed, 10 + number as u64))),
            controllers: core::array::from_fn(|number| Controller::new(number, &config, mutant)),
            drivers: born.drivers.clone(),
            workloads: born.workloads.clone(),
            kubelets: Kubelets::known_by(&born.kubelets, &config),
            watches: born.watches.clone(),
            written: born.written,
            told: born.told,
            rng: Rng::new(seed, WORLD),
            checker: born.checker.clone(),
            violation: born.violation.clone(),
            ..Self::empty(&config)
        };
        world.workloads.draw_from(Rng::new(seed, WORKLOADS));
        world.watches.draw_from(Rng::new(seed, OBJECT_WATCHES));
        world.begin_ready();
        world.label_first_pods();
        world.start_clients(&population);
        world.population = Some(population);
        for number in 0..world.controllers.len() {
            let offset = world.rng.below(1_000);
            world.push(offset, Step::Lease(LeaseStep::Look(number, 0)));
        }
        for number in 0..world.transitions.len() {
            world.push(u64::from(world.transitions[number].at), Step::Transition(number));
        }
        world.push(u64::from(world.config.horizon_ms), Step::Rest);
        world
    }

    fn run(&mut self) {
        let rest_begins = u64::from(self.config.horizon_ms);
        while self.violation.is_none() {
            let quiet = self.resting && self.busy == 0 && self.now >= rest_begins + REST_MS_MIN;
            if quiet && self.is_led() {
                self.coverage.hit(Mark::Rest);
                self.check_at_rest();
                return;
            }
            if self.now > rest_begins + REST_MS_MAX || self.steps > STEPS_MAX {
                let next = self.describe_unrest();
                self.violate("comes to rest", next);
                return;
            }
            let Some((at, step)) = self.queue.pop() else { return };
            self.now = self.now.max(at);
            self.read_all_clocks();
            self.steps += 1;
            if !step.is_routine() {
                self.busy -= 1;
            }
            if let Some(later) = self.frozen_until(&step) {
                self.coverage.hit(Mark::Frozen);
                self.push(later, step);
                continue;
            }
            self.take(step);
            self.tell();
            self.turn_kubelets();
            self.turn_controllers();
            self.health_turn();
            self.turn_part::<Claims>();
            self.turn_part::<Scheduler>();
            self.turn_part::<lazaret_workloads::Workloads>();
            // As in the program: nothing is kept in memory where there is no policy.
            if self.config.replaced != 0 {
                self.turn_part::<Replacer>();
            }
            self.tell();
            self.check_step();
        }
    }

    /// Every process that runs looks at its clocks. While one makes up for a small correction, its seconds are not as long as others'.
    fn read_all_clocks(&mut self) {
        for controller in &mut self.controllers {
            if controller.is_up && controller.frozen(self.now).is_none() {
                controller.read_clocks(self.now);
            }
        }
        if self.controllers.iter().any(Controller::is_slewing) {
            self.checker.clock_jumped();
        }
    }

    /// Whether one leads and may write, and no other believes to lead.
    fn is_led(&self) -> bool {
        let mut leaders = self.controllers.iter().filter(|controller| controller.leads());
        leaders.next().is_some_and(|leader| leader.holds(self.now)) && leaders.next().is_none()
    }

    /// When a step can be taken whose actor is stopped.
    fn frozen_until(&self, step: &Step) -> Option<u64> {
        let controller = match step {
            Step::Deliver(client, _) => *client,
            Step::Lease(step) => step.controller()?,
            Step::Tick(controller, _)
            | Step::Look(controller)
            | Step::BeginAnew(controller, _)
            | Step::DeliverReports(controller)
            | Step::DeliverObjects(controller)
            | Step::DeliverReplacements(controller)
            | Step::Guards(controller) => *controller,
            Step::Send(sent) | Step::Answer(sent) => sent.controller,
            Step::Told(question) => question.controller,
            Step::Health(step) => step.controller()?,
            Step::Claims(step) => step.controller()?,
            Step::Scheduler(step) => step.controller()?,
            Step::Workloads(step) => step.controller()?,
            Step::Replacer(step) => step.controller()?,
            Step::Transition(_)
            | Step::Rest
            | Step::Restart(..)
            | Step::Kill(..)
            | Step::Arrive(_)
            | Step::Ask(_)
            | Step::Publish(..)
            | Step::PublishAgain(..)
            | Step::Collect(_)
            | Step::Withdraw(_)
            | Step::Kubelet(_)
            | Step::ReportDevices(..) => return None,
        };
        self.controllers.get(controller)?.frozen(self.now)
    }

    fn take(&mut self, step: Step) {
        if self.trace && !step.is_routine() {
            self.say(format_args!("{step:?}"));
        }
        match step {
            Step::Transition(number) => self.transition(number),
            Step::Rest => self.begin_rest(),
            Step::Deliver(client, kind) => self.deliver(client, kind),
            Step::Lease(step) => self.lease_step(step),
            Step::Restart(controller, process) => self.restart(controller, process),
            Step::Kill(controller, process) => self.kill(controller, process),
            Step::BeginAnew(controller, life) => {
                if self.controllers[controller].life == life {
                    self.begin_anew(controller);
                }
            }
            Step::Ask(question) => self.asked(question),
            Step::Told(question) => self.told_how_far(*question),
            // The loop of every controller turns after each step.
            Step::Look(..) => {}
            Step::Tick(controller, life) => self.tick(controller, life),
            Step::Send(sent) => self.send(sent),
            Step::Arrive(sent) => self.arrive(sent),
            Step::Answer(sent) => self.answer(&sent),
            Step::Publish(pool, slice) => self.publish(pool, slice),
            Step::PublishAgain(pool, slice) => self.publish_if_there(pool, slice),
            Step::Collect(node) => self.collect_slices(&node),
            Step::Withdraw(name) => self.withdraw(&name),
            Step::Kubelet(step) => self.kubelet_step(*step),
            Step::Claims(step) => self.part_step::<Claims>(*step),
            Step::Scheduler(step) => self.part_step::<Scheduler>(*step),
            Step::Replacer(step) => self.part_step::<Replacer>(*step),
            Step::DeliverReplacements(controller) => self.deliver_replacements(controller),
            Step::DeliverReports(controller) => self.deliver_reports(controller),
            Step::Workloads(step) => self.part_step::<lazaret_workloads::Workloads>(*step),
            Step::DeliverObjects(controller) => self.deliver_objects(controller),
            Step::ReportDevices(claim, uid) => self.report_devices(&claim, &uid),
            Step::Guards(controller) => self.hear_guards(controller),
            Step::Health(step) => self.health_step(*step),
        }
    }

    /// Plans a step.
    pub(crate) fn push(&mut self, at: u64, step: Step) {
        if !step.is_routine() {
            self.busy += 1;
        }
        self.queue.push(at, step);
    }

    /// Plans a step some time from now, drawn up to `most` ms.
    pub(crate) fn push_soon(&mut self, most: u32, step: Step) {
        let delay = self.rng.below(u64::from(most) + 1);
        self.push(self.now + delay, step);
    }

    /// Notes the first thing that goes wrong.
    pub(crate) fn violate(&mut self, invariant: &'static str, detail: String) {
        let at = self.now;
        self.violation.get_or_insert(Violation { invariant, detail, at });
    }

    /// For whoever follows one world.
    #[allow(clippy::print_stderr, reason = "only when a trace is asked for")]
    pub(crate) fn say(&self, text: core::fmt::Arguments<'_>) {
        if self.trace {
            let mut line = text.to_string();
            if line.len() > 400 {
                line.truncate((0..=400).rev().find(|end| line.is_char_boundary(*end)).unwrap_or(0));
            }
            eprintln!("{:>8}  {line}", self.now);
        }
    }

    /// Faults end: everything that was broken works from here on.
    fn begin_rest(&mut self) {
        self.resting = true;
        self.errors = None;
        self.relax_budgets();
        self.lift_guards();
        self.keep_guards_for_health();
        self.restore_policy();
        self.lift_limits();
        for client in &mut self.clients {
            client.unstall();
        }
        for controller in &mut self.controllers {
            controller.reconnect();
        }
        self.recover_kubelets();
        self.mend_classes();
        self.uncordon_all();
        self.power_on_all();
        self.make_ready();
        if self.config.is_large() {
            self.hurry();
        }
        if self.config.restore != 0 {
            self.restore_everything();
        }
    }

    /// The view of a client.
    pub(crate) fn seen(&self, client: usize) -> Seen<'_> {
        self.clients[client].view.of(&self.api)
    }

    /// Tells those who watch of everything written since the last call.
    fn tell(&mut self) {
        let written = self.api.versions.last();
        if core::mem::replace(&mut self.written, written) == written {
            return;
        }
        if let Some(times) = &mut self.times {
            times.written(written, self.now);
        }
        self.api.catalogue();
        self.plan_objects();
        let lengths = [
            self.api.slices.log().len(),
            self.api.rules.log().len(),
            self.api.patches.log().len(),
            self.api.classes.log().len(),
            self.api.claims.log().len(),
            self.api.pods.log().len(),
            self.api.nodes.log().len(),
        ];
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            let from = core::mem::replace(&mut self.told[number], lengths[number]);
            if from == lengths[number] {
                continue;
            }
            for client in 0..CLIENTS {
                self.plan_delivery(client, kind);
            }
            match kind {
                Kind::Pod => self.plan_kubelet_delivery(Watch::Pods),
                Kind::Claim => {
                    self.plan_kubelet_delivery(Watch::Claims);
                    self.claims_written(from);
                }
                Kind::Slice | Kind::Rule | Kind::Patch | Kind::Class | Kind::Node => {}
            }
        }
    }

    fn claims_written(&mut self, from: usize) {
        for at in from..self.api.claims.log().len() {
            self.check_claim_written(at);
            self.driver_sees(at);
        }
    }

    fn describe_unrest(&self) -> String {
        let wakes: Vec<String> = self.controllers.iter().map(Controller::describe).collect();
        format!("still busy after {} steps: {} planned; {}", self.steps, self.busy, wakes.join("; "))
    }
}
