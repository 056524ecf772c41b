//! A world from its start to its rest. After each step watches are scheduled to deliver it, and the invariants are checked.

use lazaret_claims::Claims;
use lazaret_scheduler::Scheduler;

use super::{Violation, World};
use crate::{
    actors::{controller::Controller, replacement::Replacer},
    coverage::{Coverage, Mark},
    mutant::Mutant,
    population::Runner,
    record::{Times, recording},
    scenario::Scenario,
};

/// After faults end, a world that is still busy after this time will never rest.
const REST_MS_MAX: u64 = 3_600_000;
/// After faults end, wait at least this long: a leader must have been found.
const REST_MS_MIN: u64 = 20_000;
/// A world that does more than this in all is stuck in a loop.
const STEPS_MAX: u64 = 2_000_000;

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

impl World {
    fn outcome(self) -> Outcome {
        let Self { violation, coverage, steps, now, .. } = self;
        Outcome { violation, coverage, steps, elapsed: now }
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

    /// Faults end: everything that was broken works from here on.
    pub(super) fn begin_rest(&mut self) {
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

    fn describe_unrest(&self) -> String {
        let wakes: Vec<String> = self.controllers.iter().map(Controller::describe).collect();
        format!("still busy after {} steps: {} planned; {}", self.steps, self.busy, wakes.join("; "))
    }
}
