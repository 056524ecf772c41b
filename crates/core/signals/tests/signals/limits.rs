//! Limits of guards, counted over the fleet.

use lazaret_lifecycle::{HeldReason, Limit, Selected};
use lazaret_model::{
    Breaker, BreakerStatus, BreakerUnit, DeviceId, DisruptionGuard, Effect, Pause, Share, Taint, Unit, Window,
};
use lazaret_signals::GuardLimits;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

fn guarded(guard: DisruptionGuard) -> GuardLimits {
    let mut limits = GuardLimits::default();
    limits.set(vec![Arc::new(DisruptionGuard { name: "fleet".into(), uid: "u".into(), ..guard })]);
    limits
}

/// A breaker that permits one device, and counts what was out of service within a minute.
fn breaker() -> GuardLimits {
    let breaker = Breaker {
        max_out_of_service: Share::Count(1),
        of: BreakerUnit::Devices,
        window_seconds: 60,
        reset_after_seconds: 0,
    };
    guarded(DisruptionGuard { breaker: Some(breaker), ..DisruptionGuard::default() })
}

/// These devices, of which the first has a taint or not.
fn publish(fleet: &mut Fleet, is_ill: bool, devices: &[&str]) {
    let mut slice = ResourceSlice::clone(&slice("a", (1, 1), devices));
    let taint = Taint { key: "ill".into(), effect: Effect::NoSchedule, ..Taint::default() };
    slice.devices[0].taints.extend(is_ill.then_some(taint));
    fleet.apply(Told::Slice(Arc::new(slice)));
}

fn ill() -> Unit {
    Unit::Device(DeviceId::new(DRIVER, NODE, "gpu-0"))
}

#[test]
fn a_device_that_was_out_of_service_counts_for_the_breaker_s_window() {
    let (mut limits, mut fleet) = (breaker(), Fleet::default());
    publish(&mut fleet, true, &["gpu-0", "gpu-1"]);
    assert_eq!(limits.count(at(0), &fleet, false).unwrap()[0].out, [ill()].into());
    publish(&mut fleet, false, &["gpu-0", "gpu-1"]);
    let counted = limits.count(at(100), &fleet, true).unwrap();
    assert_eq!((&counted[0].out, counted[0].window_seconds), (&[ill()].into(), 60), "it is back since now");
    assert_eq!(limits.wake(&fleet), Some(at(160)));
    assert_eq!(limits.count(at(159), &fleet, true), None);
    assert_eq!(limits.count(at(160), &fleet, true).unwrap()[0].out, [].into());
}

/// Another process led while the device was out of service, and was killed; it is back now.
#[test]
fn a_new_leader_takes_over_what_was_out_of_service_from_the_status_of_a_guard() {
    let breaker = Breaker {
        max_out_of_service: Share::Count(1),
        of: BreakerUnit::Devices,
        window_seconds: 60,
        reset_after_seconds: 0,
    };
    let status = BreakerStatus { out_of_service: 1, total: 2, ..BreakerStatus::default() };
    let mut limits =
        guarded(DisruptionGuard { breaker: Some(breaker), status, ..DisruptionGuard::default() });
    let mut fleet = Fleet::default();
    // The follower has not seen all slices yet.
    assert!(limits.count(at(90), &fleet, false).is_some());
    publish(&mut fleet, false, &["gpu-0", "gpu-1"]);
    limits.begin();
    assert_eq!(limits.count(at(100), &fleet, true).unwrap()[0].unnamed, 1);
    assert_eq!(limits.wake(&fleet), Some(at(160)));
    assert_eq!(limits.count(at(160), &fleet, false).unwrap()[0].unnamed, 0);
}

#[test]
fn a_device_that_was_out_of_service_and_is_gone_does_not_count() {
    let (mut limits, mut fleet) = (breaker(), Fleet::default());
    publish(&mut fleet, true, &["gpu-0", "gpu-1"]);
    assert_eq!(limits.count(at(0), &fleet, false).unwrap()[0].out.len(), 1);
    publish(&mut fleet, false, &["gpu-1"]);
    let counted = limits.count(at(1), &fleet, true).unwrap();
    assert_eq!((counted[0].out.len(), counted[0].total), (0, 1));
}

/// A pause has no end and no breaker counts: what its guard selects changes all the same.
#[test]
fn a_device_that_comes_after_a_pause_is_paused_too() {
    let cel = vec![format!("device.driver == '{DRIVER}'").into()];
    let selector = Some(DeviceSelector { cel, ..DeviceSelector::default() });
    let paused = Some(Pause { reason: "audit".into(), until: None });
    let mut limits = guarded(DisruptionGuard { selector, paused, ..DisruptionGuard::default() });
    let mut fleet = Fleet::default();
    publish(&mut fleet, false, &["gpu-0"]);
    let selected = |limits: Vec<Limit>| match limits.into_iter().next().unwrap().selects {
        Selected::Devices(devices) => devices.len(),
        selects => panic!("{selects:?}"),
    };
    assert_eq!(limits.count(at(0), &fleet, false).map(selected), Some(1));
    publish(&mut fleet, false, &["gpu-0", "gpu-1"]);
    assert_eq!(limits.count(at(1), &fleet, false).map(selected), Some(2));
    assert_eq!(limits.count(at(2), &fleet, false), None, "nothing has changed");
}

#[test]
fn a_clock_that_is_set_back_does_not_keep_limits_as_they_were() {
    let (mut limits, mut fleet) = (breaker(), Fleet::default());
    publish(&mut fleet, true, &["gpu-0", "gpu-1"]);
    assert_eq!(limits.count(at(10_000), &fleet, false).unwrap()[0].total, 2);
    publish(&mut fleet, true, &["gpu-0"]);
    assert_eq!(limits.count(at(0), &fleet, false).unwrap()[0].total, 1);
}

#[test]
fn nothing_begins_outside_a_window_and_it_is_looked_at_when_one_opens_or_closes() {
    let window = Window { weekday: None, minute: 10, seconds: 300, offset_seconds: 0, zone: None };
    let mut limits = guarded(DisruptionGuard { windows: vec![window], ..DisruptionGuard::default() });
    let fleet = Fleet::default();
    let stops = |limits: &mut GuardLimits, now| limits.count(now, &fleet, true).unwrap()[0].stops.clone();
    let closed = Some((HeldReason::Window, Text::from("no window of DisruptionGuard fleet is open")));
    assert_eq!((stops(&mut limits, at(0)), limits.wake(&fleet)), (closed.clone(), Some(at(600))));
    assert_eq!((stops(&mut limits, at(600)), limits.wake(&fleet)), (None, Some(at(900))));
    assert_eq!((stops(&mut limits, at(900)), limits.wake(&fleet)), (closed, Some(at(86_400 + 600))));
}

/// A guard that is not understood limits everything that it may be about: an expression that does not compile, a class that is not there, an
/// expression that fails on a device.
#[test]
fn a_guard_that_is_not_understood_permits_nothing_on_devices_that_it_may_be_about() {
    let mut fleet = Fleet::default();
    publish(&mut fleet, false, &["gpu-0"]);
    let cel = |text: &str| DeviceSelector { cel: vec![text.into()], ..DeviceSelector::default() };
    let class = DeviceSelector { class: Some("gone".into()), ..DeviceSelector::default() };
    let fails = cel(&format!("device.attributes['{DRIVER}'].model == 'H200'"));
    for selector in [cel("no CEL"), class, fails] {
        let mut limits =
            guarded(DisruptionGuard { selector: Some(selector.clone()), ..DisruptionGuard::default() });
        let limits = limits.count(at(0), &fleet, true).unwrap();
        let stopped = limits.iter().find(|limit| limit.stops.is_some()).unwrap();
        let (reason, message) = stopped.stops.clone().unwrap();
        assert_eq!(reason, HeldReason::Paused);
        assert!(message.starts_with("DisruptionGuard fleet is not understood: "), "{message}");
        let device = DeviceId::new(DRIVER, NODE, "gpu-0");
        let is_about = match &stopped.selects {
            Selected::Names(selector) => selector.names_match(&device),
            Selected::Devices(devices) => devices.contains(&device),
            Selected::All | Selected::Units(_) => false,
        };
        assert!(is_about, "{selector:?}");
    }
}
