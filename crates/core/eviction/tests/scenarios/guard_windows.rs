//! Windows of guards: outside of them nothing begins, whatever the taint.

use std::sync::Arc;

use lazaret_eviction::{Block, Input, Options, WakeReason, refusal_of};
use lazaret_fleet::Input as FleetInput;
use lazaret_model::{DeviceSelector, DisruptionGuard, Timestamp, Window, WindowStatus};

use crate::{objects, world::World};

/// Three pods, each on a device of its own.
const PODS: &str = "
    slice worker d0 d1 d2
    claim c0 device=d0 for=p0:uid-p0; claim c1 device=d1 for=p1:uid-p1; claim c2 device=d2 for=p2:uid-p2
    pod p0 claim=c0; pod p1 claim=c1; pod p2 claim=c2
";
const CLOSED: &str = "no window of DisruptionGuard nights is open";

fn windows(written: &[(&str, &str)]) -> Vec<Window> {
    written.iter().map(|(start, duration)| Window::parse(start, duration, "").unwrap()).collect()
}

/// A guard of this name with these windows.
fn guard(name: &str, written: &[(&str, &str)]) -> Arc<DisruptionGuard> {
    Arc::new(DisruptionGuard {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        generation: 1,
        windows: windows(written),
        ..DisruptionGuard::default()
    })
}

fn world(guards: &[Arc<DisruptionGuard>]) -> World {
    let mut world = World::new(Options::default());
    world.hear(Input::Guards(guards));
    world.apply(PODS);
    world
}

fn lines(world: &World, word: &str) -> Vec<String> {
    world.log.iter().filter(|line| line.split(' ').nth(1) == Some(word)).cloned().collect()
}

#[test]
fn nothing_begins_before_a_window_opens_and_everybody_says_so() {
    let mut world = world(&[guard("nights", &[("00:01", "30s"), ("00:05", "1m")])]);
    // One of a rule that says nothing, one of a rule that does, one of the driver.
    world.apply("rule r device=d0 taint=k=v:NoExecute@0; rule s device=d1 taint=k=v:NoExecute@0 mode=Evict");
    world.apply("slice worker gen=2 d0 d1 d2{bad:NoExecute@0}");
    world.run_until(30_000);
    assert!(world.evicted_at.is_empty());
    assert_eq!(world.machine.blocked()[Block::Window as usize], 3);
    assert_eq!(
        lines(&world, "blocked"),
        ["r", "s"].map(|rule| {
            let pod = if rule == "r" { "p0" } else { "p1" };
            format!("0s blocked {rule} True Window: Window: 1 pod not evicted (default/{pod}): {CLOSED}.")
        })
    );
    let wake = world.machine.next_wake().unwrap();
    assert_eq!((wake.at, wake.why), (Timestamp::from_secs(60), WakeReason::Blocked));
    world.run_until(400_000);
    assert!(world.evicted_at.iter().all(|(at, _)| *at == 60_000), "{:?}", world.evicted_at);
    assert_eq!(world.evicted_at.len(), 3);
    let said = |at: i64, status: WindowStatus| format!("{at}s guard nights window: {status:?}");
    let closed = |until| WindowStatus::ClosedUntil(Timestamp::from_secs(until));
    let tomorrow = 86_400 + 60;
    assert_eq!(
        lines(&world, "guard"),
        [
            said(0, closed(60)),
            said(60, WindowStatus::Open),
            said(90, closed(300)),
            said(300, WindowStatus::Open),
            said(360, closed(tomorrow)),
        ]
    );
}

#[test]
fn a_window_that_closes_holds_whoever_has_not_begun_and_what_has_begun_goes_on() {
    let mut world = world(&[guard("nights", &[("00:00", "10s")])]);
    world.apply("rule r driver=some-driver taint=k=v:NoExecute@0 concurrent=1");
    world.run_until(30_000);
    assert_eq!(world.evicted_at.len(), 1, "the others wait for the first to be gone");
    let first = format!("pod- {}", world.evicted_at[0].1);
    world.apply(&first);
    world.run_until(60_000);
    assert_eq!(world.evicted_at.len(), 1, "it is gone, and the window is closed");
    let day = 86_400_000;
    world.run_until(day - 1);
    assert_eq!(world.evicted_at.len(), 1);
    world.run_until(day);
    assert_eq!(world.evicted_at.len(), 2);
}

#[test]
fn a_rule_that_goes_is_cancelled_whatever_window_is_closed() {
    let mut world = world(&[guard("nights", &[("00:01", "30s")])]);
    world.apply("rule r driver=some-driver taint=k=v:NoExecute@0");
    world.run_until(10_000);
    assert_eq!(world.machine.blocked()[Block::Window as usize], 3);
    world.apply("rule- r");
    world.run_until(20_000);
    assert_eq!((world.machine.blocked(), world.machine.pending_len()), ([0; Block::ALL.len()], 0));
}

/// Of several guards each must permit it; one is about the devices that it selects.
#[test]
fn the_strictest_of_several_guards_wins() {
    let all = guard("nights", &[("00:01", "5m")]);
    let selector = DeviceSelector { device: Some("d1".into()), ..DeviceSelector::default() };
    let one = guard("later", &[("00:04", "5m")]);
    let one = Arc::new(DisruptionGuard { selector: Some(selector), ..DisruptionGuard::clone(&one) });
    let mut world = world(&[all, one]);
    world.apply("rule r driver=some-driver taint=k=v:NoExecute@0");
    world.run_until(1_000_000);
    let mut evicted = world.evicted_at.clone();
    evicted.sort();
    let expected = [(60_000, "p0"), (60_000, "p2"), (240_000, "p1")];
    assert_eq!(evicted, expected.map(|(at, pod)| (at, pod.to_owned())));
}

/// The windows of a rule and of a guard must both be open.
#[test]
fn a_rule_s_window_does_not_open_a_guard_s() {
    let mut world = world(&[guard("nights", &[("00:02", "10m")])]);
    world.apply("rule r device=d1 taint=k=v:NoExecute@0 window=00:01/30s window=00:05/1m");
    world.run_until(1_000_000);
    assert_eq!(world.evicted_at, [(300_000, "p1".to_owned())]);
}

#[test]
fn windows_that_are_changed_count_at_once_and_the_status_goes_with_them() {
    let mut world = world(&[guard("nights", &[("00:10", "1m")])]);
    world.apply("rule r device=d1 taint=k=v:NoExecute@0");
    world.run_until(5_000);
    let known = DisruptionGuard {
        window_status: Some(WindowStatus::ClosedUntil(Timestamp::from_secs(600))),
        ..DisruptionGuard::clone(&guard("nights", &[("00:10", "1m")]))
    };
    world.hear(Input::Guards(&[Arc::new(DisruptionGuard { windows: Vec::new(), ..known.clone() })]));
    world.run_until(6_000);
    assert_eq!(world.evicted_at, [(5_000, "p1".to_owned())]);
    world.hear(Input::Guards(&[Arc::new(DisruptionGuard { windows: windows(&[("00:00", "1h")]), ..known })]));
    world.run_until(7_000);
    assert_eq!(lines(&world, "guard").last().unwrap(), "6s guard nights window: Open");
}

/// Where Kubernetes evicts, a rule is refused while no window is open.
#[test]
fn a_plain_rule_is_refused_outside_a_window_and_says_what_to_do() {
    let mut world = world(&[]);
    let FleetInput::Rule(rule) = objects::parse("rule r driver=some-driver taint=k=v:NoExecute@0") else {
        panic!("no rule")
    };
    let guards = [guard("nights", &[("00:01", "1m")])];
    let said = refusal_of(&mut world.fleet, Timestamp::from_secs(0), &guards, &rule).unwrap();
    assert_eq!(said.why, Block::Window);
    let text = said.to_string();
    let wanted = "no window of DisruptionGuard nights is open; Kubernetes would evict 3 pods in 1 namespace without \
                  asking the guard: wait for the next window, or use the effect NoSchedule, or ";
    assert!(text.starts_with(wanted), "{text}");
    assert_eq!(refusal_of(&mut world.fleet, Timestamp::from_secs(60), &guards, &rule), None);
}
