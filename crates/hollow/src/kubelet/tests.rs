//! Kubelets in virtual time.

use lazaret_model::{ClaimSource, Consumer, Pod, PodClaim, PodPhase};

use super::*;
use crate::pod::{Container, RestartPolicy, Script, SeenPod};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_000_000 + millis)
}

/// Nodes that are all there and ready.
fn kubelet(nodes: usize) -> Kubelet {
    let options = HollowOptions { nodes, lease_interval_ms: 10_000, ..HollowOptions::default() };
    let mut kubelet = Kubelet::new(Arc::new(options));
    for name in kubelet.numbers.keys().cloned().collect::<Vec<_>>() {
        kubelet.hear_node(crate::SeenNode { name, ready: true, ..crate::SeenNode::default() });
    }
    kubelet
}

fn pod(name: &str, script: Script, restart_policy: RestartPolicy) -> SeenPod {
    let pod = Pod {
        key: ObjectKey::new("default", name),
        uid: format!("uid of {name}").into(),
        node: Some("node-1".into()),
        ..Pod::default()
    };
    SeenPod {
        pod: Arc::new(pod),
        script,
        containers: vec![Container { name: "main".into(), image: "none".into() }],
        init_containers: Vec::new(),
        restart_policy,
        host_network: false,
        grace_ms: 30_000,
        generation: 1,
        start_time: None,
        address: None,
        restarts: 0,
        is_unready: false,
    }
}

/// Does everything at once until `end`; tells when something other than a lease was done.
fn play(kubelet: &mut Kubelet, start: i64, end: i64) -> Vec<(i64, String)> {
    let (mut now, mut done) = (start, Vec::new());
    loop {
        kubelet.think(at(now));
        while let Some((id, effect)) = kubelet.poll() {
            if let Effect::Calls(calls) = &effect {
                let methods: Vec<&str> = calls
                    .iter()
                    .map(|call| if format!("{call:?}").contains("DELETE") { "delete" } else { "write" })
                    .collect();
                done.push((now - start, methods.join("+")));
            }
            kubelet.acknowledge(at(now), id, Outcome::Done);
            kubelet.think(at(now));
        }
        match kubelet.wake() {
            Some(wake) if wake <= at(end) => now = wake.as_millis() - at(0).as_millis(),
            Some(_) | None => return done,
        }
    }
}

fn times(done: &[(i64, String)]) -> Vec<i64> {
    done.iter().map(|(at, _)| *at).collect()
}

#[test]
fn renewals_come_as_a_trickle() {
    let mut kubelet = kubelet(10);
    kubelet.lead(at(0), true);
    let mut leases = Vec::new();
    for now in (0..30_000).step_by(500) {
        kubelet.think(at(now));
        while let Some((id, effect)) = kubelet.poll() {
            assert!(matches!(effect, Effect::Lease { .. }));
            leases.push(now);
            kubelet.acknowledge(at(now), id, Outcome::Done);
            kubelet.think(at(now));
        }
    }
    assert_eq!(leases, (0..30_000).step_by(1_000).collect::<Vec<_>>());
}

#[test]
fn a_pod_that_keeps_exiting_is_started_again_after_longer_and_longer_pauses() {
    let mut kubelet = kubelet(1);
    kubelet.lead(at(0), true);
    let script = Script { run_for_ms: Some(1_000), exit_code: 1, stop_after_ms: 0 };
    kubelet.hear_pod(at(0), pod("p", script, RestartPolicy::OnFailure));
    let done = play(&mut kubelet, 0, 80_000);
    assert_eq!(times(&done), [0, 1_000, 12_000, 33_000, 74_000]);
}

#[test]
fn a_pod_without_its_claim_is_complained_about_once_and_starts_when_it_has_it() {
    let mut kubelet = kubelet(1);
    kubelet.lead(at(0), true);
    let mut waiting = pod("p", Script::default(), RestartPolicy::Always);
    let entry = PodClaim { name: "gpu".into(), source: ClaimSource::Claim("c".into()) };
    let claims = vec![entry];
    waiting.pod = Arc::new(Pod { claims, ..(*waiting.pod).clone() });
    let uid = waiting.pod.uid.clone();
    kubelet.hear_pod(at(0), waiting);
    assert_eq!(times(&play(&mut kubelet, 0, 60_000)), [5_000]);
    let mut claim = ResourceClaim { key: ObjectKey::new("default", "c"), ..ResourceClaim::default() };
    kubelet.hear_claim(Arc::new(claim.clone()));
    claim.allocation = Some(Arc::default());
    kubelet.hear_claim(Arc::new(claim.clone()));
    assert!(play(&mut kubelet, 60_000, 60_001).is_empty());
    claim.reserved_for = vec![Consumer { uid, ..Consumer::default() }];
    kubelet.hear_claim(Arc::new(claim));
    assert_eq!(play(&mut kubelet, 60_002, 60_003).len(), 1);
}

#[test]
fn a_deleted_pod_stops_within_its_grace() {
    // Without grace the server removes it; its node does so later, if need be.
    for (stop_after, grace, gone_at) in
        [(0, 30_000, 0), (500, 30_000, 500), (60_000, 2_000, 2_000), (0, 0, 1_000), (500, 0, 1_000)]
    {
        let mut kubelet = kubelet(1);
        kubelet.lead(at(0), true);
        let script = Script { stop_after_ms: stop_after, ..Script::default() };
        let mut seen = pod("p", script, RestartPolicy::Always);
        kubelet.hear_pod(at(0), seen.clone());
        play(&mut kubelet, 0, 1);
        seen.pod = Arc::new(Pod {
            deleting_since: Some(at(10)),
            phase: lazaret_model::PodPhase::Running,
            ..(*seen.pod).clone()
        });
        seen.grace_ms = grace;
        kubelet.hear_pod(at(10), seen.clone());
        let done = play(&mut kubelet, 10, 20_000);
        assert_eq!(done, [(gone_at, "write+delete".to_owned())]);
        kubelet.miss_pod(&seen.pod.key, &seen.pod.uid);
        assert_eq!((kubelet.pods(), kubelet.nodes[0].addresses), (0, [0; 2]));
    }
}

#[test]
fn failures_are_tried_again_and_the_past_is_taken_over() {
    let mut kubelet = kubelet(1);
    kubelet.lead(at(0), true);
    let mut seen = pod("p", Script::default(), RestartPolicy::Never);
    seen.pod = Arc::new(Pod { phase: lazaret_model::PodPhase::Running, ..(*seen.pod).clone() });
    seen.start_time = Some(at(-5_000));
    seen.address = Some("10.0.0.9".into());
    kubelet.hear_pod(at(0), seen);
    kubelet.think(at(0));
    // The lease, and the end that is overdue.
    let ids: Vec<u64> = std::iter::from_fn(|| kubelet.poll()).map(|(id, _)| id).collect();
    assert_eq!(ids.len(), 2);
    ids.iter().for_each(|id| kubelet.acknowledge(at(0), *id, Outcome::RetryLater));
    kubelet.think(at(50));
    assert!(kubelet.poll().is_none());
    kubelet.think(at(100));
    assert_eq!(std::iter::from_fn(|| kubelet.poll()).count(), 2);
    assert_eq!(kubelet.nodes[0].take_address(), 2);
}

/// A claim with `gpu-0` of `node-1`, reserved for a pod.
fn allocated(name: &str, pod: &str) -> Arc<ResourceClaim> {
    let result = lazaret_model::DeviceResult {
        request: "r".into(),
        device: lazaret_model::DeviceId { driver: "d".into(), pool: "node-1".into(), device: "gpu-0".into() },
        admin_access: false,
        tolerations: Vec::new(),
        binding_conditions: Vec::new(),
        binding_failure_conditions: Vec::new(),
        share_id: None,
        consumed_capacity: Vec::new(),
        skip_node_operations: Vec::new(),
    };
    Arc::new(ResourceClaim {
        key: ObjectKey::new("default", name),
        uid: format!("uid of {name}").into(),
        allocation: Some(Arc::new(lazaret_model::Allocation { results: vec![result], ..Default::default() })),
        reserved_for: vec![Consumer { uid: format!("uid of {pod}").into(), ..Consumer::default() }],
        ..ResourceClaim::default()
    })
}

fn with_claim(name: &str, claim: &str) -> SeenPod {
    let mut seen = pod(name, Script::default(), RestartPolicy::Always);
    let entry = PodClaim { name: "gpu".into(), source: ClaimSource::Claim(claim.into()) };
    seen.pod = Arc::new(Pod { claims: vec![entry], ..Pod::clone(&seen.pod) });
    seen
}

fn slow_node(after_ms: Option<i64>, awaiting: &[&str], unprepared: &[&str]) -> crate::SeenNode {
    let uids = |names: &[&str]| names.iter().map(|name| format!("uid of {name}").into()).collect();
    crate::SeenNode {
        name: "node-1".into(),
        ready: true,
        reports: true,
        unprepare_after_ms: after_ms,
        awaiting: uids(awaiting),
        unprepared: uids(unprepared),
        ..crate::SeenNode::default()
    }
}

#[test]
fn a_device_is_never_prepared_for_two_claims() {
    let mut kubelet = kubelet(1);
    kubelet.hear_node(slow_node(Some(20_000), &[], &[]));
    kubelet.lead(at(0), true);
    kubelet.hear_claim(allocated("first", "a"));
    kubelet.hear_claim(allocated("second", "b"));
    kubelet.hear_pod(at(0), with_claim("a", "first"));
    assert_eq!(play(&mut kubelet, 0, 1_000), [(0, "write".to_owned())]);
    // Removed by force, and given to another claim by somebody who did not wait.
    kubelet.miss_pod(&ObjectKey::new("default", "a"), &"uid of a".into());
    kubelet.hear_pod(at(1_000), with_claim("b", "second"));
    let done = play(&mut kubelet, 1_000, 40_000);
    // A complaint after 5 s, and the start when the driver has unprepared.
    assert_eq!(times(&done), [5_000, 20_000], "{done:?}");
}

#[test]
fn a_node_answers_when_it_has_unprepared_and_at_once_for_what_it_never_prepared() {
    let mut kubelet = kubelet(1);
    kubelet.hear_node(slow_node(Some(20_000), &[], &[]));
    kubelet.lead(at(0), true);
    kubelet.hear_claim(allocated("first", "a"));
    kubelet.hear_pod(at(0), with_claim("a", "first"));
    play(&mut kubelet, 0, 1_000);
    kubelet.hear_node(slow_node(Some(20_000), &["never"], &[]));
    assert_eq!(times(&play(&mut kubelet, 1_000, 1_500)), [0]);
    kubelet.hear_node(slow_node(Some(20_000), &["never"], &["never"]));
    assert_eq!(times(&play(&mut kubelet, 1_500, 2_000)), [0; 0]);
    kubelet.miss_pod(&ObjectKey::new("default", "a"), &"uid of a".into());
    kubelet.hear_node(slow_node(Some(20_000), &["first"], &[]));
    assert_eq!(times(&play(&mut kubelet, 2_000, 15_000)), [0; 0]);
    assert_eq!(times(&play(&mut kubelet, 15_000, 40_000)), [7_000]);
}

#[test]
fn a_pod_reaches_its_end_only_after_its_devices_are_unprepared() {
    let mut kubelet = kubelet(1);
    kubelet.hear_node(slow_node(Some(20_000), &[], &[]));
    kubelet.lead(at(0), true);
    kubelet.hear_claim(allocated("first", "a"));
    kubelet.hear_pod(at(0), with_claim("a", "first"));
    play(&mut kubelet, 0, 1_000);
    let mut deleted = with_claim("a", "first");
    deleted.pod = Arc::new(Pod { deleting_since: Some(at(1_000)), ..Pod::clone(&deleted.pod) });
    kubelet.hear_pod(at(1_000), deleted);
    assert_eq!(play(&mut kubelet, 1_000, 10_000), []);
    // A driver that is faster again is not waited for.
    kubelet.hear_node(slow_node(None, &[], &[]));
    assert_eq!(play(&mut kubelet, 10_000, 11_000), [(0, "write+delete".to_owned())]);
}

/// The node controller marks pods of a node that it does not hear from, and takes that back for none of them.
#[test]
fn a_pod_that_was_marked_unready_is_ready_again() {
    let mut kubelet = kubelet(1);
    kubelet.lead(at(0), true);
    let seen = pod("a", Script::default(), RestartPolicy::Always);
    kubelet.hear_pod(at(0), seen.clone());
    assert_eq!(times(&play(&mut kubelet, 0, 1_000)), [0], "it starts");
    let status = |is_unready| {
        let pod = Pod { phase: PodPhase::Running, ..(*seen.pod).clone() };
        SeenPod { pod: Arc::new(pod), is_unready, ..seen.clone() }
    };
    kubelet.hear_pod(at(1_000), status(false));
    assert_eq!(play(&mut kubelet, 1_000, 2_000), []);
    kubelet.hear_pod(at(2_000), status(true));
    assert_eq!(times(&play(&mut kubelet, 2_000, 20_000)), [0]);
    // Marked over and over: no write for each mark.
    for now in 3..20 {
        kubelet.hear_pod(at(now * 1_000), status(true));
        assert_eq!(play(&mut kubelet, now * 1_000, now * 1_000 + 999), [], "{now}");
    }
    assert_eq!(times(&play(&mut kubelet, 20_000, 40_000)).len(), 1);
    kubelet.hear_pod(at(41_000), status(false));
    assert_eq!(play(&mut kubelet, 41_000, 200_000), []);
}
