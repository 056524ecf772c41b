//! Breakers with a window: whatever was out of service within it counts, although it is back.

use std::sync::Arc;

use lazaret_eviction::{Input, Options};
use lazaret_model::{Breaker, BreakerStatus, BreakerUnit, DisruptionGuard, Share, Timestamp};

use crate::world::World;

/// Four devices, of which each has a pod.
const PODS: &str = "
    slice worker d0 d1 d2 d3
    claim c0 device=d0 for=p0:uid-p0; claim c1 device=d1 for=p1:uid-p1
    claim c2 device=d2 for=p2:uid-p2; claim c3 device=d3 for=p3:uid-p3
    pod p0 claim=c0; pod p1 claim=c1; pod p2 claim=c2; pod p3 claim=c3
";

/// One device may be out of service, and counts for as many seconds.
fn guard(window_seconds: i64) -> DisruptionGuard {
    let breaker = Breaker {
        max_out_of_service: Share::Count(1),
        of: BreakerUnit::Devices,
        window_seconds,
        reset_after_seconds: 10,
    };
    DisruptionGuard {
        name: "fleet".into(),
        uid: "uid-fleet".into(),
        generation: 1,
        breaker: Some(breaker),
        ..DisruptionGuard::default()
    }
}

fn world(guard: DisruptionGuard) -> World {
    let mut world = World::new(Options::default());
    world.hear(Input::Guards(&[Arc::new(guard)]));
    world.apply(PODS);
    world
}

/// Each device fails for two seconds, one after the other.
fn fail_in_turn(world: &mut World, devices: std::ops::Range<i64>) {
    for number in devices {
        world.now = 10_000 * number;
        let at = world.now / 1_000;
        world.apply(&format!("rule r{number} device=d{number} taint=k=v:NoExecute@{at}"));
        world.run_until(10_000 * number + 2_000);
        world.apply(&format!("rule- r{number}"));
        world.run_until(10_000 * number + 9_000);
    }
}

fn gone(world: &World) -> Vec<&str> {
    world.evicted_at.iter().map(|(_, pod)| pod.as_str()).collect()
}

#[test]
fn what_flaps_through_the_fleet_trips_a_breaker_with_a_window_and_none_without() {
    let mut without = world(guard(0));
    fail_in_turn(&mut without, 0..4);
    assert_eq!(gone(&without), ["p0", "p1", "p2", "p3"], "never more than one at a time");
    let mut with = world(guard(600));
    fail_in_turn(&mut with, 0..4);
    assert_eq!(gone(&with), ["p0"], "the second is one too many within ten minutes");
    let why = "DisruptionGuard fleet is tripped: 2 of 4 devices out of service within 600 s, 1 permitted";
    assert!(with.log.iter().any(|line| line.contains(why)), "{:?}", with.log);
}

#[test]
fn one_device_that_flaps_is_one_device() {
    let mut world = world(guard(600));
    world.apply("rule r device=d0 taint=k=v:NoExecute@0");
    world.run_until(2_000);
    world.apply("rule- r; pod- p0");
    world.run_until(20_000);
    world.apply("claim c4 device=d0 for=p4:uid-p4; pod p4 claim=c4");
    world.apply("rule r device=d0 taint=k=v:NoExecute@20");
    world.run_until(22_000);
    assert_eq!(gone(&world), ["p0", "p4"]);
}

/// Nothing changes in the fleet: the time alone lets evictions begin again.
#[test]
fn it_is_reset_when_what_was_out_of_service_counts_no_more() {
    let mut world = world(guard(60));
    world.apply("rule r device=d0 taint=k=v:NoSchedule@0");
    world.run_until(2_000);
    world.apply("rule- r");
    world.run_until(3_000);
    world.apply("rule s device=d1 taint=k=v:NoExecute@3");
    world.run_until(200_000);
    // It came back at 2 s and counts until 62 s; the breaker is reset 10 s later.
    assert_eq!(world.evicted_at, [(72_000, "p1".to_owned())]);
}

/// The process was killed while a device was out of service, which was back before the next one led.
#[test]
fn what_came_back_while_nobody_led_counts_for_the_next_leader() {
    let mut guard = guard(60);
    guard.status = BreakerStatus { out_of_service: 1, ..BreakerStatus::default() };
    let mut world = World::follower(Options::default());
    world.apply(PODS);
    world.hear(Input::Guards(&[Arc::new(guard)]));
    world.hear(Input::BecameLeader);
    world.run_until(1_000);
    world.apply("rule r device=d1 taint=k=v:NoExecute@1");
    world.run_until(55_000);
    assert_eq!(gone(&world), Vec::<&str>::new(), "d1 is out of service, and one whose name is not known");
    world.run_until(100_000);
    assert_eq!(gone(&world), ["p1"]);
}

/// A new leader knows how many there were, and for how long they count, though not which.
#[test]
fn what_an_earlier_leader_saw_counts_for_the_next() {
    let mut guard = guard(60);
    guard.status =
        BreakerStatus { recent: 1, recent_until: Some(Timestamp::from_secs(40)), ..BreakerStatus::default() };
    let mut world = World::follower(Options::default());
    world.apply(PODS);
    world.apply("rule r device=d1 taint=k=v:NoExecute@0");
    world.hear(Input::Guards(&[Arc::new(guard)]));
    world.hear(Input::BecameLeader);
    world.run_until(100_000);
    assert_eq!(world.evicted_at, [(50_000, "p1".to_owned())]);
}

/// A write of the leader before, which had been given up, reached the server after this one led.
#[test]
fn a_trip_that_an_earlier_leader_counted_late_is_not_forgotten() {
    let mut world = world(guard(0));
    world.run_until(1_000);
    let mut late = guard(0);
    late.status = BreakerStatus { tripped: true, trips: 3, ..BreakerStatus::default() };
    world.hear(Input::Guards(&[Arc::new(late)]));
    world.run_until(5_000);
    let last = world.breakers.last().copied().unwrap_or_default();
    assert_eq!((last.tripped, last.trips), (false, 3));
}
