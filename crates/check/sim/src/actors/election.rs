//! The lease: each process competes for it by the election that ships. Calls take time, fail, get lost, and arrive when their sender has given them up.

use lazaret_leader::{ElectionStep, LeaseRecord, LeaseWrite, TermNotice};

use crate::{
    coverage::Mark,
    mutant::Mutant,
    world::{Errors, Step, World},
};

/// Of the lease one call in as many fails that would fail of others: with every renewal lost, nothing else would be sent that could fail.
const SPARED: u64 = 5;
/// A write that is late arrives within this time: the lease may be another's by then.
const LATE_MS_MAX: u64 = 8_000;
/// In a thousand reads by a candidate that waits, as many are answered with the lease as it was one write ago.
const CACHED_PERMILLE: u64 = 150;

/// Something about the lease.
#[derive(Debug)]
pub(crate) enum LeaseStep {
    /// A process looks after its lease; only if it is still that process.
    Look(usize, u64),
    /// A call reaches the server.
    Arrive(Box<LeaseCall>),
    /// Its answer reaches the process.
    Answer(Box<LeaseCall>),
}

/// A call on its way.
#[derive(Clone, Debug)]
pub(crate) struct LeaseCall {
    controller: usize,
    process: u64,
    what: What,
    /// The answer of the server; `None`: none, or none in time.
    answer: Option<Option<LeaseRecord>>,
    /// Its sender does not wait for it.
    is_unheard: bool,
}

#[derive(Clone, Debug)]
enum What {
    Read { newest: bool },
    Write(LeaseWrite),
}

impl LeaseStep {
    /// The controller that takes this step, if one does.
    pub(crate) fn controller(&self) -> Option<usize> {
        match self {
            Self::Look(number, _) => Some(*number),
            Self::Answer(call) => Some(call.controller),
            Self::Arrive(_) => None,
        }
    }
}

impl World {
    pub(crate) fn lease_step(&mut self, step: LeaseStep) {
        match step {
            LeaseStep::Look(number, process) => {
                if self.controllers[number].process == process {
                    self.look_after_lease(number);
                }
            }
            LeaseStep::Arrive(call) => self.lease_arrives(call),
            LeaseStep::Answer(call) => {
                let number = call.controller;
                if self.controllers[number].process == call.process && self.controllers[number].is_up {
                    self.hear_of_lease(*call);
                    self.look_after_lease(number);
                }
            }
        }
    }

    /// Does what is next about the lease of a process that runs.
    pub(crate) fn look_after_lease(&mut self, number: usize) {
        let controller = &mut self.controllers[number];
        if !controller.is_up {
            return;
        }
        let (process, at) = (controller.process, controller.instants(self.now));
        controller.election.pass(at);
        let TermNotice { wakes, .. } = controller.election.tell(at);
        let next = controller.election.next(at);
        if wakes {
            self.leadership_changed(number);
        }
        let what = match next {
            ElectionStep::Wait(until) => {
                let wait = until.millis_since(at.monotonic).clamp(1, i64::from(u32::MAX)).unsigned_abs();
                return self.push_lease(wait, LeaseStep::Look(number, process));
            }
            ElectionStep::Read { newest } => What::Read { newest },
            ElectionStep::Write(write) => What::Write(write),
        };
        let call = LeaseCall { controller: number, process, what, answer: None, is_unheard: false };
        self.call_lease(call);
    }

    fn push_lease(&mut self, wait: u64, step: LeaseStep) {
        self.push(self.now + wait, Step::Lease(step));
    }

    fn call_lease(&mut self, call: LeaseCall) {
        let controller = &mut self.controllers[call.controller];
        let wire = controller.rng.below(u64::from(self.config.latency_ms) / 2 + 1);
        let patience = controller.election.patience_ms().unsigned_abs();
        let call = Box::new(call);
        if self.now < controller.cut_until {
            let wait = if controller.rng.chance(500) { wire } else { patience };
            return self.push_lease(wait, LeaseStep::Answer(call));
        }
        let fails =
            |errors: &Errors| errors.until > self.now && controller.rng.chance(errors.permille / SPARED);
        let unheard = |call: &LeaseCall| Box::new(LeaseCall { is_unheard: true, ..call.clone() });
        match self.errors.filter(fails).map(|errors| errors.manner % 4) {
            None => self.push_lease(wire, LeaseStep::Arrive(call)),
            Some(0) => self.push_lease(wire, LeaseStep::Answer(call)),
            Some(1) => {
                self.coverage.hit(Mark::LateLease);
                let late = self.controllers[call.controller].rng.below(LATE_MS_MAX);
                self.push_lease(wire + late, LeaseStep::Arrive(unheard(&call)));
                self.push_lease(patience, LeaseStep::Answer(call));
            }
            Some(2) => {
                self.push_lease(wire, LeaseStep::Arrive(unheard(&call)));
                self.push_lease(patience, LeaseStep::Answer(call));
            }
            Some(_) => self.push_lease(patience, LeaseStep::Answer(call)),
        }
    }

    fn lease_arrives(&mut self, mut call: Box<LeaseCall>) {
        let controller = &mut self.controllers[call.controller];
        call.answer = match &call.what {
            What::Read { newest } => {
                let is_old = !newest && controller.rng.chance(CACHED_PERMILLE);
                Some(if is_old { self.api.lease.before.clone() } else { self.api.lease.record.clone() })
            }
            What::Write(write) => self.api.write_lease(write).ok().map(Some),
        };
        if !call.is_unheard {
            let back = controller.rng.below(u64::from(self.config.latency_ms) / 2 + 1);
            self.push_lease(back, LeaseStep::Answer(call));
        }
    }

    fn hear_of_lease(&mut self, call: LeaseCall) {
        let LeaseCall { controller: number, what, answer, .. } = call;
        let unnoticed = self.mutant == Some(Mutant::UnnoticedLoss);
        let controller = &mut self.controllers[number];
        let at = controller.instants(self.now);
        let is_anothers = |record: &LeaseRecord| record.holder != controller.election.identity();
        match (what, answer) {
            (What::Read { .. }, Some(Some(record)))
                if unnoticed && controller.leads() && is_anothers(&record) =>
            {
                if record.holder.is_empty() {
                    let holder = controller.election.identity().to_owned();
                    controller.election.read(at, Some(LeaseRecord { holder, ..record }));
                } else {
                    controller.election.not_read(at);
                }
            }
            (What::Read { .. }, Some(record)) => controller.election.read(at, record),
            (What::Read { .. }, None) => controller.election.not_read(at),
            (What::Write(write), Some(Some(mut record))) => {
                let first = *controller.first_transitions.get_or_insert(record.transitions);
                if unnoticed {
                    record.transitions = first;
                }
                controller.election.written(at, &write, record);
            }
            (What::Write(write), Some(None) | None) => controller.election.not_written(&write),
        }
    }

    /// A process that ends gives its lease back.
    pub(super) fn give_lease_back(&mut self, number: usize) {
        let controller = &mut self.controllers[number];
        let at = controller.instants(self.now);
        if let Some(write) = controller.election.release(at) {
            // Otherwise the other one waits until it is over.
            let _released = self.api.write_lease(&write);
        }
    }
}
