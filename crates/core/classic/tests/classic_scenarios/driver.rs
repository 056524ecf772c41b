//! The vendor's controller.

use std::sync::Arc;

use lazaret_classic::{
    Allocation, AllocationMode, ChangeClaim, ClaimStatus, DriverController, DriverEffectKind, DriverInput,
    DriverOptions, News, Phase, Refusal, ResourceClaim, Step, Suitability,
};
use lazaret_machine::{Effect, EffectId, Machine, Outcome, Turn};

use super::{acknowledged, allocated, at, claim, class, key, nodes, only, spec, user, version};

const FINALIZER: &str = "gpu.acme.com/deletion-protection";

fn controller(claims: Vec<ResourceClaim>) -> DriverController {
    let mut machine = DriverController::new(DriverOptions::new("gpu.acme.com"));
    let now = at(0);
    machine.handle(now, &(), DriverInput::News(News::Class(class("acme-gpu", "gpu.acme.com"))));
    for claim in claims {
        machine.handle(now, &(), DriverInput::News(News::Claim(Arc::new(claim))));
    }
    machine.handle(now, &(), Turn::BecameLeader.into());
    machine
}

fn effect(machine: &mut DriverController) -> Effect<DriverEffectKind> {
    machine.poll_effect().expect("an effect")
}

fn write(machine: &mut DriverController) -> (EffectId, ChangeClaim) {
    match effect(machine) {
        Effect { id, kind: DriverEffectKind::Change(change) } => (id, change),
        other => panic!("{other:?}"),
    }
}

fn done(machine: &mut DriverController, effect: EffectId) {
    machine.handle(at(1), &(), acknowledged(effect, Outcome::Done));
}

fn see(machine: &mut DriverController, claim: ResourceClaim, number: u64) {
    machine.handle(at(1), &(), DriverInput::News(News::Claim(version(claim, number))));
}

fn selected(mut claim: ResourceClaim, node: &str) -> ResourceClaim {
    claim.status.scheduler.selected_node = Some(node.into());
    claim.status.scheduler.potential_nodes = nodes(&[node]);
    claim
}

/// The finalizer and the name are there: as the claim is when allocation has begun.
fn begun(claim: ResourceClaim) -> ResourceClaim {
    let mut claim = selected(claim, "node-1");
    claim.finalizers = vec![FINALIZER.into()];
    claim.status.driver_name = "gpu.acme.com".into();
    claim
}

/// A machine that has begun to allocate, and its call.
fn allocating() -> (DriverController, EffectId) {
    let mut machine = controller(vec![selected(claim("c", None), "node-1")]);
    let (id, _) = write(&mut machine);
    done(&mut machine, id);
    see(&mut machine, begun(claim("c", None)), 3);
    let Effect { id, kind: DriverEffectKind::Allocate(call) } = effect(&mut machine) else { panic!() };
    assert_eq!(call.node, Some("node-1".into()));
    (machine, id)
}

fn status_of(change: &ChangeClaim) -> &ClaimStatus {
    let status = change.steps.iter().find_map(|step| match step {
        Step::SetStatus(status) => Some(status),
        Step::SetFinalizers(_) => None,
    });
    status.expect("a status")
}

fn allocation() -> Allocation {
    Allocation {
        attributes: [("card".into(), "7".into())].into(),
        available_on_nodes: Some(Arc::new(only("node-1"))),
        user_limit: 0,
    }
}

#[test]
fn delayed_allocation_waits_for_a_selected_node() {
    assert_eq!(controller(vec![claim("c", None)]).poll_effect(), None);
}

#[test]
fn the_finalizer_and_the_drivers_name_come_before_the_allocation() {
    let mut machine = controller(vec![selected(claim("c", None), "node-1")]);
    let (id, change) = write(&mut machine);
    assert_eq!(change.version, "1");
    assert_eq!(change.steps[0], Step::SetFinalizers(vec![FINALIZER.into()]));
    assert_eq!(status_of(&change).driver_name, "gpu.acme.com");
    assert_eq!(machine.poll_effect(), None);
    // Not before it is seen that they are there.
    done(&mut machine, id);
    assert_eq!(machine.poll_effect(), None);
    see(&mut machine, begun(claim("c", None)), 3);
    assert!(matches!(effect(&mut machine).kind, DriverEffectKind::Allocate(_)));
}

#[test]
fn immediate_allocation_starts_when_the_claim_is_created() {
    let mut immediate = claim("c", None);
    immediate.spec = spec("acme-gpu", AllocationMode::Immediate);
    let mut machine = controller(vec![immediate]);
    assert_eq!(write(&mut machine).1.steps[0], Step::SetFinalizers(vec![FINALIZER.into()]));
}

#[test]
fn a_claim_that_is_allocated_says_where_with_which_attributes_and_for_how_many() {
    let (mut machine, id) = allocating();
    machine.handle(at(2), &(), DriverInput::Allocated { effect: id, result: Ok(allocation()) });
    let (_, change) = write(&mut machine);
    let status = status_of(&change);
    assert_eq!((status.phase, status.user_limit), (Phase::Allocated, 1));
    assert_eq!(status.attributes, allocation().attributes);
    assert_eq!(status.driver.available_on_nodes, allocation().available_on_nodes);
    assert_eq!(status.scheduler, Default::default());
}

/// The driver's name is taken back; the finalizer is still there.
fn withdrawn(claim: ResourceClaim, node: Option<&str>) -> ResourceClaim {
    let mut claim = begun(claim);
    claim.status.driver_name = "".into();
    claim.status.scheduler.selected_node = node.map(Into::into);
    claim
}

#[test]
fn an_attempt_that_failed_is_given_up_and_another_node_is_asked_for() {
    let (mut machine, id) = allocating();
    machine.handle(at(2), &(), DriverInput::Allocated { effect: id, result: Err(Refusal::Failed) });
    let (id, change) = write(&mut machine);
    let status = status_of(&change);
    assert_eq!((status.phase, &status.scheduler.selected_node), (Phase::Pending, &None));
    assert_eq!(*status.driver.unsuitable_nodes, *nodes(&["node-1"]));
    assert_eq!((&status.driver_name, change.steps.len()), (&"".into(), 1));
    done(&mut machine, id);
    see(&mut machine, withdrawn(claim("c", None), None), 4);
    assert_eq!(write(&mut machine).1.steps, [Step::SetFinalizers(Vec::new())]);
}

#[test]
fn nothing_is_allocated_after_a_finalizer_may_have_been_removed_until_it_was_written_again() {
    let (mut machine, id) = allocating();
    machine.handle(at(2), &(), DriverInput::Allocated { effect: id, result: Err(Refusal::Failed) });
    let (id, _) = write(&mut machine);
    done(&mut machine, id);
    see(&mut machine, withdrawn(claim("c", None), None), 4);
    let (id, _) = write(&mut machine);
    machine.handle(at(2), &(), acknowledged(id, Outcome::Unknown));
    // The removal may still arrive. A node is selected meanwhile.
    see(&mut machine, withdrawn(claim("c", None), Some("node-2")), 5);
    machine.handle(at(100), &(), Turn::Tick.into());
    let (id, change) = write(&mut machine);
    assert_eq!((status_of(&change).driver_name.as_ref(), change.version.as_ref()), ("gpu.acme.com", "5"));
    machine.handle(at(101), &(), acknowledged(id, Outcome::Conflict));
    assert_eq!(machine.poll_effect(), None);
    let mut removed = withdrawn(claim("c", None), Some("node-2"));
    removed.finalizers.clear();
    see(&mut machine, removed, 6);
    assert_eq!(write(&mut machine).1.steps[0], Step::SetFinalizers(vec![FINALIZER.into()]));
}

#[test]
fn what_is_being_freed_is_not_published_when_its_node_is_selected_again() {
    let (mut machine, id) = allocating();
    see(&mut machine, withdrawn(claim("c", None), Some("node-2")), 4);
    machine.handle(at(2), &(), DriverInput::Allocated { effect: id, result: Ok(allocation()) });
    let Effect { id, kind: DriverEffectKind::Deallocate(_) } = effect(&mut machine) else { panic!() };
    see(&mut machine, begun(claim("c", None)), 5);
    machine.handle(at(3), &(), acknowledged(id, Outcome::Unknown));
    machine.handle(at(100), &(), Turn::Tick.into());
    let (_, change) = write(&mut machine);
    assert_eq!((status_of(&change).phase, status_of(&change).driver_name.as_ref()), (Phase::Pending, ""));
}

#[test]
fn an_allocation_of_unknown_outcome_is_tried_again_for_the_same_node() {
    let (mut machine, id) = allocating();
    machine.handle(at(2), &(), DriverInput::Allocated { effect: id, result: Err(Refusal::Unknown) });
    assert_eq!(machine.poll_effect(), None);
    let wake = machine.next_wake().unwrap();
    machine.handle(wake.at, &(), Turn::Tick.into());
    let DriverEffectKind::Allocate(call) = effect(&mut machine).kind else { panic!() };
    assert_eq!(call.node, Some("node-1".into()));
}

#[test]
fn another_selected_node_frees_what_was_allocated_for_the_first() {
    let (mut machine, id) = allocating();
    let mut elsewhere = begun(claim("c", None));
    elsewhere.status.scheduler.selected_node = Some("node-2".into());
    see(&mut machine, elsewhere, 4);
    machine.handle(at(2), &(), DriverInput::Allocated { effect: id, result: Ok(allocation()) });
    let (id, change) = write(&mut machine);
    assert_eq!(status_of(&change).driver_name, "");
    assert_eq!(status_of(&change).scheduler.selected_node, Some("node-2".into()));
    done(&mut machine, id);
    see(&mut machine, withdrawn(claim("c", None), Some("node-2")), 5);
    let Effect { id, kind: DriverEffectKind::Deallocate(call) } = effect(&mut machine) else { panic!() };
    assert_eq!(call.attributes, allocation().attributes);
    done(&mut machine, id);
    let (id, change) = write(&mut machine);
    assert_eq!((status_of(&change).driver_name.as_ref(), change.steps.len()), ("gpu.acme.com", 1));
    done(&mut machine, id);
    let mut again = begun(claim("c", None));
    again.status.scheduler.selected_node = Some("node-2".into());
    see(&mut machine, again, 6);
    let DriverEffectKind::Allocate(call) = effect(&mut machine).kind else { panic!() };
    assert_eq!(call.node, Some("node-2".into()));
}

#[test]
fn after_a_restart_half_way_the_attempt_is_fenced_off_and_freed_before_a_new_one() {
    let mut machine = controller(vec![begun(claim("c", None))]);
    let (id, change) = write(&mut machine);
    assert_eq!((&status_of(&change).driver_name, change.steps.len()), (&"".into(), 1));
    done(&mut machine, id);
    assert_eq!(machine.poll_effect(), None);
    let mut fenced = claim("c", None);
    fenced.finalizers = vec![FINALIZER.into()];
    see(&mut machine, fenced, 2);
    let Effect { id, kind: DriverEffectKind::Deallocate(_) } = effect(&mut machine) else { panic!() };
    done(&mut machine, id);
    assert_eq!(write(&mut machine).1.steps, [Step::SetFinalizers(Vec::new())]);
}

#[test]
fn a_class_that_is_deleted_meanwhile_does_not_stop_what_began() {
    let (mut machine, id) = allocating();
    machine.handle(at(2), &(), DriverInput::News(News::ClassGone("acme-gpu".into())));
    machine.handle(at(2), &(), DriverInput::Allocated { effect: id, result: Ok(allocation()) });
    assert_eq!(status_of(&write(&mut machine).1).phase, Phase::Allocated);
}

#[test]
fn deallocation_needs_no_class() {
    let mut machine = DriverController::new(DriverOptions::new("gpu.acme.com"));
    let mut leaving = allocated(claim("c", None), None);
    leaving.status.phase = Phase::Reallocate;
    machine.handle(at(0), &(), DriverInput::News(News::Claim(Arc::new(leaving))));
    machine.handle(at(0), &(), Turn::BecameLeader.into());
    let Effect { id, kind: DriverEffectKind::Deallocate(call) } = effect(&mut machine) else { panic!() };
    assert_eq!(call.attributes, [("card".into(), "7".into())].into());
    done(&mut machine, id);
    let (_, change) = write(&mut machine);
    assert_eq!(*status_of(&change), ClaimStatus::default());
}

#[test]
fn a_claim_that_is_reserved_is_not_deallocated_when_it_is_deleted() {
    let mut used = allocated(claim("c", None), None);
    used.deleting = true;
    used.status.reserved_for = vec![user("p")];
    let mut machine = controller(vec![used.clone()]);
    assert_eq!(machine.poll_effect(), None);
    used.status.reserved_for.clear();
    see(&mut machine, used.clone(), 2);
    let Effect { id, kind: DriverEffectKind::Deallocate(_) } = effect(&mut machine) else { panic!() };
    done(&mut machine, id);
    let (id, _) = write(&mut machine);
    done(&mut machine, id);
    used.status = ClaimStatus::default();
    see(&mut machine, used, 3);
    assert_eq!(write(&mut machine).1.steps, [Step::SetFinalizers(Vec::new())]);
}

#[test]
fn potential_nodes_are_examined_and_those_that_do_not_suit_are_named() {
    let mut asking = claim("c", None);
    asking.status.scheduler.potential_nodes = nodes(&["node-1", "node-2"]);
    let mut machine = controller(vec![asking]);
    let Effect { id, kind: DriverEffectKind::Examine(call) } = effect(&mut machine) else { panic!() };
    assert_eq!(*call.nodes, *nodes(&["node-1", "node-2"]));
    let found =
        Suitability { unsuitable_nodes: vec!["node-2".into(), "node-9".into()], available_on_nodes: None };
    machine.handle(at(2), &(), DriverInput::Examined { effect: id, result: Some(found) });
    assert_eq!(*status_of(&write(&mut machine).1).driver.unsuitable_nodes, *nodes(&["node-2"]));
}

#[test]
fn nodes_are_examined_again_after_a_time() {
    let mut asking = claim("c", None);
    asking.status.scheduler.potential_nodes = nodes(&["node-1"]);
    let mut machine = controller(vec![asking]);
    let id = effect(&mut machine).id;
    machine.handle(at(2), &(), DriverInput::Examined { effect: id, result: Some(Suitability::default()) });
    assert_eq!(machine.poll_effect(), None);
    let wake = machine.next_wake().unwrap();
    assert_eq!(wake.at, at(30_002));
    machine.handle(wake.at, &(), Turn::Tick.into());
    assert!(matches!(effect(&mut machine).kind, DriverEffectKind::Examine(_)));
}

#[test]
fn claims_of_other_drivers_are_left_alone() {
    let mut other = selected(claim("c", None), "node-1");
    other.spec = spec("other-class", AllocationMode::Immediate);
    assert_eq!(controller(vec![other]).poll_effect(), None);
    let mut taken = selected(claim("d", None), "node-1");
    taken.status.driver_name = "other.example.com".into();
    assert_eq!(controller(vec![taken]).poll_effect(), None);
}

#[test]
fn devices_of_a_claim_that_was_removed_by_force_are_freed() {
    let mut machine = controller(vec![allocated(claim("c", None), None)]);
    assert_eq!(machine.poll_effect(), None);
    machine.handle(at(1), &(), DriverInput::News(News::ClaimGone(key("c"), "uid-c".into())));
    let Effect { id, kind: DriverEffectKind::Deallocate(call) } = effect(&mut machine) else { panic!() };
    assert_eq!(call.attributes, [("card".into(), "7".into())].into());
    machine.handle(at(2), &(), acknowledged(id, Outcome::Unknown));
    let wake = machine.next_wake().unwrap();
    machine.handle(wake.at, &(), Turn::Tick.into());
    let again = effect(&mut machine);
    done(&mut machine, again.id);
    assert_eq!(
        (machine.poll_effect(), machine.next_wake().map(|wake| wake.why)),
        (None, Some(lazaret_classic::WakeReason::Refresh))
    );
}

#[test]
fn an_answer_that_no_server_would_accept_is_freed_and_given_up() {
    let (mut machine, id) = allocating();
    let huge = Allocation {
        attributes: [("card".into(), "x".repeat(100_000).into())].into(),
        ..Allocation::default()
    };
    machine.handle(at(2), &(), DriverInput::Allocated { effect: id, result: Ok(huge) });
    let (id, change) = write(&mut machine);
    assert_eq!(*status_of(&change).driver.unsuitable_nodes, *nodes(&["node-1"]));
    done(&mut machine, id);
    see(&mut machine, withdrawn(claim("c", None), None), 4);
    let Effect { id, kind: DriverEffectKind::Deallocate(_) } = effect(&mut machine) else { panic!() };
    done(&mut machine, id);
    assert_eq!(write(&mut machine).1.steps, [Step::SetFinalizers(Vec::new())]);
}
