//! Bugs that random worlds found once, each as the steps that led to it: nothing is given twice, nothing tainted is given, and at rest everyone who
//! fits is placed. The random worlds are those of `lazaret-sim`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use lazaret_fleet as fleet;
use lazaret_model::*;
use lazaret_scheduler::{EffectKind, Input, Options, Outcome, Pod};

use crate::world::{DRIVER, World, claim, pod, slice};

const NODES: usize = 3;
const CPU_MILLI: i64 = 1_000;
const DEVICES: usize = 2;

#[derive(Clone, Debug)]
enum Step {
    /// A pod with these requests.
    Add {
        cpu: i64,
        devices: i64,
    },
    Taint(usize, usize),
    Perform,
    Fail(Outcome),
    Hear,
    Wait(i64),
    Lead(bool),
}

struct Run {
    world: World,
    added: usize,
    tainted: BTreeSet<(usize, usize)>,
}

fn name(node: usize) -> String {
    format!("n{node}")
}

impl Run {
    fn new() -> Self {
        // A pod that is tried again only because time has passed was forgotten.
        let flush_ms = i64::MAX / 4;
        let mut world = World::new(Options { flush_ms, ..Options::default() });
        for at in 0..NODES {
            world.node(&name(at), CPU_MILLI, DEVICES);
        }
        Self { world, added: 0, tainted: BTreeSet::new() }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Add { cpu, devices } => {
                let (pod_name, claim_name) = (format!("p{:03}", self.added), format!("c{:03}", self.added));
                self.added += 1;
                if *devices > 0 {
                    self.world.add_claim(claim(&claim_name, *devices));
                }
                let claims: &[&str] = if *devices > 0 { &[&claim_name] } else { &[] };
                self.world.add_pod(pod(&pod_name, *cpu, claims));
            }
            Step::Taint(node, device) => {
                self.tainted.insert((*node, *device));
                self.publish(*node);
            }
            Step::Perform => {
                let before = self.world.scheduler.decisions();
                if let Some(effect) = self.world.scheduler.poll_effect() {
                    // A write that is repeated may be older than the taint.
                    if self.world.scheduler.decisions() > before {
                        self.check_taints(&effect.kind);
                    }
                    self.world.perform(effect);
                }
            }
            Step::Fail(outcome) => self.world.faults.push(*outcome),
            Step::Hear => self.hear(),
            Step::Wait(millis) => {
                self.world.now = self.world.now.plus_millis(*millis);
                self.world.tell(Input::Tick);
            }
            Step::Lead(true) => self.lead(),
            Step::Lead(false) => self.world.tell(Input::LostLeadership),
        }
        self.check();
    }

    fn hear(&mut self) {
        for input in std::mem::take(&mut self.world.news) {
            self.world.tell(input);
        }
    }

    /// A new leader has seen all earlier writes.
    fn lead(&mut self) {
        self.hear();
        self.world.tell(Input::BecameLeader);
    }

    fn publish(&mut self, node: usize) {
        let mut slice = slice(&name(node), DEVICES);
        for (at, device) in slice.devices.iter_mut().enumerate() {
            if self.tainted.contains(&(node, at)) {
                let taint = Taint { key: "sick".into(), effect: Effect::NoSchedule, ..Taint::default() };
                device.taints = vec![taint];
            }
        }
        self.world.tell(Input::Fleet(fleet::Input::Slice(Arc::new(slice))));
    }

    /// Slices are seen at once here: a device that is allocated now has no taint.
    fn check_taints(&self, kind: &EffectKind) {
        let EffectKind::ReserveClaim(reserve) = kind else { return };
        for result in reserve.allocation.iter().flat_map(|given| &given.results) {
            let is = |(node, device): &(usize, usize)| {
                result.device == DeviceId::new(DRIVER, name(*node), format!("gpu-{device}"))
            };
            assert!(!self.tainted.iter().any(is), "{} is tainted", result.device);
        }
    }

    fn check(&self) {
        let mut holders: BTreeMap<&DeviceId, &ObjectKey> = BTreeMap::new();
        for claim in self.world.claims.values() {
            for result in claim.claim.allocation.iter().flat_map(|given| &given.results) {
                let before = holders.insert(&result.device, &claim.claim.key);
                assert_eq!(before, None, "{} is given twice", result.device);
            }
        }
        let mut used: BTreeMap<&Text, i64> = BTreeMap::new();
        for pod in self.world.pods.values() {
            if let Some(node) = &pod.node {
                *used.entry(node).or_default() += pod.spec.requests.cpu_milli;
                self.check_claims(pod, node);
            }
        }
        assert!(used.values().all(|used| *used <= CPU_MILLI), "{used:?}");
    }

    /// A bound pod has all its claims, reserved, on its node.
    fn check_claims(&self, pod: &Pod, node: &Text) {
        for entry in &pod.claims {
            let ClaimSource::Claim(name) = &entry.source else { continue };
            let claim = &self.world.claims[&ObjectKey::new("ns", name.as_str())].claim;
            let given = claim.allocation.as_ref().expect("allocated");
            assert!(given.results.iter().all(|result| result.device.pool == *node));
            assert!(claim.reserved_for.iter().any(|consumer| consumer.uid == pod.uid));
        }
    }

    fn rest(&mut self) {
        self.lead();
        self.world.faults.clear();
        for _ in 0..30 {
            self.world.settle();
            self.world.pass(11_000);
        }
        self.world.pass(300_000);
        self.check();
        let sizes = self.world.scheduler.sizes();
        assert_eq!((sizes.in_flight, sizes.claims_in_flight, sizes.effects_pending), (0, 0, 0), "{sizes:?}");
        assert_eq!((sizes.active, sizes.backing_off), (0, 0), "{sizes:?}");
        self.everyone_who_fits_is_placed();
    }

    fn everyone_who_fits_is_placed(&self) {
        for pod in self.world.pods.values().filter(|pod| pod.node.is_none()) {
            let mut wanted = 0;
            let mut held: Option<Text> = None;
            for claim in pod.claims.iter().filter_map(|entry| match &entry.source {
                ClaimSource::Claim(name) => {
                    Some(&self.world.claims[&ObjectKey::new("ns", name.as_str())].claim)
                }
                ClaimSource::Template { .. } | ClaimSource::Unknown => None,
            }) {
                match &claim.allocation {
                    Some(given) => held = given.results.first().map(|result| result.device.pool.clone()),
                    None => wanted += count(&claim.spec),
                }
            }
            assert_eq!(held, None, "{} holds devices with which it goes nowhere", pod.key);
            for at in 0..NODES {
                let used: i64 = self
                    .world
                    .pods
                    .values()
                    .filter(|other| other.node.as_ref().is_some_and(|node| *node == *name(at)))
                    .map(|other| other.spec.requests.cpu_milli)
                    .sum();
                let room = used + pod.spec.requests.cpu_milli <= CPU_MILLI;
                assert!(!room || self.free_devices(at) < wanted, "{} fits on n{at}", pod.key);
            }
        }
    }

    fn free_devices(&self, node: usize) -> usize {
        let is_free = |device: &usize| {
            let id = DeviceId::new(DRIVER, name(node), format!("gpu-{device}"));
            let held = self.world.claims.values().flat_map(|claim| &claim.claim.allocation);
            !self.tainted.contains(&(node, *device))
                && !held.flat_map(|given| &given.results).any(|result| result.device == id)
        };
        (0..DEVICES).filter(is_free).count()
    }
}

fn count(spec: &ClaimSpec) -> usize {
    let wanted = |request: &Request| match &request.kind {
        RequestKind::Exactly(DeviceRequest { mode: AllocationMode::Exact(count), .. }) => {
            usize::try_from(*count).unwrap()
        }
        RequestKind::Exactly(_) | RequestKind::FirstAvailable(_) | RequestKind::Unknown => 0,
    };
    spec.requests.iter().map(wanted).sum()
}

#[test]
fn fresh_decisions_never_take_what_is_tainted() {
    let mut run = Run::new();
    for at in 0..NODES {
        run.take(&Step::Taint(at, 0));
    }
    for _ in 0..6 {
        run.take(&Step::Add { cpu: 100, devices: 1 });
    }
    run.rest();
    let given: Vec<&str> = run
        .world
        .claims
        .values()
        .flat_map(|claim| claim.claim.allocation.iter().flat_map(|given| &given.results))
        .map(|result| result.device.device.as_str())
        .collect();
    assert_eq!(given, ["gpu-1"; NODES]);
}

/// Shortened to what matters, with what went wrong then.
#[test]
fn what_went_wrong_once() {
    use Step::{Add, Fail, Hear, Lead, Perform, Wait};
    let add = |devices| Add { cpu: 100, devices };
    let stories: [(&str, Vec<Step>); 5] = [
        ("a claim stayed in flight without a leader", vec![add(1), add(1), Perform, Lead(false), Hear]),
        (
            "a claim stayed in flight after a refused write and a lost leadership",
            vec![add(1), Perform, Lead(false), Fail(Outcome::Gone), Lead(true), Perform, Hear, Lead(false)],
        ),
        (
            "a device was given twice: nobody knew that it was given, and the leadership came back",
            vec![
                Fail(Outcome::Unknown),
                add(1),
                add(1),
                Wait(1),
                Perform,
                Lead(false),
                Lead(true),
                Perform,
                Perform,
                Perform,
            ],
        ),
        (
            "a pod was bound without its claim: that it was taken from the pod was not seen yet",
            vec![
                Fail(Outcome::Unknown),
                add(1),
                Perform,
                Wait(1_000),
                Fail(Outcome::Gone),
                Hear,
                Perform,
                Wait(1_000),
                Perform,
                Perform,
                Perform,
                Perform,
            ],
        ),
        (
            "a claim was taken from a pod that was bound: nobody knew that it was",
            vec![
                add(1),
                Perform,
                Fail(Outcome::Unknown),
                Perform,
                Lead(false),
                Lead(true),
                Fail(Outcome::RetryLater),
                add(0),
                Perform,
                Perform,
                Perform,
            ],
        ),
    ];
    for (what, steps) in stories {
        let mut run = Run::new();
        for step in &steps {
            run.take(step);
        }
        run.rest();
        assert_eq!(run.world.pods.values().filter(|pod| pod.node.is_none()).count(), 0, "{what}");
    }
}
