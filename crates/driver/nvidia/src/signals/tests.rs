use super::*;
use lazaret_nvml::{RemappedRows, Slowdown};

const GPU: &str = "GPU-1";

fn names(signals: &Signals) -> Vec<String> {
    signals.conditions(GPU, "gpu-1").into_iter().map(|condition| condition.name).collect()
}

#[test]
fn an_xid_of_a_program_ends_by_itself_and_one_of_the_card_does_not() {
    let mut signals = Signals::default();
    signals.event(0, GPU, None, EventKind::Xid(31));
    signals.event(0, GPU, None, EventKind::Xid(79));
    assert_eq!(names(&signals), ["xid-application", "xid-fatal"]);
    signals.readings(QUIET_MS - 1, GPU, &Readings::default());
    assert_eq!(names(&signals), ["xid-application", "xid-fatal"]);
    signals.readings(QUIET_MS, GPU, &Readings::default());
    assert_eq!(names(&signals), ["xid-fatal"], "a card that answers is not mended by that");
    signals.reset(GPU);
    assert!(names(&signals).is_empty());
}

#[test]
fn a_restart_of_the_driver_clears_nothing_and_one_of_the_machine_does() {
    let mut signals = Signals::default().resumed("boot-1");
    signals.event(7, GPU, None, EventKind::Xid(48));
    signals.readings(8, GPU, &Readings { ecc_uncorrected: Some(2), ..Readings::default() });
    let kept = serde_json::to_string(&signals).unwrap();
    let again: Signals = serde_json::from_str(&kept).unwrap();
    let same = again.clone().resumed("boot-1");
    assert_eq!(names(&same), ["xid-fatal"], "what is read is read again");
    assert_eq!(same.of(GPU).next().map(|(_, _, signal)| signal.first_ms), Some(7));
    assert!(names(&again.resumed("boot-2")).is_empty());
}

#[test]
fn the_process_of_an_xid_is_found_whoever_speaks_first() {
    let process = Process { pid: 42, name: "oob".into() };
    for kernel_first in [true, false] {
        let mut signals = Signals::default();
        if kernel_first {
            signals.attribute_to_process(10, GPU, 31, process.clone());
        }
        signals.event(20, GPU, None, EventKind::Xid(31));
        if !kernel_first {
            signals.attribute_to_process(30, GPU, 31, process.clone());
        }
        let found = signals.of(GPU).next().and_then(|(_, _, signal)| signal.process.clone());
        assert_eq!(found, Some(process.clone()), "kernel first: {kernel_first}");
    }
    let mut signals = Signals::default();
    signals.attribute_to_process(0, GPU, 31, process);
    signals.event(BLAME_MS + 1, GPU, None, EventKind::Xid(31));
    assert_eq!(
        signals.of(GPU).next().and_then(|(_, _, signal)| signal.process.clone()),
        None,
        "too long ago"
    );
}

#[test]
fn figures_come_and_go_with_what_is_read() {
    let mut signals = Signals::default();
    let bad = Readings {
        ecc_uncorrected: Some(3),
        rows: Some(RemappedRows { pending: true, failed: true, ..RemappedRows::default() }),
        slowdown: Some(Slowdown { thermal: true, power_brake: true }),
        recovery: Some(RecoveryAction::Reset),
        fabric: Some(Fabric::InProgress),
        retirement_pending: Some(true),
        ..Readings::default()
    };
    signals.readings(0, GPU, &bad);
    let wanted = [
        "ecc",
        "fabric",
        "page-retirement",
        "power-brake",
        "recovery",
        "row-remap-failure",
        "row-remap-pending",
        "thermal",
    ];
    assert_eq!(names(&signals), wanted);
    let once = signals.clone();
    signals.readings(1, GPU, &bad);
    assert_eq!(signals, once, "the same again is nothing new");
    signals.readings(2, GPU, &Readings::default());
    assert!(names(&signals).is_empty());
}

#[test]
fn a_lost_card_is_back_when_it_answers_and_keeps_its_xid() {
    let mut signals = Signals::default();
    signals.event(0, GPU, None, EventKind::Xid(79));
    signals.lost(1, GPU, "the GPU has fallen off the bus");
    assert_eq!(names(&signals), ["lost", "xid-fatal"]);
    signals.readings(2, GPU, &Readings::default());
    assert_eq!(names(&signals), ["xid-fatal"]);
    assert_eq!(signals.acknowledge(GPU, Some("ecc")), 0);
    assert_eq!(signals.acknowledge(GPU, None), 1);
}

#[test]
fn a_link_that_was_lost_once_before_the_driver_came_is_no_news() {
    let mut signals = Signals::default();
    let at = |recoveries| Readings { nvlink_recoveries: Some(recoveries), ..Readings::default() };
    signals.readings(0, GPU, &at(5));
    assert!(names(&signals).is_empty());
    signals.readings(1, GPU, &at(6));
    assert_eq!(names(&signals), ["nvlink"]);
    signals.readings(1 + QUIET_MS, GPU, &at(6));
    assert!(names(&signals).is_empty());
}

#[test]
fn every_condition_that_can_be_raised_is_in_the_table() {
    let known: Vec<&str> = crate::CONDITIONS.iter().map(|(name, ..)| *name).collect();
    for name in UNTIL_RESET.iter().chain(UNTIL_QUIET) {
        assert!(known.contains(name), "{name}");
    }
    assert!(crate::table(&["xid-fatal".into()]).is_ok());
    let refused = crate::table(&["xid".into()]).unwrap_err().to_string();
    assert!(refused.contains("\"xid\" is no condition") && refused.contains("xid-fatal"), "{refused}");
}

#[test]
fn what_a_program_did_in_a_partition_stays_there_and_what_the_card_has_concerns_all() {
    let mut signals = Signals::default();
    let of = |signals: &Signals, device: &str| -> Vec<String> {
        signals
            .conditions(GPU, device)
            .into_iter()
            .map(|found| format!("{}={}", found.name, found.detail))
            .collect()
    };
    signals.event(0, GPU, Some("part-1"), EventKind::Xid(31));
    assert_eq!(of(&signals, "part-1"), ["xid-application=31"]);
    assert!(of(&signals, "part-2").is_empty() && of(&signals, "gpu-1").is_empty());
    signals.attribute_to_process(10, GPU, 31, Process { pid: 7, name: "oob".into() });
    let found: Vec<_> =
        signals.of(GPU).map(|(device, name, signal)| (device, name, signal.process.is_some())).collect();
    assert_eq!(found, [(Some("part-1"), "xid-application", true)]);
    // An error of the card's memory is not contained, wherever it was noticed.
    let before = signals.clone();
    signals.event(20, GPU, Some("part-1"), EventKind::Xid(48));
    for device in ["part-1", "part-2", "gpu-1"] {
        assert!(of(&signals, device).contains(&"xid-fatal=48".to_owned()), "{device}");
    }
    let news: Vec<_> = signals.news(&before).map(|(place, name, _)| (place, name)).collect();
    assert_eq!(news, [(GPU, "xid-fatal")]);
    assert_eq!(signals.news(&signals.clone()).count(), 0);
    // A GPU whose UUID begins alike is another.
    assert_eq!(signals.of("GPU-").count(), 0);
    signals.readings(QUIET_MS, GPU, &Readings::default());
    assert_eq!(of(&signals, "part-1"), ["xid-fatal=48"]);
    assert_eq!(signals.acknowledge(GPU, None), 1);
    signals.event(QUIET_MS, GPU, Some("part-1"), EventKind::Xid(31));
    signals.reset(GPU);
    assert!(of(&signals, "part-1").is_empty());
}
