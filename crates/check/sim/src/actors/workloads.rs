//! The workloads of a world: which pods its ReplicaSets, StatefulSets and Jobs want, and which run from the start. The controllers that ship
//! make the others.

use std::sync::Arc;

use lazaret_model::{
    Allocation, ClaimSource, Consumer, DeviceId, DeviceResult, NodeSelector, NodeSelectorTerm, ObjectKey,
    Operator, Owner, Pod, PodClaim, PodGroup, PodPhase, Quantity, Requirement, ResourceClaim, Text, Uid,
};

use crate::{
    actors::{
        claims::{Specs, request_of, resolve, share_of},
        owners::OwnerHistory,
    },
    palette,
    rng::Rng,
    world::World,
};

/// The most pods that one workload wants.
const REPLICAS_MAX: u64 = 12;
/// The names of a pod's claims.
const CLAIM_NAMES: [&str; 3] = ["c0", "c1", "c2"];
/// The name of the claim that all pods of a workload share.
pub(crate) const SHARED: &str = "shared";
/// The API group of groups of pods.
const SCHEDULING_GROUP: &str = "scheduling.k8s.io";
/// The kind of the owner of a workload's pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeper {
    ReplicaSet,
    StatefulSet,
    Job,
    /// A person started them. None is replaced.
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
pub(crate) struct Workload {
    pub(crate) number: usize,
    pub(crate) keeper: Keeper,
    pub(crate) namespace: Text,
    pub(crate) name: Text,
    shape: Shape,
    /// Pods that it wants at the start.
    pub(crate) replicas: u32,
    /// Creations and deletions of its pods by controllers.
    pub(crate) history: OwnerHistory,
}

/// All workloads, and what the claim controller knows of their pods.
#[derive(Clone, Debug)]
pub(crate) struct Workloads {
    pub(crate) all: Vec<Workload>,
    /// By number of the pod's key.
    by_pod: Vec<u32>,
    pub(crate) specs: Specs,
    rng: Rng,
}

impl Workloads {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { all: Vec::new(), by_pod: Vec::new(), specs: Specs::default(), rng }
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

    /// The workload that a pod is for.
    fn of_pod(&self, pod: u32) -> Option<&Workload> {
        self.all.get(*self.by_pod.get(pod as usize)? as usize)
    }

    /// The pod that a workload wants for the key of this number.
    pub(crate) fn shape(&self, pod: u32) -> Option<&Shape> {
        self.of_pod(pod).map(|workload| &workload.shape)
    }

    /// The number of the workload that the pod whose key has this number is for.
    pub(crate) fn number_of(&self, pod: u32) -> Option<usize> {
        self.of_pod(pod).map(|workload| workload.number)
    }

    /// Whether the pod whose key has this number is to end by itself.
    pub(crate) fn is_job(&self, pod: u32) -> bool {
        self.of_pod(pod).is_some_and(|workload| workload.keeper == Keeper::Job)
    }

    /// Notes what a pod that the server knows by now is for.
    pub(crate) fn employ(&mut self, pod: Option<u32>, workload: usize) {
        let Some(at) = pod.map(|pod| pod as usize) else { return };
        if at >= self.by_pod.len() {
            self.by_pod.resize(at + 1, u32::MAX);
        }
        self.by_pod[at] = u32::try_from(workload).unwrap_or(u32::MAX);
    }

    /// The workload whose owner has this UID.
    pub(crate) fn owned_by(&self, uid: &str) -> Option<usize> {
        uid.strip_prefix('w')?.parse().ok().filter(|number| *number < self.all.len())
    }

    fn draw(&mut self, number: usize, pods: u32, wide: bool) -> Workload {
        let rng = &mut self.rng;
        let keeper = match rng.below(10) {
            0..=4 => Keeper::ReplicaSet,
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
        let replicas = u32::try_from(replicas).unwrap_or(1);
        Workload {
            number,
            keeper,
            namespace: palette::word(rng.pick(&palette::NAMESPACES)),
            name,
            shape,
            replicas,
            history: OwnerHistory { most: replicas, ..OwnerHistory::default() },
        }
    }
}

impl Workload {
    /// A pod of it, pending.
    pub(crate) fn pod(&self, name: Text, uid: Uid, owner: Option<Owner>, protected: bool) -> Pod {
        let key = ObjectKey { namespace: self.namespace.clone(), name };
        let template = |(at, class): (usize, &&'static str)| PodClaim {
            name: palette::word(CLAIM_NAMES[at % CLAIM_NAMES.len()]),
            source: ClaimSource::Template { template: palette::word(class), resolved: None },
        };
        let mut claims: Vec<PodClaim> = self.shape.classes.iter().enumerate().map(template).collect();
        if let Some(shared) = &self.shape.shared {
            let grouped = self.shape.grouped;
            let source = if grouped { shared_source(shared) } else { ClaimSource::Claim(shared.clone()) };
            claims.push(PodClaim { name: palette::word(SHARED), source });
        }
        let group = self.shape.grouped.then(|| self.name.clone());
        let eviction_preference = palette::say(&uid).filter(|_| protected);
        let eviction_group = palette::is_grouped(&self.name).then(|| self.name.clone()).filter(|_| protected);
        Pod { key, uid, claims, owner, group, eviction_preference, eviction_group, ..Pod::default() }
    }

    /// The name of a pod that is there from the start.
    fn first_name(&self, slot: u32) -> Text {
        match self.keeper {
            Keeper::StatefulSet => palette::text(format_args!("{}-{slot}", self.name)),
            Keeper::ReplicaSet | Keeper::Job | Keeper::Nobody => {
                palette::text(format_args!("{}-{slot}-0", self.name))
            }
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
            let replicas = workload.replicas;
            left -= replicas.min(left);
            if let Some(shared) = &workload.shape.shared {
                let key = ObjectKey::new(workload.namespace.clone(), shared.clone());
                let uid = self.api.new_uid();
                let (specs, tolerations) = (&mut self.workloads.specs, workload.shape.tolerations);
                let mut claim = specs.new_claim(key, uid, palette::CLASSES[0], tolerations);
                claim.owner = workload.shape.grouped.then(|| group_owner(&workload.name));
                self.api.claims.put(&mut self.api.versions, claim);
            }
            self.create_owner(&workload);
            self.workloads.all.push(workload);
            for slot in 0..replicas {
                let uid = self.api.new_uid();
                let workload = &self.workloads.all[number];
                self.api.note_pod(&uid, workload.first_notes(slot));
                let protected = self.config.protected != 0;
                let pod = workload.pod(workload.first_name(slot), uid, workload.owner(), protected);
                self.settle(pod, number, &mut free);
            }
        }
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
    fn settle(&mut self, mut pod: Pod, number: usize, free: &mut Free) {
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
        self.workloads.employ(self.api.pods.number(&key), number);
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
pub(super) fn group_owner(name: &Text) -> Owner {
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
