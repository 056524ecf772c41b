//! Endpoints put into slices: few writes first, then full slices.

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};

use crate::{meta, names, prelude::*, writes};

/// The object that slices are made for.
pub(super) struct Owner<'a> {
    pub(super) resource: &'static Resource,
    pub(super) metadata: &'a ObjectMeta,
    /// Labels of every slice.
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: Option<BTreeMap<String, String>>,
    /// A slice has no more endpoints.
    pub(super) endpoints_max: usize,
}

/// Endpoints with the same ports.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) address_type: &'static str,
    pub(super) ports: Vec<EndpointPort>,
    pub(super) endpoints: BTreeMap<Identity, Endpoint>,
}

/// Ports, so that what has the same ones is found without looking at the others.
pub(super) type PortKey = Vec<(Option<String>, Option<i32>, Option<String>, Option<String>)>;

pub(super) fn port_key(ports: &[EndpointPort]) -> PortKey {
    let key = |port: &EndpointPort| {
        (port.name.clone(), port.port, port.protocol.clone(), port.app_protocol.clone())
    };
    ports.iter().map(key).collect()
}

/// The identity of an endpoint: its addresses and its target.
pub(super) type Identity = (Vec<String>, Option<String>, Option<String>);

pub(super) fn identity(endpoint: &Endpoint) -> Identity {
    let target = endpoint.target_ref.as_ref();
    (
        endpoint.addresses.clone(),
        target.and_then(|target| target.name.clone()),
        target.and_then(|target| target.uid.clone()),
    )
}

/// Changes that are to be made to the slices of one owner.
#[derive(Default)]
struct Changes {
    create: Vec<EndpointSlice>,
    update: Vec<EndpointSlice>,
    delete: Vec<Arc<EndpointSlice>>,
}

/// Brings the slices of one address type in line with the groups of that type. `placeholder`: there is always a slice, if need be an empty one.
pub(super) fn pack(
    context: &Context<'_>,
    owner: &Owner<'_>,
    existing: &[Arc<EndpointSlice>],
    groups: BTreeMap<PortKey, Group>,
    placeholder: Option<&'static str>,
    plan: &mut Plan,
) {
    let mut changes = Changes::default();
    let mut by_ports: BTreeMap<PortKey, Vec<Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in existing {
        let key = port_key(slice.ports.as_deref().unwrap_or_default());
        if groups.contains_key(&key) {
            by_ports.entry(key).or_default().push(Arc::clone(slice));
        } else {
            changes.delete.push(Arc::clone(slice));
        }
    }
    for (key, group) in groups {
        pack_group(owner, by_ports.remove(&key).unwrap_or_default(), group, &mut changes);
    }
    if let Some(address_type) = placeholder
        && changes.delete.len() == existing.len()
        && changes.create.is_empty()
    {
        let empty = new_slice(owner, address_type, Vec::new(), Vec::new());
        let is_empty = |slice: &EndpointSlice| {
            slice.address_type == empty.address_type
                && slice.endpoints.iter().flatten().next().is_none()
                && slice.ports.iter().flatten().next().is_none()
                && slice.metadata.labels == empty.metadata.labels
        };
        match changes.delete.as_slice() {
            [only] if is_empty(only) => changes.delete.clear(),
            _ => changes.create.push(empty),
        }
    }
    write(context, owner, changes, plan);
}

fn pack_group(owner: &Owner<'_>, existing: Vec<Arc<EndpointSlice>>, mut group: Group, changes: &mut Changes) {
    let (mut changed, mut unchanged) = (Vec::new(), Vec::new());
    for slice in existing {
        let before = slice.endpoints.as_deref().unwrap_or_default();
        let kept: Vec<Endpoint> =
            before.iter().filter_map(|endpoint| group.endpoints.remove(&identity(endpoint))).collect();
        if kept != before && kept.is_empty() {
            changes.delete.push(slice);
        } else if kept != before || !is_labelled(owner, &slice) {
            changed.push((slice, kept));
        } else {
            unchanged.push(slice);
        }
    }
    for (_, endpoints) in &mut changed {
        while endpoints.len() < owner.endpoints_max
            && let Some((_, endpoint)) = group.endpoints.pop_first()
        {
            endpoints.push(endpoint);
        }
    }
    while !group.endpoints.is_empty() {
        if let Some(at) = to_fill(&unchanged, group.endpoints.len(), owner.endpoints_max) {
            let slice = unchanged.swap_remove(at);
            let mut endpoints = slice.endpoints.clone().unwrap_or_default();
            endpoints.extend(core::mem::take(&mut group.endpoints).into_values());
            changed.push((slice, endpoints));
            continue;
        }
        let mut endpoints = Vec::new();
        while endpoints.len() < owner.endpoints_max
            && let Some((_, endpoint)) = group.endpoints.pop_first()
        {
            endpoints.push(endpoint);
        }
        changes.create.push(new_slice(owner, group.address_type, group.ports.clone(), endpoints));
    }
    for (slice, endpoints) in changed {
        changes.update.push(replacement(owner, &slice, group.ports.clone(), endpoints));
    }
}

/// The fullest slice that has room for `more` endpoints.
fn to_fill(slices: &[Arc<EndpointSlice>], more: usize, max: usize) -> Option<usize> {
    let room = |slice: &EndpointSlice| max.checked_sub(more + slice.endpoints.as_ref().map_or(0, Vec::len));
    let rooms = slices.iter().enumerate().filter_map(|(at, slice)| room(slice).map(|room| (room, at)));
    rooms.filter(|_| more < max).min().map(|(_, at)| at)
}

fn is_labelled(owner: &Owner<'_>, slice: &EndpointSlice) -> bool {
    slice.metadata.labels.as_ref() == Some(&owner.labels)
}

fn new_slice(
    owner: &Owner<'_>,
    address_type: &str,
    ports: Vec<EndpointPort>,
    endpoints: Vec<Endpoint>,
) -> EndpointSlice {
    EndpointSlice {
        address_type: address_type.to_owned(),
        endpoints: Some(endpoints),
        ports: Some(ports),
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", meta::name(owner.metadata))),
            labels: Some(owner.labels.clone()),
            annotations: owner.annotations.clone(),
            owner_references: Some(vec![meta::controller_reference(owner.resource, owner.metadata)]),
            ..ObjectMeta::default()
        },
    }
}

fn replacement(
    owner: &Owner<'_>,
    slice: &EndpointSlice,
    ports: Vec<EndpointPort>,
    endpoints: Vec<Endpoint>,
) -> EndpointSlice {
    EndpointSlice {
        address_type: slice.address_type.clone(),
        endpoints: Some(endpoints),
        ports: Some(ports),
        metadata: ObjectMeta { labels: Some(owner.labels.clone()), ..slice.metadata.clone() },
    }
}

/// A slice that would go becomes one that would be made: one write instead of two.
fn write(context: &Context<'_>, owner: &Owner<'_>, mut changes: Changes, plan: &mut Plan) {
    let mut delete = Vec::new();
    for slice in changes.delete {
        let made = changes.create.iter().rposition(|made| made.address_type == slice.address_type);
        match made.map(|at| changes.create.remove(at)) {
            Some(made) => {
                let (ports, endpoints) = (made.ports.unwrap_or_default(), made.endpoints.unwrap_or_default());
                changes.update.push(replacement(owner, &slice, ports, endpoints));
            }
            None => delete.push(slice),
        }
    }
    if !meta::is_leaving(owner.metadata) {
        for (number, mut slice) in changes.create.into_iter().enumerate() {
            let prefix = slice.metadata.generate_name.clone().unwrap_or_default();
            let name = names::generated(&prefix, meta::uid(owner.metadata), context.now, number);
            slice.metadata.name = Some(name);
            let namespace = context.key.namespace.clone();
            plan.write(Write::Create {
                resource: &resource::ENDPOINT_SLICES,
                namespace,
                body: json!(slice).into(),
            });
        }
    }
    for slice in changes.update {
        let key = Key::of(&slice.metadata);
        let body = json!(slice);
        plan.write(Write::Replace { resource: &resource::ENDPOINT_SLICES, key, body: body.into() });
    }
    for slice in delete {
        plan.write(writes::delete(&resource::ENDPOINT_SLICES, &slice.metadata));
    }
}
