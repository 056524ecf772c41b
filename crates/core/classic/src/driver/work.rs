//! One look at a claim: the next thing that its driver has to do.

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use super::{
    effect::{Allocate, Allocation, Deallocate, DriverEffectKind, ExamineNodes},
    machine::{DriverController, Flight, FlightKind, Item, Purpose, negotiates},
    slot::{AfterFree, Attempt, DeviceHolding, Slot},
};
use crate::{
    change::{ChangeClaim, Step},
    model::{
        AllocationMode, ClaimStatus, DriverScheduling, Phase, ResourceClaim, ResourceClass,
        SchedulerScheduling,
    },
    queue::WakeReason,
    validate::NODES_MAX,
    write::{RECHECK_MS, Ready},
};

/// The next thing to do for a claim.
pub(super) enum Action {
    None,
    Wait(Timestamp, WakeReason),
    Write(Purpose, Vec<Step>),
    Allocate(Attempt),
    Deallocate(BTreeMap<Text, Text>),
    Examine(Arc<ResourceClass>),
}

impl DriverController {
    pub(super) fn look_at_claim(&mut self, now: Timestamp, key: &ObjectKey) {
        // It was deleted.
        let Some(claim) = self.objects.claims.get(key).cloned() else { return };
        // It is for another driver.
        let Some(slot) = self.slots.get(key) else { return };
        match slot.writer.ready(now, &claim.version) {
            Ready::InFlight => return,
            Ready::At(at, why) => return self.queue.later(at, why, Item::Claim(key.clone())),
            Ready::Now => {}
        }
        let action = match claim.status.phase {
            Phase::Allocated if !claim.deleting => Action::None,
            // A claim in this phase, or one that is being deleted, can not be reserved any more, so this stays true until it is deallocated.
            Phase::Allocated | Phase::Reallocate if claim.status.reserved_for.is_empty() => {
                self.free_allocated(&claim, slot)
            }
            Phase::Allocated | Phase::Reallocate => Action::None,
            Phase::Pending if claim.status.driver_name == self.options.driver_name => {
                self.begun(&claim, slot)
            }
            Phase::Pending if slot.held.may_hold() => Action::Deallocate(slot.held.attributes()),
            Phase::Pending => self.idle(now, &claim, slot),
        };
        self.act(key, &claim, action);
    }

    /// The claim is allocated, has no user and gets none.
    fn free_allocated(&self, claim: &ResourceClaim, slot: &Slot) -> Action {
        let name = &claim.status.driver_name;
        if *name != self.options.driver_name {
            return Action::None;
        }
        if slot.held.may_hold() {
            return Action::Deallocate(claim.status.attributes.clone());
        }
        Action::Write(Purpose::Reset, vec![Step::SetStatus(Box::default())])
    }

    /// The claim names this driver, so devices may be held and a publication may still arrive.
    fn begun(&self, claim: &ResourceClaim, slot: &Slot) -> Action {
        let selected = &claim.status.scheduler.selected_node;
        let immediate = claim.spec.mode == AllocationMode::Immediate;
        let goes_on = is_wanted(claim) && slot.begun.is_some() && claim.finalizers.contains(&self.finalizer);
        let for_node = |attempt: &Attempt| immediate || attempt.node == *selected;
        match &slot.held {
            DeviceHolding::Nothing if goes_on && let Some(class) = self.class_of(claim) => {
                let node = if immediate { None } else { selected.clone() };
                Action::Allocate(Attempt { node, class })
            }
            DeviceHolding::Attempt(attempt) if goes_on && for_node(attempt) => {
                Action::Allocate(attempt.clone())
            }
            DeviceHolding::Allocation(attempt, allocation) if goes_on && for_node(attempt) => {
                let status = Box::new(self.allocated_status(claim, allocation));
                Action::Write(Purpose::Publish, vec![Step::SetStatus(status)])
            }
            DeviceHolding::Refused(node) | DeviceHolding::Freeing { then: AfterFree::Refuse(node), .. } => {
                withdraw(claim, node.as_ref())
            }
            DeviceHolding::Nothing
            | DeviceHolding::Attempt(_)
            | DeviceHolding::Allocation(..)
            | DeviceHolding::Published
            | DeviceHolding::Freeing { then: AfterFree::Again, .. } => withdraw(claim, None),
        }
    }

    /// Nothing is held, and the claim does not name this driver: begin if that is wanted, or answer the scheduler.
    fn idle(&self, now: Timestamp, claim: &ResourceClaim, slot: &Slot) -> Action {
        let has_finalizer = claim.finalizers.contains(&self.finalizer);
        // The finalizer was seen; the name, which was written after it, was not yet.
        if let Some(at) = slot.begun.filter(|_| has_finalizer) {
            let until = at.plus_millis(RECHECK_MS);
            if now < until {
                return Action::Wait(until, WakeReason::Recheck);
            }
        }
        let unnamed = claim.status.driver_name.is_empty();
        let class = self.class_of(claim).filter(|_| unnamed);
        let paused = slot.pause.until().filter(|until| now < *until);
        if class.is_some() && is_wanted(claim) && paused.is_none() {
            let mut steps = Vec::with_capacity(2);
            if !has_finalizer {
                let finalizers = claim.finalizers.iter().chain([&self.finalizer]);
                steps.push(Step::SetFinalizers(finalizers.cloned().collect()));
            }
            steps.push(Step::status(claim, |status| status.driver_name = self.options.driver_name.clone()));
            return Action::Write(Purpose::Begin, steps);
        }
        if has_finalizer {
            let others = claim.finalizers.iter().filter(|name| **name != self.finalizer);
            return Action::Write(Purpose::Release, vec![Step::SetFinalizers(others.cloned().collect())]);
        }
        if let Some(until) = paused {
            return Action::Wait(until, WakeReason::Retry);
        }
        match class {
            Some(class) if negotiates(claim) => self.examine(now, claim, slot, class),
            Some(_) | None => Action::None,
        }
    }

    fn examine(
        &self,
        now: Timestamp,
        claim: &ResourceClaim,
        slot: &Slot,
        class: Arc<ResourceClass>,
    ) -> Action {
        match &slot.examined {
            Some(examined) if examined.nodes == claim.status.scheduler.potential_nodes => {
                let pause = if examined.epoch == self.epoch {
                    self.options.refresh_ms
                } else {
                    self.options.refresh_ms_min
                };
                let due = examined.at.plus_millis(pause);
                if now < due { Action::Wait(due, WakeReason::Refresh) } else { Action::Examine(class) }
            }
            Some(_) | None => Action::Examine(class),
        }
    }

    /// All that was said about the choice of a node goes, but for where the claim is available.
    pub(super) fn allocated_status(&self, claim: &ResourceClaim, allocation: &Allocation) -> ClaimStatus {
        ClaimStatus {
            phase: Phase::Allocated,
            driver_name: self.options.driver_name.clone(),
            scheduler: SchedulerScheduling::default(),
            driver: DriverScheduling {
                unsuitable_nodes: Arc::default(),
                available_on_nodes: allocation.available_on_nodes.clone(),
            },
            attributes: allocation.attributes.clone(),
            user_limit: if allocation.user_limit == 0 { 1 } else { allocation.user_limit },
            reserved_for: claim.status.reserved_for.clone(),
        }
    }

    fn class_of(&self, claim: &ResourceClaim) -> Option<Arc<ResourceClass>> {
        let class = self.objects.classes.get(&claim.spec.class_name)?;
        (class.driver_name == self.options.driver_name).then(|| class.clone())
    }

    fn act(&mut self, key: &ObjectKey, claim: &ResourceClaim, action: Action) {
        let Some(slot) = invariant!(self.slots.get_mut(key), "a claim that is looked at has a slot") else {
            return;
        };
        let (uid, spec) = (claim.uid.clone(), claim.spec.clone());
        let (kind, effect) = match action {
            Action::None => return,
            Action::Wait(at, why) => return self.queue.later(at, why, Item::Claim(key.clone())),
            Action::Write(purpose, steps) => {
                // Whether or not the write is done, it takes another one to begin.
                slot.begun = slot.begun.filter(|_| matches!(purpose, Purpose::Publish));
                let kind = FlightKind::Write { version: claim.version.clone(), purpose };
                (kind, DriverEffectKind::Change(ChangeClaim::new(claim, steps)))
            }
            Action::Allocate(attempt) => {
                let class_parameters = attempt.class.parameters.clone();
                let node = attempt.node.clone();
                slot.held = DeviceHolding::Attempt(attempt);
                let call = Allocate { claim: key.clone(), uid, spec, class_parameters, node };
                (FlightKind::Allocate, DriverEffectKind::Allocate(call))
            }
            Action::Deallocate(attributes) => {
                slot.held.free();
                let call = Deallocate { claim: key.clone(), uid, attributes };
                (FlightKind::Deallocate, DriverEffectKind::Deallocate(call))
            }
            Action::Examine(class) => {
                let nodes = claim.status.scheduler.potential_nodes.clone();
                let class_parameters = class.parameters.clone();
                let call =
                    ExamineNodes { claim: key.clone(), uid, spec, class_parameters, nodes: nodes.clone() };
                (FlightKind::Examine { nodes, epoch: self.epoch }, DriverEffectKind::Examine(call))
            }
        };
        slot.writer.sent();
        self.flights.launch(Flight { claim: key.clone(), uid: claim.uid.clone(), kind }, effect);
    }

    pub(super) fn look_at_orphan(&mut self, now: Timestamp, uid: &Uid) {
        // Its devices have been freed.
        let Some(orphan) = self.orphans.get_mut(uid) else { return };
        match orphan.writer.ready(now, &Text::default()) {
            Ready::InFlight => {}
            Ready::At(at, why) => self.queue.later(at, why, Item::Orphan(uid.clone())),
            Ready::Now => {
                orphan.writer.sent();
                let claim = orphan.claim.clone();
                let attributes = orphan.attributes.clone();
                let flight = Flight { claim: claim.clone(), uid: uid.clone(), kind: FlightKind::Deallocate };
                let call = Deallocate { claim, uid: uid.clone(), attributes };
                self.flights.launch(flight, DriverEffectKind::Deallocate(call));
            }
        }
    }
}

/// Whether it is to be allocated now.
fn is_wanted(claim: &ResourceClaim) -> bool {
    let immediate = claim.spec.mode == AllocationMode::Immediate;
    !claim.deleting && (immediate || claim.status.scheduler.selected_node.is_some())
}

/// Takes back the driver's name. If a node was refused, the scheduler has to select another one.
fn withdraw(claim: &ResourceClaim, refused: Option<&Text>) -> Action {
    let step = Step::status(claim, |status| {
        status.driver_name = Text::default();
        let Some(node) = refused else { return };
        if status.scheduler.selected_node.as_ref() == Some(node) {
            status.scheduler.selected_node = None;
        }
        let unsuitable = &status.driver.unsuitable_nodes;
        if !unsuitable.contains(node) && unsuitable.len() < NODES_MAX {
            status.driver.unsuitable_nodes = unsuitable.iter().chain([node]).cloned().collect();
        }
    });
    Action::Write(Purpose::Withdraw, vec![step])
}
