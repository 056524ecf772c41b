//! Each wait has an end, and names what the guards themselves say.

use alloc::{string::ToString as _, vec::Vec};

use lazaret_model::{Breaker, BreakerStatus, BreakerUnit, DisruptionGuard, Pause, Share, Stop};

use super::*;

fn guard() -> DisruptionGuard {
    let breaker = Breaker {
        max_out_of_service: Share::Count(1),
        of: BreakerUnit::Devices,
        window_seconds: 0,
        reset_after_seconds: 0,
    };
    DisruptionGuard {
        name: "fleet".into(),
        paused: Some(Pause { reason: "storm".into(), until: None }),
        breaker: Some(breaker),
        ..DisruptionGuard::default()
    }
}

/// The words of guards are read back: a change of them is seen here.
#[test]
fn a_message_of_a_guard_leads_to_its_end() {
    let ends = [
        (Stop::NotUnderstood, "correct the deviceSelector of DisruptionGuard fleet"),
        (Stop::Paused, "kubectl device resume fleet"),
        (Stop::Breaker, "kubectl device guard reset fleet --reason TEXT"),
    ];
    for (stop, ends) in ends {
        let message = guard().stop_message(stop, &BreakerStatus::default(), "no such class");
        let reason = Block::from(stop).name();
        let of_pod = wait(&Facts::Eviction { reason, message: &message });
        assert_eq!((of_pod.ends.as_str(), of_pod.end.needs_person()), (ends, true), "{stop:?}");
        let facts =
            IncidentFacts { waits_for: &message, held: Some(("fleet", reason)), ..Default::default() };
        assert_eq!(wait(&Facts::Incident(facts)).ends, ends, "{stop:?}");
    }
    let closed = guard().stop_message(Stop::Window, &BreakerStatus::default(), "");
    let of_pod = wait(&Facts::Eviction { reason: "Window", message: &closed });
    assert_eq!((of_pod.end, of_pod.end.needs_person()), (End::WindowOpens, false));
}

#[test]
fn each_block_has_an_end_of_its_own() {
    let ends: Vec<End> = Block::ALL
        .iter()
        .map(|why| wait(&Facts::Eviction { reason: why.name(), message: "DisruptionGuard g" }).end)
        .collect();
    for (at, end) in ends.iter().enumerate() {
        assert!(*end != End::Unknown && !ends[..at].contains(end), "{end:?}");
    }
    assert_eq!(wait(&Facts::Eviction { reason: "Later", message: "" }).end, End::Unknown);
}

#[test]
fn a_breaker_that_would_be_too_full_is_not_reset() {
    let waits_for = "DisruptionGuard fleet: 3 of 10 devices out of service, 3 permitted";
    let facts = IncidentFacts { waits_for, held: Some(("fleet", "Breaker")), ..Default::default() };
    assert_eq!(wait(&Facts::Incident(facts)).end, End::FewerOut);
}

#[test]
fn a_condition_is_about_the_pods_that_it_names() {
    let both = "Paused: 2 pods not evicted (a/x, a/y): DisruptionGuard g is paused: storm. Budget: 1 pod not evicted (b/z): The budget needs 1.";
    let paused = "Paused: 2 pods not evicted (a/x, a/y): DisruptionGuard g is paused: storm.";
    assert_eq!(part_about("Paused", both, "a/y"), Some(("Paused", paused)));
    assert_eq!(
        part_about("Paused", both, "b/z"),
        Some(("Budget", "Budget: 1 pod not evicted (b/z): The budget needs 1."))
    );
    assert_eq!(part_about("Paused", both, "a/yy"), None);
    let many =
        "Window: 7 pods not evicted (a/1, a/2, a/3, a/4, a/5 and 2 more): no window of the rule is open.";
    for pod in ["a/5", "a/6"] {
        assert_eq!(part_about("Window", many, pod), Some(("Window", many)), "{pod}");
    }
    let held = "Held: 9 pods; DisruptionGuard g wants approval above 2 pods; kubectl device approve r.";
    assert_eq!(part_about("Held", held, "a/x").map(|(why, _)| why.to_string()), Some("Held".into()));
}
