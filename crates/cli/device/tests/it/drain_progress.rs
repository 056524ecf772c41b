//! The progress that a drain reports.

use std::collections::BTreeSet;

use lazaret_device::view::{Drain, Manner, PodSeen};
use lazaret_model::{ObjectKey, Timestamp};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

fn pod(number: usize) -> PodSeen {
    PodSeen {
        key: ObjectKey::new("ns", format!("p{number}").as_str()),
        uid: format!("p{number}").into(),
        owner: None,
        node: Some("node-1".into()),
        runs: true,
        pending: None,
        ends: false,
        stays: false,
        devices: vec![number % 2],
    }
}

/// Pods that ended by themselves in the grace period are gone, and do not count in the rate of evictions.
#[test]
fn progress_is_true_in_the_grace_period_and_after_it() {
    let mut drain = Drain::new(2, Manner { grace_ms: 60_000, pace: None }, at(0));
    let pods: Vec<PodSeen> = (0..10).map(pod).collect();
    let none = BTreeSet::new();
    drain.observe(at(0), &pods);
    while drain.poll_order(at(0)).is_some() {}
    drain.observe(at(30), &pods[4..]);
    assert_eq!(
        drain.progress(at(30), 0, &none, Some(at(150))),
        "30s elapsed: grace period: pods are evicted in 30s, 2 of 2 devices still in use, 4 of 10 pods gone, about 2m left"
    );
    let held = BTreeSet::from(["blocked (Held): why; how it ends".to_owned()]);
    assert!(
        drain
            .progress(at(30), 0, &held, None)
            .ends_with("4 of 10 pods gone, blocked (Held): why; how it ends")
    );
    while drain.poll_order(at(60)).is_some() {}
    drain.observe(at(61), &pods[4..]);
    assert_eq!(
        drain.progress(at(61), 0, &none, Some(at(150))),
        "61s elapsed: 2 of 2 devices being emptied, 4 of 10 pods gone, about 89s left"
    );
    drain.observe(at(70), &pods[6..]);
    assert_eq!(
        drain.progress(at(70), 0, &none, Some(at(150))),
        "70s elapsed: 2 of 2 devices being emptied, 6 of 10 pods gone, 0.2 a second, about 20s left"
    );
}
