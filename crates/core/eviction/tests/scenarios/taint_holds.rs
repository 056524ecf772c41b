//! Taints of drivers and patches that reach more than a guard permits evict no pod before they are approved.

use std::sync::Arc;

use lazaret_eviction::{Block, Input, Options};
use lazaret_fleet::Input as FleetInput;
use lazaret_model::{
    Approvers, ConfirmAbove, DeviceSelector, DisruptionGuard, Impact, ResourceSlicePatch, Share,
    TaintApproval, TaintHold, TaintedBy, Timestamp,
};

use crate::world::World;

/// Four pods in two namespaces, each on a device of its own, none tainted.
const PODS: &str = "
    slice worker d0 d1 d2 d3
    claim c0 device=d0 for=p0:uid-p0; claim c1 device=d1 for=p1:uid-p1
    claim c2 device=d2 for=p2:uid-p2; claim other/c3 device=d3 for=p3:uid-p3
    pod p0 claim=c0; pod p1 claim=c1; pod p2 claim=c2; pod other/p3 claim=c3
";
/// The driver taints all of them.
const ALL: &str =
    "slice worker d0{k=v:NoExecute@0} d1{k=v:NoExecute@0} d2{k=v:NoExecute@0} d3{k=v:NoExecute@0}";
const PATCH: &str = "patch fix driver=some-driver taint=k=v:NoExecute@0";

fn guard(confirm_above: ConfirmAbove, approvers: Approvers) -> DisruptionGuard {
    DisruptionGuard {
        name: "fleet".into(),
        uid: "uid-fleet".into(),
        generation: 1,
        confirm_above: Some(confirm_above),
        approvers,
        ..DisruptionGuard::default()
    }
}

fn above(pods: u64) -> ConfirmAbove {
    ConfirmAbove { pods: Some(pods), ..ConfirmAbove::default() }
}

fn driver_taint() -> TaintedBy {
    TaintedBy::Driver { driver: "some-driver".into(), key: "k".into(), value: "v".into() }
}

fn approved(
    guard: &DisruptionGuard,
    since: Timestamp,
    seen: (u64, u64, u64),
    by: &str,
) -> Arc<DisruptionGuard> {
    let (pods, namespaces, devices) = seen;
    let approval = TaintApproval {
        taint: driver_taint(),
        since,
        seen: Impact { pods, namespaces, devices },
        by: Some(by.into()),
    };
    Arc::new(DisruptionGuard { approvals: vec![approval], ..guard.clone() })
}

fn world(guard: &DisruptionGuard, then: &str) -> World {
    let mut world = World::new(Options { trusts_user_names: true, ..Options::default() });
    world.hear(Input::Guards(&[Arc::new(guard.clone())]));
    world.apply(PODS);
    if !then.is_empty() {
        world.apply(then);
    }
    world.run_until(5_000);
    world
}

fn only(world: &World) -> &TaintHold {
    let [hold] = &world.held_taints[..] else { panic!("{:?}", world.held_taints) };
    hold
}

fn events(world: &World) -> usize {
    world.log.iter().filter(|line| line.contains(" event fleet: ")).count()
}

#[test]
fn a_drivers_taint_that_reaches_too_far_evicts_no_pod_until_it_is_approved() {
    let guard = guard(above(3), Approvers::Anyone);
    let mut world = world(&guard, ALL);
    assert!(world.evicted_at.is_empty(), "{:?}", world.log);
    let hold = only(&world).clone();
    let command = "kubectl device approve --driver some-driver --taint k=v:NoExecute";
    assert_eq!(
        (&*hold.reason, &*hold.message),
        (
            "ApprovalRequired",
            &*format!(
                "taint k=v:NoExecute of driver some-driver: 4 pods in 2 namespaces on 4 devices; DisruptionGuard fleet wants approval above 3 pods; {command}"
            )
        )
    );
    assert_eq!(events(&world), 1, "{:?}", world.log);
    assert_eq!(world.machine.blocked()[Block::Held as usize], 4);
    world.hear(Input::Guards(&[approved(&guard, hold.since, (4, 2, 4), "system:node:worker")]));
    world.run_until(10_000);
    assert_eq!(world.evicted_at.len(), 4, "{:?}", world.log);
    assert_eq!(&*only(&world).reason, TaintHold::NOT_HELD);
    assert_eq!(world.machine.blocked(), [0; Block::ALL.len()]);
}

#[test]
fn one_within_the_limits_and_one_without_guards_evict_as_before() {
    assert_eq!(world(&guard(above(4), Approvers::Different), ALL).evicted_at.len(), 4);
    let unlimited = DisruptionGuard { confirm_above: None, ..guard(above(0), Approvers::Different) };
    assert_eq!(world(&unlimited, ALL).evicted_at.len(), 4);
    assert_eq!(world(&guard(above(4), Approvers::Different), PATCH).evicted_at.len(), 4);
}

/// Devices that nobody uses count, and so do those of a guard that selects some.
#[test]
fn devices_are_counted_as_guards_select_them() {
    let on = |count| ConfirmAbove { devices: Some(Share::Count(count)), ..ConfirmAbove::default() };
    let of = |device: &str, confirm| DisruptionGuard {
        selector: Some(DeviceSelector { device: Some(device.into()), ..DeviceSelector::default() }),
        ..guard(confirm, Approvers::Anyone)
    };
    let unused = "pod- p1; pod- p2; pod- other/p3; claim- c1; claim- c2; claim- other/c3";
    for (guard, evicted) in [
        (guard(on(3), Approvers::Anyone), 0),
        (guard(on(4), Approvers::Anyone), 1),
        (of("d0", on(1)), 1),
        (of("d0", on(0)), 0),
        (of("d9", on(0)), 1),
    ] {
        assert_eq!(world(&guard, &format!("{unused}; {ALL}")).evicted_at.len(), evicted, "{guard:?}");
    }
}

#[test]
fn an_approval_lapses_when_the_taint_reaches_more() {
    let guard = guard(above(1), Approvers::Anyone);
    let two = "slice worker d0{k=v:NoExecute@0} d1{k=v:NoExecute@0} d2 d3";
    let mut world = world(&guard, two);
    let since = only(&world).since;
    world.apply(ALL);
    world.hear(Input::Guards(&[approved(&guard, since, (2, 1, 2), "alice")]));
    world.run_until(10_000);
    assert!(world.evicted_at.is_empty(), "{:?}", world.log);
    assert_eq!(&*only(&world).reason, "ApprovalLapsed");
    assert!(
        only(&world)
            .message
            .contains("the approval was for 2 pods in 1 namespace on 2 devices and has lapsed")
    );
}

/// A taint that is gone from all devices and comes back was not approved.
#[test]
fn an_approval_ends_with_the_taint() {
    let guard = guard(above(1), Approvers::Anyone);
    let mut world = world(&guard, ALL);
    let since = only(&world).since;
    world.apply("slice worker d0 d1 d2 d3");
    world.run_until(10_000);
    assert!(world.held_taints.is_empty());
    world.hear(Input::Guards(&[approved(&guard, since, (4, 2, 4), "alice")]));
    world.apply(ALL);
    world.run_until(15_000);
    assert!(world.evicted_at.is_empty(), "{:?}", world.log);
    assert_eq!(&*only(&world).reason, "ApprovalRequired");
}

/// The account that wrote the slice is a program's: such accounts do not approve where another user is wanted.
#[test]
fn a_person_approves_where_another_user_is_wanted() {
    for (by, trusts, reason) in [
        ("system:node:worker", true, "ApproverNotDifferent"),
        ("system:serviceaccount:gpu:driver", true, "ApproverNotDifferent"),
        ("alice", false, "ApproverUnknown"),
        ("alice", true, TaintHold::NOT_HELD),
    ] {
        let guard = guard(above(1), Approvers::Different);
        let mut world = World::new(Options { trusts_user_names: trusts, ..Options::default() });
        world.hear(Input::Guards(&[Arc::new(guard.clone())]));
        world.apply(PODS);
        world.apply(ALL);
        world.run_until(5_000);
        let since = only(&world).since;
        world.hear(Input::Guards(&[approved(&guard, since, (4, 2, 4), by)]));
        world.run_until(10_000);
        assert_eq!(&*only(&world).reason, reason, "{by}: {:?}", world.log);
        assert_eq!(world.evicted_at.len(), if reason == TaintHold::NOT_HELD { 4 } else { 0 }, "{by}");
    }
}

#[test]
fn a_patch_is_approved_as_a_rule_is() {
    for (words, reason) in [
        ("", "ApprovalRequired"),
        ("author=alice approved=4/2/4/alice", "ApproverNotDifferent"),
        ("approved=4/2/4/bob", "ApproverUnknown"),
        ("author=alice approved=2/1/2/bob", "ApprovalLapsed"),
        ("author=alice approved=4/2/4/bob", TaintHold::NOT_HELD),
    ] {
        let world = world(&guard(above(1), Approvers::Different), &format!("{PATCH} {words}"));
        let is_approved = reason == TaintHold::NOT_HELD;
        assert_eq!(world.evicted_at.len(), if is_approved { 4 } else { 0 }, "{words}: {:?}", world.log);
        if is_approved {
            continue;
        }
        assert_eq!(&*only(&world).reason, reason, "{words}");
        assert!(only(&world).message.ends_with("kubectl device approve fix"), "{}", only(&world).message);
    }
}

#[test]
fn an_approval_of_another_spec_of_a_patch_counts_for_nothing() {
    let mut world = world(&guard(above(1), Approvers::Anyone), "");
    let FleetInput::Patch(patch) = crate::objects::parse(&format!("{PATCH} approved=4/2/4")) else {
        panic!("no patch")
    };
    let changed = ResourceSlicePatch { generation: 2, ..ResourceSlicePatch::clone(&patch) };
    world.feed(FleetInput::Patch(Arc::new(changed)));
    world.run_until(10_000);
    assert!(world.evicted_at.is_empty(), "{:?}", world.log);
    assert_eq!(&*only(&world).reason, "ApprovalRequired");
}

/// A pod that has to leave for another reason, too, leaves for that one, at once or when it is due.
#[test]
fn a_held_taint_keeps_no_pod_that_leaves_for_another_reason() {
    let guard = guard(above(1), Approvers::Anyone);
    let mut world = world(&guard, &format!("{ALL}; rule r device=d0 taint=a=b:NoExecute@0"));
    assert_eq!(world.evicted_at.len(), 1, "{:?}", world.log);
    world.apply("claim c1 device=d1 for=p1:uid-p1 tolerate=a,Exists,NoExecute,20");
    world.apply("rule s device=d1 taint=a=b:NoExecute@5");
    world.run_until(24_000);
    assert_eq!(world.evicted_at.len(), 1);
    world.run_until(30_000);
    assert_eq!(world.evicted_at.len(), 2, "{:?}", world.log);
}

/// A new leader takes over since when taints are counted, and with it the approval.
#[test]
fn a_new_leader_takes_over_what_was_approved() {
    let guard = guard(above(1), Approvers::Anyone);
    let mut world = world(&guard, ALL);
    let hold = only(&world).clone();
    world.hear(Input::LostLeadership);
    let known = approved(&guard, hold.since, (4, 2, 4), "alice");
    let known = DisruptionGuard { held: vec![hold], ..DisruptionGuard::clone(&known) };
    world.hear(Input::Guards(&[Arc::new(known)]));
    world.now = 20_000;
    world.hear(Input::BecameLeader);
    world.run_until(30_000);
    assert_eq!(world.evicted_at.len(), 4, "{:?}", world.log);
}

/// Of changes that come in parts the first pod leaves before the last is looked at, and not before all are counted.
#[test]
fn changes_in_parts_are_counted_as_a_whole() {
    let mut world = World::new(Options::default());
    world.hear(Input::Guards(&[Arc::new(guard(above(3), Approvers::Anyone))]));
    world.apply(PODS);
    world.run_until(1_000);
    world.fleet.apply(crate::objects::parse(ALL));
    loop {
        let changes = world.fleet.take_some_changes(1);
        world.hear(Input::Changed(&changes));
        world.work();
        if !changes.partial {
            break;
        }
    }
    world.run_until(5_000);
    assert!(world.evicted_at.is_empty(), "{:?}", world.log);
}

/// Without the guard pods leave again.
#[test]
fn without_the_guard_pods_leave() {
    let mut world = world(&guard(above(1), Approvers::Anyone), ALL);
    world.hear(Input::Guards(&[]));
    world.run_until(10_000);
    assert_eq!(world.evicted_at.len(), 4, "{:?}", world.log);
    assert_eq!(world.machine.blocked(), [0; Block::ALL.len()]);
}

/// The status lists a bounded number of taints; others are held as well.
#[test]
fn a_status_lists_as_many_taints_as_it_may() {
    let devices: String = (0..20).map(|at| format!(" d{at}{{k{at}=v:NoExecute@0}}")).collect();
    let claims: String = (0..20)
        .map(|at| format!("claim c{at} device=d{at} for=p{at}:uid-p{at}; pod p{at} claim=c{at};"))
        .collect();
    let mut world = World::new(Options::default());
    world.hear(Input::Guards(&[Arc::new(guard(above(0), Approvers::Anyone))]));
    world.apply(&format!("slice worker{devices}"));
    world.apply(&claims);
    world.run_until(5_000);
    assert!(world.evicted_at.is_empty());
    assert_eq!(world.held_taints.len(), TaintHold::LISTED_MAX);
}
