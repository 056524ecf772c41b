//! Clusters and pods to measure with.

use std::sync::Arc;

use lazaret_fleet as fleet;
use lazaret_model::{
    AllocationMode, ClaimSource, ClaimSpec, Device, DeviceClass, DeviceRequest, NodeScope, ObjectKey,
    Operator, PodClaim, PoolSpec, Request, RequestKind, Requirement, ResourceClaim, ResourceSlice, Text,
    Timestamp,
};
use lazaret_scheduler::{
    Amounts, Claim, EffectKind, Input, LabelSelector, Node, Options, Outcome, Pod, PodSpec, PodTerm, Reply,
    Scheduler, ScoredAmounts, Written,
};

pub(crate) const NOW: Timestamp = Timestamp::from_secs(1);
pub(crate) const PODS: usize = 1_000;

pub(crate) fn cluster(nodes: usize, devices: usize) -> Scheduler {
    let mut scheduler = Scheduler::new(Options::default());
    scheduler.handle(NOW, Input::BecameLeader);
    let selector = Some(Text::from("device.driver == \"gpu.example.com\""));
    let class = DeviceClass { name: "gpu".into(), selectors: vec![selector], ..DeviceClass::default() };
    scheduler.handle(NOW, Input::Fleet(fleet::Input::Class(Arc::new(class))));
    for node in 0..nodes {
        let name: Text = format!("node-{node:05}").into();
        let labels = [
            ("kubernetes.io/hostname".into(), name.clone()),
            ("topology.kubernetes.io/zone".into(), format!("zone-{}", node % 3).into()),
        ];
        let facts = lazaret_model::Node { name: name.clone(), labels: labels.into(), ..Default::default() };
        let node = Node {
            facts: Arc::new(facts),
            allocatable: Amounts { cpu_milli: 64_000, memory: 256 << 30, ..Amounts::default() },
            pods_max: 110,
            ..Node::default()
        };
        scheduler.handle(NOW, Input::Node(Arc::new(node)));
        if devices > 0 {
            scheduler.handle(NOW, Input::Fleet(fleet::Input::Slice(Arc::new(slice(&name, devices)))));
        }
    }
    scheduler
}

pub(crate) fn slice(name: &Text, devices: usize) -> ResourceSlice {
    ResourceSlice {
        name: format!("{name}-gpus").into(),
        driver: "gpu.example.com".into(),
        pool: PoolSpec { name: name.clone(), generation: 1, slice_count: 1 },
        nodes: NodeScope::Node(name.clone()),
        devices: (0..devices)
            .map(|at| Device { name: format!("gpu-{at}").into(), ..Device::default() })
            .collect(),
        ..ResourceSlice::default()
    }
}

fn pod(at: usize, claim: bool, spec: &Arc<PodSpec>) -> (Arc<Pod>, Option<Arc<Claim>>) {
    let name = format!("pod-{at:06}");
    let entry = PodClaim { name: "gpu".into(), source: ClaimSource::Claim(format!("claim-{at:06}").into()) };
    let pod = Pod {
        key: ObjectKey::new("default", name.as_str()),
        uid: format!("uid-{name}").into(),
        labels: Arc::new([("app".into(), format!("app-{}", at % 100).into())].into()),
        claims: if claim { vec![entry] } else { vec![] },
        spec: spec.clone(),
        ..Pod::default()
    };
    let request = DeviceRequest { class: "gpu".into(), mode: AllocationMode::Exact(1), ..Default::default() };
    let claim = claim.then(|| {
        let claim = ResourceClaim {
            key: ObjectKey::new("default", format!("claim-{at:06}")),
            uid: format!("claim-uid-{at:06}").into(),
            spec: Arc::new(ClaimSpec {
                requests: vec![Request { name: "r".into(), kind: RequestKind::Exactly(request) }],
                ..ClaimSpec::default()
            }),
            ..ResourceClaim::default()
        };
        Arc::new(Claim { claim: Arc::new(claim), version: 1, has_finalizer: true, devices: vec![] })
    });
    (Arc::new(pod), claim)
}

pub(crate) fn small() -> PodSpec {
    PodSpec {
        requests: Amounts { cpu_milli: 500, memory: 512 << 20, ..Amounts::default() },
        weighed: ScoredAmounts { cpu_milli: 500, memory: 512 << 20 },
        ..PodSpec::default()
    }
}

pub(crate) type Arrivals = Vec<(Arc<Pod>, Option<Arc<Claim>>)>;

pub(crate) fn arrivals(claims: bool, spec: impl Fn(usize) -> PodSpec) -> Arrivals {
    (0..PODS).map(|at| pod(at, claims, &Arc::new(spec(at)))).collect()
}

/// Every pod comes, is decided on, written, acknowledged, and seen as written.
pub(crate) fn run(scheduler: &mut Scheduler, arrivals: &Arrivals) -> usize {
    let (mut version, mut bound) = (10, 0);
    for (pod, claim) in arrivals {
        if let Some(claim) = claim {
            scheduler.handle(NOW, Input::Claim(claim.clone()));
        }
        scheduler.handle(NOW, Input::Pod(pod.clone()));
        while let Some(effect) = scheduler.poll_effect() {
            version += 1;
            match &effect.kind {
                EffectKind::ReserveClaim(reserve) => {
                    let written =
                        Written { name: reserve.claim.name.clone(), uid: reserve.uid.clone(), version };
                    let reply = Reply { outcome: Outcome::Done, written: Some(written) };
                    scheduler.handle(NOW, Input::Acknowledged(effect.id, reply));
                    let claim = claim.as_ref().unwrap();
                    let seen = ResourceClaim {
                        allocation: reserve.allocation.clone(),
                        reserved_for: reserve.reserve_for.clone(),
                        ..ResourceClaim::clone(&claim.claim)
                    };
                    let seen = Claim { claim: Arc::new(seen), version, ..Claim::clone(claim) };
                    scheduler.handle(NOW, Input::Claim(Arc::new(seen)));
                }
                EffectKind::Bind(bind) => {
                    bound += 1;
                    scheduler.handle(NOW, Input::Acknowledged(effect.id, Reply::of(Outcome::Done)));
                    let seen = Pod { node: Some(bind.node.clone()), ..Pod::clone(pod) };
                    scheduler.handle(NOW, Input::Pod(Arc::new(seen)));
                }
                EffectKind::Event(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    bound
}

/// Keeps away from pods of the same of a hundred workloads.
pub(crate) fn keeping_apart(at: usize) -> PodSpec {
    let values = vec![format!("app-{}", at % 100).into()];
    let requirement = Requirement { key: "app".into(), operator: Operator::In, values };
    let term = PodTerm {
        selector: Some(LabelSelector { requirements: vec![requirement] }),
        namespaces: vec!["default".into()],
        namespace_selector: None,
        topology: "kubernetes.io/hostname".into(),
    };
    PodSpec { anti_affinity: vec![term], ..small() }
}

/// A cluster without a free device, and as many pods as [`PODS`] that wait for one.
pub(crate) fn all_in_use(nodes: usize, arrivals: &Arrivals) -> Scheduler {
    let mut scheduler = cluster(nodes, 0);
    for (pod, claim) in arrivals {
        scheduler.handle(NOW, Input::Claim(claim.clone().unwrap()));
        scheduler.handle(NOW, Input::Pod(pod.clone()));
    }
    while scheduler.next_wake().is_some_and(|wake| wake.at <= NOW) {
        while scheduler.poll_effect().is_some() {}
    }
    scheduler
}

/// A device comes, one pod gets it, all others are found to fit nowhere.
pub(crate) fn free_one(scheduler: &mut Scheduler) {
    let later = NOW.plus_secs(20);
    scheduler.handle(later, Input::Fleet(fleet::Input::Slice(Arc::new(slice(&"node-00007".into(), 1)))));
    let mut given = 0;
    while scheduler.next_wake().is_some_and(|wake| wake.at <= later) {
        while let Some(effect) = scheduler.poll_effect() {
            given += usize::from(matches!(effect.kind, EffectKind::ReserveClaim(_)));
        }
    }
    assert_eq!(given, 1);
}
