//! Endpoints of Services with a selector: the older form, for clients that know no slices.

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service, ServiceSpec,
};

use super::{
    HEADLESS, addresses_in, concerned_services, host_name, is_headless, selected, selector_of, target,
    target_port,
};
use crate::{meta, pods, prelude::*, writes};

/// Addresses of one object; clients that need more read slices.
const ADDRESSES_MAX: usize = 1_000;
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const NAME: &str = "endpoint-controller";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The mark of a key while it has a Service: Endpoints are deleted with it, whichever client wrote them.
const HAD_SERVICE: u64 = 0x0073_6572_7669_6365;

/// Keeps the Endpoints of Services that have a selector.
pub const RULES: Rules = Rules {
    name: "endpoint",
    needs: &[&resource::SERVICES, &resource::PODS, &resource::ENDPOINTS],
    concerns,
    decide,
};

fn concerns(world: &World, change: &Change, keys: &mut Vec<Key>) {
    match change.latest() {
        Some(Object::Service(service)) => keys.push(Key::of(&service.metadata)),
        Some(Object::Endpoints(endpoints)) => keys.push(Key::of(&endpoints.metadata)),
        Some(Object::Pod(_)) => concerned_services(world, change, keys),
        Some(_) | None => {}
    }
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    let known = context.world.endpoints().get(context.key);
    let Some(service) = context.world.services().get(context.key) else {
        let had_service = context.remembered.is_some_and(|(mark, _)| mark == HAD_SERVICE);
        let leftover = |known: &&Arc<Endpoints>| had_service || is_ours(known);
        if let Some(known) = known.filter(|known| !meta::is_leaving(&known.metadata)).filter(leftover) {
            plan.remember(HAD_SERVICE);
            plan.write(writes::delete(&resource::ENDPOINTS, &known.metadata));
        }
        return;
    };
    plan.remember(HAD_SERVICE);
    let Some((spec, selector)) = selector_of(service) else { return };
    let pods = selected(context.world, &context.key.namespace, selector);
    let (subsets, truncated) = truncated(subsets(service, spec, &pods));
    let labels = labels(service, spec);
    let annotation = |endpoints: &Endpoints| meta::annotation(&endpoints.metadata, OVER_CAPACITY).is_some();
    match known {
        Some(known)
            if known.subsets.as_deref().unwrap_or_default() == subsets
                && known.metadata.labels.as_ref() == Some(&labels)
                && annotation(known) == truncated => {}
        Some(known) => {
            let mut metadata = ObjectMeta { labels: Some(labels), ..known.metadata.clone() };
            set_truncated(&mut metadata, truncated);
            let key = context.key.clone();
            let body = json!(Endpoints { metadata, subsets: Some(subsets) });
            plan.write(Write::Replace { resource: &resource::ENDPOINTS, key, body: body.into() });
        }
        None if meta::is_leaving(&service.metadata) => {}
        None => {
            let name = Some(context.key.name.clone());
            let mut metadata = ObjectMeta { name, labels: Some(labels), ..ObjectMeta::default() };
            set_truncated(&mut metadata, truncated);
            let namespace = context.key.namespace.clone();
            let body = json!(Endpoints { metadata, subsets: Some(subsets) });
            plan.write(Write::Create { resource: &resource::ENDPOINTS, namespace, body: body.into() });
        }
    }
}

fn is_ours(endpoints: &Endpoints) -> bool {
    meta::label(&endpoints.metadata, MANAGED_BY) == Some(NAME)
}

fn labels(service: &Service, spec: &ServiceSpec) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if is_headless(spec) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(MANAGED_BY.to_owned(), NAME.to_owned());
    labels
}

fn set_truncated(metadata: &mut ObjectMeta, truncated: bool) {
    if truncated {
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
    } else if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(OVER_CAPACITY);
    }
}

/// The addresses of pods, those with the same ports together.
fn subsets(service: &Service, spec: &ServiceSpec, pods: &[&Arc<Pod>]) -> Vec<EndpointSubset> {
    let family =
        spec.ip_families.as_ref().and_then(|families| families.first()).map_or("IPv4", String::as_str);
    let publish = spec.publish_not_ready_addresses == Some(true);
    let (mut subsets, mut portless) = (Vec::<EndpointSubset>::new(), Vec::new());
    let mut addresses: Vec<(EndpointAddress, bool, Vec<EndpointPort>)> = Vec::new();
    for pod in pods.iter().filter(|pod| !pods::is_finished(pod)) {
        if meta::is_leaving(&pod.metadata) && !publish {
            continue;
        }
        // It has no address yet.
        let Some(address) = addresses_in(pod, family).next() else { continue };
        let address = EndpointAddress {
            ip: address.to_owned(),
            hostname: host_name(pod, &service.metadata).map(ToOwned::to_owned),
            node_name: Some(pods::node(pod).to_owned()).filter(|node| !node.is_empty()),
            target_ref: Some(target(pod)),
        };
        let ready = publish || pods::is_ready(pod);
        let all = spec.ports.iter().flatten().count();
        let ports = ports(spec, pod);
        match (ports.is_empty(), all) {
            (false, _) => addresses.push((address, ready, ports)),
            (true, 0) if is_headless(spec) => portless.push((address, ready, ports)),
            (true, _) => {}
        }
    }
    addresses.append(&mut portless);
    addresses.sort_by(|(a, ..), (b, ..)| sort_key(a).cmp(&sort_key(b)));
    let mut places = BTreeMap::new();
    for (address, ready, ports) in addresses {
        let at = *places.entry(ports.iter().map(port_key).collect::<Vec<_>>()).or_insert_with(|| {
            let ports = Some(ports).filter(|ports| !ports.is_empty());
            subsets.push(EndpointSubset { ports, ..EndpointSubset::default() });
            subsets.len() - 1
        });
        let subset = &mut subsets[at];
        let list = if ready { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        list.get_or_insert_default().push(address);
    }
    subsets
}

fn port_key(port: &EndpointPort) -> (Option<String>, i32, Option<String>, Option<String>) {
    (port.name.clone(), port.port, port.protocol.clone(), port.app_protocol.clone())
}

/// By address, as numbers where it is one of IPv4.
fn sort_key(address: &EndpointAddress) -> (Vec<u8>, &str) {
    let parts = address.ip.split('.').map(|part| part.parse::<u8>());
    (parts.collect::<Result<_, _>>().unwrap_or_default(), &address.ip)
}

fn ports(spec: &ServiceSpec, pod: &Pod) -> Vec<EndpointPort> {
    let port = |port: &k8s_openapi::api::core::v1::ServicePort| {
        Some(EndpointPort {
            name: port.name.clone().filter(|name| !name.is_empty()),
            port: target_port(pod, port)?,
            protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
            app_protocol: port.app_protocol.clone(),
        })
    };
    spec.ports.iter().flatten().filter_map(port).collect()
}

/// No more than [`ADDRESSES_MAX`], those that are ready first; whether some were left out.
fn truncated(mut subsets: Vec<EndpointSubset>) -> (Vec<EndpointSubset>, bool) {
    let mut room = ADDRESSES_MAX;
    let mut left_out = false;
    let mut cut = |list: &mut Option<Vec<EndpointAddress>>| {
        let Some(addresses) = list else { return };
        left_out |= addresses.len() > room;
        addresses.truncate(room);
        room -= addresses.len();
        if addresses.is_empty() {
            *list = None;
        }
    };
    subsets.iter_mut().for_each(|subset| cut(&mut subset.addresses));
    subsets.iter_mut().for_each(|subset| cut(&mut subset.not_ready_addresses));
    subsets.retain(|subset| subset.addresses.is_some() || subset.not_ready_addresses.is_some());
    (subsets, left_out)
}
