//! The owners of pods: deployments, stateful sets, jobs, and people who start a single one.

use std::{collections::BTreeSet, sync::Arc};

use hashbrown::HashSet;
use lazaret_model::{
    Allocation, ClaimSource, Consumer, DeviceId, DeviceResult, NodeSelector, NodeSelectorTerm, ObjectKey,
    Operator, Owner, Pod, PodClaim, PodGroup, PodPhase, Quantity, Requirement, ResourceClaim, Text, Uid,
};
use rustc_hash::FxBuildHasher;

use crate::{
    actors::claims::{Specs, request_of, resolve, share_of},
    palette,
    rng::Rng,
    world::{Step, World},
};

/// An owner replaces a pod within this time.
const RECREATE_MS_MAX: u32 = 500;
/// A job's pod takes at most this long.
const JOB_MS_MAX: u64 = 60_000;
/// The most pods that one workload wants.
const REPLICAS_MAX: u64 = 12;
/// The names of a pod's claims.
const CLAIM_NAMES: [&str; 3] = ["c0", "c1", "c2"];
/// The name of the claim that all pods of a workload share.
pub(crate) const SHARED: &str = "shared";
/// The API group of groups of pods.
const SCHEDULING_GROUP: &str = "scheduling.k8s.io";
/// No workload makes more pods than this for one slot: a world comes to rest.
const RECREATED_MAX: u32 = 40;
/// And no more than this when faults have ended.
const RECREATED_AT_REST: u32 = 6;

/// How a workload's pods are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeper {
    /// At once, by a pod with a new name.
    Deployment,
    /// After it is gone, by a pod of the same name.
    StatefulSet,
    /// As a deployment, unless it ended.
    Job,
    /// Not at all.
    Nobody,
}

/// The claims of a workload's pods.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Templates by class.
    classes: Vec<&'static str>,
    /// A claim that all its pods share.
    shared: Option<Text>,
    /// They share it as a group: it is made for the group, from a template, and reserved for the group.
    grouped: bool,
    /// Devices come by an extended resource.
    pub(crate) extended: bool,
    pub(crate) tolerations: u32,
}

#[derive(Clone, Debug)]
struct Workload {
    keeper: Keeper,
    namespace: Text,
    name: Text,
    shape: Shape,
    /// The pod of each slot, and how many there have been.
    slots: Vec<(Option<ObjectKey>, u32)>,
}

/// All workloads, and what kubelets and the claim controller know of their pods.
#[derive(Clone, Debug)]
pub(crate) struct Workloads {
    all: Vec<Workload>,
    /// By number of the pod's key: workload and slot.
    by_pod: Vec<(u32, u32)>,
    pub(crate) starting: HashSet<Uid, FxBuildHasher>,
    pub(crate) terminating: HashSet<Uid, FxBuildHasher>,
    pub(crate) slow_nodes: BTreeSet<Text>,
    pub(crate) specs: Specs,
    rng: Rng,
}

impl Workloads {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            all: Vec::new(),
            by_pod: Vec::new(),
            starting: HashSet::default(),
            terminating: HashSet::default(),
            slow_nodes: BTreeSet::new(),
            specs: Specs::default(),
            rng,
        }
    }

    /// Kubelets are quick again. Owners soon make no more pods: one that is placed onto a device with a taint that it tolerates for some seconds
    /// comes and goes for ever.
    pub(crate) fn recover(&mut self) {
        self.slow_nodes.clear();
        for (_, made) in self.all.iter_mut().flat_map(|workload| &mut workload.slots) {
            *made = (*made).max(RECREATED_MAX - RECREATED_AT_REST);
        }
    }

    /// The groups whose pods share a claim. They live for ever.
    pub(crate) fn groups(&self) -> impl Iterator<Item = PodGroup> {
        self.all.iter().filter(|workload| workload.shape.grouped).filter_map(|workload| {
            let claim = PodClaim {
                name: palette::word(SHARED),
                source: shared_source(workload.shape.shared.as_ref()?),
            };
            let owner = group_owner(&workload.name);
            let key = ObjectKey::new(workload.namespace.clone(), owner.name);
            Some(PodGroup { key, uid: owner.uid, claims: vec![claim], ..PodGroup::default() })
        })
    }

    /// From here on, chance comes from this.
    pub(crate) fn draw_from(&mut self, rng: Rng) {
        self.rng = rng;
    }

    /// The workload and the slot that a pod is for.
    fn place_of(&self, pod: u32) -> Option<(usize, usize)> {
        let (workload, slot) = *self.by_pod.get(pod as usize)?;
        (workload != u32::MAX).then_some((workload as usize, slot as usize))
    }

    /// The pod that a workload wants for the key of this number.
    pub(crate) fn shape(&self, pod: u32) -> Option<&Shape> {
        self.place_of(pod).map(|(workload, _)| &self.all[workload].shape)
    }

    /// The number of the workload that the pod whose key has this number is for.
    pub(crate) fn number_of(&self, pod: u32) -> Option<usize> {
        self.place_of(pod).map(|(workload, _)| workload)
    }

    /// A copy is for what the pod is for that it replaces.
    pub(crate) fn place_copy(&mut self, copy: u32, of: u32) {
        if let Some((workload, slot)) = self.place_of(of) {
            self.placed(copy, workload, slot);
        }
    }

    /// The owner of a pod as its owner reference names it.
    pub(crate) fn controller_of(&self, owner: &Owner) -> Owner {
        let number = owner.name.get(1..).and_then(|number| number.parse::<usize>().ok());
        let keeper = number.and_then(|number| self.all.get(number)).map(|workload| workload.keeper);
        let (group, kind) = match keeper {
            Some(Keeper::Deployment) => ("apps", "ReplicaSet"),
            Some(Keeper::StatefulSet) => ("apps", "StatefulSet"),
            Some(Keeper::Job | Keeper::Nobody) | None => ("batch", "Job"),
        };
        Owner { group: palette::word(group), kind: palette::word(kind), ..owner.clone() }
    }

    /// The replica sets: namespace, name, how many pods each wants. They live for ever.
    pub(crate) fn replica_sets(&self) -> impl Iterator<Item = (ObjectKey, usize)> {
        let sets = self.all.iter().filter(|workload| workload.keeper == Keeper::Deployment);
        sets.map(|set| (ObjectKey::new(set.namespace.clone(), set.name.clone()), set.slots.len()))
    }

    fn placed(&mut self, pod: u32, workload: usize, slot: usize) {
        let at = pod as usize;
        if at >= self.by_pod.len() {
            self.by_pod.resize(at + 1, (u32::MAX, 0));
        }
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        self.by_pod[at] = (number(workload), number(slot));
    }

    fn draw(&mut self, number: usize, pods: u32, wide: bool) -> Workload {
        let rng = &mut self.rng;
        let keeper = match rng.below(10) {
            0..=4 => Keeper::Deployment,
            5 | 6 => Keeper::StatefulSet,
            7 => Keeper::Job,
            _ => Keeper::Nobody,
        };
        let name: Text = format!("w{number}").into();
        let kind = rng.below(10);
        let classes: &[&'static str] = match kind {
            0 | 1 => &[palette::CLASSES[0], palette::CLASSES[1]],
            2 => &[palette::CLASSES[0], palette::CLASSES[0]],
            3 => &[palette::CLASSES[1]],
            8 | 9 => &[],
            _ => &[palette::CLASSES[0]],
        };
        let mut classes = classes.to_vec();
        if wide && kind < 8 && rng.chance(300) {
            if rng.chance(500) {
                classes.clear();
            }
            classes.push(palette::FABRIC);
        }
        let shape = Shape {
            classes,
            shared: (kind == 8).then(|| format!("{name}-shared").into()),
            grouped: kind == 8 && wide && rng.chance(500),
            extended: kind == 9,
            tolerations: u32::try_from(rng.below(72)).unwrap_or(0),
        };
        let replicas = rng.between(1, REPLICAS_MAX).min(u64::from(pods));
        Workload {
            keeper,
            namespace: palette::word(rng.pick(&palette::NAMESPACES)),
            name,
            shape,
            slots: vec![(None, 0); usize::try_from(replicas).unwrap_or(1)],
        }
    }
}

impl World {
    /// The workloads of the start, their pods running where devices allow it.
    pub(crate) fn create_workloads(&mut self) {
        let mut free = Free {
            whole: self
                .drivers
                .pools
                .iter()
                .map(|pool| {
                    pool.names()
                        .map(|name| DeviceId {
                            driver: pool.driver.clone(),
                            pool: pool.name.clone(),
                            device: name.clone(),
                        })
                        .collect()
                })
                .collect(),
            bandwidth_used: 0,
        };
        let mut left = self.config.pods;
        while left > 0 {
            let number = self.workloads.all.len();
            let workload = self.workloads.draw(number, left, self.config.wide != 0);
            let slots = workload.slots.len();
            left -= u32::try_from(slots).unwrap_or(left).min(left);
            if let Some(shared) = &workload.shape.shared {
                let key = ObjectKey::new(workload.namespace.clone(), shared.clone());
                let uid = self.api.new_uid();
                let (specs, tolerations) = (&mut self.workloads.specs, workload.shape.tolerations);
                let mut claim = specs.new_claim(key, uid, palette::CLASSES[0], tolerations);
                claim.owner = workload.shape.grouped.then(|| group_owner(&workload.name));
                self.api.claims.put(&mut self.api.versions, claim);
            }
            self.workloads.all.push(workload);
            for slot in 0..slots {
                if let Some(pod) = self.new_pod(number, slot) {
                    self.settle(pod, number, slot, &mut free);
                }
            }
        }
    }

    /// Makes the pod of a slot, pending.
    pub(crate) fn recreate(&mut self, number: usize, slot: usize) {
        let Some(pod) = self.new_pod(number, slot) else { return };
        let key = pod.key.clone();
        if self.api.pods.create(&mut self.api.versions, pod).is_err() {
            // The name is still taken: its owner hears when it is free.
            self.workloads.all[number].slots[slot].0 = None;
        }
        self.employ(&key, number, slot);
    }

    /// The next pod of a slot, unless it has one or had enough of them.
    fn new_pod(&mut self, number: usize, slot: usize) -> Option<Pod> {
        let workload = &mut self.workloads.all[number];
        let (current, made) = &mut workload.slots[slot];
        if current.is_some() || *made >= RECREATED_MAX {
            return None;
        }
        let name = match workload.keeper {
            Keeper::StatefulSet => palette::text(format_args!("{}-{slot}", workload.name)),
            Keeper::Deployment | Keeper::Job | Keeper::Nobody => {
                palette::text(format_args!("{}-{slot}-{made}", workload.name))
            }
        };
        *made += 1;
        let key = ObjectKey::new(workload.namespace.clone(), name);
        *current = Some(key.clone());
        let template = |(at, class): (usize, &&'static str)| PodClaim {
            name: palette::word(CLAIM_NAMES[at % CLAIM_NAMES.len()]),
            source: ClaimSource::Template { template: palette::word(class), resolved: None },
        };
        let mut claims: Vec<PodClaim> = workload.shape.classes.iter().enumerate().map(template).collect();
        if let Some(shared) = &workload.shape.shared {
            let grouped = workload.shape.grouped;
            let source = if grouped { shared_source(shared) } else { ClaimSource::Claim(shared.clone()) };
            claims.push(PodClaim { name: palette::word(SHARED), source });
        }
        let owner = match workload.keeper {
            Keeper::Nobody => None,
            Keeper::Deployment | Keeper::StatefulSet | Keeper::Job => Some(Owner {
                group: palette::word("apps"),
                kind: palette::word("Workload"),
                name: workload.name.clone(),
                uid: workload.name.clone(),
            }),
        };
        let group = workload.shape.grouped.then(|| workload.name.clone());
        let uid = self.api.new_uid();
        let eviction_say = palette::say(&uid).filter(|_| self.config.protected != 0);
        let eviction_group = palette::is_grouped(&workload.name).then(|| workload.name.clone());
        let eviction_group = eviction_group.filter(|_| self.config.protected != 0);
        Some(Pod { key, uid, claims, owner, group, eviction_say, eviction_group, ..Pod::default() })
    }

    /// Notes what a pod that the server knows by now is for.
    fn employ(&mut self, key: &ObjectKey, number: usize, slot: usize) {
        let Some(pod) = self.api.pods.number(key) else { return };
        self.workloads.placed(pod, number, slot);
    }

    /// The claims that the workload of the pod whose key has this number wants for it.
    pub(crate) fn shape_of(&self, pod: u32) -> Option<&Shape> {
        self.workloads.shape(pod)
    }

    /// The number of the claim that all pods of a workload share.
    fn shared_claim(&self, number: usize) -> Option<u32> {
        let workload = &self.workloads.all[number];
        let key = ObjectKey::new(workload.namespace.clone(), workload.shape.shared.clone()?);
        self.api.claims.number(&key)
    }

    /// Gives a new pod its claims, its devices and a node, as if that had happened long ago; as much of it as there
    /// is for it.
    fn settle(&mut self, mut pod: Pod, number: usize, slot: usize, free: &mut Free) {
        let shape = &self.workloads.all[number].shape;
        let (extended, tolerations) = (shape.extended, shape.tolerations);
        let mut claims = self.new_claims(&pod, extended, tolerations);
        resolve(&mut pod, extended, claims.iter().map(|(entry, claim)| (entry, &claim.key.name)));
        if let Some(stored) = self.shared_claim(number).and_then(|at| self.api.claims.now(at)) {
            claims.push((Text::default(), ResourceClaim::clone(stored.object)));
        }
        let mut claims: Vec<ResourceClaim> = claims.into_iter().map(|(_, claim)| claim).collect();
        if let Some(node) = self.give_devices(&pod, &mut claims, free) {
            pod.node = Some(node);
            pod.phase = PodPhase::Running;
        }
        let key = pod.key.clone();
        for claim in claims {
            self.api.claims.put(&mut self.api.versions, claim);
        }
        self.api.pods.put(&mut self.api.versions, pod);
        self.employ(&key, number, slot);
    }

    /// Reserves devices for a pod's claims on some node that has enough, if any does.
    fn give_devices(&mut self, pod: &Pod, claims: &mut [ResourceClaim], free: &mut Free) -> Option<Text> {
        let allocated = claims.iter().find_map(|claim| claim.allocation.as_ref());
        let nodes = self.config.nodes;
        let first = u32::try_from(self.rng.below(u64::from(nodes))).unwrap_or(0);
        let fixed = allocated.and_then(|allocation| node_of(allocation));
        let (number, node) = (0..nodes)
            .map(|step| (first + step) % nodes)
            .map(|number| (number, palette::node(number)))
            .find(|(number, node)| {
                fixed.is_none_or(|fixed| fixed == node) && free.has_enough(*number, claims)
            })?;
        let mut given = Vec::with_capacity(claims.len());
        for claim in claims.iter() {
            given.push(match &claim.allocation {
                Some(allocation) => Arc::clone(allocation),
                None => {
                    let device = match share_of(claim) {
                        Some(share) => free.share(share),
                        None => free.whole[pool_number(driver_of(claim), number)].pop(),
                    }?;
                    Arc::new(allocation(claim, device))
                }
            });
        }
        for (claim, given) in claims.iter_mut().zip(given) {
            claim.allocation = Some(given);
            reserve(claim, pod);
        }
        Some(node)
    }

    /// The pods of jobs that run from the start end by themselves.
    pub(crate) fn plan_ends(&mut self) {
        let jobs = self.workloads.all.iter().filter(|workload| workload.keeper == Keeper::Job);
        let pods: Vec<ObjectKey> =
            jobs.flat_map(|job| &job.slots).filter_map(|(pod, _)| pod.clone()).collect();
        for key in pods {
            let running = self.api.pods.get(&key).filter(|stored| stored.object.node.is_some());
            if let Some(uid) = running.map(|stored| stored.object.uid.clone()) {
                self.plan_end(&key, &uid);
            }
        }
    }

    /// A job's pod ends by itself.
    pub(crate) fn plan_end(&mut self, key: &ObjectKey, uid: &Uid) {
        let place = self.api.pods.number(key).and_then(|pod| self.workloads.place_of(pod));
        if place.is_some_and(|(number, _)| self.workloads.all[number].keeper == Keeper::Job) {
            let at = self.now + self.workloads.rng.below(JOB_MS_MAX);
            self.push(at, Step::EndPod(key.clone(), uid.clone()));
        }
    }

    /// A pod was written: its owner may want another.
    pub(crate) fn owner_sees(&mut self, key: &ObjectKey, at: u32, pod: Option<&Pod>) {
        let Some((number, slot)) = self.workloads.place_of(at) else { return };
        let workload = &mut self.workloads.all[number];
        if workload.slots[slot].0.as_ref() != Some(key) {
            return;
        }
        let replace = match workload.keeper {
            Keeper::Nobody => false,
            Keeper::StatefulSet => pod.is_none(),
            // A pod without an owner was released.
            Keeper::Deployment => pod.is_none_or(|pod| pod.deleting_since.is_some() || pod.owner.is_none()),
            Keeper::Job => pod.is_none_or(|pod| pod.deleting_since.is_some() && !pod.phase.is_finished()),
        };
        if replace {
            workload.slots[slot].0 = None;
            self.push_soon(RECREATE_MS_MAX, Step::Recreate(number, slot));
        }
    }
}

/// The devices that are not allocated at the start.
struct Free {
    /// Devices by pool.
    whole: Vec<Vec<DeviceId>>,
    /// How much is given out of the device of the fabric, the last of the pools, that is being given out.
    bandwidth_used: i64,
}

impl Free {
    /// Whether a node has enough whole devices left for those of these claims that have none.
    fn has_enough(&self, node: u32, claims: &[ResourceClaim]) -> bool {
        palette::DRIVERS.iter().all(|driver| {
            let wanting = claims.iter().filter(|claim| claim.allocation.is_none());
            let wanted = wanting.filter(|claim| driver_of(claim) == *driver).count();
            self.whole[pool_number(driver, node)].len() >= wanted
        })
    }

    /// A device of the fabric that has so much left.
    fn share(&mut self, share: i64) -> Option<DeviceId> {
        let fabric = self.whole.last_mut()?;
        if self.bandwidth_used + share > palette::BANDWIDTH_MAX {
            fabric.pop();
            self.bandwidth_used = 0;
        }
        self.bandwidth_used += share;
        fabric.last().cloned()
    }
}

/// The driver whose device a claim is for.
pub(crate) fn driver_of(claim: &ResourceClaim) -> &'static str {
    request_of(claim).map_or(palette::DRIVERS[0], |request| palette::driver_of_class(&request.class))
}

/// The node that an allocation ties its pods to, if any: pools are named after theirs.
pub(crate) fn node_of(allocation: &Allocation) -> Option<&Text> {
    allocation.results.iter().map(|result| &result.device.pool).find(|pool| **pool != palette::FABRIC)
}

/// One device, or a share of one, for the one request of a claim.
pub(crate) fn allocation(claim: &ResourceClaim, device: DeviceId) -> Allocation {
    let share = share_of(claim);
    let consumed = |share: i64| (palette::word(palette::BANDWIDTH), Quantity::from_i64(share));
    let result = DeviceResult {
        request: palette::word("r"),
        device,
        admin_access: false,
        tolerations: request_of(claim).map_or_else(Vec::new, |request| request.tolerations.clone()),
        binding_conditions: Vec::new(),
        binding_failure_conditions: Vec::new(),
        share_id: share.map(|_| claim.uid.clone()),
        consumed_capacity: share.map(consumed).into_iter().collect(),
        skip_node_operations: Vec::new(),
    };
    let node_selector = (result.device.pool != palette::FABRIC).then(|| only(&result.device.pool));
    Allocation { results: vec![result], node_selector, ..Allocation::default() }
}

/// Selects one node.
fn only(node: &Text) -> NodeSelector {
    let by_name = Requirement {
        key: palette::word("metadata.name"),
        operator: Operator::In,
        values: vec![node.clone()],
    };
    let term = NodeSelectorTerm { match_fields: vec![by_name], ..NodeSelectorTerm::default() };
    NodeSelector { terms: vec![term] }
}

/// The claim of a group, by its template.
fn shared_source(claim: &Text) -> ClaimSource {
    let resolved = Some(Some(claim.clone()));
    ClaimSource::Template { template: palette::word(palette::CLASSES[0]), resolved }
}

/// The group of a workload's pods as the owner of a claim.
fn group_owner(name: &Text) -> Owner {
    Owner {
        group: SCHEDULING_GROUP.into(),
        kind: "PodGroup".into(),
        name: name.clone(),
        uid: format!("{name}-group").into(),
    }
}

/// Whether a claim was made for the group that a pod is in.
pub(crate) fn is_of_group(claim: &ResourceClaim, pod: &Pod) -> bool {
    claim
        .owner
        .as_ref()
        .is_some_and(|owner| owner.kind == "PodGroup" && pod.group.as_ref() == Some(&owner.name))
}

/// Reserves a claim for a pod, or for its group if it is the group's.
pub(crate) fn reserve(claim: &mut ResourceClaim, pod: &Pod) {
    let user = match &claim.owner {
        Some(owner) if is_of_group(claim, pod) => Consumer {
            api_group: owner.group.clone(),
            resource: palette::word("podgroups"),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        },
        Some(_) | None => Consumer {
            api_group: palette::word(""),
            resource: palette::word("pods"),
            name: pod.key.name.clone(),
            uid: pod.uid.clone(),
        },
    };
    if !claim.reserved_for.contains(&user) {
        claim.reserved_for.push(user);
    }
}

/// The place of a pool among the drivers' pools: by node, then by driver.
fn pool_number(driver: &str, node: u32) -> usize {
    node as usize * palette::DRIVERS.len() + usize::from(driver != palette::DRIVERS[0])
}
