//! Guards that are not understood: nothing begins on the devices that they may be about, by whichever door.

use std::sync::Arc;

use lazaret_eviction::{Block, Input, Options, refusal_of};
use lazaret_fleet::Input as FleetInput;
use lazaret_model::{ConfirmAbove, DeviceSelector, DisruptionGuard, Pause, Timestamp};

use crate::{objects, world::World};

/// Three pods, each on a device of its own; one device says its model.
const PODS: &str = "
    slice worker d0[model=big] d1 d2
    claim c0 device=d0 for=p0:uid-p0; claim c1 device=d1 for=p1:uid-p1; claim c2 device=d2 for=p2:uid-p2
    pod p0 claim=c0; pod p1 claim=c1; pod p2 claim=c2
";
/// One of a rule, one of a rule that says how pods leave, one of the driver.
const TAINTS: &str = "
    rule r device=d0 taint=k=v:NoExecute@0; rule s device=d1 taint=k=v:NoExecute@0 mode=Evict
    slice worker gen=2 d0[model=big] d1 d2{bad:NoExecute@0}
";
/// It fails on devices that do not say their model.
const FAILS: &str = r#"device.attributes["some-driver"].model == "small""#;

fn guard(selector: DeviceSelector) -> DisruptionGuard {
    DisruptionGuard {
        name: "fleet".into(),
        uid: "uid-fleet".into(),
        generation: 3,
        selector: Some(selector),
        ..DisruptionGuard::default()
    }
}

fn cel(expression: &str) -> DeviceSelector {
    DeviceSelector { cel: vec![expression.into()], ..DeviceSelector::default() }
}

fn class(name: &str) -> DeviceSelector {
    DeviceSelector { class: Some(name.into()), ..DeviceSelector::default() }
}

/// The same guard, paused or with a limit of approval: neither says anything about the devices that it does not select.
fn forms(selector: &DeviceSelector) -> [DisruptionGuard; 2] {
    let paused = Some(Pause { reason: "freeze".into(), until: None });
    let confirm_above = Some(ConfirmAbove { pods: Some(100), ..ConfirmAbove::default() });
    [
        DisruptionGuard { paused, ..guard(selector.clone()) },
        DisruptionGuard { confirm_above, ..guard(selector.clone()) },
    ]
}

fn world(guard: DisruptionGuard) -> World {
    let mut world = World::new(Options::default());
    world.hear(Input::Guards(&[Arc::new(guard)]));
    world.apply(PODS);
    world
}

fn evicted(world: &World) -> Vec<&str> {
    let mut pods: Vec<&str> = world.evicted_at.iter().map(|(_, pod)| pod.as_str()).collect();
    pods.sort_unstable();
    pods
}

#[test]
fn a_guard_that_does_not_compile_or_has_no_class_lets_nothing_begin() {
    for selector in [cel("this is no CEL"), class("gone")] {
        for guard in forms(&selector) {
            let mut world = world(guard);
            world.apply(TAINTS);
            world.run_until(60_000);
            assert_eq!(evicted(&world), [""; 0], "{selector:?}");
            assert_eq!(world.machine.blocked()[Block::Paused as usize], 3, "{selector:?}");
            let why = world.machine.what_blocks("r").unwrap();
            assert!(why.contains("DisruptionGuard fleet is not understood: "), "{why}");
        }
    }
}

#[test]
fn a_class_that_comes_makes_the_guard_understood_and_one_that_goes_takes_it_away() {
    let [_, confirms] = forms(&class("big"));
    let mut world = world(confirms);
    world.apply("rule r device=d0 taint=k=v:NoExecute@0");
    world.run_until(10_000);
    assert_eq!(evicted(&world), [""; 0]);
    world.apply("class big cel=device.driver==\"some-driver\"");
    world.run_until(20_000);
    assert_eq!(evicted(&world), ["p0"], "the guard is understood, and permits one pod");
    world.apply("class- big; rule s device=d1 taint=k=v:NoExecute@0");
    world.run_until(30_000);
    assert_eq!(evicted(&world), ["p0"], "the class is gone, and the guard keeps everything");
}

#[test]
fn devices_on_which_an_expression_fails_are_kept_and_others_are_not() {
    for guard in forms(&cel(FAILS)) {
        let mut world = world(guard);
        world.apply(TAINTS);
        world.run_until(60_000);
        assert_eq!(evicted(&world), ["p0"], "its model is not small; of the others nobody knows");
        world.apply("slice worker gen=3 d0[model=big] d1[model=big] d2{bad:NoExecute@0}");
        world.run_until(120_000);
        assert_eq!(evicted(&world), ["p0", "p1"], "the driver says the model of d1 now");
    }
}

/// All parts of a selector must hold: of other names the guard certainly does not speak.
#[test]
fn a_guard_that_is_not_understood_keeps_what_its_names_leave_open() {
    let selector = DeviceSelector { device: Some("d1".into()), ..cel("no CEL") };
    let [paused, _] = forms(&selector);
    let mut world = world(paused);
    world.apply(TAINTS);
    world.run_until(60_000);
    assert_eq!(evicted(&world), ["p0", "p2"]);
}

#[test]
fn its_status_says_why_and_what_it_selects() {
    for (selector, devices, problem) in [
        (cel("no CEL"), 0, true),
        (cel(r#"device.driver == "some-driver""#), 3, false),
        (DeviceSelector { device: Some("d1".into()), ..DeviceSelector::default() }, 1, false),
    ] {
        let [paused, _] = forms(&selector);
        let mut world = world(paused);
        world.run_until(5_000);
        let preview = world.previews.last().unwrap();
        assert_eq!((preview.generation, preview.devices, preview.problem.is_some()), (3, devices, problem));
    }
}

#[test]
fn a_plain_rule_is_refused_and_says_what_to_correct() {
    let mut world = world(guard(DeviceSelector::default()));
    let FleetInput::Rule(rule) = objects::parse("rule r driver=some-driver taint=k=v:NoExecute@0") else {
        panic!("no rule")
    };
    let [_, confirms] = forms(&cel("no CEL"));
    let said = refusal_of(&mut world.fleet, Timestamp::from_secs(0), &[Arc::new(confirms)], &rule).unwrap();
    let text = said.to_string();
    assert!(text.contains("is not understood: selector #0: "), "{text}");
    assert!(text.contains("correct the deviceSelector of DisruptionGuard fleet"), "{text}");
}
