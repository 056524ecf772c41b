//! The world: virtual time, the next steps, the API server and all its clients.

mod run;
mod step;
mod told;

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use lazaret_claims::Claims;
use lazaret_model::{DisruptionGuard, Text};
use lazaret_scheduler::Scheduler;

pub use run::{Outcome, run};
pub(crate) use step::Step;

use crate::{
    actors::{
        binding::Readiness, client::Client, controller::Controller, drivers::Drivers, election::LeaseStep,
        health::Health, kubelets::Kubelets, nodes::Reports, object_watches::ObjectWatches, part::Crew,
        prepared::AnsweredFor, replacement::Replacer, replacement_policies::Replacements, scheduler::Placing,
        workloads::Workloads,
    },
    api::{Api, Kind},
    check::{Checker, Moved},
    coverage::Coverage,
    mutant::Mutant,
    population::Population,
    queue::Queue,
    record::Times,
    rng::Rng,
    scenario::{Config, Scenario, Transition},
    view::Seen,
};

/// The clients that watch: one for each process.
pub(crate) const CLIENTS: usize = 2;

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
    pub(crate) population: Option<Rc<Population>>,
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
    /// The write that arrives is of a sender that leads no more or is gone.
    pub(crate) is_left_behind: bool,
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
            is_left_behind: false,
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

    /// Everything there is at the start.
    pub(crate) fn populate(&mut self) {
        self.publish_everything();
        self.create_workloads();
        self.watches.decode(&self.api);
        self.tell();
        self.start_kubelets();
    }

    /// The world of a scenario, and what is planned from the start.
    fn new(scenario: &Scenario, mutant: Option<Mutant>, population: Rc<Population>) -> Self {
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
            if line.len() > 600 {
                line.truncate((0..=600).rev().find(|end| line.is_char_boundary(*end)).unwrap_or(0));
            }
            eprintln!("{:>8}  {line}", self.now);
        }
    }

    /// The view of a client.
    pub(crate) fn seen(&self, client: usize) -> Seen<'_> {
        self.clients[client].view.of(&self.api)
    }
}
