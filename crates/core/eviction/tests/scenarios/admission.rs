//! Whether a rule may be made where Kubernetes evicts for it: the same guards, the same counts, before it is there.

use std::sync::Arc;

use lazaret_eviction::{Block, Options, Refusal, refusal_of};
use lazaret_fleet::Input as FleetInput;
use lazaret_model::{
    Breaker, BreakerStatus, BreakerUnit, ConfirmAbove, DeviceSelector, DisruptionGuard, Pause, Share,
    Timestamp,
};

use crate::{objects, world::World};

/// Four devices; the pods of d0 to d2 run, and that of d2 tolerates everything.
const PODS: &str = "
    slice worker d0 d1 d2 d3
    claim c0 device=d0 for=p0:uid-p0; claim c1 device=d1 for=p1:uid-p1
    claim c2 device=d2 for=p2:uid-p2 tolerate=k,Exists,NoExecute,-
    pod p0 claim=c0; pod p1 claim=c1; pod p2 claim=c2
";

fn guard(guard: DisruptionGuard) -> Arc<DisruptionGuard> {
    Arc::new(DisruptionGuard { name: "fleet".into(), uid: "uid-fleet".into(), ..guard })
}

fn paused(until: Option<i64>) -> Arc<DisruptionGuard> {
    let until = until.map(Timestamp::from_secs);
    guard(DisruptionGuard {
        paused: Some(Pause { reason: "freeze".into(), until }),
        ..DisruptionGuard::default()
    })
}

fn breaker(most: u64) -> Arc<DisruptionGuard> {
    let breaker = Breaker {
        max_out_of_service: Share::Count(most),
        of: BreakerUnit::Devices,
        window_seconds: 0,
        reset_after_seconds: 300,
    };
    guard(DisruptionGuard { breaker: Some(breaker), ..DisruptionGuard::default() })
}

fn asked(world: &mut World, guards: &[Arc<DisruptionGuard>], rule: &str) -> Option<Refusal> {
    let FleetInput::Rule(rule) = objects::parse(rule) else { panic!("{rule} is no rule") };
    let now = world.at();
    let said = refusal_of(&mut world.fleet, now, guards, &rule);
    let _ = world.fleet.take_changes();
    said
}

fn world() -> World {
    let mut world = World::new(Options::default());
    world.apply(PODS);
    world
}

const ALL: &str = "rule r driver=some-driver taint=k=v:NoExecute@0";

#[test]
fn a_pause_refuses_rules_that_evict_and_says_what_to_do() {
    let mut world = world();
    let said = asked(&mut world, &[paused(None)], ALL).unwrap();
    assert_eq!((said.why, said.pods, said.namespaces), (Block::Paused, 2, 1));
    assert_eq!(
        said.to_string(),
        "DisruptionGuard fleet is paused: freeze; Kubernetes would evict 2 pods in 1 namespace without asking the guard: run \
         `kubectl device resume fleet`, or use the effect NoSchedule, or a DeviceTaintPolicy, whose evictions wait for the guard"
    );
    for (rule, why) in [
        ("rule r driver=some-driver taint=k=v:NoSchedule@0", "it evicts nobody"),
        ("rule r device=d3 taint=k=v:NoExecute@0", "nobody uses the device"),
        ("rule r device=d2 taint=k=v:NoExecute@0", "the pod tolerates it for ever"),
        ("rule r driver=other taint=k=v:NoExecute@0", "no such device"),
    ] {
        assert_eq!(asked(&mut world, &[paused(None)], rule), None, "{why}");
    }
    assert_eq!(asked(&mut world, &[], ALL), None, "there is no guard");
    world.now = 31_000;
    assert_eq!(asked(&mut world, &[paused(Some(30))], ALL), None, "the pause has ended");
}

#[test]
fn a_toleration_that_ends_does_not_help() {
    let mut world = world();
    world.apply("claim c1 device=d1 for=p1:uid-p1 tolerate=k,Exists,NoExecute,60");
    let said = asked(&mut world, &[paused(None)], "rule r device=d1 taint=k=v:NoExecute@0");
    assert_eq!(said.map(|said| said.pods), Some(1));
}

#[test]
fn a_guard_is_asked_about_the_devices_that_pods_would_leave() {
    let mut world = world();
    let of = |device: &str| {
        let selector = DeviceSelector { device: Some(device.into()), ..DeviceSelector::default() };
        Arc::new(DisruptionGuard { selector: Some(selector), ..DisruptionGuard::clone(&paused(None)) })
    };
    assert!(asked(&mut world, &[of("d1")], ALL).is_some());
    assert_eq!(asked(&mut world, &[of("d2"), of("d3")], ALL), None, "nobody leaves these");
    assert_eq!(asked(&mut world, &[of("d1")], "rule r device=d0 taint=k=v:NoExecute@0"), None);
}

#[test]
fn a_breaker_refuses_the_rule_that_would_trip_it() {
    let mut world = world();
    assert_eq!(asked(&mut world, &[breaker(4)], ALL), None);
    let said = asked(&mut world, &[breaker(3)], ALL).unwrap();
    assert_eq!((said.why, said.is_tripped), (Block::Breaker, false));
    let text = said.to_string();
    assert!(
        text.starts_with(
            "with this rule DisruptionGuard fleet is tripped: 4 of 4 devices out of service, 3 permitted; "
        ) && text.contains(": select fewer devices, or use"),
        "{text}"
    );
    // Devices that are out of service already count.
    world.apply("rule s device=d3 taint=k=v:NoSchedule@0");
    let one = "rule r device=d0 taint=k=v:NoExecute@0";
    assert_eq!(asked(&mut world, &[breaker(2)], one), None);
    assert!(asked(&mut world, &[breaker(1)], one).is_some());
    // It is tripped, and has not been below for long enough.
    let tripped = BreakerStatus { tripped: true, ..BreakerStatus::default() };
    let tripped = Arc::new(DisruptionGuard { status: tripped, ..DisruptionGuard::clone(&breaker(4)) });
    let said = asked(&mut world, &[tripped], one).unwrap();
    assert!(
        said.to_string().contains(": run `kubectl device guard reset fleet --reason TEXT`, or use"),
        "{said}"
    );
}

/// Kubernetes waits for no approval: a rule that would be held is refused.
#[test]
fn a_guard_that_wants_approval_refuses_the_rule_that_reaches_further() {
    let mut world = world();
    let above = |pods| {
        let confirm_above = Some(ConfirmAbove { pods: Some(pods), ..ConfirmAbove::default() });
        guard(DisruptionGuard { confirm_above, ..DisruptionGuard::default() })
    };
    assert_eq!(asked(&mut world, &[above(2)], ALL), None);
    let said = asked(&mut world, &[above(1)], ALL).unwrap();
    assert_eq!((said.why, said.pods), (Block::Held, 2));
    assert_eq!(
        said.to_string(),
        "DisruptionGuard fleet wants approval above 1 pods, and a rule of Kubernetes takes effect without; Kubernetes would evict 2 pods in \
         1 namespace without asking the guard: select fewer devices, or use the effect NoSchedule, or a DeviceTaintPolicy, whose evictions \
         wait for the guard"
    );
    assert_eq!(
        asked(&mut world, &[above(0)], "rule r device=d3 taint=k=v:NoExecute@0"),
        None,
        "no pod leaves"
    );
}

#[test]
fn the_fleet_is_as_before() {
    let mut world = world();
    let taints = |world: &World| {
        let all = DeviceSelector::default();
        let selection = world.fleet.selection_of(&all);
        let of = |device: lazaret_fleet::DeviceRef<'_>| (device.id(), device.taints().count());
        selection.published().map(of).collect::<Vec<_>>()
    };
    let before = taints(&world);
    asked(&mut world, &[paused(None)], ALL);
    assert_eq!(taints(&world), before);
    assert!(world.fleet.rule("r").is_none());
    // A rule that is there, and is asked about in another form.
    world.apply("rule r device=d0 taint=k=v:NoSchedule@0");
    let before = taints(&world);
    assert!(asked(&mut world, &[paused(None)], ALL).is_some());
    assert_eq!(taints(&world), before);
    assert_eq!(world.fleet.rule("r").unwrap().rule.selector.as_ref().unwrap().device.as_deref(), Some("d0"));
}

/// A rule is refused beforehand exactly if the machine would have blocked its evictions afterwards.
#[test]
fn guards_say_the_same_before_and_after_the_rule_is_there() {
    let rules = [
        ALL,
        "rule r device=d0 taint=k=v:NoExecute@0",
        "rule r device=d1 taint=k=v:NoExecute@0",
        "rule r device=d2 taint=k=v:NoExecute@0",
        "rule r device=d3 taint=k=v:NoExecute@0",
    ];
    let by_name = |device: &str, guard: &DisruptionGuard| {
        let selector = DeviceSelector { device: Some(device.into()), ..DeviceSelector::default() };
        Arc::new(DisruptionGuard { selector: Some(selector), ..guard.clone() })
    };
    let mut guards = vec![paused(None), breaker(0), breaker(1), breaker(3), breaker(4)];
    for device in ["d0", "d2", "d3"] {
        guards.extend([by_name(device, &paused(None)), by_name(device, &breaker(0))]);
    }
    let mut refused = 0;
    for guard in &guards {
        for rule in rules {
            let mut world = world();
            let before = asked(&mut world, std::slice::from_ref(guard), rule);
            world.hear(lazaret_eviction::Input::Guards(std::slice::from_ref(guard)));
            world.apply(rule);
            world.work();
            let kept: u64 = world.machine.blocked().iter().sum();
            assert_eq!(before.is_some(), kept > 0, "{rule} with {guard:?}");
            refused += usize::from(before.is_some());
        }
    }
    assert!(0 < refused && refused < guards.len() * rules.len());
}
