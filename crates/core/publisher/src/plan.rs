//! The writes that bring one pool from what a server has to what its driver wants.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::{String, ToString},
    vec::Vec,
};

use k8s_openapi::{
    api::resource::v1::{ResourcePool, ResourceSlice, ResourceSliceSpec},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};

use crate::{
    EffectKind, Nodes, Pool, Scope,
    compare::{has_same_content, keep_times},
    pool::{Content, index_of, name_prefix, split},
};

/// Whose slices these are.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) driver: String,
    pub(crate) scope: Scope,
    /// The Node's incarnation. Slices that name another one are garbage.
    pub(crate) owner: Option<String>,
}

/// The content that was sent, and the content that was stored instead, by the slice's index.
pub(crate) type Accepted = BTreeMap<usize, (ResourceSliceSpec, ResourceSliceSpec)>;

/// One write, and of which slice.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) index: Option<usize>,
    /// The content as the driver wants it, without generation and times.
    pub(crate) wanted: Option<ResourceSliceSpec>,
    pub(crate) effect: EffectKind,
}

/// Plans one pool. `wanted` is none when there is to be no such pool.
pub(crate) fn plan(
    identity: &Identity,
    name: &str,
    wanted: Option<&Pool>,
    existing: &[&ResourceSlice],
    accepted: &Accepted,
) -> VecDeque<Step> {
    let Some(pool) = wanted else { return existing.iter().map(|slice| delete(slice)).collect() };
    let contents = split(pool);
    let count = contents.len();
    let (found, obsolete) = matched(existing, count);
    let newest = existing.iter().map(|slice| slice.spec.pool.generation).max().unwrap_or(0);
    let wanted: Vec<ResourceSliceSpec> =
        contents.into_iter().map(|content| spec(identity, name, pool, content, count)).collect();
    // The content that a server keeps, as far as that is known.
    let kept_of = |index: usize| match accepted.get(&index) {
        Some((sent, stored)) if *sent == wanted[index] => stored,
        Some(_) | None => &wanted[index],
    };
    let is_other = |(index, slice): (&usize, &&ResourceSlice)| {
        let (own, actual) = (&wanted[*index].pool, &slice.spec.pool);
        let is_same_pool = own.name == actual.name && own.resource_slice_count == actual.resource_slice_count;
        !(is_same_pool && has_same_content(kept_of(*index), &slice.spec) && is_owned(identity, slice))
    };
    let others: BTreeSet<usize> =
        found.iter().filter(|entry| is_other(*entry)).map(|(index, _)| *index).collect();
    let needs_write = |index: &usize, slice: &ResourceSlice, generation: i64| {
        others.contains(index) || slice.spec.pool.generation != generation
    };
    let (kept, created) = (found.len(), count - found.len());
    let changed = found.iter().filter(|(index, slice)| needs_write(index, slice, newest)).count();
    let generation = if pool.generation > newest {
        pool.generation
    } else if (created == 0 && changed <= 1) || (kept > 0 && changed == 0) {
        // One write is seen at once. And consumers do not use a pool that lacks slices until the last of them is there.
        newest
    } else {
        newest.saturating_add(1)
    };
    let mut steps: VecDeque<Step> = obsolete.into_iter().map(delete).collect();
    let (mut updates, mut creates) = (Vec::new(), Vec::new());
    for (index, own) in wanted.iter().enumerate() {
        let before = found.get(&index);
        if before.is_some_and(|slice| !needs_write(&index, slice, generation)) {
            continue;
        }
        let mut spec = ResourceSliceSpec { pool: own.pool.clone(), ..kept_of(index).clone() };
        spec.pool.generation = generation;
        keep_times(&mut spec, existing.iter().map(|slice| &slice.spec));
        let (effect, list) = match before {
            None => (EffectKind::Create(Box::new(create(identity, index, spec))), &mut creates),
            Some(slice) => (EffectKind::Update(Box::new(update(identity, slice, spec))), &mut updates),
        };
        list.push(Step { index: Some(index), wanted: Some(own.clone()), effect });
    }
    steps.extend(updates);
    steps.extend(creates);
    steps
}

/// Which existing slice is which of the pool; those that are none, or one too many. The newest generation stays.
fn matched<'a>(
    existing: &[&'a ResourceSlice],
    count: usize,
) -> (BTreeMap<usize, &'a ResourceSlice>, Vec<&'a ResourceSlice>) {
    let mut sorted = existing.to_vec();
    sorted.sort_by_key(|slice| (core::cmp::Reverse(slice.spec.pool.generation), slice.metadata.name.clone()));
    let (mut found, mut obsolete) = (BTreeMap::new(), Vec::new());
    for slice in sorted {
        let index = slice.metadata.name.as_deref().and_then(index_of).filter(|index| *index < count);
        match index {
            Some(index) if !found.contains_key(&index) => drop(found.insert(index, slice)),
            Some(_) | None => obsolete.push(slice),
        }
    }
    (found, obsolete)
}

fn spec(identity: &Identity, name: &str, pool: &Pool, content: Content, count: usize) -> ResourceSliceSpec {
    let (mut node_name, mut all_nodes, mut node_selector, mut per_device) = (None, None, None, None);
    match (&pool.nodes, &identity.scope) {
        (Nodes::Local, Scope::Node { name }) => node_name = Some(name.clone()),
        (Nodes::All, _) | (Nodes::Local, Scope::Pool { .. } | Scope::Cluster) => all_nodes = Some(true),
        (Nodes::Selected(selector), _) => node_selector = Some(selector.clone()),
        (Nodes::PerDevice, _) => per_device = Some(true),
    }
    let mut devices = content.devices;
    for taint in devices.iter_mut().flat_map(|device| device.taints.iter_mut().flatten()) {
        // Servers keep seconds.
        let seconds = taint.time_added.as_ref().map(|time| time.0.as_second());
        let whole = seconds.and_then(|seconds| k8s_openapi::jiff::Timestamp::from_second(seconds).ok());
        taint.time_added = whole.map(Time);
    }
    ResourceSliceSpec {
        all_nodes,
        devices: Some(devices).filter(|devices| !devices.is_empty()),
        driver: identity.driver.clone(),
        node_name,
        node_selector,
        partition_type_attribute: pool.partition_type_attribute.clone(),
        per_device_node_selection: per_device,
        pool: ResourcePool {
            generation: 0,
            name: name.to_string(),
            resource_slice_count: i64::try_from(count).unwrap_or(i64::MAX),
        },
        shared_counters: Some(content.shared_counters).filter(|sets| !sets.is_empty()),
        skip_node_operations: Some(pool.skip_node_operations.clone()).filter(|list| !list.is_empty()),
    }
}

fn owner(identity: &Identity) -> Option<Vec<OwnerReference>> {
    let reference = OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: identity.scope.owner()?.to_string(),
        uid: identity.owner.clone()?,
        controller: Some(true),
        block_owner_deletion: None,
    };
    Some(alloc::vec![reference])
}

fn is_owned(identity: &Identity, slice: &ResourceSlice) -> bool {
    let uids = slice.metadata.owner_references.iter().flatten().map(|owner| owner.uid.as_str());
    match (identity.scope.owner(), &identity.owner) {
        (Some(_), Some(uid)) => uids.eq([uid.as_str()]),
        (Some(_), None) | (None, _) => true,
    }
}

fn create(identity: &Identity, index: usize, spec: ResourceSliceSpec) -> ResourceSlice {
    let metadata = ObjectMeta {
        generate_name: Some(name_prefix(index, &identity.driver, &identity.scope)),
        owner_references: owner(identity),
        ..ObjectMeta::default()
    };
    ResourceSlice { metadata, spec }
}

fn update(identity: &Identity, slice: &ResourceSlice, spec: ResourceSliceSpec) -> ResourceSlice {
    let mut metadata = slice.metadata.clone();
    metadata.managed_fields = None;
    metadata.owner_references = owner(identity).or(metadata.owner_references);
    ResourceSlice { metadata, spec }
}

fn delete(slice: &ResourceSlice) -> Step {
    let effect = EffectKind::Delete {
        name: slice.metadata.name.clone().unwrap_or_default(),
        uid: slice.metadata.uid.clone().unwrap_or_default(),
        resource_version: slice.metadata.resource_version.clone().unwrap_or_default(),
    };
    Step { index: None, wanted: None, effect }
}
