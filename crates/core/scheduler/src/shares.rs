//! The resources of a node that its devices take: processors, memory, huge pages.
//!
//! A device can stand for such resources, which are then counted as the pod's (*mapping*), or cost some on top of its
//! use (*overhead*). The amounts that the claims of a pod take in this way are written to the pod's status before the pod is
//! bound, and count as if the pod had requested them.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use lazaret_model::{
    Allocation, DeviceId, DeviceResult, NodeAllocatable, NodeMapping, ObjectKey, PodClaim, Quantity,
    ResourceSlice, Text,
};

use crate::{Amounts, NodeAllocatableStatus, Overhead, Pod, PodSpec, why::ClaimProblem};

/// The amounts that the claims of a pod take of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footprint {
    pub(crate) statuses: Arc<[NodeAllocatableStatus]>,
    /// The amounts counted beside the pod's own requests.
    pub(crate) extra: Arc<Amounts>,
}

/// Resources by name, in order.
type Resources = Vec<(Text, NodeAllocatable)>;

/// The devices that take of their node, by slice. There are as many as such devices are published.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    slices: BTreeMap<Text, Published>,
}

#[derive(Debug, PartialEq, Eq)]
struct Published {
    driver: Text,
    pool: Text,
    devices: BTreeMap<Text, Resources>,
}

impl Shares {
    /// Takes in a slice; whether anything changed.
    pub(crate) fn set(&mut self, slice: &ResourceSlice) -> bool {
        let taking = slice.devices.iter().filter(|device| !device.node_allocatable.is_empty());
        let devices: BTreeMap<Text, Resources> =
            taking.map(|device| (device.name.clone(), device.node_allocatable.clone())).collect();
        if devices.is_empty() {
            return self.remove(&slice.name);
        }
        let published = Published { driver: slice.driver.clone(), pool: slice.pool.name.clone(), devices };
        if self.slices.get(&slice.name) == Some(&published) {
            return false;
        }
        self.slices.insert(slice.name.clone(), published);
        true
    }

    /// A slice is gone; whether anything changed.
    pub(crate) fn remove(&mut self, slice: &Text) -> bool {
        self.slices.remove(slice).is_some()
    }

    fn of(&self, device: &DeviceId) -> &[(Text, NodeAllocatable)] {
        let mut slices =
            self.slices.values().filter(|slice| slice.driver == device.driver && slice.pool == device.pool);
        slices.find_map(|slice| slice.devices.get(&device.device)).map_or(&[], |resources| resources)
    }

    /// Whether a device of the allocation stands for resources of the node.
    pub(crate) fn has_mapping(&self, allocation: &Allocation) -> bool {
        let maps =
            |result: &DeviceResult| self.of(&result.device).iter().any(|(_, taken)| taken.mapping.is_some());
        !self.slices.is_empty() && allocation.results.iter().any(maps)
    }

    /// The amounts that the allocations of a pod's claims take of its node; `None`: nothing.
    pub(crate) fn footprint<'a>(
        &self,
        pod: &Pod,
        claims: impl Iterator<Item = (&'a ObjectKey, &'a Allocation)>,
    ) -> Result<Option<Footprint>, ClaimProblem> {
        if self.slices.is_empty() {
            return Ok(None);
        }
        let mut statuses: Vec<NodeAllocatableStatus> =
            claims.filter_map(|(key, allocation)| self.status(pod, key, allocation)).collect();
        if statuses.is_empty() {
            return Ok(None);
        }
        statuses.sort_by(|a, b| a.claim.cmp(&b.claim));
        let extra = Arc::new(counted(&statuses, &pod.spec)?);
        Ok(Some(Footprint { statuses: statuses.into(), extra }))
    }

    fn status(&self, pod: &Pod, claim: &ObjectKey, allocation: &Allocation) -> Option<NodeAllocatableStatus> {
        let mut mapping: BTreeMap<Text, Quantity> = BTreeMap::new();
        let mut overhead: BTreeMap<Text, Overhead> = BTreeMap::new();
        for result in &allocation.results {
            for (resource, taken) in self.of(&result.device) {
                if let Some(amount) = taken.mapping.as_ref().and_then(|mapping| mapped(mapping, result)) {
                    let sum = mapping.entry(resource.clone()).or_insert_with(Quantity::zero);
                    *sum = sum.add(&amount);
                }
                if taken.per_pod.is_some() || taken.per_container.is_some() {
                    let sum = overhead.entry(resource.clone()).or_default();
                    add(&mut sum.per_pod, taken.per_pod.as_ref());
                    add(&mut sum.per_container, taken.per_container.as_ref());
                }
            }
        }
        if mapping.is_empty() && overhead.is_empty() {
            return None;
        }
        let names_it = |entry: &&PodClaim| entry.claim() == Some(&claim.name);
        let entries: Vec<&Text> = pod.claims.iter().filter(names_it).map(|entry| &entry.name).collect();
        let uses = |users: &&(Text, Vec<Text>)| users.1.iter().any(|entry| entries.contains(&entry));
        Some(NodeAllocatableStatus {
            claim: claim.name.clone(),
            containers: pod.spec.claim_users.iter().filter(uses).map(|(name, _)| name.clone()).collect(),
            mapping: mapping.into_iter().collect(),
            overhead: overhead.into_iter().collect(),
        })
    }
}

fn mapped(mapping: &NodeMapping, result: &DeviceResult) -> Option<Quantity> {
    match mapping {
        NodeMapping::PerDevice(amount) => Some(amount.clone()),
        NodeMapping::Capacity { key, multiplier } => {
            // Capacity that is not consumed takes nothing.
            let (_, consumed) = result.consumed_capacity.iter().find(|(known, _)| known == key)?;
            Some(multiplier.as_ref().map_or_else(|| consumed.clone(), |factor| consumed.mul(factor)))
        }
    }
}

fn add(sum: &mut Option<Quantity>, more: Option<&Quantity>) {
    if let Some(more) = more {
        *sum = Some(sum.as_ref().map_or_else(|| more.clone(), |sum| sum.add(more)));
    }
}

// DEVIATION(node-allocatable-limits): Kubernetes also holds it against the limits of the pod as a whole.
/// The amounts counted beside the pod's own requests. A request of the pod as a whole for a resource covers
/// the amount that its claims take.
///
/// # Errors
/// When it does not.
fn counted(statuses: &[NodeAllocatableStatus], spec: &PodSpec) -> Result<Amounts, ClaimProblem> {
    let mut extra = taken(statuses);
    for level in &spec.pod_level {
        let amount = extra.amount(&level.resource);
        if amount > 0 && level.containers.saturating_add(amount) > level.requested {
            return Err(ClaimProblem::PodLevelTooSmall { resource: level.resource.clone() });
        }
        extra.set(&level.resource, 0);
    }
    Ok(extra)
}

/// The amounts that a pod's claims take of its node beside its own requests, by its status.
#[must_use]
pub fn node_allocatable_extra(statuses: &[NodeAllocatableStatus], spec: &PodSpec) -> Amounts {
    let mut extra = taken(statuses);
    spec.pod_level.iter().for_each(|level| extra.set(&level.resource, 0));
    extra
}

fn taken(statuses: &[NodeAllocatableStatus]) -> Amounts {
    let mut sum: BTreeMap<&Text, Quantity> = BTreeMap::new();
    let mut count = |name, amount: &Quantity| {
        let known = sum.entry(name).or_insert_with(Quantity::zero);
        *known = known.add(amount);
    };
    for status in statuses {
        let users = i64::try_from(status.containers.len()).unwrap_or(i64::MAX);
        status.mapping.iter().for_each(|(name, amount)| count(name, amount));
        for (name, overhead) in &status.overhead {
            overhead.per_pod.iter().for_each(|amount| count(name, amount));
            overhead.per_container.iter().for_each(|amount| count(name, &amount.mul_i64(users)));
        }
    }
    let mut extra = Amounts::default();
    for (name, amount) in sum {
        let units = if *name == "cpu" { amount.mul_i64(1_000) } else { amount };
        extra.set(name, units.value_i64_rounded_up().unwrap_or(i64::MAX));
    }
    extra
}
