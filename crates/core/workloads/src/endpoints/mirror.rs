//! EndpointSlices that mirror Endpoints which another client wrote, of Services without a selector.

use k8s_openapi::api::{
    core::v1::{EndpointAddress, Endpoints},
    discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
};

use super::{
    SERVICE_NAME, SLICE_MANAGED_BY, family_of,
    packing::{Group, Owner, PortKey, identity, pack, port_key},
};
use crate::{meta, prelude::*, writes};

/// Addresses of one subset that are mirrored, and endpoints that such a slice has at most.
const ENDPOINTS_MAX: usize = 1_000;
const NAME: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations that say nothing of a slice.
const NOT_COPIED: &[&str] =
    &["endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration"];

/// Mirrors Endpoints without a selector into EndpointSlices.
pub const RULES: Rules = Rules {
    name: "endpointslicemirroring",
    needs: &[&resource::SERVICES, &resource::ENDPOINTS, &resource::ENDPOINT_SLICES],
    concerns,
    decide,
};

fn concerns(_world: &World, change: &Change, keys: &mut Vec<Key>) {
    match change.latest() {
        Some(object @ (Object::Service(_) | Object::Endpoints(_))) => keys.push(object.key()),
        Some(Object::EndpointSlice(slice)) if is_ours(slice) => {
            let namespace = slice.metadata.namespace.clone().unwrap_or_default();
            keys.extend(meta::label(&slice.metadata, SERVICE_NAME).map(|name| Key::new(namespace, name)));
        }
        Some(_) | None => {}
    }
}

fn is_ours(slice: &EndpointSlice) -> bool {
    meta::label(&slice.metadata, SLICE_MANAGED_BY) == Some(NAME)
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    let Some(endpoints) = context.world.endpoints().get(context.key) else { return };
    let own = context.world.endpoint_slices().managed_by(meta::uid(&endpoints.metadata));
    let existing: Vec<Arc<EndpointSlice>> =
        own.filter(|slice| is_ours(slice) && !meta::is_leaving(&slice.metadata)).cloned().collect();
    if !is_mirrored(context.world, context.key, endpoints) {
        let writes = existing.iter().map(|slice| writes::delete(&resource::ENDPOINT_SLICES, &slice.metadata));
        writes.for_each(|write| plan.write(write));
        return;
    }
    let mut labels = endpoints.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), context.key.name.clone());
    labels.insert(SLICE_MANAGED_BY.to_owned(), NAME.to_owned());
    let mut annotations = endpoints.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|name, _| !NOT_COPIED.contains(&name.as_str()));
    let owner = Owner {
        resource: &resource::ENDPOINTS,
        metadata: &endpoints.metadata,
        labels,
        annotations: Some(annotations),
        endpoints_max: ENDPOINTS_MAX,
    };
    for family in ["IPv4", "IPv6"] {
        let has = |slice: &&Arc<EndpointSlice>| slice.address_type == family;
        let existing: Vec<_> = existing.iter().filter(has).cloned().collect();
        pack(context, &owner, &existing, groups(endpoints, family), None, plan);
    }
}

/// Endpoints of a Service without a selector are mirrored, unless they say otherwise.
fn is_mirrored(world: &World, key: &Key, endpoints: &Endpoints) -> bool {
    let selects = |service: &k8s_openapi::api::core::v1::Service| {
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        selector.is_some_and(|selector| !selector.is_empty())
    };
    !meta::is_leaving(&endpoints.metadata)
        && meta::label(&endpoints.metadata, SKIP) != Some("true")
        && meta::annotation(&endpoints.metadata, LEADER).is_none()
        && world.services().get(key).is_some_and(|service| !selects(service))
}

fn groups(endpoints: &Endpoints, family: &'static str) -> BTreeMap<PortKey, Group> {
    let mut groups: BTreeMap<PortKey, Group> = BTreeMap::new();
    for subset in endpoints.subsets.iter().flatten() {
        let ports = subset.ports.iter().flatten().map(|port| EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(port.port),
            protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
            app_protocol: port.app_protocol.clone(),
        });
        let ports: Vec<EndpointPort> = ports.collect();
        let ready = subset.addresses.iter().flatten().map(|address| (address, true));
        let all = ready.chain(subset.not_ready_addresses.iter().flatten().map(|address| (address, false)));
        let all = all.take(ENDPOINTS_MAX).filter(|(address, _)| family_of(&address.ip) == family);
        let made = all.map(|(address, ready)| endpoint(address, ready));
        let made: BTreeMap<_, _> = made.map(|endpoint| (identity(&endpoint), endpoint)).collect();
        if made.is_empty() {
            continue;
        }
        let empty = || Group { address_type: family, ports: ports.clone(), endpoints: BTreeMap::new() };
        groups.entry(port_key(&ports)).or_insert_with(empty).endpoints.extend(made);
    }
    groups
}

fn endpoint(address: &EndpointAddress, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: Some(EndpointConditions { ready: Some(ready), ..EndpointConditions::default() }),
        hostname: address.hostname.clone(),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}
