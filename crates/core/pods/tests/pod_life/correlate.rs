//! Events: counted when they are the same, one when they are alike, and rare when there are many.

use std::collections::BTreeSet;

use lazaret_pods::{Correlator, EventText, Written};

fn said(uid: &str, message: &str) -> EventText {
    EventText {
        uid: uid.into(),
        field: Some("spec.containers{c}".into()),
        is_warning: true,
        reason: "Unhealthy".into(),
        message: message.into(),
    }
}

#[test]
fn the_same_event_is_counted_and_after_a_burst_rarely() {
    let mut correlator = Correlator::default();
    let mut counts = Vec::new();
    // A probe that fails each second for an hour.
    for second in 0..3_600 {
        let written = correlator.correlate(second * 1_000, said("a", "no answer"));
        counts.extend(written.map(|written| (written.stamp, written.count, written.message)));
    }
    let first = counts[0].0;
    assert!(counts.iter().all(|(stamp, _, message)| *stamp == first && message == "no answer"));
    assert_eq!(
        counts[..25].iter().map(|(_, count, _)| *count).collect::<Vec<_>>(),
        (1..=25).collect::<Vec<_>>()
    );
    // One more every 5 minutes, and each says how often it was said in all.
    assert_eq!(
        counts[25..].iter().map(|(_, count, _)| *count).collect::<Vec<_>>(),
        (1..12).map(|n| n * 300 + 1).collect::<Vec<_>>()
    );
}

#[test]
fn messages_that_all_differ_become_one_event() {
    let mut correlator = Correlator::default();
    let correlate = |correlator: &mut Correlator, number: u64| {
        correlator.correlate(number * 400_000, said("a", &format!("attempt {number}"))).unwrap()
    };
    let all: Vec<Written> = (0..20).map(|number| correlate(&mut correlator, number)).collect();
    let stamps: BTreeSet<u64> = all.iter().map(|written| written.stamp).collect();
    assert_eq!(stamps.len(), 10, "nine of their own, and one for the rest");
    assert_eq!((all[8].count, all[8].message.as_str()), (1, "attempt 8"));
    assert_eq!((all[19].count, all[19].message.as_str()), (11, "(combined from similar events): attempt 19"));
    // After ten minutes without such events they are written separately again.
    let later = correlator.correlate(20 * 400_000 + 600_000, said("a", "attempt 20")).unwrap();
    assert_eq!((later.count, later.message.as_str()), (1, "attempt 20"));
}

#[test]
fn objects_do_not_hinder_each_other_and_few_are_remembered() {
    let mut correlator = Correlator::default();
    for number in 0..40 {
        correlator.correlate(0, said("noisy", &format!("{number}")));
    }
    assert_eq!(correlator.correlate(0, said("noisy", "x")), None);
    let quiet = EventText { is_warning: false, ..said("noisy", "of another type") };
    assert!(correlator.correlate(0, quiet).is_some());
    let mut stamps = BTreeSet::new();
    for number in 0..5_000 {
        stamps.insert(correlator.correlate(0, said(&format!("pod-{number}"), "x")).unwrap().stamp);
    }
    assert_eq!(stamps.len(), 5_000, "no two events have one name");
    assert_eq!(correlator.remembered(), 3 * 4_096);
}

/// The scheduler binds a pod, and its node fails to mount a volume, within one millisecond: two writers, and two events.
#[test]
fn two_writers_of_one_millisecond_do_not_take_each_other_s_names() {
    let (mut scheduler, mut node) = (Correlator::default(), Correlator::default());
    let scheduled = EventText { is_warning: false, reason: "Scheduled".into(), ..said("a", "to node-1") };
    let failed = EventText { reason: "FailedMount".into(), ..said("a", "no such image") };
    let at = 1_800_000_000_000;
    let one = scheduler.correlate(at, scheduled).unwrap().stamp;
    let other = node.correlate(at, failed).unwrap().stamp;
    assert_ne!(one, other, "the second one would be refused, and later change the first");
    assert_eq!((one / 1_000_000, other / 1_000_000), (at, at), "names still tell when it was");
}
