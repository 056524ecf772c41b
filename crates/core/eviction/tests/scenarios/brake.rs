//! The brake: whoever is put back onto the device it had to leave goes later each time.

use std::sync::Arc;

use lazaret_eviction::{Options, WakeReason};
use lazaret_fleet::Input;
use lazaret_model::{Owner, Pod};

use crate::{objects, world::World};

const RULE: &str = "rule sick driver=some-driver taint=sick=v:NoExecute@100";

fn world(options: Options) -> World {
    let mut world = World::new(options);
    world.now = 100_000;
    world.apply(RULE);
    world.run_until(100_000);
    world
}

/// The owner's next pod is bound to a device.
fn placed(world: &mut World, number: usize, owner: Option<&str>, device: &str) {
    let name = format!("p{number}");
    world.apply(&format!("claim {name} device=pool/{device} for={name}:u-{name}"));
    let Input::Pod(pod) = objects::parse(&format!("pod {name} uid=u-{name} claim={name}")) else {
        panic!("a pod");
    };
    let owner = owner.map(|uid| Owner {
        kind: "ReplicaSet".into(),
        name: "rs".into(),
        uid: uid.into(),
        ..Owner::default()
    });
    world.feed(Input::Pod(Arc::new(Pod { owner, ..Pod::clone(&pod) })));
}

/// When the pods of a loop are evicted: each is placed as soon as the one before is evicted.
fn evictions_of_loop(world: &mut World, owner: Option<&str>, rounds: usize) -> Vec<i64> {
    for number in 0..rounds {
        placed(world, number, owner, "dev-0");
        let before = world.evicted_at.len();
        while world.evicted_at.len() == before {
            world.run_until(world.now + 1_000);
        }
        world.apply(&format!("pod- p{number}; claim- p{number}"));
    }
    world.evicted_at.iter().map(|(at, _)| (at - 100_000) / 1_000).collect()
}

#[test]
fn each_time_later_and_said_so() {
    let mut world = world(Options::default());
    assert_eq!(evictions_of_loop(&mut world, Some("rs"), 7), [0, 1, 3, 7, 15, 31, 63]);
    let told = world.log.iter().filter(|line| line.ends_with(" Eviction")).count();
    // The second was placed when its second was over.
    assert_eq!(told, 5, "{:?}", world.log);
}

#[test]
fn never_longer_than_the_longest() {
    let mut world = world(Options { brake_ms_max: 4_000, ..Options::default() });
    assert_eq!(evictions_of_loop(&mut world, Some("rs"), 6), [0, 1, 3, 7, 11, 15]);
}

#[test]
fn whoever_has_no_owner_is_not_made_anew_and_not_held() {
    let mut world = world(Options::default());
    placed(&mut world, 0, None, "dev-0");
    placed(&mut world, 1, None, "dev-0");
    world.run_until(100_000);
    assert_eq!(world.evicted_at.len(), 2);
    assert_eq!(world.machine.brake_len(), 0);
}

#[test]
fn another_device_another_owner_another_taint_are_another_matter() {
    let mut world = world(Options::default());
    placed(&mut world, 0, Some("rs"), "dev-0");
    world.run_until(100_000);
    placed(&mut world, 1, Some("rs"), "dev-1");
    placed(&mut world, 2, Some("other"), "dev-0");
    world.run_until(100_000);
    assert_eq!(world.evicted_at.len(), 3, "{:?}", world.log);
    placed(&mut world, 3, Some("rs"), "dev-0");
    world.run_until(100_000);
    assert_eq!(world.evicted_at.len(), 3, "held");
    assert_eq!(world.machine.next_wake().unwrap().why, WakeReason::Brake);
    world.apply("rule- sick");
    world.apply("rule sick driver=some-driver uid=second taint=sick=v:NoExecute@100");
    world.run_until(100_000);
    assert_eq!(world.evicted_at.len(), 4, "set again: not held for what the first one did");
}

#[test]
fn what_is_long_ago_is_forgotten() {
    let mut world = world(Options { brake_ms_max: 2_000, ..Options::default() });
    placed(&mut world, 0, Some("rs"), "dev-0");
    world.run_until(100_000);
    assert_eq!(world.machine.brake_len(), 1);
    world.now += 60_000;
    placed(&mut world, 1, Some("rs"), "dev-1");
    world.run_until(world.now);
    assert_eq!((world.evicted_at.len(), world.machine.brake_len()), (2, 1));
    placed(&mut world, 2, Some("rs"), "dev-0");
    world.run_until(world.now);
    assert_eq!(world.evicted_at.len(), 3, "it is no loop any more");
}

#[test]
fn a_clock_that_goes_back_holds_nobody_longer() {
    let mut world = world(Options { brake_ms_max: 4_000, ..Options::default() });
    world.now += 1_000_000;
    placed(&mut world, 0, Some("rs"), "dev-0");
    world.run_until(world.now);
    placed(&mut world, 1, Some("rs"), "dev-0");
    world.run_until(world.now);
    assert_eq!(world.evicted_at.len(), 1);
    world.now -= 900_000;
    world.hear(lazaret_eviction::Input::Tick);
    world.run_until(world.now + 4_000);
    assert_eq!(world.evicted_at.len(), 2);
}
