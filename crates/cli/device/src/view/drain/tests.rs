//! Drains, second by second.

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

fn pod(name: &str, devices: &[usize]) -> PodSeen {
    PodSeen {
        key: ObjectKey::new("ns", name),
        uid: name.into(),
        owner: Some("job".into()),
        node: Some("node-2".into()),
        runs: true,
        pending: None,
        ends: false,
        stays: false,
        devices: devices.to_vec(),
    }
}

fn paced(pace: &str) -> Manner {
    Manner { grace_ms: 0, pace: Some(Pace::parse(pace).unwrap()) }
}

fn orders(drain: &mut Drain, now: Timestamp) -> Vec<Order> {
    std::iter::from_fn(|| drain.poll_order(now)).collect()
}

fn events(drain: &mut Drain) -> Vec<String> {
    std::iter::from_fn(|| drain.poll_event())
        .map(|event| match event {
            DrainEvent::Ends(pod) => format!("{pod} ends"),
            DrainEvent::Left { pod, after } => format!("{pod} left after {after}"),
            DrainEvent::Replaced { pod, by, node } => format!("{by} on {node} for {pod}"),
        })
        .collect()
}

#[test]
fn all_devices_are_closed_before_any_is_emptied() {
    let mut drain = Drain::new(2, Manner { grace_ms: 30_000, pace: None }, at(0));
    drain.observe(at(0), &[pod("a", &[0]), pod("b", &[1])]);
    assert_eq!(orders(&mut drain, at(0)), [Order::Close(0), Order::Close(1)]);
    assert_eq!(drain.wake_at(), Some(at(30)));
    assert_eq!(orders(&mut drain, at(29)), []);
    assert_eq!(orders(&mut drain, at(30)), [Order::Empty(0), Order::Empty(1)]);
    assert!(!drain.is_done());
    drain.observe(at(40), &[]);
    assert_eq!(events(&mut drain), ["ns/a left after 40s", "ns/b left after 40s"]);
    assert!(drain.is_done());
}

#[test]
fn a_pace_moves_devices_one_after_the_other() {
    let mut drain = Drain::new(3, paced("1"), at(0));
    drain.observe(at(0), &[pod("a", &[0]), pod("b", &[0]), pod("c", &[1]), pod("d", &[2])]);
    let start = orders(&mut drain, at(0));
    assert_eq!(start, [Order::Close(0), Order::Close(1), Order::Close(2), Order::Empty(0)]);
    assert_eq!(drain.wake_at(), Some(at(2)));
    assert_eq!(orders(&mut drain, at(1)), []);
    assert_eq!(orders(&mut drain, at(2)), [Order::Empty(1)]);
    assert_eq!(orders(&mut drain, at(3)), [Order::Empty(2)]);
    assert_eq!(drain.wake_at(), None);
}

#[test]
fn a_fraction_of_a_pod_a_second_is_a_pace_and_a_pod_on_two_devices_counts_once() {
    let mut drain = Drain::new(3, paced("0.5"), at(0));
    drain.observe(at(0), &[pod("a", &[0, 1]), pod("b", &[1]), pod("c", &[2])]);
    let empties = |drain: &mut Drain, now| {
        orders(drain, at(now)).iter().filter(|o| matches!(o, Order::Empty(_))).count()
    };
    assert_eq!([0, 1, 2, 3, 4].map(|now| empties(&mut drain, now)), [1, 0, 1, 0, 1]);
}

/// Whatever pods are where and however often the clock is looked at, no window has more pods told to go than the pace permits.
#[test]
fn a_drain_never_exceeds_its_pace() {
    let mut seed = 7_u64;
    let mut next = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..200 {
        let devices = usize::try_from(1 + next(6)).unwrap();
        let pace = Pace::parse(&format!("{}.{:03}", next(4), 1 + next(999))).unwrap();
        let mut drain = Drain::new(devices, Manner { grace_ms: 0, pace: Some(pace) }, at(0));
        let pods: Vec<PodSeen> = (0..next(8))
            .map(|number| pod(&format!("p{number}"), &[usize::try_from(next(6)).unwrap() % devices]))
            .collect();
        drain.observe(at(0), &pods);
        let (mut now, mut due) = (at(0), at(0));
        while drain.closed() < devices || drain.wake_at().is_some() {
            for order in orders(&mut drain, now) {
                let Order::Empty(place) = order else { continue };
                assert!(now >= due, "a device was emptied before the pods ahead of it had their time");
                let leaving = pods.iter().filter(|pod| pod.devices.contains(&place)).count();
                due = now.plus_millis(pace.millis_of(leaving));
            }
            now = now.plus_millis(i64::try_from(1 + next(900)).unwrap());
        }
    }
}

#[test]
fn pods_are_told_of_once_and_only_new_ones_replace_them() {
    let mut drain = Drain::new(1, Manner::default(), at(0));
    drain.observe(at(0), &[pod("a", &[0]), pod("old", &[])]);
    let ending = PodSeen { ends: true, ..pod("a", &[0]) };
    drain.observe(at(1), &[ending.clone(), pod("old", &[])]);
    drain.observe(at(2), &[ending, pod("old", &[])]);
    assert_eq!(events(&mut drain), ["ns/a ends"]);
    let reason = "0/2 nodes are available";
    let starting = PodSeen { runs: false, pending: Some(reason.into()), ..pod("new", &[]) };
    drain.observe(at(3), &[pod("old", &[]), starting]);
    assert_eq!(events(&mut drain), ["ns/a left after 3s"]);
    assert_eq!(drain.unreplaced(), 1);
    assert_eq!(drain.pending(), [Waiting { pod: "ns/new".into(), reason: reason.into() }]);
    drain.observe(at(4), &[pod("old", &[]), pod("new", &[])]);
    drain.observe(at(5), &[pod("old", &[]), pod("new", &[]), pod("newer", &[])]);
    assert_eq!(events(&mut drain), ["ns/new on node-2 for ns/a"]);
    assert_eq!((drain.left().len(), drain.replaced().len(), drain.unreplaced()), (1, 1, 0));
    assert_eq!(drain.pending(), []);
}

#[test]
fn stopping_lets_pods_be_that_are_still_there() {
    let mut drain = Drain::new(3, Manner::default(), at(0));
    let stays = PodSeen { stays: true, ..pod("s", &[2]) };
    drain.observe(at(0), &[pod("a", &[0]), stays.clone()]);
    orders(&mut drain, at(0));
    assert_eq!(drain.stop(), [Order::Relax(0)]);
    assert_eq!(drain.waiting(), [&ObjectKey::new("ns", "a")]);
    drain.observe(at(1), &[stays]);
    assert!(drain.is_done());
    assert_eq!(drain.staying(), [&ObjectKey::new("ns", "s")]);
}
