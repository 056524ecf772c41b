//! Acknowledgements of writes, and answers of the vendor's code.

use alloc::{collections::BTreeSet, sync::Arc};

use lazaret_invariant::invariant;
use lazaret_machine::{Backoff, EffectId, Outcome, Retry};
use lazaret_model::{Text, Timestamp};

use super::{
    effect::{Allocation, DriverEffectKind, Refusal, Suitability},
    machine::{DriverController, Flight, FlightKind, Item, Purpose, negotiates},
    slot::{AfterFree, Attempt, DeviceHolding, Examined, Orphan, Slot},
};
use crate::{
    change::{ChangeClaim, Step},
    model::AllocationMode,
    queue::WakeReason,
    validate::validate_claim_status,
    write::Writer,
};

/// Pauses after refusals of a claim that is allocated immediately, and after attempts that led to nothing. Devices that become free end a
/// pause.
const PAUSE: Backoff = Backoff::new(1_000, 60_000);

impl DriverController {
    pub(super) fn acknowledge(&mut self, now: Timestamp, effect: EffectId, outcome: Outcome) {
        // Acknowledged before, or given up with leadership.
        let Some(flight) = self.flights.land(effect) else { return };
        match &flight.kind {
            FlightKind::Write { version, purpose } => {
                let done = outcome == Outcome::Done;
                self.counters.written += u64::from(done);
                self.counters.allocated += u64::from(done && *purpose == Purpose::Publish);
                if let Some(slot) = self.landed(now, &flight, done) {
                    slot.writer.landed(now, version, outcome);
                    match purpose {
                        Purpose::Begin if done => {
                            slot.begun = Some(now);
                            slot.held = DeviceHolding::Nothing;
                        }
                        Purpose::Publish if done => slot.held = DeviceHolding::Published,
                        // It began and could not allocate: the finalizer was removed, say. The next attempt waits.
                        Purpose::Withdraw if done && slot.held == DeviceHolding::Nothing => {
                            slot.pause.fail(now, PAUSE)
                        }
                        // It has to be said again.
                        Purpose::Answer if !done => slot.examined = None,
                        Purpose::Begin
                        | Purpose::Withdraw
                        | Purpose::Publish
                        | Purpose::Reset
                        | Purpose::Release
                        | Purpose::Answer => {}
                    }
                }
            }
            FlightKind::Deallocate => self.deallocated(now, &flight, outcome),
            // Those are answered otherwise; an acknowledgement says that they failed.
            FlightKind::Allocate => self.allocated_or_not(now, &flight, Err(Refusal::Unknown)),
            FlightKind::Examine { .. } => self.examined_or_not(now, &flight, None),
        }
        self.queue.push(Item::Claim(flight.claim));
    }

    pub(super) fn allocated(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        result: Result<Allocation, Refusal>,
    ) {
        // Answered before, or given up with leadership.
        let Some(flight) = self.flights.land(effect) else { return };
        self.allocated_or_not(now, &flight, result);
        self.queue.push(Item::Claim(flight.claim));
    }

    pub(super) fn examined(&mut self, now: Timestamp, effect: EffectId, result: Option<Suitability>) {
        // Answered before, or given up with leadership.
        let Some(flight) = self.flights.land(effect) else { return };
        self.examined_or_not(now, &flight, result);
        self.queue.push(Item::Claim(flight.claim));
    }

    /// The slot of the incarnation that the effect was for. Without one the claim is gone, and an orphan may wait for the answer.
    fn landed(&mut self, now: Timestamp, flight: &Flight, succeeded: bool) -> Option<&mut Slot> {
        if let Some(orphan) = self.orphans.get_mut(&flight.uid) {
            orphan.writer.answered(now, succeeded);
            self.queue.push(Item::Orphan(flight.uid.clone()));
        }
        self.slots.get_mut(&flight.claim).filter(|slot| slot.uid == flight.uid)
    }

    fn allocated_or_not(&mut self, now: Timestamp, flight: &Flight, result: Result<Allocation, Refusal>) {
        let usable = result.as_ref().is_ok_and(|allocation| self.is_writable(flight, allocation));
        self.counters.refused += u64::from(result == Err(Refusal::Failed));
        let Some(slot) = self.landed(now, flight, true) else {
            if let Ok(allocation) = result {
                let new = || Orphan {
                    claim: flight.claim.clone(),
                    attributes: Default::default(),
                    writer: Writer::default(),
                };
                self.orphans.entry(flight.uid.clone()).or_insert_with(new).attributes = allocation.attributes;
                self.queue.push(Item::Orphan(flight.uid.clone()));
            }
            return;
        };
        slot.writer.answered(now, result != Err(Refusal::Unknown));
        // The claim was gone and is seen again: it is begun anew.
        let DeviceHolding::Attempt(attempt) = slot.held.clone() else { return };
        match result {
            Ok(allocation) if usable => {
                slot.pause = Retry::default();
                slot.held = DeviceHolding::Allocation(attempt, allocation);
                self.changed_devices(now);
            }
            Ok(Allocation { attributes, .. }) => {
                slot.held = DeviceHolding::Freeing { attributes, then: AfterFree::Refuse(attempt.node) };
            }
            Err(Refusal::Failed) => self.refuse(now, flight, attempt),
            Err(Refusal::Unknown) => {}
        }
    }

    /// Nothing is held: the attempt is over.
    fn refuse(&mut self, now: Timestamp, flight: &Flight, attempt: Attempt) {
        let claim = self.objects.claims.get(&flight.claim);
        let immediate = claim.is_some_and(|claim| claim.spec.mode == AllocationMode::Immediate);
        let Some(slot) =
            invariant!(self.slots.get_mut(&flight.claim), "a claim that was answered for has a slot")
        else {
            return;
        };
        slot.held = DeviceHolding::Refused(attempt.node);
        if immediate {
            slot.pause.fail(now, PAUSE);
        }
    }

    /// Whether the API server would accept what the vendor's code said.
    fn is_writable(&self, flight: &Flight, allocation: &Allocation) -> bool {
        let claim = self.objects.claims.get(&flight.claim);
        claim.is_none_or(|claim| validate_claim_status(&self.allocated_status(claim, allocation)).is_empty())
    }

    fn deallocated(&mut self, now: Timestamp, flight: &Flight, outcome: Outcome) {
        let done = matches!(outcome, Outcome::Done | Outcome::Gone);
        self.counters.deallocated += u64::from(done);
        let slot = self.landed(now, flight, done);
        let mut changed = done;
        if let Some(slot) = slot {
            slot.writer.answered(now, done);
            if done && let DeviceHolding::Freeing { then, .. } = core::mem::take(&mut slot.held) {
                match then {
                    AfterFree::Again => {}
                    AfterFree::Refuse(node) => {
                        changed = false;
                        slot.held = DeviceHolding::Refused(node);
                        slot.pause.fail(now, PAUSE);
                    }
                }
            }
        } else if done {
            self.orphans.remove(&flight.uid);
        }
        if changed {
            self.changed_devices(now);
        }
    }

    /// Answers about nodes may have become wrong.
    fn changed_devices(&mut self, now: Timestamp) {
        self.epoch += 1;
        let at = now.plus_millis(self.options.refresh_ms_min);
        self.queue.later(at, WakeReason::Refresh, Item::Refresh);
    }

    fn examined_or_not(&mut self, now: Timestamp, flight: &Flight, result: Option<Suitability>) {
        let FlightKind::Examine { nodes, epoch } = &flight.kind else {
            invariant!(false, "an answer about nodes belongs to an examination");
            return;
        };
        // The claim is gone.
        let Some(slot) = self.landed(now, flight, result.is_some()) else { return };
        slot.writer.answered(now, result.is_some());
        // It failed, and is tried again.
        let Some(found) = result else { return };
        slot.examined = Some(Examined { nodes: nodes.clone(), at: now, epoch: *epoch });
        self.counters.examined += 1;
        self.answer(flight, nodes, found);
    }

    /// Writes the answer, if it is one to the question that the claim still asks and says something new.
    fn answer(&mut self, flight: &Flight, nodes: &Arc<[Text]>, found: Suitability) {
        let Some(claim) =
            invariant!(self.objects.claims.get(&flight.claim).cloned(), "a claim with a slot is known")
        else {
            return;
        };
        if !negotiates(&claim) || claim.status.scheduler.potential_nodes != *nodes {
            return;
        }
        let found_unsuitable: BTreeSet<&Text> = found.unsuitable_nodes.iter().collect();
        let unsuitable: Arc<[Text]> =
            nodes.iter().filter(|node| found_unsuitable.contains(node)).cloned().collect();
        let driver = &claim.status.driver;
        if driver.unsuitable_nodes == unsuitable && driver.available_on_nodes == found.available_on_nodes {
            return;
        }
        let step = Step::status(&claim, |status| {
            status.driver.unsuitable_nodes = unsuitable;
            status.driver.available_on_nodes = found.available_on_nodes;
        });
        let change = ChangeClaim::new(&claim, alloc::vec![step]);
        let kind = FlightKind::Write { version: claim.version.clone(), purpose: Purpose::Answer };
        let flight = Flight { claim: flight.claim.clone(), uid: flight.uid.clone(), kind };
        if let Some(slot) = self.slots.get_mut(&flight.claim) {
            slot.writer.sent();
        }
        self.flights.launch(flight, DriverEffectKind::Change(change));
    }
}
