//! The prepared claims of a node outlive the process, wherever that is killed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a test looks for one effect among many")]

use std::{collections::BTreeMap, sync::Arc};

use lazaret_kubelet::{
    CHECKPOINT_BYTES_MAX, Checkpoint, Container, EffectKind, HeldDevice, Input, Kubelet, NotedClaim, Options,
    RestartPolicy, Script, SeenCheckpoint, SeenNode, SeenPod, Warning,
};
use lazaret_machine::{Effect, Machine as _, Outcome};
use lazaret_model::{
    Allocation, ClaimSource, Consumer, DeviceId, DeviceResult, ObjectKey, Pod, PodClaim, PodPhase,
    ResourceClaim, Timestamp, Uid,
};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_000_000 + millis)
}

fn options(process: u64) -> Options {
    Options { lease_interval_ms: 10_000, job_run_ms: 1_000, in_flight_max: 32, leaves_taints: true, process }
}

fn uid(name: &str) -> Uid {
    format!("uid of {name}").into()
}

/// The API server, and what is on its way to it.
struct World {
    node: SeenNode,
    pods: BTreeMap<String, SeenPod>,
    claims: Vec<Arc<ResourceClaim>>,
    /// Events: the name of the pod, the reason, the message.
    events: Vec<(String, &'static str, String)>,
    processes: u64,
}

impl World {
    fn new() -> Self {
        let node = SeenNode {
            name: "node-1".into(),
            uid: "node".into(),
            version: "1".into(),
            ready: true,
            ..SeenNode::default()
        };
        Self { node, pods: BTreeMap::new(), claims: Vec::new(), events: Vec::new(), processes: 0 }
    }

    /// A pod with a claim, whose devices it was given, each whole or a share.
    fn add(&mut self, pod: &str, claim: &str, devices: &[(&str, Option<&str>)]) {
        let result = |(device, share): &(&str, Option<&str>)| DeviceResult {
            request: "r".into(),
            device: DeviceId::new("d", "node-1", *device),
            admin_access: *share == Some("admin"),
            tolerations: Vec::new(),
            binding_conditions: Vec::new(),
            binding_failure_conditions: Vec::new(),
            share_id: share.filter(|share| *share != "admin").map(Into::into),
            consumed_capacity: Vec::new(),
            skip_node_operations: Vec::new(),
        };
        let results = devices.iter().map(result).collect();
        self.claims.push(Arc::new(ResourceClaim {
            key: ObjectKey::new("default", claim),
            uid: uid(claim),
            allocation: Some(Arc::new(Allocation { results, ..Default::default() })),
            reserved_for: vec![Consumer { uid: uid(pod), name: pod.into(), ..Consumer::default() }],
            ..ResourceClaim::default()
        }));
        let entry = PodClaim { name: "gpu".into(), source: ClaimSource::Claim(claim.into()) };
        let object = Pod {
            key: ObjectKey::new("default", pod),
            uid: uid(pod),
            node: Some("node-1".into()),
            claims: vec![entry],
            ..Pod::default()
        };
        self.pods.insert(
            pod.to_owned(),
            SeenPod {
                pod: Arc::new(object),
                script: Script::default(),
                containers: vec![Container { name: "main".into(), image: "none".into() }],
                init_containers: Vec::new(),
                restart_policy: RestartPolicy::Always,
                host_network: false,
                grace_ms: 30_000,
                generation: 1,
                start_time: None,
                address: None,
                restarts: 0,
                is_unready: false,
            },
        );
    }

    fn edit(&mut self, pod: &str, edit: impl FnOnce(&mut Pod)) {
        let seen = self.pods.get_mut(pod).unwrap();
        let mut object = Pod::clone(&seen.pod);
        edit(&mut object);
        seen.pod = Arc::new(object);
    }

    fn phase(&self, pod: &str) -> Option<PodPhase> {
        self.pods.get(pod).map(|seen| seen.pod.phase)
    }

    fn bump(&mut self) {
        let next = self.node.version.parse::<u64>().unwrap() + 1;
        self.node.version = next.to_string().into();
    }

    /// The claims that are prepared by the word of the Node, by name.
    fn noted(&self) -> Vec<String> {
        match &self.node.checkpoint {
            SeenCheckpoint::Known(checkpoint) => {
                checkpoint.claims.values().map(|one| one.key.name.to_string()).collect()
            }
            SeenCheckpoint::Missing => Vec::new(),
            SeenCheckpoint::Unreadable(why) => panic!("{why}"),
        }
    }

    /// A process that lists everything.
    fn start(&mut self) -> Kubelet {
        self.processes += 1;
        let mut kubelet = Kubelet::new(options(self.processes), ["node-1".into()]);
        kubelet.handle(at(0), Input::ClaimsListed(self.claims.clone()));
        self.tell(&mut kubelet, 0);
        kubelet.handle(at(0), Input::BecameLeader);
        kubelet
    }

    fn tell(&self, kubelet: &mut Kubelet, now: i64) {
        kubelet.handle(at(now), Input::NodesListed(vec![self.node.clone()]));
        let pods = self.pods.values().map(|seen| Arc::new(seen.clone())).collect();
        kubelet.handle(at(now), Input::PodsListed(pods));
    }

    /// A request arrives.
    fn arrive(&mut self, kind: &EffectKind) -> Outcome {
        let told = |warning: &Warning| {
            let own = (warning.pod.key().name.to_string(), warning.reason, warning.message.clone());
            let holder = |(pod, message): &(Arc<SeenPod>, String)| {
                (pod.key().name.to_string(), "holder", message.clone())
            };
            [own].into_iter().chain(warning.holders.iter().map(holder)).collect::<Vec<_>>()
        };
        match kind {
            EffectKind::Save { uid, version, checkpoint, .. } => {
                if *uid != self.node.uid || *version != self.node.version {
                    return Outcome::Conflict;
                }
                self.node.checkpoint = SeenCheckpoint::Known((**checkpoint).clone());
                self.bump();
            }
            EffectKind::Start(start) => {
                let name = start.pod.key().name.to_string();
                if !self.pods.contains_key(&name) {
                    return Outcome::Gone;
                }
                self.edit(&name, |pod| pod.phase = PodPhase::Running);
                self.check();
            }
            EffectKind::End(end) => self.edit(&end.pod.key().name, |pod| pod.phase = end.phase),
            EffectKind::Remove(remove) => drop(self.pods.remove(&*remove.pod.key().name)),
            EffectKind::Report { unprepared, .. } => {
                (self.node.reports, self.node.unprepared) = (true, unprepared.clone());
                self.bump();
            }
            EffectKind::Warn(warning) => self.events.extend(told(warning)),
            EffectKind::RenewLease { .. } => {}
            other => panic!("{other:?}"),
        }
        Outcome::Done
    }

    /// No two pods run with one device.
    fn check(&self) {
        let running = self.pods.values().filter(|seen| seen.pod.phase == PodPhase::Running);
        let mut used: BTreeMap<&DeviceId, &str> = BTreeMap::new();
        for seen in running {
            for claim in &self.claims {
                let is_user = claim.reserved_for.iter().any(|user| user.uid == seen.pod.uid);
                let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
                for result in
                    results.filter(|result| is_user && result.share_id.is_none() && !result.admin_access)
                {
                    let before = used.insert(&result.device, &seen.pod.key.name);
                    assert!(
                        before.is_none(),
                        "{} runs with {} and {before:?}",
                        result.device,
                        seen.pod.key.name
                    );
                }
            }
        }
    }

    /// Everything is done at once until `end`.
    fn play(&mut self, kubelet: &mut Kubelet, start: i64, end: i64) {
        assert!(self.play_until(kubelet, start, end, usize::MAX).is_none());
    }

    /// The same, but after `requests` requests the process is killed: the next one is on its way.
    fn play_until(
        &mut self,
        kubelet: &mut Kubelet,
        start: i64,
        end: i64,
        requests: usize,
    ) -> Option<Effect<EffectKind>> {
        let (mut now, mut sent) = (start, 0);
        loop {
            kubelet.handle(at(now), Input::Tick);
            while let Some(effect) = kubelet.poll_effect() {
                if sent == requests {
                    return Some(effect);
                }
                sent += usize::from(!matches!(effect.kind, EffectKind::RenewLease { .. }));
                let outcome = self.arrive(&effect.kind);
                self.tell(kubelet, now);
                kubelet.handle(at(now), Input::Acknowledged { effect: effect.id, outcome });
            }
            match kubelet.next_wake() {
                Some(wake) if wake.at <= at(end) => {
                    now = (wake.at.as_millis() - at(0).as_millis()).max(now);
                }
                Some(_) | None => return None,
            }
        }
    }
}

/// The fate of the request that was on its way when the process was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InFlight {
    Lost,
    /// It was done, and nobody heard of it.
    Done,
    /// It arrives when the next process has listed everything.
    Late,
}

/// A pod runs, or is about to; another one was given its device too. Killed at each step, and begun again: no two pods run with the device, and when the first
/// is gone the second one runs, and nothing else is noted.
#[test]
fn a_process_that_is_killed_at_any_step_prepares_nothing_twice_and_loses_nothing() {
    for kill_at in 0..10 {
        for in_flight in [InFlight::Lost, InFlight::Done, InFlight::Late] {
            for is_removed in [false, true] {
                kill(kill_at, in_flight, is_removed);
            }
        }
    }
}

fn kill(kill_at: usize, in_flight: InFlight, is_removed: bool) {
    let case = format!("{kill_at} {in_flight:?} {is_removed}");
    let mut world = World::new();
    world.node.unprepare_after_ms = Some(2_000);
    world.add("a", "first", &[("gpu-0", None)]);
    let mut kubelet = world.start();
    let killed = world.play_until(&mut kubelet, 0, 1_000, kill_at);
    if killed.is_none() {
        // It runs; then it is deleted, with or without waiting for its node.
        if is_removed {
            world.pods.remove("a");
        } else {
            world.edit("a", |pod| pod.deleting_since = Some(at(1_000)));
        }
        world.tell(&mut kubelet, 1_000);
    }
    let killed = killed.or_else(|| world.play_until(&mut kubelet, 1_000, 2_500, kill_at.saturating_sub(3)));
    drop(kubelet);
    let late = killed.filter(|effect| match in_flight {
        InFlight::Lost => false,
        InFlight::Done => {
            world.arrive(&effect.kind);
            false
        }
        InFlight::Late => true,
    });
    world.add("b", "second", &[("gpu-0", None)]);
    let mut next = world.start();
    if let Some(effect) = late {
        world.arrive(&effect.kind);
        world.tell(&mut next, 0);
    }
    world.play(&mut next, 3_000, 20_000);
    world.check();
    if world.phase("a") == Some(PodPhase::Running) {
        assert_eq!(world.phase("b"), Some(PodPhase::Pending), "{case}");
        assert!(world.events.iter().any(|(pod, _, _)| pod == "b"), "{case}: {:?}", world.events);
    }
    if world.pods.contains_key("a") {
        world.edit("a", |pod| pod.deleting_since = Some(at(20_000)));
        world.tell(&mut next, 20_000);
    }
    world.play(&mut next, 20_000, 60_000);
    assert_eq!(world.phase("b"), Some(PodPhase::Running), "{case}");
    assert_eq!(world.noted(), ["second"], "{case}");
    assert_eq!(next.prepared_on(0).count(), 1, "{case}");
}

/// A pod that was removed by force while no process ran: its device stays prepared for as long as its driver takes, and the node does not say otherwise.
#[test]
fn devices_of_a_pod_that_vanished_while_no_process_ran_are_unprepared_first() {
    let mut world = World::new();
    (world.node.unprepare_after_ms, world.node.reports) = (Some(30_000), true);
    world.add("a", "first", &[("gpu-0", None)]);
    let mut kubelet = world.start();
    world.play(&mut kubelet, 0, 1_000);
    assert_eq!((world.phase("a"), world.noted()), (Some(PodPhase::Running), vec!["first".to_owned()]));
    drop(kubelet);
    world.pods.remove("a");
    world.add("b", "second", &[("gpu-0", None)]);
    world.node.awaiting.insert(uid("first"));
    world.bump();
    let mut next = world.start();
    world.play(&mut next, 0, 25_000);
    assert_eq!(world.phase("b"), Some(PodPhase::Pending));
    assert!(world.node.unprepared.is_empty(), "it is prepared");
    world.play(&mut next, 25_000, 60_000);
    assert_eq!(world.phase("b"), Some(PodPhase::Running));
    assert!(world.node.unprepared.contains(&uid("first")));
}

/// Two processes at a time, of which the older one does not know yet that it is over.
#[test]
fn a_process_that_was_replaced_starts_nothing_on_a_view_that_is_behind() {
    let mut world = World::new();
    world.add("a", "first", &[("gpu-0", None)]);
    let mut old = world.start();
    let save = world.play_until(&mut old, 0, 1_000, 0).unwrap();
    assert!(matches!(save.kind, EffectKind::Save { .. }), "{save:?}");
    // The new one prepares another claim first.
    world.add("b", "second", &[("gpu-0", None)]);
    let first = world.pods.remove("a").unwrap();
    let mut new = world.start();
    world.play(&mut new, 0, 1_000);
    assert_eq!(world.noted(), ["second"]);
    world.pods.insert("a".into(), first);
    assert_eq!(world.arrive(&save.kind), Outcome::Conflict);
    old.handle(at(1_000), Input::Acknowledged { effect: save.id, outcome: Outcome::Conflict });
    old.handle(at(1_000), Input::NodesListed(vec![world.node.clone()]));
    old.handle(at(20_000), Input::Tick);
    let started =
        std::iter::from_fn(|| old.poll_effect()).filter(|one| matches!(one.kind, EffectKind::Start(_)));
    assert_eq!(started.count(), 0);
}

#[test]
fn a_checkpoint_that_cannot_be_read_stops_what_is_new_and_says_so() {
    let mut world = World::new();
    world.node.checkpoint = SeenCheckpoint::Unreadable("expected value at line 1".into());
    (world.node.reports, world.node.unprepare_after_ms) = (true, Some(0));
    world.node.awaiting.insert(uid("lost"));
    world.add("a", "first", &[("gpu-0", None)]);
    let mut kubelet = world.start();
    world.play(&mut kubelet, 0, 60_000);
    assert_eq!(world.phase("a"), Some(PodPhase::Pending));
    assert!(world.node.unprepared.is_empty(), "it is not known what is prepared");
    let (pod, reason, message) = &world.events[0];
    assert_eq!((pod.as_str(), *reason, world.events.len()), ("a", "FailedPrepareDynamicResources", 1));
    assert!(message.contains("cannot be read (expected value at line 1)"), "{message}");
    // Somebody has drained the node and removed it.
    world.node.checkpoint = SeenCheckpoint::Missing;
    world.bump();
    world.tell(&mut kubelet, 60_000);
    world.play(&mut kubelet, 60_000, 61_000);
    assert_eq!(world.phase("a"), Some(PodPhase::Running));
    assert!(world.node.unprepared.contains(&uid("lost")));
}

#[test]
fn a_device_has_one_claim_unless_it_is_shared_or_looked_after_and_both_pods_hear_of_it() {
    type Devices = &'static [(&'static str, Option<&'static str>)];
    let rows: [(Devices, Devices, bool); 7] = [
        (&[("gpu-0", None)], &[("gpu-0", None)], false),
        (&[("gpu-0", None)], &[("gpu-1", None)], true),
        (&[("gpu-0", Some("x"))], &[("gpu-0", Some("y"))], true),
        (&[("gpu-0", Some("x"))], &[("gpu-0", Some("x"))], false),
        (&[("gpu-0", Some("x"))], &[("gpu-0", None)], false),
        (&[("gpu-0", None)], &[("gpu-0", Some("x"))], false),
        (&[("gpu-0", None)], &[("gpu-0", Some("admin"))], true),
    ];
    for (first, second, both) in rows {
        let mut world = World::new();
        world.add("a", "first", first);
        let mut kubelet = world.start();
        world.play(&mut kubelet, 0, 1_000);
        world.add("b", "second", second);
        kubelet.handle(at(1_000), Input::ClaimsListed(world.claims.clone()));
        world.tell(&mut kubelet, 1_000);
        world.play(&mut kubelet, 1_000, 10_000);
        let runs = world.phase("b") == Some(PodPhase::Running);
        assert_eq!(runs, both, "{first:?} {second:?}");
        let told = |name: &str| world.events.iter().filter(|(pod, ..)| pod == name).count();
        let expected = usize::from(!both);
        assert_eq!((told("a"), told("b")), (expected, expected), "{:?}", world.events);
        for (_, _, message) in &world.events {
            assert!(
                message.contains("device d/node-1/gpu-0") && message.contains("default/first"),
                "{message}"
            );
        }
    }
}

/// More than a Node takes: the pod waits, and says why.
#[test]
fn what_is_noted_has_a_limit() {
    let mut world = World::new();
    world.add("a", "first", &[("gpu-0", None)]);
    let noted = |number: usize| NotedClaim {
        key: ObjectKey::new("default", format!("claim-{number}")),
        pods: [uid("other")].into(),
        held: vec![HeldDevice { device: DeviceId::new("d", "node-1", "x".repeat(1_024)), share: None }],
        stop_ms: 60_000,
    };
    let claims = (0..CHECKPOINT_BYTES_MAX / 1_024).map(|number| (uid(&number.to_string()), noted(number)));
    let full = Checkpoint { writer: 77, sequence: 1, claims: claims.collect() };
    world.node.checkpoint = SeenCheckpoint::Known(full);
    let mut kubelet = world.start();
    world.play(&mut kubelet, 0, 30_000);
    assert_eq!(world.phase("a"), Some(PodPhase::Pending));
    assert!(world.events[0].2.contains("too many claims are prepared"), "{:?}", world.events);
    // The pods of the others are gone: in the end there is room.
    world.play(&mut kubelet, 30_000, 90_000);
    assert_eq!(world.phase("a"), Some(PodPhase::Running));
}
