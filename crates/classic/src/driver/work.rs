//! What a claim needs of its driver.

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec, vec::Vec};

use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use super::{
    effect::{Allocate, Allocation, Deallocate, DriverEffectKind, ExamineNodes},
    machine::{DriverController, Flight, FlightKind, Item, Purpose, negotiates},
    slot::{Attempt, Held, Slot},
};
use crate::{
    change::{ChangeClaim, Step},
    model::{
        AllocationMode, ClaimStatus, DriverScheduling, Phase, ResourceClaim, ResourceClass,
        SchedulerScheduling,
    },
    queue::WakeReason,
    validate::NODES_MAX,
    write::Ready,
};

/// The next thing to do for a claim.
pub(super) enum Action {
    None,
    Wait(Timestamp, WakeReason),
    Write(Vec<Step>),
    Publish(Box<ClaimStatus>),
    GiveUp(Vec<Step>),
    Allocate(Attempt),
    Deallocate(BTreeMap<Text, Text>),
    Examine(Arc<ResourceClass>),
}

impl DriverController {
    pub(super) fn look_at_claim(&mut self, now: Timestamp, key: &ObjectKey) {
        let Some(claim) = self.objects.claims.get(key).cloned() else { return };
        let Some(slot) = self.slots.get(key) else { return };
        match slot.writer.ready(now, &claim.version) {
            Ready::InFlight => return,
            Ready::At(at, why) => return self.queue.later(at, why, Item::Claim(key.clone())),
            Ready::Now => {}
        }
        let action = match claim.status.phase {
            Phase::Allocated if !claim.deleting => Action::None,
            // Nobody reserves a claim that is in this phase or being deleted, so this stays true until it is deallocated.
            Phase::Allocated | Phase::Reallocate if claim.status.reserved_for.is_empty() => {
                free_allocated(&claim, slot)
            }
            Phase::Allocated | Phase::Reallocate => Action::None,
            Phase::Pending => self.pending(now, &claim, slot),
        };
        self.act(key, &claim, action);
    }

    fn pending(&self, now: Timestamp, claim: &ResourceClaim, slot: &Slot) -> Action {
        let selected = &claim.status.scheduler.selected_node;
        let immediate = claim.spec.mode == AllocationMode::Immediate;
        let wanted = !claim.deleting && (immediate || selected.is_some());
        let named = claim.status.driver_name == self.options.driver_name;
        let for_node = |attempt: &Attempt| wanted && named && (immediate || attempt.node == *selected);
        if !claim.finalizers.contains(&self.finalizer) {
            return if slot.held.may_hold() {
                Action::Deallocate(slot.held.attributes())
            } else {
                self.idle(now, claim, slot, wanted)
            };
        }
        match &slot.held {
            // An earlier process began. Its last write may still arrive: this one takes that possibility away before anything is freed.
            Held::Unknown | Held::Published if !claim.status.driver_name.is_empty() => {
                Action::Write(vec![Step::status(claim, abandon)])
            }
            Held::Unknown | Held::Published => Action::Deallocate(BTreeMap::new()),
            Held::Nothing if wanted && named => match self.class_of(claim) {
                Some(class) => {
                    let node = if immediate { None } else { selected.clone() };
                    Action::Allocate(Attempt { node, class })
                }
                None => self.give_up(claim, None),
            },
            Held::Nothing
                if wanted && claim.status.driver_name.is_empty() && self.class_of(claim).is_some() =>
            {
                Action::Write(vec![self.set_driver_name(claim)])
            }
            Held::Nothing => self.give_up(claim, None),
            Held::Refused(node) => self.give_up(claim, node.as_ref()),
            Held::Unusable(_, attributes) => Action::Deallocate(attributes.clone()),
            Held::Attempt(attempt) if for_node(attempt) => Action::Allocate(attempt.clone()),
            Held::Attempt(_) => Action::Deallocate(BTreeMap::new()),
            Held::Allocation(attempt, allocation) if for_node(attempt) => {
                Action::Publish(Box::new(self.allocated_status(claim, allocation)))
            }
            Held::Allocation(_, allocation) => Action::Deallocate(allocation.attributes.clone()),
        }
    }

    /// Nothing has begun: begin if that is wanted, or answer the scheduler.
    fn idle(&self, now: Timestamp, claim: &ResourceClaim, slot: &Slot, wanted: bool) -> Action {
        let Some(class) = self.class_of(claim) else { return Action::None };
        if wanted {
            if now < slot.pause.until {
                return Action::Wait(slot.pause.until, WakeReason::Retry);
            }
            let mut finalizers = claim.finalizers.clone();
            finalizers.push(self.finalizer.clone());
            return Action::Write(vec![Step::SetFinalizers(finalizers), self.set_driver_name(claim)]);
        }
        if !negotiates(claim) {
            return Action::None;
        }
        let potential = &claim.status.scheduler.potential_nodes;
        match &slot.examined {
            Some(examined) if examined.nodes == *potential => {
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

    /// The attempt has failed, or nobody wants it any more: nothing is held. The status first, so that whoever sees it without a finalizer
    /// sees it without a driver.
    fn give_up(&self, claim: &ResourceClaim, refused: Option<&Text>) -> Action {
        let mut steps = Vec::new();
        if !claim.status.driver_name.is_empty() {
            steps.push(Step::status(claim, |status| {
                abandon(status);
                let unsuitable = &status.driver.unsuitable_nodes;
                if let Some(node) = refused
                    && !unsuitable.contains(node)
                    && unsuitable.len() < NODES_MAX
                {
                    status.driver.unsuitable_nodes = unsuitable.iter().chain([node]).cloned().collect();
                }
            }));
        }
        let others = claim.finalizers.iter().filter(|name| **name != self.finalizer);
        steps.push(Step::SetFinalizers(others.cloned().collect()));
        Action::GiveUp(steps)
    }

    fn set_driver_name(&self, claim: &ResourceClaim) -> Step {
        Step::status(claim, |status| status.driver_name = self.options.driver_name.clone())
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
        let version = claim.version.clone();
        let write = |purpose| FlightKind::Write { version, purpose };
        let (uid, spec) = (claim.uid.clone(), claim.spec.clone());
        let (kind, effect) = match action {
            Action::None => return,
            Action::Wait(at, why) => return self.queue.later(at, why, Item::Claim(key.clone())),
            Action::Write(steps) => {
                (write(Purpose::Step), DriverEffectKind::Change(ChangeClaim::new(claim, steps)))
            }
            Action::Publish(status) => {
                let steps = vec![Step::SetStatus(status)];
                (write(Purpose::Publish), DriverEffectKind::Change(ChangeClaim::new(claim, steps)))
            }
            Action::GiveUp(steps) => {
                (write(Purpose::GiveUp), DriverEffectKind::Change(ChangeClaim::new(claim, steps)))
            }
            Action::Allocate(attempt) => {
                let class_parameters = attempt.class.parameters.clone();
                let node = attempt.node.clone();
                if let Some(slot) = self.slots.get_mut(key) {
                    slot.held = Held::Attempt(attempt);
                }
                let call = Allocate { claim: key.clone(), uid, spec, class_parameters, node };
                (FlightKind::Allocate, DriverEffectKind::Allocate(call))
            }
            Action::Deallocate(attributes) => {
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
        if let Some(slot) = self.slots.get_mut(key) {
            slot.writer.sent();
        }
        self.flights.send(Flight { claim: key.clone(), uid: claim.uid.clone(), kind }, effect);
    }

    pub(super) fn look_at_orphan(&mut self, now: Timestamp, uid: &Uid) {
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
                self.flights.send(flight, DriverEffectKind::Deallocate(call));
            }
        }
    }
}

/// The claim says that it is allocated, and nobody uses it.
fn free_allocated(claim: &ResourceClaim, slot: &Slot) -> Action {
    if slot.held.may_hold() {
        return Action::Deallocate(claim.status.attributes.clone());
    }
    Action::Write(vec![Step::status(claim, |status| {
        *status =
            ClaimStatus { reserved_for: core::mem::take(&mut status.reserved_for), ..ClaimStatus::default() };
    })])
}

fn abandon(status: &mut ClaimStatus) {
    status.driver_name = Text::default();
    status.scheduler.selected_node = None;
}
