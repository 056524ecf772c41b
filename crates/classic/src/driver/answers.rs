//! What became of writes and of calls.

use alloc::{collections::BTreeSet, sync::Arc};

use lazaret_model::{EffectId, Outcome, Text, Timestamp};

use super::{
    effect::{Allocation, DriverEffectKind, Refusal, Suitability},
    machine::{DriverController, Flight, FlightKind, Item, Purpose, negotiates},
    slot::{Attempt, Examined, Held, Orphan, Slot},
};
use crate::{
    change::{ChangeClaim, Step},
    model::AllocationMode,
    validate::validate_claim_status,
    write::Writer,
};

impl DriverController {
    pub(super) fn acknowledge(&mut self, now: Timestamp, effect: EffectId, outcome: Outcome) {
        let Some(flight) = self.flights.land(effect) else { return };
        match &flight.kind {
            FlightKind::Write { version, purpose } => {
                let done = outcome == Outcome::Done;
                self.counters.written += u64::from(done);
                self.counters.allocated += u64::from(done && *purpose == Purpose::Publish);
                let retry = self.options.retry.clone();
                if let Some(slot) = self.landed(&flight) {
                    slot.writer.landed(now, version, outcome, &retry);
                    match purpose {
                        Purpose::Publish if done => slot.held = Held::Published,
                        Purpose::GiveUp if done => slot.held = Held::Nothing,
                        // It has to be said again.
                        Purpose::Answer if !done => slot.examined = None,
                        Purpose::Step | Purpose::Publish | Purpose::GiveUp | Purpose::Answer => {}
                    }
                }
            }
            FlightKind::Deallocate => self.deallocated(now, &flight, outcome),
            // Those are answered otherwise; whoever acknowledges them says that they failed.
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
        let Some(flight) = self.flights.land(effect) else { return };
        self.allocated_or_not(now, &flight, result);
        self.queue.push(Item::Claim(flight.claim));
    }

    pub(super) fn examined(&mut self, now: Timestamp, effect: EffectId, result: Option<Suitability>) {
        let Some(flight) = self.flights.land(effect) else { return };
        self.examined_or_not(now, &flight, result);
        self.queue.push(Item::Claim(flight.claim));
    }

    /// The slot of the incarnation that the effect was for. Without one the claim is gone, and what is held for it is an orphan's.
    fn landed(&mut self, flight: &Flight) -> Option<&mut Slot> {
        if let Some(orphan) = self.orphans.get_mut(&flight.uid) {
            orphan.writer.answered();
            self.queue.push(Item::Orphan(flight.uid.clone()));
        }
        self.slots.get_mut(&flight.claim).filter(|slot| slot.uid == flight.uid)
    }

    fn allocated_or_not(&mut self, now: Timestamp, flight: &Flight, result: Result<Allocation, Refusal>) {
        let retry = self.options.retry.clone();
        let usable = result.as_ref().is_ok_and(|allocation| self.is_writable(flight, allocation));
        match &result {
            Ok(_) => self.changed_devices(now),
            Err(Refusal::Failed) => self.counters.refused += 1,
            Err(Refusal::Unknown) => {}
        }
        let Some(slot) = self.landed(flight) else {
            if let Ok(allocation) = result {
                let orphan = self.orphans.entry(flight.uid.clone()).or_insert_with(|| Orphan {
                    claim: flight.claim.clone(),
                    attributes: Default::default(),
                    writer: Writer::default(),
                });
                orphan.attributes = allocation.attributes;
                self.queue.push(Item::Orphan(flight.uid.clone()));
            }
            return;
        };
        slot.writer.answered();
        let Held::Attempt(attempt) = slot.held.clone() else { return };
        match result {
            Ok(allocation) if usable => {
                slot.writer.succeed();
                slot.pause = Default::default();
                slot.held = Held::Allocation(attempt, allocation);
            }
            Ok(allocation) => slot.held = Held::Unusable(attempt, allocation.attributes),
            Err(Refusal::Failed) => self.refuse(now, flight, attempt),
            Err(Refusal::Unknown) => slot.writer.fail(now, &retry),
        }
    }

    /// Nothing is held: the attempt is over.
    fn refuse(&mut self, now: Timestamp, flight: &Flight, attempt: Attempt) {
        let immediate = self
            .objects
            .claims
            .get(&flight.claim)
            .is_some_and(|claim| claim.spec.mode == AllocationMode::Immediate);
        let Some(slot) = self.slots.get_mut(&flight.claim) else { return };
        slot.writer.succeed();
        slot.held = Held::Refused(attempt.node);
        if immediate {
            slot.pause.fail(now, &self.options.retry);
        }
    }

    /// Whether the API server would accept what the vendor's code said.
    fn is_writable(&self, flight: &Flight, allocation: &Allocation) -> bool {
        let claim = self.objects.claims.get(&flight.claim);
        claim.is_none_or(|claim| validate_claim_status(&self.allocated_status(claim, allocation)).is_empty())
    }

    fn deallocated(&mut self, now: Timestamp, flight: &Flight, outcome: Outcome) {
        let retry = self.options.retry.clone();
        let done = matches!(outcome, Outcome::Done | Outcome::Gone);
        if done {
            self.counters.deallocated += 1;
            self.changed_devices(now);
        }
        if let Some(slot) = self.landed(flight) {
            slot.writer.answered();
            if !done {
                slot.writer.fail(now, &retry);
            } else if let Held::Unusable(attempt, _) = slot.held.clone() {
                self.refuse(now, flight, attempt);
            } else {
                slot.writer.succeed();
                slot.held = Held::Nothing;
            }
        } else if done {
            self.orphans.remove(&flight.uid);
        } else if let Some(orphan) = self.orphans.get_mut(&flight.uid) {
            orphan.writer.fail(now, &retry);
        }
    }

    /// Answers about nodes may have become wrong.
    fn changed_devices(&mut self, now: Timestamp) {
        self.epoch += 1;
        let at = now.plus_millis(self.options.refresh_ms_min);
        self.queue.later(at, crate::queue::WakeReason::Refresh, Item::Refresh);
    }

    fn examined_or_not(&mut self, now: Timestamp, flight: &Flight, result: Option<Suitability>) {
        let retry = self.options.retry.clone();
        let FlightKind::Examine { nodes, epoch } = &flight.kind else { return };
        let Some(slot) = self.landed(flight) else { return };
        slot.writer.answered();
        let Some(found) = result else { return slot.writer.fail(now, &retry) };
        slot.writer.succeed();
        slot.examined = Some(Examined { nodes: nodes.clone(), at: now, epoch: *epoch });
        self.counters.examined += 1;
        self.answer(flight, nodes, found);
    }

    /// Writes the answer, if it is one to the question that the claim still asks and says something new.
    fn answer(&mut self, flight: &Flight, nodes: &Arc<[Text]>, found: Suitability) {
        let Some(claim) = self.objects.claims.get(&flight.claim).cloned() else { return };
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
        let change = ChangeClaim::new(
            &claim,
            alloc::vec![Step::status(&claim, |status| {
                status.driver.unsuitable_nodes = unsuitable;
                status.driver.available_on_nodes = found.available_on_nodes;
            })],
        );
        let kind = FlightKind::Write { version: claim.version.clone(), purpose: Purpose::Answer };
        let flight = Flight { claim: flight.claim.clone(), uid: flight.uid.clone(), kind };
        if let Some(slot) = self.slots.get_mut(&flight.claim) {
            slot.writer.sent();
        }
        self.flights.send(flight, DriverEffectKind::Change(change));
    }
}
