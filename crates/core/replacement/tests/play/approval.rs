//! Guards that want approval: a taint that reaches further than they permit replaces no pod before it is approved, by a driver, a patch or a rule.

use std::sync::Arc;

use lazaret_fleet::Input as FleetInput;
use lazaret_model::{
    Approval, Approvers, ConfirmAbove, DevicePatch, DeviceSelector, DeviceTaintRule, DisruptionGuard, Effect,
    Impact, ResourceSlicePatch, Review, Taint, TaintApproval, TaintHold, TaintedBy,
};
use lazaret_replacement::{Input, Spec};

use crate::{
    api::{Kind, at, option, spec},
    runner::Play,
};

const SEEN: Impact = Impact { pods: 1, namespaces: 1, devices: 1 };

fn guard(approvers: Approvers) -> DisruptionGuard {
    DisruptionGuard {
        name: "fleet".into(),
        uid: "u".into(),
        confirm_above: Some(ConfirmAbove { pods: Some(0), ..ConfirmAbove::default() }),
        approvers,
        ..DisruptionGuard::default()
    }
}

/// A node with a device, a pod that uses it, and a policy about taints of devices.
fn play(guard: &DisruptionGuard) -> Play {
    let mut play = Play::in_one_zone(1);
    play.api.devices_evict = true;
    play.api.taint_device("n0", "none", None);
    play.api.add_set("gpu", Kind::ReplicaSet, 1, true);
    play.api.set_policy("p", Spec { device_options: vec![option("ecc", 10)], ..spec() });
    play.until(5);
    play.machine.tell(Input::Guards(vec![Arc::new(guard.clone())]));
    play
}

fn apply(play: &mut Play, input: FleetInput) {
    play.fleet.apply(input);
    let changes = play.fleet.take_changes();
    play.machine.tell_devices(&play.fleet, &changes);
}

fn message(play: &Play) -> String {
    play.status("p").pods[0].message.to_string()
}

fn selector() -> Option<DeviceSelector> {
    Some(DeviceSelector { driver: Some("gpu.example.com".into()), ..DeviceSelector::default() })
}

fn ecc() -> Taint {
    Taint { key: "ecc".into(), effect: Effect::NoExecute, time_added: Some(at(5)), ..Taint::default() }
}

#[test]
fn a_drivers_taint_above_the_limit_replaces_no_pod_until_another_approves_it() {
    let different = guard(Approvers::Different);
    let mut play = play(&different);
    play.api.taint_device("n0", "ecc", Some(Some(at(5))));
    play.until(60);
    assert_eq!(play.done, [""; 0]);
    let command = "kubectl device approve --driver gpu.example.com --taint ecc:NoExecute";
    assert_eq!(
        message(&play),
        format!(
            "taint ecc:NoExecute of driver gpu.example.com: 1 pod in 1 namespace on 1 device; DisruptionGuard fleet wants approval above 0 pods; {command}"
        )
    );
    assert_eq!(play.status("p").conditions[0].reason, "HeldByGuard");
    let taint = TaintedBy::Driver { driver: "gpu.example.com".into(), key: "ecc".into(), value: "".into() };
    let held = TaintHold {
        taint: taint.clone(),
        since: at(6),
        impact: SEEN,
        reason: "ApprovalRequired".into(),
        message: "".into(),
    };
    let approved = |since, by: &str| DisruptionGuard {
        held: vec![held.clone()],
        approvals: vec![TaintApproval { taint: taint.clone(), since, seen: SEEN, by: Some(by.into()) }],
        ..different.clone()
    };
    for (refused, until) in [(approved(at(6), "system:node:n0"), 70), (approved(at(5), "bob"), 80)] {
        play.machine.tell(Input::Guards(vec![Arc::new(refused)]));
        play.until(until);
        assert_eq!(play.done, [""; 0]);
    }
    play.machine.tell(Input::Guards(vec![Arc::new(approved(at(6), "bob"))]));
    play.until(90);
    assert!(play.done[0].contains("release"), "{:?}", play.done);
}

#[test]
fn a_patch_above_the_limit_replaces_no_pod_until_another_approves_it() {
    let mut play = play(&guard(Approvers::Different));
    let patch = |by: Option<&str>| {
        let approval = by.map(|by| Approval {
            uid: "uid-fix".into(),
            generation: 1,
            seen: SEEN,
            by: Some(by.into()),
            ..Approval::default()
        });
        let review = Review { written_by: Some("alice".into()), approval, ..Review::default() };
        FleetInput::Patch(Arc::new(ResourceSlicePatch {
            name: "fix".into(),
            uid: "uid-fix".into(),
            generation: 1,
            selector: selector(),
            patch: DevicePatch { taints: vec![ecc()], ..DevicePatch::default() },
            review: Some(Box::new(review)),
        }))
    };
    for (by, until) in [(None, 60), (Some("alice"), 70)] {
        apply(&mut play, patch(by));
        play.until(until);
        assert_eq!(play.done, [""; 0]);
    }
    assert!(message(&play).contains("another user than alice has to run kubectl device approve fix"));
    apply(&mut play, patch(Some("bob")));
    play.until(80);
    assert!(play.done[0].contains("release"), "{:?}", play.done);
}

/// A rule of an API server that knows no authors taints at once: its status may say later that it is held.
#[test]
fn a_rule_above_the_limit_replaces_no_pod_before_its_status_says_that_it_is_held() {
    let mut play = play(&guard(Approvers::Anyone));
    let rule = DeviceTaintRule {
        name: "r".into(),
        uid: "uid-r".into(),
        generation: 1,
        selector: selector(),
        taint: ecc(),
        ..DeviceTaintRule::default()
    };
    apply(&mut play, FleetInput::Rule(Arc::new(rule.clone())));
    play.until(60);
    assert_eq!(play.done, [""; 0]);
    assert!(message(&play).ends_with("wants approval above 0 pods; kubectl device approve r"));
    let approval =
        Approval { uid: "uid-r".into(), generation: 1, seen: SEEN, by: None, ..Approval::default() };
    let review = Review { approval: Some(approval), ..Review::default() };
    apply(&mut play, FleetInput::Rule(Arc::new(DeviceTaintRule { review: Some(Box::new(review)), ..rule })));
    play.until(70);
    assert!(play.done[0].contains("release"), "{:?}", play.done);
}

#[test]
fn a_second_taint_that_is_not_held_is_reason_enough() {
    let mut play = play(&guard(Approvers::Anyone));
    play.api.taint_device("n0", "ecc", Some(Some(at(5))));
    play.until(60);
    assert_eq!(play.done, [""; 0]);
    play.api.devices_evict = false;
    play.api.taint_device("n0", "ecc", Some(Some(at(5))));
    play.until(70);
    assert!(play.done[0].contains("release"), "a taint of effect NoSchedule is never held: {:?}", play.done);
}
