//! Requests arrive, are refused, are lost, lose their answers, or arrive late.

use std::sync::Arc;

use lazaret_classic::{
    AllocationMode, ChangeClaim, ClaimEffectKind, ClaimStatus, DriverEffectKind, DriverInput,
    NegotiationEffectKind, News, Phase, Place, PodClaimSource, Reference, ResourceClaim, Step,
};
use lazaret_machine::Outcome;
use lazaret_model::Text;

use super::{
    machines::{Core, Request},
    mutant::Mutant,
    vendor::VendorBehaviour,
    world::{Flight, LateWrite, World},
};

/// The fate of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestOutcome {
    Arrives,
    /// It was refused before it did anything, and that is known.
    Bounces,
    /// It does not arrive, and the outcome is unknown.
    Lost,
    /// It arrives, and the outcome is unknown.
    AnswerLost,
    /// It arrives after its sender has stopped waiting.
    Late,
}

impl World {
    fn fate(&mut self) -> RequestOutcome {
        if !self.faults {
            return RequestOutcome::Arrives;
        }
        match self.dice.roll(16) {
            0 => RequestOutcome::Bounces,
            1 => RequestOutcome::Lost,
            2 => RequestOutcome::AnswerLost,
            3 => RequestOutcome::Late,
            _ => RequestOutcome::Arrives,
        }
    }

    fn behaviour(&mut self) -> VendorBehaviour {
        if self.faults { VendorBehaviour::draw(&mut self.dice) } else { VendorBehaviour::Honest }
    }

    /// One request goes on by one step.
    pub(crate) fn perform(&mut self, at: usize) {
        let Some(flight) = self.flights.remove(at) else { return };
        match flight.request.clone() {
            Request::Claims(ClaimEffectKind::Change(change))
            | Request::Scheduler(NegotiationEffectKind::Change(change))
            | Request::Driver(DriverEffectKind::Change(change)) => self.change(flight, &change),
            Request::Claims(ClaimEffectKind::Create(create)) => {
                let outcome = self.write_once(|world| world.server.create(&create));
                self.acknowledge(&flight, outcome);
            }
            Request::Claims(ClaimEffectKind::ConfirmPod(key, uid)) => {
                let exists = self.server.pods.get(&key).is_some_and(|pod| pod.uid == uid);
                let outcome = match (self.fate(), self.mutant) {
                    (RequestOutcome::Arrives, Some(Mutant::HastyGone)) => Outcome::Gone,
                    (RequestOutcome::Arrives, Some(Mutant::NeverGone)) => Outcome::Done,
                    (RequestOutcome::Arrives, _) => {
                        if exists {
                            Outcome::Done
                        } else {
                            Outcome::Gone
                        }
                    }
                    (RequestOutcome::Bounces, _) => Outcome::RetryLater,
                    (RequestOutcome::Lost | RequestOutcome::Late | RequestOutcome::AnswerLost, _) => {
                        Outcome::Unknown
                    }
                };
                self.acknowledge(&flight, outcome);
            }
            Request::Claims(ClaimEffectKind::AskNode(ask)) => {
                self.count("a node was asked");
                let outcome = self.write_once(|world| world.server.ask(&ask));
                self.acknowledge(&flight, outcome);
            }
            Request::Claims(ClaimEffectKind::Delete(delete)) => {
                let outcome =
                    self.write_once(|world| world.server.delete_claim_of(&delete.claim, &delete.uid));
                self.acknowledge(&flight, outcome);
            }
            Request::Claims(ClaimEffectKind::Event(_)) => {}
            Request::Scheduler(NegotiationEffectKind::Place(place)) => {
                let outcome = match self.fate() {
                    RequestOutcome::Arrives if self.faults && self.dice.one_in(10) => {
                        let pod = self.server.pods.get(&place.pod).filter(|pod| pod.uid == place.uid);
                        match pod {
                            Some(pod) if pod.node.as_ref() == Some(&place.node) => Outcome::Done,
                            Some(_) => Outcome::Conflict,
                            None => Outcome::Gone,
                        }
                    }
                    RequestOutcome::Arrives => self.bind(&place),
                    RequestOutcome::Bounces => Outcome::RetryLater,
                    RequestOutcome::Lost | RequestOutcome::Late => Outcome::Unknown,
                    RequestOutcome::AnswerLost => {
                        self.bind(&place);
                        Outcome::Unknown
                    }
                };
                self.acknowledge(&flight, outcome);
            }
            Request::Driver(
                DriverEffectKind::Allocate(_)
                | DriverEffectKind::Deallocate(_)
                | DriverEffectKind::Examine(_),
            ) => self.call(&flight),
        }
    }

    /// A write that may bounce, get lost, or arrive without an answer.
    fn write_once(&mut self, write: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        match self.fate() {
            RequestOutcome::Arrives => write(self),
            RequestOutcome::Bounces => Outcome::RetryLater,
            RequestOutcome::Lost | RequestOutcome::Late => Outcome::Unknown,
            RequestOutcome::AnswerLost => {
                write(self);
                Outcome::Unknown
            }
        }
    }

    fn change(&mut self, mut flight: Flight, change: &ChangeClaim) {
        let version = flight.version.clone().unwrap_or_else(|| change.version.clone());
        let step = change.steps[flight.step].clone();
        let fate = self.fate();
        let (outcome, version) = match fate {
            RequestOutcome::Arrives | RequestOutcome::AnswerLost => {
                self.write(&flight, change, &version, &step)
            }
            RequestOutcome::Bounces => (Outcome::RetryLater, Text::default()),
            RequestOutcome::Lost => (Outcome::Unknown, Text::default()),
            RequestOutcome::Late => {
                let (claim, uid) = (change.claim.clone(), change.uid.clone());
                self.late_writes.push(LateWrite { process: flight.process, claim, uid, version, step });
                (Outcome::Unknown, Text::default())
            }
        };
        let outcome = if fate == RequestOutcome::AnswerLost { Outcome::Unknown } else { outcome };
        if outcome == Outcome::Done && flight.step + 1 < change.steps.len() {
            flight.step += 1;
            flight.version = Some(version);
            return self.flights.push_back(flight);
        }
        let some_done = flight.step > 0 && outcome != Outcome::Done;
        self.acknowledge(&flight, if some_done { Outcome::Unknown } else { outcome });
    }

    fn write(
        &mut self,
        flight: &Flight,
        change: &ChangeClaim,
        version: &Text,
        step: &Step,
    ) -> (Outcome, Text) {
        let claim = self.server.claims.get(&change.claim).filter(|claim| claim.uid == change.uid).cloned();
        let by_driver = matches!(self.processes[flight.process].core, Core::Driver(..));
        if let Some(claim) = &claim
            && self.is_dropped(claim, by_driver, step)
        {
            return (Outcome::Done, claim.version.clone());
        }
        let step = &self.mutated(claim.as_ref(), step);
        let (outcome, version) = self.server.write(&change.claim, &change.uid, version, step);
        match (outcome, step, &claim) {
            (Outcome::Conflict, ..) => self.count("a write conflicted"),
            (Outcome::Done, Step::SetStatus(status), Some(before)) => {
                self.count_write(flight, before, status);
            }
            _ => {}
        }
        if self.mutant == Some(Mutant::HastyRelease)
            && outcome == Outcome::Done
            && by_driver
            && let Step::SetStatus(status) = step
            && status.driver_name.is_empty()
        {
            self.server.write(&change.claim, &change.uid, &version, &Step::SetFinalizers(Vec::new()));
        }
        (outcome, version)
    }

    fn count_write(&mut self, flight: &Flight, before: &ResourceClaim, status: &ClaimStatus) {
        let was = &before.status;
        if was.phase != Phase::Reallocate && status.phase == Phase::Reallocate {
            self.count("a claim was given up");
        }
        if was.phase == Phase::Pending && status.phase == Phase::Allocated {
            self.count(match before.spec.mode {
                AllocationMode::Immediate => "a claim was allocated immediately",
                AllocationMode::Delayed => "a claim was allocated for a node",
            });
        }
        if status.reserved_for.len() > 1 && status.reserved_for.len() > was.reserved_for.len() {
            self.count("a claim got a second user");
        }
        if status.reserved_for.len() < was.reserved_for.len() {
            self.count(match self.processes[flight.process].core {
                Core::Claims(_) => "the reservation of a vanished pod was removed",
                Core::Scheduler(_) => "the scheduler took a reservation back",
                Core::Driver(..) => "a driver removed a reservation",
            });
        }
        if status.driver.unsuitable_nodes.len() > was.driver.unsuitable_nodes.len() {
            self.count("a node was refused");
        }
    }

    /// Mutants: the limit that the scheduler saw is not the one that it writes.
    fn mutated(&self, claim: Option<&ResourceClaim>, step: &Step) -> Step {
        let mut step = step.clone();
        if let (Some(Mutant::Unlimited), Step::SetStatus(status), Some(claim)) =
            (self.mutant, &mut step, claim)
            && claim.status.phase == Phase::Allocated
        {
            status.user_limit = claim.status.user_limit;
        }
        step
    }

    /// Mutants: whether a write is said to be done and is not.
    fn is_dropped(&self, claim: &ResourceClaim, by_driver: bool, step: &Step) -> bool {
        match (self.mutant, step) {
            (Some(Mutant::NoFinalizer), Step::SetFinalizers(names)) => !names.is_empty(),
            (Some(Mutant::NeverGiveUp), Step::SetStatus(status)) => status.phase == Phase::Reallocate,
            (Some(Mutant::StaleNodes), Step::SetStatus(status)) => {
                by_driver
                    && status.phase == Phase::Pending
                    && status.driver_name.is_empty()
                    && claim.status.driver_name.is_empty()
                    && !claim.status.driver.unsuitable_nodes.is_empty()
            }
            _ => false,
        }
    }

    fn bind(&mut self, place: &Place) -> Outcome {
        let Some(pod) = self.server.pods.get(&place.pod).filter(|pod| pod.uid == place.uid).cloned() else {
            return Outcome::Gone;
        };
        match &pod.node {
            Some(node) if *node == place.node => return Outcome::Done,
            Some(_) => return Outcome::Conflict,
            None => {}
        }
        let mut pod = pod;
        pod.node = Some(place.node.clone());
        self.check_binding(&pod);
        self.count("a pod was bound");
        if pod.claims.len() > 1 {
            self.count("a pod with several claims was bound");
        }
        self.note(|| format!("bound {} to {}", place.pod.name, place.node));
        self.prepare(&pod, &place.node);
        self.server.put_pod(pod);
        Outcome::Done
    }

    fn call(&mut self, flight: &Flight) {
        let Core::Driver(number, _) = self.processes[flight.process].core else { return };
        let behaviour = self.behaviour();
        let now = self.at();
        let Request::Driver(kind) = &flight.request else { return };
        match kind {
            DriverEffectKind::Allocate(call) => {
                let result = self.vendors[number].allocate(call, behaviour);
                self.note(|| {
                    format!("vendor allocates {} {}: {}", call.uid, flight.effect.0, result.is_ok())
                });
                let input = DriverInput::Allocated { effect: flight.effect, result };
                self.processes[flight.process].core.driver_answer(now, input);
            }
            DriverEffectKind::Deallocate(call) => {
                self.check_deallocation(&call.uid);
                let done = self.vendors[number].deallocate(&call.uid, behaviour);
                self.acknowledge(flight, if done { Outcome::Done } else { Outcome::Unknown });
            }
            DriverEffectKind::Examine(call) => {
                let result = self.vendors[number].examine(&call.nodes, behaviour);
                let input = DriverInput::Examined { effect: flight.effect, result };
                self.processes[flight.process].core.driver_answer(now, input);
            }
            DriverEffectKind::Change(_) => {}
        }
        self.poll(flight.process);
    }

    /// Its process has ended: it arrives late or never. Calls of vendors and bindings were done, or never will be.
    pub(crate) fn strand(&mut self, flight: Flight) {
        match &flight.request {
            Request::Claims(ClaimEffectKind::Change(change))
            | Request::Scheduler(NegotiationEffectKind::Change(change))
            | Request::Driver(DriverEffectKind::Change(change)) => {
                let version = flight.version.clone().unwrap_or_else(|| change.version.clone());
                let step = change.steps[flight.step].clone();
                if self.dice.one_in(2) {
                    let (claim, uid) = (change.claim.clone(), change.uid.clone());
                    self.late_writes.push(LateWrite { process: flight.process, claim, uid, version, step });
                }
            }
            Request::Claims(ClaimEffectKind::Create(create)) => {
                if self.dice.one_in(2) {
                    self.server.create(create);
                }
            }
            Request::Claims(ClaimEffectKind::AskNode(ask)) => {
                if self.dice.one_in(2) {
                    self.server.ask(ask);
                }
            }
            Request::Claims(ClaimEffectKind::Delete(delete)) => {
                if self.dice.one_in(2) {
                    self.server.delete_claim_of(&delete.claim, &delete.uid);
                }
            }
            Request::Claims(ClaimEffectKind::ConfirmPod(..) | ClaimEffectKind::Event(_)) => {}
            Request::Scheduler(NegotiationEffectKind::Place(place)) => {
                if self.dice.one_in(2) {
                    self.bind(place);
                }
            }
            Request::Driver(DriverEffectKind::Allocate(call)) => {
                let behaviour = self.behaviour();
                if let Core::Driver(number, _) = self.processes[flight.process].core
                    && self.dice.one_in(2)
                {
                    let _ = self.vendors[number].allocate(call, behaviour);
                }
            }
            Request::Driver(DriverEffectKind::Deallocate(call)) => {
                if let Core::Driver(number, _) = self.processes[flight.process].core
                    && self.dice.one_in(2)
                {
                    self.check_deallocation(&call.uid);
                    self.vendors[number].deallocate(&call.uid, VendorBehaviour::Honest);
                }
            }
            Request::Driver(DriverEffectKind::Examine(_)) => {}
        }
    }

    /// A late write arrives.
    pub(crate) fn haunt(&mut self) {
        if self.late_writes.is_empty() {
            return;
        }
        let late_write = self.late_writes.swap_remove(self.dice.roll(self.late_writes.len()));
        self.arrive(late_write);
    }

    pub(crate) fn arrive(&mut self, late_write: LateWrite) {
        let (outcome, _) =
            self.server.write(&late_write.claim, &late_write.uid, &late_write.version, &late_write.step);
        self.count(if outcome == Outcome::Done { "a late write was done" } else { "a late write failed" });
        self.note(|| format!("late write to {}: {outcome:?}", late_write.claim.name));
    }

    /// News as a process sees them: mutants change them.
    pub(crate) fn seen(&self, which: usize, news: News, restarted: bool) -> Option<News> {
        let Some(mutant) = self.mutant else { return Some(news) };
        let forgetful = mutant == Mutant::HastyGone && restarted;
        if forgetful && matches!((&news, &self.processes[which].core), (News::Pod(_), Core::Claims(_))) {
            return None;
        }
        if let (Mutant::NoReports, News::Report(_)) = (mutant, &news) {
            return None;
        }
        let News::Claim(claim) = &news else { return Some(news) };
        let mut seen = (**claim).clone();
        match (mutant, &self.processes[which].core) {
            (Mutant::BlindToUsers, Core::Driver(..)) => seen.status.reserved_for.clear(),
            (Mutant::ForgetAttempts, Core::Driver(..))
                if restarted && seen.status.phase == Phase::Pending =>
            {
                seen.finalizers.clear();
            }
            (Mutant::Unlimited, Core::Scheduler(_)) => seen.status.user_limit = -1,
            (Mutant::BindEarly, Core::Scheduler(_)) if seen.status.phase == Phase::Allocated => {
                for pod in self.server.pods.values() {
                    if pod.claim_keys().contains(&seen.key) && !seen.is_reserved_for(&pod.uid) {
                        seen.status.reserved_for.push(Reference::pod(pod));
                    }
                }
            }
            (Mutant::UseForeign, Core::Scheduler(_)) => {
                for pod in self.server.pods.values() {
                    let is_template = |entry: &lazaret_classic::PodClaim| {
                        matches!(entry.source, Some(PodClaimSource::Template(_)))
                            && entry.claim_name(pod).as_ref() == Some(&seen.key.name)
                    };
                    if pod.claims.iter().any(is_template) {
                        seen.owners.push(Reference::pod(pod));
                    }
                }
            }
            _ => {}
        }
        Some(News::Claim(Arc::new(seen)))
    }
}
