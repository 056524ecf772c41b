//! The claim for a pod's extended resources has devices that have to be made ready. The pod does not name the claim yet, and hears of it all the same.

use std::sync::Arc;

use lazaret_fleet as fleet;
use lazaret_model::*;
use lazaret_scheduler::{Claim, DeviceStatus, EffectKind, Input};

use crate::{
    extended::{GPU, asking, world},
    world::{DRIVER, World, slice},
};

/// A pod whose device is being made ready.
fn waiting() -> World {
    let mut world = world();
    world.node("a", 1_000, 0);
    let mut slice = slice("a", 1);
    slice.devices[0].binding_conditions = Some(vec!["Ready".into()]);
    slice.devices[0].binding_failure_conditions = Some(vec!["Broken".into()]);
    world.tell(Input::Fleet(fleet::Input::Slice(Arc::new(slice))));
    world.add_pod(asking("p", GPU, 1));
    world.settle();
    world.pass(5_000);
    assert_eq!((world.node_of("p"), world.scheduler.sizes().in_flight), (None, 1));
    world
}

/// Somebody writes the claim.
fn change_claim(world: &mut World, change: impl FnOnce(&mut Claim)) {
    world.version += 1;
    let claim = world.claims.values_mut().next().unwrap();
    change(claim);
    claim.version = world.version;
    let seen = Input::Claim(Arc::new(Claim::clone(claim)));
    world.tell(seen);
    world.settle();
}

fn device_says(world: &mut World, condition: &str) {
    let device = DeviceId::new(DRIVER, "a", "gpu-0");
    change_claim(world, |claim| {
        claim.devices = vec![DeviceStatus { device, is_true: vec![condition.into()] }];
    });
}

fn deletions(world: &World) -> usize {
    world.log.iter().filter(|kind| matches!(kind, EffectKind::DeleteExtendedClaim(_))).count()
}

#[test]
fn the_pod_is_bound_as_soon_as_they_are_ready() {
    let mut world = waiting();
    device_says(&mut world, "Ready");
    assert_eq!(world.node_of("p").as_deref(), Some("a"), "{}", world.message_of("p"));
}

#[test]
fn the_claim_is_deleted_as_soon_as_they_are_broken() {
    let mut world = waiting();
    device_says(&mut world, "Broken");
    assert_eq!(deletions(&world), 1, "{}", world.message_of("p"));
}

#[test]
fn the_claim_is_deleted_when_somebody_else_has_given_them_back() {
    let mut world = waiting();
    change_claim(&mut world, |claim| {
        let given_back = ResourceClaim { allocation: None, ..ResourceClaim::clone(&claim.claim) };
        claim.claim = Arc::new(given_back);
    });
    assert_eq!(deletions(&world), 1, "{}", world.message_of("p"));
}
