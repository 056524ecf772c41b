//! Beginnings and ends: a process that is asked to end, that dies, that starts again; an agent that is given up and begun anew in the same process.

use lazaret_eviction::Input;
use lazaret_leader::GIVEN_UP_MS;

use crate::{
    actors::election::LeaseStep,
    coverage::Mark,
    mutant::Mutant,
    world::{Step, World},
};

/// A process that ends in good order takes no longer than this to write what it knows.
const CLOSING_MS_MAX: u64 = 1_000;

/// An agent that was given up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GivenUp {
    /// Another begins not before.
    begins: u64,
    /// Effects that have not ended by then are cut off.
    cut_off: u64,
}

impl World {
    /// A controller is asked to end: it begins nothing any more, says all it knows, and gives its lease back, so that
    /// the other takes over at once.
    pub(crate) fn close(&mut self, number: usize, down_ms: u64) {
        let controller = &self.controllers[number];
        if !controller.holds(self.now) || controller.frozen(self.now).is_some() {
            return self.crash(number, down_ms);
        }
        if self.controllers[number].closing.is_none() {
            self.controllers[number].closing = Some(down_ms);
            let process = self.controllers[number].process;
            self.push(self.now + CLOSING_MS_MAX, Step::Kill(number, process));
            if self.mutant != Some(Mutant::Speechless) {
                self.feed(number, Input::Closing);
            }
            self.end_if_all_is_said(number);
        }
    }

    pub(super) fn end_if_all_is_said(&mut self, number: usize) {
        let controller = &self.controllers[number];
        let said = !controller.eviction.has_final_writes() || self.mutant == Some(Mutant::Speechless);
        if let Some(down_ms) = controller.closing
            && controller.turn.in_flight() == 0
            && self.health.agents[number].turn.in_flight() == 0
            && self.claims.in_flight(number) == 0
            && self.schedulers.in_flight(number) == 0
            && self.workload_controllers.in_flight(number) == 0
            && self.replacers.in_flight(number) == 0
            && said
            && controller.holds(self.now)
        {
            self.coverage.hit(Mark::GaveBack);
            self.give_lease_back(number);
            self.end(number, down_ms);
        }
    }

    /// It was given enough time.
    pub(crate) fn kill(&mut self, number: usize, process: u64) {
        let controller = &self.controllers[number];
        if let Some(down_ms) = controller.closing.filter(|_| controller.process == process) {
            self.crash(number, down_ms);
        }
    }

    /// A controller ends without a word.
    pub(crate) fn crash(&mut self, number: usize, down_ms: u64) {
        if self.controllers[number].turn.in_flight() > 0 {
            self.coverage.hit(Mark::CrashInFlight);
        }
        self.checker.crashed();
        self.end(number, down_ms);
    }

    fn end(&mut self, number: usize, down_ms: u64) {
        let controller = &mut self.controllers[number];
        controller.new_process(self.now);
        let process = controller.process;
        self.clients[number].forget();
        let clock = self.controllers[number].clock(self.now);
        self.health.restart_process(number, clock);
        self.claims.restart_process(number, clock);
        self.schedulers.restart_process(number, clock);
        self.workload_controllers.restart_process(number, clock);
        self.replacers.restart_process(number, clock);
        self.push(self.now + down_ms, Step::Restart(number, process));
    }

    pub(crate) fn restart(&mut self, number: usize, process: u64) {
        let controller = &mut self.controllers[number];
        if controller.process == process {
            controller.is_up = true;
            controller.begin_era(self.now);
            controller.started_at = self.now;
            self.start_client(number);
            self.hear_guards(number);
            self.push(self.now, Step::Lease(LeaseStep::Look(number, process)));
        }
    }

    /// The agent of a controller panics: it is given up, and another begins after a pause.
    pub(crate) fn panic(&mut self, number: usize) {
        let controller = &mut self.controllers[number];
        if !controller.is_up || controller.given_up.is_some() || controller.frozen(self.now).is_some() {
            return;
        }
        self.coverage.hit(Mark::AgentPanicked);
        let ran_ms = i64::try_from(self.now - controller.started_at).unwrap_or(i64::MAX);
        let pause_ms = controller.pauses.after(ran_ms).unsigned_abs();
        self.give_up_agent(number, pause_ms);
    }

    /// The clock of a process was set, or it was stopped for long: all of its agents are given up.
    pub(crate) fn give_up_both(&mut self, number: usize) {
        self.coverage.hit(Mark::EraOver);
        self.checker.clock_jumped();
        self.controllers[number].begin_era(self.now);
        self.health.give_up(number);
        self.claims.give_up(number);
        self.schedulers.give_up(number);
        self.workload_controllers.give_up(number);
        self.replacers.give_up(number);
        self.give_up_agent(number, 0);
    }

    /// The agent of a controller is given up. Its effects in flight are let end; then another begins, with nothing in memory.
    fn give_up_agent(&mut self, number: usize, pause_ms: u64) {
        self.checker.crashed();
        let controller = &mut self.controllers[number];
        controller.turn.give_up();
        controller.new_agent();
        let begins = self.now + pause_ms;
        let cut_off = begins + GIVEN_UP_MS.unsigned_abs();
        controller.given_up = Some(GivenUp { begins, cut_off });
        let life = controller.life;
        self.clients[number].forget();
        self.push(begins, Step::BeginAnew(number, life));
        self.push(cut_off, Step::BeginAnew(number, life));
    }

    /// Another agent begins, if the last one was given up and its effects have ended.
    pub(crate) fn begin_anew(&mut self, number: usize) {
        let controller = &mut self.controllers[number];
        let Some(GivenUp { begins, cut_off }) = controller.given_up else { return };
        let is_over = controller.turn.in_flight() == 0 || self.now >= cut_off;
        if self.now < begins || !is_over {
            return;
        }
        if controller.turn.in_flight() > 0 {
            controller.cut_off = Some(controller.life - 1);
        }
        controller.given_up = None;
        controller.started_at = self.now;
        controller.begin_era(self.now);
        let now = controller.clock(self.now);
        controller.turn.begin_anew(now);
        self.coverage.hit(Mark::BegunAnew);
        self.start_client(number);
        self.hear_guards(number);
    }
}
