//! The objects of the cluster, and events from outside: nodes, devices and pods; drivers and the claim controller.

use std::sync::Arc;

use lazaret_fleet as fleet;
use lazaret_model::{
    AllocationMode, ClaimSource, ClaimSpec, Device, DeviceClass, DeviceRequest, Effect, NodeScope, ObjectKey,
    PodClaim, PoolSpec, RequestKind, ResourceClaim, ResourceSlice, Taint, Text,
};
use lazaret_scheduler::{Amounts, Claim, DeviceStatus, Input, Node, Pod, PodSpec};

use super::{HORIZON_MS, Kind, Step, World};

pub(super) const DRIVER: &str = "gpu.example.com";
const READY: &str = "Ready";
const BROKEN: &str = "Broken";
pub(super) const NODES: usize = 3;
pub(super) const DEVICES: usize = 3;
const CPU_MILLI: i64 = 1_000;
/// Claims that several pods use.
const SHARED: usize = 3;
/// Pods at a time, at most.
const PODS_MAX: usize = 24;
/// Things that happen from outside.
const CHANCES: u64 = 60;
/// A driver takes at most this long to report.
const REPORT_MS_MAX: u64 = 5_000;

pub(super) fn node_name(node: usize) -> String {
    format!("node-{node}")
}

impl World {
    pub(super) fn populate(&mut self) {
        let selector = Some(Text::from(format!("device.driver == \"{DRIVER}\"").as_str()));
        let class = DeviceClass { name: "gpu".into(), selectors: vec![selector], ..DeviceClass::default() };
        self.tell(Input::Fleet(fleet::Input::Class(Arc::new(class))));
        for number in 0..NODES {
            let node = Node {
                facts: Arc::new(lazaret_model::Node {
                    name: node_name(number).into(),
                    ..lazaret_model::Node::default()
                }),
                allocatable: Amounts { cpu_milli: CPU_MILLI, memory: 1 << 40, ..Amounts::default() },
                pods_max: 110,
                ..Node::default()
            };
            self.tell(Input::Node(Arc::new(node.clone())));
            self.nodes.push(node);
            let slice = self.slice(number);
            self.tell(slice);
        }
        (0..SHARED).for_each(|number| self.add_claim(&format!("shared-{number}"), 1));
        for _ in 0..CHANCES {
            let at = self.rng.below(HORIZON_MS);
            self.queue.push(at, Step::Chance);
        }
        self.queue.push(HORIZON_MS, Step::Rest);
    }

    fn slice(&self, node: usize) -> Input {
        let device = |at: usize| Device {
            name: format!("gpu-{at}").into(),
            // The last device of a node needs no preparation.
            binding_conditions: (at + 1 < DEVICES).then(|| vec![READY.into()]),
            binding_failure_conditions: (at + 1 < DEVICES).then(|| vec![BROKEN.into()]),
            taints: if self.tainted.contains(&(node, at)) {
                vec![Taint { key: "sick".into(), effect: Effect::NoSchedule, ..Taint::default() }]
            } else {
                Vec::new()
            },
            ..Device::default()
        };
        let name = node_name(node);
        Input::Fleet(fleet::Input::Slice(Arc::new(ResourceSlice {
            name: format!("{name}-slice").into(),
            driver: DRIVER.into(),
            pool: PoolSpec { name: name.as_str().into(), generation: 1, slice_count: 1 },
            nodes: NodeScope::Node(name.as_str().into()),
            devices: (0..DEVICES).map(device).collect(),
            ..ResourceSlice::default()
        })))
    }

    /// Something from outside.
    pub(super) fn chance(&mut self) {
        match self.rng.below(10) {
            0..=4 if self.pods.len() < PODS_MAX => self.add_pod(),
            5 | 6 => self.remove_pod(),
            7 => {
                let (node, device) = (self.draw(NODES), self.draw(DEVICES));
                if !self.tainted.remove(&(node, device)) {
                    self.tainted.insert((node, device));
                }
                let slice = self.slice(node);
                self.happened(Kind::Others, slice);
            }
            8 => {
                let node = self.draw(NODES);
                self.nodes[node].unschedulable = !self.nodes[node].unschedulable;
                let news = Input::Node(Arc::new(self.nodes[node].clone()));
                self.happened(Kind::Others, news);
            }
            _ => {
                // A driver changes its mind.
                let keys: Vec<ObjectKey> = self.claims.keys().cloned().collect();
                if !keys.is_empty() {
                    let at = self.draw(keys.len());
                    self.report(&keys[at]);
                }
            }
        }
    }

    fn draw(&mut self, bound: usize) -> usize {
        usize::try_from(self.rng.below(bound as u64)).unwrap_or(0)
    }

    fn add_pod(&mut self) {
        self.made += 1;
        let (name, own) = (format!("pod-{}", self.made), format!("claim-{}", self.made));
        let claims: Vec<String> = match self.rng.below(6) {
            0 => Vec::new(),
            1 | 2 => {
                let shared = self.draw(SHARED);
                vec![format!("shared-{shared}")]
            }
            3 => {
                self.add_claim(&own, 2);
                vec![own]
            }
            _ => {
                self.add_claim(&own, 1);
                vec![own]
            }
        };
        let entry =
            |name: &String| PodClaim { name: "c".into(), source: ClaimSource::Claim(name.as_str().into()) };
        let requests = Amounts { cpu_milli: self.rng.pick(&[50, 200, 500]), ..Amounts::default() };
        let spec = PodSpec { requests, priority: self.rng.pick(&[0, 0, 5]), ..PodSpec::default() };
        let pod = Pod {
            key: ObjectKey::new("ns", name.as_str()),
            uid: format!("uid-{name}").into(),
            claims: claims.iter().map(entry).collect(),
            spec: Arc::new(spec),
            ..Pod::default()
        };
        self.pods.insert(pod.key.clone(), pod.clone());
        self.happened(Kind::Pods, Input::Pod(Arc::new(pod)));
    }

    fn add_claim(&mut self, name: &str, count: i64) {
        let request = DeviceRequest {
            class: "gpu".into(),
            mode: AllocationMode::Exact(count),
            ..DeviceRequest::default()
        };
        let request = lazaret_model::Request { name: "r".into(), kind: RequestKind::Exactly(request) };
        let claim = ResourceClaim {
            key: ObjectKey::new("ns", name),
            uid: format!("uid-{name}").into(),
            spec: Arc::new(ClaimSpec { requests: vec![request], ..ClaimSpec::default() }),
            ..ResourceClaim::default()
        };
        self.version += 1;
        let claim = Claim { claim: Arc::new(claim), version: self.version, ..Claim::default() };
        self.claims.insert(claim.claim.key.clone(), claim.clone());
        self.happened(Kind::Claims, Input::Claim(Arc::new(claim)));
    }

    fn remove_pod(&mut self) {
        let keys: Vec<ObjectKey> = self.pods.keys().cloned().collect();
        if keys.is_empty() {
            return;
        }
        let at = self.draw(keys.len());
        self.forget_pod(&keys[at]);
    }

    pub(super) fn forget_pod(&mut self, key: &ObjectKey) {
        if self.pods.remove(key).is_some() {
            self.happened(Kind::Pods, Input::PodGone(key.clone()));
            self.push_soon(Step::CleanUp(key.clone()));
        }
    }

    /// A claim that only a pod used which is gone is given back.
    pub(super) fn clean_up(&mut self, pod: &ObjectKey) {
        let used: Vec<ObjectKey> = self
            .claims
            .values()
            .filter(|claim| claim.claim.reserved_for.iter().any(|user| user.name == pod.name))
            .map(|claim| claim.claim.key.clone())
            .collect();
        for key in used {
            self.edit_claim(&key, |claim| {
                let inner = Arc::make_mut(&mut claim.claim);
                inner.reserved_for.retain(|user| user.name != pod.name);
                if inner.reserved_for.is_empty() {
                    inner.allocation = None;
                    claim.devices.clear();
                }
            });
        }
    }

    /// A driver is going to report on devices that were given to a claim.
    pub(super) fn devices_given(&mut self, claim: &ObjectKey) {
        let delay = self.rng.below(REPORT_MS_MAX);
        self.queue.push(self.now + delay, Step::Report(claim.clone()));
    }

    /// A driver says of each device of a claim that it is ready, that it is broken, or nothing.
    pub(super) fn report(&mut self, key: &ObjectKey) {
        let said = if self.resting { 0 } else { self.rng.below(10) };
        let condition = match said {
            0..=4 => READY,
            5..=7 => BROKEN,
            _ => return,
        };
        let Some(claim) = self.claims.get(key) else { return };
        let devices: Vec<DeviceStatus> = claim
            .claim
            .allocation
            .iter()
            .flat_map(|given| &given.results)
            .filter(|result| !result.binding_conditions.is_empty())
            .map(|result| DeviceStatus { device: result.device.clone(), is_true: vec![condition.into()] })
            .collect();
        if devices.is_empty() {
            return;
        }
        self.outcome.broken += u64::from(condition == BROKEN);
        self.edit_claim(key, |claim| claim.devices = devices);
    }

    /// Everything is mended: from now on pods wait only for each other.
    pub(super) fn begin_rest(&mut self) {
        self.resting = true;
        self.tainted.clear();
        for node in 0..NODES {
            self.nodes[node].unschedulable = false;
            let (news, slice) = (Input::Node(Arc::new(self.nodes[node].clone())), self.slice(node));
            self.happened(Kind::Others, news);
            self.happened(Kind::Others, slice);
        }
        let keys: Vec<ObjectKey> = self.claims.keys().cloned().collect();
        keys.iter().for_each(|key| self.report(key));
    }
}
