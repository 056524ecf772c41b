//! EndpointSlices of Services with a selector.

use k8s_openapi::api::{
    core::v1::{Service, ServiceSpec},
    discovery::v1::{
        Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, ForNode, ForZone,
    },
};

use super::{
    HEADLESS, SERVICE_NAME, SLICE_MANAGED_BY, addresses_in, concerned_services, host_name, is_headless,
    packing::{Group, Owner, PortKey, identity, pack, port_key},
    selected, selector_of, target, target_port, zone,
};
use crate::{meta, pods, prelude::*};

// DEVIATION(endpoint-trigger-time): no slice says when the change was that it follows.
/// Endpoints that a slice has at most.
const ENDPOINTS_MAX: usize = 100;
const NAME: &str = "endpointslice-controller.k8s.io";
const RESERVED: &[&str] = &[SERVICE_NAME, SLICE_MANAGED_BY, HEADLESS];

/// Keeps the EndpointSlices of Services that have a selector.
pub const RULES: Rules = Rules {
    name: "endpointslice",
    needs: &[&resource::SERVICES, &resource::PODS, &resource::NODES, &resource::ENDPOINT_SLICES],
    concerns,
    decide,
};

fn concerns(world: &World, change: &Change, keys: &mut Vec<Key>) {
    match change.latest() {
        Some(Object::Service(service)) => keys.push(Key::of(&service.metadata)),
        Some(Object::EndpointSlice(slice)) if is_ours(slice) => keys.extend(service_of(slice)),
        Some(Object::Pod(_) | Object::Node(_)) => concerned_services(world, change, keys),
        Some(_) | None => {}
    }
}

fn is_ours(slice: &EndpointSlice) -> bool {
    meta::label(&slice.metadata, SLICE_MANAGED_BY) == Some(NAME)
}

fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let namespace = slice.metadata.namespace.clone().unwrap_or_default();
    meta::label(&slice.metadata, SERVICE_NAME).map(|service| Key::new(namespace, service))
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    let Some(service) = context.world.services().get(context.key) else { return };
    let Some((spec, labels)) = selector_of(service) else { return };
    let pods = selected(context.world, &context.key.namespace, labels);
    let owner = Owner {
        resource: &resource::SERVICES,
        metadata: &service.metadata,
        labels: slice_labels(service, spec),
        annotations: None,
        endpoints_max: ENDPOINTS_MAX,
    };
    let own = context.world.endpoint_slices().managed_by(meta::uid(&service.metadata));
    let existing: Vec<Arc<EndpointSlice>> =
        own.filter(|slice| is_ours(slice) && !meta::is_leaving(&slice.metadata)).cloned().collect();
    let families = spec.ip_families.as_deref().unwrap_or_default();
    for family in ["IPv4", "IPv6"] {
        let has = |slice: &&Arc<EndpointSlice>| slice.address_type == family;
        let existing: Vec<_> = existing.iter().filter(has).cloned().collect();
        let is_served =
            families.iter().any(|known| known == family) || families.is_empty() && family == "IPv4";
        if is_served {
            let groups = groups(context.world, service, spec, &pods, family);
            pack(context, &owner, &existing, groups, Some(family), plan);
        } else {
            pack(context, &owner, &existing, BTreeMap::new(), None, plan);
        }
    }
}

/// The labels of the Service, and whose slice it is.
fn slice_labels(service: &Service, spec: &ServiceSpec) -> BTreeMap<String, String> {
    let own = service.metadata.labels.iter().flatten();
    let own = own.filter(|(label, _)| !RESERVED.contains(&label.as_str()));
    let mut labels: BTreeMap<_, _> = own.map(|(label, value)| (label.clone(), value.clone())).collect();
    labels.insert(SERVICE_NAME.to_owned(), meta::name(&service.metadata).to_owned());
    labels.insert(SLICE_MANAGED_BY.to_owned(), NAME.to_owned());
    if is_headless(spec) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels
}

/// The endpoints that pods make, by their ports.
fn groups(
    world: &World,
    service: &Service,
    spec: &ServiceSpec,
    pods: &[&Arc<Pod>],
    family: &'static str,
) -> BTreeMap<PortKey, Group> {
    let mut groups: BTreeMap<PortKey, Group> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pods::is_finished(pod)) {
        let addresses: Vec<String> = addresses_in(pod, family).map(ToOwned::to_owned).collect();
        let node = world.nodes().get(&Key::new("", pods::node(pod)));
        let publish = spec.publish_not_ready_addresses == Some(true);
        // A node that is not heard of yet: the pod follows when it is.
        if addresses.is_empty() || node.is_none() && !publish {
            continue;
        }
        let (serving, terminating) = (pods::is_ready(pod), meta::is_leaving(&pod.metadata));
        let ready = publish || serving && !terminating;
        let mut endpoint = Endpoint {
            addresses,
            conditions: Some(EndpointConditions {
                ready: Some(ready),
                serving: Some(serving),
                terminating: Some(terminating),
            }),
            hostname: host_name(pod, &service.metadata).map(ToOwned::to_owned),
            node_name: Some(pods::node(pod).to_owned()).filter(|node| !node.is_empty()),
            target_ref: Some(target(pod)),
            zone: node.and_then(|node| zone(&node.metadata)).map(ToOwned::to_owned),
            ..Endpoint::default()
        };
        endpoint.hints = hints(spec, &endpoint, ready);
        let ports = ports(spec, pod);
        let empty = || Group { address_type: family, ports: ports.clone(), endpoints: BTreeMap::new() };
        let group = groups.entry(port_key(&ports)).or_insert_with(empty);
        group.endpoints.insert(identity(&endpoint), endpoint);
    }
    groups
}

fn ports(spec: &ServiceSpec, pod: &Pod) -> Vec<EndpointPort> {
    let ports = spec.ports.iter().flatten().filter_map(|port| {
        Some(EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(target_port(pod, port)?),
            protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
            app_protocol: port.app_protocol.clone(),
        })
    });
    ports.collect()
}

/// The zone or node that an endpoint is preferred for, if the Service prefers near endpoints.
fn hints(spec: &ServiceSpec, endpoint: &Endpoint, ready: bool) -> Option<EndpointHints> {
    let preference = spec.traffic_distribution.as_deref().filter(|_| ready)?;
    if !["PreferClose", "PreferSameZone", "PreferSameNode"].contains(&preference) {
        return None;
    }
    let zone = endpoint.zone.clone().map(|name| vec![ForZone { name }]);
    let node = endpoint.node_name.clone().filter(|_| preference == "PreferSameNode");
    let node = node.map(|name| vec![ForNode { name }]);
    (zone.is_some() || node.is_some()).then_some(EndpointHints { for_zones: zone, for_nodes: node })
}
