//! Kubelets in virtual time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use lazaret_kubelet::{
    Container, EffectKind, Input, Options, RemovePod, RestartPolicy, Script, SeenCheckpoint, SeenNode,
    SeenPod,
};
use lazaret_machine::{EffectId, Machine as _, Outcome};
use lazaret_model::{ClaimSource, Consumer, ObjectKey, Pod, PodClaim, PodPhase, ResourceClaim, Timestamp};

const OPTIONS: Options = Options {
    lease_interval_ms: 10_000,
    job_run_ms: 1_000,
    in_flight_max: 32,
    leaves_taints: false,
    process: 1,
};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_000_000 + millis)
}

/// A machine whose Nodes keep the checkpoints that it writes, and which hears of that at once.
struct Kubelet {
    machine: lazaret_kubelet::Kubelet,
    nodes: std::collections::BTreeMap<usize, SeenNode>,
}

impl Kubelet {
    fn new(options: Options, names: impl IntoIterator<Item = lazaret_model::Text>) -> Self {
        Self { machine: lazaret_kubelet::Kubelet::new(options, names), nodes: Default::default() }
    }

    fn handle(&mut self, now: Timestamp, input: Input) {
        let mut input = input;
        if let Input::Node(seen) = &mut input {
            let number = self.machine.number(&seen.name).unwrap();
            if let Some(before) = self.nodes.get(&number) {
                seen.checkpoint = before.checkpoint.clone();
            }
            self.nodes.insert(number, seen.clone());
        }
        self.machine.handle(now, input);
    }

    /// A checkpoint is written and seen.
    fn save(&mut self, now: Timestamp, kind: &EffectKind) -> bool {
        let EffectKind::Save { node, checkpoint, .. } = kind else { return false };
        let seen = self.nodes.get_mut(node).unwrap();
        seen.checkpoint = SeenCheckpoint::Known((**checkpoint).clone());
        let seen = seen.clone();
        self.machine.handle(now, Input::Node(seen));
        true
    }
}

impl std::ops::Deref for Kubelet {
    type Target = lazaret_kubelet::Kubelet;

    fn deref(&self) -> &Self::Target {
        &self.machine
    }
}

impl std::ops::DerefMut for Kubelet {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.machine
    }
}

/// Nodes that are all there and ready, and lead.
fn kubelet(nodes: usize) -> Kubelet {
    let name = |number: usize| format!("node-{}", number + 1).into();
    let mut kubelet = Kubelet::new(OPTIONS, (0..nodes).map(name));
    for number in 0..nodes {
        let node = SeenNode { name: name(number), ready: true, ..SeenNode::default() };
        kubelet.handle(at(0), Input::Node(node));
    }
    kubelet.handle(at(0), Input::BecameLeader);
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

/// Does everything at once until `end`. Returns when something other than a lease was done.
fn play(kubelet: &mut Kubelet, start: i64, end: i64) -> Vec<(i64, String)> {
    let (mut now, mut done) = (start, Vec::new());
    loop {
        kubelet.handle(at(now), Input::Tick);
        while let Some(effect) = kubelet.poll_effect() {
            let requests = if let EffectKind::Remove(RemovePod { end, .. }) = &effect.kind {
                if end.is_some() { "write+delete" } else { "delete" }
            } else {
                "write"
            };
            let is_checkpoint = kubelet.save(at(now), &effect.kind);
            if !is_checkpoint && !matches!(effect.kind, EffectKind::RenewLease { .. }) {
                done.push((now - start, requests.to_owned()));
            }
            acknowledge(kubelet, now, effect.id, Outcome::Done);
        }
        match kubelet.next_wake() {
            Some(wake) if wake.at <= at(end) => now = wake.at.as_millis() - at(0).as_millis(),
            Some(_) | None => return done,
        }
    }
}

fn acknowledge(kubelet: &mut Kubelet, now: i64, effect: EffectId, outcome: Outcome) {
    kubelet.handle(at(now), Input::Acknowledged { effect, outcome });
}

fn times(done: &[(i64, String)]) -> Vec<i64> {
    done.iter().map(|(at, _)| *at).collect()
}

#[test]
fn renewals_come_as_a_trickle() {
    let mut kubelet = kubelet(10);
    let mut leases = Vec::new();
    for now in (0..30_000).step_by(500) {
        kubelet.handle(at(now), Input::Tick);
        while let Some(effect) = kubelet.poll_effect() {
            assert!(matches!(effect.kind, EffectKind::RenewLease { .. }));
            leases.push(now);
            acknowledge(&mut kubelet, now, effect.id, Outcome::Done);
        }
    }
    assert_eq!(leases, (0..30_000).step_by(1_000).collect::<Vec<_>>());
}

/// A server that is away for minutes finds the node alive soon after it is back: a node without a renewal for 40 s is taken for dead.
#[test]
fn a_lease_is_renewed_soon_after_an_outage() {
    let mut kubelet = kubelet(1);
    let (outage, mut renewed) = (300_000, None);
    for now in (0..outage + 40_000).step_by(100) {
        kubelet.handle(at(now), Input::Tick);
        while let Some(effect) = kubelet.poll_effect() {
            let outcome = if now < outage { Outcome::RetryLater } else { Outcome::Done };
            renewed = renewed.or((now >= outage).then_some(now));
            acknowledge(&mut kubelet, now, effect.id, outcome);
        }
    }
    assert!(renewed.is_some_and(|at| at < outage + 10_000), "{renewed:?}");
}

#[test]
fn a_pod_that_keeps_exiting_is_started_again_after_longer_and_longer_pauses() {
    let mut kubelet = kubelet(1);
    let script = Script { run_for_ms: Some(1_000), exit_code: 1, stop_after_ms: 0 };
    kubelet.handle(at(0), Input::Pod(Arc::new(pod("p", script, RestartPolicy::OnFailure))));
    let done = play(&mut kubelet, 0, 80_000);
    assert_eq!(times(&done), [0, 1_000, 12_000, 33_000, 74_000]);
}

#[test]
fn a_pod_without_its_claim_is_complained_about_once_and_starts_when_it_has_it() {
    let mut kubelet = kubelet(1);
    let mut waiting = pod("p", Script::default(), RestartPolicy::Always);
    let entry = PodClaim { name: "gpu".into(), source: ClaimSource::Claim("c".into()) };
    let claims = vec![entry];
    waiting.pod = Arc::new(Pod { claims, ..(*waiting.pod).clone() });
    let uid = waiting.pod.uid.clone();
    kubelet.handle(at(0), Input::Pod(Arc::new(waiting)));
    assert_eq!(times(&play(&mut kubelet, 0, 60_000)), [5_000]);
    let mut claim = ResourceClaim { key: ObjectKey::new("default", "c"), ..ResourceClaim::default() };
    kubelet.handle(at(0), Input::Claim(Arc::new(claim.clone())));
    claim.allocation = Some(Arc::default());
    kubelet.handle(at(0), Input::Claim(Arc::new(claim.clone())));
    assert!(play(&mut kubelet, 60_000, 60_001).is_empty());
    claim.reserved_for = vec![Consumer { uid, ..Consumer::default() }];
    kubelet.handle(at(0), Input::Claim(Arc::new(claim)));
    assert_eq!(play(&mut kubelet, 60_002, 60_003).len(), 1);
}

#[test]
fn a_deleted_pod_stops_within_its_grace() {
    // Without grace the server removes it; its node does so later, if need be.
    for (stop_after, grace, gone_at) in
        [(0, 30_000, 0), (500, 30_000, 500), (60_000, 2_000, 2_000), (0, 0, 1_000), (500, 0, 1_000)]
    {
        let mut kubelet = kubelet(1);
        let script = Script { stop_after_ms: stop_after, ..Script::default() };
        let mut seen = pod("p", script, RestartPolicy::Always);
        kubelet.handle(at(0), Input::Pod(Arc::new(seen.clone())));
        play(&mut kubelet, 0, 1);
        seen.pod =
            Arc::new(Pod { deleting_since: Some(at(10)), phase: PodPhase::Running, ..(*seen.pod).clone() });
        seen.grace_ms = grace;
        kubelet.handle(at(10), Input::Pod(Arc::new(seen.clone())));
        let done = play(&mut kubelet, 10, 20_000);
        assert_eq!(done, [(gone_at, "write+delete".to_owned())]);
        let gone = Input::PodGone { key: seen.pod.key.clone(), uid: seen.pod.uid.clone() };
        kubelet.handle(at(20_000), gone);
        assert_eq!(kubelet.pods(), 0);
        assert_eq!(address_of_next(&mut kubelet, 30_000), 2, "its address is free again");
    }
}

#[test]
fn failures_are_tried_again_and_the_past_is_taken_over() {
    let mut kubelet = kubelet(1);
    let mut seen = pod("p", Script::default(), RestartPolicy::Never);
    seen.pod = Arc::new(Pod { phase: PodPhase::Running, ..(*seen.pod).clone() });
    seen.start_time = Some(at(-5_000));
    seen.address = Some(2);
    kubelet.handle(at(0), Input::Pod(Arc::new(seen)));
    kubelet.handle(at(0), Input::Tick);
    // The lease, and the end that is overdue.
    let ids: Vec<EffectId> = std::iter::from_fn(|| kubelet.poll_effect()).map(|effect| effect.id).collect();
    assert_eq!(ids.len(), 2);
    ids.iter().for_each(|id| acknowledge(&mut kubelet, 0, *id, Outcome::RetryLater));
    kubelet.handle(at(50), Input::Tick);
    assert_eq!(kubelet.poll_effect(), None);
    kubelet.handle(at(100), Input::Tick);
    assert_eq!(std::iter::from_fn(|| kubelet.poll_effect()).count(), 2);
    assert_eq!(address_of_next(&mut kubelet, 200), 3, "number 2 is that of the pod that was taken over");
}

/// The number of the address that the next pod gets.
fn address_of_next(kubelet: &mut Kubelet, now: i64) -> u8 {
    let next = pod("next", Script::default(), RestartPolicy::Always);
    kubelet.handle(at(now), Input::Pod(Arc::new(next)));
    kubelet.handle(at(now), Input::Tick);
    let started = |kind| if let EffectKind::Start(start) = kind { start.address } else { None };
    std::iter::from_fn(|| kubelet.poll_effect()).find_map(|effect| started(effect.kind)).unwrap()
}

fn gone(name: &str) -> Input {
    Input::PodGone { key: ObjectKey::new("default", name), uid: format!("uid of {name}").into() }
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

fn slow_node(after_ms: Option<i64>, awaiting: &[&str], unprepared: &[&str]) -> SeenNode {
    let uids = |names: &[&str]| names.iter().map(|name| format!("uid of {name}").into()).collect();
    SeenNode {
        name: "node-1".into(),
        ready: true,
        reports: true,
        unprepare_after_ms: after_ms,
        awaiting: uids(awaiting),
        unprepared: uids(unprepared),
        ..SeenNode::default()
    }
}

#[test]
fn a_device_is_never_prepared_for_two_claims() {
    let mut kubelet = kubelet(1);
    kubelet.handle(at(0), Input::Node(slow_node(Some(20_000), &[], &[])));
    kubelet.handle(at(0), Input::Claim(allocated("first", "a")));
    kubelet.handle(at(0), Input::Claim(allocated("second", "b")));
    kubelet.handle(at(0), Input::Pod(Arc::new(with_claim("a", "first"))));
    assert_eq!(play(&mut kubelet, 0, 1_000), [(0, "write".to_owned())]);
    // Removed by force, and given to another claim by somebody who did not wait.
    kubelet.handle(at(0), gone("a"));
    kubelet.handle(at(1_000), Input::Pod(Arc::new(with_claim("b", "second"))));
    let done = play(&mut kubelet, 1_000, 40_000);
    // A complaint after 5 s, and the start when the driver has unprepared.
    assert_eq!(times(&done), [5_000, 20_000], "{done:?}");
}

#[test]
fn a_node_answers_when_it_has_unprepared_and_at_once_for_what_it_never_prepared() {
    let mut kubelet = kubelet(1);
    kubelet.handle(at(0), Input::Node(slow_node(Some(20_000), &[], &[])));
    kubelet.handle(at(0), Input::Claim(allocated("first", "a")));
    kubelet.handle(at(0), Input::Pod(Arc::new(with_claim("a", "first"))));
    play(&mut kubelet, 0, 1_000);
    kubelet.handle(at(0), Input::Node(slow_node(Some(20_000), &["never"], &[])));
    assert_eq!(times(&play(&mut kubelet, 1_000, 1_500)), [0]);
    kubelet.handle(at(0), Input::Node(slow_node(Some(20_000), &["never"], &["never"])));
    assert_eq!(times(&play(&mut kubelet, 1_500, 2_000)), [0; 0]);
    kubelet.handle(at(0), gone("a"));
    kubelet.handle(at(0), Input::Node(slow_node(Some(20_000), &["first"], &[])));
    assert_eq!(times(&play(&mut kubelet, 2_000, 15_000)), [0; 0]);
    assert_eq!(times(&play(&mut kubelet, 15_000, 40_000)), [7_000]);
}

#[test]
fn a_pod_reaches_its_end_only_after_its_devices_are_unprepared() {
    let mut kubelet = kubelet(1);
    kubelet.handle(at(0), Input::Node(slow_node(Some(20_000), &[], &[])));
    kubelet.handle(at(0), Input::Claim(allocated("first", "a")));
    kubelet.handle(at(0), Input::Pod(Arc::new(with_claim("a", "first"))));
    play(&mut kubelet, 0, 1_000);
    let mut deleted = with_claim("a", "first");
    deleted.pod = Arc::new(Pod { deleting_since: Some(at(1_000)), ..Pod::clone(&deleted.pod) });
    kubelet.handle(at(1_000), Input::Pod(Arc::new(deleted)));
    assert_eq!(play(&mut kubelet, 1_000, 10_000), []);
    // A driver that is faster again is not waited for.
    kubelet.handle(at(0), Input::Node(slow_node(None, &[], &[])));
    assert_eq!(play(&mut kubelet, 10_000, 11_000), [(0, "write+delete".to_owned())]);
}

/// The node controller marks pods of a node that it does not hear from, and takes that back for none of them.
#[test]
fn a_pod_that_was_marked_unready_is_ready_again() {
    let mut kubelet = kubelet(1);
    let seen = pod("a", Script::default(), RestartPolicy::Always);
    kubelet.handle(at(0), Input::Pod(Arc::new(seen.clone())));
    assert_eq!(times(&play(&mut kubelet, 0, 1_000)), [0], "it starts");
    let status = |is_unready| {
        let pod = Pod { phase: PodPhase::Running, ..(*seen.pod).clone() };
        SeenPod { pod: Arc::new(pod), is_unready, ..seen.clone() }
    };
    kubelet.handle(at(1_000), Input::Pod(Arc::new(status(false))));
    assert_eq!(play(&mut kubelet, 1_000, 2_000), []);
    kubelet.handle(at(2_000), Input::Pod(Arc::new(status(true))));
    assert_eq!(times(&play(&mut kubelet, 2_000, 20_000)), [0]);
    // Marked over and over: no write for each mark.
    for now in 3..20 {
        kubelet.handle(at(now * 1_000), Input::Pod(Arc::new(status(true))));
        assert_eq!(play(&mut kubelet, now * 1_000, now * 1_000 + 999), [], "{now}");
    }
    assert_eq!(times(&play(&mut kubelet, 20_000, 40_000)).len(), 1);
    kubelet.handle(at(41_000), Input::Pod(Arc::new(status(false))));
    assert_eq!(play(&mut kubelet, 41_000, 200_000), []);
}

/// The claim controller relies on the answer of a node until it has taken the claim off its list, and the node its answer back.
#[test]
fn a_claim_that_the_node_is_asked_about_is_not_prepared_anew() {
    let mut kubelet = kubelet(1);
    let node = |awaiting: &[&str], unprepared: &[&str]| Input::Node(slow_node(Some(0), awaiting, unprepared));
    kubelet.handle(at(0), node(&["first"], &["first"]));
    kubelet.handle(at(0), Input::Claim(allocated("first", "a")));
    kubelet.handle(at(0), Input::Pod(Arc::new(with_claim("a", "first"))));
    assert_eq!(times(&play(&mut kubelet, 0, 4_000)), [0; 0]);
    kubelet.handle(at(4_000), node(&[], &["first"]));
    assert_eq!(play(&mut kubelet, 4_000, 4_500), [(0, "write".to_owned())], "the answer is taken back");
    assert_eq!(kubelet.prepared_on(0).count(), 0);
    kubelet.handle(at(4_500), node(&[], &[]));
    assert_eq!(play(&mut kubelet, 4_500, 4_900), [(0, "write".to_owned())], "it starts");
    // A claim that is prepared for a pod is prepared for another one, for of that claim the node has said nothing.
    let mut shared = ResourceClaim::clone(&allocated("first", "a"));
    shared.reserved_for.push(Consumer { uid: "uid of b".into(), ..Consumer::default() });
    kubelet.handle(at(4_900), node(&["first"], &[]));
    kubelet.handle(at(4_900), Input::Claim(Arc::new(shared)));
    kubelet.handle(at(4_900), Input::Pod(Arc::new(with_claim("b", "first"))));
    assert_eq!(play(&mut kubelet, 4_900, 5_000), [(0, "write".to_owned())]);
}

/// The process before this one may have written the end while this one took the pod over.
#[test]
fn nothing_is_prepared_for_a_pod_whose_end_another_client_wrote() {
    let mut kubelet = kubelet(1);
    kubelet.handle(at(0), Input::Claim(allocated("first", "a")));
    let phase = |phase| {
        let seen = with_claim("a", "first");
        let pod = Pod { phase, ..Pod::clone(&seen.pod) };
        Input::Pod(Arc::new(SeenPod { pod: Arc::new(pod), ..seen }))
    };
    kubelet.handle(at(0), phase(PodPhase::Running));
    assert_eq!(kubelet.prepared_on(0).count(), 1);
    kubelet.handle(at(1), phase(PodPhase::Failed));
    assert_eq!(kubelet.prepared_on(0).count(), 0);
}

/// The news by which the pod was started were behind: its claim has other devices.
#[test]
fn a_claim_that_is_allocated_anew_leaves_its_former_devices() {
    let mut kubelet = kubelet(1);
    kubelet.handle(at(0), Input::Claim(allocated("first", "a")));
    kubelet.handle(at(0), Input::Pod(Arc::new(with_claim("a", "first"))));
    assert_eq!(times(&play(&mut kubelet, 0, 1_000)), [0]);
    kubelet.handle(at(1_000), Input::Claim(allocated("second", "b")));
    kubelet.handle(at(1_000), Input::Pod(Arc::new(with_claim("b", "second"))));
    assert_eq!(times(&play(&mut kubelet, 1_000, 2_000)), [0; 0], "its device is prepared for the first");
    let mut elsewhere = ResourceClaim::clone(&allocated("first", "a"));
    let mut allocation = lazaret_model::Allocation::clone(elsewhere.allocation.as_deref().unwrap());
    allocation.results[0].device.device = "gpu-1".into();
    elsewhere.allocation = Some(Arc::new(allocation));
    elsewhere.reserved_for[0].name = "a".into();
    kubelet.handle(at(2_000), Input::Claim(Arc::new(elsewhere)));
    assert_eq!(times(&play(&mut kubelet, 2_000, 3_000)), [0]);
    let prepared = kubelet.prepared_on(0).map(|(claim, devices)| format!("{claim}: {}", devices[0].device));
    assert_eq!(prepared.collect::<Vec<_>>(), ["uid of first: gpu-1", "uid of second: gpu-0"]);
}

/// The node has said that nothing is prepared and has taken that back: the claim is with another pod. News of the pod that was lost come after that.
#[test]
fn late_news_of_a_lost_pod_prepare_nothing() {
    for phase in [PodPhase::Pending, PodPhase::Running] {
        let mut kubelet = kubelet(1);
        let node =
            |awaiting: &[&str], unprepared: &[&str]| Input::Node(slow_node(Some(0), awaiting, unprepared));
        kubelet.handle(at(0), node(&["first"], &[]));
        assert_eq!(play(&mut kubelet, 0, 100), [(0, "write".to_owned())], "it answers");
        kubelet.handle(at(100), node(&["first"], &["first"]));
        kubelet.handle(at(200), node(&[], &["first"]));
        assert_eq!(play(&mut kubelet, 200, 300), [(0, "write".to_owned())], "it takes the answer back");
        kubelet.handle(at(300), node(&[], &[]));
        kubelet.handle(at(300), Input::Claim(allocated("first", "a")));
        let seen = with_claim("a", "first");
        let pod = Pod { phase, ..Pod::clone(&seen.pod) };
        kubelet.handle(at(300), Input::Pod(Arc::new(SeenPod { pod: Arc::new(pod), ..seen })));
        play(&mut kubelet, 300, 29_000);
        assert_eq!(kubelet.prepared_on(0).count(), 0, "{phase:?}");
        // A pod that is still there by then is no late news.
        play(&mut kubelet, 29_000, 31_000);
        assert_eq!(kubelet.prepared_on(0).count(), 1, "{phase:?}");
    }
}

/// The claims of a machine without a Node are given back without its word: a machine that starts again prepares nothing before it has registered.
#[test]
fn nothing_is_prepared_before_the_node_is_registered() {
    for phase in [PodPhase::Pending, PodPhase::Running] {
        let mut kubelet = Kubelet::new(OPTIONS, ["node-1".into()]);
        let seen = with_claim("a", "first");
        let pod = Pod { phase, ..Pod::clone(&seen.pod) };
        kubelet.handle(at(0), Input::ClaimsListed(vec![allocated("first", "a")]));
        kubelet.handle(at(0), Input::PodsListed(vec![Arc::new(SeenPod { pod: Arc::new(pod), ..seen })]));
        kubelet.handle(at(0), Input::BecameLeader);
        play(&mut kubelet, 0, 1_000);
        assert_eq!(kubelet.prepared_on(0).count(), 0, "{phase:?}");
        kubelet.handle(at(1_000), Input::Node(slow_node(Some(0), &[], &[])));
        play(&mut kubelet, 1_000, 30_000);
        assert_eq!(kubelet.prepared_on(0).count(), 0, "it may be gone, {phase:?}");
        play(&mut kubelet, 30_000, 32_000);
        assert_eq!(kubelet.prepared_on(0).count(), 1, "{phase:?}");
    }
}

/// A pod that ran before the machine went off was deleted meanwhile: it is removed before the Node is seen, and needs nothing after that.
#[test]
fn nothing_is_prepared_for_a_pod_that_has_stopped() {
    let mut kubelet = Kubelet::new(OPTIONS, ["node-1".into()]);
    let seen = with_claim("a", "first");
    let pod = Pod { phase: PodPhase::Running, deleting_since: Some(at(0)), ..Pod::clone(&seen.pod) };
    kubelet.handle(at(0), Input::ClaimsListed(vec![allocated("first", "a")]));
    kubelet.handle(at(0), Input::PodsListed(vec![Arc::new(SeenPod { pod: Arc::new(pod), ..seen })]));
    kubelet.handle(at(0), Input::BecameLeader);
    play(&mut kubelet, 0, 40_000);
    kubelet.handle(at(40_000), Input::Node(slow_node(Some(0), &[], &[])));
    play(&mut kubelet, 40_000, 41_000);
    assert_eq!(kubelet.prepared_on(0).count(), 0);
}
