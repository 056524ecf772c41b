//! A small API server: it keeps objects, carries effects out under their preconditions, and tells what changed.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_fleet as fleet;
use lazaret_model::*;
use lazaret_scheduler::{Effect, Node, Pod, *};

pub(crate) const DRIVER: &str = "gpu.example.com";

/// The scheduler and the API server it works against.
pub(crate) struct World {
    pub(crate) scheduler: Scheduler,
    pub(crate) now: Timestamp,
    pub(crate) pods: BTreeMap<ObjectKey, Pod>,
    pub(crate) claims: BTreeMap<ObjectKey, Claim>,
    /// Classic claims.
    pub(crate) classic: BTreeMap<ObjectKey, lazaret_classic::ResourceClaim>,
    pub(crate) version: u64,
    pub(crate) events: Vec<Event>,
    /// Effects in the order in which they came.
    pub(crate) log: Vec<EffectKind>,
    /// Inputs that the scheduler has not received yet.
    pub(crate) news: Vec<Input>,
    /// Outcomes of effects that are not carried out.
    pub(crate) faults: Vec<Outcome>,
}

impl World {
    pub(crate) fn new(options: Options) -> Self {
        let mut world = Self {
            scheduler: Scheduler::new(options),
            now: Timestamp::from_secs(1_000),
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            classic: BTreeMap::new(),
            version: 100,
            events: Vec::new(),
            log: Vec::new(),
            news: Vec::new(),
            faults: Vec::new(),
        };
        world.tell(Input::BecameLeader);
        let selector = Some(Text::from(format!("device.driver == \"{DRIVER}\"").as_str()));
        let class = DeviceClass { name: "gpu".into(), selectors: vec![selector], ..DeviceClass::default() };
        world.tell(Input::Fleet(fleet::Input::Class(Arc::new(class))));
        world
    }

    pub(crate) fn tell(&mut self, input: Input) {
        self.scheduler.handle(self.now, input);
    }

    /// A node with this room, and this number of devices of its own.
    pub(crate) fn node(&mut self, name: &str, cpu_milli: i64, devices: usize) {
        self.tell(Input::Node(Arc::new(node(name, cpu_milli))));
        if devices > 0 {
            self.tell(Input::Fleet(fleet::Input::Slice(Arc::new(slice(name, devices)))));
        }
    }

    pub(crate) fn add_pod(&mut self, pod: Pod) {
        self.pods.insert(pod.key.clone(), pod.clone());
        self.tell(Input::Pod(Arc::new(pod)));
    }

    pub(crate) fn remove_pod(&mut self, name: &str) {
        let key = ObjectKey::new("ns", name);
        self.pods.remove(&key);
        for claim in self.claims.values_mut() {
            let before = claim.claim.reserved_for.len();
            let mut changed = ResourceClaim::clone(&claim.claim);
            changed.reserved_for.retain(|consumer| consumer.name != name);
            if changed.reserved_for.len() == before {
                continue;
            }
            if changed.reserved_for.is_empty() {
                changed.allocation = None;
            }
            self.version += 1;
            claim.version = self.version;
            claim.claim = Arc::new(changed);
            self.news.push(Input::Claim(Arc::new(claim.clone())));
        }
        self.news.push(Input::PodGone(key));
    }

    pub(crate) fn add_claim(&mut self, claim: ResourceClaim) {
        self.version += 1;
        let claim = Claim { claim: Arc::new(claim), version: self.version, ..Claim::default() };
        self.claims.insert(claim.claim.key.clone(), claim.clone());
        self.tell(Input::Claim(Arc::new(claim)));
    }

    /// Somebody changes a claim, and the scheduler sees it.
    pub(crate) fn change_claim(&mut self, name: &str, change: impl FnOnce(&mut Claim)) {
        self.version += 1;
        let claim = self.claims.get_mut(&ObjectKey::new("ns", name)).unwrap();
        claim.version = self.version;
        change(claim);
        let seen = Input::Claim(Arc::new(claim.clone()));
        self.tell(seen);
    }

    /// Lets the scheduler hear what happened, and does what it wants, until there is nothing left.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            self.hear();
            match self.scheduler.poll_effect() {
                Some(effect) => self.perform(effect),
                None if self.news.is_empty() && !self.is_due() => return,
                None => {}
            }
        }
        panic!("it does not come to rest");
    }

    fn is_due(&self) -> bool {
        self.scheduler.next_wake().is_some_and(|wake| wake.at <= self.now)
    }

    /// The scheduler hears what happened.
    pub(crate) fn hear(&mut self) {
        for input in std::mem::take(&mut self.news) {
            self.tell(input);
        }
    }

    /// Time passes.
    pub(crate) fn tick(&mut self, millis: i64) {
        self.now = self.now.plus_millis(millis);
        self.tell(Input::Tick);
    }

    /// These seconds pass, one by one.
    pub(crate) fn seconds(&mut self, count: usize) {
        (0..count).for_each(|_| self.pass(1_000));
    }

    pub(crate) fn pass(&mut self, millis: i64) {
        self.tick(millis);
        self.settle();
    }

    pub(crate) fn perform(&mut self, effect: Effect) {
        self.log.push(effect.kind.clone());
        let reply = match (self.faults.pop(), &effect.kind) {
            (_, EffectKind::Event(event)) => return self.events.push(event.clone()),
            (None, kind) => self.carry_out(kind),
            (Some(Outcome::Unknown), kind) => {
                self.carry_out(kind);
                Reply::of(Outcome::Unknown)
            }
            (Some(outcome), _) => Reply::of(outcome),
        };
        self.tell(Input::Acknowledged(effect.id, reply));
    }

    pub(crate) fn carry_out(&mut self, kind: &EffectKind) -> Reply {
        match kind {
            EffectKind::ReserveClaim(reserve) => {
                self.write_claim(&reserve.claim, &reserve.uid, reserve.version, |claim| {
                    if let Some(allocation) = &reserve.allocation {
                        assert!(claim.claim.allocation.is_none(), "allocations never change");
                        assert!(
                            claim.has_finalizer || reserve.add_finalizer,
                            "allocated claims are protected"
                        );
                        Arc::make_mut(&mut claim.claim).allocation = Some(allocation.clone());
                    }
                    claim.has_finalizer |= reserve.add_finalizer;
                    assert!(claim.claim.allocation.is_some(), "only what is allocated can be reserved");
                    Arc::make_mut(&mut claim.claim).reserved_for.extend(reserve.reserve_for.iter().cloned());
                })
            }
            EffectKind::ReleaseClaim(release) => {
                self.write_claim(&release.claim, &release.uid, release.version, |claim| {
                    let inner = Arc::make_mut(&mut claim.claim);
                    inner.reserved_for.retain(|consumer| Some(&consumer.uid) != release.consumer.as_ref());
                    if release.deallocate {
                        inner.allocation = None;
                        inner.reserved_for.clear();
                        claim.devices.clear();
                    }
                })
            }
            EffectKind::Bind(bind) if !self.may_bind(bind) => {
                panic!("{} is bound before its classic claims are allocated and reserved for it", bind.pod)
            }
            EffectKind::Bind(bind) => self.write_pod(&bind.pod, &bind.uid, |pod| {
                if pod.node.is_some() {
                    return false;
                }
                pod.node = Some(bind.node.clone());
                true
            }),
            EffectKind::SetPodCondition(set) => self.write_pod(&set.pod, &set.uid, |pod| {
                pod.unscheduled =
                    Some(Unscheduled { reason: set.reason.into(), message: set.message.clone() });
                if let Some(node) = &set.nominated {
                    pod.nominated = (!node.is_empty()).then(|| node.clone());
                }
                true
            }),
            EffectKind::Evict(evict) => {
                if self.pods.get(&evict.victim).is_none_or(|pod| pod.uid != evict.uid) {
                    return Reply::of(Outcome::Gone);
                }
                self.remove_pod(&evict.victim.name);
                Reply::of(Outcome::Done)
            }
            EffectKind::CreateExtendedClaim(create) => self.create_claim(create),
            EffectKind::DeleteExtendedClaim(delete) => {
                self.claims.remove(&delete.claim);
                self.news.push(Input::ClaimGone(delete.claim.clone()));
                Reply::of(Outcome::Done)
            }
            EffectKind::SetNodeAllocatable(set) => self.write_pod(&set.pod, &set.uid, |pod| {
                let extra = node_allocatable_extra(&set.statuses, &pod.spec);
                pod.extra = (!set.statuses.is_empty()).then(|| Arc::new(extra));
                true
            }),
            EffectKind::SetExtendedClaim(set) => self.write_pod(&set.pod, &set.uid, |pod| {
                pod.extended_claim = Some(set.claim.clone());
                true
            }),
            EffectKind::ChangeClassicClaim(change) => self.change_classic(change),
            EffectKind::Event(_) => Reply::of(Outcome::Done),
        }
    }

    fn create_claim(&mut self, create: &CreateExtendedClaim) -> Reply {
        self.version += 1;
        let name: Text = format!("{}{}", create.generate_name, self.version).into();
        let uid: Uid = format!("claim-{}", self.version).into();
        let claim = ResourceClaim {
            key: ObjectKey { namespace: create.pod.namespace.clone(), name: name.clone() },
            uid: uid.clone(),
            owner: Some(create.owner.clone()),
            extended_resource: true,
            spec: create.spec.clone(),
            ..ResourceClaim::default()
        };
        let claim =
            Claim { claim: Arc::new(claim), version: self.version, has_finalizer: true, devices: vec![] };
        self.claims.insert(claim.claim.key.clone(), claim.clone());
        self.news.push(Input::Claim(Arc::new(claim)));
        Reply { outcome: Outcome::Done, written: Some(Written { name, uid, version: self.version }) }
    }

    fn write_claim(
        &mut self,
        key: &ObjectKey,
        uid: &Uid,
        version: u64,
        write: impl FnOnce(&mut Claim),
    ) -> Reply {
        let Some(claim) = self.claims.get_mut(key).filter(|claim| claim.claim.uid == *uid) else {
            return Reply::of(Outcome::Gone);
        };
        if claim.version != version {
            return Reply::of(Outcome::Conflict);
        }
        write(claim);
        self.version += 1;
        claim.version = self.version;
        self.news.push(Input::Claim(Arc::new(claim.clone())));
        let written = Written { name: key.name.clone(), uid: uid.clone(), version: self.version };
        Reply { outcome: Outcome::Done, written: Some(written) }
    }

    fn write_pod(&mut self, key: &ObjectKey, uid: &Uid, write: impl FnOnce(&mut Pod) -> bool) -> Reply {
        let Some(pod) = self.pods.get_mut(key).filter(|pod| pod.uid == *uid) else {
            return Reply::of(Outcome::Gone);
        };
        if !write(pod) {
            return Reply::of(Outcome::Conflict);
        }
        self.news.push(Input::Pod(Arc::new(pod.clone())));
        Reply::of(Outcome::Done)
    }

    pub(crate) fn node_of(&self, pod: &str) -> Option<String> {
        self.pods[&ObjectKey::new("ns", pod)].node.as_ref().map(ToString::to_string)
    }

    pub(crate) fn message_of(&self, pod: &str) -> String {
        let pod = &self.pods[&ObjectKey::new("ns", pod)];
        pod.unscheduled.as_ref().map(|condition| condition.message.to_string()).unwrap_or_default()
    }
}

pub(crate) fn node(name: &str, cpu_milli: i64) -> Node {
    Node {
        facts: Arc::new(lazaret_model::Node {
            name: name.into(),
            labels: [("kubernetes.io/hostname".into(), name.into())].into(),
            ..lazaret_model::Node::default()
        }),
        allocatable: Amounts { cpu_milli, memory: 64 << 30, ephemeral_storage: 1 << 40, others: vec![] },
        pods_max: 110,
        ..Node::default()
    }
}

pub(crate) fn slice(node: &str, devices: usize) -> ResourceSlice {
    let device = |at| Device { name: format!("gpu-{at}").into(), ..Device::default() };
    ResourceSlice {
        name: format!("{node}-slice").into(),
        driver: DRIVER.into(),
        pool: PoolSpec { name: node.into(), generation: 1, slice_count: 1 },
        nodes: NodeScope::Node(node.into()),
        devices: (0..devices).map(device).collect(),
        ..ResourceSlice::default()
    }
}

/// A pod with this request and these claims.
pub(crate) fn pod(name: &str, cpu_milli: i64, claims: &[&str]) -> Pod {
    Pod {
        key: ObjectKey::new("ns", name),
        uid: format!("uid-{name}").into(),
        claims: claims
            .iter()
            .map(|claim| PodClaim { name: (*claim).into(), source: ClaimSource::Claim((*claim).into()) })
            .collect(),
        spec: Arc::new(PodSpec {
            requests: Amounts { cpu_milli, ..Amounts::default() },
            weighed: ScoredAmounts { cpu_milli: cpu_milli.max(CPU_MILLI_ASSUMED), memory: MEMORY_ASSUMED },
            ..PodSpec::default()
        }),
        ..Pod::default()
    }
}

/// A claim for `count` devices.
pub(crate) fn claim(name: &str, count: i64) -> ResourceClaim {
    let request =
        DeviceRequest { class: "gpu".into(), mode: AllocationMode::Exact(count), ..DeviceRequest::default() };
    let request = lazaret_model::Request { name: "r".into(), kind: RequestKind::Exactly(request) };
    ResourceClaim {
        key: ObjectKey::new("ns", name),
        uid: format!("claim-{name}").into(),
        spec: Arc::new(ClaimSpec { requests: vec![request], ..ClaimSpec::default() }),
        ..ResourceClaim::default()
    }
}
