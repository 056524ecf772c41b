//! Taints of devices that a pod's claims hold.

use std::sync::Arc;

use lazaret_model::{Breaker, BreakerStatus, BreakerUnit, DeviceSelector, DisruptionGuard, Pause, Share};
use lazaret_replacement::{Input, Spec};

use crate::{
    api::{Kind, at, option, spec},
    runner::Play,
};

#[test]
fn a_tainted_device_concerns_the_pod_that_holds_it_and_no_other() {
    let mut play = Play::with(3, 3);
    for node in ["n0", "n1", "n2"] {
        play.api.taint_device(node, "ecc", None);
    }
    play.api.add_set("gpu", Kind::ReplicaSet, 1, true);
    play.api.set_policy("p", Spec { device_options: vec![option("ecc", 10)], ..spec() });
    play.until(8);
    let pod = play.on("n0").into_iter().find(|pod| pod.key.name.starts_with("gpu")).unwrap();
    assert_eq!(play.on("n0").len(), 2, "the other one holds nothing");
    assert_eq!(play.lines("p"), [""; 0]);
    play.api.taint_device("n0", "ecc", Some(Some(at(8))));
    play.until(9);
    assert_eq!(play.lines("p"), ["n0 ecc DeviceTaintDetected"]);
    assert_eq!(play.status("p").pods[0].pod, pod.key.name);
    assert_eq!(play.status("p").pods[0].cause.place, "gpu.example.com/n0/gpu-0");
    play.until(18);
    assert_eq!(play.lines("p"), ["n0 ecc DeviceTaintReplacing"]);
    play.api.taint_device("n0", "ecc", None);
    play.until(19);
    assert_eq!(play.lines("p"), [""; 0], "the driver took it back");
    play.api.taint_device("n0", "ecc", Some(Some(at(19))));
    play.until(60);
    assert_eq!(play.done.len(), 2, "{:?}", play.done);
    assert_eq!(play.done[0], format!("39 release {}", pod.key.name));
}

/// Two nodes, a set of one pod that uses the device of its node, and a policy about taints of devices and of nodes.
fn guarded(guard: DisruptionGuard) -> (Play, String) {
    let mut play = Play::in_one_zone(2);
    for node in ["n0", "n1"] {
        play.api.taint_device(node, "ecc", None);
    }
    play.api.add_set("gpu", Kind::ReplicaSet, 1, true);
    let options = vec![option("ecc", 10)];
    play.api.set_policy("p", Spec { device_options: options.clone(), node_options: options, ..spec() });
    play.until(5);
    let pod = ["n0", "n1"].iter().find_map(|node| play.on(node).into_iter().next()).unwrap();
    play.machine.tell(Input::Guards(vec![Arc::new(guard)]));
    play.api.taint_device(pod.node.as_ref().unwrap(), "ecc", Some(Some(at(5))));
    play.until(60);
    (play, pod.node.as_ref().unwrap().to_string())
}

fn paused() -> DisruptionGuard {
    DisruptionGuard {
        name: "fleet".into(),
        uid: "u".into(),
        paused: Some(Pause { reason: "audit".into(), until: None }),
        ..DisruptionGuard::default()
    }
}

#[test]
fn a_paused_guard_keeps_a_pod_from_being_replaced_because_of_its_device() {
    let (mut play, _) = guarded(paused());
    assert_eq!(play.done, [""; 0]);
    let why = "DisruptionGuard fleet is paused: audit";
    assert_eq!(play.status("p").pods[0].message, why);
    let progressing = play.status("p").conditions[0].clone();
    assert_eq!(progressing.reason, "HeldByGuard");
    assert!(progressing.message.ends_with(why), "{}", progressing.message);
    play.machine.tell(Input::Guards(Vec::new()));
    play.until(70);
    assert!(play.done[0].contains("release"), "{:?}", play.done);
}

#[test]
fn a_guard_whose_pause_ends_lets_it_be_replaced_without_news() {
    let pause = Some(Pause { reason: "audit".into(), until: Some(at(90)) });
    let (mut play, _) = guarded(DisruptionGuard { paused: pause, ..paused() });
    assert_eq!(play.done, [""; 0]);
    play.until(100);
    assert!(play.done[0].starts_with("90 ") || play.done[0].starts_with("91 "), "{:?}", play.done);
}

#[test]
fn a_breaker_and_a_guard_that_is_not_understood_keep_it_too() {
    let breaker = Breaker {
        max_out_of_service: Share::Count(0),
        of: BreakerUnit::Devices,
        window_seconds: 0,
        reset_after_seconds: 60,
    };
    let tripped = DisruptionGuard {
        breaker: Some(breaker),
        paused: None,
        status: BreakerStatus { tripped: true, ..BreakerStatus::default() },
        ..paused()
    };
    let class = DeviceSelector { class: Some("gone".into()), ..DeviceSelector::default() };
    let unclear = DisruptionGuard { selector: Some(class), paused: None, ..paused() };
    for (guard, said) in [(tripped, "is tripped"), (unclear, "is not understood")] {
        let (play, _) = guarded(guard);
        assert_eq!(play.done, [""; 0]);
        let why = &play.status("p").pods[0].message;
        assert!(why.contains(said), "{why}");
    }
}

/// Guards are about devices.
#[test]
fn a_taint_of_the_node_replaces_a_pod_whatever_guards_say() {
    let (mut play, node) = guarded(paused());
    play.api.taint(&node, "ecc", Some(at(60)));
    play.until(120);
    assert!(!play.done.is_empty());
}
