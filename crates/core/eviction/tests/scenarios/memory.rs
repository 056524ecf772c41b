//! Devices that vanish while they are in use, and what is kept of them for whoever leads next.

use lazaret_eviction::{Input, Options, Outcome};
use lazaret_model::{AttrValue, LastPublished, ResourceClaim};

use crate::{objects, world::World};

const SLICE: &str = "slice worker instance[model=big] other[model=small]";
const CLAIM: &str = "claim my-claim device=instance for=my-pod:1234";
const POD: &str = "pod my-pod uid=1234 claim=my-claim";
const RULE: &str = r#"rule evict cel=device.attributes["some-driver"].model=="big" taint=k=v:NoExecute@0"#;

fn with(lines: &[&str]) -> World {
    let mut world = World::new(Options::default());
    for line in lines {
        world.apply(line);
        world.run_until(world.now);
    }
    world
}

/// Another machine, with another fleet, that gets all objects.
fn restarted(world: &World) -> World {
    let mut fresh = World::new(Options::default());
    world.objects.values().for_each(|object| fresh.feed(object.clone()));
    fresh.run_until(0);
    fresh
}

fn claim_of(world: &World) -> ResourceClaim {
    let at = world.fleet.claim_ix(&objects::key("my-claim")).unwrap();
    ResourceClaim::clone(world.fleet.claim(at).unwrap())
}

#[test]
fn a_rule_by_expression_applies_after_a_restart_to_a_device_whose_slice_is_gone() {
    let world = with(&[SLICE, CLAIM, POD, "slice- worker"]);
    assert_eq!(world.kept, ["0s my-claim [instance]"]);
    let mut fresh = restarted(&world);
    assert_eq!(fresh.kept, [""; 0], "it is said already");
    fresh.apply(RULE);
    fresh.run_until(0);
    assert_eq!(fresh.log[0], "0s evict my-pod");
}

#[test]
fn a_claim_says_it_only_as_long_as_no_slice_does() {
    let world = with(&[SLICE, CLAIM, POD, "slice- worker", SLICE]);
    assert_eq!(world.kept, ["0s my-claim [instance]", "0s my-claim []"]);
    assert_eq!(claim_of(&world).last_published, []);
    let given_back = with(&[SLICE, CLAIM, "slice- worker", "claim my-claim"]);
    assert_eq!(given_back.kept, ["0s my-claim [instance]"], "the new claim says nothing");
}

#[test]
fn nothing_is_written_for_devices_that_are_published_or_free() {
    let world = with(&[SLICE, CLAIM, POD, "slice worker instance[model=bigger]", "claim free"]);
    assert_eq!(world.kept, [""; 0]);
    let unknown = with(&[CLAIM, POD]);
    assert_eq!(unknown.kept, [""; 0], "nobody knows what it is like");
}

#[test]
fn a_write_that_failed_is_tried_again_and_a_follower_writes_nothing() {
    let mut world = with(&[SLICE, CLAIM, POD]);
    world.outcomes.insert("my-claim".into(), vec![Outcome::RetryLater, Outcome::Unknown]);
    world.apply("slice- worker");
    world.run_until(1_000);
    assert_eq!(
        world.kept,
        ["0s my-claim [instance] RetryLater", "5ms my-claim [instance] Unknown", "15ms my-claim [instance]"]
    );
    let mut follower = World::follower(Options::default());
    [SLICE, CLAIM, POD, "slice- worker"].into_iter().for_each(|line| follower.apply(line));
    follower.run_until(1_000);
    assert_eq!(follower.kept, [""; 0]);
    follower.hear(Input::BecameLeader);
    follower.run_until(1_000);
    assert_eq!(follower.kept, ["1s my-claim [instance]"]);
}

/// A claim says no more than there is room for: the first devices first. The rest is known to this machine alone.
#[test]
fn what_a_claim_says_is_bounded() {
    let long = "v".repeat(200);
    let values: Vec<String> = (0..40).map(|at| format!("a{at}={long}")).collect();
    let devices: Vec<String> = (0..8).map(|at| format!("d{at}[{}]", values.join(","))).collect();
    let held: Vec<String> = (0..8).map(|at| format!("device=d{at}")).collect();
    let slice = format!("slice worker {}", devices.join(" "));
    let claim = format!("claim my-claim {} for=my-pod:1234", held.join(" "));
    let world = with(&[&slice, &claim, POD, "slice- worker"]);
    let said = claim_of(&world).last_published;
    let bytes: usize = said.iter().map(LastPublished::json_bytes).sum();
    assert!(bytes <= LastPublished::BYTES_MAX && bytes > LastPublished::BYTES_MAX / 2, "{bytes}");
    assert_eq!(world.kept, ["0s my-claim [d0 d1 d2]"], "written once, though there is more to say");
    assert_eq!(restarted(&world).kept, [""; 0] as [&str; 0]);
}

/// Devices that a machine has seen itself count more than an annotation on the claim.
#[test]
fn an_annotation_that_somebody_changed_is_put_right() {
    let mut world = with(&[SLICE, CLAIM, POD, "slice- worker"]);
    let mut claim = claim_of(&world);
    claim.last_published[0].device.attributes[0].1 = AttrValue::String("small".into());
    world.feed(lazaret_fleet::Input::Claim(std::sync::Arc::new(claim)));
    world.run_until(0);
    assert_eq!(world.kept, ["0s my-claim [instance]", "0s my-claim [instance]"]);
    assert_eq!(claim_of(&world).last_published[0].device.attributes[0].1, AttrValue::String("big".into()));
}
