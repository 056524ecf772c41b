//! Endpoints of Services: EndpointSlices, Endpoints, and slices that mirror Endpoints which another client wrote.

pub(crate) mod mirror;
mod packing;
pub(crate) mod slices;
pub(crate) mod whole;

use k8s_openapi::{
    api::core::v1::{ObjectReference, Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};

use crate::{meta, pods, prelude::*, selector};

/// The name of the Service that a slice belongs to.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The controller that manages a slice.
const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// On what belongs to a Service without a cluster IP.
const HEADLESS: &str = "service.kubernetes.io/headless";

/// The selector of a Service that leads to pods.
fn selector_of(service: &Service) -> Option<(&ServiceSpec, &BTreeMap<String, String>)> {
    let spec = service.spec.as_ref().filter(|spec| spec.type_.as_deref() != Some("ExternalName"))?;
    let selector = spec.selector.as_ref().filter(|selector| !selector.is_empty())?;
    Some((spec, selector))
}

fn is_headless(spec: &ServiceSpec) -> bool {
    matches!(spec.cluster_ip.as_deref(), None | Some("" | "None"))
}

/// The pods that a Service selects, by name.
fn selected<'a>(world: &'a World, namespace: &str, labels: &BTreeMap<String, String>) -> Vec<&'a Arc<Pod>> {
    let index = world.pod_index();
    let sets = labels.iter().map(|(label, value)| index.labelled(namespace, label, value));
    // No pod has such a label.
    let Some(sets) = sets.collect::<Option<Vec<_>>>() else { return Vec::new() };
    let rarest = sets.into_iter().min_by_key(|set| set.len());
    rarest
        .into_iter()
        .flatten()
        .filter_map(|key| world.pods().get(key))
        .filter(|pod| selector::has_all(labels, &pod.metadata))
        .collect()
}

/// The Services that a change of a pod or node concerns.
fn concerned_services(world: &World, change: &Change, keys: &mut Vec<Key>) {
    match (&change.old, &change.new) {
        (Some(Object::Pod(old)), Some(Object::Pod(new))) if has_same_endpoint(old, new) => {}
        (Some(Object::Pod(_)), _) | (_, Some(Object::Pod(_))) => {
            let versions = [&change.old, &change.new].into_iter().flatten();
            versions.for_each(|pod| services_of(world, pod.metadata(), keys));
        }
        (old, Some(Object::Node(node)))
            if old.as_ref().and_then(zone_of) != zone(&node.metadata) || old.is_none() =>
        {
            let pods = world.pod_index().on_node(meta::name(&node.metadata));
            let pods = pods.filter_map(|key| world.pods().get(key));
            pods.for_each(|pod| services_of(world, &pod.metadata, keys));
        }
        // Neither pods nor nodes, or a node that is gone: its pods tell.
        _ => {}
    }
}

fn services_of(world: &World, pod: &ObjectMeta, keys: &mut Vec<Key>) {
    let services = world.services().within(pod.namespace.as_deref().unwrap_or_default());
    let leads_here =
        |service: &Service| selector_of(service).is_some_and(|(_, labels)| selector::has_all(labels, pod));
    keys.extend(services.filter(|(_, service)| leads_here(service)).map(|(key, _)| key.clone()));
}

/// Whether nothing has changed that endpoints say of a pod.
fn has_same_endpoint(old: &Pod, new: &Pod) -> bool {
    let facts = |pod: &Pod| {
        (
            pods::is_ready(pod),
            pods::is_finished(pod),
            meta::is_leaving(&pod.metadata),
            pod.metadata.uid.clone(),
        )
    };
    facts(old) == facts(new)
        && pods::node(old) == pods::node(new)
        && old.metadata.labels == new.metadata.labels
        && addresses(old).eq(addresses(new))
}

fn zone(metadata: &ObjectMeta) -> Option<&str> {
    meta::label(metadata, "topology.kubernetes.io/zone").filter(|zone| !zone.is_empty())
}

fn zone_of(object: &Object) -> Option<&str> {
    zone(object.metadata())
}

/// The addresses of a pod.
fn addresses(pod: &Pod) -> impl Iterator<Item = &str> {
    let all = pod.status.as_ref().and_then(|status| status.pod_ips.as_ref());
    all.into_iter().flatten().map(|address| address.ip.as_str()).filter(|address| !address.is_empty())
}

/// The addresses of a pod in a family.
fn addresses_in<'a>(pod: &'a Pod, family: &'a str) -> impl Iterator<Item = &'a str> {
    addresses(pod).filter(move |address| family_of(address) == family)
}

fn family_of(address: &str) -> &'static str {
    if address.contains(':') { "IPv6" } else { "IPv4" }
}

/// The port of a pod that a port of a Service leads to.
fn target_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    let name = match port.target_port.as_ref() {
        None => return Some(port.port),
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::String(name)) => name,
    };
    let spec = pod.spec.as_ref()?;
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let protocol = |protocol: &Option<String>| protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    spec.containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten())
        .find(|known| {
            known.name.as_ref() == Some(name) && protocol(&known.protocol) == protocol(&port.protocol)
        })
        .map(|known| known.container_port)
}

/// The name by which a pod is found below its Service.
fn host_name<'a>(pod: &'a Pod, service: &ObjectMeta) -> Option<&'a str> {
    let spec = pod.spec.as_ref()?;
    let host = spec.hostname.as_deref().filter(|host| !host.is_empty())?;
    (spec.subdomain.as_deref() == Some(meta::name(service))).then_some(host)
}

fn target(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}
